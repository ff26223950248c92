//! What was answered when a segment was to expire: a closed set, so that every answer has a label that metrics can carry.

use crate::decide::{AuthorityError, Standing};
use std::fmt;
use strandline::{Forgotten, VerbError};

/// Why a segment stays that was to go, or a write head was not sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// What the store answered.
    #[error(transparent)]
    Store(#[from] VerbError),
    /// How the segment stands with the host that keeps the list: not so that it may go.
    #[error("with the host it is {0}: its bytes stay until it is known there, or unknown")]
    Standing(Standing),
    /// The host keeps the list, and did not strike the segment from it.
    #[error("the host did not forget it ({0}): its bytes stay until it does")]
    Kept(Forgotten),
    /// The host keeps the list, and did not say how the segment stands, or whether it forgot it.
    #[error("{0}; its bytes stay until it does")]
    Silent(AuthorityError),
}

/// An answer to an expiry. Only the first two say that the segment is forgotten; after any other one its bytes stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// The store forgot it, durably.
    Ok,
    /// There is no such segment: an earlier pass, or somebody else, was first.
    NoSuchSegment,
    /// It is being moved. A host that keeps the list says so; a store by itself moves nothing.
    Migrating,
    /// It still takes appends.
    SegmentActive,
    /// Anything else: a failure, a refusal, a host that cannot say, no answer at all.
    Other,
}

impl Reply {
    /// What this answer is.
    #[must_use]
    pub fn of(answer: Result<&(), &Refused>) -> Reply {
        let refused = match answer {
            Ok(()) => return Reply::Ok,
            Err(refused) => refused,
        };
        match refused {
            Refused::Store(VerbError::NoSuchLog { .. } | VerbError::NoSuchSegment { .. }) => Reply::NoSuchSegment,
            Refused::Store(VerbError::NotSealed { .. }) => Reply::SegmentActive,
            Refused::Standing(Standing::Migrating) | Refused::Kept(Forgotten::Migrating) => Reply::Migrating,
            Refused::Kept(Forgotten::SegmentActive) => Reply::SegmentActive,
            Refused::Store(_) | Refused::Standing(_) | Refused::Kept(_) | Refused::Silent(_) => Reply::Other,
        }
    }

    /// Whether the segment counts as expired.
    #[must_use]
    pub fn is_expired(self) -> bool {
        matches!(self, Reply::Ok | Reply::NoSuchSegment)
    }

    /// Its label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Reply::Ok => "ok",
            Reply::NoSuchSegment => "no_such_segment",
            Reply::Migrating => "migrating",
            Reply::SegmentActive => "segment_active",
            Reply::Other => "other",
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline::id::{SegmentId, Seq};
    use strandline::{LogId, Offset, RangeNumber, Topic};

    #[test]
    fn only_an_answer_that_says_the_segment_is_gone_counts_as_expired() {
        let log = LogId { topic: Topic::new("t").expect("a name"), range: RangeNumber::default() };
        let segment = SegmentId { log: log.clone(), seq: Seq::default() };
        let requested = Offset(0);
        let answers = [
            (VerbError::NoSuchSegment { segment: segment.clone() }, Reply::NoSuchSegment),
            (VerbError::NoSuchLog { log: log.clone() }, Reply::NoSuchSegment),
            (VerbError::NotSealed { segment: segment.clone() }, Reply::SegmentActive),
            (VerbError::NotOldest { segment: segment.clone(), oldest: segment }, Reply::Other),
            (VerbError::OutOfRange { log, requested, start: requested, end: requested }, Reply::Other),
            (VerbError::Overloaded { outstanding: 1, limit: 1 }, Reply::Other),
            (VerbError::Closed, Reply::Other),
            (VerbError::ShardGone, Reply::Other),
        ];
        let answers = answers.map(|(error, reply)| (Refused::Store(error), reply));
        let silent = Refused::Silent(AuthorityError { reason: "its time was up".to_owned() });
        let of_host = [
            (Refused::Standing(Standing::Migrating), Reply::Migrating),
            (Refused::Standing(Standing::Misplaced), Reply::Other),
            (Refused::Standing(Standing::Unroutable), Reply::Other),
            (silent, Reply::Other),
            (Refused::Kept(Forgotten::Migrating), Reply::Migrating),
            (Refused::Kept(Forgotten::SegmentActive), Reply::SegmentActive),
            (Refused::Kept(Forgotten::Other { reason: "it is read only".to_owned() }), Reply::Other),
        ];
        assert_eq!(Reply::of(Ok(&())), Reply::Ok);
        for (refused, reply) in answers.into_iter().chain(of_host) {
            assert_eq!(Reply::of(Err(&refused)), reply, "{refused:?}");
            assert_eq!(reply.is_expired(), reply == Reply::NoSuchSegment);
        }
        assert!(Reply::Ok.is_expired());
        assert_eq!(Reply::SegmentActive.to_string(), "segment_active");
    }
}
