//! What a verb of a replica, or of an operator, answers instead of doing what was asked.

use super::{Latch, ManifestError};
use crate::id::{LogId, Offset, SegmentId};
use crate::pending::Unanswered;
use strandline_disk::{DiskError, Position};

/// A verb on a log or on one of its segments was not done, and says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    /// The log was deleted, or never made.
    #[error("there is no log {log}")]
    NoSuchLog {
        /// The log.
        log: LogId,
    },
    /// The log holds no such segment.
    #[error("log {} holds no segment {segment}", segment.log)]
    NoSuchSegment {
        /// The segment.
        segment: SegmentId,
    },
    /// The offset is not in the log.
    #[error("log {log} holds offsets {start} to {end}, not {requested}")]
    OutOfRange {
        /// The log.
        log: LogId,
        /// What was asked for.
        requested: Offset,
        /// Its first offset.
        start: Offset,
        /// One past its last offset.
        end: Offset,
    },
    /// Only the oldest segment of a log may be deleted: reads never meet a missing middle.
    #[error("segment {segment} is not the oldest of its log, which is {oldest}: delete that one first")]
    NotOldest {
        /// What was to be deleted.
        segment: SegmentId,
        /// The oldest one.
        oldest: SegmentId,
    },
    /// The segment still takes appends.
    #[error("segment {segment} is not sealed: seal it first")]
    NotSealed {
        /// The segment.
        segment: SegmentId,
    },
    /// The seal time of the segment is not so far ahead of the clock that it would hold anything.
    #[error(
        "segment {segment} was sealed at {sealed_at_ms}, which is not over 10 minutes ahead of the clock ({now_ms}): it expires in its time, there is nothing to restamp"
    )]
    SealTimeNotAhead {
        /// The segment.
        segment: SegmentId,
        /// When it was sealed, wall ms.
        sealed_at_ms: u64,
        /// What the clock says, wall ms.
        now_ms: u64,
    },
    /// The clock is not believed, so nothing is stamped by it.
    #[error(
        "segment {segment} was sealed at {sealed_at_ms}, and the clock ({now_ms}) that would give it another time is not believed: set it right or confirm it, then restamp"
    )]
    ClockHeld {
        /// The segment.
        segment: SegmentId,
        /// When it was sealed, wall ms.
        sealed_at_ms: u64,
        /// What the clock says, wall ms.
        now_ms: u64,
    },
    /// An older release can still open the store, and would not after this.
    #[error(
        "segment {segment} cannot be restamped while an older release can still open the store: finish the upgrade"
    )]
    NotFinalized {
        /// The segment.
        segment: SegmentId,
    },
    /// What would have to be read does not verify.
    #[error("segment {segment} is damaged at {position}: nothing was changed")]
    Damaged {
        /// The segment.
        segment: SegmentId,
        /// Where.
        position: Position,
    },
    /// The name is that of a segment which the store knows.
    #[error("directory {name:?} is that of segment {segment}, which the store knows: it is left alone")]
    Known {
        /// The directory.
        name: String,
        /// The segment.
        segment: SegmentId,
    },
    /// The directory is not one that the store would have made, or holds what it would not.
    #[error("directory {name:?} is left alone: {reason}")]
    Foreign {
        /// The directory.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The host does not let the segment be rewritten.
    #[error("the host refused to register segment {segment}, which would be rewritten: {reason}; nothing was changed")]
    Host {
        /// The segment.
        segment: SegmentId,
        /// What it said.
        reason: String,
    },
    /// An earlier write of the log failed.
    #[error("log {log} takes no changes since segment {} failed at {} ({}): open the store again, or delete the log", latch.segment, latch.position, latch.source)]
    Latched {
        /// The log.
        log: LogId,
        /// What had failed, and where.
        latch: Box<Latch>,
    },
    /// A pin would hold more than a host may hold.
    #[error(
        "a pin at {offset} would hold {bytes} bytes, the limit is pin_bytes_max = {limit}: pin later records or raise it"
    )]
    PinTooLarge {
        /// From where it would hold.
        offset: Offset,
        /// How much that is.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Segments would be rolled too often.
    #[error("segments of log {log} cannot be rolled at {age_ms} ms: set at least {floor_ms} ms, or off")]
    SegmentMaxAgeTooShort {
        /// The log.
        log: LogId,
        /// What was asked for, in milliseconds.
        age_ms: u64,
        /// The shortest that would do, in milliseconds.
        floor_ms: u64,
    },
    /// No descriptor was to be had, and none could be let go of.
    #[error(
        "no descriptor is to be had ({source}): raise the limit on open files (RLIMIT_NOFILE) or descriptors_max, and try again"
    )]
    TooManyOpen {
        /// What the disk answered, or would have.
        source: DiskError,
    },
    /// The disk failed.
    #[error("the disk failed: {0}")]
    Disk(#[source] DiskError),
    /// The manifest did not take the change.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Too much is outstanding.
    #[error("{outstanding} operations are waiting or in work, the limit is outstanding_max = {limit}: try again")]
    Overloaded {
        /// Operations outstanding.
        outstanding: usize,
        /// The limit.
        limit: usize,
    },
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
    /// The shard's thread died; open the store again.
    #[error("the shard's thread ended (a panic, or its ring failed): open the store again")]
    ShardGone,
}

impl From<DiskError> for VerbError {
    fn from(source: DiskError) -> VerbError {
        match source.is_out_of_descriptors() {
            true => VerbError::TooManyOpen { source },
            false => VerbError::Disk(source),
        }
    }
}

impl VerbError {
    /// Its short name, as the audit log has it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            VerbError::NoSuchLog { .. } => "no_such_log",
            VerbError::NoSuchSegment { .. } => "no_such_segment",
            VerbError::OutOfRange { .. } => "out_of_range",
            VerbError::NotOldest { .. } => "not_oldest",
            VerbError::NotSealed { .. } => "not_sealed",
            VerbError::SealTimeNotAhead { .. } => "seal_time_not_ahead",
            VerbError::ClockHeld { .. } => "clock_held",
            VerbError::NotFinalized { .. } => "not_finalized",
            VerbError::Damaged { .. } => "damaged",
            VerbError::Known { .. } => "known",
            VerbError::Foreign { .. } => "foreign",
            VerbError::Host { .. } => "host",
            VerbError::Latched { .. } => "latched",
            VerbError::PinTooLarge { .. } => "pin_too_large",
            VerbError::SegmentMaxAgeTooShort { .. } => "segment_max_age_too_short",
            VerbError::TooManyOpen { .. } => "too_many_open",
            VerbError::Disk(_) => "disk",
            VerbError::Manifest(_) => "manifest",
            VerbError::Overloaded { .. } => "overloaded",
            VerbError::Closed => "closed",
            VerbError::ShardGone => "shard_gone",
        }
    }
}

impl<T> Unanswered for Result<T, VerbError> {
    fn unanswered() -> Self {
        Err(VerbError::ShardGone)
    }
}
