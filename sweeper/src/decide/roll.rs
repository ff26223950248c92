//! Rolls by age: when a segment is sealed though it is not full, so that a quiet topic expires as well.

use super::clock::{Hold, Now};
use super::effective::{Effective, Resolution};
use super::segment::{Segment, State};
use std::fmt;

/// The shortest `segment_max_age_ms`, in milliseconds.
pub const SEGMENT_MAX_AGE_FLOOR_MS: u64 = strandline::policy::SEGMENT_MAX_AGE_MS_MIN;
/// How far ahead of the clock a stamp may lie, in milliseconds.
pub const STAMP_AHEAD_MAX_MS: u64 = 10 * 60 * 1000;

/// The age in milliseconds at which the engine's timer rolls the segments of a log; `None` is off, as while the policy is undefined.
///
/// A value below the floor, which only a damaged or foreign definition can hold, counts as the floor.
#[must_use]
pub fn roll_timer_ms(effective: &Effective) -> Option<u64> {
    match effective.resolution {
        Resolution::Unresolved => None,
        Resolution::None | Resolution::Resolved => {
            effective.segment_max_age_ms.value.map(|ms| ms.max(SEGMENT_MAX_AGE_FLOOR_MS))
        }
    }
}

/// Whether a segment is rolled by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roll {
    /// It is.
    Due {
        /// How long ago it took its first record, in milliseconds.
        age_ms: u64,
        /// The bound that it reached, in milliseconds.
        segment_max_age_ms: u64,
    },
    /// It will be.
    NotBefore {
        /// When, wall ms.
        at_ms: u64,
    },
    /// It is not the write head.
    NotActive(State),
    /// Nothing was written to it: an idle log does not grow one empty segment per interval.
    Empty,
    /// The topic's policy is undefined: nothing rolls by age.
    Unresolved,
    /// The roll by age is off for the topic.
    Off,
    /// Nobody knows since when it has been open.
    OpenTimeUnknown,
    /// No age counts. A segment sealed now would carry a seal time that is as wrong as the clock.
    ClockHeld(Hold),
}

impl fmt::Display for Roll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Roll::Due { age_ms, segment_max_age_ms } => {
                write!(f, "opened {age_ms} ms ago, at least segment_max_age_ms {segment_max_age_ms}")
            }
            Roll::NotBefore { at_ms } => write!(f, "rolls by age at {at_ms}"),
            Roll::NotActive(state) => write!(f, "{state}, and only the active segment rolls"),
            Roll::Empty => f.write_str("nothing was written to it, and an empty segment does not roll"),
            Roll::Unresolved => f.write_str("the topic's policy is undefined, and nothing rolls by age"),
            Roll::Off => f.write_str("segment_max_age_ms is off"),
            Roll::OpenTimeUnknown => f.write_str("its open time is unknown, so it never rolls by age"),
            Roll::ClockHeld(hold) => hold.fmt(f),
        }
    }
}

/// Whether a segment is rolled by age at this instant. Not strict, unlike expiry: a segment that has reached the bound rolls.
#[must_use]
pub fn rolls_by_age(segment: &Segment, now: &Now, effective: &Effective) -> Roll {
    if segment.state != State::Active {
        return Roll::NotActive(segment.state);
    }
    if !segment.holds_data() {
        return Roll::Empty;
    }
    let Some(segment_max_age_ms) = roll_timer_ms(effective) else {
        return if effective.resolution == Resolution::Unresolved { Roll::Unresolved } else { Roll::Off };
    };
    let Some(opened_at_ms) = segment.known_opened_at_ms() else { return Roll::OpenTimeUnknown };
    if let Some(hold) = now.held {
        return Roll::ClockHeld(hold);
    }
    let age_ms = now.ms.saturating_sub(opened_at_ms);
    match age_ms >= segment_max_age_ms {
        true => Roll::Due { age_ms, segment_max_age_ms },
        false => Roll::NotBefore { at_ms: opened_at_ms.saturating_add(segment_max_age_ms) },
    }
}

/// A stamp that lies so far ahead that it would hold what comes after it for as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampAhead {
    /// The stamp, wall ms.
    pub stamp_ms: u64,
    /// How far ahead of the clock, in milliseconds.
    pub ahead_ms: u64,
}

impl fmt::Display for StampAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StampAhead { stamp_ms, ahead_ms } = self;
        write!(
            f,
            "its time {stamp_ms} lies {ahead_ms} ms ahead of the clock: it expires by age that much late unless \
             restamp_seal gives it the present time"
        )
    }
}

/// Whether a stored time lies over 10 minutes ahead. Nothing is said while the clock itself is in doubt.
///
/// Asked of a log's last stamp, it says that the segment is rolled so that the next one stamps true time; asked of a seal time, that
/// an operator is told.
#[must_use]
pub fn stamp_ahead(stamp_ms: u64, now: &Now) -> Option<StampAhead> {
    let ahead_ms = stamp_ms.saturating_sub(now.ms);
    (now.held.is_none() && ahead_ms > STAMP_AHEAD_MAX_MS).then_some(StampAhead { stamp_ms, ahead_ms })
}
