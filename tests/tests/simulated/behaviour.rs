//! What the store does when nothing fails.

use std::time::Duration;
use strandline::Offset;
use strandline::config::Config;
use strandline::manifest::state::Stage;
use strandline::{ReadError, SegmentState};
use strandline_disk::sim::Loss;
use strandline_tests::harness::checker;
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::{Machine, Step};

#[test]
fn what_is_appended_is_read_back_now_and_after_a_reopen() {
    let mut machine = Machine::new(1, small());
    machine.open().expect("an empty directory becomes a store");
    let append = Step::Append { log: 0, batches: 3, records: 2, bytes: 300 };
    let read = Step::Read { log: 0, per_mille: 0, bytes: 1 << 16 };
    machine.run(&[Step::OpenLog(0), Step::Answer, append, Step::Answer, read, Step::Answer]).expect("a plain history");
    assert_eq!(machine.model.logs[0].held.len(), 3);
    machine.run(&[Step::Reopen, append, Step::Answer, Step::Reopen]).expect("a reopen");
    assert_eq!(machine.model.logs[0].held.len(), 6);
}

#[test]
fn a_read_outside_the_log_names_what_there_is_and_one_at_the_end_is_empty() {
    let mut machine = Machine::new(2, small());
    machine.open().expect("an open");
    let append = Step::Append { log: 0, batches: 1, records: 3, bytes: 300 };
    machine.run(&[Step::OpenLog(0), Step::Answer, append, Step::Answer]).expect("an append");
    let at_end = machine.read(0, Offset(3), 100).expect("an answer").expect("the end is no error");
    assert!(at_end.batches.is_empty());
    let past = machine.read(0, Offset(4), 100).expect("an answer");
    assert!(matches!(past, Err(ReadError::OutOfRange { earliest: Offset(0), end: Offset(3), .. })), "{past:?}");
    let middle = machine.read(0, Offset(2), 1).expect("an answer").expect("the batch that holds it");
    assert_eq!((middle.batches[0].first(), middle.next), (Offset(0), Offset(3)));
}

#[test]
fn a_segment_prepared_under_a_smaller_configuration_takes_no_batch_that_does_not_fit_it() {
    let mut machine = Machine::new(3, small());
    machine.open().expect("an open");
    let small_batches = Step::Append { log: 0, batches: 2, records: 2, bytes: 900 };
    machine.run(&[Step::OpenLog(0), Step::Answer, small_batches, Step::Idle]).expect("a prepared successor");
    machine.close().expect("a clean close");
    let mut config = small();
    config.segment_bytes = 1 << 20;
    config.batch_bytes_max = 128 << 10;
    config.commit_bytes_max = 256 << 10;
    config.read_bytes_max = 1 << 20;
    config.outstanding_bytes_max = 8 << 20;
    config.arena_bytes = 4 << 20;
    machine.config = config.check().expect("a larger configuration");
    machine.world.set_pool_bytes(4 << 20);
    machine.open().expect("an open with larger limits");
    let large = Step::Append { log: 0, batches: 3, records: 2, bytes: 120 << 10 };
    machine.run(&[Step::OpenLog(0), Step::Answer, large, Step::Answer, small_batches, Step::Answer]).expect("appends");
    let cut = Step::PowerFailure { loss: Loss::DropAll, again_after: None };
    machine.run(&[cut, large, Step::Idle, Step::Reopen]).expect("what was acknowledged stays");
    assert_eq!(machine.model.logs[0].held.len(), 2 + 3 + 2 + 3);
}

#[test]
fn rolls_seals_and_marks_leave_files_that_the_manifest_explains_and_indexes_that_equal_scans() {
    let mut machine = Machine::new(4, small());
    machine.open().expect("an open");
    let append = Step::Append { log: 0, batches: 40, records: 3, bytes: 3_000 };
    machine
        .run(&[Step::OpenLog(0), Step::Answer, append, Step::Answer, Step::Idle, append, Step::Idle])
        .expect("rolls");
    machine.run(&[Step::Reopen, Step::Idle]).expect("a reopen");
    let disk = Disk::look(&machine.world, &machine.config).expect("a manifest");
    let sealed = disk.segments().iter().filter(|segment| matches!(segment.record.stage, Stage::Sealed { .. })).count();
    assert!(sealed >= 3, "{sealed} sealed segments");
    checker::files_are_explained(&disk, &[]).expect("no strays");
    checker::indexes_equal_scans(&disk).expect("good indexes");
    checker::the_tail_is_dead(&disk).expect("dead tails");
}

#[test]
fn a_directory_left_over_from_a_crash_is_reported_as_a_stray_and_used_by_the_segment_that_needs_its_name() {
    let mut machine = Machine::new(5, small());
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("a log");
    // Stops while the successor is being made: its directory is there, the manifest does not know it yet.
    machine.run(&[Step::Append { log: 0, batches: 1, records: 1, bytes: 100 }]).expect("an append");
    for _ in 0..200 {
        machine.turn().expect("a turn");
        if machine.world.files().iter().any(|(path, _)| path == "t0-r0-s1/data.0") {
            break;
        }
    }
    machine.apply(Step::Kill { again_after: None }).expect("a kill");
    assert_eq!(machine.running().report.strays, ["t0-r0-s1"]);
    let append = Step::Append { log: 0, batches: 15, records: 2, bytes: 5_500 };
    machine.run(&[append, Step::Idle, Step::Reopen]).expect("the log rolls into it");
    assert!(machine.running().report.strays.is_empty());
    assert!(machine.world.files().iter().any(|(path, _)| path == "t0-r0-s2/data.0"));
}

/// A stamp that lies over ten minutes ahead of the clock goes back to true time once. Opening the store again must not make that happen
/// a second time, by taking the stamps of the older segment for the newest: the next stamp would go back with the clock.
#[test]
fn store_times_go_back_to_true_time_once_and_not_again_after_a_reopen() {
    let mut machine = Machine::new(6, small());
    machine.open().expect("an open");
    let append = [Step::Append { log: 0, batches: 1, records: 1, bytes: 60 }, Step::Answer];
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("a log");
    machine.run(&append).and_then(|()| machine.apply(Step::Jump(-3_600_000))).expect("a stamp of the future");
    machine.run(&append).and_then(|()| machine.apply(Step::Reopen)).expect("a stamp of true time");
    machine.run(&[Step::Idle, Step::Jump(-60_000)]).expect("the clock goes back a little");
    machine.run(&append).and_then(|()| machine.apply(Step::Reopen)).expect("stamps never go backwards");
    let disk = Disk::look(&machine.world, &machine.config).expect("a manifest");
    let opened = disk.segments().iter().filter(|segment| segment.record.opening().is_some()).count();
    assert_eq!(opened, 2, "one roll is enough");
}

#[test]
fn a_segment_that_is_old_enough_is_rolled_though_nothing_is_appended_and_the_next_append_begins_another() {
    let config = Config { segment_max_age: Some(Duration::from_secs(60)), ..small() };
    let mut machine = Machine::new(60, config);
    machine.open().expect("an open");
    let append = Step::Append { log: 0, batches: 1, records: 2, bytes: 300 };
    machine.run(&[Step::OpenLog(0), Step::Answer, append, Step::Answer]).expect("an append");
    let states = |machine: &mut Machine| -> Vec<SegmentState> {
        let info = machine.info(0).expect("an answer").expect("statistics");
        info.segments.iter().map(|segment| segment.state).collect()
    };
    assert_eq!(states(&mut machine), [SegmentState::Active]);
    machine.run(&[Step::Jump(60_000), Step::Idle]).expect("an idle minute");
    assert_eq!(states(&mut machine), [SegmentState::Sealed]);
    machine.run(&[append, Step::Answer]).expect("an append");
    assert_eq!(states(&mut machine), [SegmentState::Sealed, SegmentState::Active]);
    machine.apply(Step::Reopen).expect("an open");
}

/// What a sweep does with a policy. The timer that was set for the longer age must not keep the shorter one waiting.
#[test]
fn the_age_at_which_segments_roll_is_changed_and_switched_off_while_the_store_is_open() {
    let minute = Duration::from_secs(60);
    let config = Config { segment_max_age: Some(minute * 60), ..small() };
    let mut machine = Machine::new(61, config);
    machine.open().expect("an open");
    let append = Step::Append { log: 0, batches: 1, records: 2, bytes: 300 };
    machine.run(&[Step::OpenLog(0), Step::Answer, append, Step::Answer]).expect("an append");
    let head = |machine: &mut Machine| {
        let info = machine.info(0).expect("an answer").expect("statistics");
        (info.segment_max_age_ms, info.segments.last().expect("a segment").state)
    };
    assert_eq!(head(&mut machine), (Some(3_600_000), SegmentState::Active));
    machine.set_segment_max_age(0, None).expect("an answer").expect("off");
    machine.world.let_pass(3_600_000);
    machine.apply(Step::Idle).expect("an idle hour");
    assert_eq!(head(&mut machine), (None, SegmentState::Active), "off is never");
    machine.set_segment_max_age(0, Some(minute * 600)).expect("an answer").expect("a longer age");
    let short = Some(Duration::from_millis(59_999));
    machine.set_segment_max_age(0, short).expect("an answer").expect_err("below the floor");
    // A turn with nothing else to do lasts until the next timer: after an append the one of the age is not due yet.
    machine.run(&[append, Step::Answer]).expect("an append");
    let asked_ns = machine.world.now().boot_ns;
    machine.set_segment_max_age(0, Some(minute)).expect("an answer").expect("the floor");
    while head(&mut machine).1 == SegmentState::Active {
        machine.turn().expect("time for the roll");
    }
    let waited_ns = machine.world.now().boot_ns - asked_ns;
    assert!(waited_ns < 1_000_000_000, "rolled by the timer that was set for the longer age: {waited_ns} ns");
    machine.apply(Step::Idle).expect("time for the seal");
    assert_eq!(head(&mut machine), (Some(60_000), SegmentState::Sealed));
    machine.run(&[append, Step::Answer, Step::Reopen]).expect("an open");
    assert_eq!(head(&mut machine), (Some(3_600_000), SegmentState::Active), "nothing durable was changed");
}
