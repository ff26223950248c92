//! Prepare: the next segment of a log that is being written, made before it is needed and off the append path.
//!
//! The order matters: the file and the names are durable, then the manifest durably knows the segment as prepared, and only
//! then may a record go into it. Otherwise an acknowledged record could stand in a file that nothing leads to.

use super::command::LogNumber;
use super::descriptors::Descriptors;
use super::roll::PREPARE_RETRY_NS;
use super::shard::{Event, Shard};
use super::siblings::Siblings;
use crate::config::{CheckedConfig, Preallocate, grade, sabotaged};
use crate::format::manifest::{Edit, ReleaseReason};
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::host::Refusal;
use crate::id::{Epoch, Generation, Offset, SegmentId, StoreId, Uid};
use crate::layout;
use crate::log::{Asked, Making, Successor};
use crate::manifest::{Edits, ManifestError};
use crate::removal::pressure::Stage;
use crate::removal::syncs::Syncs;
use crate::removal::{recycle, reuse};
use crate::segment::active::PreparedFile;
use crate::segment::closed::open_file;
use crate::segment::survey;
use crate::segment::unopened::Unopened;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::rc::Rc;
use std::sync::Arc;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, Errno, File, OpenFile, Position, Verb, transfer};

/// How much one write of a burst fills with zeros, in bytes.
const FILL_PIECE_BYTES: u64 = 1 << 20;
/// The largest burst, in bytes: an append that meets it waits for about 45 ms.
const BURST_BYTES_MAX: u64 = 24 << 20;
/// How many commits there should be for one burst. A commit whose flush meets a burst waits for all of it, so filling goes in bursts
/// that are rare and in flight as a whole: one or two commits in a thousand meet one, where a steady trickle would slow down all.
const COMMITS_A_BURST: u64 = 1_000;
/// How far the active segment is used when its successor may be needed soon, in thousandths.
const NEEDED_SOON_PER_MILLE: u64 = 500;
/// How far a successor should be filled when its predecessor is used so far, both in thousandths: spread evenly, so that appends
/// do not notice, and done when four fifths are used, so that the syncs after it are done in time.
fn fill_wanted(used_per_mille: u32) -> u32 {
    used_per_mille.saturating_mul(5) / 4 + 10
}

/// How soon a segment is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// When the active one is full: filled at the pace at which that one is written.
    Paced,
    /// By nobody yet: filled whole, without a rest.
    Whole,
    /// Now: filled no further.
    Hurry,
}

/// Why the next segment could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PrepareError {
    /// The disk failed.
    Disk(DiskError),
    /// The manifest did not take it.
    Manifest(ManifestError),
    /// The host did not want it.
    Host(Refusal),
    /// There are no segment numbers left.
    Exhausted,
}

impl From<DiskError> for PrepareError {
    fn from(source: DiskError) -> PrepareError {
        PrepareError::Disk(source)
    }
}

impl<D: Disk> Shard<D> {
    /// Starts making the successor of a log that is being written, unless there is one.
    pub(super) fn prepare_ahead(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        // The manifest hears of segments in their order: that this one is live, and then that the next one is prepared.
        let Some(active) = log.active.as_ref().filter(|active| active.announced) else { return };
        let used = active.staged_end().0.saturating_mul(1000) / active.size.max(1);
        match &log.successor {
            Successor::Making(making) => {
                making.want(fill_wanted(used as u32), active.mean_commit_bytes() * COMMITS_A_BURST)
            }
            // One that is there already is opened when it may be needed soon; while descriptors are few none is made earlier than that.
            Successor::None if used < NEEDED_SOON_PER_MILLE && (log.ahead.is_some() || self.descriptors.are_few()) => {}
            Successor::None => self.prepare(number, Urgency::Paced),
            Successor::Failed(_, at_ns) if self.now.boot_ns.saturating_sub(*at_ns) >= 10 * PREPARE_RETRY_NS => {
                self.prepare(number, Urgency::Paced);
            }
            Successor::Ready(_) | Successor::Failed(..) => {}
        }
    }

    /// Starts making the successor of a log, or opens the one that was made.
    pub(super) fn prepare(&mut self, number: LogNumber, urgency: Urgency) {
        let log = &mut self.logs[number.0];
        let ahead = log.ahead.clone();
        let next = log.next_seq.map(|seq| SegmentId { log: log.id.clone(), seq });
        if ahead.is_none() && next.is_none() {
            return;
        }
        let making = Rc::new(Making::default());
        match urgency {
            Urgency::Paced => {}
            Urgency::Whole => making.want(u32::MAX, BURST_BYTES_MAX),
            Urgency::Hurry => making.hurry(),
        }
        log.successor = Successor::Making(making.clone());
        let (disk, edits) = (self.disk.clone(), self.edits.clone());
        let (config, store, epoch) = (self.config.clone(), self.store, log.epoch);
        let size = grade(log.options.segment_bytes.unwrap_or(config.segment_bytes));
        let (siblings, syncs, descriptors) = (self.siblings.clone(), self.syncs.clone(), self.descriptors.clone());
        self.spawn_background(number, async move {
            let plan = Plan { disk, config, store, epoch, size, making, siblings, syncs, descriptors };
            Event::Prepared { log: number, result: plan.open_or_make(ahead, next, edits).await }
        });
    }
}

/// A file that was made ahead is given up: it holds nothing.
pub(super) fn given_up(ahead: &Unopened) -> Edit {
    Edit::released(&ahead.id, ahead.uid, ahead.generation, ReleaseReason::Orphan)
}

/// What making a segment needs; owned, so that the task holds nothing of the shard.
struct Plan<D> {
    disk: D,
    config: Rc<CheckedConfig>,
    store: StoreId,
    epoch: Epoch,
    /// Size of the file in bytes: its grade.
    size: u64,
    making: Rc<Making>,
    siblings: Arc<Siblings>,
    syncs: Syncs,
    descriptors: Descriptors,
}

impl<D: Disk> Plan<D> {
    /// Opens the file that was made ahead and let go of; makes `next` where there is none. One that cannot be opened holds nothing: another is
    /// made, and it is given up with the edit of that: the next open could not tell that it holds nothing.
    async fn open_or_make(
        &self,
        ahead: Option<Unopened>,
        next: Option<SegmentId>,
        edits: Edits,
    ) -> Result<PreparedFile, PrepareError> {
        if let Some(ahead) = &ahead {
            let room = self.descriptors.room(2).await?;
            match ahead.open(&self.disk).await {
                Ok((_, prepared)) => return Ok(prepared),
                Err(error) if error.is_out_of_descriptors() => return Err(error.into()),
                Err(error) => tracing::warn!(%error, "a file that was made ahead cannot be opened: another is made"),
            }
            drop(room);
        }
        self.make(next.ok_or(PrepareError::Exhausted)?, ahead, edits).await
    }

    /// Makes a segment in place of another, if there is one.
    async fn make(
        &self,
        mut segment: SegmentId,
        replaced: Option<Unopened>,
        edits: Edits,
    ) -> Result<PreparedFile, PrepareError> {
        // Until the manifest knows it, nobody may take its directory for a stray.
        let ((header, file, written), _claim) = loop {
            let claim = self.siblings.claim(vec![segment.clone()]);
            let made = match (&claim, self.siblings.removal.going.newest(&segment)) {
                (Ok(_), None) => self.make_file(&segment).await?,
                _ => None, // A stray, or of a log of this name that was deleted: it is on its way out.
            };
            if let (Some(made), Ok(claim)) = (made, claim) {
                break (made, claim);
            }
            segment.seq = segment.seq.next().ok_or(PrepareError::Exhausted)?;
        };
        let SegmentHeader { uid, generation, size, look_ahead, .. } = header;
        let edit = Edit::Prepared { segment: segment.clone(), uid, generation, size, look_ahead, written };
        let durable = edits.submit(replaced.as_ref().map(given_up).into_iter().chain([edit]).collect());
        if !sabotaged!(self.config, RecordBeforeEdit) {
            durable.await.map_err(PrepareError::Manifest)?;
        }
        Ok(PreparedFile { id: segment, uid, generation, size, look_ahead, anchored: written, file })
    }

    /// Takes a spare file for the segment, or makes one: durably there, with its header block, and whether all of it was written. `None`
    /// when the segment's number cannot be used.
    async fn make_file(&self, segment: &SegmentId) -> Result<Option<(SegmentHeader, File, bool)>, PrepareError> {
        let header = SegmentHeader {
            uid: Uid(self.disk.random()),
            store: self.store,
            state: SegmentState::Prepared,
            segment: segment.clone(),
            generation: Generation(0),
            base: Offset(0),
            opened_at_ms: 0,
            epoch: self.epoch,
            size: self.size,
            look_ahead: self.config.look_ahead(),
        };
        // The host knows of a segment before there is anything of it: what it does not know is an orphan.
        if let Some(host) = &self.config.host {
            let (answer, answered) = crate::pending::pair();
            host.0.register(segment, answer);
            answered.await.map_err(PrepareError::Host)?;
        }
        // Directory and file, and those of the pool.
        let room = self.descriptors.room(4).await?;
        // Also where no room is used here: a store that is written looks how much the others leave.
        self.siblings.removal.note_use(false);
        if let Some(file) =
            reuse::reuse(&self.disk, &self.config, &self.siblings.removal.spares, &self.syncs, &header).await?
        {
            // Another may be wanted in its place.
            self.siblings.removal.inbox.nudge();
            return Ok(Some((header, file, true)));
        }
        let removal = &self.siblings.removal;
        removal.miss(header.size, segment);
        if removal.gauge.stage() == Stage::Hard {
            // What little room there is is left to what frees some.
            return Err(DiskError::new(Verb::Allocate, layout::directory_name(segment).as_str(), Errno::NOSPC).into());
        }
        let Some(directory) = self.make_directory(segment).await? else { return Ok(None) };
        let name = layout::data_file_name(header.generation);
        let file = transfer::open(&self.disk, &directory, &name, OpenFile::New, Access::Auto).await?;
        let written = self.config.preallocate == Preallocate::Written && self.disk.capabilities().can_write_zeroes();
        if written {
            transfer::write_zeroes(&self.disk, &file, Position(0), self.size).await?;
            recycle::write_header(&self.disk, &file, &header).await?;
        } else if self.config.preallocate != Preallocate::Off {
            transfer::allocate(&self.disk, &file, self.size).await?;
        }
        drop(room);
        let (directory, file, written) = match written {
            true => (directory, file, true),
            false => self.fill((directory, file), &header).await?,
        };
        // Without this sync the length, the extents and the header could be lost under a record that was acknowledged.
        transfer::sync(&self.disk, &file).await?;
        // Without these two the file, or its directory, could be gone after a power cut.
        if !sabotaged!(self.config, SkipDirectorySync) {
            transfer::sync_directory(&self.disk, &directory).await?;
            self.syncs.root.sync(&self.disk, &self.disk.root()).await?;
        }
        Ok(Some((header, file, written)))
    }

    /// Makes the segment's directory. `None` when a directory of this name holds a live segment that the manifest does not
    /// know: it is left alone, and its number is not used.
    async fn make_directory(&self, segment: &SegmentId) -> Result<Option<Directory>, DiskError> {
        let (root, name) = (self.disk.root(), layout::directory_name(segment));
        match transfer::create_directory(&self.disk, &root, &name).await {
            Ok(()) => return transfer::open_directory(&self.disk, &root, &name).await.map(Some),
            Err(error) if error.errno != Errno::EXIST => return Err(error),
            Err(_) => {}
        }
        // Left over from a process that died before the manifest knew the segment, or from an attempt that failed, and took it from the pool:
        // what is built here must not go back there at a power cut.
        let directory = transfer::open_directory(&self.disk, &root, &name).await?;
        let pool = recycle::pool(&self.disk).await?;
        self.syncs.pool.sync(&self.disk, &pool).await?;
        let file_name = layout::data_file_name(Generation(0));
        match transfer::open(&self.disk, &directory, &file_name, OpenFile::Existing, Access::Auto).await {
            Err(error) if error.is_absent() => return Ok(Some(directory)),
            Err(error) => return Err(error),
            Ok(file) => {
                let header = survey::read_header(&self.disk, &file).await?;
                if header.is_ok_and(|header| header.state == SegmentState::Live) {
                    tracing::warn!(directory = %name, "a live segment that the manifest does not know is left alone");
                    return Ok(None);
                }
            }
        }
        transfer::unlink(&self.disk, &directory, &file_name).await?;
        Ok(Some(directory))
    }

    /// Writes the header block, and with `preallocate = written` zeros behind it, in bursts, pacing itself by how full the active segment
    /// is. In a hurry the rest stays unwritten: those appends cost more, but none waits for the filling. Gives the open file, and whether
    /// the whole of it was written.
    async fn fill(
        &self,
        (mut directory, mut file): (Directory, File),
        header: &SegmentHeader,
    ) -> Result<(Directory, File, bool), DiskError> {
        let whole = self.config.preallocate == Preallocate::Written;
        let end = if whole { header.size } else { BLOCK as u64 };
        let mut position = Position(0);
        while position.0 < end && (position.0 == 0 || !self.making.is_hurried()) {
            // Waits without a buffer: a log may stay half full for long.
            let filled_per_mille = (position.0.saturating_mul(1000) / header.size) as u32;
            if self.making.wanted(filled_per_mille, true).await == Asked::LetGo {
                // Durable before it is closed: what its pages have failed to write would be forgotten with them.
                transfer::sync(&self.disk, &file).await?;
                drop((directory, file));
                self.making.wanted(filled_per_mille, false).await;
                let _room = self.descriptors.room(2).await?;
                (directory, file) = open_file(&self.disk, &header.segment, header.generation).await?;
                continue;
            }
            // Appends and reads keep the rest of the arena.
            let most = BURST_BYTES_MAX.min(self.disk.pool().largest() as u64 * 3 / 4);
            let burst = self.making.burst_bytes().clamp(FILL_PIECE_BYTES.min(most), most);
            // Equal bursts: a small last one would cost a commit as well.
            let left = end - position.0;
            let stop =
                position.plus(left.div_ceil(left.div_ceil(burst)) as usize).block_ceiling(BLOCK).min(Position(end));
            self.burst(&file, header, position, stop).await?;
            position = stop;
        }
        Ok((directory, file, position.0 >= header.size))
    }

    /// Fills `from..to`, all of it in flight at once; the header block goes first where it is in there.
    async fn burst(&self, file: &File, header: &SegmentHeader, from: Position, to: Position) -> Result<(), DiskError> {
        let mut pieces = FuturesUnordered::new();
        let mut at = from;
        while at < to {
            let length = to.since(at).min(FILL_PIECE_BYTES).min(self.disk.pool().largest() as u64 / 4) as usize;
            let buffer = match self.disk.pool().take(length) {
                Some(buffer) => Some(buffer),
                None if pieces.is_empty() => Some(transfer::take_buffer(&self.disk, length).await),
                None => None,
            };
            let Some(mut buffer) = buffer else {
                // Nobody holds pieces of his own while waiting for a buffer: they are written first.
                if let Some((_, result)) = pieces.next().await {
                    result?;
                }
                continue;
            };
            buffer.fill(0);
            if at.0 == 0 {
                buffer[..BLOCK].copy_from_slice(&header.encode());
            }
            pieces.push(transfer::write(&self.disk, file, buffer, at, false));
            at = at.plus(length);
        }
        while let Some((_, result)) = pieces.next().await {
            result?;
        }
        Ok(())
    }
}
