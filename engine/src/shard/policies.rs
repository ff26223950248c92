//! Policies as they are changed: one change after the other, each checked against what the one before it came to, durable before it is
//! answered, and noted in the audit log whether it was done or refused.

use super::command::Admitted;
use super::shard::{Event, Shard};
use super::siblings::Siblings;
use super::verb::{Restamped, Verdict};
use crate::audit::{self, AuditLog, AuditRecord};
use crate::config::{CheckedConfig, sabotaged};
use crate::error::{ManifestError, PolicyError, VerbError};
use crate::format::manifest::{Edit, PolicyEdit};
use crate::host::HostBindings;
use crate::id::{SegmentId, Topic};
use crate::layout;
use crate::manifest::{Edits, Manifest, PublishedPolicies};
use crate::pending::{Answer, pair};
use crate::policy::{BINDING_LEVEL, FIELD_LEVEL, Fields, Gate, POLICIES_MAX, Policies, Policy, PolicyName, Vocabulary};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use strandline_disk::{Disk, DiskError};

/// What is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyChange {
    /// Define a policy; one of that name is replaced whole.
    Define {
        /// Its name.
        name: String,
        /// All that it is to say.
        fields: Fields,
    },
    /// Delete a policy.
    Delete {
        /// Its name.
        name: String,
        /// Also when topics are bound to it: they hold their data then.
        forced: bool,
    },
    /// Bind a topic to a policy, instead of the one that it was bound to.
    Bind {
        /// The topic.
        topic: Topic,
        /// The policy's name.
        name: String,
    },
    /// Bind a topic to no policy.
    Unbind {
        /// The topic.
        topic: Topic,
    },
    /// Set what applies where a policy does not say: all of it.
    SetGlobal {
        /// All that it is to say.
        fields: Fields,
    },
    /// Finish an upgrade.
    Finalize {
        /// What that opens.
        gate: Gate,
    },
}

/// A change that was done, durably.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Why the audit log does not say so yet. The change stands all the same, and the line is written with the next one.
    pub unaudited: Option<DiskError>,
}

/// What a change is answered.
pub type PolicyAnswer = Result<Changed, PolicyError>;

/// A change, and who wants it.
pub struct PolicyAsked {
    /// What is to be changed.
    pub change: PolicyChange,
    /// Who wants it, for the audit log: a user, or `cli@` and a host.
    pub actor: String,
    /// Who waits for it.
    pub answer: Answer<PolicyAnswer>,
    /// Its share of the limits.
    pub admitted: Admitted,
}

/// What came of a wish to restamp the seal time of a segment, and who wants it said.
pub struct RestampNoted {
    /// The segment.
    pub segment: SegmentId,
    /// Who wanted it, for the audit log.
    pub actor: String,
    /// What came of it.
    pub result: Verdict<Restamped>,
    /// Who waits for it to be said.
    pub answer: Answer<PolicyAnswer>,
    /// Its share of the limits.
    pub admitted: Admitted,
}

/// What there is to do for whoever writes the audit log.
enum Task {
    Change(PolicyAsked),
    Note(RestampNoted),
}

/// Changes that wait for the one before.
#[derive(Default)]
pub(super) struct Waiting {
    asked: RefCell<VecDeque<Task>>,
    at_work: Cell<bool>,
    audit: RefCell<AuditLog>,
}

impl Waiting {
    /// The next one. Without it the work ends.
    fn next(&self) -> Option<Task> {
        let next = self.asked.borrow_mut().pop_front();
        self.at_work.set(next.is_some());
        next
    }
}

impl<D: Disk> Shard<D> {
    /// The policies as they are durable; in the shard that keeps the manifest.
    #[must_use]
    pub fn policies(&self) -> Option<PublishedPolicies> {
        self.manifest.as_ref().map(Manifest::policies)
    }

    /// Takes a change. It is done after those that were taken before it.
    pub(super) fn receive_policy(&mut self, asked: PolicyAsked) {
        self.receive_task(Task::Change(asked));
    }

    /// Takes what is to be said in the audit log.
    pub(super) fn receive_note(&mut self, noted: RestampNoted) {
        self.receive_task(Task::Note(noted));
    }

    fn receive_task(&mut self, asked: Task) {
        // Dropped, it is answered that there is nobody.
        let Some(policies) = self.policies() else { return };
        self.policies.asked.borrow_mut().push_back(asked);
        if self.policies.at_work.replace(true) {
            return;
        }
        let clerk = Clerk {
            disk: self.disk.clone(),
            config: self.config.clone(),
            edits: self.edits.clone(),
            siblings: self.siblings.clone(),
            waiting: self.policies.clone(),
            policies,
        };
        self.spawn(async move {
            clerk.work().await;
            Event::Done(Box::new(|_: &mut Shard<D>| {}))
        });
    }
}

/// Who carries changes out.
struct Clerk<D> {
    disk: D,
    config: Rc<CheckedConfig>,
    edits: Edits,
    siblings: Arc<Siblings>,
    waiting: Rc<Waiting>,
    policies: PublishedPolicies,
}

impl<D: Disk> Clerk<D> {
    async fn work(&self) {
        while let Some(task) = self.waiting.next() {
            let PolicyAsked { change, actor, answer, admitted } = match task {
                Task::Change(asked) => asked,
                Task::Note(RestampNoted { segment, actor, result, answer, admitted }) => {
                    let unaudited = self.note(record_of_restamp(&segment, &actor, &result)).await;
                    admitted.answer(answer, Ok(Changed { unaudited }));
                    continue;
                }
            };
            let result = self.carry_out(&change).await;
            if sabotaged!(self.config, AnswerPolicyBeforeEdit) {
                admitted.answer(answer, result.map(|()| Changed::default()));
                continue;
            }
            let unaudited = self.note(record(&change, &actor, &result)).await;
            // Whoever has the answer finds the room.
            admitted.answer(answer, result.map(|()| Changed { unaudited }));
        }
    }

    async fn carry_out(&self, change: &PolicyChange) -> Result<(), PolicyError> {
        // One picture: no other change is made meanwhile.
        let now = self.policies.read();
        let edit = match change {
            PolicyChange::Define { name, fields } => self.define(&now, name, fields)?,
            PolicyChange::Delete { name, forced } => self.delete(&now, name, *forced).await?,
            PolicyChange::Bind { topic, name } => return self.bind(&now, topic, name).await,
            PolicyChange::Unbind { topic } => {
                self.keeps_bindings(topic).await?;
                if !now.bindings.contains_key(topic) {
                    return Ok(()); // It is bound to none, as was wanted.
                }
                PolicyEdit::Unbound { topic: topic.clone() }
            }
            PolicyChange::SetGlobal { fields } => {
                is_open("setting global values of policies", FIELD_LEVEL, now.levels.fields)?;
                PolicyEdit::Global { policy: self.policy(&now, fields)? }
            }
            PolicyChange::Finalize { gate } => {
                let levels = now.levels.opened(*gate);
                if levels == now.levels {
                    return Ok(());
                }
                PolicyEdit::Finalized { levels }
            }
        };
        self.submit(edit).await
    }

    fn define(&self, now: &Policies, name: &str, fields: &Fields) -> Result<PolicyEdit, PolicyError> {
        let name = PolicyName::new(name)?;
        is_open("defining policies", FIELD_LEVEL, now.levels.fields)?;
        let policy = self.policy(now, fields)?;
        if now.definitions.len() >= POLICIES_MAX && !now.definitions.contains_key(&name) {
            return Err(PolicyError::TooManyPolicies { limit: POLICIES_MAX });
        }
        Ok(PolicyEdit::Defined { name, policy })
    }

    fn policy(&self, now: &Policies, fields: &Fields) -> Result<Policy, PolicyError> {
        let vocabulary = Vocabulary { host_fields: &self.config.host_fields, level: now.levels.fields };
        Ok(fields.policy(vocabulary)?)
    }

    async fn delete(&self, now: &Policies, name: &str, forced: bool) -> Result<PolicyEdit, PolicyError> {
        let name = PolicyName::new(name)?;
        if !now.definitions.contains_key(&name) {
            return Err(PolicyError::NoSuchPolicy { name });
        }
        if !forced {
            let topics = match self.host_bindings().await? {
                Some(bindings) => {
                    let bound = bindings.into_iter().filter(|(_, bound)| *bound == name);
                    bound.map(|(topic, _)| topic).collect()
                }
                None => now.bound_to(&name),
            };
            if !topics.is_empty() {
                return Err(PolicyError::InUse { name, topics });
            }
        }
        Ok(PolicyEdit::Deleted { name })
    }

    async fn bind(&self, now: &Policies, topic: &Topic, name: &str) -> Result<(), PolicyError> {
        let name = PolicyName::new(name)?;
        is_open("binding a topic to a policy", BINDING_LEVEL, now.levels.bindings)?;
        self.keeps_bindings(topic).await?;
        if !now.definitions.contains_key(&name) {
            return Err(PolicyError::NoSuchPolicy { name });
        }
        self.submit(PolicyEdit::Bound { topic: topic.clone(), name: name.clone() }).await?;
        // Only where the edit was taken is it known whether the topic was there: all shards make and delete logs.
        match self.policies.read().bindings.get(topic) {
            Some(bound) if *bound == name => Ok(()),
            _ => Err(PolicyError::NoSuchTopic { topic: topic.clone() }),
        }
    }

    /// Refuses to change a binding that the host keeps.
    async fn keeps_bindings(&self, topic: &Topic) -> Result<(), PolicyError> {
        match self.host_bindings().await? {
            Some(_) => Err(PolicyError::HostKeepsBindings { topic: topic.clone() }),
            None => Ok(()),
        }
    }

    async fn host_bindings(&self) -> HostBindings {
        let Some(host) = &self.config.host else { return Ok(None) };
        let (answer, pending) = pair();
        host.0.bindings(answer);
        pending.await
    }

    async fn submit(&self, edit: PolicyEdit) -> Result<(), PolicyError> {
        let durable = self.edits.submit(vec![Edit::Policy(edit)]);
        if sabotaged!(self.config, AnswerPolicyBeforeEdit) {
            return Ok(());
        }
        // Durable before it is acknowledged: what was told holds after any crash.
        let result = durable.await;
        if let Err(ManifestError::Disk(source)) = &result {
            self.tell_all_shards(source);
        }
        Ok(result?)
    }

    /// What the device had not made durable may be lost with what failed. Every shard heeds that before it answers anybody.
    fn tell_all_shards(&self, source: &DiskError) {
        self.siblings.failures.note(source, u64::MAX);
    }

    /// Adds a line to the audit log. A failure is told and undoes nothing.
    async fn note(&self, record: AuditRecord) -> Option<DiskError> {
        let mut audit = self.waiting.audit.take();
        let record = AuditRecord { time_ms: self.disk.now().wall_ms, ..record };
        let result = audit.note(&self.disk, self.config.audit_bytes, record).await;
        self.waiting.audit.replace(audit);
        let error = result.err()?;
        if error.is_failed_flush() {
            self.siblings.note_failed_flush(&error);
        }
        tracing::error!(%error, "the audit log could not be written: the line is kept for the next time");
        Some(error)
    }
}

fn is_open(what: &'static str, needed: u32, level: u32) -> Result<(), PolicyError> {
    if level < needed { Err(PolicyError::NotFinalized { what, needed, level }) } else { Ok(()) }
}

/// The line of a change.
fn record(change: &PolicyChange, actor: &str, result: &Result<(), PolicyError>) -> AuditRecord {
    let outcome = match result {
        Ok(()) => "done",
        Err(PolicyError::Manifest(ManifestError::Disk(_) | ManifestError::Gone)) => "unknown",
        Err(_) => "refused",
    };
    let base = AuditRecord {
        actor: audit::text(actor),
        outcome,
        code: result.as_ref().err().map(PolicyError::code),
        reason: result.as_ref().err().map(|error| audit::text(&error.to_string())),
        ..AuditRecord::default()
    };
    let policy = |name: &String| Some(audit::text(name));
    let named = |topic: &Topic| Some(audit::text(&topic_text(topic)));
    match change {
        PolicyChange::Define { name, fields } => {
            let fields = Some(fields.clone());
            AuditRecord { event: "policy_defined", policy: policy(name), fields, ..base }
        }
        PolicyChange::Delete { name, forced } => {
            AuditRecord { event: "policy_deleted", policy: policy(name), forced: *forced, ..base }
        }
        PolicyChange::Bind { topic, name } => {
            AuditRecord { event: "topic_policy_bound", policy: policy(name), topic: named(topic), ..base }
        }
        PolicyChange::Unbind { topic } => AuditRecord { event: "topic_policy_unbound", topic: named(topic), ..base },
        PolicyChange::SetGlobal { fields } => {
            AuditRecord { event: "global_policy_set", fields: Some(fields.clone()), ..base }
        }
        PolicyChange::Finalize { .. } => AuditRecord { event: "upgrade_finalized", ..base },
    }
}

/// The line of a seal time that was restamped, or was to be.
fn record_of_restamp(segment: &SegmentId, actor: &str, result: &Verdict<Restamped>) -> AuditRecord {
    let outcome = match result {
        Ok(_) => "done",
        Err(VerbError::Manifest(ManifestError::Disk(_) | ManifestError::Gone) | VerbError::ShardGone) => "unknown",
        Err(_) => "refused",
    };
    let (done, refused) = (result.as_ref().ok(), result.as_ref().err());
    AuditRecord {
        event: "seal_restamped",
        actor: audit::text(actor),
        segment: Some(audit::text(layout::directory_name(segment).as_str())),
        sealed_at_before_ms: done.map(|restamped| restamped.before_ms),
        sealed_at_ms: done.map(|restamped| restamped.sealed_at_ms),
        outcome,
        code: refused.map(VerbError::code),
        reason: refused.map(|error| audit::text(&error.to_string())),
        ..AuditRecord::default()
    }
}

/// A topic as a text: as it is where it is one.
fn topic_text(topic: &Topic) -> String {
    let bytes = topic.as_bytes();
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}
