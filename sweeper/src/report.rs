//! What a pass did, for people and for metrics.

use crate::decide::{Held, Hold, Now, Plan, Planned};
use std::collections::BTreeMap;
use std::fmt;
use strandline::id::SegmentId;
use strandline::{Topic, VerbError};

/// What could not be carried out. It is tried again by the next pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The segment.
    pub segment: SegmentId,
    /// What the store answered.
    pub error: VerbError,
}

/// What one pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The instant at which it decided, wall ms.
    pub at_ms: u64,
    /// Nothing was carried out: `expired` and `rolled` are what would have been.
    pub dry_run: bool,
    /// What expired, oldest first within a log.
    pub expired: Vec<Planned>,
    /// Segments and logical bytes that expired, for each topic.
    pub per_topic: BTreeMap<Topic, (u64, u64)>,
    /// What is due and stays, and what holds it.
    pub held: Vec<Held>,
    /// Write heads that were sealed for their age.
    pub rolled: Vec<SegmentId>,
    /// What failed.
    pub failures: Vec<Failure>,
    /// Topics bound to a policy that nobody defined: they hold their data.
    pub unresolved: Vec<Topic>,
    /// Why nothing went by age, if so.
    pub clock_held: Option<Hold>,
    /// A cap left something: the next pass is due at once.
    pub budget_spent: bool,
    /// Logical bytes that a cap left.
    pub backlog_bytes: u128,
}

impl Report {
    pub(crate) fn new(now: Now, plan: &Plan) -> Report {
        Report {
            at_ms: now.ms,
            dry_run: false,
            expired: Vec::new(),
            per_topic: BTreeMap::new(),
            held: plan.held.clone(),
            rolled: Vec::new(),
            failures: Vec::new(),
            unresolved: Vec::new(),
            clock_held: plan.clock_held,
            budget_spent: plan.budget_spent,
            backlog_bytes: plan.backlog_bytes,
        }
    }

    pub(crate) fn note_expired(&mut self, planned: Planned) {
        let (segments, bytes) = self.per_topic.entry(planned.segment.log.topic.clone()).or_default();
        *segments += 1;
        *bytes = bytes.saturating_add(planned.byte_size);
        self.expired.push(planned);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.per_topic.values().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let would = if self.dry_run { "would expire" } else { "expired" };
        writeln!(f, "{would} {} segments of {bytes} bytes, rolled {}", self.expired.len(), self.rolled.len())?;
        if let Some(hold) = &self.clock_held {
            writeln!(f, "{hold}")?;
        }
        self.expired.iter().try_for_each(|planned| writeln!(f, "{planned}"))?;
        self.held.iter().try_for_each(|held| writeln!(f, "{held}"))?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "{}: {}", failure.segment, failure.error))?;
        self.unresolved.iter().try_for_each(|topic| {
            writeln!(f, "topic {topic} is bound to a policy that nobody defined: it holds its data")
        })?;
        if self.budget_spent {
            writeln!(f, "{} bytes are left for the next pass, which is due at once", self.backlog_bytes)?;
        }
        Ok(())
    }
}
