//! Cases of crashes by their ids, as far as no other test has them: what is answered before what is durable, what failed rolls and seals
//! cost, what opening looks at, and what a crash brings back.

use crate::cases::{Operation, append, listen, opened, seal, started};
use std::cell::Cell;
use std::rc::Rc;
use strandline::config::{CheckedConfig, Config, Sabotage};
use strandline::format::segment::SegmentFooter;
use strandline::{Level, Offset};
use strandline_disk::sim::{Fault, Loss, SimWorld, Times, What, When};
use strandline_disk::{BLOCK, Errno, Verb};
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::images::check_power_failure;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::model::Model;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Ask, At, Checked, Machine, Step};

const KILL: Step = Step::Kill { again_after: None };

/// So large that nine fill a segment.
const fn big(log: usize) -> Step {
    Step::Append { log, batches: 1, records: 1, bytes: 5_500 }
}

fn state_on(world: &SimWorld, config: &CheckedConfig) -> Disk {
    Disk::look(world, config).expect("a manifest")
}

/// Appends once at a level and cuts the power as soon as it is answered: the level that the receipt names, and whether it is there.
fn append_and_cut(seed: u64, level: Level) -> (Level, bool) {
    let mut machine = opened(seed, small(), 1);
    machine.run(&[append(0), Step::Idle]).expect("an append before it");
    machine.run(&[Step::AppendAt { log: 0, batches: 1, records: 1, bytes: 300, level }]).expect("room");
    machine.apply(Step::Answer).expect("an answer");
    let reached = machine.running().receipts[&0].level;
    machine.crash(|world| world.power_failure(Loss::DropAll)).expect("a crash");
    machine.model.power_failed();
    machine.open().unwrap_or_else(|violation| panic!("seed {seed}, {level:?}: {violation}"));
    (reached, machine.model.logs[0].end() == Offset(2))
}

#[test]
fn cr_01_what_is_answered_as_durable_outlives_a_power_cut_and_what_is_less_says_so_in_its_receipt() {
    let mut lost = 0;
    for seed in 0..20 {
        let (reached, is_there) = append_and_cut(seed, Level::Durable);
        assert!(reached == Level::Durable && is_there, "seed {seed}: {reached:?}");
        for level in [Level::Accepted, Level::Written] {
            let (reached, is_there) = append_and_cut(seed, level);
            assert!(
                reached >= level && (is_there || reached < Level::Durable),
                "seed {seed}: {reached:?} for {level:?}"
            );
            lost += usize::from(!is_there);
        }
    }
    assert!(lost > 20, "only {lost} of 40 appends that were not durable were lost");
}

/// What fails while a log rolls: a verb, on what.
const ROLLS: [(Verb, &str); 9] = [
    (Verb::CreateDirectory, "t0-r0-s1"),
    (Verb::OpenDirectory, "t0-r0-s1"),
    (Verb::Open, "t0-r0-s1"),
    (Verb::Allocate, "t0-r0-s1"),
    (Verb::Write, "t0-r0-s1"),
    (Verb::Sync, "t0-r0-s1"),
    (Verb::SyncDirectory, "t0-r0-s1"),
    (Verb::WriteZeroes, "t0-r0-s1"),
    (Verb::Write, "t0-r0-s0"),
];

/// Fills a log while something that a roll or a seal needs fails. Gives how often that struck.
fn roll_under(seed: u64, (verb, path): (Verb, &str), errno: Errno, times: Times) -> Checked<u64> {
    let mut machine = opened(seed, Config { spare_bytes_max: 0, ..small() }, 2);
    machine.world.set_write_zeroes(verb == Verb::WriteZeroes);
    machine.apply(Step::Reopen)?;
    if path.ends_with("s0") {
        // All but full: nothing is written to it any more but its index and its footer.
        (0..9).try_for_each(|_| machine.run(&[big(0), Step::Answer]))?;
        machine.apply(Step::Idle)?;
    }
    machine.world.inject(Fault { when: When::VerbOnPath(verb, path.to_owned()), what: What::Errno(errno), times });
    machine.tolerant = true;
    for _ in 0..30 {
        machine.run(&[big(0), append(1), Step::Answer])?;
        let read = machine.read(0, Offset(0), 100)?;
        assert!(read.is_ok_and(|read| !read.batches.is_empty()), "{verb:?} {errno:?}: what is there can be read");
    }
    let struck = machine.world.faults_fired();
    machine.world.clear_faults();
    // A failed flush may have taken bytes of any file along: who had something in flight waits for the next open (CR-21).
    if [Verb::Sync, Verb::SyncDirectory].contains(&verb) {
        machine.apply(KILL)?;
    } else {
        assert_eq!(machine.model.logs[1].held.len(), 30, "{verb:?} {errno:?}: the other log does not notice");
        // What could not be made is tried again after a while, without an open.
        machine.apply(Step::Turn(6_000))?;
    }
    let end = machine.model.logs[0].end();
    machine.run(&[big(0), big(0), Step::Answer])?;
    assert_eq!(machine.model.logs[0].end(), end.plus(2), "{verb:?} {errno:?} {times:?}: the log goes on by itself");
    machine.tolerant = false;
    machine.run(&[Step::Idle, KILL, big(0), Step::Answer, Step::Reopen])?;
    Ok(struck)
}

#[test]
fn cr_08_a_roll_or_a_seal_that_fails_leaves_the_log_readable_and_it_goes_on_by_itself() {
    for (number, roll) in ROLLS.into_iter().enumerate() {
        for errno in [Errno::IO, Errno::NOSPC] {
            for times in [Times::Once, Times::Forever] {
                let run = outcome(|| {
                    let struck = roll_under(number as u64, roll, errno, times)?;
                    assert!(struck > 0, "it never failed");
                    Ok(())
                });
                run.unwrap_or_else(|text| panic!("{roll:?} {errno:?} {times:?}: {text}"));
            }
        }
    }
}

/// Cuts the power of a copy after each of so many appends to two logs: what was acknowledged is there.
fn cut_after_each_append(machine: &mut Machine, rounds: usize) {
    for round in 0..rounds {
        let log = round % 2;
        machine.run(&[Step::OpenLog(log), Step::Answer, big(log), Step::Answer]).expect("an append");
        let (world, model) = (&machine.world, &machine.model);
        for segment in state_on(world, &machine.config).segments() {
            let is_there = segment.record.opening().is_none() || world.durable_file(&segment.path).is_some();
            assert!(is_there, "round {round}: {} would be gone", segment.path);
        }
        let cut = check_power_failure(world, model, &machine.config, round as u64, Loss::DropAll);
        cut.unwrap_or_else(|violation| panic!("round {round}: {violation}"));
    }
}

#[test]
fn cr_17_the_names_of_a_new_segment_are_durable_before_anything_in_it_is_acknowledged() {
    for write_zeroes in [false, true] {
        let mut machine = opened(17, Config { spare_bytes_max: 0, ..small() }, 0);
        machine.world.set_write_zeroes(write_zeroes);
        machine.apply(Step::Reopen).expect("an open");
        cut_after_each_append(&mut machine, 40);
    }
    // Segments that come out of the pool: nothing else syncs the root meanwhile.
    let mut machine = opened(18, small(), 2);
    (0..80).try_for_each(|round| machine.run(&[big(round % 2), Step::Answer])).expect("appends");
    machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(1)) }, Step::Answer, Step::Idle]).expect("a trim");
    listen(&machine);
    cut_after_each_append(&mut machine, 60);
    let used_again =
        started(&machine).iter().filter(|one| one.is(Verb::Rename) && one.path().starts_with("spare/")).count();
    assert!(used_again >= 3, "{used_again}");
}

/// Closes a store while a flush of log 0 fails, and tells which logs are left as clean.
fn clean_after_a_failed_close(machine: &mut Machine) -> Vec<bool> {
    machine.tolerant = true;
    let (when, what) = (When::PathContains("t0-r0-s0".to_owned()), What::FailedSyncDropsDirty);
    machine.world.inject(Fault { when, what, times: Times::Forever });
    machine.close().expect("it ends");
    assert!(machine.world.faults_fired() > 0, "no flush of it failed");
    machine.world.clear_faults();
    let disk = state_on(&machine.world, &machine.config);
    disk.state().logs.values().map(|log| log.clean.is_some()).collect()
}

#[test]
fn cr_18_a_log_whose_flush_fails_when_the_store_closes_is_not_left_as_clean() {
    // One that still has to be flushed, and one whose mark is all that is missing.
    for level in [Level::Written, Level::Durable] {
        let mut machine = opened(18, small(), 2);
        machine.run(&[append(0), append(1), Step::Idle]).expect("appends");
        machine.run(&[Step::AppendAt { log: 0, batches: 1, records: 1, bytes: 300, level }]).expect("room");
        machine.apply(Step::Answer).expect("an append");
        let clean = clean_after_a_failed_close(&mut machine);
        assert_eq!(clean, [false, true], "{level:?}");
        machine.open().expect("an open");
        let report = &machine.running().report;
        assert_eq!((report.logs_clean, report.logs_recovered), (1, 1), "{level:?}: {report:?}");
    }
}

/// A store of two logs that were left as clean, and is opened again.
fn at_rest(seed: u64, sabotage: Option<Sabotage>) -> Machine {
    let mut machine = opened(seed, Config { sabotage, ..small() }, 2);
    machine.run(&[append(0), append(1), Step::Idle]).and_then(|()| machine.close()).expect("a clean close");
    machine
}

/// Calls `seen` with every world in which a write of log 0 is on its way, and with what a power cut would leave of it.
fn each_write(machine: &mut Machine, mut seen: impl FnMut(&SimWorld) + 'static) {
    machine.observer = Some(Box::new(move |world: &SimWorld, _: &Model| {
        let is_write = |one: &Operation| one.is(Verb::Write) && one.path() == "t0-r0-s0/data.0";
        if world.pending().iter().any(|line| is_write(&Operation::of(line))) {
            seen(&world.crash_image(0, Loss::DropAll));
        }
        Ok(())
    }));
}

#[test]
fn cr_18_a_clean_log_is_durably_dirty_before_it_is_written_and_loading_it_leaves_it_clean() {
    let world = at_rest(19, None);
    for turns in 0..60 {
        let mut machine = Machine::on(world.world.snapshot(), world.config.clone(), world.model.clone());
        machine.world.reseed(turns);
        // It dies while it loads: nothing was written to any log, so both are as clean as they were.
        machine.start(Some(turns as usize)).expect("an open");
        machine.crash(|world| world.power_failure(Loss::Random)).expect("a crash");
        machine.open().unwrap_or_else(|violation| panic!("{turns} turns: {violation}"));
        let report = machine.running().report.clone();
        assert_eq!((report.logs_clean, report.scanned_bytes), (2, 0), "{turns} turns: {report:?}");
        let (config, id, writes) = (machine.config.clone(), machine.model.logs[0].id.clone(), Rc::new(Cell::new(0)));
        let counted = writes.clone();
        each_write(&mut machine, move |cut| {
            let clean = state_on(cut, &config).state().logs[&id].clean;
            assert_eq!(clean, None, "a power cut here would leave it as clean");
            counted.set(counted.get() + 1);
        });
        // So slowly that a write which did not wait for the manifest would be there first.
        let (when, what) = (When::VerbOnPath(Verb::Write, "manifest/".to_owned()), What::Delay(100));
        machine.world.inject(Fault { when, what, times: Times::Forever });
        machine.run(&[append(0), Step::Answer, append(0), Step::Answer]).expect("appends");
        machine.observer = None;
        assert!(writes.get() > 0, "no write was seen");
        machine.apply(KILL).expect("an open");
        let report = &machine.running().report;
        assert_eq!((report.logs_clean, report.logs_recovered), (1, 1), "{turns} turns: {report:?}");
    }
}

/// What opening a store costs that was killed at work: the operations of a kind that it starts on its segments, and bytes scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Opening {
    opens: usize,
    reads: usize,
    scanned: u64,
    recovered: usize,
}

const LOGS: usize = 20;

/// A killed store of 20 logs with so many sealed segments each, and a head.
fn killed(segments: usize) -> Machine {
    let mut machine = opened(20, Config { manifest_bytes: 1 << 20, spare_bytes_max: 0, ..small() }, LOGS);
    for log in 0..LOGS {
        for _ in 0..segments {
            machine.run(&[append(log), Step::Answer]).expect("a segment");
            seal(&mut machine, log);
        }
    }
    machine.apply(Step::Idle).expect("all are sealed");
    let heads: Vec<Step> = (0..LOGS).map(append).chain([Step::Answer]).collect();
    machine.run(&heads).and_then(|()| machine.kill()).expect("a kill");
    machine.world.land_strays();
    machine
}

fn opening(machine: &mut Machine) -> Opening {
    listen(machine);
    assert!(machine.start(None).expect("it opens"));
    let of_segments = started(machine).into_iter().filter(|one| one.path().starts_with('t'));
    let count = |verb| of_segments.clone().filter(|one| one.is(verb)).count();
    let (opens, reads) = (count(Verb::Open), count(Verb::Read));
    let report = &machine.running().report;
    assert!(report.damaged.is_empty() && !report.took.is_zero(), "{report:?}");
    Opening { opens, reads, scanned: report.scanned_bytes, recovered: report.logs_recovered }
}

#[test]
fn cr_19_opening_after_a_kill_looks_at_the_last_segment_of_each_log_whatever_is_before_it() {
    let few = opening(&mut killed(1));
    let many = opening(&mut killed(10));
    assert_eq!(few, many, "with one sealed segment in each log, and with ten");
    assert_eq!(many.recovered, LOGS);
    assert!(many.scanned <= (LOGS * small().segment_bytes as usize) as u64 && many.opens <= 2 * LOGS, "{many:?}");
    // An index that does not verify is found when it is needed, and costs its own segment only.
    let mut machine = killed(10);
    for log in 0..LOGS {
        let path = format!("t{log}-r0-s0/data.0");
        let bytes = machine.world.read_file(&path).expect("the first segment");
        let footer = SegmentFooter::decode(&bytes[bytes.len() - BLOCK..]).expect("it is sealed");
        machine.world.rot(&path, footer.index_at.0 + 3, 0xff);
    }
    assert_eq!(opening(&mut machine), many, "with a bad index in each log");
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("the log");
    listen(&machine);
    assert!(machine.read(0, Offset(0), 1).expect("an answer").is_ok_and(|read| !read.batches.is_empty()));
    let mut touched = started(&machine);
    touched.retain(|one| one.is_any(&[Verb::Open, Verb::Read]));
    assert!(touched.iter().all(|one| one.path() == "t0-r0-s0/data.0"), "{touched:?}");
}

/// Recovers what a crash has left while the oldest segments of log 0 were given up, and lets what is left of them go. Gives how many of
/// their files were back.
fn recover_and_look(image: SimWorld, model: &Model, config: &CheckedConfig, gone: &[String]) -> Checked<usize> {
    let back = gone.iter().filter(|path| image.read_file(path).is_some()).count();
    let mut machine = Machine::on(image, config.clone(), model.clone());
    machine.model.power_failed();
    // This checks that what lies before the start is out of range.
    machine.open()?;
    let start = machine.model.logs[0].start;
    machine.apply(Step::Idle)?;
    if start > Offset(0) {
        let disk = Disk::look(&machine.world, config)?;
        let left: Vec<&str> = disk.paths().filter(|path| gone.iter().any(|gone| gone == path)).collect();
        assert!(left.is_empty() && disk.state().released.is_empty(), "{left:?} stay for ever");
        machine.apply(Step::Reopen)?;
    }
    assert_eq!(machine.running().report.strays, [""; 0], "nobody knows them");
    Ok(back)
}

#[test]
fn cr_27_a_segment_that_was_given_up_is_not_served_again_and_goes_although_a_crash_brings_it_back() {
    let mut machine = opened(27, Config { spare_bytes_max: 0, ..small() }, 1);
    for _ in 0..3 {
        machine.run(&[append(0), Step::Answer]).expect("a segment");
        seal(&mut machine, 0);
    }
    machine.run(&[append(0), Step::Idle]).expect("a head");
    let gone: Vec<String> = (0..3).map(|segment| format!("t0-r0-s{segment}/data.0")).collect();
    let (config, came_back) = (machine.config.clone(), Rc::new(Cell::new(0)));
    let (counted, mut turn) = (came_back.clone(), 0);
    machine.observer = Some(Box::new(move |world, model| {
        turn += 1;
        let unlinked = gone.iter().filter(|path| world.read_file(path).is_none()).count();
        for loss in [Loss::DropAll, Loss::KeepAll, Loss::Random] {
            let back = recover_and_look(world.crash_image(turn, loss), model, &config, &gone)?;
            counted.set(counted.get() + (back + unlinked).saturating_sub(gone.len()));
        }
        Ok(())
    }));
    let run = outcome(|| machine.run(&[Step::Verb { log: 0, ask: Ask::Trim(At::Back(1)) }, Step::Answer, Step::Idle]));
    run.unwrap_or_else(|text| panic!("{text}"));
    assert!(came_back.get() > 0, "no crash brought back what had been unlinked");
}
