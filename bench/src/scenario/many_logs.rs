//! many-logs: rounds of 4 KiB to each of many logs; the next round starts when all of one are durable.
//!
//! Store: one producer that appends to every log and then awaits all. Ceiling: a bare ring that writes 4 KiB to each of as
//! many files at once, without any sync. Per file: the same with each write on stable storage by itself.

use super::{Context, Scale, Scenario};
use crate::ceiling::ManyFilesCeiling;
use crate::error::BenchError;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Appending, Subject, config_of_many};
use crate::window::{Figures, Window};
use std::time::{Duration, Instant};

pub const ABOUT: &str = "4 KiB to each of many logs a round, all durable before the next";

/// So many logs.
pub struct Case {
    pub name: &'static str,
    pub logs: usize,
    /// Whether a run without arguments has it.
    pub core: bool,
}

pub const CASES: [Case; 4] = [
    Case { name: "1 log", logs: 1, core: false },
    Case { name: "16 logs", logs: 16, core: false },
    Case { name: "128 logs", logs: 128, core: false },
    Case { name: "1000 logs", logs: 1_000, core: true },
];

const VALUE_BYTES: usize = 4 << 10;
/// Where only the way is tried, so many logs stand for more.
const LOGS_MAX_OF_SMOKE: usize = 24;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let cases = CASES.iter().filter(|case| case.core || !context.plan.core);
    cases.map(|case| run_case(context, case)).collect()
}

fn run_case(context: &Context<'_>, case: &Case) -> Result<Outcome, BenchError> {
    let scenario = Scenario::ManyLogs;
    context.preparing(scenario, case.name);
    let directory = context.subdirectory(format!("many-logs-{}", case.logs))?;
    let logs = if context.plan.scale == Scale::Smoke { case.logs.min(LOGS_MAX_OF_SMOKE) } else { case.logs };
    let mut ceiling = ManyFilesCeiling::create(&directory, logs)?;
    let subject = Subject::open_many(config_of_many(&directory.join("store"), logs), logs)?;
    let value = noise(VALUE_BYTES);
    // Three sides share the time of two, so that a case takes no longer than another's.
    let window = context.plan.window() * 2 / 3;
    append_rounds(context, &subject, &value, window / 10)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        context.settle()?;
        let store = append_rounds(context, &subject, &value, window)?;
        context.settle()?;
        let bare = ceiling.window(window, false, context.interrupt)?;
        context.settle()?;
        let per_file = ceiling.window(window, true, context.interrupt)?;
        let own = us_per_write(&store);
        rounds.store(&store, Figures::from([(Metric::UsPerWrite, own), (Metric::PerFileUsPerWrite, own)]));
        let beside = [(Metric::UsPerWrite, us_per_write(&bare)), (Metric::PerFileUsPerWrite, us_per_write(&per_file))];
        rounds.ceiling(&bare, Figures::from(beside));
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), case.name))
}

/// Appends rounds for so long. A round is one operation.
fn append_rounds(context: &Context<'_>, subject: &Subject, value: &[u8], time: Duration) -> Result<Window, BenchError> {
    let mut window = Window::new();
    subject.timed(&mut window, |window| {
        let end = Instant::now() + time;
        let mut flying: Vec<Appending> = Vec::with_capacity(subject.lanes().len());
        loop {
            let started = Instant::now();
            if started >= end {
                return Ok(());
            }
            context.interrupt.check()?;
            for lane in subject.lanes() {
                flying.push(lane.start(value)?);
            }
            flying.drain(..).try_for_each(|append| append.wait().map(drop))?;
            let ended = Instant::now();
            window.took_until(ended, ended - started);
            window.records += subject.lanes().len() as u64;
            window.bytes += (subject.lanes().len() * value.len()) as u64;
        }
    })?;
    Ok(window)
}

/// Wall time a write.
fn us_per_write(window: &Window) -> f64 {
    window.figures().get(&Metric::RecordsPerSecond).map_or(f64::NAN, |rate| 1e6 / rate)
}
