//! Named: all policies of a store, by name, and which topic is bound to which. Plain data, read as one consistent picture.

use super::Policy;
use crate::id::Topic;
use serde::{Serialize, Serializer};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The longest name of a policy, in bytes.
pub const POLICY_NAME_BYTES_MAX: usize = 255;

/// The most policies of a store.
pub const POLICIES_MAX: usize = 1_024;

/// The level of fields that this release knows.
pub const FIELD_LEVEL: u32 = 1;

/// The level of bindings that this release knows.
pub const BINDING_LEVEL: u32 = 1;

/// What a policy is called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyName(Arc<str>);

/// Why a text is no name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyNameError {
    /// There is nothing.
    #[error("a policy needs a name: it is empty")]
    Empty,
    /// It is too long.
    #[error("the name of a policy has {bytes} bytes: shorten it to at most {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest one that would do.
        limit: usize,
    },
    /// It looks like another name, or like none, where it is printed.
    #[error("the policy name {name:?} has a control character, or a space at an end: leave that out")]
    Unprintable {
        /// The name.
        name: String,
    },
}

impl PolicyName {
    /// Checks `name` and makes a policy's name of it.
    ///
    /// # Errors
    /// [`PolicyNameError`].
    pub fn new(name: &str) -> Result<PolicyName, PolicyNameError> {
        let (bytes, limit) = (name.len(), POLICY_NAME_BYTES_MAX);
        match name {
            "" => Err(PolicyNameError::Empty),
            _ if bytes > limit => Err(PolicyNameError::TooLong { bytes, limit }),
            _ if name.trim() != name || name.chars().any(char::is_control) => {
                Err(PolicyNameError::Unprintable { name: name.to_owned() })
            }
            _ => Ok(PolicyName(Arc::from(name))),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for PolicyName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl Serialize for PolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// How far the upgrade of a store has been finished. A store at level 0 was made by a release without policies, and can still go back
/// to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Levels {
    /// Fields of policies, and with them definitions, up to this level are taken.
    pub fields: u32,
    /// Bindings up to this level are taken.
    pub bindings: u32,
}

impl Levels {
    /// The levels of a store that this release makes.
    pub const CURRENT: Levels = Levels { fields: FIELD_LEVEL, bindings: BINDING_LEVEL };

    /// These levels, raised as far as `gate` opens.
    #[must_use]
    pub fn opened(self, gate: Gate) -> Levels {
        let bindings = match gate {
            Gate::Definitions => self.bindings,
            Gate::Bindings => self.bindings.max(BINDING_LEVEL),
        };
        Levels { fields: self.fields.max(FIELD_LEVEL), bindings }
    }
}

/// What finishing an upgrade opens. There is no way back to an older release then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Policies may be defined, with every field of this release.
    Definitions,
    /// Topics may be bound to them as well.
    Bindings,
}

/// Everything about policies, as it was at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// How far the store's upgrade has been finished.
    pub levels: Levels,
    /// What applies where a policy does not say. What this does not say either is as the configuration has it.
    pub global: Policy,
    /// The definitions.
    pub definitions: BTreeMap<PolicyName, Policy>,
    /// Which topic is bound to which policy, defined or not.
    pub bindings: BTreeMap<Topic, PolicyName>,
}

/// What is said of one topic. What follows from it is decided by the sweeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPolicy {
    /// The topic.
    pub topic: Topic,
    /// The policy that it is bound to.
    pub policy: Option<PolicyName>,
    /// Nothing defines that policy: the topic holds its data.
    pub undefined: bool,
    /// What its policy says; nothing without one.
    pub fields: Policy,
    /// What applies where that does not say.
    pub global: Policy,
}

impl Policies {
    /// What is said of a topic.
    #[must_use]
    pub fn get(&self, topic: &Topic) -> TopicPolicy {
        let policy = self.bindings.get(topic).cloned();
        let defined = policy.as_ref().and_then(|name| self.definitions.get(name));
        TopicPolicy {
            topic: topic.clone(),
            undefined: policy.is_some() && defined.is_none(),
            fields: defined.cloned().unwrap_or_default(),
            global: self.global.clone(),
            policy,
        }
    }

    /// The topics that are bound to a policy, in order.
    #[must_use]
    pub fn bound_to(&self, name: &PolicyName) -> Vec<Topic> {
        self.bindings.iter().filter(|(_, bound)| *bound == name).map(|(topic, _)| topic.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_at_its_limit_and_refused_when_it_is_empty_too_long_or_unprintable() {
        assert_eq!(PolicyName::new(&"x".repeat(255)).expect("the longest").as_str().len(), 255);
        assert!(PolicyName::new("topic:a b/é").is_ok());
        assert_eq!(PolicyName::new(""), Err(PolicyNameError::Empty));
        let long = PolicyName::new(&"x".repeat(256));
        assert_eq!(long, Err(PolicyNameError::TooLong { bytes: 256, limit: 255 }));
        for name in [" a", "a ", "a\nb", "\u{7f}", "a\0"] {
            assert!(matches!(PolicyName::new(name), Err(PolicyNameError::Unprintable { .. })), "{name:?}");
        }
    }

    #[test]
    fn a_topic_that_is_bound_to_nothing_that_is_defined_says_so() {
        let topic = Topic::new("t").expect("short");
        let name = PolicyName::new("short").expect("a name");
        let mut policies = Policies::default();
        assert!(!policies.get(&topic).undefined && policies.get(&topic).policy.is_none());
        policies.bindings.insert(topic.clone(), name.clone());
        assert!(policies.get(&topic).undefined);
        assert_eq!(policies.bound_to(&name), std::slice::from_ref(&topic));
        policies.definitions.insert(name, Policy::default());
        assert!(!policies.get(&topic).undefined);
    }

    #[test]
    fn a_gate_opens_what_it_says_and_closes_nothing() {
        assert_eq!(Levels::default().opened(Gate::Definitions), Levels { fields: FIELD_LEVEL, bindings: 0 });
        assert_eq!(Levels::default().opened(Gate::Bindings), Levels::CURRENT);
        let later = Levels { fields: 9, bindings: 9 };
        assert_eq!(later.opened(Gate::Bindings), later);
    }
}
