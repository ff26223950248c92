//! open-loop: records come by a schedule, whether the store has answered the ones before or not.
//!
//! Store: the schedule is a part of the peak that the same store reached just before; latency counts from when a record
//! was due. Ceiling: a bare ring that writes as many bytes at once as the store's commits had, one write after the other.

use super::append_throughput::{BUSY, append, bytes_max, per_commit};
use super::paced::Schedule;
use super::{Context, Scenario};
use crate::error::BenchError;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Level, Retention, Subject, config};
use crate::window::{Figures, Window};
use std::time::Duration;

pub const ABOUT: &str = "records by a schedule, a part of the measured peak, latency from when each was due";

/// A part of the peak.
pub struct Case {
    pub name: &'static str,
    pub part: f64,
}

pub const CASES: [Case; 2] = [Case { name: "50 % of peak", part: 0.5 }, Case { name: "80 % of peak", part: 0.8 }];

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    CASES.iter().map(|case| run_case(context, case)).collect()
}

fn run_case(context: &Context<'_>, case: &Case) -> Result<Outcome, BenchError> {
    let scenario = Scenario::OpenLoop;
    context.preparing(scenario, case.name);
    let directory = context.subdirectory(format!("open-loop-{:.0}", case.part * 100.0))?;
    let mut ceiling = context.append_ceiling(&directory, BUSY.record_bytes)?;
    let subject = Subject::open(context.config(config(&directory.join("store"))))?;
    subject.warm(context.plan.spare_segments(), context.interrupt)?;
    let window = context.plan.window();
    append(context, &subject, &BUSY, window / 10)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        context.settle()?;
        let peak = append(context, &subject, &BUSY, window / 2)?.figures();
        let rate = peak.get(&Metric::RecordsPerSecond).copied().unwrap_or(1.0) * case.part;
        context.settle()?;
        let (store, given_up) = follow(context, &subject, rate, window)?;
        ceiling.reshape(per_commit(&store, BUSY.record_bytes), 1)?;
        context.settle()?;
        let bare = ceiling.window(window, context.interrupt)?;
        let due = (store.records + given_up).max(1) as f64;
        let of_schedule = [(Metric::Offered, rate), (Metric::Unserved, 100.0 * given_up as f64 / due)];
        rounds.store(&store, Figures::from(of_schedule));
        rounds.ceiling(&bare, Figures::new());
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), case.name))
}

/// Appends `rate` records a second for so long, and says how many it gave up.
fn follow(context: &Context<'_>, subject: &Subject, rate: f64, time: Duration) -> Result<(Window, u64), BenchError> {
    let value = noise(BUSY.record_bytes);
    let count = ((rate * time.as_secs_f64()) as u64).clamp(1, bytes_max(context.plan) / value.len() as u64);
    let schedule = Schedule { rate, count, bytes: value.len(), interrupt: context.interrupt };
    let (mut window, mut given_up, mut retention) = (Window::new(), 0, Retention::new(subject, value.len()));
    subject.timed(&mut window, |window| {
        given_up = schedule.follow(window, || {
            retention.asked();
            subject.lane().try_start(&value, Level::Durable)
        })?;
        Ok(())
    })?;
    Ok((window, given_up))
}
