//! Scrub: a sealed segment is read again from front to end, a piece at a time, and what does not verify is told. It writes nothing.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::chain::Chain;
use super::closed::{Closed, open_file};
use super::survey::{self, Damage};
use super::time::Latest;
use crate::format::batch::PAYLOAD_BYTES_MAX;
use crate::format::scan::{Fed, Scan};
use crate::id::{Generation, Offset, SegmentId, Uid};
use strandline_disk::{BLOCK, Disk, DiskError, Errno, File, Position, transfer};

/// A sealed segment as its log knew it. When it is another one by the time that it has been read, what was found means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The segment.
    pub segment: SegmentId,
    /// The uid of its file.
    pub uid: Uid,
    /// Its generation.
    pub generation: Generation,
    /// Size of its file in bytes.
    pub size: u64,
    /// The most that may have been in flight past its durable end, in bytes.
    pub look_ahead: u64,
    /// Its first offset.
    pub base: Offset,
    /// One past its last offset.
    pub end: Offset,
}

/// What was found in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Bytes that were read.
    pub bytes: u64,
    /// Batches that verify.
    pub batches: u64,
    /// What does not, the header block among it.
    pub damage: Vec<Damage>,
    /// Why its index or its footer cannot be used, if so.
    pub index: Option<&'static str>,
}

/// What came of a step.
#[derive(Debug)]
pub enum Step {
    /// So many bytes were read, and more are left.
    More(u64),
    /// All was read; so many bytes in this step.
    Done(u64, Found),
}

/// A segment that is being read.
#[derive(Debug)]
pub struct Scrub {
    closed: Closed,
    file: File,
    scan: Scan,
    chain: Chain,
    next: Position,
    bytes: u64,
}

impl Scrub {
    /// Opens the file.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn begin<D: Disk>(disk: &D, target: Target) -> Result<Scrub, DiskError> {
        let (_, file) = open_file(disk, &target.segment, target.generation).await?;
        let (closed, next) = (target.closed(), Position(BLOCK as u64));
        let (scan, chain) = (Scan::new(closed.uid, next, PAYLOAD_BYTES_MAX), Chain::new(&closed.expected()));
        Ok(Scrub { closed, file, scan, chain, next, bytes: 0 })
    }

    /// Reads the next piece, of about so many bytes.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn step<D: Disk>(&mut self, disk: &D, bytes: usize) -> Result<Step, DiskError> {
        // In front of the footer: one that was shrunk has room for its own index only.
        let limit = Position(self.closed.size.saturating_sub(BLOCK as u64));
        if self.is_through(limit) {
            let (more, found) = self.finish(disk).await?;
            return Ok(Step::Done(more, found));
        }
        let want = bytes.min(disk.pool().largest() / 4).min(limit.since(self.next) as usize).next_multiple_of(BLOCK);
        let buffer = transfer::take_buffer(disk, want).await;
        let (buffer, result) = transfer::read(disk, &self.file, buffer, self.next).await;
        let got = match result {
            // A part of the disk that cannot be read is damage as well.
            Err(error) if error.errno == Errno::IO => {
                drop(buffer);
                let damage = Damage {
                    position: self.next,
                    from: self.chain.next,
                    to: self.closed.end,
                    reason: format!("it cannot be read: {error}"),
                };
                let (bytes, batches) = (self.bytes, self.chain.batches);
                return Ok(Step::Done(want as u64, Found { bytes, batches, damage: vec![damage], index: None }));
            }
            result => result?,
        };
        (self.next, self.bytes) = (self.next.plus(got), self.bytes.saturating_add(got as u64));
        let chain = &mut self.chain;
        let fed =
            self.scan.feed(buffer.get(..got).unwrap_or_default(), &mut |position, header| chain.take(position, header));
        // A file that is shorter than it was holds no more, and a stop is the end, or damage.
        if matches!(fed, Fed::Stopped(_)) || got < want {
            drop(buffer);
            let (more, found) = self.finish(disk).await?;
            return Ok(Step::Done(more.saturating_add(got as u64), found));
        }
        Ok(Step::More(got as u64))
    }

    /// Whether every batch has been seen, or the file can hold no more.
    fn is_through(&self, limit: Position) -> bool {
        self.chain.next >= self.closed.end || self.next >= limit
    }

    /// Looks at header, footer and index; and where the batches do not reach the end, at all of it once more, to say what is damaged.
    /// Gives how many bytes it read for that.
    async fn finish<D: Disk>(&mut self, disk: &D) -> Result<(u64, Found), DiskError> {
        let before = self.bytes;
        self.bytes = self.bytes.saturating_add(BLOCK as u64);
        let mut found = Found { batches: self.chain.batches, ..Found::default() };
        let Closed { uid, base, .. } = self.closed;
        match survey::read_header(disk, &self.file).await? {
            Ok(header) if header.uid == uid && header.segment == self.closed.id => {}
            Ok(_) => found.damage.push(header_damage(base, "the header block is of another segment".to_owned())),
            Err(why) => found.damage.push(header_damage(base, format!("the header block does not verify: {why}"))),
        }
        if self.chain.next != self.closed.end {
            let whole = self.closed.survey(disk, self.file.clone()).await?;
            found.damage.extend(whole.damage);
            self.bytes = self.bytes.saturating_add(self.closed.size);
        }
        found.index = self.closed.check_index(disk, &self.file).await?.err();
        found.bytes = self.bytes;
        Ok((self.bytes.saturating_sub(before), found))
    }
}

/// No record is in the header block: none cannot be read for it.
fn header_damage(base: Offset, reason: String) -> Damage {
    Damage { position: Position(0), from: base, to: base, reason }
}

impl Target {
    fn closed(self) -> Closed {
        let Target { segment: id, uid, generation, size, look_ahead, base, end } = self;
        Closed {
            id,
            uid,
            generation,
            size,
            look_ahead,
            anchored: false,
            base,
            end,
            opened_at_ms: 0,
            sealed: true,
            logical_bytes: 0,
            sealed_at_ms: 0,
            latest: Latest::default(),
            loaded: None,
            known: None,
        }
    }
}

impl From<&Closed> for Target {
    fn from(closed: &Closed) -> Target {
        let Closed { uid, generation, size, look_ahead, base, end, .. } = *closed;
        Target { segment: closed.id.clone(), uid, generation, size, look_ahead, base, end }
    }
}
