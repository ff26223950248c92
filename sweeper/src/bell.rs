//! The bell between workers and their supervisor.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What wakes the supervisor before it looks by itself.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    rung: bool,
    stop: bool,
}

impl Bell {
    /// Has it look now.
    pub(crate) fn ring(&self) {
        self.state().rung = true;
        self.changed.notify_all();
    }

    /// Has it stop.
    pub(crate) fn stop(&self) {
        self.state().stop = true;
        self.changed.notify_all();
    }

    /// Waits until it is rung, or so long. False when it is to stop.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), at_most, |state| !state.rung && !state.stop);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.rung = false;
        !state.stop
    }

    fn state(&self) -> MutexGuard<'_, Rung> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
