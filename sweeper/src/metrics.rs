//! What workers count since they were started, for whoever exports it. Labels are topics, replies and causes; no segment is ever one.

use crate::reply::Reply;
use crate::report::{Expired, Report};
use std::collections::BTreeMap;
use std::time::Duration;
use strandline::Topic;

/// The upper bounds of a histogram's buckets but the last, in milliseconds. A duration at a bound is within it.
pub const BUCKETS_MS: [u64; 10] = [1, 5, 25, 100, 500, 1_000, 5_000, 15_000, 60_000, 300_000];

/// Durations, counted in fixed buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many fell into each bucket of [`BUCKETS_MS`]; the last bucket has what is longer.
    pub buckets: [u64; BUCKETS_MS.len() + 1],
    /// Their sum.
    pub sum: Duration,
}

impl Histogram {
    /// Counts a duration.
    pub fn note(&mut self, duration: Duration) {
        let is_within = |bound_ms: &u64| duration <= Duration::from_millis(*bound_ms);
        let bucket = BUCKETS_MS.iter().position(is_within).unwrap_or(BUCKETS_MS.len());
        self.buckets[bucket] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What one worker counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics<C> {
    /// How long the passes took that did their work.
    pub durations: Histogram,
    /// Skipped passes, by cause.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Passes that panicked.
    pub panicked: u64,
    /// How often the worker's thread died.
    pub deaths: u64,
    /// What is particular to its passes.
    pub counts: C,
}

/// What retention passes count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionCounts {
    /// What expired, by topic.
    pub expired: BTreeMap<Topic, Expired>,
    /// Expiries that were not carried out, by what the store answered.
    pub failures: BTreeMap<Reply, u64>,
    /// Passes that found the topic bound to a policy that nobody defined.
    pub unresolved: BTreeMap<Topic, u64>,
    /// Write heads that were sealed for their age.
    pub rolled: u64,
    /// Logical bytes that the caps of the last pass left. No sum: what it is now.
    pub backlog_bytes: u128,
}

/// What orphan passes count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanCounts {
    /// Directories that were given up, and wait in the trash.
    pub given_up: u64,
    /// Orphans whose bytes are gone.
    pub removed: u64,
    /// Directories that could not be given up, each time.
    pub failed: u64,
    /// How many directories the last pass found for each reason, as its report counts them. No sum: what it is now.
    pub left: BTreeMap<&'static str, usize>,
}

/// What passes of scrubbing count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Segments that were read to their end.
    pub segments: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Stretches that did not verify, each time.
    pub damaged: u64,
    /// Indexes that were built again.
    pub rebuilt: u64,
    /// Segments that could not be read, or whose index could not be built, each time.
    pub failed: u64,
    /// Rounds that have ended.
    pub rounds: u64,
    /// When the next round is due, wall ms. No sum: what it is now.
    pub next_round_ms: u64,
}

impl RetentionCounts {
    /// Adds what a pass did. A dry run did nothing.
    pub fn note(&mut self, report: &Report) {
        if report.dry_run {
            return;
        }
        for (topic, more) in &report.per_topic {
            let expired = self.expired.entry(topic.clone()).or_default();
            expired.segments += more.segments;
            expired.bytes = expired.bytes.saturating_add(more.bytes);
        }
        for (reply, failed) in report.failures_by_reply() {
            *self.failures.entry(reply).or_default() += failed;
        }
        for topic in &report.unresolved {
            *self.unresolved.entry(topic.clone()).or_default() += 1;
        }
        self.rolled += report.rolled.len() as u64;
        self.backlog_bytes = report.backlog_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_at_a_bound_is_within_it_and_one_past_it_is_in_the_next_bucket() {
        let mut histogram = Histogram::default();
        for bound_ms in BUCKETS_MS {
            histogram.note(Duration::from_millis(bound_ms));
            histogram.note(Duration::from_millis(bound_ms) + Duration::from_nanos(1));
        }
        let mut expected = [2; BUCKETS_MS.len() + 1];
        (expected[0], expected[BUCKETS_MS.len()]) = (1, 1);
        assert_eq!((histogram.buckets, histogram.count()), (expected, 20));
    }
}
