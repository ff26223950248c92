//! Policies as callers hold them: defined, deleted, bound and read back.

use super::store::Store;
use crate::error::PolicyError;
use crate::id::Topic;
use crate::manifest::PublishedPolicies;
use crate::pending::{Pending, pair};
use crate::policy::{Fields, Gate, Policies, TopicPolicy};
use crate::shard::command::{Command, Refused};
use crate::shard::policies::{Changed, PolicyAnswer, PolicyAsked, PolicyChange};
use std::sync::Arc;

/// Where the policies of a store are changed and read, the one set of checks behind every surface. Each change names its actor for the
/// audit log, which refusals reach too: a user, or `cli@` and a host.
#[derive(Clone, Copy, Debug)]
pub struct PolicyDesk<'a> {
    store: &'a Store,
}

impl Store {
    /// The policies of this store.
    #[must_use]
    pub fn policies(&self) -> PolicyDesk<'_> {
        PolicyDesk { store: self }
    }
}

impl PolicyDesk<'_> {
    /// Defines a policy, durably. One of that name is replaced whole, for all topics that are bound to it.
    ///
    /// # Errors
    /// [`PolicyError::Name`], [`PolicyError::Field`], [`PolicyError::NotFinalized`], [`PolicyError::TooManyPolicies`],
    /// [`PolicyError::Manifest`].
    pub fn define(&self, name: &str, fields: impl Into<Fields>, actor: &str) -> PolicyAnswer {
        self.change(PolicyChange::Define { name: name.to_owned(), fields: fields.into() }, actor).wait()
    }

    /// Deletes a policy, durably. With `forced` also one to which topics are bound: they hold their data then.
    ///
    /// # Errors
    /// [`PolicyError::NoSuchPolicy`], [`PolicyError::InUse`], [`PolicyError::BindingsUnavailable`], [`PolicyError::Manifest`].
    pub fn delete(&self, name: &str, forced: bool, actor: &str) -> PolicyAnswer {
        self.change(PolicyChange::Delete { name: name.to_owned(), forced }, actor).wait()
    }

    /// Binds a topic to a policy, durably, instead of the one that it was bound to. The binding goes with the topic's last range.
    ///
    /// # Errors
    /// [`PolicyError::NoSuchPolicy`], [`PolicyError::NoSuchTopic`], [`PolicyError::NotFinalized`],
    /// [`PolicyError::HostKeepsBindings`], [`PolicyError::BindingsUnavailable`], [`PolicyError::Manifest`].
    pub fn bind(&self, topic: &Topic, name: &str, actor: &str) -> PolicyAnswer {
        self.change(PolicyChange::Bind { topic: topic.clone(), name: name.to_owned() }, actor).wait()
    }

    /// Binds a topic to no policy, durably: the global values apply to it. One that is bound to none is no error.
    ///
    /// # Errors
    /// [`PolicyError::HostKeepsBindings`], [`PolicyError::BindingsUnavailable`], [`PolicyError::Manifest`].
    pub fn unbind(&self, topic: &Topic, actor: &str) -> PolicyAnswer {
        self.change(PolicyChange::Unbind { topic: topic.clone() }, actor).wait()
    }

    /// Sets what applies where a policy does not say, durably, and all of it: a field that is left out is as the configuration has it.
    ///
    /// # Errors
    /// [`PolicyError::Field`], [`PolicyError::NotFinalized`], [`PolicyError::Manifest`].
    pub fn set_global(&self, fields: impl Into<Fields>, actor: &str) -> PolicyAnswer {
        self.change(PolicyChange::SetGlobal { fields: fields.into() }, actor).wait()
    }

    /// Finishes an upgrade, durably and for good: no older release opens the store any more. A store that this release made is
    /// at its levels already.
    ///
    /// # Errors
    /// [`PolicyError::Manifest`].
    pub fn finalize(&self, gate: Gate, actor: &str) -> PolicyAnswer {
        self.change(PolicyChange::Finalize { gate }, actor).wait()
    }

    /// Any change, without waiting for it: changes are made in the order in which they were asked for.
    pub fn change(&self, change: PolicyChange, actor: &str) -> Pending<PolicyAnswer> {
        let (answer, pending) = pair::<Result<Changed, PolicyError>>();
        let (queue, actor) = (self.store.manifest_queue(), actor.to_owned());
        match queue.admit(0) {
            Ok(admitted) => queue.push(Command::Policy(PolicyAsked { change, actor, answer, admitted })),
            Err(Refused::Closed) => answer.give(Err(PolicyError::Closed)),
            Err(Refused::Overloaded(outstanding, _)) => {
                answer.give(Err(PolicyError::Overloaded { outstanding, limit: queue.limits().0 }));
            }
        }
        pending
    }

    /// What is said of a topic: its policy, whether anything defines that, and the fields as they stand there. A topic that does not
    /// exist is bound to nothing.
    ///
    /// # Errors
    /// [`PolicyError::BindingsUnavailable`], where the host keeps the bindings.
    pub fn get(&self, topic: &Topic) -> Result<TopicPolicy, PolicyError> {
        Ok(self.list()?.get(topic))
    }

    /// How often policies, bindings or global values changed since the store was opened. Whoever has seen a number reads everything that
    /// it counts. It costs next to nothing, asks nobody, and knows nothing of bindings that a host keeps.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.store.published_policies().map(PublishedPolicies::changes).unwrap_or_default()
    }

    /// All policies and bindings as they were durable at one moment: a pass reads them once and decides everything by that. Where the
    /// host keeps the bindings it is asked, and waited for.
    ///
    /// # Errors
    /// [`PolicyError::BindingsUnavailable`].
    pub fn list(&self) -> Result<Arc<Policies>, PolicyError> {
        let policies = self.store.published_policies().map(PublishedPolicies::read).unwrap_or_default();
        let Some(host) = self.store.host() else { return Ok(policies) };
        let (answer, pending) = pair();
        host.0.bindings(answer);
        Ok(match pending.wait()? {
            Some(bindings) => Arc::new(Policies { bindings, ..(*policies).clone() }),
            None => policies,
        })
    }
}
