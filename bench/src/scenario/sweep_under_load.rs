//! sweep-under-load: one producer, each record durable before the next, while written segments of another topic are removed.
//!
//! Store: a window lasts from the deletion until the last byte is gone, and for a thousand appends at least. Ceiling: the same
//! producer in a store that removes nothing, in the same round: `idle` for stores without a pool, which fill each new segment, and
//! `idle with pool` for the one with. A figure beside it says how fast the bytes went.

use super::beside::{append_alone, append_beside};
use super::{Context, Plan, Scale, Scenario};
use crate::error::BenchError;
use crate::metrics::Metric;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Config, Removal, Subject, Victim, config};
use crate::window::{Figures, Window, mib};
use std::time::Duration;

pub const ABOUT: &str = "one producer while written segments are removed; the ceiling is the same without removal";

/// A way to remove.
pub struct Case {
    pub name: &'static str,
    /// What is removed, and how.
    way: Way,
    /// Whether files may be kept for new segments.
    pool: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing is removed.
    Idle,
    /// As fast as it goes, so many files at once; as many as by default.
    Unpaced(Option<usize>),
    /// As a store does that sets nothing.
    Governed,
}

/// Each stands behind the one that it is compared with.
pub const CASES: [Case; 6] = [
    Case { name: "idle", way: Way::Idle, pool: false },
    Case { name: "naive", way: Way::Unpaced(Some(1)), pool: false },
    Case { name: "batched", way: Way::Unpaced(None), pool: false },
    Case { name: "governed", way: Way::Governed, pool: false },
    Case { name: "idle with pool", way: Way::Idle, pool: true },
    Case { name: "recycled", way: Way::Governed, pool: true },
];

/// A removal that takes longer than this has shown how slow it is.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::SweepUnderLoad;
    let mut measured = CASES.each_ref().map(|_| Rounds::default());
    for round in 0..context.plan.rounds {
        let mut idle = Window::new();
        for (case, rounds) in CASES.iter().zip(&mut measured) {
            context.next_round(scenario, case.name, round);
            let (window, figures) = run_case(context, case)?;
            rounds.store(&window, figures);
            match case.way {
                Way::Idle => idle = window,
                _ => rounds.ceiling(&idle, Figures::new()),
            }
        }
    }
    CASES.iter().for_each(|_| context.progress.step());
    Ok(measured.into_iter().zip(&CASES).map(|(rounds, case)| rounds.outcome(scenario.name(), case.name)).collect())
}

/// A store of its own: none begins with what another left.
fn run_case(context: &Context<'_>, case: &Case) -> Result<(Window, Figures), BenchError> {
    let directory = context.subdirectory("sweep-under-load".to_owned())?;
    let config = context.config(config(&directory.join("store")));
    let subject = Subject::open(config_of(context.plan, case, config))?;
    let victim = match case.way {
        Way::Idle if case.pool => {
            subject.warm(context.plan.spare_segments(), context.interrupt)?;
            None
        }
        Way::Idle => None,
        _ => Some(Victim::write(&subject, victim_bytes(context.plan), context.interrupt)?),
    };
    // Unmeasured: the first segment is made, buffers are touched for the first time.
    append_alone(context, &subject, Duration::ZERO)?;
    context.settle()?;
    let (window, figures) = match victim {
        None => (append_alone(context, &subject, context.plan.window())?, Figures::new()),
        Some(victim) => {
            let (window, removed) = append_beside(context, &subject, || victim.remove(PATIENCE))?;
            let rate = mib(removed.bytes) / removed.time.as_secs_f64();
            (window, Figures::from([(Metric::RemovedMibPerSecond, rate)]))
        }
    };
    subject.close()?;
    context.clear(&directory)?;
    Ok((window, figures))
}

fn config_of(plan: Plan, case: &Case, mut config: Config) -> Config {
    config.spare_bytes_max = match case {
        Case { pool: false, .. } => 0,
        Case { way: Way::Idle, .. } => config.spare_bytes_max,
        // All that is removed may be used again, or it would be `governed` for the most part.
        _ => config.spare_bytes_max.max(2 * victim_bytes(plan)),
    };
    if let Way::Unpaced(batch) = case.way {
        config.removal = Removal::Unpaced;
        config.removal_batch = batch.unwrap_or(config.removal_batch);
    }
    config
}

fn victim_bytes(plan: Plan) -> u64 {
    match plan.scale {
        Scale::Smoke => 32 << 20,
        Scale::Normal => 2 << 30,
        Scale::Full => 8 << 30,
    }
}
