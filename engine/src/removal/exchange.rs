//! Exchange: what the shards of a store share with the one that removes files.

use super::gauge::Gauge;
use super::going::{Going, Outgoing};
use super::inbox::Inbox;
use super::latencies::Latencies;
use super::scrubber::{ScrubAsked, ScrubbedSoFar};
use super::spares::Spares;
use crate::id::SegmentId;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the shards give, and what they take.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Files to remove.
    pub inbox: Inbox<Outgoing>,
    /// Segments to read again.
    pub scrubs: Inbox<ScrubAsked>,
    /// Files on their way out.
    pub going: Arc<Going>,
    /// Files for new segments.
    pub spares: Spares,
    /// How long commits took.
    pub latencies: Latencies,
    /// How much room there is.
    pub gauge: Gauge,
    /// What was done.
    pub done: Done,
    /// What was read again.
    pub scrubbed: ScrubbedSoFar,
}

impl Exchange {
    /// With these files for new segments.
    #[must_use]
    pub fn new(spares: Spares) -> Exchange {
        Exchange { spares, ..Exchange::default() }
    }

    /// Nothing is taken in any more.
    pub fn close(&self) {
        self.inbox.close();
        self.scrubs.close();
    }

    /// A segment would have taken a spare file of this size. One is made for the next, if that goes on.
    pub fn miss(&self, size: u64, segment: &SegmentId) {
        self.spares.miss(size, segment);
        self.inbox.nudge();
    }

    /// Room on the disk was used, or, with `refused`, was wanted and not there: how much is left is looked at soon.
    pub fn note_use(&self, refused: bool) {
        if self.gauge.note_use(refused) {
            self.inbox.nudge();
        }
    }
}

/// What removal has done since the store was opened, and what is left.
#[derive(Debug, Default)]
pub struct Done {
    pub(super) files: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) resting: AtomicU64,
    pub(super) held_back: AtomicU64,
    pub(super) rate: AtomicU64,
}

/// What removal has done since the store was opened, and what is left, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files that were unlinked.
    pub files: u64,
    /// Bytes of them that went back to the file system.
    pub bytes: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Files that are still to go.
    pub waiting: u64,
    /// Those of them that rest after an attempt that failed.
    pub resting: u64,
    /// Windows in which removal went slower because commits took too long.
    pub held_back: u64,
    /// Bytes a second at which it goes, or went last.
    pub rate: u64,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Removed { files, bytes, failures, waiting, resting, held_back, rate } = self;
        write!(
            f,
            "{rate} bytes a second, held back in {held_back} windows; {files} files of {bytes} bytes gone, {waiting} wait, \
             {resting} of them after a failure ({failures} in all)"
        )
    }
}

impl Done {
    /// In numbers.
    #[must_use]
    pub fn removed(&self) -> Removed {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Removed {
            files: get(&self.files),
            bytes: get(&self.bytes),
            failures: get(&self.failures),
            waiting: get(&self.waiting),
            resting: get(&self.resting),
            held_back: get(&self.held_back),
            rate: get(&self.rate),
        }
    }
}
