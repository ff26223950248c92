//! The verbs of a log beside append and read: what replicas, operators and retention ask for. Plain data.

use super::orphan::{GivenUp, OrphanAnswer};
use crate::error::{Latch, VerbError};
use crate::id::{Epoch, Generation, LogId, Offset, SegmentId, Seq, Uid};
use crate::log::shared::Bounds;
use crate::pending::Answer;
use crate::segment::scrub::Target;
use crate::segment::survey::Damage;
use serde::Serialize;
use strandline_disk::{DiskError, Position};

/// What a verb is answered.
pub type Verdict<T> = Result<T, VerbError>;

/// How a segment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The segment; none in a log that never had one.
    pub segment: Option<SegmentId>,
    /// One past its last offset.
    pub end: Offset,
    /// Its bytes without header block, preallocation or padding to a block.
    pub byte_size: u64,
    /// How many offsets were dropped first.
    pub dropped: u64,
}

/// What a truncation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The offset that the next record gets. At most what was asked for: a batch is whole or absent.
    pub end: Offset,
    /// How many offsets were dropped.
    pub dropped: u64,
    /// The log's epoch from now on.
    pub epoch: Epoch,
}

/// What state a segment is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentState {
    /// It takes appends.
    Active,
    /// It takes no more, and gets its footer soon.
    Closed,
    /// It has its footer and never changes.
    Sealed,
    /// It is damaged, and kept as it is.
    Damaged,
}

/// A segment as its shard knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Which segment of its log.
    pub seq: Seq,
    /// Which data file of it.
    pub generation: Generation,
    /// What state it is in.
    pub state: SegmentState,
    /// Its first offset.
    pub base: Offset,
    /// One past its last offset.
    pub end: Offset,
    /// Its bytes without header block, preallocation or padding to a block.
    pub byte_size: u64,
    /// The size of its file in bytes.
    pub file_bytes: u64,
    /// When it took its first record, wall ms.
    pub opened_at_ms: u64,
    /// When it was sealed, wall ms; none before.
    pub sealed_at_ms: Option<u64>,
}

/// A log as its shard knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogInfo {
    /// Which log.
    pub id: LogId,
    /// How far it has come.
    pub bounds: Bounds,
    /// Raised by truncation.
    pub epoch: Epoch,
    /// The host fenced it, and it may be repaired up to here.
    pub fence: Option<Offset>,
    /// Why it takes no appends.
    pub failed: Option<Latch>,
    /// Age in milliseconds at which its segments are rolled just now; none is off.
    pub segment_max_age_ms: Option<u64>,
    /// Its segments, oldest first.
    pub segments: Vec<SegmentInfo>,
}

impl LogInfo {
    /// Bytes of all its segments without header blocks, preallocation or padding.
    #[must_use]
    pub fn byte_size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.byte_size).sum()
    }

    /// Bytes of its files.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.file_bytes).sum()
    }
}

/// A stretch of a segment that does not verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The segment.
    pub segment: SegmentId,
    /// Where it starts.
    pub position: Position,
    /// The first offset that cannot be read.
    pub from: Offset,
    /// The first offset after it.
    pub to: Offset,
    /// What does not verify.
    pub reason: String,
}

impl Rot {
    pub(crate) fn of(segment: &SegmentId, Damage { position, from, to, reason }: Damage) -> Rot {
        Rot { segment: segment.clone(), position, from, to, reason }
    }
}

/// What was found in a sealed segment that was read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub bytes: u64,
    /// Whole batches that verify.
    pub batches: u64,
    /// What does not verify, its header block among it.
    pub rot: Vec<Rot>,
    /// Why its index or its footer cannot be used, if so. Where nothing else is damaged, [`crate::Log::rebuild_index`] writes them again.
    pub index: Option<&'static str>,
}

/// What verifying a log found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Whole batches that verify.
    pub batches: u64,
    /// Segments that were read.
    pub segments: usize,
    /// What does not verify.
    pub rot: Vec<Rot>,
}

/// A seal time that lay ahead of the clock was given another value, durably.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restamped {
    /// What it was, wall ms.
    pub before_ms: u64,
    /// What it is, wall ms.
    pub sealed_at_ms: u64,
    /// Why the audit log does not say so yet. The change stands all the same, and the line is written with the next one.
    pub unaudited: Option<DiskError>,
}

/// What is asked of a log. Each is done after what was asked before it.
pub enum Verb {
    /// Takes no appends any more; repairs up to an offset are taken.
    Fence {
        /// Up to where, at least its end.
        until: Option<Offset>,
        /// Who waits for it: he is told how far repairs are taken.
        answer: Answer<Verdict<Offset>>,
    },
    /// Takes appends again.
    Unfence {
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
    },
    /// Seals the active segment, after dropping what is at or past an offset.
    Seal {
        /// Drops what is there or later, and fences the log.
        at: Option<Offset>,
        /// Who waits for it.
        answer: Answer<Verdict<Sealed>>,
    },
    /// Drops everything at or past an offset.
    Truncate {
        /// The offset.
        end: Offset,
        /// Who waits for it.
        answer: Answer<Verdict<Truncated>>,
    },
    /// Gives up everything before an offset.
    Trim {
        /// The offset.
        start: Offset,
        /// Who waits for it: he is told where the log starts.
        answer: Answer<Verdict<Offset>>,
    },
    /// Gives up the oldest segment; one that is gone is no error.
    DeleteSegment {
        /// Which.
        seq: Seq,
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
    },
    /// Gives up the oldest segment, which the host does not know, as an orphan.
    GiveUp {
        /// Which.
        seq: Seq,
        /// The uid of its file, as it was seen.
        uid: Uid,
        /// Its bytes may not be removed before, wall ms.
        hold_until_ms: u64,
        /// Who waits for it.
        answer: Answer<OrphanAnswer<GivenUp>>,
    },
    /// Gives a seal time that lies ahead of the clock the present time.
    RestampSeal {
        /// Of which segment.
        seq: Seq,
        /// Who waits for it.
        answer: Answer<Verdict<Restamped>>,
    },
    /// Gives up the log.
    Delete {
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
    },
    /// Flushes, and tells everything about the log.
    Stats {
        /// Who waits for it.
        answer: Answer<Verdict<LogInfo>>,
    },
    /// Reads everything and tells what does not verify.
    Verify {
        /// Only this segment.
        seq: Option<Seq>,
        /// Who waits for it.
        answer: Answer<Verdict<Verified>>,
    },
    /// Tells which file a sealed segment has, so that it can be read again beside the log.
    Target {
        /// Which.
        seq: Seq,
        /// Who waits for it.
        answer: Answer<Verdict<Target>>,
    },
    /// Builds the index of a sealed segment again.
    RebuildIndex {
        /// Which.
        seq: Seq,
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
    },
}

impl Verb {
    /// Answers that it was not done.
    pub fn refuse(self, error: VerbError) {
        match self {
            Verb::Fence { answer, .. } | Verb::Trim { answer, .. } => answer.give(Err(error)),
            Verb::Unfence { answer }
            | Verb::DeleteSegment { answer, .. }
            | Verb::Delete { answer }
            | Verb::RebuildIndex { answer, .. } => answer.give(Err(error)),
            Verb::GiveUp { answer, .. } => answer.give(Err(error.into())),
            Verb::RestampSeal { answer, .. } => answer.give(Err(error)),
            Verb::Seal { answer, .. } => answer.give(Err(error)),
            Verb::Truncate { answer, .. } => answer.give(Err(error)),
            Verb::Stats { answer } => answer.give(Err(error)),
            Verb::Verify { answer, .. } => answer.give(Err(error)),
            Verb::Target { answer, .. } => answer.give(Err(error)),
        }
    }

    /// Whether offsets may change by it.
    #[must_use]
    pub fn drops(&self) -> bool {
        matches!(self, Verb::Truncate { .. } | Verb::Seal { at: Some(_), .. })
    }

    /// Whether it is done on a log that has failed too.
    #[must_use]
    pub fn suits_a_failed_log(&self) -> bool {
        matches!(self, Verb::Delete { .. } | Verb::Stats { .. } | Verb::Verify { .. } | Verb::Target { .. })
    }

    /// Whether it makes room, and leaves the log's head as it is: so it is done on a log that failed for want of room too.
    #[must_use]
    pub fn makes_room(&self) -> bool {
        matches!(self, Verb::Trim { .. } | Verb::DeleteSegment { .. } | Verb::GiveUp { .. })
    }

    /// Whether the log's head has to be awake for it.
    #[must_use]
    pub fn needs_the_head(&self) -> bool {
        matches!(self, Verb::Truncate { .. } | Verb::Seal { .. } | Verb::Verify { .. })
    }
}
