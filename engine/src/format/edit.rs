//! Edits: the changes of what the manifest says. Their bytes are made by [`super::edit_bytes`].
//!
//! What edits add up to is not known here.

use super::policy_edit::PolicyEdit;
use crate::id::{Epoch, Generation, Life, LogId, Offset, SegmentId, Uid};
use strandline_disk::Position;

/// Why the bytes of a segment are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseReason {
    /// Retention, truncation or a dropped log: nobody may read it any more.
    Expired,
    /// A newer generation of the segment took its place.
    Superseded,
    /// No manifest knew it.
    Orphan,
}

impl ReleaseReason {
    pub(super) fn number(self) -> u8 {
        match self {
            ReleaseReason::Expired => 1,
            ReleaseReason::Superseded => 2,
            ReleaseReason::Orphan => 3,
        }
    }

    pub(super) fn of(number: u8) -> Option<ReleaseReason> {
        let all = [ReleaseReason::Expired, ReleaseReason::Superseded, ReleaseReason::Orphan];
        all.into_iter().find(|reason| reason.number() == number)
    }
}

/// One change of what the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The store was opened.
    Opened {
        /// How often, this time included.
        life: Life,
    },
    /// A log was created.
    LogCreated {
        /// The log.
        log: LogId,
    },
    /// A file was made ahead for a segment.
    Prepared {
        /// The segment.
        segment: SegmentId,
        /// The file.
        uid: Uid,
        /// Which data file of the segment it is.
        generation: Generation,
        /// The file's size in bytes.
        size: u64,
        /// The most bytes that may be in flight past any durable end.
        look_ahead: u64,
        /// Its blocks were written whole and then synced: only such a file may be covered by the barrier of another one.
        written: bool,
    },
    /// A segment became its log's last one and takes appends.
    Live {
        /// The segment.
        segment: SegmentId,
        /// The offset of its first record.
        base: Offset,
        /// When it took its first batch, wall ms.
        opened_at_ms: u64,
    },
    /// A segment got its footer and never changes again.
    Sealed {
        /// The segment.
        segment: SegmentId,
        /// One past its last offset.
        end: Offset,
        /// Its bytes without header block, preallocation or padding to a block.
        logical_bytes: u64,
        /// When the store took its first batch, wall ms; 0 when there is no batch.
        first_store_time_ms: u64,
        /// When the store took its last batch, wall ms; 0 when there is no batch.
        last_store_time_ms: u64,
        /// When it was sealed, wall ms.
        sealed_at_ms: u64,
    },
    /// A segment is damaged below its end and is never appended to.
    Fenced {
        /// The segment.
        segment: SegmentId,
        /// One past its last offset.
        end: Offset,
        /// The position of its end.
        end_position: Position,
    },
    /// A log starts later, or was truncated.
    StartOffset {
        /// The log.
        log: LogId,
        /// The first offset that may be read.
        start: Offset,
        /// The log's epoch.
        epoch: Epoch,
    },
    /// A file is given up.
    Released {
        /// The segment that it belonged to.
        segment: SegmentId,
        /// The file.
        uid: Uid,
        /// Which data file of the segment it was.
        generation: Generation,
        /// Why.
        reason: ReleaseReason,
        /// Its bytes stay until then, wall ms.
        hold_until_ms: u64,
    },
    /// The bytes of a released file are gone.
    Gone {
        /// The file.
        uid: Uid,
    },
    /// A log was truncated: it ends at `end`, and from there on only batches of `epoch` or newer count.
    Truncated {
        /// The log.
        log: LogId,
        /// The offset that its next record gets. Everything below it had been durable.
        end: Offset,
        /// The log's epoch from now on.
        epoch: Epoch,
    },
    /// A sealed segment got a file of a newer generation, which is sealed too. The old file is released by an edit behind this one.
    Replaced {
        /// The segment.
        segment: SegmentId,
        /// The new file.
        uid: Uid,
        /// Which data file of the segment it is.
        generation: Generation,
        /// The file's size in bytes.
        size: u64,
        /// The most bytes that may have been in flight past any durable end.
        look_ahead: u64,
        /// Its blocks were written whole and then synced.
        written: bool,
        /// The offset of its first record.
        base: Offset,
        /// One past its last offset.
        end: Offset,
        /// When the segment took its first batch, wall ms.
        opened_at_ms: u64,
        /// Its bytes without header block, preallocation or padding to a block.
        logical_bytes: u64,
        /// When the store took its first batch, wall ms; 0 when there is no batch.
        first_store_time_ms: u64,
        /// When the store took its last batch, wall ms; 0 when there is no batch.
        last_store_time_ms: u64,
        /// When it was sealed, wall ms.
        sealed_at_ms: u64,
    },
    /// A sealed segment's file became shorter: its footer stands at the new end.
    Shrunk {
        /// The segment.
        segment: SegmentId,
        /// The file's size in bytes from now on.
        size: u64,
    },
    /// A log is gone, and with it the segments that it still has: their files are given up.
    LogDeleted {
        /// The log.
        log: LogId,
    },
    /// The host fenced a log, which takes no appends then, or ended its fence.
    LogFenced {
        /// The log.
        log: LogId,
        /// Up to here a replica may still repair it; `None` ends the fence.
        until: Option<Offset>,
    },
    /// A log's live segment ends exactly here, all of it durable and marked: opening the store need not look at it.
    Clean {
        /// The live segment.
        segment: SegmentId,
        /// One past the log's last offset.
        end: Offset,
        /// The position after the last batch or mark.
        end_position: Position,
        /// When the store took the log's last batch, wall ms; 0 when there was none.
        last_store_time_ms: u64,
    },
    /// A log that was clean is about to be written.
    Dirty {
        /// The log.
        log: LogId,
    },
    /// A log has used its segment numbers up to this one, though the segments may be gone: none of them is used again.
    SeqUsed {
        /// The log, and the largest number that it has used.
        segment: SegmentId,
    },
    /// What is said of policies.
    Policy(PolicyEdit),
    /// The wall clock was believed at this time.
    ClockSure {
        /// What it said, wall ms.
        wall_ms: u64,
    },
    /// The seal time of a sealed segment, which lay ahead of the clock, was given another value.
    SealRestamped {
        /// The segment.
        segment: SegmentId,
        /// When it counts as sealed from now on, wall ms.
        sealed_at_ms: u64,
    },
    /// How far a round of scrubbing has come.
    Scrubbed(ScrubCursor),
}

/// How far a round of scrubbing has come: segments are read in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubCursor {
    /// When the round began, wall ms.
    pub begun_ms: u64,
    /// What was read in it.
    pub at: ScrubAt,
}

/// What was read in a round of scrubbing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScrubAt {
    /// Nothing yet.
    Start,
    /// Everything up to this segment.
    Behind(SegmentId),
    /// Everything.
    End,
}

impl Edit {
    /// A file is given up, and its bytes may go at once.
    #[must_use]
    pub fn released(segment: &SegmentId, uid: Uid, generation: Generation, reason: ReleaseReason) -> Edit {
        Edit::Released { segment: segment.clone(), uid, generation, reason, hold_until_ms: 0 }
    }
}

/// Why bytes are not an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The bytes end within the edit, or its fields end within its length.
    #[error("the edit is cut short")]
    Short,
    /// This release knows no such edit.
    #[error("an edit of kind {0} is unknown to this release")]
    Kind(u8),
    /// A field holds what it never may.
    #[error("the edit's field {0} holds what it never may")]
    Field(&'static str),
    /// The edit is longer than its fields.
    #[error("the edit is longer than its fields")]
    Long,
}
