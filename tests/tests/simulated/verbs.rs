//! Verbs of replicas and operators with a crash at every turn: each is whole or absent, what was answered stays, and nothing that was
//! dropped comes back.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use strandline::config::Config;
use strandline_disk::sim::Loss;
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Ask, At, Machine, Step};

/// Does `before` undisturbed, then `script` with a crash after every turn; in both again a power failure at the end.
fn crash_everywhere_with(config: Config, seed: u64, before: &[Step], script: &[Step]) {
    let mut machine = Machine::new(seed, config);
    let count = Rc::new(Cell::new(0));
    let run = outcome(|| {
        machine.open()?;
        machine.run(&[Step::OpenLog(0), Step::Idle])?;
        machine.run(before)?;
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 2, count.clone()));
        machine.run(script)?;
        machine.observer = None;
        machine.run(&[Step::Answer, Step::PowerFailure { loss: Loss::DropAll, again_after: None }])
    });
    if let Err(text) = run {
        panic!("seed {seed}: {text}");
    }
    assert!(count.get() > 0, "the script took no turn");
    eprintln!("{} crash images", count.get());
}

fn crash_everywhere(seed: u64, before: &[Step], script: &[Step]) {
    crash_everywhere_with(small(), seed, before, script);
}

const fn append(batches: usize, bytes: usize) -> Step {
    Step::Append { log: 0, batches, records: 2, bytes }
}

const fn ask(ask: Ask) -> Step {
    Step::Verb { log: 0, ask }
}

const fn truncate(back: u64) -> Step {
    ask(Ask::Truncate(At::Back(back)))
}

/// Three sealed segments and some batches in the fourth, two records each.
const MANY: [Step; 4] = [append(30, 5_500), Step::Idle, append(3, 400), Step::Answer];

#[test]
fn a_truncation_in_the_active_segment_is_whole_or_absent() {
    // At a boundary and inside a batch; with more behind it than may ever be in flight, and with little.
    for (seed, back) in [(1, 4), (2, 5), (3, 1), (4, 38)] {
        let before = [append(10, 5_000), append(20, 60), Step::Answer];
        crash_everywhere(seed, &before, &[truncate(back), Step::Answer, append(2, 300), Step::Answer]);
    }
}

#[test]
fn a_truncation_right_behind_appends_drops_them_or_none() {
    crash_everywhere(5, &[append(4, 900), Step::Answer], &[append(5, 700), truncate(3), Step::Answer, Step::Idle]);
}

#[test]
fn cr_15_cr_16_a_truncation_across_sealed_segments_leaves_the_cut_one_rewritten() {
    for (seed, back) in [(10, 40), (11, 41), (12, 25)] {
        crash_everywhere(seed, &MANY, &[truncate(back), Step::Answer, append(2, 900), Step::Answer, Step::Idle]);
    }
}

#[test]
fn a_truncation_to_the_very_start_leaves_an_empty_log() {
    let script = [ask(Ask::Truncate(At::Start)), Step::Answer, append(2, 900), Step::Answer, Step::Idle];
    crash_everywhere(20, &[append(3, 900), Step::Answer], &script);
    crash_everywhere(21, &MANY, &script);
}

#[test]
fn a_truncation_to_a_start_inside_a_batch_leaves_an_empty_log() {
    let trimmed = [append(4, 900), Step::Answer, ask(Ask::Trim(At::Back(3))), Step::Answer];
    let script = [ask(Ask::Truncate(At::Start)), Step::Answer, append(2, 900), Step::Answer, Step::Idle];
    crash_everywhere(22, &trimmed, &script);
    let trimmed = [append(30, 5_500), Step::Idle, ask(Ask::Trim(At::Back(31))), Step::Answer];
    crash_everywhere(23, &trimmed, &script);
}

#[test]
fn truncations_in_a_row_with_appends_between_never_bring_anything_back() {
    let before = [append(6, 3_000), Step::Answer];
    let twice = [truncate(3), Step::Answer, append(3, 300), Step::Answer, truncate(4), Step::Answer, append(1, 90)];
    crash_everywhere(24, &before, &twice);
    let again = [truncate(2), truncate(2), append(1, 50), truncate(1), Step::Answer, append(1, 50), Step::Answer];
    crash_everywhere(25, &before, &again);
}

#[test]
fn a_truncation_of_a_log_that_rests_rouses_it_first() {
    let mut config = small();
    config.idle_clean_after = Duration::from_millis(3);
    let before = [append(5, 900), Step::Idle];
    let script = [truncate(3), Step::Answer, append(1, 300), Step::Answer, Step::Idle];
    crash_everywhere_with(config.clone(), 26, &before, &script);
    // Dormant: closed in order and opened again, its head not opened.
    let before = [append(5, 900), Step::Idle, Step::Reopen];
    crash_everywhere_with(config, 27, &before, &script);
}

#[test]
fn a_trim_that_was_answered_stays_and_its_segments_go() {
    let script = [ask(Ask::Trim(At::PerMille(550))), Step::Answer, append(1, 100), Step::Idle];
    crash_everywhere(30, &MANY, &script);
    let all = [ask(Ask::Trim(At::Back(0))), Step::Answer, append(1, 100), Step::Answer, ask(Ask::Trim(At::Back(1)))];
    crash_everywhere(31, &MANY, &all);
}

#[test]
fn a_seal_is_answered_when_it_is_durable_and_again_the_same() {
    let script =
        [ask(Ask::Seal), Step::Answer, ask(Ask::Seal), Step::Answer, append(1, 100), ask(Ask::Seal), Step::Idle];
    crash_everywhere(40, &[append(3, 900), Step::Answer], &script);
    crash_everywhere(41, &[], &script);
    crash_everywhere(42, &MANY, &script);
}

#[test]
fn a_seal_at_an_offset_drops_fences_and_seals() {
    let follow = Step::Follow { log: 0, records: 1, bytes: 90, off: 0 };
    for (seed, back) in [(43, 3), (44, 0), (45, 45)] {
        let script = [
            ask(Ask::SealAt(At::Back(back))),
            append(1, 90),
            Step::Answer,
            append(1, 90),
            follow,
            Step::Answer,
            ask(Ask::SealAt(At::Back(0))),
            ask(Ask::Unfence),
            Step::Answer,
            append(1, 90),
            Step::Idle,
        ];
        crash_everywhere(seed, &MANY, &script);
    }
}

#[test]
fn a_fenced_log_takes_repairs_only_and_stays_fenced() {
    let follow = |off| Step::Follow { log: 0, records: 2, bytes: 90, off };
    let script = [
        append(2, 300),
        ask(Ask::Fence(Some(At::Past(4)))),
        append(1, 300),
        Step::Answer,
        append(1, 300),
        follow(0),
        Step::Answer,
        follow(1),
        follow(0),
        Step::Answer,
        follow(0),
        Step::Answer,
        ask(Ask::Unfence),
        Step::Answer,
        append(1, 300),
        Step::Answer,
    ];
    crash_everywhere(50, &[append(1, 300), Step::Answer], &script);
}

#[test]
fn a_segment_is_deleted_only_when_it_is_the_oldest_and_sealed() {
    let script = [
        Step::DeleteSegment { log: 0, place: 1 },
        Step::DeleteSegment { log: 0, place: 0 },
        Step::DeleteSegment { log: 0, place: 2 },
        Step::Idle,
    ];
    crash_everywhere(55, &MANY, &script);
}

#[test]
fn a_deleted_log_stays_gone_and_one_made_again_shows_nothing_of_it() {
    let again = [
        ask(Ask::Delete),
        Step::Answer,
        Step::OpenLog(0),
        Step::Answer,
        append(3, 900),
        Step::Answer,
        ask(Ask::Delete),
        Step::Answer,
        Step::Idle,
    ];
    crash_everywhere(60, &MANY, &again);
    crash_everywhere(61, &[], &again);
    crash_everywhere(
        62,
        &[append(30, 5_500)],
        &[ask(Ask::Delete), Step::Answer, Step::Idle, Step::OpenLog(0), Step::Idle],
    );
}

#[test]
fn an_index_built_again_is_what_it_was_also_after_a_crash() {
    crash_everywhere(70, &MANY, &[Step::RebuildIndex { log: 0, place: 1 }, Step::Idle]);
}
