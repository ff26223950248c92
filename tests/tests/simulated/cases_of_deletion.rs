//! Cases of deletion by their ids: what removal, rolls and closing cost those who append, counted in operations and turns and not in time.

use crate::cases::{
    MAKING, Operation, answered, append, each_start, listen, opened, rings, seal, started, turns_of_an_append,
};
use strandline::config::{Config, ConfigError};
use strandline::{Level, Removal};
use strandline_disk::sim::{Fault, SimWorld, Times, What, When};
use strandline_disk::{Errno, Verb};
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Ask, At, Machine, Step};

const TRIM: Step = Step::Verb { log: 0, ask: Ask::Trim(At::Back(1)) };

/// Verbs that give bytes or names back.
const REMOVAL: [Verb; 4] = [Verb::Truncate, Verb::Unlink, Verb::RemoveDirectory, Verb::Rename];

/// No pool, and room in the manifest for a thousand segments.
fn config() -> Config {
    Config { spare_bytes_max: 0, manifest_bytes: 1 << 20, ..small() }
}

/// Log 0 has so many sealed segments with one append each, and a head.
fn many(seed: u64, config: Config, segments: usize) -> Machine {
    many_of(seed, config, segments, append(0))
}

fn many_of(seed: u64, config: Config, segments: usize, of_each: Step) -> Machine {
    let mut machine = opened(seed, config, 2);
    for _ in 0..segments {
        machine.run(&[of_each, Step::Answer]).expect("a segment");
        seal(&mut machine, 0);
    }
    machine.run(&[append(0), append(1), Step::Idle]).expect("a head");
    listen(&machine);
    machine
}

/// Turns until so many files are gone, and calls `seen` before each.
fn until_removed(machine: &mut Machine, files: u64, mut seen: impl FnMut(&mut Machine)) {
    for _ in 0..200_000 {
        if machine.running().removed().files >= files {
            return;
        }
        seen(machine);
        machine.turn().expect("a turn");
    }
    panic!("{files} files never go: {:?}", machine.running().removed());
}

#[test]
fn dl_01_unlinks_go_in_batches_of_their_bound_and_share_their_syncs() {
    let over = Config { removal_batch: 129, ..config() }.check();
    assert!(matches!(over, Err(ConfigError::OutOfRange { field: "removal_batch", .. })), "{over:?}");
    let segments = 256;
    for removal_batch in [1, 32, 128] {
        let config = Config { removal: Removal::Unpaced, removal_batch, ..config() };
        let mut machine = many(1, config, segments);
        let (_, remover) = rings(&mut machine);
        machine.apply(TRIM).expect("a trim");
        until_removed(&mut machine, segments as u64, |_| {});
        let mut most = 0;
        each_start(&machine, |one, flying| {
            let unlinks = flying.iter().chain([one]).filter(|one| one.is(Verb::Unlink)).count();
            most = most.max(unlinks);
        });
        let root = |one: &&Operation| one.disk == remover && one.is(Verb::SyncDirectory) && one.path() == ".";
        let syncs = started(&machine).iter().filter(root).count();
        assert_eq!(most, removal_batch, "in flight at once");
        let batches = segments.div_ceil(removal_batch);
        assert!((batches..=batches + 2).contains(&syncs), "{syncs} syncs of the root for batches of {removal_batch}");
    }
}

/// The most bytes that went in any `window_ns`, and those that went in all.
fn most_freed(machine: &mut Machine, window_ns: u64) -> (u64, u64) {
    let used = |world: &SimWorld| -> u64 {
        let files = world.files().into_iter().filter(|(path, _)| path.starts_with("t0-"));
        files.map(|(path, _)| world.allocated_blocks(&path) as u64 * 4096).sum()
    };
    let segments = machine.world.files().iter().filter(|(path, _)| path.starts_with("t0-")).count() as u64 - 2;
    let first = used(&machine.world);
    let mut seen = vec![(machine.world.now().boot_ns, 0)];
    machine.apply(TRIM).expect("a trim");
    until_removed(machine, segments, |machine| {
        // A head that grows meanwhile takes nothing from it: nobody appends to log 0.
        seen.push((machine.world.now().boot_ns, first.saturating_sub(used(&machine.world))));
    });
    let mut most = 0;
    for (place, (at, freed)) in seen.iter().enumerate() {
        let within = seen[place..].iter().take_while(|(later, _)| later - at <= window_ns);
        most = most.max(within.last().map_or(0, |(_, later)| later - freed));
    }
    (most, first - used(&machine.world))
}

/// Fills most of a segment of 1 MiB.
const FULL: Step = Step::Append { log: 0, batches: 18, records: 1, bytes: 50_000 };

/// Segments of 1 MiB.
fn large() -> Config {
    let (segment_bytes, arena_bytes) = (1 << 20, 4 << 20);
    Config { segment_bytes, arena_bytes, batch_bytes_max: 60 << 10, commit_bytes_max: 128 << 10, ..config() }
}

#[test]
fn dl_02_bytes_go_no_faster_than_the_governor_says() {
    const WINDOW_NS: u64 = 20_000_000;
    // 2 GiB a second at most, and what is in hand when a window begins.
    let bound = 2 * (1 << 30) / (1_000_000_000 / WINDOW_NS) + (2 << 20);
    let (most, all) = most_freed(&mut many_of(2, large(), 64, FULL), WINDOW_NS);
    assert!(most <= bound && all > bound, "{most} of {all} bytes in {WINDOW_NS} ns, {bound} may go");
    let unpaced = Config { removal: Removal::Unpaced, ..large() };
    let (most, _) = most_freed(&mut many_of(2, unpaced, 64, FULL), WINDOW_NS);
    assert!(most > bound, "without the governor they go as fast as the disk: {most}");
}

#[test]
fn dl_02_appends_that_suffer_slow_removal_down() {
    let least = 4 << 20;
    let mut machine = many_of(3, Config { removal_bytes_per_second_min: least, ..large() }, 96, FULL);
    machine.apply(TRIM).expect("a trim");
    until_removed(&mut machine, 1, |_| {});
    let before = machine.running().removed().rate;
    let when = When::VerbOnPath(Verb::Write, "t1-".to_owned());
    machine.world.inject(Fault { when, what: What::Delay(40), times: Times::Forever });
    let mut rates = vec![before];
    for _ in 0..4_000 {
        turns_of_an_append(&mut machine, 1);
        rates.push(machine.running().removed().rate);
        if machine.running().removed().waiting == 0 {
            break;
        }
    }
    let removed = machine.running().removed();
    let slowest = *rates.iter().min().expect("there are some");
    assert!(removed.held_back > 0 && slowest < before && slowest >= least, "{removed:?}, {slowest} of {before}");
}

/// A log of its own is flushed again and again, beside one that is flushed and deleted.
fn flush_and_delete(turns: usize, gone: Option<Verb>) -> usize {
    let written = |log| Step::AppendAt { log, batches: 1, records: 1, bytes: 300, level: Level::Written };
    let flush = |log| Step::UntilDurable { log, now: true };
    let mut machine = Machine::new(100 + turns as u64, config());
    // A flush of each file, and one for all of them.
    machine.world.set_barrier_works(turns.is_multiple_of(2));
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::OpenLog(2), Step::Idle]).expect("logs");
    let (shard, remover) = rings(&mut machine);
    let here = "t1-r0-s0";
    if let Some(verb) = gone {
        let when = When::VerbOnPath(verb, here.to_owned());
        machine.world.inject(Fault { when, what: What::Errno(Errno::NOENT), times: Times::Forever });
    }
    for verb in [Verb::Sync, Verb::Barrier] {
        machine.world.inject(Fault { when: When::Verb(verb), what: What::Delay(20), times: Times::Forever });
    }
    listen(&machine);
    machine.run(&[written(1), written(2), Step::Turn(8), flush(1), flush(2), Step::Turn(turns)]).expect("a flush");
    let is_flush = |one: &Operation| one.is_any(&[Verb::Sync, Verb::Barrier]);
    let met = machine.world.pending().iter().map(|line| Operation::of(line)).filter(is_flush).count();
    machine.apply(Step::Verb { log: 1, ask: Ask::Delete }).expect("room");
    for round in 0..60 {
        let again = [written(2), flush(2), Step::Turn(1)];
        machine.run(if round % 6 == 0 { &again } else { &again[2..] }).expect("no flush fails");
    }
    machine.run(&[append(0), append(2), Step::Answer, Step::Idle]).expect("no log is latched");
    each_start(&machine, |one, flying| {
        let still = flying.iter().find(|other| other.disk == shard && other.path().starts_with(here));
        let is_removal = one.disk == remover && one.path().starts_with(here);
        assert!(!is_removal || still.is_none(), "{turns} turns, {gone:?}: {one:?} did not wait for {still:?}");
    });
    let removed = machine.running().removed();
    assert_eq!((removed.failures, removed.waiting), (0, 0), "{turns} turns, {gone:?}");
    machine.world.clear_faults();
    machine.run(&[Step::Reopen, append(0), append(2), Step::Answer]).expect("it opens again");
    met.min(1)
}

#[test]
fn dl_05_a_flush_that_meets_a_deletion_at_any_turn_is_no_failure_of_the_disk() {
    let gone = [None, Some(Verb::Unlink), Some(Verb::RemoveDirectory), Some(Verb::OpenDirectory)];
    let met: usize = (0..24).flat_map(|turns| gone.map(|gone| flush_and_delete(turns, gone))).sum();
    assert!(met >= 12, "only {met} deletions met a flush");
}

/// Truncation is what writes a segment again here, and shrinking what makes one smaller: both change what others give up.
#[test]
fn dl_07_a_cut_a_trim_a_deletion_and_a_shrink_that_meet_at_any_turn_leave_one_of_their_outcomes() {
    let (cut, trim) = (Ask::Truncate(At::PerMille(500)), Ask::Trim(At::PerMille(400)));
    let batches = Step::Append { log: 0, batches: 4, records: 2, bytes: 3_000 };
    let fill = Step::Append { log: 0, batches: 12, records: 2, bytes: 5_500 };
    let mut rewritten = 0;
    for turns in 0..40 {
        for (first, second) in
            [(cut, trim), (trim, cut), (Ask::Seal, cut), (Ask::Seal, Ask::Delete), (cut, Ask::Delete)]
        {
            // With a pool: a file that somebody still works at must not become another segment's.
            let mut machine = opened(turns as u64, small(), 1);
            let run = outcome(|| {
                for _ in 0..2 {
                    machine.run(&[batches, Step::Answer])?;
                    seal(&mut machine, 0);
                }
                let ask = |ask| Step::Verb { log: 0, ask };
                machine.run(&[batches, Step::Answer, ask(first), Step::Turn(turns), ask(second), append(0)])?;
                machine.run(&[Step::Answer, Step::Idle])?;
                rewritten += machine.world.files().iter().filter(|(path, _)| path.ends_with("/data.1")).count();
                machine.run(&[Step::OpenLog(0), Step::Answer, fill, Step::Idle, fill, Step::Idle, Step::Reopen])
            });
            run.unwrap_or_else(|text| panic!("{first:?}, {turns} turns, {second:?}: {text}"));
            assert_eq!(machine.running().report.strays, [""; 0], "{first:?}, {turns} turns, {second:?}");
        }
    }
    assert!(rewritten > 40, "only {rewritten} segments were written again");
}

#[test]
fn dl_09_a_file_that_shrinks_or_goes_is_open_on_the_removers_ring_only() {
    for removal in [Removal::Governed, Removal::Unpaced] {
        let mut machine = many_of(9, Config { removal, ..large() }, 24, FULL);
        let (shard, remover) = rings(&mut machine);
        let read = |per_mille| Step::Read { log: 0, per_mille, bytes: 60_000 };
        // Readers have files open, and one is at work when they are given up.
        machine.run(&[read(0), read(300), read(700), Step::Answer]).expect("reads");
        for verb in REMOVAL {
            // Long enough to be seen between two turns.
            machine.world.inject(Fault { when: When::Verb(verb), what: What::Delay(2), times: Times::Forever });
        }
        let slow = Fault { when: When::Verb(Verb::Read), what: What::Delay(5_000), times: Times::Once };
        machine.world.inject(slow);
        machine.run(&[read(10), TRIM]).expect("a trim beside a read");
        let (mut seen, mut beside) = (0, 0);
        until_removed(&mut machine, 24, |machine| {
            // With nothing else to do the shard would sleep until the read has ended.
            machine.apply(append(1)).expect("room");
            let pending: Vec<Operation> = machine.world.pending().iter().map(|line| Operation::of(line)).collect();
            let is_read = pending.iter().any(|one| one.disk == shard && one.is(Verb::Read));
            for one in pending.iter().filter(|one| one.is_any(&REMOVAL)) {
                assert_eq!(one.disk, remover, "{one:?}");
                // The last one that closes an unlinked file frees its blocks: that must not be the shard's thread.
                let holders = machine.world.holders(one.path());
                assert!(!holders.contains(&shard), "{one:?}, open on {holders:?}");
                (seen, beside) = (seen + 1, beside + usize::from(is_read));
            }
        });
        assert!(beside > 0, "the read was over before anything went");
        assert!(seen >= 12, "{seen}");
    }
}

#[test]
fn dl_10_appends_beside_the_removal_of_a_thousand_segments_wait_for_none_of_it() {
    const SEGMENTS: usize = 1_000;
    let mut machine = many(10, config(), SEGMENTS);
    let (shard, remover) = rings(&mut machine);
    let alone = (0..60).map(|number| turns_of_an_append(&mut machine, number % 2)).max().expect("some");
    machine.apply(Step::Idle).expect("it rests");

    listen(&machine);
    machine.apply(TRIM).expect("a trim");
    answered(&mut machine);
    let change = started(&machine);
    let of_shard = change.iter().filter(|one| one.disk == shard).count();
    assert!(of_shard <= 8, "{of_shard} operations of the shard give up {SEGMENTS} segments: {change:?}");
    assert!(!change.iter().any(|one| one.is_any(&REMOVAL)), "it is answered before anything goes: {change:?}");

    let mut beside = 0;
    while machine.running().removed().waiting > 0 || machine.running().removed().files == 0 {
        for log in [0, 1] {
            listen(&machine);
            let turns = turns_of_an_append(&mut machine, log);
            assert!(turns <= 2 * alone, "{turns} turns, and at most {alone} when nothing is removed");
            let all = started(&machine);
            let of_shard = all.iter().find(|one| one.disk == shard && one.is_any(&REMOVAL));
            assert!(of_shard.is_none(), "{of_shard:?}");
            beside += usize::from(all.iter().any(|one| one.disk == remover && one.is_any(&REMOVAL)));
        }
    }
    assert!(beside > 20, "only {beside} appends came while something was removed");
    machine.apply(Step::Idle).expect("all of it");
    assert_eq!(machine.running().removed().files, SEGMENTS as u64);
}

/// The operations of an orderly close of a store with so many sealed segments and logs that were appended to just now.
fn operations_of_a_close(segments: usize, dirty: usize) -> (u64, Vec<Operation>) {
    let mut machine = many(11, config(), segments);
    let logs: Vec<Step> = (2..8).map(Step::OpenLog).chain([Step::Answer]).chain((2..8).map(append)).collect();
    machine.run(&logs).expect("logs");
    machine.run(&[Step::Idle]).expect("all rest");
    let busy: Vec<Step> = (2..2 + dirty).map(append).chain([Step::Answer]).collect();
    machine.run(&busy).expect("appends");
    listen(&machine);
    let before = machine.world.operations();
    machine.close().expect("a clean close");
    (machine.world.operations() - before, started(&machine))
}

#[test]
fn dl_11_closing_costs_something_for_a_busy_log_and_nothing_for_a_sealed_segment() {
    // Not one operation more: neither a file nor a directory of those that rest is looked at.
    let (few, _) = operations_of_a_close(10, 1);
    let (many, all) = operations_of_a_close(800, 1);
    assert_eq!(few, many, "{all:?}");
    let touched = all.iter().filter(|one| one.path().starts_with("t0-")).count();
    assert_eq!(touched, 0, "a log that rests is not touched: {all:?}");
    let (busy, _) = operations_of_a_close(10, 5);
    assert!(busy > few && busy <= 5 * few, "{busy} for five busy logs, {few} for one");
}

#[test]
fn dl_04_dl_14_a_roll_waits_for_no_file_no_allocation_and_no_directory() {
    // A turn takes up to 50 us: making a file takes tens of milliseconds.
    const DELAY: u32 = 2_000;
    for write_zeroes in [false, true] {
        let mut machine = opened(14, config(), 1);
        machine.world.set_write_zeroes(write_zeroes);
        machine.run(&[Step::Reopen, append(0), Step::Idle]).expect("a head and its successor");
        for verb in MAKING {
            machine.world.inject(Fault { when: When::Verb(verb), what: What::Delay(DELAY), times: Times::Forever });
        }
        listen(&machine);
        let big = Step::Append { log: 0, batches: 1, records: 1, bytes: 5_500 };
        let (mut took_ns, segments) = (Vec::new(), machine.world.files().len());
        for _ in 0..60 {
            let asked_ns = machine.world.now().boot_ns;
            machine.apply(big).expect("room");
            answered(&mut machine);
            took_ns.push(machine.world.now().boot_ns - asked_ns);
            // As when a log is appended to once a second.
            machine.apply(Step::Idle).expect("it rests");
        }
        let rolls = machine.world.files().len() - segments;
        let made = started(&machine).iter().filter(|one| one.is(Verb::CreateDirectory)).count();
        let longest = *took_ns.iter().max().expect("some");
        assert!(rolls >= 4 && made >= 4, "{rolls} rolls, {made} directories");
        assert!(longest < 5_000_000, "an append took {longest} ns: {took_ns:?}");
    }
}
