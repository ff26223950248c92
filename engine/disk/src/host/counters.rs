//! What a disk has done, readable from any thread. Only the disk's own thread writes it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one disk since it was opened.
#[derive(Debug, Default)]
pub struct DiskCounters {
    enters: AtomicU64,
    submitted: AtomicU64,
    completed: AtomicU64,
}

impl DiskCounters {
    /// System calls by which the disk's thread handed operations on and waited: those of `io_uring_enter` over a ring; else waits and
    /// wakes, without the calls that its other threads make for the operations.
    #[must_use]
    pub fn enters(&self) -> u64 {
        self.enters.load(Ordering::Relaxed)
    }

    /// Entries that the kernel took, the ring's own (doorbell, cancels) included; or calls that were handed to threads.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Completions that were handled, the ring's own included; or answers of threads.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    pub(crate) fn called(&self, calls: u64) {
        add(&self.enters, calls);
    }

    pub(crate) fn submitted_more(&self, operations: u64) {
        add(&self.submitted, operations);
    }

    pub(crate) fn handled(&self, completions: u64) {
        add(&self.completed, completions);
    }
}

/// A plain load and store: there is one writer, so the locked instruction of `fetch_add` would buy nothing.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
