//! Release: what was given up is removed, only that, and whatever a crash interrupts is finished at the next open.

use strandline::Offset;
use strandline::format::manifest::{Edit, ReleaseReason};
use strandline::id::Uid;
use strandline_disk::BLOCK;
use strandline_disk::sim::Loss;
use strandline_tests::harness::checker;
use strandline_tests::harness::edits::edit;
use strandline_tests::harness::files::{Disk, SegmentFile};
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Checked, Machine, Step};

/// The path of the segment that is given up.
const FIRST: &str = "t0-r0-s0/data.0";

/// A closed store with some sealed segments.
fn closed(seed: u64) -> Machine {
    let mut machine = Machine::new(seed, small());
    machine.open().expect("an open");
    let append = Step::Append { log: 0, batches: 30, records: 2, bytes: 5_500 };
    machine.run(&[Step::OpenLog(0), Step::Answer, append, Step::Idle]).expect("appends");
    machine.close().expect("a clean close");
    machine
}

fn look(machine: &Machine) -> Disk {
    Disk::look(&machine.world, &machine.config).expect("a manifest")
}

fn first(machine: &Machine) -> SegmentFile {
    look(machine).segments().iter().find(|segment| segment.path == FIRST).expect("the first segment").clone()
}

/// Gives the first segment up, as retention does: the start of the log first.
fn release(machine: &Machine, hold_until_ms: u64) {
    let SegmentFile { id, record, .. } = first(machine);
    edit(&machine.world, &machine.config, None, |state| {
        let log = &state.logs[&id.log];
        let next = log.segments.values().nth(1).and_then(|next| next.opening()).expect("a second segment");
        let (uid, generation, reason) = (record.uid, record.generation, ReleaseReason::Expired);
        let start = Edit::StartOffset { log: id.log.clone(), start: next.base, epoch: log.epoch };
        vec![vec![start, Edit::Released { segment: id.clone(), uid, generation, reason, hold_until_ms }]]
    })
    .expect("edits");
}

/// Opens the store and lets it do what it does in the background. Gives the released files that the manifest still knows.
fn open_and_idle(machine: &mut Machine) -> Checked<Vec<Uid>> {
    assert!(machine.start(None)?);
    machine.idle()?;
    let disk = Disk::look(&machine.world, &machine.config)?;
    let strays = machine.running().report.strays.clone();
    checker::files_are_explained(&disk, &strays)?;
    Ok(disk.state().released.keys().copied().collect())
}

#[test]
fn a_released_segment_is_removed_after_the_open_and_forgotten_then() {
    let mut machine = closed(1);
    // What recovery once set aside goes with it.
    machine.world.put_file("t0-r0-s0/torn.1", b"set aside");
    let paths = |machine: &Machine| machine.world.files().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    let before = paths(&machine);
    release(&machine, 0);
    assert_eq!(open_and_idle(&mut machine).expect("an open"), []);
    let gone = |path: &String| path.starts_with("t0-r0-s0/");
    assert_eq!(paths(&machine), before.into_iter().filter(|path| !gone(path)).collect::<Vec<_>>());
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("the log");
    let read = machine.read(0, Offset(0), 100).expect("an answer");
    assert!(matches!(read, Err(strandline::ReadError::OutOfRange { earliest, .. }) if earliest.0 > 0), "{read:?}");
    machine.close().expect("a clean close");
    assert_eq!(open_and_idle(&mut machine).expect("an open"), []);
    assert_eq!(machine.running().report.strays, [""; 0], "the directory is gone too");
}

#[test]
fn a_released_segment_that_is_held_stays_until_then() {
    let mut machine = closed(2);
    let uid = first(&machine).record.uid;
    release(&machine, machine.world.now().wall_ms + 3_600_000);
    assert_eq!(open_and_idle(&mut machine).expect("an open"), [uid]);
    assert!(machine.world.read_file(FIRST).is_some());
    machine.close().expect("a clean close");
    machine.world.jump_clock(3_600_001);
    assert_eq!(open_and_idle(&mut machine).expect("an open"), []);
    assert!(machine.world.read_file(FIRST).is_none());
}

#[test]
fn a_file_that_is_not_the_one_that_was_released_is_left_alone() {
    let mut machine = closed(3);
    release(&machine, 0);
    machine.world.copy_file("t0-r0-s1/data.0", FIRST);
    let other = machine.world.read_file(FIRST);
    assert!(machine.start(None).expect("an open"));
    machine.idle().expect("the background");
    assert!(look(&machine).state().released.is_empty(), "the one that was released is gone");
    assert!(machine.world.read_file(FIRST) == other, "another file's bytes stay");
    machine.close().expect("a clean close");
    open_and_idle(&mut machine).expect("an open");
    assert_eq!(machine.running().report.strays, ["t0-r0-s0"]);
}

#[test]
fn a_released_file_whose_header_rotted_is_known_by_its_batches_and_without_any_it_is_kept() {
    let mut machine = closed(4);
    let uid = first(&machine).record.uid;
    release(&machine, 0);
    machine.world.rot(FIRST, 20, 0xff);
    let world = machine.world.snapshot();
    assert_eq!(open_and_idle(&mut machine).expect("an open"), []);
    assert!(machine.world.read_file(FIRST).is_none());

    let mut machine = Machine::on(world, machine.config.clone(), machine.model.clone());
    let length = machine.world.read_file(FIRST).expect("its file").len() as u64;
    machine.world.zero(FIRST, BLOCK as u64..length);
    assert_eq!(open_and_idle(&mut machine).expect("an open"), [uid], "nothing says whose it is");
    assert!(machine.world.read_file(FIRST).is_some());
}

#[test]
fn a_directory_that_holds_what_is_not_ours_stays_with_it() {
    let mut machine = closed(5);
    machine.world.put_file("t0-r0-s0/notes", b"by an operator");
    release(&machine, 0);
    assert!(machine.start(None).expect("an open"));
    machine.idle().expect("the background");
    assert!(machine.world.read_file(FIRST).is_none());
    assert_eq!(machine.world.read_file("t0-r0-s0/notes").as_deref(), Some(&b"by an operator"[..]));
}

#[test]
fn cr_27_a_crash_anywhere_in_a_removal_leaves_nothing_behind_that_nobody_knows() {
    let released = |machine: &Machine| {
        release(machine, 0);
        machine.world.snapshot()
    };
    let machine = closed(6);
    let world = released(&machine);
    for loss in [Loss::DropAll, Loss::KeepAll, Loss::Random] {
        let mut turns = 0;
        loop {
            let image = world.snapshot();
            image.reseed(turns);
            let run = || {
                let mut machine = Machine::on(image.snapshot(), machine.config.clone(), machine.model.clone());
                assert!(machine.start(None)?);
                for _ in 0..turns {
                    machine.turn()?;
                }
                machine.crash(|world| world.power_failure(loss))?;
                let known = open_and_idle(&mut machine)?;
                assert_eq!(known, [], "{turns} turns");
                assert_eq!(machine.running().report.strays, [""; 0], "{turns} turns");
                assert!(machine.world.read_file(FIRST).is_none(), "{turns} turns");
                Ok(())
            };
            outcome(run).unwrap_or_else(|text| panic!("{turns} turns, {loss:?}: {text}"));
            turns += 1;
            if turns > 40 {
                break;
            }
        }
    }
}

/// The old file of a compacted segment goes, and the directory stays with the new one.
#[test]
fn a_superseded_file_goes_and_the_generation_after_it_stays() {
    let mut machine = closed(7);
    let SegmentFile { id, record, .. } = first(&machine);
    // The generations differ in their uids: this one's header block is made by hand, its batches are not looked at here.
    let mut bytes = machine.world.read_file(FIRST).expect("its file");
    let header = strandline::format::segment::SegmentHeader::decode(&bytes[..BLOCK]).expect("a header");
    let (uid, generation) = (Uid(4711), strandline::id::Generation(1));
    let header = strandline::format::segment::SegmentHeader { uid, generation, ..header };
    bytes[..BLOCK].copy_from_slice(&header.encode());
    machine.world.put_file("t0-r0-s0/data.1", &bytes);
    edit(&machine.world, &machine.config, None, |_| {
        let reason = ReleaseReason::Superseded;
        let replaced = Edit::Replaced {
            segment: id.clone(),
            uid,
            generation,
            size: record.size,
            look_ahead: record.look_ahead,
            written: true,
            base: Offset(0),
            end: Offset(20),
            opened_at_ms: 1,
            logical_bytes: 1,
            first_store_time_ms: 1,
            last_store_time_ms: 1,
            sealed_at_ms: 1,
        };
        let (segment, uid, generation) = (id.clone(), record.uid, record.generation);
        vec![vec![replaced, Edit::Released { segment, uid, generation, reason, hold_until_ms: 0 }]]
    })
    .expect("edits");
    assert_eq!(open_and_idle(&mut machine).expect("an open"), []);
    assert!(machine.world.read_file(FIRST).is_none());
    assert!(machine.world.read_file("t0-r0-s0/data.1") == Some(bytes));
}
