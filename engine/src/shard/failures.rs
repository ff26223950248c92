//! Failures: what the shards of a store tell each other when a flush has failed. One device is below all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use strandline_disk::DiskError;

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
