//! Segments and logs as the decisions see them: plain data, copied out of an inventory or a host's records.

use super::effective::Effective;
use std::fmt;
use strandline::{LogId, LogInfo, Offset, SegmentInfo, SegmentState, id::Seq};

/// Which state a segment is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Made ahead; it holds nothing.
    Prepared,
    /// The write head.
    Active,
    /// It takes no appends, and is not sealed: it waits for its footer, a repair, or an operator who looks at its damage.
    Fenced,
    /// Immutable. The only state in which a segment can expire.
    Sealed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Prepared => "prepared",
            State::Active => "active",
            State::Fenced => "fenced",
            State::Sealed => "sealed",
        })
    }
}

/// One segment of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which segment of its log.
    pub seq: Seq,
    /// Which state it is in.
    pub state: State,
    /// Its first offset.
    pub base: Offset,
    /// One past its last offset: a span, since compaction leaves gaps.
    pub end: Offset,
    /// Its logical bytes, without preallocation or padding.
    pub byte_size: u64,
    /// When it took its first record, wall ms. `None` and 0 are unknown.
    pub opened_at_ms: Option<u64>,
    /// When it was sealed, wall ms. `None` and 0 are unknown.
    pub sealed_at_ms: Option<u64>,
}

impl Segment {
    /// When it took its first record, if that is known. A time of 0 is a field that nobody filled in, never the year 1970.
    #[must_use]
    pub fn known_opened_at_ms(&self) -> Option<u64> {
        self.opened_at_ms.filter(|ms| *ms != 0)
    }

    /// When it was sealed, if that is known.
    #[must_use]
    pub fn known_sealed_at_ms(&self) -> Option<u64> {
        self.sealed_at_ms.filter(|ms| *ms != 0)
    }

    /// Whether anything was written to it since it became the write head.
    #[must_use]
    pub fn holds_data(&self) -> bool {
        self.end > self.base || self.byte_size > 0
    }
}

impl From<&SegmentInfo> for Segment {
    fn from(info: &SegmentInfo) -> Segment {
        let state = match info.state {
            SegmentState::Active => State::Active,
            // A damaged segment that never got its footer is kept as it is until somebody has looked at it.
            SegmentState::Closed | SegmentState::Damaged => State::Fenced,
            SegmentState::Sealed => State::Sealed,
        };
        Segment {
            seq: info.seq,
            state,
            base: info.base,
            end: info.end,
            byte_size: info.byte_size,
            opened_at_ms: Some(info.opened_at_ms),
            sealed_at_ms: info.sealed_at_ms,
        }
    }
}

/// What a host holds back from expiry: every segment that has an offset at or past `from`, up to a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Who holds it, as the report names him.
    pub holder: String,
    /// The first offset that he still wants.
    pub from: Offset,
    /// The most bytes of due segments that he may hold back. Past it the oldest go all the same: a consumer that never comes
    /// back does not fill the disk.
    pub bytes_max: u64,
}

/// One log with all that decides about its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLog {
    /// Which log.
    pub id: LogId,
    /// Its segments in the order of their seqs.
    pub segments: Vec<Segment>,
    /// What applies to it, from [`super::effective()`].
    pub effective: Effective,
    /// What the host holds back.
    pub pins: Vec<Pin>,
}

impl KeptLog {
    /// A log of the engine's inventory, without pins. What lies before the log's start was given up already, and only its bytes are still
    /// there: it counts for nothing.
    #[must_use]
    pub fn new(info: &LogInfo, effective: Effective) -> KeptLog {
        let start = info.bounds.start;
        let kept = info.segments.iter().filter(|segment| segment.end > start || segment.base >= start);
        let segments = kept.map(Segment::from).collect();
        KeptLog { id: info.id.clone(), segments, effective, pins: Vec::new() }
    }
}
