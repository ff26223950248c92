//! Prepare: the next segment of a log that is being written, made before it is needed and off the append path.
//!
//! The order matters: the file and the names are durable, then the manifest durably knows the segment as prepared, and only
//! then may a record go into it. Otherwise an acknowledged record could stand in a file that nothing leads to.

use super::command::LogNumber;
use super::shard::{Event, Shard};
use super::stage::RETRY_NS;
use crate::config::{CheckedConfig, Preallocate, sabotaged};
use crate::format::manifest::Edit;
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{Epoch, Generation, Offset, SegmentId, Seq, StoreId, Uid};
use crate::layout;
use crate::log::{Making, Successor};
use crate::manifest::{Edits, ManifestError};
use crate::segment::active::PreparedFile;
use crate::segment::survey;
use std::rc::Rc;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, Errno, File, OpenFile, Position, transfer};

/// How much is filled with zeros at once, in bytes. Small, so that an append that comes meanwhile waits little.
const FILL_BYTES: usize = 128 << 10;
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
        let Some(active) = &log.active else { return };
        let used = active.staged_end().0.saturating_mul(1000) / active.size.max(1);
        match &log.successor {
            Successor::Making(making) => making.want(fill_wanted(used as u32)),
            Successor::None => self.prepare(number, Urgency::Paced),
            Successor::Failed(_, at_ns) if self.now.boot_ns.saturating_sub(*at_ns) >= 10 * RETRY_NS => {
                self.prepare(number, Urgency::Paced);
            }
            Successor::Ready(_) | Successor::Failed(..) => {}
        }
    }

    /// Starts making the successor of a log.
    pub(super) fn prepare(&mut self, number: LogNumber, urgency: Urgency) {
        let log = &mut self.logs[number.0];
        let Some(seq) = log.next_seq else { return };
        let making = Rc::new(Making::default());
        match urgency {
            Urgency::Paced => {}
            Urgency::Whole => making.want(u32::MAX),
            Urgency::Hurry => making.hurry(),
        }
        log.successor = Successor::Making(making.clone());
        let segment = SegmentId { log: log.id.clone(), seq };
        let (disk, edits) = (self.disk.clone(), self.manifest.edits());
        let (config, store, epoch) = (self.config.clone(), self.store, log.epoch);
        self.spawn(async move {
            let plan = Plan { disk, config, store, epoch, making };
            Event::Prepared { log: number, result: plan.make(segment, edits).await }
        });
    }
}

/// What making a segment needs; owned, so that the task holds nothing of the shard.
struct Plan<D> {
    disk: D,
    config: Rc<CheckedConfig>,
    store: StoreId,
    epoch: Epoch,
    making: Rc<Making>,
}

impl<D: Disk> Plan<D> {
    async fn make(&self, mut segment: SegmentId, edits: Edits) -> Result<PreparedFile, PrepareError> {
        let directory = loop {
            match self.make_directory(&segment).await? {
                Some(directory) => break directory,
                None => segment.seq = segment.seq.next().ok_or(PrepareError::Exhausted)?,
            }
        };
        let (uid, generation) = (Uid(self.disk.random()), Generation(0));
        let name = layout::data_file_name(generation);
        let file = transfer::open(&self.disk, &directory, &name, OpenFile::New, Access::Auto).await?;
        let size = self.config.segment_bytes;
        if self.config.preallocate != Preallocate::Off {
            transfer::allocate(&self.disk, &file, size).await?;
        }
        let look_ahead = self.config.look_ahead();
        let header = SegmentHeader {
            uid,
            store: self.store,
            state: SegmentState::Prepared,
            segment: segment.clone(),
            generation,
            base: Offset(0),
            opened_at_ms: 0,
            epoch: self.epoch,
            size,
            look_ahead,
        };
        self.fill(&file, &header).await?;
        // Without this sync the length, the extents and the header could be lost under a record that was acknowledged.
        transfer::sync(&self.disk, &file).await?;
        // Without these two the file, or its directory, could be gone after a power cut.
        transfer::sync_directory(&self.disk, &directory).await?;
        transfer::sync_directory(&self.disk, &self.disk.root()).await?;
        let edit = Edit::Prepared { segment: segment.clone(), uid, generation, size, look_ahead };
        let durable = edits.submit(vec![edit]);
        if !sabotaged!(self.config, RecordBeforeEdit) {
            durable.await.map_err(PrepareError::Manifest)?;
        }
        Ok(PreparedFile { id: segment, uid, generation, size, look_ahead, file })
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
        // Left over from a process that died before the manifest knew the segment.
        let directory = transfer::open_directory(&self.disk, &root, &name).await?;
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

    /// Writes the header block, and with `preallocate = written` zeros behind it, pacing itself by how full the active segment is.
    /// In a hurry the rest stays unwritten: those appends cost more, but none waits for the filling.
    async fn fill(&self, file: &File, header: &SegmentHeader) -> Result<(), DiskError> {
        let whole = self.config.preallocate == Preallocate::Written;
        let end = if whole { header.size } else { BLOCK as u64 };
        let mut position = Position(0);
        while position.0 < end && (position.0 == 0 || !self.making.is_hurried()) {
            // Waits without a buffer: a log may stay half full for long.
            self.making.wanted((position.0.saturating_mul(1000) / header.size) as u32).await;
            let length = (end - position.0).min(FILL_BYTES as u64) as usize;
            let mut buffer = transfer::take_buffer(&self.disk, length).await;
            buffer.fill(0);
            if position.0 == 0 {
                buffer[..BLOCK].copy_from_slice(&header.encode());
            }
            transfer::write(&self.disk, file, buffer, position, false).await.1?;
            position = position.plus(length);
        }
        Ok(())
    }
}

/// The number after the highest that a log has used.
pub(super) fn next_seq(used: impl Iterator<Item = Seq>) -> Option<Seq> {
    used.max().map_or(Seq::new(0), Seq::next)
}
