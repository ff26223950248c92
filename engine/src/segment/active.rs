//! The active segment: the write head of a log. Plain state; what it lays into buffers others write.
#![cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "what it lays is its own, and no bytes from a disk"))]

use super::tail::{Laid, Tail};
use crate::format::batch::{BatchHeader, HEADER_BYTES, total_length};
use crate::format::checksum::crc32c;
use crate::format::index::{self, Index};
use crate::format::segment::SegmentHeader;
use crate::id::{Generation, Offset, SegmentId, Uid};
use strandline_disk::{BLOCK, Buffer, File, Pool, Position};

/// A file that is ready to take records, and known to the manifest as prepared.
#[derive(Clone, Debug)]
pub struct PreparedFile {
    /// Its segment.
    pub id: SegmentId,
    /// Its uid.
    pub uid: Uid,
    /// Its generation.
    pub generation: Generation,
    /// Its size in bytes.
    pub size: u64,
    /// The most that may be in flight past its durable end, in bytes, as the manifest recorded it.
    pub look_ahead: u64,
    /// Whether it was written whole and synced.
    pub anchored: bool,
    /// The file, open.
    pub file: File,
}

/// What recovery found in a segment that goes on.
#[derive(Debug)]
pub struct Found {
    /// Its end and the bytes of its last block.
    pub tail: Tail,
    /// Its batches.
    pub index: Index,
    /// Store times of the first and the last batch, 0 without one.
    pub store_times_ms: (u64, u64),
}

/// The write head of a log.
#[derive(Debug)]
pub struct Active {
    /// Its segment.
    pub id: SegmentId,
    /// The uid of its file.
    pub uid: Uid,
    /// Its generation.
    pub generation: Generation,
    /// Its file.
    pub file: File,
    /// Its first offset.
    pub base: Offset,
    /// When it took its first record, wall ms.
    pub opened_at_ms: u64,
    /// Entries of batches that were staged; only those below the durable end may be used.
    pub index: Index,
    /// Store times of the first and the last batch, 0 before one.
    pub store_times_ms: (u64, u64),
    /// Size of its file in bytes.
    pub size: u64,
    /// The most that may be in flight past its durable end, in bytes: recovery looks no further.
    pub look_ahead: u64,
    /// The staged end and the bytes of its block.
    tail: Tail,
    /// The position after the last batch of a completed write.
    written: Position,
    /// The position after the last durable batch.
    durable: Position,
    /// Commits so far.
    commits: u64,
    /// Bytes of those commits.
    commit_bytes: u64,
    /// Where the next batch goes: ahead of the tail only while a commit is being laid.
    staged: Position,
    /// Batches end here at the latest; behind it there is room for a mark, the largest index and the footer.
    limit: Position,
    /// The header block, until it was laid into the first write.
    header: Option<Box<SegmentHeader>>,
    /// Whether the manifest has been told that it is live.
    pub announced: bool,
    /// Whether its blocks were written whole and synced before it was used: what a barrier by another file may rely on.
    pub anchored: bool,
}

/// The position up to which batches may stand in a file of `size` bytes.
#[must_use]
pub fn batch_limit(size: u64) -> Position {
    Position(size.saturating_sub(index::reserve_bytes(size)).saturating_sub(HEADER_BYTES as u64))
}

impl Active {
    /// Begins a segment. Its header block goes with the first write.
    #[must_use]
    pub fn begin(prepared: PreparedFile, header: SegmentHeader) -> Active {
        Active {
            id: prepared.id,
            uid: prepared.uid,
            generation: prepared.generation,
            file: prepared.file,
            base: header.base,
            opened_at_ms: header.opened_at_ms,
            index: Index::default(),
            store_times_ms: (0, 0),
            tail: Tail::at_boundary(Position(0)),
            written: Position(BLOCK as u64),
            durable: Position(BLOCK as u64),
            commits: 0,
            commit_bytes: 0,
            staged: Position(BLOCK as u64),
            size: prepared.size,
            look_ahead: prepared.look_ahead,
            limit: batch_limit(prepared.size),
            header: Some(Box::new(header)),
            announced: false,
            anchored: prepared.anchored,
        }
    }

    /// Goes on with a segment that was recovered up to `tail`.
    #[must_use]
    pub fn resume(prepared: PreparedFile, base: Offset, opened_at_ms: u64, found: Found) -> Active {
        let Found { tail, index, store_times_ms } = found;
        Active {
            id: prepared.id,
            uid: prepared.uid,
            generation: prepared.generation,
            file: prepared.file,
            base,
            opened_at_ms,
            index,
            store_times_ms,
            staged: tail.end(),
            written: tail.end(),
            durable: tail.end(),
            tail,
            commits: 0,
            commit_bytes: 0,
            size: prepared.size,
            look_ahead: prepared.look_ahead,
            limit: batch_limit(prepared.size),
            header: None,
            announced: true,
            anchored: prepared.anchored,
        }
    }

    /// The position after the last durable batch.
    #[must_use]
    pub fn durable_end(&self) -> Position {
        self.durable
    }

    /// The position after the last batch of a completed write.
    #[must_use]
    pub fn written_end(&self) -> Position {
        self.written
    }

    /// Bytes that are written and not durable.
    #[must_use]
    pub fn unflushed_bytes(&self) -> u64 {
        self.written.since(self.durable)
    }

    /// Bytes of its batches that are durable.
    #[must_use]
    pub fn logical_bytes(&self) -> u64 {
        self.durable.since(Position(BLOCK as u64))
    }

    /// Whether `length` bytes of batches still fit behind what was staged.
    #[must_use]
    pub fn has_room(&self, length: usize) -> bool {
        self.staged.plus(length) <= self.limit
    }

    /// Whether `length` bytes more may stand past the durable end: recovery looks no further than the look-ahead.
    #[must_use]
    pub fn may_fly(&self, length: usize) -> bool {
        let from = if self.durable > Position(BLOCK as u64) { self.durable.block_floor(BLOCK) } else { Position(0) };
        self.staged.plus(length).block_ceiling(BLOCK).since(from) <= self.look_ahead
    }

    /// Whether the next commit starts in a block of its own, so that it may be written while others are in flight.
    #[must_use]
    pub fn ends_on_a_block(&self) -> bool {
        self.staged == self.staged.block_floor(BLOCK)
    }

    /// How long a mark has to be that fills the block in which `length` bytes more would end; 0 when there is nothing to fill, or
    /// no room for it.
    #[must_use]
    pub fn pad_bytes(&self, length: usize) -> usize {
        let end = self.staged.plus(length);
        let gap = end.block_ceiling(BLOCK).since(end) as usize;
        let gap = if (1..HEADER_BYTES).contains(&gap) { gap + BLOCK } else { gap };
        if self.has_room(length + gap) && self.may_fly(length + gap) { gap } else { 0 }
    }

    /// How large a buffer a commit of `length` batch bytes takes.
    #[must_use]
    pub fn buffer_bytes(&self, length: usize) -> usize {
        self.tail.buffer_bytes(self.header_bytes() + length)
    }

    fn header_bytes(&self) -> usize {
        if self.header.is_some() { BLOCK } else { 0 }
    }

    /// Takes a buffer for a commit of `length` batch bytes; `None` while the pool has none. The buffer begins with what
    /// must stand before the batches: the kept bytes of the tail's block, or the header block of a new segment.
    #[must_use]
    pub fn lay(&mut self, pool: &Pool, length: usize) -> Option<Laid> {
        let header = self.header_bytes();
        let mut laid = self.tail.lay(pool, header + length)?;
        if let Some(block) = self.header.take() {
            laid.buffer[..BLOCK].copy_from_slice(&block.encode());
            laid.kept = BLOCK;
        }
        Some(laid)
    }

    /// Lays one batch into `room`, which starts where the batch will stand; gives the bytes that it took.
    pub fn lay_batch(&mut self, header: &BatchHeader, payload: &[u8], room: &mut [u8]) -> usize {
        let length = total_length(payload.len());
        let payload_end = HEADER_BYTES + payload.len();
        room[..HEADER_BYTES].copy_from_slice(&header.encode(self.uid, self.staged));
        room[HEADER_BYTES..payload_end].copy_from_slice(payload);
        room[payload_end..length].fill(0);
        self.note(header, length);
        length
    }

    /// Lays a mark that fills all of `room`.
    pub fn lay_mark(&mut self, header: &BatchHeader, room: &mut [u8]) {
        let (head, filling) = room.split_at_mut(HEADER_BYTES);
        filling.fill(0);
        let (payload_bytes, payload_crc) = (filling.len() as u32, crc32c(filling));
        let header = BatchHeader { payload_bytes, uncompressed_bytes: payload_bytes, payload_crc, ..*header };
        head.copy_from_slice(&header.encode(self.uid, self.staged));
        self.staged = self.staged.plus(HEADER_BYTES + filling.len());
    }

    /// A commit was laid into `buffer`, which will be written at `at`: the next one goes on behind it.
    pub fn laid(&mut self, buffer: &Buffer, at: Position) {
        self.tail.advance(buffer, at, self.staged);
        self.commits += 1;
        self.commit_bytes += self.staged.since(at);
    }

    fn note(&mut self, header: &BatchHeader, length: usize) {
        self.index.note(self.staged, header);
        if self.store_times_ms.0 == 0 {
            self.store_times_ms.0 = header.store_time_ms;
        }
        self.store_times_ms.1 = header.store_time_ms;
        self.staged = self.staged.plus(length);
    }

    /// True until its first write was laid.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.header.is_some()
    }

    /// The position after the last staged batch.
    #[must_use]
    pub fn staged_end(&self) -> Position {
        self.staged
    }

    /// Bytes of a commit on the average, 0 before the first.
    #[must_use]
    pub fn mean_commit_bytes(&self) -> u64 {
        self.commit_bytes.checked_div(self.commits).unwrap_or(0)
    }

    /// A checksum of what it keeps of its last block.
    #[must_use]
    pub fn tail_checksum(&self) -> u32 {
        self.tail.checksum()
    }

    /// What ends at `end` was written.
    pub fn note_written(&mut self, end: Position) {
        self.written = self.written.max(end);
    }

    /// What ends at `end` is durable.
    pub fn note_durable(&mut self, end: Position) {
        self.durable = self.durable.max(end);
        self.written = self.written.max(end);
    }
}
