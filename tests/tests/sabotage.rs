//! Sabotages: each deliberate defect must be noticed by the checker, on seeds that pass without it.

use strandline::config::Sabotage;
use strandline_disk::sim::Lie;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::workload::{self, Twist};

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
    is_caught("record before edit", &engine(Sabotage::RecordBeforeEdit));
}

#[test]
fn a_dead_tail_that_is_kept_is_noticed() {
    is_caught("dead tail kept", &engine(Sabotage::KeepDeadTail));
}

#[test]
fn an_acknowledgement_before_the_write_has_completed_is_noticed() {
    is_caught("answer before completion, by the engine", &engine(Sabotage::AnswerBeforeCompletion));
    is_caught("answer before completion, by the disk", &disk(Lie::AnswerBeforeCompletion));
}
