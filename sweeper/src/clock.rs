//! Both clocks of the host, read together.

use crate::decide::Reading;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads them.
#[must_use]
pub fn read() -> Reading {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let boot = clock_gettime(ClockId::Boottime);
    let boot_ms = (boot.tv_sec as u64).saturating_mul(1_000).saturating_add(boot.tv_nsec as u64 / 1_000_000);
    Reading { wall_ms: wall.as_millis().try_into().unwrap_or(u64::MAX), boot_ms }
}
