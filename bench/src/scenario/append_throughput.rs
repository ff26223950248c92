//! append-throughput: many appends in flight, a batch a record, each durable when it is answered.
//!
//! Store: one that has been in use, with a short retention, so that the files of old segments become those of new ones; one producer
//! with many in flight, or many producers that wait. Ceiling: a bare ring that writes as many bytes at
//! once as the store's commits of the same round had on average, and counts as many records for each write.

use super::produce::{Until, keep_in_flight, side_by_side};
use super::{Context, Plan, Scale, Scenario};
use crate::ceiling::Payload;
use crate::error::BenchError;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Retention, Subject, config};
use crate::window::{Figures, Window};
use std::time::Duration;

pub const ABOUT: &str = "many durable appends in flight, a record a batch";

/// Who appends.
#[derive(Clone, Copy)]
pub enum Producers {
    /// One thread, with so many appends in flight.
    InFlight(usize),
    /// So many threads, each waiting for its own.
    Threads(usize),
}

/// A size of record, how many are asked for at once, and how many writes the ceiling has in flight.
pub struct Case {
    pub name: &'static str,
    pub record_bytes: usize,
    pub producers: Producers,
    pub ceiling_depth: usize,
}

/// The case that other scenarios load a store with as well.
pub const BUSY: Case =
    Case { name: "64 outstanding", record_bytes: 1 << 10, producers: Producers::InFlight(64), ceiling_depth: 1 };

pub const CASES: [Case; 5] = [
    BUSY,
    Case { name: "64 threads", record_bytes: 1 << 10, producers: Producers::Threads(64), ceiling_depth: 1 },
    Case { name: "1024 outstanding", record_bytes: 1 << 10, producers: Producers::InFlight(1024), ceiling_depth: 1 },
    Case { name: "16 x 16 KiB", record_bytes: 16 << 10, producers: Producers::InFlight(16), ceiling_depth: 1 },
    // Commits as large as these are to be pipelined, so the ceiling is too.
    Case { name: "256 KiB", record_bytes: 256 << 10, producers: Producers::InFlight(16), ceiling_depth: 4 },
];

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    CASES.iter().map(|case| run_case(context, case)).collect()
}

fn run_case(context: &Context<'_>, case: &Case) -> Result<Outcome, BenchError> {
    let scenario = Scenario::AppendThroughput;
    context.preparing(scenario, case.name);
    let directory = context.subdirectory(format!("append-throughput-{}", case.name.replace(' ', "-")))?;
    let mut ceiling = context.append_ceiling(&directory, case.record_bytes)?;
    let subject = Subject::open(context.config(config(&directory.join("store"))))?;
    let window = context.plan.window();
    // Unmeasured: files are there to be used again, the first segment is made, buffers are touched for the first time.
    subject.warm(context.plan.spare_segments(), context.interrupt)?;
    append(context, &subject, case, window / 10)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        context.settle()?;
        let store = append(context, &subject, case, window)?;
        ceiling.reshape(per_commit(&store, case.record_bytes), case.ceiling_depth)?;
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

/// Appends for so long.
pub fn append(context: &Context<'_>, subject: &Subject, case: &Case, time: Duration) -> Result<Window, BenchError> {
    let value = noise(case.record_bytes);
    let mut window = Window::new();
    let until = Until::new(time, bytes_max(context.plan), context.interrupt);
    let mut retention = Retention::new(subject, case.record_bytes);
    let grown = |end| retention.grown_to(end);
    subject.timed(&mut window, |window| match case.producers {
        Producers::InFlight(count) => keep_in_flight(subject.lanes(), &value, count, until, window, grown),
        Producers::Threads(count) => side_by_side(subject.lane(), &value, count, until, window, grown),
    })?;
    Ok(window)
}

/// What one commit of a window held on average.
pub fn per_commit(window: &Window, record_bytes: usize) -> Payload {
    let commits = window.commits.max(1) as f64;
    let records = (window.records as f64 / commits).max(1.0);
    Payload { bytes: records * record_bytes as f64, records }
}

/// Payload bytes that a window may append: not every scenario gives anything up, and disks are finite.
pub fn bytes_max(plan: Plan) -> u64 {
    let of_case: u64 = match plan.scale {
        Scale::Smoke => 256 << 20,
        Scale::Normal => 10 << 30,
        Scale::Full => 16 << 30,
    };
    of_case / u64::from(plan.rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_writes_what_a_commit_held() {
        let mut window = Window::new();
        (window.records, window.commits) = (90, 2);
        assert_eq!(per_commit(&window, 1 << 10), Payload { bytes: 46_080.0, records: 45.0 });
        // Commits of the round before may end in this one.
        window.commits = 100;
        assert_eq!(per_commit(&window, 1 << 10).records, 1.0);
    }
}
