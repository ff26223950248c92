//! What the store answered when a segment was to expire: a closed set, so that every answer has a label that metrics can carry.

use std::fmt;
use strandline::VerbError;

/// An answer to an expiry. Only the first two say that the segment is forgotten; after any other one its bytes stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// The store forgot it, durably.
    Ok,
    /// There is no such segment: an earlier pass, or somebody else, was first.
    NoSuchSegment,
    /// It is being moved. A host may say so; a store by itself moves nothing.
    Migrating,
    /// It still takes appends.
    SegmentActive,
    /// Anything else: a failure, a refusal, no answer at all.
    Other,
}

impl Reply {
    /// What this answer of the store is.
    #[must_use]
    pub fn of(answer: Result<&(), &VerbError>) -> Reply {
        match answer {
            Ok(()) => Reply::Ok,
            Err(VerbError::NoSuchLog { .. } | VerbError::NoSuchSegment { .. }) => Reply::NoSuchSegment,
            Err(VerbError::NotSealed { .. }) => Reply::SegmentActive,
            Err(_) => Reply::Other,
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
            (Ok(()), Reply::Ok),
            (Err(VerbError::NoSuchSegment { segment: segment.clone() }), Reply::NoSuchSegment),
            (Err(VerbError::NoSuchLog { log: log.clone() }), Reply::NoSuchSegment),
            (Err(VerbError::NotSealed { segment: segment.clone() }), Reply::SegmentActive),
            (Err(VerbError::NotOldest { segment: segment.clone(), oldest: segment }), Reply::Other),
            (Err(VerbError::OutOfRange { log, requested, start: requested, end: requested }), Reply::Other),
            (Err(VerbError::Overloaded { outstanding: 1, limit: 1 }), Reply::Other),
            (Err(VerbError::Closed), Reply::Other),
            (Err(VerbError::ShardGone), Reply::Other),
        ];
        for (answer, reply) in answers {
            assert_eq!(Reply::of(answer.as_ref()), reply, "{answer:?}");
            assert_eq!(reply.is_expired(), matches!(reply, Reply::Ok | Reply::NoSuchSegment));
        }
        assert_eq!(Reply::SegmentActive.to_string(), "segment_active");
    }
}
