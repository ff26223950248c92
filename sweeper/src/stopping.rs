//! Stopping: a word from the one who ends a worker to the pass that is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a pass should come to an end. Clones hear the same.
#[derive(Clone, Debug, Default)]
pub struct Stopping(Arc<AtomicBool>);

impl Stopping {
    /// Passes begin with nothing more from now on.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether that was said.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
