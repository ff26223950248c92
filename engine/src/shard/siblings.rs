//! Siblings: what the shards of a store share. One device is below all of them, so that a flush that failed concerns each.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use strandline_disk::DiskError;

/// What the shards of one store share.
#[derive(Debug, Default)]
pub struct Siblings {
    /// Flushes that failed.
    pub(super) failures: Failures,
    logs: AtomicUsize,
}

impl Siblings {
    /// Takes room for one more log; false when there are as many as there may be.
    pub(super) fn take_log(&self, limit: usize) -> bool {
        let taken =
            self.logs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |logs| (logs < limit).then_some(logs + 1));
        taken.is_ok()
    }

    /// Gives the room of logs back.
    pub(super) fn give_log_back(&self) {
        self.logs.fetch_sub(1, Ordering::Relaxed);
    }

    /// So many logs were there already.
    pub(super) fn found_logs(&self, count: usize) {
        self.logs.fetch_add(count, Ordering::Relaxed);
    }
}

/// How many flushes have failed, and how the last one did.
#[derive(Debug, Default)]
pub struct Failures {
    count: AtomicU64,
    last: Mutex<Option<DiskError>>,
}

impl Failures {
    /// A flush failed. Gives the count that the one who says so has heeded by that, if he had `seen` all before it.
    pub(super) fn note(&self, source: &DiskError, seen: u64) -> u64 {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(source.clone());
        let before = self.count.fetch_add(1, Ordering::AcqRel);
        if before == seen { before + 1 } else { seen }
    }

    /// The count and the last failure, when there were more than `seen`.
    pub(super) fn since(&self, seen: u64) -> Option<(u64, DiskError)> {
        let count = self.count.load(Ordering::Acquire);
        if count == seen {
            return None;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.map(|source| (count, source))
    }
}
