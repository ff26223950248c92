//! Seal: a closed segment gets its index and its footer in the background, and the manifest hears of it.
//!
//! Its data is durable and readable without them. So what only could not be opened is tried again after a while, and what found no room with the
//! next seal of the log that finds some; a flush that failed is not, as everywhere, and the next open of the store seals the segment.

use super::command::LogNumber;
use super::descriptors::Descriptors;
use super::shard::{Event, Sealing, Shard};
use super::timers::Timer;
use crate::error::VerbError;
use crate::format::manifest::Edit;
use crate::id::{SegmentId, Seq};
use crate::layout;
use crate::manifest::{Edits, ManifestError};
use crate::segment::closed::Closed;
use crate::segment::seal;
use std::collections::BTreeMap;
use std::rc::Rc;
use strandline_disk::{Disk, DiskError, Errno, Position, Verb};

/// What failed in the background and may succeed later is tried again after so long, in nanoseconds.
const AGAIN_NS: u64 = 10_000_000_000;

/// The seals of a shard: who waits for one, and which failed.
#[derive(Default)]
pub(super) struct Seals {
    pub(super) asked: BTreeMap<(LogNumber, Seq), Vec<Sealing>>,
    pub(super) failed: BTreeMap<(LogNumber, Seq), SealError>,
}

/// Why a segment was not sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SealError {
    /// It could not be opened or read: that takes nothing along.
    Unread(DiskError),
    /// It is damaged there, and stays as it is.
    Damaged(Position),
    /// Index or footer could not be written.
    Disk(DiskError),
    /// The manifest was not told.
    Manifest(ManifestError),
}

impl SealError {
    /// Whether it may succeed before the store is opened again.
    pub(super) fn is_tried_again(&self) -> bool {
        match self {
            SealError::Unread(_) | SealError::Manifest(ManifestError::Full { .. }) => true,
            SealError::Disk(source) => source.is_without_room(),
            SealError::Damaged(_) | SealError::Manifest(_) => false,
        }
    }

    /// What whoever waits for the seal is told.
    pub(super) fn answer(&self, segment: &SegmentId) -> VerbError {
        match self {
            SealError::Unread(source) | SealError::Disk(source) => source.clone().into(),
            SealError::Damaged(position) => VerbError::Damaged { segment: segment.clone(), position: *position },
            SealError::Manifest(error) => error.clone().into(),
        }
    }

    /// What whoever closes the store is told.
    pub(super) fn source(&self, segment: &SegmentId) -> DiskError {
        match self {
            SealError::Unread(source) | SealError::Disk(source) => source.clone(),
            SealError::Damaged(_) => DiskError::new(Verb::Read, layout::directory_name(segment).as_str(), Errno::IO),
            SealError::Manifest(error) => super::settle::as_disk_error(error),
        }
    }
}

/// What a segment was sealed as.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealedAs {
    /// When, wall ms.
    at_ms: u64,
    logical_bytes: u64,
    index_entries: usize,
    data_end: Position,
}

impl<D: Disk> Shard<D> {
    /// Starts sealing a closed segment: index, footer, manifest edit. One that was let go of meanwhile is opened and read for that.
    pub(super) fn seal(&mut self, number: LogNumber, segment: Seq) {
        let Some(closed) = self.logs[number.0].closed_at(segment).filter(|closed| !closed.sealed) else { return };
        let closed = closed.clone();
        self.seals.failed.remove(&(number, segment));
        let (disk, edits, descriptors) = (self.disk.clone(), self.edits.clone(), self.descriptors.clone());
        // Sealing stamps true time, even where the clamp holds the stamps of the batches; where the clock is in doubt, none that is too early.
        let sealed_at_ms = self.siblings.clock.latest_ms(self.now);
        // The manifest can seal only what it knows to be live: that edit was handed in when the segment's first commit was settled.
        self.spawn_background(number, async move {
            let result = seal_closed((&disk, &descriptors), &closed, sealed_at_ms, &edits).await;
            Event::Sealed { log: number, segment, result }
        });
    }

    pub(super) fn settle_sealed(&mut self, number: LogNumber, segment: Seq, result: Result<SealedAs, SealError>) {
        let log = &mut self.logs[number.0];
        let Some(closed) = log.closed_at_mut(segment) else { return };
        match result {
            Ok(SealedAs { at_ms, logical_bytes, index_entries, data_end }) => {
                closed.sealed = true;
                closed.sealed_at_ms = at_ms;
                closed.logical_bytes = logical_bytes;
                closed.loaded = None;
                self.answer_sealings(number, segment, &Ok(()));
                self.release_below_the_start(number);
                self.shrink_later(number, segment, index_entries, data_end);
                self.again_is_due(number);
            }
            Err(error) => {
                tracing::warn!(segment = %closed.id, ?error, "sealing failed");
                // It is not held open for that; damage is known as long as it is.
                closed.loaded.take_if(|loaded| loaded.damage.is_empty());
                let answer = error.answer(&closed.id);
                match &error {
                    SealError::Disk(source) => self.latch_what_a_flush_took_along(source, std::iter::empty()),
                    SealError::Manifest(error) => self.latch_what_the_manifest_took_along(error),
                    SealError::Unread(_) | SealError::Damaged(_) => {}
                }
                // Where there was no room it goes with the next seal that finds some.
                if matches!(error, SealError::Unread(_)) {
                    self.try_again(number);
                }
                self.seals.failed.insert((number, segment), error);
                self.answer_sealings(number, segment, &Err(answer));
            }
        }
    }

    /// Has what failed in the background of a log tried again after a while.
    pub(super) fn try_again(&mut self, number: LogNumber) {
        self.timers.set(number, Timer::Again, self.now.boot_ns.saturating_add(AGAIN_NS));
    }

    /// Tries again what had failed in the background of a log.
    pub(super) fn again_is_due(&mut self, number: LogNumber) {
        self.shrink_next();
        let log = &self.logs[number.0];
        self.seals.failed.retain(|(of, segment), _| *of != number || log.closed_at(*segment).is_some());
        let of_log = self.seals.failed.range((number, Seq::default())..).take_while(|((of, _), _)| *of == number);
        let due: Vec<Seq> =
            of_log.filter(|(_, error)| error.is_tried_again()).map(|((_, segment), _)| *segment).collect();
        // A log that has failed is left as it is.
        if due.is_empty() || log.deleted || log.latch.is_some() || self.closing.is_some() {
            return;
        }
        if log.verb_at_work {
            return self.try_again(number); // It may be cutting the segment.
        }
        due.into_iter().for_each(|segment| self.seal(number, segment));
    }
}

async fn seal_closed<D: Disk>(
    (disk, descriptors): (&D, &Descriptors),
    closed: &Closed,
    sealed_at_ms: u64,
    edits: &Edits,
) -> Result<SealedAs, SealError> {
    let loaded = match &closed.loaded {
        Some(loaded) => loaded.clone(),
        None => Rc::new(super::read::load(disk, descriptors, closed).await.map_err(SealError::Unread)?),
    };
    if let Some(damage) = loaded.damage.first() {
        tracing::error!(segment = %closed.id, position = %damage.position, "it is damaged, and not sealed");
        return Err(SealError::Damaged(damage.position));
    }
    let footer = closed.footer(&loaded, sealed_at_ms);
    let edit = Edit::Sealed {
        segment: closed.id.clone(),
        end: footer.end,
        logical_bytes: footer.logical_bytes(),
        first_store_time_ms: footer.first_store_time_ms,
        last_store_time_ms: footer.last_store_time_ms,
        sealed_at_ms: footer.sealed_at_ms,
    };
    seal::seal(disk, &loaded.file, closed.size, &loaded.index, footer).await.map_err(SealError::Disk)?;
    edits.submit(vec![edit]).await.map_err(SealError::Manifest)?;
    let (index_entries, data_end) = (loaded.index.entries().len(), loaded.data_end);
    Ok(SealedAs { at_ms: sealed_at_ms, logical_bytes: footer.logical_bytes(), index_entries, data_end })
}
