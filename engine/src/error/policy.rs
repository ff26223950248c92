//! Why something about policies was not done.

use super::ManifestError;
use crate::host::BindingsUnavailable;
use crate::id::Topic;
use crate::pending::Unanswered;
use crate::policy::{FieldError, PolicyName, PolicyNameError};

/// A policy was not defined, deleted or bound, and says why. Nothing was changed, unless the manifest failed: then the change may or may
/// not be found when the store is opened again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] PolicyNameError),
    /// A field is not right.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Nothing defines the policy.
    #[error("no_such_policy: nothing defines {name}; define it first")]
    NoSuchPolicy {
        /// Its name.
        name: PolicyName,
    },
    /// The topic does not exist.
    #[error("there is no topic {topic}: create it first")]
    NoSuchTopic {
        /// The topic.
        topic: Topic,
    },
    /// Topics are bound to the policy.
    #[error(
        "policy_in_use: {} ({}) bound to {name}: bind them to another policy first, or force it, which leaves them holding their data",
        listed(topics), if topics.len() == 1 { "is" } else { "are" }
    )]
    InUse {
        /// Its name.
        name: PolicyName,
        /// The topics, in order.
        topics: Vec<Topic>,
    },
    /// The host keeps the bindings and cannot say now which there are.
    #[error("bindings_unavailable: the host cannot say which topics are bound ({0}): try again, or force it")]
    BindingsUnavailable(#[from] BindingsUnavailable),
    /// The host keeps the bindings: they are changed there.
    #[error("the host keeps the bindings of topics: bind {topic} there")]
    HostKeepsBindings {
        /// The topic.
        topic: Topic,
    },
    /// The upgrade was not finished: an older release, which may still have to open the store, could not read it.
    #[error(
        "{what} needs level {needed} and the store is at {level}: finish the upgrade (finalize) when no older release will open this store again"
    )]
    NotFinalized {
        /// What was to be done.
        what: &'static str,
        /// The level that has it.
        needed: u32,
        /// The level of the store.
        level: u32,
    },
    /// There are as many policies as there may be.
    #[error("the store has {limit} policies, as many as there may be: delete one, or share one among more topics")]
    TooManyPolicies {
        /// The limit.
        limit: usize,
    },
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

/// How many topics a refusal lists.
const TOPICS_LISTED: usize = 10;

fn listed(topics: &[Topic]) -> String {
    let shown = topics.iter().take(TOPICS_LISTED).map(Topic::to_string).collect::<Vec<_>>().join(", ");
    match topics.len().saturating_sub(TOPICS_LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl PolicyError {
    /// A short name that does not change, for wires, metrics and the audit log.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            PolicyError::Name(_) => "bad_policy_name",
            PolicyError::Field(FieldError::Unsupported { .. }) => "unsupported_policy_field",
            PolicyError::Field(_) => "bad_policy_field",
            PolicyError::NoSuchPolicy { .. } => "no_such_policy",
            PolicyError::NoSuchTopic { .. } => "no_such_topic",
            PolicyError::InUse { .. } => "policy_in_use",
            PolicyError::BindingsUnavailable(_) => "bindings_unavailable",
            PolicyError::HostKeepsBindings { .. } => "host_keeps_bindings",
            PolicyError::NotFinalized { .. } => "not_finalized",
            PolicyError::TooManyPolicies { .. } => "too_many_policies",
            PolicyError::Manifest(_) => "manifest",
            PolicyError::Overloaded { .. } => "overloaded",
            PolicyError::Closed => "closed",
            PolicyError::ShardGone => "shard_gone",
        }
    }
}

impl<T> Unanswered for Result<T, PolicyError> {
    fn unanswered() -> Self {
        Err(PolicyError::ShardGone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_lists_a_few_topics_and_counts_the_others() {
        let topics = |count: usize| (0..count).map(|n| Topic::new(format!("t{n}")).expect("short")).collect::<Vec<_>>();
        assert_eq!(listed(&topics(2)), "t0, t1");
        assert!(listed(&topics(13)).ends_with("t9 and 3 more"));
        let name = PolicyName::new("short").expect("a name");
        let one = PolicyError::InUse { name, topics: topics(1) };
        assert!(one.to_string().starts_with("policy_in_use: t0"), "{one}");
    }
}
