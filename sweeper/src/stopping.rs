//! Stopping: a word from the one who ends a worker to the pass that is under way, and one back from a pass that takes long: it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether a pass should come to an end, and whether it gets anywhere. Clones hear the same.
#[derive(Clone, Debug, Default)]
pub struct Stopping(Arc<Words>);

#[derive(Debug, Default)]
struct Words {
    stop: AtomicBool,
    progress: AtomicU64,
}

impl Stopping {
    /// Passes begin with nothing more from now on.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
    }

    /// Whether that was said.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.stop.load(Ordering::Acquire)
    }

    /// The pass that is under way got somewhere: it takes long, and does not hang.
    pub fn note_progress(&self) {
        self.0.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was said.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.0.progress.load(Ordering::Relaxed)
    }
}
