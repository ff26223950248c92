//! What an operator may not have meant by the bounds of a topic.

use super::effective::{Effective, Resolution};
use super::roll::roll_timer_ms;
use std::fmt;

/// A topic that makes more segments than this in a day is worth a word.
const SEGMENTS_A_DAY_MAX: u64 = 100;
/// How many appends a segment should get at least, and how many rolls are still short retention.
const WELL_ABOVE: u64 = 10;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How a log is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// Appends in a day.
    pub appends_per_day: u64,
    /// Bytes in a day.
    pub bytes_per_day: u64,
    /// At which size a segment is sealed, in bytes.
    pub segment_bytes: u64,
}

impl Rhythm {
    /// How many segments a log makes in a day: what its bytes fill, or what the timer rolls, which rolls nothing that is empty.
    #[must_use]
    pub fn segments_per_day(&self, segment_max_age_ms: Option<u64>) -> u64 {
        let filled = self.bytes_per_day.checked_div(self.segment_bytes).unwrap_or_default();
        let rolls = segment_max_age_ms.and_then(|ms| DAY_MS.checked_div(ms)).unwrap_or_default();
        filled.max(rolls.min(self.appends_per_day))
    }
}

/// What an operator may not have meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The policy is undefined.
    Unresolved,
    /// Segments are sealed by size alone, so that those of a quiet topic never get old.
    NeverRolls {
        /// What was asked for, in milliseconds.
        max_age_ms: u64,
    },
    /// The roll makes records live much longer than `max_age_ms` says.
    RollLongAgainstMaxAge {
        /// When a segment rolls, in milliseconds.
        segment_max_age_ms: u64,
        /// What was asked for, in milliseconds.
        max_age_ms: u64,
    },
    /// A segment gets few appends before it rolls.
    RollNearWriteRhythm {
        /// When a segment rolls, in milliseconds.
        segment_max_age_ms: u64,
        /// How long it is between two appends, in milliseconds.
        write_every_ms: u64,
    },
    /// The log makes many segments.
    ManySegments {
        /// How many in a day.
        per_day: u64,
        /// How many are kept at a time, if age bounds it.
        kept: Option<u64>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Unresolved => {
                f.write_str("undefined: this topic holds its data; define its policy or bind another")
            }
            Warning::NeverRolls { max_age_ms } => write!(
                f,
                "max_age_ms is {max_age_ms} and segment_max_age_ms is off: a topic that does not fill its segment never expires"
            ),
            Warning::RollLongAgainstMaxAge { segment_max_age_ms, max_age_ms } => write!(
                f,
                "segment_max_age_ms {segment_max_age_ms} is longer than max_age_ms {max_age_ms}: a record can live for both together"
            ),
            Warning::RollNearWriteRhythm { segment_max_age_ms, write_every_ms } => write!(
                f,
                "segment_max_age_ms {segment_max_age_ms} is near the {write_every_ms} ms between two appends: segments of few records"
            ),
            Warning::ManySegments { per_day, kept: Some(kept) } => {
                write!(f, "{per_day} segments a day, {kept} of them kept at a time")
            }
            Warning::ManySegments { per_day, kept: None } => {
                write!(f, "{per_day} segments a day, and no age ever takes them")
            }
        }
    }
}

/// What an operator may not have meant by these bounds, with what is known of how the log is written to.
#[must_use]
pub fn warnings(effective: &Effective, rhythm: Option<Rhythm>) -> Vec<Warning> {
    if effective.resolution == Resolution::Unresolved {
        return vec![Warning::Unresolved];
    }
    let (roll, age) = (roll_timer_ms(effective), effective.max_age_ms.value);
    let mut found = Vec::new();
    match (roll, age) {
        (None, Some(max_age_ms)) => found.push(Warning::NeverRolls { max_age_ms }),
        (Some(segment_max_age_ms), Some(max_age_ms)) if segment_max_age_ms > max_age_ms => {
            found.push(Warning::RollLongAgainstMaxAge { segment_max_age_ms, max_age_ms });
        }
        _ => {}
    }
    found.extend(rhythm.into_iter().flat_map(|rhythm| of_rhythm(rhythm, roll, age)));
    found
}

fn of_rhythm(rhythm: Rhythm, roll: Option<u64>, age: Option<u64>) -> Vec<Warning> {
    let mut found = Vec::new();
    let write_every_ms = DAY_MS.checked_div(rhythm.appends_per_day);
    if let (Some(segment_max_age_ms), Some(write_every_ms)) = (roll, write_every_ms) {
        // Short retention clears small segments away as fast as they come.
        let is_short = age.is_some_and(|age| age <= segment_max_age_ms.saturating_mul(WELL_ABOVE));
        if segment_max_age_ms < write_every_ms.saturating_mul(WELL_ABOVE) && !is_short {
            found.push(Warning::RollNearWriteRhythm { segment_max_age_ms, write_every_ms });
        }
    }
    let per_day = rhythm.segments_per_day(roll);
    if per_day > SEGMENTS_A_DAY_MAX {
        let days = |age_ms: u64| u128::from(age_ms).div_ceil(DAY_MS.into());
        let kept = age.map(|age_ms| u128::from(per_day).saturating_mul(days(age_ms)));
        let kept = kept.map(|kept| u64::try_from(kept).unwrap_or(u64::MAX));
        found.push(Warning::ManySegments { per_day, kept });
    }
    found
}
