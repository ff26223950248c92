//! Sabotages: each deliberate defect must be noticed by the checker, on seeds that pass without it.

use std::rc::Rc;
use strandline::config::Sabotage;
use strandline_disk::sim::Lie;
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::workload::{self, Twist};
use strandline_tests::harness::{Machine, Step};

/// How many seeds may pass before the defect has to be noticed.
const SEEDS: u64 = 40;
const STEPS: usize = 120;

/// Finds a seed whose history breaks a promise under the defect, and checks that it breaks none without.
fn is_caught(what: &str, twist: &Twist) {
    let caught: Vec<(u64, String)> = (0..SEEDS)
        .filter_map(|seed| outcome(|| workload::run(seed, STEPS, twist)).err().map(|text| (seed, text)))
        .collect();
    let (seed, text) = caught.first().unwrap_or_else(|| panic!("{what}: no seed of {SEEDS} noticed it"));
    eprintln!("{what}: noticed by {} of {SEEDS} seeds, first by {seed}: {text}", caught.len());
    for (seed, _) in caught.iter().take(3) {
        outcome(|| workload::run(*seed, STEPS, &Twist::default())).expect("an honest history on the same seed");
    }
}

/// Crashes a script at every turn, in every way, on some seeds: the defect must show in some image, and none may fail without it.
fn is_caught_by_a_crash_at_some_turn(sabotage: Sabotage, script: &[Step]) {
    let run = |seed, sabotage| {
        let mut config = small();
        config.sabotage = sabotage;
        let mut machine = Machine::new(seed, config);
        machine.open()?;
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 8, Rc::default()));
        machine.run(&[Step::OpenLog(0), Step::Answer])?;
        machine.run(script)
    };
    let caught = (1..=6).find_map(|seed| outcome(|| run(seed, Some(sabotage))).err().map(|text| (seed, text)));
    let (seed, text) = caught.expect("a crash at every turn did not notice the defect");
    eprintln!("{sabotage:?}: noticed with seed {seed}: {text}");
    outcome(|| run(seed, None)).expect("an honest history on the same seed");
}

fn engine(sabotage: Sabotage) -> Twist {
    Twist { sabotage: Some(sabotage), lie: None }
}

fn disk(lie: Lie) -> Twist {
    Twist { sabotage: None, lie: Some(lie) }
}

#[test]
fn without_any_sync_acknowledged_records_are_lost_and_it_is_noticed() {
    is_caught("no sync", &disk(Lie::SkipSync));
}

#[test]
fn without_directory_syncs_files_are_lost_and_it_is_noticed() {
    is_caught("no directory sync", &disk(Lie::SkipDirectorySync));
}

#[test]
fn without_a_synced_manifest_segments_are_lost_and_it_is_noticed() {
    is_caught("no manifest sync", &disk(Lie::SkipSyncOf("manifest".to_owned())));
}

#[test]
fn a_record_before_the_manifest_edit_is_noticed() {
    // The window is one turn wide: a crash at every turn of rolls that had to wait for their segment.
    let append = Step::Append { log: 0, batches: 24, records: 2, bytes: 5_500 };
    is_caught_by_a_crash_at_some_turn(Sabotage::RecordBeforeEdit, &[append, Step::Answer]);
}

#[test]
fn a_dead_tail_that_is_kept_is_noticed() {
    let append = Step::Append { log: 0, batches: 9, records: 1, bytes: 1_000 };
    is_caught_by_a_crash_at_some_turn(Sabotage::KeepDeadTail, &[append, Step::Answer, append, Step::Answer]);
}

#[test]
fn an_acknowledgement_before_the_write_has_completed_is_noticed() {
    is_caught("answer before completion, by the engine", &engine(Sabotage::AnswerBeforeCompletion));
    is_caught("answer before completion, by the disk", &disk(Lie::AnswerBeforeCompletion));
}
