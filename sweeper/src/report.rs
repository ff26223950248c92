//! What a pass did, for people and for metrics.

use crate::decide::{Held, HeldBy, Hold, Now, Plan, Planned, StampAhead};
use crate::reply::{Refused, Reply};
use std::collections::BTreeMap;
use std::fmt;
use strandline::id::SegmentId;
use strandline::{LogId, Removed, Topic, VerbError};

/// What a pass was about to do with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// To have it expire.
    Expire,
    /// To seal it for its age.
    Roll,
}

/// What could not be carried out. It is tried again by the next pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The segment.
    pub segment: SegmentId,
    /// What was to be done with it.
    pub doing: Doing,
    /// What the store answered, or the host.
    pub error: Refused,
}

impl Failure {
    /// The label of the answer.
    #[must_use]
    pub fn reply(&self) -> Reply {
        Reply::of(Err(&self.error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doing = match self.doing {
            Doing::Expire => "did not expire",
            Doing::Roll => "did not roll",
        };
        write!(f, "{} {doing} ({}): {}", self.segment, self.reply(), self.error)
    }
}

/// The age at which the segments of a log are rolled from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollTimer {
    /// The log.
    pub log: LogId,
    /// The age in milliseconds; none is off.
    pub segment_max_age_ms: Option<u64>,
}

/// How many segments expired by which rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByReason {
    /// By age alone.
    pub age: u64,
    /// By size alone.
    pub size: u64,
    /// By both.
    pub both: u64,
}

/// How many segments are due and stay, by what holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldCounts {
    /// Held behind an older segment that stays.
    pub behind: u64,
    /// Pinned by the host.
    pub pinned: u64,
    /// Left by a cap for the next pass.
    pub capped: u64,
}

/// How much expired, or is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Segments.
    pub segments: u64,
    /// Their logical bytes.
    pub bytes: u64,
}

impl Expired {
    /// One segment more.
    fn add(&mut self, bytes: u64) {
        self.segments += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What one pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The instant at which it decided, wall ms.
    pub at_ms: u64,
    /// Nothing was carried out: `expired`, `rolled` and `timers` are what would have been.
    pub dry_run: bool,
    /// What expired, oldest first within a log.
    pub expired: Vec<Planned>,
    /// How much expired of each topic.
    pub per_topic: BTreeMap<Topic, Expired>,
    /// What is due and stays, and what holds it.
    pub held: Vec<Held>,
    /// Write heads that were sealed for their age.
    pub rolled: Vec<SegmentId>,
    /// Logs whose segments are rolled at another age since this pass.
    pub timers: Vec<RollTimer>,
    /// Logs of which that could not be said to the store, and what it answered. The next pass tries again.
    pub timers_failed: Vec<(LogId, VerbError)>,
    /// What failed.
    pub failures: Vec<Failure>,
    /// Topics bound to a policy that nobody defined: they hold their data.
    pub unresolved: Vec<Topic>,
    /// Seal times that lie ahead of the clock: those segments expire by age that much late.
    pub stamps_ahead: Vec<(SegmentId, StampAhead)>,
    /// Why nothing went by age, if so.
    pub clock_held: Option<Hold>,
    /// A cap left something: the next pass is due at once.
    pub budget_spent: bool,
    /// Logical bytes that a cap left.
    pub backlog_bytes: u128,
    /// How removal goes: its rate, what waits for it, and how often appends held it back, since the store was opened.
    pub removal: Removed,
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
            timers: Vec::new(),
            timers_failed: Vec::new(),
            failures: Vec::new(),
            unresolved: Vec::new(),
            stamps_ahead: plan.stamps_ahead.clone(),
            clock_held: plan.clock_held,
            budget_spent: plan.budget_spent,
            backlog_bytes: plan.backlog_bytes,
            removal: Removed::default(),
        }
    }

    pub(crate) fn note_expired(&mut self, planned: Planned) {
        self.per_topic.entry(planned.segment.log.topic.clone()).or_default().add(planned.byte_size);
        self.expired.push(planned);
    }

    pub(crate) fn note_kept(&mut self, segment: SegmentId, error: Refused) {
        self.failures.push(Failure { segment, doing: Doing::Expire, error });
    }

    /// How many segments expired by which rule.
    #[must_use]
    pub fn expired_by_reason(&self) -> ByReason {
        let mut counts = ByReason::default();
        for planned in &self.expired {
            match (planned.reasons.age, planned.reasons.size) {
                (Some(_), None) => counts.age += 1,
                (None, _) => counts.size += 1,
                (Some(_), Some(_)) => counts.both += 1,
            }
        }
        counts
    }

    /// How many segments are due and stay, by what holds them.
    #[must_use]
    pub fn held_counts(&self) -> HeldCounts {
        let mut counts = HeldCounts::default();
        for held in &self.held {
            match held.by {
                HeldBy::Behind(_) => counts.behind += 1,
                HeldBy::Pin { .. } => counts.pinned += 1,
                HeldBy::LogCap(_) | HeldBy::PassCap(_) => counts.capped += 1,
            }
        }
        counts
    }

    /// What each holder of a pin holds back of what is due, over all logs.
    #[must_use]
    pub fn pinned(&self) -> BTreeMap<&str, Expired> {
        let mut pinned = BTreeMap::<&str, Expired>::new();
        for held in &self.held {
            if let HeldBy::Pin { holder, .. } = &held.by {
                pinned.entry(holder).or_default().add(held.byte_size);
            }
        }
        pinned
    }

    /// Expiries that were not carried out, by what the store answered.
    #[must_use]
    pub fn failures_by_reply(&self) -> BTreeMap<Reply, u64> {
        let mut counts = BTreeMap::new();
        for failure in self.failures.iter().filter(|failure| failure.doing == Doing::Expire) {
            *counts.entry(failure.reply()).or_default() += 1;
        }
        counts
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.per_topic.values().fold(0, |sum, expired| sum.saturating_add(expired.bytes));
        let would = if self.dry_run { "would expire" } else { "expired" };
        let ByReason { age, size, both } = self.expired_by_reason();
        writeln!(
            f,
            "{would} {} segments of {bytes} bytes (by age {age}, by size {size}, by both {both}), rolled {}",
            self.expired.len(),
            self.rolled.len()
        )?;
        let HeldCounts { behind, pinned, capped } = self.held_counts();
        if !self.held.is_empty() {
            writeln!(f, "due and held: {behind} behind older ones, {pinned} pinned, {capped} over a cap")?;
        }
        for (holder, Expired { segments, bytes }) in self.pinned() {
            writeln!(f, "{holder} pins {segments} segments of {bytes} bytes")?;
        }
        if let Some(hold) = &self.clock_held {
            writeln!(f, "{hold}")?;
        }
        self.expired.iter().try_for_each(|planned| writeln!(f, "{planned}"))?;
        self.held.iter().try_for_each(|held| writeln!(f, "{held}"))?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "{failure}"))?;
        self.timers_failed
            .iter()
            .try_for_each(|(log, error)| writeln!(f, "{log} keeps the age of its rolls: {error}"))?;
        self.stamps_ahead.iter().try_for_each(|(segment, ahead)| writeln!(f, "{segment}: {ahead}"))?;
        self.unresolved.iter().try_for_each(|topic| {
            writeln!(f, "topic {topic} is bound to a policy that nobody defined: it holds its data")
        })?;
        if self.removal != Removed::default() {
            writeln!(f, "removal: {}", self.removal)?;
        }
        if self.budget_spent {
            writeln!(f, "{} bytes are left for the next pass, which is due at once", self.backlog_bytes)?;
        }
        Ok(())
    }
}
