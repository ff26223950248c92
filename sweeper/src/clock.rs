//! Both clocks of the host, read together, and the one guard of them that everybody who sweeps a store shares.

use crate::decide::{ClockGuard, Now, Reading};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads them.
#[must_use]
pub fn read() -> Reading {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let boot = clock_gettime(ClockId::Boottime);
    let boot_ms = (boot.tv_sec as u64).saturating_mul(1_000).saturating_add(boot.tv_nsec as u64 / 1_000_000);
    Reading { wall_ms: wall.as_millis().try_into().unwrap_or(u64::MAX), boot_ms }
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
