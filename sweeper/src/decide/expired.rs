//! Which sealed segments of a log are past a bound, each judged by itself. What of that can be carried out is `fate`'s to say.

use super::clock::Now;
use super::effective::{Cleanup, Effective, Origin, Setting};
use super::segment::{Segment, State};
use std::fmt;
use strandline::id::Seq;

/// A segment is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgeReason {
    /// How long ago it was sealed, in milliseconds.
    pub age_ms: u64,
    /// The bound that it passed, in milliseconds.
    pub max_age_ms: u64,
    /// Who set the bound.
    pub origin: Origin,
}

impl fmt::Display for AgeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sealed {} ms ago, more than max_age_ms {} ({})", self.age_ms, self.max_age_ms, self.origin)
    }
}

/// A range is too big while it has the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SizeReason {
    /// The sealed bytes of the range from this segment on. Wider than a `u64`, which the sum of many may pass.
    pub sealed_bytes: u128,
    /// The bound that they are over.
    pub max_bytes: u64,
    /// Who set the bound.
    pub origin: Origin,
}

impl fmt::Display for SizeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max_bytes {
            0 => write!(f, "max_bytes 0 ({}) keeps no sealed segment", self.origin),
            max_bytes => write!(
                f,
                "{} sealed bytes from here on, more than max_bytes {max_bytes} ({})",
                self.sealed_bytes, self.origin
            ),
        }
    }
}

/// Why a segment expires: at least one of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reasons {
    /// By age.
    pub age: Option<AgeReason>,
    /// By size.
    pub size: Option<SizeReason>,
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.age, self.size) {
            (Some(age), Some(size)) => write!(f, "{age}; {size}"),
            (Some(age), None) => age.fmt(f),
            (None, Some(size)) => size.fmt(f),
            (None, None) => f.write_str("no reason"),
        }
    }
}

/// A segment that is past a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Which segment of the log.
    pub seq: Seq,
    /// Its logical bytes.
    pub byte_size: u64,
    /// Why.
    pub reasons: Reasons,
}

/// The sealed segments of a log that are past its bounds, oldest first.
///
/// The rules know nothing of each other: the size rule counts what the age rule takes as well, so that their order cannot matter and
/// a second pass at the same instant finds nothing more. While the clock is held only the size rule decides.
#[must_use]
pub fn expired(segments: &[Segment], now: &Now, effective: &Effective) -> Vec<Expiry> {
    if effective.cleanup == Cleanup::Compact {
        return Vec::new();
    }
    let mut sealed: Vec<&Segment> = segments.iter().filter(|segment| segment.state == State::Sealed).collect();
    sealed.sort_by_key(|segment| segment.seq);
    // The sum of any number of 64-bit sizes that fits into memory fits into 128 bits.
    let mut left: u128 = sealed.iter().fold(0, |sum: u128, segment| sum.saturating_add(segment.byte_size.into()));
    let mut found = Vec::new();
    for segment in sealed {
        let age = too_old(segment, now, effective.max_age_ms);
        let size = too_big(left, effective.max_bytes);
        left = left.saturating_sub(segment.byte_size.into());
        if age.is_some() || size.is_some() {
            found.push(Expiry { seq: segment.seq, byte_size: segment.byte_size, reasons: Reasons { age, size } });
        }
    }
    found
}

/// Strictly older than the bound. A segment whose seal time is unknown has no age.
fn too_old(segment: &Segment, now: &Now, max_age: Setting) -> Option<AgeReason> {
    let (max_age_ms, age_ms) = (max_age.value?, now.age_ms(segment.known_sealed_at_ms()?)?);
    (age_ms > max_age_ms).then_some(AgeReason { age_ms, max_age_ms, origin: max_age.origin })
}

/// Whether the range is over its bound while it still has what is `left`. A bound of 0 keeps nothing, zero-length segments included,
/// which no sum could say.
fn too_big(left: u128, max_bytes: Setting) -> Option<SizeReason> {
    let bound = max_bytes.value?;
    let is_over = bound == 0 || left > u128::from(bound);
    is_over.then_some(SizeReason { sealed_bytes: left, max_bytes: bound, origin: max_bytes.origin })
}
