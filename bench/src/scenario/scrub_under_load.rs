//! scrub-under-load: one producer appends while sealed segments are read again.
//!
//! Store: 16 KiB records, each durable before the next, while sealed segments of another log are scrubbed one after the other, as a sweeper does
//! at the pace that nobody has set. Ceiling: the same producer alone, in the same store, in turn.

use super::beside::{append_alone, append_beside};
use super::{Context, Scale, Scenario};
use crate::error::BenchError;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Subject, config};
use crate::window::Figures;
use std::time::{Duration, Instant};

pub const ABOUT: &str = "appends beside scrubbing; the ceiling is the same producer alone";
pub const CASE: &str = "16 KiB";

const RECORD_BYTES: usize = 256 << 10;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::ScrubUnderLoad;
    context.preparing(scenario, CASE);
    let directory = context.subdirectory("scrub-under-load".to_owned())?;
    let subject = Subject::open(context.config(config(&directory.join("store"))))?;
    let records = cold_bytes(context.plan.scale) / RECORD_BYTES as u64;
    let cold = subject.logs_of("cold", 1, subject.segment_bytes())?;
    cold[0].fill(&noise(RECORD_BYTES), records, context.interrupt)?;
    // Unmeasured: the first segment is made, buffers are touched for the first time.
    append_alone(context, &subject, Duration::ZERO)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE, round);
        context.settle()?;
        let alone = append_alone(context, &subject, context.plan.window())?;
        context.settle()?;
        let (beside, bytes_per_second) =
            append_beside(context, &subject, || subject.scrub("cold", Instant::now() + context.plan.window()))?;
        let scrubbed = bytes_per_second / f64::from(1 << 20);
        rounds.store(&beside, Figures::from([(Metric::ScrubbedMibPerSecond, scrubbed)]));
        rounds.ceiling(&alone, Figures::new());
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(vec![rounds.outcome(scenario.name(), CASE)])
}

fn cold_bytes(scale: Scale) -> u64 {
    match scale {
        Scale::Smoke => 8 << 20,
        Scale::Normal => 256 << 20,
        Scale::Full => 1 << 30,
    }
}
