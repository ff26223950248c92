//! The two virtual clocks. Only the schedule moves them; nothing here reads the host's time.

use crate::clock::Now;

/// Where the wall clock stands when a world begins: 14 November 2023, in milliseconds.
const WALL_START_MS: i64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Clock {
    boot_ns: u64,
    /// What the wall clock showed at boot, jumps since then included.
    wall_at_boot_ms: i64,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock { boot_ns: 1_000_000_000, wall_at_boot_ms: WALL_START_MS }
    }

    pub(super) fn now(&self) -> Now {
        let wall = self.wall_at_boot_ms.saturating_add((self.boot_ns / 1_000_000) as i64);
        Now { wall_ms: wall.max(0) as u64, boot_ns: self.boot_ns }
    }

    pub(super) fn advance(&mut self, nanoseconds: u64) {
        self.boot_ns += nanoseconds;
    }

    /// Moves on to `boot_ns`, never back.
    pub(super) fn advance_to(&mut self, boot_ns: u64) {
        self.boot_ns = self.boot_ns.max(boot_ns);
    }

    pub(super) fn jump_wall(&mut self, delta_ms: i64) {
        self.wall_at_boot_ms = self.wall_at_boot_ms.saturating_add(delta_ms);
    }

    /// Starts the time since boot again, as a machine does that lost power; the wall clock goes on after `off_ms`.
    /// Code that keeps a boot time on disk is caught by this.
    pub(super) fn reboot(&mut self, off_ms: u64) {
        let wall = self.wall_at_boot_ms.saturating_add((self.boot_ns / 1_000_000) as i64);
        self.wall_at_boot_ms = wall.saturating_add(off_ms as i64);
        self.boot_ns = 1_000_000_000;
    }
}
