//! The clocks of the host, and a wall clock that a test has set wrong.

use crate::clock::Now;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Reads both clocks of the host. Clones read the same ones.
#[derive(Clone, Debug, Default)]
pub struct HostClock {
    ahead_ms: Option<Arc<AtomicI64>>,
}

impl HostClock {
    /// One whose wall clock can be set wrong, for tests. It begins so many milliseconds ahead of the host's.
    #[must_use]
    pub fn ahead_by(ms: i64) -> HostClock {
        HostClock { ahead_ms: Some(Arc::new(AtomicI64::new(ms))) }
    }

    /// Sets the wall clock so many milliseconds ahead of the host's; nothing in one that was not made for that.
    pub fn set_ahead(&self, ms: i64) {
        self.ahead_ms.iter().for_each(|ahead_ms| ahead_ms.store(ms, Ordering::Relaxed));
    }

    /// Reads both.
    #[must_use]
    pub fn now(&self) -> Now {
        let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let wall_ms = wall.tv_sec as u64 * 1_000 + wall.tv_nsec as u64 / 1_000_000;
        let ahead_ms = self.ahead_ms.as_ref().map_or(0, |ahead_ms| ahead_ms.load(Ordering::Relaxed));
        Now { wall_ms: wall_ms.saturating_add_signed(ahead_ms), boot_ns: boot_ns() }
    }
}

/// Nanoseconds since boot, suspended time included.
pub(crate) fn boot_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl PartialEq for HostClock {
    /// Whether they are the same clock.
    fn eq(&self, other: &HostClock) -> bool {
        match (&self.ahead_ms, &other.ahead_ms) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for HostClock {}
