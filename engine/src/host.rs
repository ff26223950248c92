//! The host: the broker around the store, where it decides which segments exist. Its answers are awaited, never guessed.

use crate::id::{SegmentId, Topic};
use crate::pending::{Answer, Unanswered};
use crate::policy::PolicyName;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Why a host does not let a segment be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// What it says.
    pub reason: String,
}

impl Unanswered for Result<(), Refusal> {
    fn unanswered() -> Self {
        Err(Refusal { reason: "the host let go of the question without an answer".to_owned() })
    }
}

/// Why a host cannot say now which topics are bound to which policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BindingsUnavailable {
    /// What it says.
    pub reason: String,
}

/// Which topic is bound to which policy, where the host keeps that; `None` where the store does.
pub type HostBindings = Result<Option<BTreeMap<Topic, PolicyName>>, BindingsUnavailable>;

impl Unanswered for HostBindings {
    fn unanswered() -> Self {
        Err(BindingsUnavailable { reason: "the host let go of the question without an answer".to_owned() })
    }
}

/// How a segment stands with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// The host lists no such segment.
    Unknown,
    /// Nobody could be asked.
    Unroutable,
    /// Its topic is moving, and neither side lists it.
    Migrating,
    /// Somebody lists it who does not own it.
    Misplaced,
    /// The host lists it.
    Known,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Unknown => "unknown",
            Standing::Unroutable => "unroutable",
            Standing::Migrating => "migrating",
            Standing::Misplaced => "misplaced",
            Standing::Known => "known",
        })
    }
}

/// Why a host cannot say now which segments it lists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct LookupFailed {
    /// What it says.
    pub reason: String,
}

/// How each of the segments that were asked about stands, where the host keeps the list; `None` where the store does.
pub type HostStandings = Result<Option<Vec<(SegmentId, Standing)>>, LookupFailed>;

impl Unanswered for HostStandings {
    fn unanswered() -> Self {
        Err(LookupFailed { reason: "the host let go of the question without an answer".to_owned() })
    }
}

/// What a host answers of a segment that it was to forget: a closed set. Only after the first two its bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Its list has it no more, durably.
    Ok,
    /// Its list did not have it: an earlier pass was cut short.
    NoSuchSegment,
    /// Its topic is moving.
    Migrating,
    /// It takes appends, as the host sees it.
    SegmentActive,
    /// Anything else.
    Other {
        /// What it says.
        reason: String,
    },
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Forgotten::Ok => "forgotten",
            Forgotten::NoSuchSegment => "not in the list",
            Forgotten::Migrating => "migrating",
            Forgotten::SegmentActive => "active",
            Forgotten::Other { reason } => reason,
        })
    }
}

/// Why a host cannot forget segments now. Whether it forgot some of them is not known: their bytes stay, and it is asked again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ForgetFailed {
    /// What it says.
    pub reason: String,
}

/// What became of each segment that was to be forgotten, where the host keeps the list; `None` where the store does.
pub type HostForgotten = Result<Option<Vec<(SegmentId, Forgotten)>>, ForgetFailed>;

impl Unanswered for HostForgotten {
    fn unanswered() -> Self {
        Err(ForgetFailed { reason: "the host let go of the question without an answer".to_owned() })
    }
}

/// A host that keeps the list of segments itself.
pub trait Host: Send + Sync {
    /// The store is about to make this segment: ahead of a roll, for a new log, or, once more, for what a truncation rewrites. The host answers when
    /// its own list durably holds it, from any thread; until then nothing is made. Called on a shard's thread: it must not block.
    fn register(&self, segment: &SegmentId, answer: Answer<Result<(), Refusal>>);

    /// Which topic is bound to which policy, where the host keeps that itself, all of it or nothing: while any of it cannot be read, the
    /// answer is an error and no policy is deleted. The default leaves it to the store. Answered from any thread; called on any thread,
    /// a shard's too, so it must not block.
    fn bindings(&self, answer: Answer<HostBindings>) {
        answer.give(Ok(None));
    }

    /// How these segments stand with the host, each of them: what it does not know may be removed as an orphan, so an answer that it is
    /// not sure of is an error, and one segment that is left out makes it none. Of segments that are due to expire it is asked too: those
    /// that it knows it is then to [`Host::forget`], those that it does not know any more go, and the others stay. No segments are asked about to learn who keeps the list.
    /// The default leaves it to the store's manifest. Answered from any thread; called on a sweeper's.
    fn lookup(&self, segments: &[SegmentId], answer: Answer<HostStandings>) {
        let _ = segments;
        answer.give(Ok(None));
    }

    /// These segments have expired. The host strikes them from its list and answers of each when that is durable; only then the store forgets
    /// them too, and their bytes go. Those of one log stand together, the oldest first: behind one that the host keeps it keeps the rest of
    /// that log. One that is left out, and all of them after an error or a late answer, keep their bytes, and are asked about again. A host that
    /// answers [`Host::lookup`] must answer this: while it does not, nothing expires. Answered from any thread; called on a sweeper's.
    fn forget(&self, segments: &[SegmentId], answer: Answer<HostForgotten>) {
        let _ = segments;
        answer.give(Ok(None));
    }
}

/// A host, as the configuration holds it: equal only to itself.
#[derive(Clone)]
pub struct SharedHost(pub Arc<dyn Host>);

impl fmt::Debug for SharedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedHost")
    }
}

impl PartialEq for SharedHost {
    fn eq(&self, other: &SharedHost) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
