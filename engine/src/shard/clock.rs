//! The clock of a store: both clocks as they stood when it was opened, and whether the wall clock can be believed since then.
//!
//! The shards roll nothing by age while it cannot, and a sweep decides nothing by age: both go by [`ClockAnchor::hold`].

use crate::manifest::state::State;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use strandline_disk::Now;

/// How far wall time may be from where the boot clock says it should be, in milliseconds.
pub const CLOCK_TOLERANCE_MS: u64 = 5 * 60 * 1000;
/// A store that was closed for longer than this, in milliseconds, does not believe its clock at once.
pub const RESTART_GAP_MS: u64 = 24 * 60 * 60 * 1000;
/// How long it then waits for an operator, in milliseconds of the boot clock.
pub const RESTART_GRACE_MS: u64 = 60 * 60 * 1000;

/// What stands for no time at all.
const NEVER: u64 = u64::MAX;

/// Both clocks, read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Wall time in milliseconds since 1970.
    pub wall_ms: u64,
    /// Time since boot in milliseconds, sleep included.
    pub boot_ms: u64,
}

impl From<Now> for ClockReading {
    fn from(now: Now) -> ClockReading {
        ClockReading { wall_ms: now.wall_ms, boot_ms: now.boot_ns / 1_000_000 }
    }
}

/// Why nothing goes by age just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The wall clock left the boot clock.
    Jumped {
        /// What the wall clock says.
        wall_ms: u64,
        /// What it should say.
        projected_ms: u64,
    },
    /// The store was closed for long, or its clock is wrong since.
    Reopened {
        /// What the wall clock said when the store was opened.
        wall_ms: u64,
        /// The last time that the store is sure of.
        last_ms: u64,
        /// How long the hold goes on unless the time is confirmed, in milliseconds.
        left_ms: u64,
    },
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |here: u64, there: u64| if here > there { "ahead of" } else { "behind" };
        match self {
            Hold::Jumped { wall_ms, projected_ms } => write!(
                f,
                "the wall clock is {} ms {} the boot clock's projection {projected_ms}: nothing goes by age until they are within \
                 {CLOCK_TOLERANCE_MS} ms again or an operator confirms the time",
                wall_ms.abs_diff(*projected_ms),
                side(*wall_ms, *projected_ms),
            ),
            Hold::Reopened { wall_ms, last_ms, left_ms } => write!(
                f,
                "the store was opened at a wall time {} ms {} the last one it is sure of ({last_ms}): nothing goes by age for \
                 {left_ms} ms more or until an operator confirms the time",
                wall_ms.abs_diff(*last_ms),
                side(*wall_ms, *last_ms),
            ),
        }
    }
}

/// Both clocks as they stood together once, and the last time before it that is not in doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockAnchor {
    /// Both clocks when the store was opened, or when an operator confirmed the time.
    pub at: ClockReading,
    /// The last wall time that the store was sure of by then, in milliseconds: the time that it keeps durably, or a newer
    /// one of its segments where that is farther from the clock. 0 where it holds data and none of them is known. None in a store that is new,
    /// and when the time was confirmed.
    pub last_ms: Option<u64>,
}

impl ClockAnchor {
    /// Why nothing goes by age at this reading, if so. The anchor does not move: no waiting makes a wrong clock right.
    #[must_use]
    pub fn hold(&self, now: ClockReading) -> Option<Hold> {
        let elapsed_ms = now.boot_ms.saturating_sub(self.at.boot_ms);
        let projected_ms = self.at.wall_ms.saturating_add(elapsed_ms);
        if now.wall_ms.abs_diff(projected_ms) > CLOCK_TOLERANCE_MS {
            return Some(Hold::Jumped { wall_ms: now.wall_ms, projected_ms });
        }
        let (wall_ms, left_ms) = (self.at.wall_ms, RESTART_GRACE_MS.saturating_sub(elapsed_ms));
        let rested = self.last_ms.filter(|last_ms| left_ms > 0 && wall_ms.abs_diff(*last_ms) > RESTART_GAP_MS);
        rested.map(|last_ms| Hold::Reopened { wall_ms, last_ms, left_ms })
    }

    /// The latest that the time may be, in wall milliseconds: what the wall clock says while it is believed, and else the latest of that, of
    /// what the boot clock makes of the anchor, and of the last time that is known. What is stamped so is never taken for older than it is.
    #[must_use]
    pub fn latest_ms(&self, now: ClockReading) -> u64 {
        if self.hold(now).is_none() {
            return now.wall_ms;
        }
        let elapsed_ms = now.boot_ms.saturating_sub(self.at.boot_ms);
        let known_ms = self.at.wall_ms.max(self.last_ms.unwrap_or(0));
        now.wall_ms.max(known_ms.saturating_add(elapsed_ms))
    }
}

/// The clock of an open store, for any thread.
#[derive(Debug)]
pub struct StoreClock {
    anchor: Mutex<ClockAnchor>,
    sure_ms: AtomicU64,
}

impl Default for StoreClock {
    fn default() -> StoreClock {
        StoreClock { anchor: Mutex::default(), sure_ms: AtomicU64::new(NEVER) }
    }
}

impl StoreClock {
    /// Anchors it where both clocks stood when a store was opened whose manifest says this.
    #[must_use]
    pub fn open(at: Now, state: &State) -> StoreClock {
        let last_ms = last_known_ms(at.wall_ms, state.clock_sure_ms, state.newest_stamp_ms());
        let sure_ms = AtomicU64::new(state.clock_sure_ms.unwrap_or(NEVER));
        StoreClock { anchor: Mutex::new(ClockAnchor { at: at.into(), last_ms }), sure_ms }
    }

    /// What the clocks are held against.
    #[must_use]
    pub fn anchor(&self) -> ClockAnchor {
        *self.lock()
    }

    /// Whether the wall clock can be believed.
    #[must_use]
    pub fn believes(&self, now: Now) -> bool {
        self.anchor().hold(now.into()).is_none()
    }

    /// The latest that the time may be, as [`ClockAnchor::latest_ms`] says.
    #[must_use]
    pub fn latest_ms(&self, now: Now) -> u64 {
        self.anchor().latest_ms(now.into())
    }

    /// An operator says that the wall clock is right.
    pub fn confirm(&self, now: Now) {
        *self.lock() = ClockAnchor { at: now.into(), last_ms: None };
    }

    /// The last wall time that was believed and is kept durably, in milliseconds.
    #[must_use]
    pub fn sure_ms(&self) -> Option<u64> {
        Some(self.sure_ms.load(Ordering::Relaxed)).filter(|ms| *ms != NEVER)
    }

    /// This one is durable now.
    pub(super) fn note_sure(&self, wall_ms: u64) {
        self.sure_ms.store(wall_ms, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, ClockAnchor> {
        self.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time that an open is held against. A stamp that is older than the time that was kept says nothing; of that time and one that is newer
/// the one that the clock is farther from: what was stamped by a wrong clock must not vouch for it at the next open.
fn last_known_ms(wall_ms: u64, kept_ms: Option<u64>, newest_stamp_ms: Option<u64>) -> Option<u64> {
    let newest_ms = kept_ms.max(newest_stamp_ms);
    [kept_ms, newest_ms].into_iter().flatten().max_by_key(|ms| ms.abs_diff(wall_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_MS: u64 = 1_700_000_000_000;

    fn at(wall_ms: u64, boot_ms: u64) -> Now {
        Now { wall_ms, boot_ns: boot_ms * 1_000_000 }
    }

    fn opened(sure_ms: Option<u64>) -> StoreClock {
        StoreClock::open(at(WALL_MS, 50_000), &State { clock_sure_ms: sure_ms, ..State::default() })
    }

    #[test]
    fn a_clock_is_believed_while_it_is_no_more_than_five_minutes_off_however_long_that_lasts() {
        let clock = opened(None);
        for later_ms in [0, 1_000, 400 * 86_400_000] {
            let wall_ms = WALL_MS + later_ms;
            for (off_ms, believed) in [(0, true), (300_000, true), (300_001, false), (86_400_000, false)] {
                assert_eq!(clock.believes(at(wall_ms + off_ms, 50_000 + later_ms)), believed, "{off_ms} ahead");
                assert_eq!(clock.believes(at(wall_ms - off_ms, 50_000 + later_ms)), believed, "{off_ms} behind");
            }
        }
        clock.confirm(at(WALL_MS + 86_400_000, 60_000));
        assert!(clock.believes(at(WALL_MS + 86_400_000, 60_000)) && !clock.believes(at(WALL_MS, 60_000)));
    }

    #[test]
    fn the_latest_that_the_time_may_be_is_the_wall_clock_or_while_that_is_held_whatever_is_later() {
        let (day, later) = (86_400_000, |wall_ms| at(wall_ms, 50_000 + 1_000));
        let clock = opened(None);
        assert_eq!(clock.latest_ms(later(WALL_MS + 1_400)), WALL_MS + 1_400, "a little off is believed");
        assert_eq!(clock.latest_ms(later(WALL_MS - 200)), WALL_MS - 200);
        assert_eq!(clock.latest_ms(later(WALL_MS - day)), WALL_MS + 1_000, "what the boot clock says");
        assert_eq!(clock.latest_ms(later(WALL_MS + day)), WALL_MS + day);
        let behind = opened(Some(WALL_MS + 2 * day));
        assert_eq!(behind.latest_ms(later(WALL_MS + 1_000)), WALL_MS + 2 * day + 1_000, "what was known, and since");
        assert_eq!(opened(Some(WALL_MS - 2 * day)).latest_ms(later(WALL_MS + 1_000)), WALL_MS + 1_000);
        behind.confirm(later(WALL_MS + 1_000));
        assert_eq!(behind.latest_ms(later(WALL_MS + 1_000)), WALL_MS + 1_000);
    }

    #[test]
    fn what_a_wrong_clock_stamped_does_not_vouch_for_it_and_an_old_stamp_holds_nothing() {
        let (day, year) = (86_400_000, 365 * 86_400_000);
        assert_eq!(last_known_ms(WALL_MS, None, None), None);
        assert_eq!(last_known_ms(WALL_MS, None, Some(WALL_MS - year)), Some(WALL_MS - year));
        assert_eq!(last_known_ms(WALL_MS, Some(WALL_MS - day), Some(WALL_MS - year)), Some(WALL_MS - day));
        assert_eq!(last_known_ms(WALL_MS, Some(WALL_MS - day), Some(WALL_MS + year)), Some(WALL_MS + year));
        assert_eq!(last_known_ms(WALL_MS + year, Some(WALL_MS), Some(WALL_MS + year)), Some(WALL_MS), "still wrong");
    }

    #[test]
    fn a_rest_of_over_a_day_to_either_side_is_waited_for_an_hour_or_until_it_is_confirmed() {
        assert!(opened(Some(WALL_MS - RESTART_GAP_MS)).believes(at(WALL_MS, 50_000)), "a day is not over a day");
        for last_ms in [0, WALL_MS - RESTART_GAP_MS - 1, WALL_MS + RESTART_GAP_MS + 1] {
            let clock = opened(Some(last_ms));
            let later = |ms: u64| at(WALL_MS + ms, 50_000 + ms);
            assert!(!clock.believes(later(RESTART_GRACE_MS - 1)) && clock.believes(later(RESTART_GRACE_MS)));
            assert_eq!(clock.sure_ms(), Some(last_ms));
            clock.confirm(later(10));
            assert!(clock.believes(later(10)));
        }
    }
}
