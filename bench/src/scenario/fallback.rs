//! fallback: one producer, each record durable before the next, in small segments that no pool has files for.
//!
//! Store: new segments are allocated when they are needed, and their blocks are unwritten or filled as far as there was time.
//! Ceiling: the same producer in a store whose pool has written files for all of it, in the same round.

use super::beside::append_alone;
use super::{Context, Plan, Scale, Scenario};
use crate::error::BenchError;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Config, Preallocate, Subject, config, with_segments_of};
use crate::window::{Figures, Window};
use std::time::Duration;

pub const ABOUT: &str = "one producer whose segments no pool has files for; the ceiling is the same with a pool";

/// What new segments are made of.
pub struct Case {
    pub name: &'static str,
    preallocate: Preallocate,
}

pub const CASES: [Case; 2] = [
    Case { name: "allocated", preallocate: Preallocate::Allocated },
    Case { name: "empty pool", preallocate: Preallocate::Written },
];

/// A segment lasts for a few hundred appends, so that rolls are many.
const SEGMENT_BYTES: u64 = 4 << 20;

/// More than one producer of 16 KiB writes in a second.
const SEGMENTS_A_SECOND: u64 = 48;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::Fallback;
    let mut measured = CASES.each_ref().map(|_| Rounds::default());
    for round in 0..context.plan.rounds {
        for (case, rounds) in CASES.iter().zip(&mut measured) {
            context.next_round(scenario, case.name, round);
            rounds.store(&window_of(context, Some(case))?, Figures::new());
            rounds.ceiling(&window_of(context, None)?, Figures::new());
        }
    }
    CASES.iter().for_each(|_| context.progress.step());
    Ok(measured.into_iter().zip(&CASES).map(|(rounds, case)| rounds.outcome(scenario.name(), case.name)).collect())
}

/// Appends to a store of its own: of a case, or one with a pool.
fn window_of(context: &Context<'_>, case: Option<&Case>) -> Result<Window, BenchError> {
    let directory = context.subdirectory("fallback".to_owned())?;
    let time = context.plan.window();
    let spares = spares_for(context.plan, time);
    let subject =
        Subject::open(config_of(with_segments_of(config(&directory.join("store")), SEGMENT_BYTES), case, spares))?;
    if case.is_none() {
        subject.warm(spares, context.interrupt)?;
    }
    // Unmeasured: buffers are touched for the first time.
    append_alone(context, &subject, Duration::ZERO)?;
    context.settle()?;
    let window = append_alone(context, &subject, time)?;
    subject.close()?;
    context.clear(&directory)?;
    Ok(window)
}

fn config_of(mut config: Config, case: Option<&Case>, spares: u64) -> Config {
    match case {
        Some(case) => (config.preallocate, config.spare_bytes_max) = (case.preallocate, 0),
        None => config.spare_bytes_max = config.spare_bytes_max.max(2 * spares * SEGMENT_BYTES),
    }
    config
}

/// How many files the pool needs.
fn spares_for(plan: Plan, time: Duration) -> u64 {
    let of_window = time.as_secs_f64() * SEGMENTS_A_SECOND as f64;
    if plan.scale == Scale::Smoke { 4 } else { of_window as u64 + 8 }
}
