//! T1: random histories against the model. A case is a seed; everything follows from it.

use super::tally::Tally;
use crate::harness::random::Random;
use crate::harness::step::Step;
use crate::harness::violation::Checked;
use crate::harness::workload::{self, Twist};

/// How long a history is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Steps.
    pub operations: usize,
    /// Crashes among them, and one at the end.
    pub crashes: usize,
}

/// A history of 1,000 operations and 5 crashes.
pub const WHOLE: Size = Size { operations: 1_000, crashes: 5 };

/// A history, and what tells whether two went the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// What was done to it.
    pub tally: Tally,
    /// A hash of every operation that was started and every one that landed.
    pub trace: u64,
}

/// What kind of machine a seed has: several shards one time in four, a barrier that works for its own file only one time in eight.
#[must_use]
pub fn twist_of(seed: u64) -> Twist {
    let mut random = Random::new(seed ^ 0x7413_57ed);
    let shards = random.chance(1, 4).then(|| 1 + random.below(4));
    Twist { shards, barrier_fails: random.chance(1, 8), unwritten: random.chance(1, 8), ..Twist::default() }
}

/// Runs the history of a seed.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64, size: Size, twist: &Twist) -> Checked<History> {
    let (mut machine, mut random) = workload::prepare(seed, twist)?;
    let mut tally = Tally::default();
    let among = size.crashes.saturating_sub(1);
    let stride = size.operations / among.max(1);
    let crashes: Vec<usize> = (0..among).map(|crash| crash * stride + random.below(stride)).collect();
    for place in 0..size.operations {
        if twist.shards.is_some() && random.chance(1, 60) {
            workload::reopen_with_other_shards(&mut machine, &mut random)?;
        }
        let wanted = crashes.contains(&place);
        let logs = machine.model.logs.len();
        let step = std::iter::repeat_with(|| workload::choose(&mut random, logs)).find(|step| is_crash(step) == wanted);
        machine.apply(step.expect("choices have no end"))?;
        tally.crashes += u64::from(wanted);
    }
    workload::finish(&mut machine)?;
    (tally.crashes, tally.dropped) = (tally.crashes + 1, machine.world.lost_changes());
    Ok(History { tally, trace: machine.world.trace_hash() })
}

fn is_crash(step: &Step) -> bool {
    matches!(step, Step::Kill { .. } | Step::PowerFailure { .. })
}

/// Runs a history a second time.
///
/// # Errors
/// A broken promise: one is that it goes the same way.
pub fn run_twice(seed: u64, size: Size, twist: &Twist) -> Checked<History> {
    let (one, two) = (run(seed, size, twist)?, run(seed, size, twist)?);
    crate::harness::violation::ensure(one == two, "the same seed twice gives the same trace", || {
        format!("{one:?} and {two:?}")
    })?;
    Ok(one)
}
