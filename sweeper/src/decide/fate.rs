//! What becomes of each segment of a log: the part of `expired` that can be carried out, what holds the rest, and why the others stay.
//! The pass and `explain` both ask here.

use super::clock::{Hold, Now};
use super::effective::{Cleanup, Resolution};
use super::expired::{Expiry, Reasons, expired};
use super::segment::{KeptLog, Pin, Segment, State};
use std::fmt;
use strandline::id::Seq;

/// What becomes of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes, caps apart.
    Expire(Reasons),
    /// It is due, but an older segment stays, and readers never meet a missing middle.
    HeldBehind {
        /// The first segment of the log that stays.
        by: Seq,
        /// Why it is due.
        reasons: Reasons,
    },
    /// It is due, but the host holds it.
    Pinned {
        /// Who.
        holder: String,
        /// How many bytes of due segments he holds back in this log.
        bytes: u128,
        /// How many he may.
        bytes_max: u64,
        /// Why it is due.
        reasons: Reasons,
    },
    /// It is not due.
    Stays(Stay),
}

/// Why a segment is not due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Only sealed segments expire.
    NotSealed(State),
    /// The topic is only compacted: old age makes no record superfluous.
    CompactOnly,
    /// The topic's policy is undefined and no backstop is set: it holds its data.
    Unresolved,
    /// Neither rule applies to the topic.
    RulesOff,
    /// No age counts, and the size rule keeps it.
    ClockHeld(Hold),
    /// Nobody knows when it was sealed, and the size rule keeps it.
    SealTimeUnknown,
    /// It is within the bounds.
    WithinBounds,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Expire(reasons) => write!(f, "due: {reasons}"),
            Fate::HeldBehind { by, reasons } => write!(f, "held behind segment {by}, which stays; due: {reasons}"),
            Fate::Pinned { holder, bytes, bytes_max, reasons } => {
                write!(f, "pinned by {holder}, who holds {bytes} of at most {bytes_max} bytes; due: {reasons}")
            }
            Fate::Stays(stay) => stay.fmt(f),
        }
    }
}

impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stay::NotSealed(state) => write!(f, "{state}, and only sealed segments expire"),
            Stay::CompactOnly => f.write_str("the topic is compacted only, and nothing expires"),
            Stay::Unresolved => f.write_str("the topic's policy is undefined: this topic holds its data"),
            Stay::RulesOff => f.write_str("max_age_ms and max_bytes are off"),
            Stay::ClockHeld(hold) => write!(f, "{hold}"),
            Stay::SealTimeUnknown => f.write_str("its seal time is unknown, so it never expires by age"),
            Stay::WithinBounds => f.write_str("within max_age_ms and max_bytes"),
        }
    }
}

/// What becomes of each segment of the log, oldest first, caps apart.
#[must_use]
pub fn fates<'a>(log: &'a KeptLog, now: &Now) -> Vec<(&'a Segment, Fate)> {
    let mut segments: Vec<&Segment> = log.segments.iter().collect();
    segments.sort_by_key(|segment| segment.seq);
    let due = expired(&log.segments, now, &log.effective);

    let matches = |pair: &(&&Segment, &Expiry)| pair.0.seq == pair.1.seq;
    let prefix = segments.iter().zip(&due).take_while(matches).count();
    let pinned = widest_pin(&log.pins, segments.get(..prefix).unwrap_or_default());
    let first_stays = segments.get(prefix).map(|segment| segment.seq);

    let mut due = due.into_iter().peekable();
    let mut fates = Vec::with_capacity(segments.len());
    for (at, segment) in segments.into_iter().enumerate() {
        let reasons = due.next_if(|expiry| expiry.seq == segment.seq).map(|expiry| expiry.reasons);
        let fate = match (reasons, first_stays) {
            (None, _) => Fate::Stays(stay(segment, log, now)),
            (Some(reasons), Some(by)) if at >= prefix => Fate::HeldBehind { by, reasons },
            (Some(reasons), _) => match &pinned {
                Some(held) if at >= held.start => held.fate(reasons),
                _ => Fate::Expire(reasons),
            },
        };
        fates.push((segment, fate));
    }
    fates
}

/// What one pin holds of the segments that could go.
struct PinHolds<'a> {
    pin: &'a Pin,
    /// The first segment that it holds.
    start: usize,
    bytes: u128,
}

impl PinHolds<'_> {
    fn fate(&self, reasons: Reasons) -> Fate {
        let Pin { holder, bytes_max, .. } = self.pin;
        Fate::Pinned { holder: holder.clone(), bytes: self.bytes, bytes_max: *bytes_max, reasons }
    }
}

/// The pin that reaches furthest back in the segments that could go.
///
/// A pin holds the newest of them, up to its bound in bytes: what it holds past the bound goes oldest first, as everything does.
fn widest_pin<'a>(pins: &'a [Pin], prefix: &[&Segment]) -> Option<PinHolds<'a>> {
    let holds = pins.iter().filter_map(|pin| {
        let (mut start, mut bytes) = (prefix.len(), 0_u128);
        for (at, segment) in prefix.iter().enumerate().rev() {
            let with_it = bytes.saturating_add(segment.byte_size.into());
            if segment.end <= pin.from || with_it > pin.bytes_max.into() {
                break;
            }
            (start, bytes) = (at, with_it);
        }
        (start < prefix.len()).then_some(PinHolds { pin, start, bytes })
    });
    holds.min_by_key(|holds| holds.start)
}

fn stay(segment: &Segment, log: &KeptLog, now: &Now) -> Stay {
    let effective = &log.effective;
    let (by_age, by_size) = (effective.max_age_ms.value.is_some(), effective.max_bytes.value.is_some());
    if segment.state != State::Sealed {
        return Stay::NotSealed(segment.state);
    }
    if effective.cleanup == Cleanup::Compact {
        return Stay::CompactOnly;
    }
    match (by_age, by_size, now.held) {
        (false, false, _) if effective.resolution == Resolution::Unresolved => Stay::Unresolved,
        (false, false, _) => Stay::RulesOff,
        (true, _, Some(hold)) => Stay::ClockHeld(hold),
        (true, _, None) if segment.known_sealed_at_ms().is_none() => Stay::SealTimeUnknown,
        _ => Stay::WithinBounds,
    }
}
