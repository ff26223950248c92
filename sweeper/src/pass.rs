//! One retention pass: what the store holds and what its policies say go into a plan, and the plan is carried out.
//!
//! The store durably forgets a segment before any of its bytes go; that part is the store's. Here nothing is decided: [`decide::plan`]
//! does.

use crate::decide::{self, Caps, ClockGuard, Global, KeptLog, Planned, Policies, Turn};
use crate::report::{Failure, Report};
use std::collections::BTreeMap;
use strandline::error::PolicyError;
use strandline::id::SegmentId;
use strandline::policy::{Bound, Policy};
use strandline::{Inventory, Log, LogId, Store, VerbError};

/// What a pass may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How much it may expire.
    pub caps: Caps,
    /// Age in milliseconds at which segments expire of topics whose policy nobody defined; `None` is never.
    pub backstop_max_age_ms: Option<u64>,
    /// Nothing is carried out: the report says what would be.
    pub dry_run: bool,
}

/// Why a pass did nothing at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// The policies could not be read: without them nothing can be decided.
    #[error("the policies cannot be read: {0}; nothing expires until they can")]
    Policies(#[from] PolicyError),
    /// The store did not say what it holds.
    #[error("the store does not say what it holds: {0}; nothing expires until it does")]
    Inventory(#[from] VerbError),
}

/// Makes passes over one store, and remembers between them what has to be remembered.
#[derive(Debug)]
pub struct Sweep {
    clock: ClockGuard,
    turn: Turn,
}

impl Sweep {
    /// Begins at the clock's reading when the store was opened.
    #[must_use]
    pub fn new(clock: ClockGuard) -> Sweep {
        Sweep { clock, turn: Turn::default() }
    }

    /// The clock's guard, for an operator who confirms the time.
    pub fn clock(&mut self) -> &mut ClockGuard {
        &mut self.clock
    }

    /// One pass at this reading of the clocks.
    ///
    /// # Errors
    /// [`Skip`]: nothing was done, and the pass is to be made again.
    pub fn pass(&mut self, store: &Store, at: decide::Reading, limits: &Limits) -> Result<Report, Skip> {
        let now = self.clock.observe(at);
        // Read once: a change meanwhile is for the next pass.
        let policies = store.policies().list()?;
        let inventory = store.inventory()?;
        let (logs, unresolved) = kept_logs(&policies, &inventory, store.segment_max_age_ms(), limits);
        let mut plan = decide::plan(&logs, &now, &limits.caps, self.turn.clone());
        let (expire, roll) = (std::mem::take(&mut plan.expire), std::mem::take(&mut plan.roll));
        let mut report = Report { unresolved, dry_run: limits.dry_run, ..Report::new(now, &plan) };
        carry_out_expiries(store, expire, limits, &mut report);
        for (segment, _) in roll {
            if limits.dry_run {
                report.rolled.push(segment);
                continue;
            }
            match roll_one(store, &segment) {
                Ok(()) => report.rolled.push(segment),
                Err(error) => report.failures.push(Failure { segment, error }),
            }
        }
        if !limits.dry_run {
            self.turn = plan.turn;
        }
        Ok(report)
    }
}

/// Every log with what applies to it, and the topics whose policy nobody defined.
fn kept_logs(
    policies: &strandline::policy::Policies,
    inventory: &Inventory,
    segment_max_age_ms: Option<u64>,
    limits: &Limits,
) -> (Vec<KeptLog>, Vec<strandline::Topic>) {
    let definitions: Policies =
        policies.definitions.iter().map(|(name, policy)| (name.to_string(), policy.clone())).collect();
    let bindings: BTreeMap<_, String> =
        policies.bindings.iter().map(|(topic, name)| (topic, name.to_string())).collect();
    let global = global(&policies.global, segment_max_age_ms);
    let mut logs = Vec::new();
    for (topic, infos) in inventory {
        let name = bindings.get(topic).map(String::as_str);
        let effective = decide::effective(name, &definitions, &global, limits.backstop_max_age_ms);
        logs.extend(infos.iter().map(|info| KeptLog::new(info, effective)));
    }
    let bound = bindings.iter().map(|(topic, name)| (*topic, name.as_str()));
    let unresolved = decide::unresolved_policies(bound, &definitions).into_iter().cloned().collect();
    (logs, unresolved)
}

/// The store's own values. What the manifest does not say is as the configuration has it.
fn global(policy: &Policy, segment_max_age_ms: Option<u64>) -> Global {
    let value = |bound: Bound, or: Option<u64>| match bound {
        Bound::Inherit => or,
        Bound::Off => None,
        Bound::Is(value) => Some(value),
    };
    Global {
        max_age_ms: value(policy.max_age_ms, None),
        max_bytes: value(policy.max_bytes, None),
        segment_max_age_ms: value(policy.segment_max_age_ms, segment_max_age_ms),
    }
}

/// Expires what was planned, oldest first in each log. Behind one that failed its log goes no further: reads never meet a missing middle.
fn carry_out_expiries(store: &Store, expire: Vec<Planned>, limits: &Limits, report: &mut Report) {
    let mut stopped: Option<LogId> = None;
    // What goes of one log stands together in a plan: it is looked for once.
    let mut found: Option<(LogId, Option<Log>)> = None;
    for planned in expire {
        if limits.dry_run {
            report.note_expired(planned);
            continue;
        }
        let of_log = &planned.segment.log;
        if stopped.as_ref() == Some(of_log) {
            continue;
        }
        let expired = match found.take_if(|(id, _)| id == of_log) {
            Some((_, log)) => Ok(log),
            None => store.find(&of_log.topic, of_log.range),
        };
        let expired = expired.and_then(|log| {
            // One that is gone already is no error: a crash may have come between the two steps of an earlier pass.
            let expired = log.as_ref().map_or(Ok(()), |log| log.delete_segment(planned.segment.seq).wait());
            found = Some((of_log.clone(), log));
            expired
        });
        match expired {
            Ok(()) => report.note_expired(planned),
            Err(error) => {
                stopped = Some(of_log.clone());
                report.failures.push(Failure { segment: planned.segment, error });
            }
        }
    }
}

/// Seals the write head of a log for its age; the next append begins its successor. A log that was deleted meanwhile is not made again.
fn roll_one(store: &Store, segment: &SegmentId) -> Result<(), VerbError> {
    match store.find(&segment.log.topic, segment.log.range)? {
        Some(log) => log.seal().wait().map(drop),
        None => Err(VerbError::NoSuchLog { log: segment.log.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline::{Config, RangeNumber, Topic, id::Seq};

    /// An inventory is old as soon as it is read.
    #[test]
    fn a_log_that_was_deleted_since_the_plan_is_not_made_again_by_its_roll() {
        let root = tempfile::tempdir().expect("a directory");
        let store = Store::open(Config::new(root.path().join("store"))).expect("a store");
        let (topic, range) = (Topic::new("t").expect("a name"), RangeNumber::default());
        drop(store.log(&topic, range).expect("a log"));
        store.delete_topic(&topic).expect("deleted");
        let log = LogId { topic, range };
        let rolled = roll_one(&store, &SegmentId { log: log.clone(), seq: Seq::default() });
        assert_eq!(rolled, Err(VerbError::NoSuchLog { log }));
        assert!(store.topics().expect("an answer").is_empty());
    }
}
