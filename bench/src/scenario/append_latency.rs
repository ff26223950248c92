//! append-latency: one producer, one record per batch, each durable before the next.
//!
//! Store: one that has been in use, with a short retention; from before the record is pushed into a builder until its receipt. Ceiling: a bare ring, one durable write of
//! the same size in whole blocks. In the last case the store is served by plain system calls, and its ceiling is one that has a ring.

use super::{Context, Scenario};
use crate::error::BenchError;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Retention, Subject, config};
use crate::window::{Figures, Window};
use std::time::{Duration, Instant};
use strandline::{Backend, Config};

pub const ABOUT: &str = "one producer, one record per batch, each durable before the next";

/// A size of record.
pub struct Case {
    pub name: &'static str,
    pub record_bytes: usize,
}

pub const CASES: [Case; 4] = [
    Case { name: "1 KiB", record_bytes: 1 << 10 },
    Case { name: "4 KiB", record_bytes: 4 << 10 },
    Case { name: "16 KiB", record_bytes: 16 << 10 },
    Case { name: "64 KiB", record_bytes: 64 << 10 },
];

/// What a store without a ring has to be compared with: one that has a ring.
pub const CASE_WITHOUT_RING: &str = "1 KiB, plain calls and a ring";

/// Bytes of its records.
const WITHOUT_RING_BYTES: usize = 1 << 10;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let mut outcomes: Vec<_> = CASES.iter().map(|case| run_case(context, case)).collect::<Result<_, _>>()?;
    outcomes.push(run_without_ring(context)?);
    Ok(outcomes)
}

/// Two stores in turn, one of them without a ring.
fn run_without_ring(context: &Context<'_>) -> Result<Outcome, BenchError> {
    let scenario = Scenario::AppendLatency;
    context.preparing(scenario, CASE_WITHOUT_RING);
    let directory = context.subdirectory("append-latency-without-ring".to_owned())?;
    let (value, window) = (noise(WITHOUT_RING_BYTES), context.plan.window());
    let opened = |backend: Backend| {
        let config = Config { backend, ..config(&directory.join(backend.to_string())) };
        let subject = Subject::open(context.config(config))?;
        subject.warm(context.plan.spare_segments(), context.interrupt)?;
        append_for(context, &subject, &value, window / 10).map(|_| subject)
    };
    let (ring, posix) = (opened(Backend::Uring)?, opened(Backend::Posix)?);
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE_WITHOUT_RING, round);
        context.settle()?;
        let without = append_for(context, &posix, &value, window)?;
        context.settle()?;
        let with = append_for(context, &ring, &value, window)?;
        rounds.store(&without, Figures::new());
        rounds.ceiling(&with, Figures::new());
    }
    ring.close()?;
    posix.close()?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), CASE_WITHOUT_RING))
}

fn run_case(context: &Context<'_>, case: &Case) -> Result<Outcome, BenchError> {
    let scenario = Scenario::AppendLatency;
    context.preparing(scenario, case.name);
    let directory = context.subdirectory(format!("append-latency-{}", case.record_bytes))?;
    // The ceiling first: were memory to lock scarce, the store could do with less of it, and the ceiling could not.
    let mut ceiling = context.append_ceiling(&directory, case.record_bytes)?;
    let subject = Subject::open(context.config(config(&directory.join("store"))))?;
    let value = noise(case.record_bytes);
    let window = context.plan.window();
    // Unmeasured: files are there to be used again, the first segment is made, buffers are touched for the first time.
    subject.warm(context.plan.spare_segments(), context.interrupt)?;
    append_for(context, &subject, &value, window / 10)?;
    ceiling.window(window / 10, context.interrupt)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        context.settle()?;
        let store = append_for(context, &subject, &value, window)?;
        context.settle()?;
        let bare = ceiling.window(window, context.interrupt)?;
        rounds.store(&store, Figures::new());
        rounds.ceiling(&bare, Figures::new());
    }
    subject.close()?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), case.name))
}

/// Appends for so long.
fn append_for(context: &Context<'_>, subject: &Subject, value: &[u8], time: Duration) -> Result<Window, BenchError> {
    let (mut window, mut retention) = (Window::new(), Retention::new(subject, value.len()));
    subject.timed(&mut window, |window| {
        let end = Instant::now() + time;
        loop {
            let started = Instant::now();
            if started >= end {
                break;
            }
            retention.grown_to(subject.lane().append(value)?);
            let ended = Instant::now();
            window.took_until(ended, ended - started);
            window.records += 1;
            context.interrupt.check()?;
        }
        window.bytes = window.records * value.len() as u64;
        Ok(())
    })?;
    Ok(window)
}
