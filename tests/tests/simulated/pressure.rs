//! Pressure: what a store does while the disk fills, at every stage, and how it comes back by itself.

use std::cell::Cell;
use std::rc::Rc;
use strandline::config::Config;
use strandline::format::segment::{SegmentHeader, SegmentState};
use strandline::pending::pair;
use strandline::shard::command::{AppendAnswer, Command};
use strandline::{AppendError, Level, Offset, Preallocate, Stage};
use strandline_disk::sim::{Fault, Loss, SimWorld, Times, What, When};
use strandline_disk::{Errno, Verb};
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::{batch_of, small};
use strandline_tests::harness::seeds::{for_each_seed, outcome};
use strandline_tests::harness::{Ask, At, Checked, Machine, Step};

const SEGMENT: u64 = 64 << 10;
const SOFT: u64 = 1 << 20;
const HARD: u64 = 512 << 10;
const RESERVE: u64 = 64 << 10;
const RESERVE_FILE: &str = "strandline.reserve";

fn config() -> Config {
    let (free_soft_bytes, free_hard_bytes) = (Some(SOFT), Some(HARD));
    Config { free_soft_bytes, free_hard_bytes, reserve_bytes: RESERVE, ..small() }
}

/// A store of about four segments, and three in the pool; and the room that it takes.
fn filled(seed: u64, config: Config) -> Machine {
    let mut machine = Machine::new(seed, config);
    let run = outcome(|| {
        machine.open()?;
        machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Idle])?;
        fill(&mut machine, 14)?;
        machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(4)) }, Step::Answer, Step::Idle])?;
        fill(&mut machine, 4)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    machine
}

/// Segments of several steps.
fn large() -> Config {
    let (segment_bytes, arena_bytes) = (1 << 20, 4 << 20);
    Config { segment_bytes, arena_bytes, batch_bytes_max: 60 << 10, commit_bytes_max: 128 << 10, ..config() }
}

/// Half a segment a round, so slowly that each successor is written whole before it is needed.
fn fill(machine: &mut Machine, rounds: usize) -> Checked {
    let bytes = machine.config.batch_bytes_max as usize * 9 / 10;
    let batches = machine.config.segment_bytes as usize / 2 / bytes;
    let append = Step::Append { log: 0, batches, records: 2, bytes };
    (0..rounds).try_for_each(|_| machine.run(&[append, Step::Idle]))
}

fn used(world: &SimWorld) -> u64 {
    world.files().iter().map(|(path, _)| world.allocated_blocks(path) as u64 * 4096).sum()
}

/// Leaves so much room from now on.
fn leave(machine: &Machine, free: u64) {
    machine.world.set_capacity(used(&machine.world) + free);
}

/// Has a segment of the other log made, so that the store looks at the disk.
fn look(machine: &mut Machine) -> Checked {
    machine.run(&[Step::Verb { log: 1, ask: Ask::Seal }, Step::Answer])?;
    machine.run(&[Step::Append { log: 1, batches: 1, records: 1, bytes: 100 }, Step::Answer, Step::Idle])
}

fn spares(world: &SimWorld) -> usize {
    world.files().iter().filter(|(path, _)| path.starts_with("spare/")).count()
}

fn reserve(world: &SimWorld) -> u64 {
    world.allocated_blocks(RESERVE_FILE) as u64 * 4096
}

fn released(machine: &Machine) -> usize {
    Disk::look(&machine.world, &machine.config).expect("a manifest").state().released.len()
}

/// An append beside the model, and its answer.
fn append(machine: &mut Machine, serial: u64, bytes: usize) -> AppendAnswer {
    let queue = machine.running().queues[0].clone();
    let admitted = queue.admit(bytes).unwrap_or_else(|_| panic!("there is room in the queue"));
    let (answer, mut pending) = pair();
    let (log, batch) = (machine.running().opened[&0].1.number, batch_of(1 << 40 | serial, 1, bytes));
    queue.push(Command::Append { log, batch, level: Level::Durable, expected: None, answer, admitted });
    loop {
        machine.turn().expect("a turn");
        if let Some(answer) = pending.try_take() {
            return answer;
        }
    }
}

/// Turns until the store has seen that it is like this.
fn until(machine: &mut Machine, stage: Stage) {
    for _ in 0..2_000 {
        if machine.running().pressure().stage == stage {
            return;
        }
        machine.turn().expect("a turn");
    }
    panic!("{stage:?} was never seen: {:?}", machine.running().pressure());
}

#[test]
fn df_07_under_the_soft_mark_the_pool_is_given_back_and_takes_nothing_in() {
    let mut machine = filled(1, config());
    assert!(spares(&machine.world) >= 2, "{}", spares(&machine.world));
    // So little that the pool is not enough to be calm again.
    leave(&machine, SOFT / 2);
    let run = outcome(|| {
        look(&mut machine)?;
        assert_eq!(machine.running().pressure().stage, Stage::Soft);
        assert_eq!(spares(&machine.world), 0);
        assert_eq!(machine.running().report.strays, [""; 0]);
        machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(2)) }, Step::Answer, Step::Idle])?;
        assert_eq!((spares(&machine.world), released(&machine)), (0, 0), "what expires goes to the file system");
        fill(&mut machine, 2)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    machine.world.set_capacity(u64::MAX);
    until(&mut machine, Stage::Calm);
    let run = outcome(|| {
        fill(&mut machine, 4)?;
        machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(2)) }, Step::Answer, Step::Idle])?;
        assert!(spares(&machine.world) > 0, "the pool takes files in again");
        machine.apply(Step::Reopen)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn no_more_of_the_pool_is_given_back_than_makes_the_disk_calm() {
    let soft = 4 * SEGMENT;
    let config = Config { free_soft_bytes: Some(soft), free_hard_bytes: Some(2 * SEGMENT), ..config() };
    let mut machine = filled(2, config);
    let before = spares(&machine.world);
    assert!(before >= 4, "{before}");
    // Calm comes with a quarter more than the mark.
    leave(&machine, soft - 4096);
    look(&mut machine).unwrap_or_else(|violation| panic!("{violation:?}"));
    assert_eq!(machine.running().pressure().stage, Stage::Calm);
    assert_eq!(spares(&machine.world), before - 3, "one became a segment's, and two made room");
}

#[test]
fn under_the_hard_mark_appends_are_refused_and_everything_else_goes_on() {
    let mut machine = filled(3, config());
    let spare = spares(&machine.world) as u64 * SEGMENT;
    machine.world.set_capacity(used(&machine.world).saturating_sub(spare) + HARD / 2);
    let run = outcome(|| {
        machine.run(&[Step::Verb { log: 1, ask: Ask::Seal }, Step::Answer])?;
        machine.run(&[Step::Append { log: 1, batches: 1, records: 1, bytes: 100 }, Step::Turn(2)])?;
        machine.apply(Step::Answer)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    until(&mut machine, Stage::Hard);
    machine.apply(Step::Idle).unwrap_or_else(|violation| panic!("{violation:?}"));
    let (bytes, operations) = (used(&machine.world), machine.world.files().len());
    match append(&mut machine, 1, 300).expect_err("a refusal") {
        AppendError::DiskAlmostFull { free, mark, .. } => assert!(free < mark && mark == HARD, "{free} {mark}"),
        other => panic!("{other}"),
    }
    assert_eq!((used(&machine.world), machine.world.files().len()), (bytes, operations), "nothing was tried");
    let run = outcome(|| {
        assert!(machine.read(0, Offset(u64::MAX >> 2), 100)?.is_err());
        machine.run(&[Step::Read { log: 0, per_mille: 999, bytes: 1_000 }, Step::Answer])?;
        machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(1)) }, Step::Answer, Step::Idle])?;
        assert_eq!(released(&machine), 0, "its files are gone");
        machine.run(&[Step::Verb { log: 1, ask: Ask::Delete }, Step::Answer, Step::Idle])
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    machine.world.set_capacity(u64::MAX);
    until(&mut machine, Stage::Calm);
    fill(&mut machine, 3)
        .and_then(|()| machine.apply(Step::Reopen))
        .unwrap_or_else(|violation| panic!("{violation:?}"));
}

#[test]
fn df_02_a_store_with_no_byte_free_opens_reads_trims_deletes_and_comes_back_by_itself() {
    for_each_seed(10, |seed| {
        let mut machine = filled(seed, config());
        machine.close()?;
        machine.world.set_capacity(used(&machine.world));
        machine.open()?;
        assert_eq!(machine.running().pressure().stage, Stage::Hard, "before the first append");
        assert!(matches!(append(&mut machine, 1, 300), Err(AppendError::DiskAlmostFull { .. })));
        machine.run(&[Step::Read { log: 0, per_mille: 999, bytes: 1_000 }, Step::Answer, Step::Idle])?;
        assert_eq!(spares(&machine.world), 0, "the pool went first");
        // Whoever filled the disk takes that, too.
        machine.world.set_capacity(used(&machine.world));
        machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(1)) }, Step::Answer, Step::Idle])?;
        assert_eq!(released(&machine), 0);
        machine.run(&[Step::Verb { log: 1, ask: Ask::Delete }, Step::Answer, Step::Idle])?;
        assert_eq!(released(&machine), 0);
        leave(&machine, 2 * SOFT);
        until(&mut machine, Stage::Calm);
        fill(&mut machine, 3)?;
        machine.apply(Step::Reopen)
    });
}

#[test]
fn removal_that_is_refused_spends_the_reserve_unlinks_in_place_and_the_reserve_is_made_again() {
    let mut machine = filled(5, config());
    assert_eq!(reserve(&machine.world), RESERVE);
    let rename = When::VerbOnPath(Verb::Rename, "t0-r0".to_owned());
    machine.world.inject(Fault { when: rename, what: What::Errno(Errno::NOSPC), times: Times::Forever });
    machine.world.keep_trace(true);
    let run = outcome(|| {
        machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(1)) }, Step::Answer])?;
        machine.apply(Step::Idle)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    let trace = machine.world.trace();
    let times = |parts: &[&str]| trace.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    assert!(times(&["start", "Rename", "t0-r0"]) > 0);
    assert_eq!(times(&["start", "Truncate", RESERVE_FILE]), 2, "once to spend it, once before it is made again");
    assert!(times(&["start", "Unlink", "t0-r0"]) > 0);
    assert_eq!(released(&machine), 0, "what could not be renamed is gone all the same");
    assert_eq!(reserve(&machine.world), RESERVE, "it is there again");
}

#[test]
fn a_reserve_is_made_when_there_is_room_and_removed_when_it_is_not_wanted() {
    let mut machine = filled(6, Config { reserve_bytes: 0, ..config() });
    assert_eq!(machine.world.read_file(RESERVE_FILE), None);
    let run = outcome(|| {
        for reserve_bytes in [RESERVE, 2 * RESERVE, RESERVE, 0] {
            machine.close()?;
            machine.config = Config { reserve_bytes, ..config() }.check().expect("it can work");
            machine.open()?;
            machine.apply(Step::Idle)?;
            assert_eq!(reserve(&machine.world), reserve_bytes);
        }
        Ok(())
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(machine.world.read_file(RESERVE_FILE), None);
}

/// Room enough for all that images do, and yet always too little.
fn always_soft(machine: &mut Machine) {
    let soft = 1 << 30;
    machine.close().expect("a clean close");
    let config = Config { free_soft_bytes: Some(soft), ..(*machine.config).clone() };
    machine.config = config.check().expect("it can work");
    machine.world.set_capacity(64 << 20);
}

#[test]
fn a_crash_at_any_turn_of_giving_the_pool_back_keeps_what_was_acknowledged() {
    let count = Rc::new(Cell::new(0));
    let mut machine = filled(7, config());
    always_soft(&mut machine);
    let run = outcome(|| {
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
        machine.open()?;
        machine.apply(Step::Idle)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 50 && spares(&machine.world) == 0);
}

#[test]
fn what_a_crash_leaves_of_the_pool_is_removed_after_the_next_open_and_never_used() {
    let moments: [&[&str]; 4] =
        [&["Truncate", "spare/"], &["Unlink", "spare/"], &["RemoveDirectory", "spare/"], &["SyncDirectory", "spare"]];
    for parts in moments {
        for loss in [Some(Loss::KeepAll), Some(Loss::DropAll), Some(Loss::Random), None] {
            let mut machine = filled(8, large());
            always_soft(&mut machine);
            let run = outcome(|| {
                assert!(machine.start(None)?);
                machine.turn_until_in_flight(parts)?;
                machine.crash(|world| match loss {
                    Some(loss) => world.power_failure(loss),
                    None => world.kill(),
                })?;
                // With room again: whole ones are used, and what is left of others is removed all the same.
                machine.world.set_capacity(u64::MAX);
                machine.open()?;
                assert_eq!(machine.running().report.strays, [""; 0], "{parts:?} {loss:?}");
                machine.apply(Step::Idle)?;
                for (path, length) in machine.world.files().into_iter().filter(|(path, _)| path.starts_with("spare/")) {
                    let header = SegmentHeader::decode(&machine.world.read_file(&path).expect("it is listed")[..4096]);
                    assert!(header.is_ok_and(|header| header.state == SegmentState::Spare && header.size == length));
                }
                machine.run(&[Step::OpenLog(0)])?;
                fill(&mut machine, 4)?;
                machine.run(&[Step::Reopen])?;
                assert_eq!(machine.running().report.strays, [""; 0]);
                Ok(())
            });
            run.unwrap_or_else(|text| panic!("{parts:?} {loss:?}: {text}"));
        }
    }
}

#[test]
fn a_store_that_rests_and_has_room_does_not_look_at_the_disk() {
    let mut machine = filled(9, config());
    machine.world.keep_trace(true);
    machine.run(&[Step::Idle, Step::Turn(500)]).unwrap_or_else(|violation| panic!("{violation:?}"));
    assert_eq!(machine.world.trace().iter().filter(|line| line.contains("Sleep")).count(), 0);
}

#[test]
fn a_disk_that_does_not_say_how_much_room_there_is_stops_nothing() {
    let mut machine = filled(10, config());
    machine.world.inject(Fault { when: When::Verb(Verb::Space), what: What::Errno(Errno::IO), times: Times::Forever });
    let run = outcome(|| {
        fill(&mut machine, 4)?;
        machine.apply(Step::Reopen)?;
        fill(&mut machine, 2)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
}

/// A store whose files grow, or whose writes take new blocks, on a disk that is full by now: the last append failed.
fn met_a_full_disk(seed: u64) -> Option<Machine> {
    let copies = seed.is_multiple_of(2);
    let preallocate = if copies { Preallocate::Allocated } else { Preallocate::Off };
    let mut machine = Machine::new(seed, Config { preallocate, ..small() });
    machine.world.set_copy_on_write(copies);
    machine.open().expect("an open");
    let big = Step::Append { log: 0, batches: 3, records: 2, bytes: 4_000 };
    machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Idle, big, Step::Answer]).expect("appends");
    leave(&machine, if copies { 2 * 4096 } else { 5 * 4096 });
    machine.tolerant = true;
    for _ in 0..200 {
        machine.run(&[big, Step::Answer]).unwrap_or_else(|violation| panic!("{violation:?}"));
        if machine.model.logs[0].waiting.iter().any(|sent| sent.failed) {
            return Some(machine);
        }
    }
    None // It met the full disk while a segment was made.
}

/// Appends until the log takes them again.
fn until_it_takes_appends(machine: &mut Machine) -> Checked<bool> {
    let append = Step::Append { log: 0, batches: 1, records: 1, bytes: 700 };
    let end = machine.running().opened[&0].1.shared.bounds().end;
    for _ in 0..60 {
        machine.run(&[append, Step::Answer, Step::Turn(600)])?;
        if machine.model.logs[0].held.last().is_some_and(|held| held.acknowledged && held.end() > end) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn a_log_whose_write_met_a_full_disk_goes_on_by_itself_when_there_is_room() {
    let mut healed = 0;
    for_each_seed(40, |seed| {
        let Some(mut machine) = met_a_full_disk(seed) else { return Ok(()) };
        machine.world.set_capacity(u64::MAX);
        assert!(until_it_takes_appends(&mut machine)?, "the log goes on without an open");
        healed += 1;
        machine.tolerant = false;
        fill(&mut machine, 3)?;
        machine.run(&[Step::Verb { log: 0, ask: Ask::Truncate(At::Back(3)) }, Step::Answer, Step::Idle])?;
        machine.apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None })?;
        machine.run(&[Step::Append { log: 0, batches: 2, records: 2, bytes: 900 }, Step::Answer, Step::Reopen])
    });
    assert!(healed >= 10, "only {healed} logs went on");
}

#[test]
fn a_crash_at_any_turn_of_going_on_after_a_full_disk_keeps_what_was_acknowledged() {
    let (count, mut seeds) = (Rc::new(Cell::new(0)), 0);
    for seed in 0..3 {
        let Some(mut machine) = met_a_full_disk(seed) else { continue };
        machine.world.set_capacity(u64::MAX);
        let run = outcome(|| {
            machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
            let append = Step::Append { log: 0, batches: 2, records: 1, bytes: 700 };
            for _ in 0..4 {
                machine.run(&[append, Step::Answer, Step::Turn(30)])?;
                machine.apply(Step::Idle)?;
            }
            Ok(())
        });
        run.unwrap_or_else(|text| panic!("seed {seed}: {text}"));
        seeds += 1;
    }
    eprintln!("{} crash images of {seeds} seeds", count.get());
    assert!(count.get() > 100 && seeds > 1);
}

#[test]
fn any_operation_of_going_on_after_a_full_disk_may_fail() {
    let whats = [
        What::Errno(Errno::IO),
        What::Errno(Errno::NOSPC),
        What::FailedSyncDropsDirty,
        What::FailedSyncDropsDevice,
        What::Short,
    ];
    let (mut struck, mut runs) = (0, 0);
    for (number, what) in whats.iter().enumerate() {
        for k in 1..60 {
            for seed in [2 * k, 2 * k + 1] {
                let Some(mut machine) = met_a_full_disk(seed) else { continue };
                machine.world.set_capacity(u64::MAX);
                let times = if k % 3 == 0 { Times::Forever } else { Times::Once };
                machine.world.inject(Fault { when: When::KthOperation(k), what: what.clone(), times });
                let run = outcome(|| {
                    let append = Step::Append { log: 0, batches: 2, records: 1, bytes: 700 };
                    for _ in 0..4 {
                        machine.run(&[append, Step::Answer, Step::Turn(600)])?;
                    }
                    struck += machine.world.faults_fired().min(1);
                    machine.world.clear_faults();
                    machine.tolerant = false;
                    let loss = [Loss::DropAll, Loss::KeepAll, Loss::Random][(k as usize + number) % 3];
                    machine.apply(Step::PowerFailure { loss, again_after: None })?;
                    machine.run(&[append, Step::Answer, Step::Reopen, Step::Idle])
                });
                run.unwrap_or_else(|text| panic!("operation {k}, {what:?}, seed {seed}: {text}"));
                runs += 1;
            }
        }
    }
    assert!(struck > 100, "{struck} faults struck in {runs} runs");
}
