//! What a ring has done, readable from any thread. Only the ring's own thread writes it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one ring since it was opened.
#[derive(Debug, Default)]
pub struct RingCounters {
    enters: AtomicU64,
    submitted: AtomicU64,
    completed: AtomicU64,
}

impl RingCounters {
    /// Calls of `io_uring_enter`.
    #[must_use]
    pub fn enters(&self) -> u64 {
        self.enters.load(Ordering::Relaxed)
    }

    /// Entries that the kernel took, the ring's own (doorbell, cancels) included.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Completions that were handled, the ring's own included.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    pub(super) fn entered(&self, taken: u64) {
        add(&self.enters, 1);
        add(&self.submitted, taken);
    }

    pub(super) fn handled(&self, completions: u64) {
        add(&self.completed, completions);
    }
}

/// A plain load and store: there is one writer, so the locked instruction of `fetch_add` would buy nothing.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
