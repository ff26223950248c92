//! shards: the same load on stores of one and of two shards, over logs that both have a part of.
//!
//! Store: one producer with 64 appends in flight, log after log. Ceiling: a bare ring that writes as many bytes at once as the store's
//! commits had, with as many writes in flight as there are shards.

use super::append_throughput::{BUSY, append, per_commit};
use super::{Context, Scenario};
use crate::error::BenchError;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Subject, config_of_shards};
use crate::window::Figures;

pub const ABOUT: &str = "64 durable appends in flight over 16 logs, on one and on two shards";

/// So many shards.
pub struct Case {
    pub name: &'static str,
    pub shards: usize,
}

pub const CASES: [Case; 2] = [Case { name: "1 shard", shards: 1 }, Case { name: "2 shards", shards: 2 }];

const LOGS: usize = 16;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    CASES.iter().map(|case| run_case(context, case)).collect()
}

fn run_case(context: &Context<'_>, case: &Case) -> Result<Outcome, BenchError> {
    let scenario = Scenario::Shards;
    context.preparing(scenario, case.name);
    let directory = context.subdirectory(format!("shards-{}", case.shards))?;
    let mut ceiling = context.append_ceiling(&directory, BUSY.record_bytes)?;
    let subject = Subject::open_many(context.config(config_of_shards(&directory.join("store"), case.shards)), LOGS)?;
    let window = context.plan.window();
    append(context, &subject, &BUSY, window / 10)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        context.settle()?;
        let store = append(context, &subject, &BUSY, window)?;
        ceiling.reshape(per_commit(&store, BUSY.record_bytes), case.shards)?;
        context.settle()?;
        let bare = ceiling.window(window, context.interrupt)?;
        rounds.store(&store, Figures::new());
        rounds.ceiling(&bare, Figures::new());
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), case.name))
}
