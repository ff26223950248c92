//! `explain` for operators: why a segment is kept, the earliest and the latest instant it can go, and who pins it. The answer comes
//! from the same code as a pass.

use super::clock::Now;
use super::effective::{Cleanup, Effective};
use super::fate::{Fate, fates};
use super::roll::{Roll, roll_timer_ms, rolls_by_age};
use super::segment::{KeptLog, Segment, State};
use super::warning::{Rhythm, Warning, warnings};
use std::fmt;
use strandline::LogId;
use strandline::id::{SegmentId, Seq};

/// How often the sweep runs and how long a seal takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The interval between two passes, in milliseconds.
    pub sweep_interval_ms: u64,
    /// The longest that a seal takes, in milliseconds.
    pub seal_ms: u64,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { sweep_interval_ms: 60_000, seal_ms: 1_000 }
    }
}

/// When a segment can go, wall ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Not before. `None`: no rule takes it as things stand.
    pub earliest_ms: Option<u64>,
    /// Not after, caps and failures apart. `None`: nothing promises it.
    pub latest_ms: Option<u64>,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.earliest_ms {
            Some(earliest_ms) => write!(f, "can go from {earliest_ms} on")?,
            None => f.write_str("never goes as things stand")?,
        }
        match self.latest_ms {
            Some(latest_ms) => write!(f, ", at the latest at {latest_ms}"),
            None => f.write_str(", by no certain time"),
        }
    }
}

/// What there is to say of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentExplained {
    /// Which.
    pub segment: SegmentId,
    /// What becomes of it now.
    pub fate: Fate,
    /// Whether it is rolled.
    pub roll: Roll,
    /// When it can go.
    pub window: Window,
    /// Who would hold it when it is due, each with the most bytes that he may hold.
    pub pins: Vec<(String, u64)>,
}

impl fmt::Display for SegmentExplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.segment, self.fate, self.window)?;
        if !matches!(self.roll, Roll::NotActive(_)) {
            write!(f, "; {}", self.roll)?;
        }
        for (holder, bytes_max) in &self.pins {
            write!(f, "; {holder} may hold up to {bytes_max} bytes of due segments from here on")?;
        }
        Ok(())
    }
}

/// What there is to say of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogExplained {
    /// Which.
    pub log: LogId,
    /// What applies to it.
    pub effective: Effective,
    /// How often the sweep runs.
    pub schedule: Schedule,
    /// How long a record lives at most, in milliseconds; `None` if nothing bounds it.
    pub record_lives_at_most_ms: Option<u64>,
    /// Its segments, oldest first.
    pub segments: Vec<SegmentExplained>,
    /// What an operator may not have meant.
    pub warnings: Vec<Warning>,
}

impl fmt::Display for LogExplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Effective { max_age_ms, max_bytes, segment_max_age_ms, .. } = self.effective;
        writeln!(f, "{}", self.log)?;
        writeln!(f, "max_age_ms {max_age_ms}\nmax_bytes {max_bytes}\nsegment_max_age_ms {segment_max_age_ms}")?;
        let Schedule { sweep_interval_ms, seal_ms } = self.schedule;
        let formula =
            format!("segment_max_age + max_age + 2 sweep intervals of {sweep_interval_ms} ms + seal time {seal_ms} ms");
        match self.record_lives_at_most_ms {
            Some(ms) => writeln!(f, "a record lives at most {formula} = {ms} ms")?,
            None => writeln!(f, "nothing bounds how long a record lives ({formula})")?,
        }
        for segment in &self.segments {
            writeln!(f, "{segment}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}

/// How long a record lives at most, in milliseconds; `None` while age or the roll by age is off.
///
/// Two sweep intervals: that of the roll and that of the expiry. Pins, caps and a held clock apart.
#[must_use]
pub fn record_lives_at_most_ms(effective: &Effective, schedule: &Schedule) -> Option<u64> {
    let (roll, age) = (roll_timer_ms(effective)?, effective.max_age_ms.value?);
    if effective.cleanup == Cleanup::Compact {
        return None;
    }
    let sweeps = schedule.sweep_interval_ms.saturating_mul(2);
    Some(roll.saturating_add(age).saturating_add(sweeps).saturating_add(schedule.seal_ms))
}

/// Why each segment of a log is kept, and what an operator should know of its bounds.
#[must_use]
pub fn explain_log(log: &KeptLog, now: &Now, schedule: &Schedule, rhythm: Option<Rhythm>) -> LogExplained {
    let mut before = Window { earliest_ms: Some(0), latest_ms: Some(0) };
    let mut segments = Vec::with_capacity(log.segments.len());
    for (segment, fate) in fates(log, now) {
        let pinning = log.pins.iter().filter(|pin| segment.end > pin.from);
        let pins: Vec<_> = pinning.map(|pin| (pin.holder.clone(), pin.bytes_max)).collect();
        let mut own = alone(segment, &fate, log, now, schedule);
        if !pins.is_empty() {
            own.latest_ms = None;
        }
        // Nothing goes before what is older.
        let window = Window {
            earliest_ms: before.earliest_ms.zip(own.earliest_ms).map(|(one, other)| one.max(other)),
            latest_ms: before.latest_ms.zip(own.latest_ms).map(|(one, other)| one.max(other)),
        };
        before = window;
        let id = SegmentId { log: log.id.clone(), seq: segment.seq };
        let roll = rolls_by_age(segment, now, &log.effective);
        segments.push(SegmentExplained { segment: id, fate, roll, window, pins });
    }
    LogExplained {
        log: log.id.clone(),
        effective: log.effective,
        schedule: *schedule,
        record_lives_at_most_ms: record_lives_at_most_ms(&log.effective, schedule),
        segments,
        warnings: warnings(&log.effective, rhythm),
    }
}

/// Why one segment is kept; nothing if the log has no such segment.
#[must_use]
pub fn explain_segment(log: &KeptLog, seq: Seq, now: &Now, schedule: &Schedule) -> Option<SegmentExplained> {
    explain_log(log, now, schedule, None).segments.into_iter().find(|segment| segment.segment.seq == seq)
}

/// When a segment could go if it were the only one.
fn alone(segment: &Segment, fate: &Fate, log: &KeptLog, now: &Now, schedule: &Schedule) -> Window {
    let effective = &log.effective;
    if effective.cleanup == Cleanup::Compact {
        return Window { earliest_ms: None, latest_ms: None };
    }
    let next_pass_ms = now.ms.saturating_add(schedule.sweep_interval_ms);
    let is_due = !matches!(fate, Fate::Stays(_));
    if is_due {
        return Window { earliest_ms: Some(now.ms), latest_ms: Some(next_pass_ms) };
    }
    let (age_from_ms, latest_ms) = by_age(segment, effective, now, schedule);
    // The size rule takes it as soon as enough is sealed behind it, which may be at once.
    let earliest_ms = if effective.max_bytes.value.is_some() { Some(now.ms) } else { age_from_ms };
    Window { earliest_ms, latest_ms: latest_ms.filter(|_| now.held.is_none()) }
}

/// The first and the last instant at which the age rule takes a segment that it does not take now.
fn by_age(segment: &Segment, effective: &Effective, now: &Now, schedule: &Schedule) -> (Option<u64>, Option<u64>) {
    let Some(max_age_ms) = effective.max_age_ms.value else { return (None, None) };
    let Schedule { sweep_interval_ms, seal_ms } = *schedule;
    // Strictly older than the bound: a millisecond more. A pass after that is at most an interval away.
    let from = |sealed_at_ms: u64| sealed_at_ms.saturating_add(max_age_ms).saturating_add(1);
    let until =
        |sealed_at_ms: u64| sealed_at_ms.saturating_add(max_age_ms).max(now.ms).saturating_add(sweep_interval_ms);
    match segment.state {
        State::Sealed => {
            let sealed_at_ms = segment.known_sealed_at_ms();
            (sealed_at_ms.map(from), sealed_at_ms.map(until))
        }
        // It may fill up and be sealed this instant, or rest until the timer rolls it.
        State::Active if segment.holds_data() => {
            let rolled = roll_timer_ms(effective).zip(segment.known_opened_at_ms());
            let sealed_at_ms = rolled.map(|(roll_ms, opened_at_ms)| {
                let rolled_at_ms = opened_at_ms.saturating_add(roll_ms).max(now.ms);
                rolled_at_ms.saturating_add(sweep_interval_ms).saturating_add(seal_ms)
            });
            (Some(from(now.ms)), sealed_at_ms.map(until))
        }
        State::Active | State::Fenced | State::Prepared => (Some(from(now.ms)), None),
    }
}
