//! expire-many: thousands of small segments over many logs become due at once, and the sweeper's passes let them go.
//!
//! Store: passes with the caps that they have by default, each made at once when the one before left something, while one producer
//! appends to a log of its own. Ceiling: the same producer while nothing is due, in the same round. Limits: two intervals of the sweeper.

use super::beside::{append_alone, append_beside};
use super::{Context, Plan, Scale, Scenario};
use crate::error::BenchError;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Config, Expiry, Lane, Subject, config};
use crate::window::Figures;
use std::path::Path;
use std::time::{Duration, Instant};

pub const ABOUT: &str = "10,000 small segments due at once, beside one producer; the ceiling is the producer alone";
pub const CASE: &str = "10000 segments";

const TOPIC: &str = "many";
const SEGMENT_BYTES: u64 = 64 << 10;
/// A segment has room for four of them beside its header and its index, and not for five.
const RECORD_BYTES: u64 = 12 << 10;
const RECORDS_A_SEGMENT: u64 = 4;
const BATCH_BYTES_MAX: u32 = 20 << 10;
/// The segments of a round are written one by one, and that takes longer than letting them go.
const ROUNDS_MAX: u32 = 3;

/// How many logs, and how many segments of each become due.
#[derive(Clone, Copy)]
struct Size {
    logs: usize,
    segments_of_log: u64,
}

/// How many rounds are made.
pub fn rounds(plan: Plan) -> u32 {
    plan.rounds.min(ROUNDS_MAX)
}

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::ExpireMany;
    context.preparing(scenario, CASE);
    let directory = context.subdirectory("expire-many".to_owned())?;
    let subject = Subject::open(context.config(config_of(&directory.join("store"))))?;
    let size = match context.plan.scale {
        Scale::Smoke => Size { logs: 10, segments_of_log: 30 },
        _ => Size { logs: 100, segments_of_log: 100 },
    };
    let lanes = subject.logs_of(TOPIC, size.logs, SEGMENT_BYTES)?;
    let mut rounds = Rounds::default();
    for round in 0..self::rounds(context.plan) {
        context.next_round(scenario, CASE, round);
        subject.keep_bytes(TOPIC, u64::MAX)?;
        fill(context, &lanes, size)?;
        append_alone(context, &subject, Duration::ZERO)?;
        context.settle()?;
        let idle = append_alone(context, &subject, context.plan.window())?;
        context.settle()?;
        let (window, figures) = append_beside(context, &subject, || expire(&subject, size))?;
        rounds.store(&window, figures);
        rounds.ceiling(&idle, Figures::new());
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(vec![rounds.outcome(scenario.name(), CASE)])
}

/// Batches are small enough for small segments.
fn config_of(root: &Path) -> Config {
    let mut config = config(root);
    config.batch_bytes_max = BATCH_BYTES_MAX;
    config
}

/// Writes as many segments as are to be due, and has the last one of each log begun: the one that is written never goes.
fn fill(context: &Context<'_>, lanes: &[Lane], size: Size) -> Result<(), BenchError> {
    let value = noise(RECORD_BYTES as usize);
    for _ in 0..size.segments_of_log * RECORDS_A_SEGMENT {
        context.interrupt.check()?;
        let flying: Vec<_> = lanes.iter().map(|lane| lane.start(&value)).collect::<Result<_, _>>()?;
        flying.into_iter().try_for_each(|append| append.wait().map(drop))?;
    }
    Ok(())
}

/// Makes passes until nothing is due any more.
fn expire(subject: &Subject, size: Size) -> Result<Figures, BenchError> {
    let (started, mut expiry) = (Instant::now(), Expiry::of(subject));
    subject.keep_bytes(TOPIC, 0)?;
    let (mut passes, mut expired) = (0, 0);
    loop {
        let passed = expiry.pass()?;
        (passes, expired) = (passes + 1, expired + passed.expired);
        if !passed.again {
            break;
        }
    }
    let time = started.elapsed();
    // One segment of each log may still be on its way to being sealed.
    let due = size.logs as u64 * (size.segments_of_log - 2);
    if expired < due {
        let reason = format!("{expired} segments expired of {due} that were due");
        return Err(BenchError::Store { doing: "expiring many segments", reason });
    }
    Ok(Figures::from([
        (Metric::Backlog, time.as_secs_f64() * 1e3),
        (Metric::Passes, f64::from(passes)),
        (Metric::SegmentsPerSecond, expired as f64 / time.as_secs_f64()),
    ]))
}
