//! Both clocks of the host, read together, and the one guard of them that everybody who sweeps a store shares.

use crate::decide::{ClockGuard, Now, Reading};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strandline::{HostClock, Store};

/// A time that was believed is made durable when the one that is durable is further from it than this, in milliseconds.
pub const KEEP_SURE_MS: u64 = 10 * 60 * 1000;

/// Reads them.
#[must_use]
pub fn read() -> Reading {
    HostClock::default().now().into()
}

/// Reads them as a store does.
#[must_use]
pub fn read_of(store: &Store) -> Reading {
    store.now().into()
}

/// A guard that several hold: what an operator confirms is confirmed for all, and it outlives whoever makes the passes.
#[derive(Clone, Debug)]
pub struct SharedClock(Arc<Mutex<ClockGuard>>);

impl SharedClock {
    /// Takes both clocks and says at which instant a pass decides.
    #[must_use]
    pub fn observe(&self, at: Reading) -> Now {
        self.guard().observe(at)
    }

    /// The guard of a store's clock. It begins where the clocks stood when the store was opened, or when its time was confirmed since, and with
    /// the last time that the store was sure of by then: all of it was read with the manifest, and cannot be missing.
    #[must_use]
    pub fn of(store: &Store) -> SharedClock {
        let anchor = store.clock().anchor();
        SharedClock::from(ClockGuard::open(anchor.at, anchor.last_ms))
    }

    /// Has the store keep the time that a pass believed, durably, when the one that it keeps is far from it. One that cannot be kept now is
    /// kept by a later pass.
    pub(crate) fn keep(&self, store: &Store, now: &Now) {
        self.keep_beyond(store, now, KEEP_SURE_MS);
    }

    /// Has it keep the present time, if that is believed: nobody sweeps from now on.
    pub(crate) fn keep_last(&self, store: &Store) {
        self.keep_beyond(store, &self.observe(read_of(store)), 0);
    }

    fn keep_beyond(&self, store: &Store, now: &Now, distance_ms: u64) {
        let (None, Some(sure_ms)) = (now.held, self.guard().sure_ms()) else { return };
        let kept_ms = store.clock().sure_ms();
        if kept_ms.is_none_or(|kept_ms| kept_ms.abs_diff(sure_ms) > distance_ms)
            && let Err(error) = store.keep_sure_time(sure_ms)
        {
            tracing::warn!(%error, "the time that was believed last could not be kept");
        }
    }

    /// What [`SharedClock::observe`] would say. Nothing is remembered of it.
    #[must_use]
    pub fn look(&self, at: Reading) -> Now {
        self.guard().clone().observe(at)
    }

    /// An operator says that the wall clock is right.
    pub fn confirm(&self, at: Reading) {
        self.guard().confirm(at);
    }

    fn guard(&self) -> MutexGuard<'_, ClockGuard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<ClockGuard> for SharedClock {
    fn from(guard: ClockGuard) -> SharedClock {
        SharedClock(Arc::new(Mutex::new(guard)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_at_a_clock_remembers_nothing_and_what_is_confirmed_is_confirmed_for_all() {
        let opened = Reading { wall_ms: 1_700_000_000_000, boot_ms: 1_000 };
        let guard = ClockGuard::open(opened, Some(0));
        let clock = SharedClock::from(guard.clone());
        let day_later = Reading { wall_ms: opened.wall_ms + 86_400_000, boot_ms: opened.boot_ms + 86_400_000 };
        assert_eq!(clock.look(day_later).held, None, "the grace is over by then");
        assert_eq!(*clock.guard(), guard);
        let other = clock.clone();
        assert!(other.observe(opened).held.is_some());
        clock.confirm(opened);
        assert_eq!(other.observe(opened).held, None);
    }
}
