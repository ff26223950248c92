//! Sabotages: each deliberate defect must be noticed by the checker, on seeds that pass without it.

use std::rc::Rc;
use strandline::config::{Config, Sabotage};
use strandline_disk::sim::Lie;
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::workload::{self, Twist};
use strandline_tests::harness::{Ask, At, Machine, Step};

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
    is_caught_with(small(), sabotage, script);
}

fn is_caught_with(config: Config, sabotage: Sabotage, script: &[Step]) {
    let run = |seed, sabotage| {
        let mut config = config.clone();
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
    Twist { sabotage: Some(sabotage), ..Twist::default() }
}

fn disk(lie: Lie) -> Twist {
    Twist { lie: Some(lie), ..Twist::default() }
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

/// Several logs that write side by side are what a barrier is for.
fn side_by_side() -> Vec<Step> {
    let logs = (0..3).map(Step::OpenLog);
    let append = |log| Step::Append { log, batches: 2, records: 2, bytes: 900 };
    let round = || (0..3).map(append).chain([Step::Turn(3)]);
    logs.chain([Step::Idle]).chain((0..6).flat_map(|_| round())).chain([Step::Answer]).collect()
}

/// Runs writes of several logs with a crash at every turn. Nothing, or what was noticed.
fn side_by_side_with(seed: u64, twist: &Twist) -> Result<(), String> {
    outcome(|| {
        let mut config = small();
        config.sabotage = twist.sabotage;
        if twist.unwritten {
            config.preallocate = strandline::Preallocate::Allocated;
        }
        let mut machine = Machine::new(seed, config);
        machine.world.set_direct(twist.direct.unwrap_or(true));
        machine.world.set_barrier_works(!twist.barrier_fails);
        if let Some(lie) = &twist.lie {
            machine.world.sabotage(lie.clone());
        }
        machine.open()?;
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 2, Rc::default()));
        machine.run(&side_by_side())
    })
}

fn is_caught_side_by_side(what: &str, twist: &Twist) {
    let caught = (1..=6).find_map(|seed| side_by_side_with(seed, twist).err().map(|text| (seed, text)));
    let (seed, text) = caught.unwrap_or_else(|| panic!("{what}: a crash at every turn did not notice it"));
    eprintln!("{what}: noticed with seed {seed}: {text}");
    let honest = Twist { sabotage: None, lie: None, ..twist.clone() };
    side_by_side_with(seed, &honest).expect("an honest history on the same seed");
}

#[test]
fn a_barrier_for_files_with_unwritten_blocks_is_noticed() {
    let twist = Twist { unwritten: true, ..engine(Sabotage::BarrierForAll) };
    is_caught_side_by_side("a barrier over unwritten blocks", &twist);
}

#[test]
fn a_barrier_for_files_behind_the_page_cache_is_noticed() {
    let twist = Twist { direct: Some(false), ..engine(Sabotage::BarrierForAll) };
    is_caught_side_by_side("a barrier over the page cache", &twist);
}

#[test]
fn a_barrier_that_covers_only_its_own_file_is_noticed() {
    let twist = Twist { barrier_fails: true, ..engine(Sabotage::BarrierForAll) };
    is_caught_side_by_side("a barrier where none works", &twist);
}

#[test]
fn a_barrier_that_is_skipped_is_noticed() {
    is_caught_side_by_side("no barrier", &disk(Lie::SkipBarrier));
}

#[test]
fn a_roll_before_its_segment_is_flushed_is_noticed() {
    let written = Step::AppendAt { log: 0, batches: 5, records: 2, bytes: 5_500, level: strandline::Level::Written };
    let durable = Step::Append { log: 0, batches: 1, records: 2, bytes: 5_500 };
    let fill = [written, Step::Turn(2), durable, Step::Turn(1)];
    let script: Vec<Step> = fill.into_iter().cycle().take(24).chain([Step::Answer]).collect();
    is_caught_by_a_crash_at_some_turn(Sabotage::RollBeforeFlush, &script);
}

#[test]
fn a_truncation_that_is_answered_before_its_edit_is_noticed() {
    let append = Step::Append { log: 0, batches: 5, records: 2, bytes: 900 };
    // All of it goes: there is nothing to clear that would take longer than the edit.
    let cut = Step::Verb { log: 0, ask: Ask::Truncate(At::Start) };
    is_caught_by_a_crash_at_some_turn(
        Sabotage::CutBeforeEdit,
        &[append, Step::Answer, cut, Step::Answer, append, Step::Answer],
    );
}

/// Appends so slowly that each successor is written whole before it is needed: only such files are used again.
fn slow_fill() -> Vec<Step> {
    let append = Step::Append { log: 0, batches: 2, records: 2, bytes: 5_500 };
    std::iter::repeat_n([append, Step::Idle], 12).flatten().collect()
}

#[test]
fn bytes_that_go_before_the_manifest_knows_that_they_were_given_up_are_noticed() {
    let mut script = slow_fill();
    script.extend([Step::Verb { log: 0, ask: Ask::Trim(At::Back(4)) }, Step::Answer, Step::Idle]);
    is_caught_by_a_crash_at_some_turn(Sabotage::ReleaseBeforeEdit, &script);
}

#[test]
fn a_write_before_the_manifest_knows_that_its_log_is_dirty_is_noticed() {
    let append = Step::Append { log: 0, batches: 2, records: 2, bytes: 900 };
    let script = [append, Step::Answer, Step::Idle, append, Step::Answer, Step::Idle, append, Step::Answer];
    let mut config = small();
    config.idle_clean_after = std::time::Duration::from_millis(3);
    is_caught_with(config, Sabotage::WriteBeforeDirty, &script);
}

#[test]
fn an_acknowledgement_before_the_write_has_completed_is_noticed() {
    is_caught("answer before completion, by the engine", &engine(Sabotage::AnswerBeforeCompletion));
    is_caught("answer before completion, by the disk", &disk(Lie::AnswerBeforeCompletion));
}
