//! Several shards of one process: their edits meet in one manifest, a flush that fails in one concerns all, and their number may change
//! from one open to the next.

use std::cell::Cell;
use std::rc::Rc;
use strandline::Level;
use strandline::config::{Config, SyncMode};
use strandline_disk::Verb;
use strandline_disk::sim::{Fault, Loss, Times, What, When};
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::running::shard_of;
use strandline_tests::harness::seeds::{for_each_seed, outcome};
use strandline_tests::harness::workload::{self, Twist};
use strandline_tests::harness::{Ask, At, Machine, Step};

const LOGS: usize = 5;

fn config(shards: usize) -> Config {
    Config { shards, ..small() }
}

fn each(step: impl Fn(usize) -> Step) -> Vec<Step> {
    (0..LOGS).map(step).collect()
}

fn append(batches: usize, bytes: usize) -> Vec<Step> {
    each(|log| Step::Append { log, batches, records: 2, bytes })
}

fn opened(seed: u64, shards: usize) -> Machine {
    let mut machine = Machine::new(seed, config(shards));
    machine.open().expect("an open");
    machine.run(&each(Step::OpenLog)).and_then(|()| machine.apply(Step::Idle)).expect("logs");
    machine
}

#[test]
fn logs_are_spread_over_the_shards() {
    let mut machine = opened(1, 3);
    let homes: std::collections::BTreeSet<usize> =
        (0..LOGS).map(|log| shard_of(&machine.model.log(log).id.clone(), 3)).collect();
    assert!(homes.len() > 1, "all logs are in one shard: {homes:?}");
}

#[test]
fn a_crash_at_any_turn_of_several_shards_keeps_what_was_acknowledged() {
    for (seed, shards) in [(2, 2), (3, 3)] {
        let mut machine = opened(seed, shards);
        let count = Rc::new(Cell::new(0));
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
        let mut script = append(3, 5_500);
        script.extend([
            Step::Turn(2),
            Step::Verb { log: 0, ask: Ask::Truncate(At::Back(3)) },
            Step::Verb { log: 1, ask: Ask::Seal },
            Step::Verb { log: 2, ask: Ask::Trim(At::Back(2)) },
            Step::Verb { log: 3, ask: Ask::Delete },
            Step::Answer,
            Step::OpenLog(3),
            Step::Answer,
        ]);
        script.extend(append(1, 300));
        script.push(Step::Reopen);
        outcome(|| machine.run(&script)).unwrap_or_else(|text| panic!("seed {seed}, {shards} shards: {text}"));
        eprintln!("{} crash images", count.get());
    }
}

#[test]
fn the_number_of_shards_may_change_between_opens() {
    for_each_seed(40, |seed| {
        workload::run(seed, 120, &Twist { shards: Some(1 + seed as usize % 4), ..Twist::default() })
    });
}

/// A barrier that fails may have dropped what any log had written: nothing of that is acknowledged. (Over several shards there is a
/// window: one may take its own good barrier up before the other has looked at its failed one.)
#[test]
fn after_a_barrier_that_failed_nothing_exposed_is_acknowledged() {
    for seed in 0..60_u64 {
        let mut machine = Machine::new(seed, Config { sync: SyncMode::Barrier, ..config(1) });
        let run = outcome(|| {
            machine.open()?;
            machine.run(&each(Step::OpenLog))?;
            machine.apply(Step::Idle)?;
            machine.tolerant = true;
            let (when, times) = (When::VerbOnPath(Verb::Barrier, String::new()), Times::Once);
            machine.world.inject(Fault { when, what: What::FailedSyncDropsDevice, times });
            for _ in 0..4 {
                machine.run(&append(2, 900))?;
                machine.apply(Step::Turn(1 + seed as usize % 4))?;
            }
            machine.apply(Step::Answer)?;
            machine.world.clear_faults();
            machine.tolerant = false;
            let loss = [Loss::DropAll, Loss::KeepAll][seed as usize % 2];
            machine.apply(Step::PowerFailure { loss, again_after: None })?;
            machine.run(&append(1, 300)).and_then(|()| machine.apply(Step::Reopen))
        });
        run.unwrap_or_else(|text| panic!("seed {seed}: {text}"));
        assert!(machine.world.faults_fired() > 0, "seed {seed}: no barrier failed");
    }
}

/// A failed barrier that its shard has taken up latches what the others have exposed.
#[test]
fn a_barrier_that_failed_in_one_shard_latches_exposed_logs_of_the_others() {
    let mut machine = Machine::new(7, Config { sync: SyncMode::Barrier, ..config(2) });
    machine.open().expect("an open");
    machine.run(&each(Step::OpenLog)).and_then(|()| machine.apply(Step::Idle)).expect("logs");
    let homes: Vec<usize> = (0..LOGS).map(|log| shard_of(&machine.model.log(log).id.clone(), 2)).collect();
    let (one, other) = (0, homes.iter().position(|home| *home != homes[0]).expect("two shards are used"));
    machine.tolerant = true;
    let written = |log| Step::AppendAt { log, batches: 1, records: 1, bytes: 300, level: Level::Written };
    // Exposed there: written, and not flushed before its interval is over.
    machine.run(&[written(other), Step::Answer]).expect("a written append");
    let when = When::VerbOnPath(Verb::Barrier, String::new());
    machine.world.inject(Fault { when, what: What::FailedSyncDropsDevice, times: Times::Once });
    machine.run(&[Step::Append { log: one, batches: 1, records: 1, bytes: 300 }, Step::Answer]).expect("an answer");
    machine.run(&[Step::UntilDurable { log: other, now: true }, Step::Answer]).expect("an answer");
    let info = machine.info(other).expect("an answer").expect("statistics");
    assert!(info.failed.is_some(), "what it had exposed is gone, and it goes on: {info:?}");
}
