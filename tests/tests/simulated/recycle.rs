//! Recycling: the file of a segment that was given up becomes the file of a later one. Nothing of its former life is ever read, nobody
//! who still reads it is disturbed, and a crash at any step loses a spare file at most.

use std::cell::Cell;
use std::rc::Rc;
use strandline::Offset;
use strandline::config::Config;
use strandline::format::segment::{SegmentHeader, SegmentState};
use strandline_disk::sim::{Fault, Loss, SimWorld, Times, What, When};
use strandline_disk::{Errno, Verb};
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::{for_each_seed, outcome};
use strandline_tests::harness::step::{Ask, At};
use strandline_tests::harness::{Checked, Machine, Step};

/// About four segments, so slowly that each successor is written whole before it is needed.
fn fill(machine: &mut Machine) -> Checked {
    let append = Step::Append { log: 0, batches: 2, records: 2, bytes: 5_500 };
    (0..20).try_for_each(|_| machine.run(&[append, Step::Idle]))
}

/// A machine with spare files.
fn recycled(seed: u64, config: Config) -> Machine {
    let mut machine = machine(seed, config);
    fill(&mut machine).and_then(|()| machine.run(&[TRIM, Step::Answer, Step::Idle])).expect("a trim");
    machine
}

const TRIM: Step = Step::Verb { log: 0, ask: Ask::Trim(At::Back(4)) };
const MADE: [Step; 2] = [Step::OpenLog(0), Step::Idle];

fn machine(seed: u64, config: Config) -> Machine {
    let mut machine = Machine::new(seed, config);
    machine.open().expect("an open");
    machine.run(&MADE).expect("a log");
    machine
}

/// The spare files: their paths and headers.
fn spares(world: &SimWorld) -> Vec<(String, SegmentHeader)> {
    let paths = world.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with("spare/"));
    let header = |path: &String| {
        let bytes = world.read_file(path).expect("it is listed");
        SegmentHeader::decode(&bytes[..4096]).expect("a spare file has a good header")
    };
    paths.map(|path| (path.clone(), header(&path))).collect()
}

fn data_files(world: &SimWorld) -> usize {
    world.files().iter().filter(|(path, _)| path.ends_with("/data.0")).count()
}

#[test]
fn a_segment_that_was_given_up_becomes_a_later_one() {
    let mut machine = recycled(1, small());
    let before = spares(&machine.world);
    assert!(before.len() >= 3, "{before:?}");
    assert!(before.iter().all(|(_, header)| header.state == SegmentState::Spare && header.size == 64 << 10));
    let files = data_files(&machine.world);
    machine.world.keep_trace(true);
    fill(&mut machine).expect("appends");
    let trace = machine.world.trace();
    let made = |line: &&String| ["Allocate", "CreateDirectory", "Unlink"].iter().any(|what| line.contains(what));
    assert_eq!(trace.iter().filter(made).count(), 0, "nothing is allocated and nothing unlinked");
    assert_eq!(data_files(&machine.world), files, "directories only change their names");
    assert!(spares(&machine.world).len() < before.len());
    machine.run(&[Step::Reopen]).expect("all of it is read back");
    assert_eq!(machine.running().report.strays, [""; 0]);
}

#[test]
fn spare_files_are_kept_over_a_restart_and_used_then() {
    let mut machine = recycled(2, small());
    machine.run(&[Step::Reopen]).expect("a restart");
    let before = spares(&machine.world).len();
    assert!(before >= 3);
    machine.run(&[Step::OpenLog(0)]).and_then(|()| fill(&mut machine)).expect("appends");
    assert!(spares(&machine.world).len() < before);
}

#[test]
fn the_pool_takes_no_more_than_its_limit() {
    let mut config = small();
    config.spare_bytes_max = 2 * (64 << 10);
    let machine = recycled(3, config);
    assert_eq!(spares(&machine.world).len(), 2);
    let mut config = small();
    config.spare_bytes_max = 0;
    let machine = recycled(3, config);
    assert_eq!(spares(&machine.world).len(), 0, "a limit of 0 is off");
}

#[test]
fn what_of_a_file_was_never_written_is_filled_before_it_is_used_again() {
    let mut config = small();
    config.preallocate = strandline::Preallocate::Allocated;
    let machine = recycled(4, config);
    let found = spares(&machine.world);
    assert!(found.len() >= 3, "{found:?}");
    // What a barrier of another file relies on.
    assert!(found.iter().all(|(path, _)| machine.world.is_anchored(path, 0, 64 << 10)));
}

#[test]
fn what_is_in_the_pool_and_is_no_spare_file_is_left_alone_and_reported() {
    let mut machine = recycled(5, small());
    machine.close().expect("a clean close");
    let found = spares(&machine.world);
    machine.world.rot(&found[0].0, 20, 0xff);
    machine.world.put_file("spare/notes", b"by an operator");
    assert!(machine.start(None).expect("an open"));
    let directory = found[0].0.trim_end_matches("/data.0").to_owned();
    let mut wanted = [directory, "spare/notes".to_owned()];
    wanted.sort();
    let mut strays = machine.running().report.strays.clone();
    strays.sort();
    assert_eq!(strays, wanted);
    assert!(machine.world.read_file(&found[0].0).is_some());
}

#[test]
fn a_crash_at_any_turn_of_recycling_and_of_the_next_life_keeps_what_was_acknowledged() {
    let count = Rc::new(Cell::new(0));
    let mut machine = machine(6, small());
    let run = outcome(|| {
        fill(&mut machine)?;
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
        machine.run(&[TRIM, Step::Answer, Step::Idle])?;
        let append = Step::Append { log: 0, batches: 3, records: 2, bytes: 5_500 };
        (0..8).try_for_each(|_| machine.run(&[append, Step::Answer]))
    });
    if let Err(text) = run {
        panic!("{text}");
    }
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 100);
}

#[test]
fn a_reader_of_a_file_that_is_given_up_reads_what_was_in_it_or_is_told_where_the_log_starts() {
    for_each_seed(20, |seed| {
        let mut machine = Machine::new(seed, small());
        machine.open()?;
        machine.run(&MADE)?;
        fill(&mut machine)?;
        for round in 0..6 {
            let reads = [
                Step::Read { log: 0, per_mille: 100, bytes: 30_000 },
                Step::Read { log: 0, per_mille: 0, bytes: 60_000 },
            ];
            machine.run(&reads)?;
            machine.run(&[Step::Turn(round % 3), TRIM])?;
            fill(&mut machine)?;
        }
        machine.apply(Step::Idle)
    });
}

#[test]
fn every_file_is_live_spare_or_on_its_way_out() {
    let mut machine = recycled(8, small());
    assert!(!spares(&machine.world).is_empty());
    fill(&mut machine).expect("appends");
    let disk = Disk::look(&machine.world, &machine.config).expect("a manifest");
    let listed = disk.segments().len();
    assert_eq!(data_files(&machine.world), listed + spares(&machine.world).len(), "no file is lost");
    assert!(disk.state().released.is_empty());
    assert!(machine.read(0, Offset(0), 100).expect("an answer").is_err());
}

/// A machine whose pool is filled ahead: nothing is given up in it.
fn growing(seed: u64) -> Machine {
    let mut config = small();
    config.spare_files_min = 2;
    machine(seed, config)
}

#[test]
fn df_11_files_are_made_ahead_where_segments_ask_for_more_than_come_back() {
    for zeroes in [false, true] {
        let mut machine = growing(10);
        machine.world.set_write_zeroes(zeroes);
        machine.run(&[Step::Reopen]).expect("the disk says so when it is opened");
        fill(&mut machine).expect("appends");
        let made = spares(&machine.world);
        assert_eq!(made.len(), 2, "{made:?}");
        assert!(
            made.iter().all(|(path, header)| header.size == 64 << 10 && machine.world.is_anchored(path, 0, 64 << 10))
        );
        machine.world.keep_trace(true);
        fill(&mut machine).expect("appends");
        let trace = machine.world.trace();
        let taken = trace.iter().filter(|line| line.contains("start") && line.contains("Rename spare/")).count();
        assert!(taken >= 3, "{taken} were taken");
        assert_eq!(spares(&machine.world).len(), 2, "and others made for them");
        machine.run(&[Step::Reopen]).expect("all of it is read back");
        assert_eq!(machine.running().report.strays, [""; 0]);
    }
}

/// What the drive does by itself holds commits up as well: it is asked for a burst at a time.
#[test]
fn a_file_that_is_made_ahead_of_zeros_that_the_drive_writes_is_made_in_bursts() {
    const SIZE: u64 = 32 << 20;
    let mut machine = Machine::new(13, Config { segment_bytes: SIZE, spare_files_min: 1, ..small() });
    machine.world.set_write_zeroes(true);
    machine.world.keep_trace(true);
    machine.open().expect("an open");
    machine.run(&MADE).expect("a log");
    for _ in 0..50 {
        machine.run(&[Step::Append { log: 0, batches: 1, records: 1, bytes: 10 }, Step::Idle]).expect("room");
    }
    let trace = machine.world.trace();
    let begun = trace.iter().filter(|line| line.contains("start") && line.contains("WriteZeroes spare/"));
    let bursts: Vec<_> = begun.map(|line| line.split([' ']).find(|word| word.contains("..")).unwrap_or(line)).collect();
    assert_eq!(bursts, [format!("0..{}", SIZE / 2), format!("{}..{SIZE}", SIZE / 2)], "{trace:?}");
    let made = spares(&machine.world);
    assert!(matches!(&made[..], [(path, _)] if machine.world.is_anchored(path, 0, SIZE as usize)), "{made:?}");
}

#[test]
fn a_pool_that_may_hold_nothing_is_not_filled() {
    let mut config = small();
    (config.spare_files_min, config.spare_bytes_max) = (2, 0);
    let mut machine = machine(11, config);
    fill(&mut machine).expect("appends");
    assert!(spares(&machine.world).is_empty());
}

#[test]
fn a_crash_at_any_turn_of_filling_ahead_leaves_nothing_behind_that_nobody_knows() {
    let count = Rc::new(Cell::new(0));
    let mut machine = growing(12);
    let run = outcome(|| {
        let append = Step::Append { log: 0, batches: 10, records: 2, bytes: 5_500 };
        machine.run(&[append, Step::Answer, append, Step::Answer])?;
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
        machine.run(&[Step::Idle])
    });
    if let Err(text) = run {
        panic!("{text}");
    }
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 50);
    assert!(!spares(&machine.world).is_empty());
}

/// It is removed as anything else is, and a crash on the way leaves what the next open knows.
#[test]
fn what_cannot_be_made_ahead_does_not_stay_in_the_pool() {
    for (verb, zeroes) in [(Verb::Write, false), (Verb::WriteZeroes, true)] {
        let count = Rc::new(Cell::new(0));
        let mut machine = growing(14);
        machine.world.set_write_zeroes(zeroes);
        machine.run(&[Step::Reopen]).expect("the disk says so when it is opened");
        let when = When::VerbOnPath(verb, "spare/".to_owned());
        machine.world.inject(Fault { when, what: What::Errno(Errno::IO), times: Times::Once });
        machine.world.keep_trace(true);
        let run = outcome(|| {
            let append = Step::Append { log: 0, batches: 10, records: 2, bytes: 5_500 };
            machine.run(&[append, Step::Answer, append, Step::Answer])?;
            machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
            machine.run(&[Step::Idle])
        });
        assert!(run.is_ok(), "{run:?}");
        assert_eq!(machine.world.faults_fired(), 1);
        let trace = machine.world.trace();
        let unlinked = trace.iter().any(|line| line.contains("Unlink spare/"));
        assert!(unlinked, "{trace:#?}");
        spares(&machine.world);
        eprintln!("{} crash images", count.get());
    }
}

#[test]
fn what_a_crash_left_half_filled_in_the_pool_is_removed_at_the_next_open() {
    let mut machine = growing(13);
    machine.close().expect("a clean close");
    machine.world.put_file("spare/000000000000000000000000000000ab/data.0", &[0; 8_192]);
    assert!(machine.start(None).expect("an open"));
    assert_eq!(machine.running().report.strays, [""; 0]);
    assert!(spares(&machine.world).is_empty());
}

/// Found by seed 3667 of the histories of 1,000 operations: the kill left a spare file whose name was not durable in its directory. It became a
/// segment, and a power cut took it away with what had been acknowledged.
#[test]
fn a_file_that_a_kill_left_in_the_pool_stays_when_it_is_used_and_the_power_fails() {
    let used = Rc::new(Cell::new(0));
    let mut machine = growing(15);
    let (config, count) = (machine.config.clone(), used.clone());
    let run = outcome(|| {
        let append = Step::Append { log: 0, batches: 10, records: 2, bytes: 5_500 };
        machine.run(&[append, Step::Answer, append, Step::Answer])?;
        machine.observer = Some(Box::new(move |world, model| {
            let image = world.snapshot();
            image.kill();
            let mut killed = Machine::on(image, config.clone(), model.clone());
            killed.open()?;
            count.set(count.get() + spares(&killed.world).len());
            use_spares(&mut killed)
        }));
        machine.run(&[Step::Idle])
    });
    if let Err(text) = run {
        panic!("{text}");
    }
    assert!(used.get() > 20, "only {} spare files", used.get());
}

/// Fills segments, and cuts the power so that nothing stays which was not made durable.
fn use_spares(machine: &mut Machine) -> Checked {
    machine.run(&[Step::OpenLog(0), Step::Idle])?;
    fill(machine)?;
    machine.apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None })
}

/// A step of using a file again fails once, when its directory has its new name. The next attempt builds in that directory. There is one spare
/// file: whoever uses another syncs the pool.
#[test]
fn a_directory_that_a_failed_attempt_took_from_the_pool_does_not_go_back_there() {
    let mut fired = 0;
    for verb in [Verb::OpenDirectory, Verb::Open, Verb::Read, Verb::DurableWrite] {
        for segment in 3..9 {
            let mut machine = recycled(18, Config { spare_bytes_max: 64 << 10, ..small() });
            machine.tolerant = true;
            let when = When::VerbOnPath(verb, format!("t0-r0-s{segment}"));
            machine.world.inject(Fault { when, what: What::Errno(Errno::NOSPC), times: Times::Once });
            fill(&mut machine).expect("appends");
            fired += machine.world.faults_fired();
            machine.world.clear_faults();
            machine.tolerant = false;
            let cut = Step::PowerFailure { loss: Loss::DropAll, again_after: None };
            machine.apply(cut).unwrap_or_else(|violation| panic!("{verb:?}, segment {segment}: {violation}"));
        }
    }
    assert!(fired > 4, "{fired} faults");
}

#[test]
fn filling_ahead_that_fails_leaves_nothing_behind_and_segments_make_their_own() {
    for verb in [Verb::CreateDirectory, Verb::Open, Verb::Allocate, Verb::Write] {
        let mut machine = growing(14);
        machine.tolerant = true;
        let when = When::VerbOnPath(verb, "spare/".to_owned());
        machine.world.inject(Fault { when, what: What::Errno(Errno::NOSPC), times: Times::Forever });
        fill(&mut machine).expect("appends");
        assert!(machine.world.faults_fired() > 0, "{verb:?}");
        let left = machine.world.files().into_iter().filter(|(path, _)| path.starts_with("spare/")).count();
        assert_eq!(left, 0, "{verb:?}");
    }
}

#[test]
fn a_rewritten_file_that_a_crash_met_on_its_way_into_the_pool_is_not_left_behind() {
    // Only one that was cut near its end is used again: of others too much was never written.
    let met = (20..60).filter(|back| crash_under_first_name(*back)).count();
    assert!(met > 0, "none was met");
}

/// Whether the file of a segment that was cut so far back was met with its first name again, its directory not moved yet.
fn crash_under_first_name(back: u64) -> bool {
    let mut machine = machine(21, small());
    fill(&mut machine).expect("appends");
    let cut = Step::Verb { log: 0, ask: Ask::Truncate(At::Back(back)) };
    machine.run(&[cut, Step::Answer, Step::Idle]).expect("a truncation");
    let rewritten = |world: &SimWorld| world.files().iter().any(|(path, _)| path.ends_with("/data.1"));
    if !rewritten(&machine.world) {
        return false;
    }
    fill(&mut machine).expect("appends");
    machine.run(&[TRIM, Step::Answer]).expect("a trim");
    for _ in 0..10_000 {
        if !rewritten(&machine.world) {
            break;
        }
        machine.turn().expect("a turn");
    }
    let is_spare = |path: &String| {
        let bytes = machine.world.read_file(path).expect("it is listed");
        SegmentHeader::decode(&bytes[..4096]).is_ok_and(|header| header.state == SegmentState::Spare)
    };
    let in_place = machine.world.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with("t0-"));
    let met = in_place.filter(is_spare).count() == 1;
    machine.crash(|world| world.kill()).expect("a crash");
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Idle, Step::Reopen]).expect("another");
    assert_eq!(machine.running().report.strays, [""; 0], "{back} back");
    // Its first name in the directory was not durable when the process died.
    use_spares(&mut machine).unwrap_or_else(|violation| panic!("{back} back: {violation}"));
    met
}
