//! levels: records at a fixed rate that are answered when they are accepted, when they are written, and when they are durable.
//!
//! Store: 100,000 records a second by schedule, a record a batch, latency from when each was due. Ceiling: for `accepted` a bare
//! round trip between two threads at the same rate; for `durable` a bare ring that writes as many bytes at once as the store's
//! commits had, one write after the other. What is only written has no ceiling of its own.

use super::append_throughput::{bytes_max, per_commit};
use super::paced::Schedule;
use super::{Context, Scenario, round_trip};
use crate::error::BenchError;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Level, Retention, Subject, config};
use crate::window::{Figures, Window};
use std::time::Duration;

pub const ABOUT: &str = "100,000 records a second by schedule, answered at each level";

/// A level.
pub struct Case {
    pub name: &'static str,
    pub level: Level,
}

pub const CASES: [Case; 3] = [
    Case { name: "accepted", level: Level::Accepted },
    Case { name: "written", level: Level::Written },
    Case { name: "durable", level: Level::Durable },
];

const RECORD_BYTES: usize = 1 << 10;
const RECORDS_PER_SECOND: f64 = 100_000.0;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    CASES.iter().map(|case| run_case(context, case)).collect()
}

fn run_case(context: &Context<'_>, case: &Case) -> Result<Outcome, BenchError> {
    let scenario = Scenario::Levels;
    context.preparing(scenario, case.name);
    let directory = context.subdirectory(format!("levels-{}", case.name))?;
    let mut ceiling = context.append_ceiling(&directory, RECORD_BYTES)?;
    let subject = Subject::open(context.config(config(&directory.join("store"))))?;
    subject.warm(context.plan.spare_segments(), context.interrupt)?;
    let window = context.plan.window();
    append(context, &subject, case.level, window / 10)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        context.settle()?;
        let (store, given_up) = append(context, &subject, case.level, window)?;
        context.settle()?;
        match case.level {
            Level::Accepted => {
                let mut bare = Window::new();
                round_trip::follow(schedule(context, window), &mut bare)?;
                rounds.ceiling(&bare, Figures::new());
            }
            Level::Durable => {
                ceiling.reshape(per_commit(&store, RECORD_BYTES), 1)?;
                rounds.ceiling(&ceiling.window(window, context.interrupt)?, Figures::new());
            }
            _ => {}
        }
        let due = (store.records + given_up).max(1) as f64;
        let of_schedule = [(Metric::Offered, RECORDS_PER_SECOND), (Metric::Unserved, 100.0 * given_up as f64 / due)];
        rounds.store(&store, Figures::from(of_schedule));
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), case.name))
}

fn schedule<'a>(context: &Context<'a>, time: Duration) -> Schedule<'a> {
    let count = (RECORDS_PER_SECOND * time.as_secs_f64()) as u64;
    let count = count.clamp(1, bytes_max(context.plan) / RECORD_BYTES as u64);
    Schedule { rate: RECORDS_PER_SECOND, count, bytes: RECORD_BYTES, interrupt: context.interrupt }
}

/// Appends by the schedule for so long, and says how many records it gave up.
fn append(context: &Context<'_>, subject: &Subject, level: Level, time: Duration) -> Result<(Window, u64), BenchError> {
    let (value, mut window, mut given_up) = (noise(RECORD_BYTES), Window::new(), 0);
    let mut retention = Retention::new(subject, value.len());
    subject.timed(&mut window, |window| {
        given_up = schedule(context, time).follow(window, || {
            retention.asked();
            subject.lane().try_start(&value, level)
        })?;
        Ok(())
    })?;
    Ok((window, given_up))
}
