//! Expiry: a policy that lets segments go, and the sweeper's passes that carry it out, one at a time.

use super::Subject;
use crate::error::{BenchError, store};
use strandline::Topic;
use strandline::policy::{Bound, Policy};
use strandline_sweeper::clock;
use strandline_sweeper::decide::ClockGuard;
use strandline_sweeper::pass::{Limits, Sweep};

/// Passes over a store, as the sweeper's thread makes them.
pub struct Expiry<'a> {
    subject: &'a Subject,
    sweep: Sweep,
}

/// What a pass did.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Segments that expired.
    pub expired: u64,
    /// Its caps left some: the next one is due at once.
    pub again: bool,
}

impl Subject {
    /// From now on a topic keeps so many bytes of sealed segments in each of its logs.
    ///
    /// # Errors
    /// What the store answered.
    pub fn keep_bytes(&self, topic: &str, bytes: u64) -> Result<(), BenchError> {
        let topic = Topic::new(topic).map_err(store("naming a topic"))?;
        let (policies, policy) = (self.store.policies(), Policy { max_bytes: Bound::Is(bytes), ..Policy::default() });
        policies.define("bench", &policy, "bench").map_err(store("defining a policy"))?;
        policies.bind(&topic, "bench", "bench").map_err(store("binding a policy"))?;
        Ok(())
    }
}

impl Expiry<'_> {
    /// None was made yet. The clock is that of this moment.
    pub fn of(subject: &Subject) -> Expiry<'_> {
        Expiry { subject, sweep: Sweep::new(ClockGuard::open(clock::read(), None)) }
    }

    /// Makes one, with the caps that it has by default.
    ///
    /// # Errors
    /// Why it was skipped, or what failed in it.
    pub fn pass(&mut self) -> Result<Passed, BenchError> {
        let passed = self.sweep.pass(&self.subject.store, clock::read(), &Limits::default());
        let report = passed.map_err(store("making a pass"))?;
        match report.failures.first() {
            Some(failure) => Err(BenchError::Store { doing: "expiring a segment", reason: failure.error.to_string() }),
            None => Ok(Passed { expired: report.expired.len() as u64, again: report.budget_spent }),
        }
    }
}
