//! What the manifest says of policies: how edits change it, which edits build it again, and what readers see of it.

use super::state::{LogRecord, State};
use crate::format::manifest::{Edit, PolicyEdit};
use crate::id::{LogId, RangeNumber, Topic};
use crate::policy::{Levels, Policies, Policy};
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The policies as they are durable, for readers on any thread. A reader takes one picture and decides everything by it.
#[derive(Clone, Debug)]
pub struct PublishedPolicies(Arc<Published>);

#[derive(Debug)]
struct Published {
    policies: ArcSwap<Policies>,
    /// How often they changed since the store was opened.
    changes: AtomicU64,
}

impl PublishedPolicies {
    pub(super) fn new(policies: Arc<Policies>) -> PublishedPolicies {
        PublishedPolicies(Arc::new(Published { policies: ArcSwap::new(policies), changes: AtomicU64::new(0) }))
    }

    pub(super) fn publish(&self, policies: &Arc<Policies>) {
        if !Arc::ptr_eq(&self.0.policies.load(), policies) {
            self.0.policies.store(policies.clone());
            // Behind the change: whoever sees the count reads what it counts.
            self.0.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// All policies at one moment.
    #[must_use]
    pub fn read(&self) -> Arc<Policies> {
        self.0.policies.load_full()
    }

    /// How often they changed since the store was opened.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }
}

impl State {
    /// What a store of this release begins with: nothing but its levels, for no older release has ever read it.
    #[must_use]
    pub fn of_a_new_store() -> State {
        State { policies: Arc::new(Policies { levels: Levels::CURRENT, ..Policies::default() }), ..State::default() }
    }

    pub(super) fn apply_policy(&mut self, edit: &PolicyEdit) -> Result<(), String> {
        let State { logs, policies, .. } = self;
        match edit {
            PolicyEdit::Deleted { name } if !policies.definitions.contains_key(name) => {
                return Err(format!("policy {name} is deleted and is not defined"));
            }
            PolicyEdit::Finalized { levels } => {
                let (before, after) = (policies.levels, levels);
                if after.fields < before.fields || after.bindings < before.bindings {
                    return Err(format!("the levels go from {before:?} back to {after:?}"));
                }
            }
            // The topic may have been deleted while somebody was binding it.
            PolicyEdit::Bound { topic, .. } if !has_a_log(logs, topic) => return Ok(()),
            _ => {}
        }
        let policies = Arc::make_mut(policies);
        match edit {
            PolicyEdit::Defined { name, policy } => drop(policies.definitions.insert(name.clone(), policy.clone())),
            PolicyEdit::Deleted { name } => drop(policies.definitions.remove(name)),
            PolicyEdit::Bound { topic, name } => drop(policies.bindings.insert(topic.clone(), name.clone())),
            PolicyEdit::Unbound { topic } => drop(policies.bindings.remove(topic)),
            PolicyEdit::Global { policy } => policies.global = policy.clone(),
            PolicyEdit::Finalized { levels } => policies.levels = *levels,
        }
        Ok(())
    }

    /// A topic without logs is gone, and its binding with it: another topic of the same name begins without.
    pub(super) fn unbind_if_gone(&mut self, topic: &Topic) {
        if self.policies.bindings.contains_key(topic) && !has_a_log(&self.logs, topic) {
            Arc::make_mut(&mut self.policies).bindings.remove(topic);
        }
    }

    /// The edits that build what is said of policies, behind those of the logs.
    pub(super) fn policy_edits(&self) -> Vec<Edit> {
        let Policies { levels, global, definitions, bindings } = &*self.policies;
        let mut edits = Vec::new();
        if *levels != Levels::default() {
            edits.push(PolicyEdit::Finalized { levels: *levels });
        }
        if *global != Policy::default() {
            edits.push(PolicyEdit::Global { policy: global.clone() });
        }
        let defined = definitions.iter().map(|(name, policy)| (name.clone(), policy.clone()));
        edits.extend(defined.map(|(name, policy)| PolicyEdit::Defined { name, policy }));
        let bound = bindings.iter().map(|(topic, name)| (topic.clone(), name.clone()));
        edits.extend(bound.map(|(topic, name)| PolicyEdit::Bound { topic, name }));
        edits.into_iter().map(Edit::Policy).collect()
    }

    /// The bytes of all that is said of policies. The upgrade can always be finished.
    pub(super) fn policies_bytes(&self) -> usize {
        let finalized = bytes(PolicyEdit::Finalized { levels: Levels::CURRENT });
        let edits = self.policy_edits();
        let others = edits.iter().filter(|edit| !matches!(edit, Edit::Policy(PolicyEdit::Finalized { .. })));
        finalized + others.map(Edit::encoded_bytes).sum::<usize>()
    }

    /// How many more bytes the snapshot has with this edit: all of it where it is new, the difference where it takes another's place.
    pub(super) fn policy_growth(&self, edit: &PolicyEdit) -> usize {
        let Policies { global, definitions, bindings, .. } = &*self.policies;
        let before = match edit {
            PolicyEdit::Deleted { .. } | PolicyEdit::Unbound { .. } | PolicyEdit::Finalized { .. } => return 0,
            PolicyEdit::Defined { name, .. } => {
                let defined = definitions.get(name).cloned();
                defined.map(|policy| PolicyEdit::Defined { name: name.clone(), policy })
            }
            PolicyEdit::Bound { topic, .. } => {
                let bound = bindings.get(topic).cloned();
                bound.map(|name| PolicyEdit::Bound { topic: topic.clone(), name })
            }
            PolicyEdit::Global { .. } => {
                (*global != Policy::default()).then(|| PolicyEdit::Global { policy: global.clone() })
            }
        };
        bytes(edit.clone()).saturating_sub(before.map_or(0, bytes))
    }
}

/// Whether a topic is there. Its logs stand together, in the order of their ranges.
fn has_a_log(logs: &BTreeMap<LogId, LogRecord>, topic: &Topic) -> bool {
    let first = LogId { topic: topic.clone(), range: RangeNumber::default() };
    logs.range(first..).next().is_some_and(|(log, _)| log.topic == *topic)
}

fn bytes(edit: PolicyEdit) -> usize {
    Edit::Policy(edit).encoded_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Bound, PolicyName};

    fn topic() -> Topic {
        Topic::new("t").expect("short")
    }

    fn name() -> PolicyName {
        PolicyName::new("short").expect("a name")
    }

    fn log(range: u32) -> LogId {
        LogId { topic: topic(), range: RangeNumber::new(range).expect("small") }
    }

    /// A topic of two ranges, and a policy.
    fn state() -> State {
        let mut state = State::default();
        let policy = Policy { max_age_ms: Bound::Is(1), ..Policy::default() };
        let edits = [
            Edit::LogCreated { log: log(0) },
            Edit::LogCreated { log: log(1) },
            Edit::Policy(PolicyEdit::Defined { name: name(), policy }),
        ];
        edits.iter().for_each(|edit| state.apply(edit).expect("they follow each other"));
        state
    }

    fn bind() -> Edit {
        Edit::Policy(PolicyEdit::Bound { topic: topic(), name: name() })
    }

    #[test]
    fn a_topic_keeps_its_binding_while_it_has_a_range_and_loses_it_with_the_last() {
        let mut state = state();
        state.apply(&bind()).expect("bound");
        state.apply(&Edit::LogDeleted { log: log(0) }).expect("there is another one");
        assert_eq!(state.policies.bindings.get(&topic()), Some(&name()));
        state.apply(&Edit::LogDeleted { log: log(1) }).expect("the last one");
        assert!(state.policies.bindings.is_empty());
        state.apply(&bind()).expect("it says nothing");
        state.apply(&Edit::LogCreated { log: log(0) }).expect("the name is free");
        assert!(state.policies.bindings.is_empty(), "another topic of the same name begins without");
    }

    #[test]
    fn a_binding_outlives_its_definition_also_in_the_snapshot() {
        let mut state = state();
        state.apply(&bind()).expect("bound");
        state.apply(&Edit::Policy(PolicyEdit::Deleted { name: name() })).expect("deleted");
        assert!(state.policies.get(&topic()).undefined);
        let mut again = State::default();
        state.snapshot().iter().for_each(|edit| again.apply(edit).expect("they follow each other"));
        assert_eq!(again, state);
    }

    #[test]
    fn readers_see_nothing_but_what_was_published_and_keep_their_picture() {
        let mut state = state();
        let published = PublishedPolicies::new(state.policies.clone());
        let before = published.read();
        state.apply(&bind()).expect("bound");
        assert!(published.read().bindings.is_empty(), "not durable yet");
        published.publish(&state.policies);
        assert!(before.bindings.is_empty() && !published.read().bindings.is_empty());
    }

    #[test]
    fn every_contradiction_is_a_sentence_and_changes_nothing() {
        let mut state = state();
        state.apply(&Edit::Policy(PolicyEdit::Finalized { levels: Levels::CURRENT })).expect("finalized");
        let other = PolicyName::new("other").expect("a name");
        let contradictions = [
            (PolicyEdit::Deleted { name: other }, "is not defined"),
            (PolicyEdit::Finalized { levels: Levels { fields: 9, bindings: 0 } }, "back to"),
            (PolicyEdit::Finalized { levels: Levels { fields: 0, bindings: 9 } }, "back to"),
        ];
        for (edit, words) in contradictions {
            let before = state.clone();
            let sentence = state.apply(&Edit::Policy(edit)).expect_err("a contradiction");
            assert!(sentence.contains(words) && state == before, "{sentence}");
        }
    }
}
