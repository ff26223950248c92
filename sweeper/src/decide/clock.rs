//! Whether the wall clock can be believed. Everything that goes by age waits while it cannot: one wrong hour of a clock must not cost
//! a day of data.
//!
//! The wall clock is compared with the boot clock, which no one sets. The guard is told both and reads neither.

use strandline::ClockAnchor;

pub use strandline::{CLOCK_TOLERANCE_MS, ClockReading as Reading, Hold, RESTART_GAP_MS, RESTART_GRACE_MS};

/// The instant at which a pass decides. Only a guard that was asked knows whether ages count in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall time in milliseconds since 1970.
    pub ms: u64,
    /// Why no age counts, if so.
    pub held: Option<Hold>,
}

impl Now {
    /// An instant of a clock that somebody else vouches for.
    #[must_use]
    pub const fn trusted(ms: u64) -> Now {
        Now { ms, held: None }
    }

    /// How old something of this wall time is, in milliseconds: 0 for what lies ahead, and nothing while no age counts.
    pub(crate) fn age_ms(&self, since_ms: u64) -> Option<u64> {
        match self.held {
            Some(_) => None,
            None => Some(self.ms.saturating_sub(since_ms)),
        }
    }
}

/// The state of the clock rules, which are the store's own: [`ClockAnchor::hold`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockGuard {
    anchor: ClockAnchor,
    sure_ms: Option<u64>,
}

impl ClockGuard {
    /// Starts where both clocks stood when a store was opened. `last_sure_ms` is the newest of what [`ClockGuard::sure_ms`] said in the store's
    /// former life, as far as that is kept, and the store's stamps; `None` in a store that is new.
    #[must_use]
    pub fn open(at: Reading, last_sure_ms: Option<u64>) -> ClockGuard {
        ClockGuard { anchor: ClockAnchor { at, last_ms: last_sure_ms }, sure_ms: last_sure_ms }
    }

    /// Takes both clocks and says at which instant a pass decides.
    ///
    /// The anchor does not move. That is what latches a hold: no waiting makes a wrong clock right, and a clock that is set forward a
    /// little every day is as wrong as one that is set forward at once.
    pub fn observe(&mut self, at: Reading) -> Now {
        let held = self.anchor.hold(at);
        if held.is_none() {
            self.sure_ms = Some(at.wall_ms);
        }
        Now { ms: at.wall_ms, held }
    }

    /// An operator says that the wall clock is right.
    pub fn confirm(&mut self, at: Reading) {
        *self = ClockGuard { anchor: ClockAnchor { at, last_ms: None }, sure_ms: Some(at.wall_ms) };
    }

    /// The last wall time that was believed, in milliseconds. Kept durably, it tells the next life how long the store was closed.
    #[must_use]
    pub fn sure_ms(&self) -> Option<u64> {
        self.sure_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPENED: Reading = Reading { wall_ms: 1_700_000_000_000, boot_ms: 50_000 };

    /// Both clocks `later_ms` after the open, the wall clock `wrong_ms` off.
    fn later(later_ms: u64, wrong_ms: i64) -> Reading {
        let wall_ms = (OPENED.wall_ms + later_ms).saturating_add_signed(wrong_ms);
        Reading { wall_ms, boot_ms: OPENED.boot_ms + later_ms }
    }

    #[test]
    fn a_clock_is_held_when_it_is_more_than_five_minutes_off_and_not_at_five() {
        for side in [1, -1] {
            let mut guard = ClockGuard::open(OPENED, None);
            assert_eq!(guard.observe(later(1_000, side * 300_000)).held, None);
            let held = guard.observe(later(1_000, side * 300_001)).held.expect("held");
            assert!(held.to_string().contains("300001 ms"), "{held}");
            assert_eq!(guard.observe(later(2_000, side * 300_000)).held, None, "back within the tolerance");
        }
    }

    #[test]
    fn a_hold_outlasts_any_time_and_ends_when_an_operator_confirms() {
        let mut guard = ClockGuard::open(OPENED, None);
        for day in 0..400 {
            assert!(guard.observe(later(day * 86_400_000, 3_600_000)).held.is_some());
        }
        guard.confirm(later(400 * 86_400_000, 3_600_000));
        assert_eq!(guard.observe(later(401 * 86_400_000, 3_600_000)).held, None);
        assert!(guard.observe(later(401 * 86_400_000, 0)).held.is_some(), "the confirmed time is the anchor now");
    }

    #[test]
    fn many_small_steps_are_one_large_step() {
        let mut guard = ClockGuard::open(OPENED, None);
        let held: Vec<bool> =
            (1..=4).map(|day| guard.observe(later(day * 86_400_000, day as i64 * 120_000)).held.is_some()).collect();
        assert_eq!(held, [false, false, true, true]);
    }

    #[test]
    fn after_more_than_a_day_of_rest_ages_wait_for_an_hour_or_an_operator() {
        let day = RESTART_GAP_MS;
        assert_eq!(
            ClockGuard::open(OPENED, Some(OPENED.wall_ms - day)).observe(later(0, 0)).held,
            None,
            "a day is not over a day"
        );
        for last in [OPENED.wall_ms - day - 1, OPENED.wall_ms + day + 1] {
            let mut guard = ClockGuard::open(OPENED, Some(last));
            assert!(guard.observe(later(RESTART_GRACE_MS - 1, 0)).held.is_some());
            assert_eq!(guard.sure_ms(), Some(last), "a time in doubt is not remembered as sure");
            let mut confirmed = guard.clone();
            confirmed.confirm(later(10, 0));
            assert_eq!(confirmed.observe(later(20, 0)).held, None);
            assert_eq!(guard.observe(later(RESTART_GRACE_MS, 0)).held, None);
        }
    }

    #[test]
    fn a_jump_during_the_grace_outlasts_it() {
        let mut guard = ClockGuard::open(OPENED, Some(0));
        let held = guard.observe(later(RESTART_GRACE_MS * 2, 400_000)).held;
        assert!(matches!(held, Some(Hold::Jumped { .. })), "{held:?}");
    }

    proptest! {
        #[test]
        fn no_sequence_of_readings_moves_the_anchor_or_panics(
            readings in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20), last in prop::option::of(any::<u64>()),
        ) {
            let mut guard = ClockGuard::open(OPENED, last);
            for (wall_ms, boot_ms) in readings {
                let now = guard.observe(Reading { wall_ms, boot_ms });
                let _ = now.held.map(|held| held.to_string());
                let projected = OPENED.wall_ms.saturating_add(boot_ms.saturating_sub(OPENED.boot_ms));
                prop_assert!(wall_ms.abs_diff(projected) <= CLOCK_TOLERANCE_MS || now.held.is_some());
            }
        }
    }
}
