//! What is answered instead of giving an orphan up, or of taking it back.

use super::VerbError;
use crate::id::{SegmentId, Uid};
use crate::pending::Unanswered;
use strandline_disk::DiskError;

/// A directory was not given up, or not taken back, and nothing was changed. After [`OrphanError::Verb`] it may have been moved; the same call
/// again goes on from there, and so does the next open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrphanError {
    /// The store lists a segment of this name, is making one, or is removing one.
    #[error("directory {name:?} is that of segment {segment}, which the store knows: it stays")]
    Known {
        /// The directory.
        name: String,
        /// The segment.
        segment: SegmentId,
    },
    /// A file in it is in use for a segment.
    #[error("directory {name:?} holds the file {uid} of segment {segment}, which is in use: it stays")]
    LiveUid {
        /// The directory.
        name: String,
        /// The file.
        uid: Uid,
        /// The segment that it is in use for.
        segment: SegmentId,
    },
    /// It is not one that this store would have made, or holds what it would not.
    #[error("directory {name:?} stays: {reason}")]
    Foreign {
        /// The directory.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is not what was seen.
    #[error("directory {name:?} is not what was seen ({reason}): it stays, and is looked at anew")]
    Changed {
        /// The directory.
        name: String,
        /// What is different.
        reason: String,
    },
    /// Something from an earlier one waits in the trash under the same uid.
    #[error("directory {name:?} holds the file {uid}, and one of that uid waits in trash/: a copy; it stays")]
    Copy {
        /// The directory.
        name: String,
        /// The file.
        uid: Uid,
    },
    /// Somebody holds records of the segment back.
    #[error("segment {segment} is pinned: it stays")]
    Pinned {
        /// The segment.
        segment: SegmentId,
    },
    /// No orphan of this uid waits in the trash.
    #[error("no orphan {uid} waits in trash/: its hold is over, or it was taken back")]
    NotHeld {
        /// What was asked for.
        uid: Uid,
    },
    /// Its old name is in use.
    #[error("orphan {uid} cannot go back to {name:?}: that name is taken; move or delete what has it")]
    Taken {
        /// The orphan.
        uid: Uid,
        /// Its name.
        name: String,
    },
    /// Something that any verb may answer.
    #[error(transparent)]
    Verb(#[from] VerbError),
}

impl From<DiskError> for OrphanError {
    fn from(source: DiskError) -> OrphanError {
        OrphanError::Verb(source.into())
    }
}

impl<T> Unanswered for Result<T, OrphanError> {
    fn unanswered() -> Self {
        Err(OrphanError::Verb(VerbError::ShardGone))
    }
}
