//! Cases of full disks and of allocation by their ids, as far as no other test has them: what is taken of a disk and when, what that costs
//! those who append, and what comes back.

use crate::cases::{Operation, answered, append, listen, opened, rings, started, turns_of_an_append};
use std::collections::BTreeSet;
use strandline::Preallocate;
use strandline::config::Config;
use strandline_disk::Verb;
use strandline_disk::sim::{Fault, SimWorld, Times, What, When};
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::{Ask, At, Machine, Step};

const SEGMENT: u64 = 64 << 10;

/// So many of these fill a segment.
const IN_A_SEGMENT: usize = 9;

const fn big(log: usize) -> Step {
    Step::Append { log, batches: 1, records: 1, bytes: 5_500 }
}

const fn trim(log: usize) -> Step {
    Step::Verb { log, ask: Ask::Trim(At::Back(1)) }
}

fn used(world: &SimWorld) -> u64 {
    world.files().iter().map(|(path, _)| world.allocated_blocks(path) as u64 * 4096).sum()
}

/// The paths and sizes of the files of segments that have been opened.
fn opened_segments(machine: &Machine) -> Vec<(String, u64)> {
    let disk = Disk::look(&machine.world, &machine.config).expect("a manifest");
    let opened = disk.segments().iter().filter(|segment| segment.record.opening().is_some());
    opened.map(|segment| (segment.path.clone(), segment.record.size)).collect()
}

/// How much an operation allocates.
fn allocates(one: &Operation) -> Option<u64> {
    let is_making = one.is_any(&[Verb::Allocate, Verb::WriteZeroes]);
    is_making.then(|| one.word(4).parse().expect("a length"))
}

#[test]
fn df_01_no_more_than_a_segment_is_allocated_at_once_and_logs_that_share_the_last_room_are_refused_one_by_one() {
    const LOGS: usize = 8;
    const ROOM: u64 = 3;
    for seed in 0..5 {
        let mut machine = opened(seed, Config { spare_bytes_max: 0, ..small() }, LOGS);
        machine.tolerant = true;
        machine.world.set_capacity(used(&machine.world) + ROOM * SEGMENT);
        listen(&machine);
        for _ in 0..24 {
            let all: Vec<Step> = (0..LOGS).map(big).chain([Step::Answer]).collect();
            machine.run(&all).expect("a full disk breaks no promise");
        }
        let made: Vec<u64> = started(&machine).iter().filter_map(allocates).collect();
        assert!(!made.is_empty() && made.iter().all(|bytes| *bytes == SEGMENT), "{made:?}");
        // Whoever came late fills what he has.
        let held: Vec<usize> = machine.model.logs.iter().map(|log| log.held.len()).collect();
        let with_two = held.iter().filter(|held| **held == 2 * IN_A_SEGMENT).count() as u64;
        let with_one = held.iter().filter(|held| **held == IN_A_SEGMENT).count();
        assert_eq!((with_two, with_one), (ROOM, LOGS - ROOM as usize), "{held:?}");
        machine.world.set_capacity(u64::MAX);
        machine.apply(Step::Turn(20_000)).expect("turns");
        let ends: Vec<_> = machine.model.logs.iter().map(|log| log.end()).collect();
        let all: Vec<Step> = (0..LOGS).map(big).chain([Step::Answer]).collect();
        machine.run(&all).expect("room again");
        for (log, end) in machine.model.logs.iter().zip(ends) {
            assert_eq!(log.end(), end.plus(1), "{}: none is latched", log.id);
        }
        machine.tolerant = false;
        machine.apply(Step::Reopen).expect("nothing is lost");
    }
}

/// What a log looks like that was written slowly under a strategy: whether each block of its segments had been written before, the blocks
/// that its head has, and the length of that.
fn written_under(preallocate: Preallocate, write_zeroes: bool) -> (bool, usize, u64) {
    let mut machine = opened(5, Config { preallocate, spare_bytes_max: 0, ..small() }, 0);
    machine.world.set_write_zeroes(write_zeroes);
    machine.run(&[Step::Reopen, Step::OpenLog(0), Step::Idle]).expect("a log");
    let mut anchored = true;
    for _ in 0..24 {
        machine.run(&[big(0), Step::Idle]).expect("an append");
        let segments = opened_segments(&machine);
        anchored &= segments.iter().all(|(path, size)| machine.world.is_anchored(path, 0, *size as usize));
    }
    let (path, _) = opened_segments(&machine).pop().expect("a head");
    let length = machine.world.files().into_iter().find(|(other, _)| *other == path).expect("its file").1;
    (anchored, machine.world.allocated_blocks(&path), length)
}

#[test]
fn df_05_a_segment_is_written_allocated_or_grows_as_the_strategy_says_and_as_the_disk_can() {
    let whole = (SEGMENT / 4096) as usize;
    for write_zeroes in [false, true] {
        assert_eq!(written_under(Preallocate::Written, write_zeroes), (true, whole, SEGMENT), "{write_zeroes}");
        let (anchored, blocks, length) = written_under(Preallocate::Allocated, write_zeroes);
        assert!(!anchored && (blocks, length) == (whole, SEGMENT), "{write_zeroes}: {anchored}, {blocks}, {length}");
        let (anchored, blocks, length) = written_under(Preallocate::Off, write_zeroes);
        assert!(!anchored && blocks < whole && length < SEGMENT, "{write_zeroes}: {anchored}, {blocks}, {length}");
    }
}

#[test]
fn df_08_a_file_that_is_used_again_is_written_without_a_read_or_an_allocation_and_filling_holds_no_append_up() {
    let mut machine = opened(8, small(), 1);
    let round = [big(0), Step::Idle];
    (0..44).try_for_each(|_| machine.run(&round)).expect("appends");
    machine.run(&[trim(0), Step::Answer, Step::Idle]).expect("a trim");
    listen(&machine);
    let segments = opened_segments(&machine).len();
    (0..24).try_for_each(|_| machine.run(&round)).expect("appends");
    assert!(opened_segments(&machine).len() >= segments + 2, "it rolls");
    let (shard, _) = rings(&mut machine);
    // The header block of a file is read once, when it comes out of the pool: it must be what its name says.
    let of_shard = started(&machine).into_iter().filter(|one| one.disk == shard && one.path().ends_with("/data.0"));
    let bad = of_shard.clone().find(|one| allocates(one).is_some() || one.is(Verb::Read) && one.word(4) != "0..4096");
    assert!(bad.is_none(), "{bad:?}");
    assert!(of_shard.clone().any(|one| one.is(Verb::Write)), "it was written");

    // One that has to be filled: appends go on beside the zeros.
    let mut machine = opened(9, Config { spare_bytes_max: 0, ..small() }, 1);
    let alone = (0..5).map(|_| turns_of_an_append(&mut machine, 0)).max().expect("some");
    machine.apply(Step::Idle).expect("it rests");
    let slow = When::VerbOnPath(Verb::Write, "t0-r0-s2".to_owned());
    machine.world.inject(Fault { when: slow, what: What::Delay(3_000), times: Times::Once });
    let (mut beside, mut most) = (0, 0);
    for _ in 0..60 {
        let fills = |line: &String| Operation::of(line).is(Verb::Write) && line.contains("t0-r0-s2");
        let filling = machine.world.pending().iter().any(fills);
        machine.apply(if filling { append(0) } else { big(0) }).expect("room");
        let turns = answered(&mut machine);
        if filling && machine.world.pending().iter().any(fills) {
            (beside, most) = (beside + 1, most.max(turns));
        }
    }
    assert!(beside >= 10 && most <= 2 * alone, "{beside} appends beside it took up to {most} turns, {alone} alone");
}

#[test]
fn df_09_a_segment_has_its_whole_length_before_its_first_record_and_no_append_changes_it() {
    for preallocate in [Preallocate::Written, Preallocate::Allocated] {
        for write_zeroes in [false, true] {
            let mut machine = opened(9, Config { preallocate, ..small() }, 0);
            machine.world.set_write_zeroes(write_zeroes);
            machine.run(&[Step::Reopen, Step::OpenLog(0), Step::Idle]).expect("a log");
            let mut seen = BTreeSet::new();
            for _ in 0..30 {
                machine.apply(big(0)).expect("room");
                while machine.running().asked() > 0 {
                    machine.turn().expect("a turn");
                    let lengths = machine.world.files();
                    for (path, _) in opened_segments(&machine) {
                        let length = lengths.iter().find(|(other, _)| *other == path).expect("its file").1;
                        assert_eq!(length, SEGMENT, "{path}, {preallocate:?}");
                        seen.insert(path);
                    }
                }
            }
            assert!(seen.len() >= 3, "{seen:?}");
        }
    }
}

#[test]
fn df_11_a_burst_that_empties_the_pool_goes_on_with_plain_files_and_the_pool_is_filled_again_behind_it() {
    let spares =
        |machine: &Machine| machine.world.files().iter().filter(|(path, _)| path.starts_with("spare/")).count();
    let (segment_bytes, batch_bytes_max, commit_bytes_max) = (1 << 20, 60 << 10, 128 << 10);
    let config = Config { segment_bytes, batch_bytes_max, commit_bytes_max, ..small() };
    // A file is filled in several bursts.
    let mut machine = opened(11, config, 0);
    machine.world.set_pool_bytes(256 << 10);
    machine.run(&[Step::Reopen, Step::OpenLog(0), Step::Idle]).expect("a log");
    let large = Step::Append { log: 0, batches: 1, records: 1, bytes: 50_000 };
    (0..120).try_for_each(|_| machine.run(&[large, Step::Idle])).expect("appends");
    machine.run(&[trim(0), Step::Answer, Step::Idle]).expect("a trim");
    let before = spares(&machine);
    listen(&machine);
    // Until a plain file is there its predecessor is full.
    let when = When::VerbOnPath(Verb::CreateDirectory, "t0-".to_owned());
    machine.world.inject(Fault { when, what: What::Delay(2_000), times: Times::Forever });
    let (mut slowest, mut empty) = (0, 0);
    for _ in 0..300 {
        machine.apply(large).expect("room");
        slowest = slowest.max(answered(&mut machine));
        empty += usize::from(spares(&machine) == 0);
    }
    machine.world.clear_faults();
    let (shard, remover) = rings(&mut machine);
    let plain = started(&machine).iter().filter(|one| one.disk == shard && one.is(Verb::CreateDirectory)).count();
    assert!(before >= 4 && empty > 100 && plain >= 8, "{before} spare files, {empty} appends without, {plain} made");
    // Who waits for a file waits for names, an allocation, syncs and an edit, and not for the filling.
    let disk = Disk::look(&machine.world, &machine.config).expect("a manifest");
    let unfilled = disk.segments().iter().filter(|segment| !segment.record.written).count();
    assert!(unfilled >= 8 && slowest < 80, "{unfilled} were used as they were, an append took {slowest} turns");
    listen(&machine);
    machine.run(&[trim(0), Step::Answer, Step::Idle]).expect("a trim");
    assert!(spares(&machine) >= 10, "{} spare files", spares(&machine));
    let filled = started(&machine);
    let mut filled = filled.iter().filter(|one| one.is(Verb::Rename));
    assert!(filled.all(|one| one.disk == remover), "the pool is filled off the shard's ring");
}

#[test]
fn df_12_a_log_that_never_moves_keeps_no_file_of_another_one() {
    let mut machine = opened(12, Config { spare_bytes_max: 0, ..small() }, 2);
    machine.run(&[append(0), Step::Answer]).expect("an append");
    (0..90).try_for_each(|_| machine.run(&[big(1), Step::Answer])).expect("appends");
    let files =
        |machine: &Machine, of: &str| machine.world.files().iter().filter(|(path, _)| path.starts_with(of)).count();
    assert!(files(&machine, "t1-") >= 8, "{}", files(&machine, "t1-"));
    let before = files(&machine, "t0-");
    machine.run(&[trim(1), Step::Answer, Step::Idle]).expect("a trim");
    assert!(files(&machine, "t1-") <= 2, "its head and what comes after it");
    assert_eq!(files(&machine, "t0-"), before);
    machine.apply(Step::Reopen).expect("the record that never moved is there");
}

#[test]
fn df_14_a_slow_allocation_holds_neither_its_own_log_up_nor_its_neighbours() {
    for verb in [Verb::CreateDirectory, Verb::Open, Verb::Allocate, Verb::Sync, Verb::SyncDirectory] {
        let mut machine = opened(14, Config { spare_bytes_max: 0, ..small() }, 3);
        let alone = (0..30).map(|number| turns_of_an_append(&mut machine, 1 + number % 2)).max().expect("some");
        machine.apply(Step::Idle).expect("it rests");
        let when = When::VerbOnPath(verb, "t0-r0-s1".to_owned());
        machine.world.inject(Fault { when, what: What::Delay(5_000), times: Times::Once });
        machine.run(&[append(0), Step::Answer]).expect("an append");
        let (mut beside, mut most) = (0, 0);
        for number in 0..60 {
            most = most.max(turns_of_an_append(&mut machine, number % 3));
            let is_slow = |line: &String| Operation::of(line).is(verb) && line.contains("t0-r0-s1");
            beside += usize::from(machine.world.pending().iter().any(is_slow));
        }
        assert!(beside >= 30 && most <= 2 * alone, "{verb:?}: {beside} beside it, up to {most} turns, {alone} alone");
    }
}
