//! Crashes: at every turn of scripted histories, and anywhere in random ones.

use std::cell::Cell;
use std::rc::Rc;
use strandline::format::manifest::{Edit, RegionHeader};
use strandline::id::{Generation, SegmentId, Seq, Uid};
use strandline::manifest::state::Stage;
use strandline_disk::BLOCK;
use strandline_disk::sim::{Loss, SECTOR, SimWorld};
use strandline_tests::harness::edits;
use strandline_tests::harness::images::{check_power_failure, crash_at_every_turn};
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::{for_each_seed, outcome};
use strandline_tests::harness::workload::{self, Twist};
use strandline_tests::harness::{Checked, Machine, Step};

/// Opens a store and does `before` undisturbed, then `script` with a crash after every turn. Gives the world before and after it.
fn crash_everywhere(seed: u64, before: &[Step], script: &[Step]) -> [SimWorld; 2] {
    let mut machine = Machine::new(seed, small());
    let count = Rc::new(Cell::new(0));
    let mut from = machine.world.clone();
    let run = outcome(|| {
        machine.open()?;
        machine.run(before)?;
        from = machine.world.snapshot();
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 2, count.clone()));
        machine.run(script)
    });
    if let Err(text) = run {
        panic!("seed {seed}: {text}");
    }
    assert!(count.get() > 0, "the script took no turn");
    eprintln!("{} crash images", count.get());
    [from, machine.world]
}

/// The sequence of the manifest's region in force.
fn region_in_force(world: &SimWorld) -> u64 {
    let bytes = world.read_file("manifest/a").expect("the manifest");
    let headers = bytes.chunks(bytes.len() / 2).filter_map(|half| RegionHeader::decode(&half[..BLOCK]).ok());
    headers.map(|header| header.sequence).max().expect("a region in force")
}

const fn append(batches: usize, bytes: usize) -> Step {
    Step::Append { log: 0, batches, records: 2, bytes }
}

const MADE: [Step; 2] = [Step::OpenLog(0), Step::Idle];

#[test]
fn a_crash_while_the_store_is_made_leaves_a_store_or_none() {
    let mut machine = Machine::new(1, small());
    machine.observer = Some(crash_at_every_turn(machine.config.clone(), 2, Rc::default()));
    outcome(|| machine.open()).expect("every crash image opens");
}

#[test]
fn a_crash_at_any_turn_of_the_first_append_keeps_what_was_acknowledged() {
    crash_everywhere(
        2,
        &MADE,
        &[append(1, 300), Step::Answer, append(2, 3_000), Step::Turn(1), append(3, 100), Step::Idle],
    );
}

#[test]
fn a_crash_at_any_turn_of_a_roll_and_a_seal_keeps_what_was_acknowledged() {
    let fill: Vec<Step> = MADE.into_iter().chain([append(7, 5_500), Step::Idle]).collect();
    let roll = [append(2, 5_500), Step::Turn(2), append(3, 400), Step::Answer, append(1, 100), Step::Idle];
    crash_everywhere(3, &fill, &roll);
    // Without a mark and a rest before it, and into a successor that is not ready.
    let fill: Vec<Step> = MADE.into_iter().chain([append(8, 5_500), Step::Answer]).collect();
    crash_everywhere(4, &fill, &[append(12, 5_500), Step::Answer, Step::Idle]);
}

#[test]
fn a_crash_at_any_turn_of_the_creation_of_a_log_leaves_the_log_or_none() {
    crash_everywhere(5, &MADE, &[Step::OpenLog(1), append(1, 200), Step::OpenLog(2), Step::Answer, Step::Idle]);
}

#[test]
fn a_crash_at_any_turn_of_closing_and_opening_keeps_what_was_acknowledged() {
    let before: Vec<Step> =
        MADE.into_iter().chain([append(11, 5_500), Step::Idle, append(3, 500), Step::Answer]).collect();
    crash_everywhere(6, &before, &[append(2, 900), Step::Reopen, append(1, 700), Step::Answer, Step::Reopen]);
}

#[test]
fn a_crash_at_any_turn_of_a_recovery_keeps_what_was_acknowledged() {
    let before: Vec<Step> = MADE.into_iter().chain([append(8, 5_500), Step::Answer]).collect();
    for turns in [1, 3, 6, 12] {
        let script =
            [append(4, 5_500), Step::Turn(turns), Step::Kill { again_after: None }, append(1, 99), Step::Answer];
        crash_everywhere(7 + turns as u64, &before, &script);
    }
}

#[test]
fn a_crash_at_any_turn_of_an_idle_mark_keeps_what_was_acknowledged() {
    let before: Vec<Step> = MADE.into_iter().chain([append(1, 500), Step::Answer]).collect();
    crash_everywhere(20, &before, &[Step::Idle, append(1, 500), Step::Answer, Step::Idle]);
}

#[test]
fn a_crash_while_the_manifest_turns_its_page_leaves_one_page_or_the_other() {
    // A clock that jumps forth and back by an hour makes every other append roll, so that edits come thick and data does not.
    let roll =
        [Step::Jump(3_600_000), append(1, 60), Step::Answer, Step::Jump(-3_600_000), append(1, 60), Step::Answer];
    let mut probe = Machine::new(21, small());
    probe.open().and_then(|()| probe.run(&MADE)).expect("an honest history");
    let (start, mut rolls) = (region_in_force(&probe.world), 0);
    while region_in_force(&probe.world) == start {
        probe.run(&roll).expect("an honest history");
        rolls += 1;
    }
    let before: Vec<Step> = MADE.into_iter().chain(roll.into_iter().cycle().take(roll.len() * (rolls - 1))).collect();
    let script: Vec<Step> = roll.into_iter().chain(roll).collect();
    let [from, to] = crash_everywhere(21, &before, &script).map(|world| region_in_force(&world));
    assert_eq!(to, from + 1, "the script is to turn one page");
}

/// Every single change, every run of the oldest and every run of the newest, kept alone or lost alone: a roll is one write of a
/// header block and some batches, of which any sectors may be left.
#[test]
fn a_roll_may_be_torn_at_any_sector() {
    let mut machine = Machine::new(30, small());
    let before = [Step::OpenLog(0), Step::Idle, append(8, 5_500), Step::Idle, append(1, 2_000), Step::Answer];
    machine.open().and_then(|()| machine.run(&before)).expect("an honest history");
    let (config, mut turn) = (machine.config.clone(), 0);
    machine.observer = Some(Box::new(move |world, model| {
        turn += 1;
        for k in 0..world.loose_changes().min(64) {
            let losses = [Loss::Only(k), Loss::AllBut(k), Loss::First(k), Loss::Subset(u64::MAX << k)];
            losses.iter().try_for_each(|loss| check_power_failure(world, model, &config, turn, *loss))?;
        }
        Ok(())
    }));
    let roll = [append(3, 5_500), Step::Answer, append(6, 5_500), append(5, 700), Step::Answer];
    outcome(|| machine.run(&roll)).unwrap_or_else(|text| panic!("{text}"));
}

/// A roll whose header block reached the disk alone leaves a base offset behind. When the log then goes on in its old segment, and the
/// next roll loses its header block, that base must not be taken for the new one: it would hide what was acknowledged meanwhile.
#[test]
fn the_base_offset_of_a_torn_roll_never_hides_a_record() {
    // The roll's header block is the first or the second block of what is loose: sealing the segment before it may come first.
    for first in [0, BLOCK / SECTOR] {
        let header = 0xff_u64 << first;
        outcome(|| tear_two_rolls(header, !header)).unwrap_or_else(|text| panic!("header from sector {first}: {text}"));
    }
}

/// The first roll keeps some of its changes and the second one some others; in between the log goes on in its old segment.
fn tear_two_rolls(first: u64, second: u64) -> Checked {
    let mut machine = Machine::new(31, small());
    machine.open()?;
    // So much that a batch of 5,500 bytes does not fit any more, and small ones do.
    machine.run(&[Step::OpenLog(0), Step::Idle, append(8, 5_500), Step::Idle, append(1, 3_000), Step::Answer])?;
    for kept in [first, second] {
        machine.apply(append(1, 5_500))?;
        machine.turn_until_in_flight(&["Write t0-r0-s1/data.0 at 0..", "durably"])?;
        machine.crash(|world| world.power_failure(Loss::Subset(kept)))?;
        machine.open()?;
        machine.run(&[append(1, 100), Step::Answer, Step::Idle])?;
    }
    machine.run(&[append(1, 5_500), Step::Answer, Step::Reopen])
}

/// The edit that announces a segment may come behind the one that names the file made after it: with the log's segment 1 rolled into and
/// segment 2 prepared, both stand in the manifest as prepared, and the records of segment 1 were acknowledged.
#[test]
fn a_roll_is_found_also_when_the_manifest_knows_a_later_file_already() {
    let mut machine = Machine::new(32, small());
    let run = || {
        machine.open()?;
        machine.run(&[Step::OpenLog(0), Step::Idle, append(8, 5_500), Step::Idle])?;
        // The manifest hears that the log is dirty here, and of the roll below.
        machine.run(&[append(1, 60), Step::Answer, append(2, 5_500)])?;
        machine.turn_until_in_flight(&["Write manifest/a"])?;
        machine.crash(|world| world.power_failure(Loss::DropAll))?;
        let segment = SegmentId { log: machine.model.logs[0].id.clone(), seq: Seq::new(2).expect("small") };
        let (uid, generation) = (Uid(77), Generation(0));
        let edit = Edit::Prepared { segment, uid, generation, size: 64 << 10, look_ahead: 20 << 10, written: false };
        edits::edit(&machine.world, &machine.config, None, |state| {
            let record = &state.logs[&machine.model.logs[0].id].segments[&Seq::new(1).expect("small")];
            assert_eq!(record.stage, Stage::Prepared, "the roll was not announced yet");
            vec![vec![edit]]
        })?;
        machine.world.kill();
        machine.open()
    };
    outcome(run).unwrap_or_else(|text| panic!("{text}"));
    assert!(machine.model.logs[0].held.len() >= 11);
}

#[test]
fn random_histories_keep_every_promise() {
    for_each_seed(80, |seed| workload::run(seed, 120, &Twist::default()));
}

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    let trace = |seed| {
        let (mut machine, mut random) = workload::prepare(seed, &Twist::default())?;
        for _ in 0..100 {
            let step = workload::choose(&mut random, machine.model.logs.len());
            machine.apply(step)?;
        }
        Ok(machine.world.trace_hash())
    };
    for seed in 0..20 {
        let (one, two): (Result<u64, strandline_tests::harness::Violation>, _) = (trace(seed), trace(seed));
        assert_eq!(one.expect("an honest history"), two.expect("an honest history"), "seed {seed}");
    }
    assert_ne!(trace(1).expect("an honest history"), trace(2).expect("an honest history"));
}
