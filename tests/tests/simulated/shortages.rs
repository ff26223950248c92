//! Shortages: what could not be opened, or was let go of while somebody waited for it, is found again, tried again or named; nothing is taken
//! for damage and nothing goes by what it once was.

use std::time::Duration;
use strandline::config::{Config, DESCRIPTORS_MIN};
use strandline::id::Seq;
use strandline::manifest::state::Stage;
use strandline::pending::{Pending, pair};
use strandline::shard::verb::{Sealed, Verb as Asked, Verdict};
use strandline::{Level, Offset, OpenError, VerbError};
use strandline_disk::sim::{Fault, Loss, Times, What, When};
use strandline_disk::{Errno, Verb};
use strandline_tests::harness::files;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::running::{Opening, open};
use strandline_tests::harness::{Checked, Machine, Step};

/// More logs than there may be files open.
const LOGS: usize = 24;

fn tight() -> Config {
    Config { descriptors_max: Some(DESCRIPTORS_MIN), ..small() }
}

const fn append(log: usize, batches: usize, bytes: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes }
}

/// A store of so many logs, each with a batch.
fn begun(seed: u64, config: Config, logs: usize) -> Machine {
    let mut machine = Machine::new(seed, config);
    let run = |machine: &mut Machine| -> Checked {
        machine.open()?;
        (0..logs).try_for_each(|log| machine.run(&[Step::OpenLog(log), Step::Answer]))?;
        (0..logs).try_for_each(|log| machine.run(&[append(log, 1, 300), Step::Turn(1)]))?;
        machine.apply(Step::Answer)
    };
    run(&mut machine).expect("logs");
    machine
}

/// From here on, each time or once, what opens this path, or writes to it, is answered so.
fn strike(machine: &mut Machine, verb: Verb, path: &str, errno: Errno, times: Times) {
    machine.world.inject(Fault { when: When::VerbOnPath(verb, path.to_owned()), what: What::Errno(errno), times });
}

/// Turns until all appends are answered, whatever else is not.
fn appended(machine: &mut Machine) -> usize {
    for turns in 0..10_000 {
        if machine.running().appends.is_empty() {
            return turns;
        }
        machine.turn().expect("a turn");
    }
    panic!("an append is never answered");
}

fn until_answered<T>(machine: &mut Machine, mut pending: Pending<T>) -> T {
    for _ in 0..10_000 {
        if let Some(answer) = pending.try_take() {
            return answer;
        }
        machine.turn().expect("a turn");
    }
    panic!("it is never answered");
}

fn seal(machine: &mut Machine, log: usize) -> Verdict<Sealed> {
    let (answer, pending) = pair();
    assert!(machine.running().verb(log, Asked::Seal { at: None, answer }), "room in the queue");
    until_answered(machine, pending)
}

/// Whether the manifest knows the first segment of a log as sealed.
fn is_sealed(machine: &Machine, log: usize) -> bool {
    let disk = files::Disk::look(&machine.world, &machine.config).expect("a manifest");
    let record = &disk.state().logs[&machine.model.logs[log].id];
    let first = record.segments.get(&Seq::new(0).expect("small"));
    first.is_some_and(|segment| matches!(segment.stage, Stage::Sealed { .. }))
}

#[test]
fn an_open_that_finds_no_descriptor_for_a_log_is_refused_by_name_and_the_next_one_has_all() {
    // A live segment, one that was made ahead, and one that was found damaged.
    for (path, damaged) in [("t0-r0-s0/", false), ("t0-r0-s1/", false), ("t0-r0-s0/", true)] {
        // None of them is known as clean yet: each is looked at.
        let mut machine = begun(1, small(), 3);
        machine.run(&[append(0, 3, 5_500), Step::Answer]).expect("appends");
        for _ in 0..20 {
            machine.turn().expect("a turn");
            if files::Disk::look(&machine.world, &machine.config)
                .expect("a manifest")
                .state()
                .logs
                .values()
                .all(|log| log.segments.len() == 2)
            {
                break;
            }
        }
        machine.kill().expect("all were answered");
        if damaged {
            machine.world.rot("t0-r0-s0/data.0", 4_096 + 40, 0x10);
            assert!(machine.start(None).expect("an open"));
            assert_eq!(machine.running().report.damaged.len(), 1, "{:?}", machine.running().report);
            machine.kill().expect("nothing was asked");
        }
        strike(&mut machine, Verb::Open, path, Errno::MFILE, Times::Forever);
        let opening = open(&machine.world, &machine.config, None, || Ok(())).expect("an answer");
        let Opening::Refused(error @ OpenError::TooManyOpen { .. }) = opening else {
            panic!("{path}, damaged {damaged}: {opening:?}");
        };
        let said = error.to_string();
        assert!(said.contains("RLIMIT_NOFILE") && said.contains("t0-r0-s"), "{said}");
        machine.world.clear_faults();
        machine.world.kill();
        if damaged {
            assert!(machine.start(None).expect("an open"));
            machine.tolerant = true;
            machine.run(&[Step::OpenLog(0), Step::Answer]).expect("it is there");
        } else {
            machine.open().expect("all is there");
        }
        machine.run(&[append(0, 1, 300), Step::Answer]).expect("it goes on");
    }
}

#[test]
fn a_root_whose_data_cannot_be_looked_into_for_want_of_a_descriptor_is_not_taken_for_an_empty_one() {
    let other = begun(2, small(), 1);
    let data = other.world.read_file("t0-r0-s0/data.0").expect("a live segment");
    let mut machine = begun(3, small(), 0);
    machine.kill().expect("nothing was asked");
    machine.world.put_directory("t0-r0-s0");
    machine.world.put_file("t0-r0-s0/data.0", &data);
    strike(&mut machine, Verb::OpenDirectory, "t0-r0-s0", Errno::MFILE, Times::Forever);
    let opening = open(&machine.world, &machine.config, None, || Ok(())).expect("an answer");
    let Opening::Refused(error) = opening else { panic!("it was taken for an empty one") };
    assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
    machine.world.clear_faults();
    machine.world.kill();
    let opening = open(&machine.world, &machine.config, None, || Ok(())).expect("an answer");
    assert!(matches!(opening, Opening::Refused(OpenError::UnknownData { .. })), "{opening:?}");
}

#[test]
fn a_file_made_ahead_that_was_replaced_is_given_up_together_with_the_one_in_its_place() {
    let config = Config { idle_close_after: Some(Duration::from_secs(30)), ..small() };
    let mut machine = begun(3, config, 2);
    machine.run(&[Step::LetPass(150), Step::Turn(40)]).expect("it has its mark, and lets go of the file made ahead");
    assert!(machine.world.files().iter().any(|(path, _)| path == "t0-r0-s1/data.0"));
    strike(&mut machine, Verb::Open, "t0-r0-s1/", Errno::IO, Times::Forever);
    machine.run(&[append(0, 14, 5_500), Step::Answer]).expect("it goes on in another");
    assert!(machine.world.faults_fired() > 0, "it had been let go of");
    machine.kill().expect("all were answered");
    // The file still cannot be opened, and nobody asks for it.
    machine.open().expect("all is there");
    machine.run(&[append(0, 1, 300), Step::Answer]).expect("it goes on");
    machine.world.clear_faults();
    machine.run(&[Step::LetPass(60_000), Step::Turn(200)]).expect("removal");
    assert!(!machine.world.files().iter().any(|(path, _)| path == "t0-r0-s1/data.0"), "it goes");
    machine.apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None }).expect("nothing was lost");
}

#[test]
fn a_read_that_began_before_its_head_was_roused_and_let_go_of_again_keeps_nothing_of_what_it_found() {
    let mut machine = begun(4, tight(), LOGS);
    let slow = When::VerbOnPath(Verb::Open, "t0-r0-s0/".to_owned());
    machine.world.inject(Fault { when: slow, what: What::Delay(6_000), times: Times::Once });
    machine.run(&[Step::Read { log: 0, per_mille: 0, bytes: 64 << 10 }, Step::Turn(20)]).expect("it is being opened");
    assert_eq!(machine.world.faults_fired(), 1, "it had been let go of");
    machine.apply(append(0, 1, 5_500)).expect("an append");
    appended(&mut machine);
    for log in (1..LOGS).chain(1..LOGS) {
        machine.apply(append(log, 1, 300)).expect("an append");
        appended(&mut machine);
    }
    assert_eq!(machine.running().reads.len(), 1, "it is still under way");
    machine.apply(Step::Answer).expect("it is answered");
    let (start, end, _) = machine.model.log(0).readable();
    let read = machine.read_all(0, start).expect("all of it").expect("nothing failed");
    assert_eq!(read.last().map(|batch| batch.end()), Some(end));
}

#[test]
fn an_old_head_is_rolled_also_while_somebody_always_waits_for_a_descriptor() {
    let config = Config { segment_max_age: Some(Duration::from_secs(60)), ..tight() };
    let mut machine = begun(5, config, LOGS);
    machine.apply(Step::LetPass(61_000)).expect("time");
    for round in 0..400 {
        for log in [1 + round % (LOGS - 1), 1 + (round + 11) % (LOGS - 1), 1 + (round + 17) % (LOGS - 1)] {
            machine.apply(append(log, 1, 300)).expect("an append");
        }
        machine.apply(Step::Turn(2)).expect("turns");
        if round % 20 == 19 && is_sealed(&machine, 0) {
            return;
        }
    }
    panic!("it was never rolled");
}

#[test]
fn an_old_head_that_could_not_be_opened_is_rolled_later() {
    let config = Config { segment_max_age: Some(Duration::from_secs(60)), ..tight() };
    let mut machine = begun(6, config, LOGS);
    strike(&mut machine, Verb::Open, "t0-r0-s0/", Errno::IO, Times::Once);
    machine.run(&[Step::LetPass(61_000), Step::Turn(400)]).expect("turns");
    assert_eq!(machine.world.faults_fired(), 1);
    machine.run(&[Step::LetPass(61_000), Step::Turn(400)]).expect("turns");
    assert!(is_sealed(&machine, 0), "it is not forgotten");
}

#[test]
fn an_append_does_not_stand_behind_the_marks_of_all_that_was_recovered() {
    let mut machine = begun(7, Config { idle_mark_after: Duration::from_secs(3_600), ..small() }, LOGS);
    machine.kill().expect("all were answered");
    let tight = Config { idle_mark_after: Duration::from_millis(100), ..tight() };
    machine.config = tight.check().expect("a configuration");
    assert!(machine.start(None).expect("an open"));
    machine.run(&[Step::OpenLog(LOGS - 1), Step::Answer, Step::LetPass(100), Step::Turn(1)]).expect("a turn");
    machine.world.keep_trace(true);
    machine.apply(append(LOGS - 1, 1, 300)).expect("an append");
    let turns = appended(&mut machine);
    let opened =
        machine.world.trace().iter().filter(|line| line.starts_with("start ") && line.contains("Open")).count();
    eprintln!("{turns} turns, {opened} opens");
    assert!(opened <= 12, "{opened} opens before it");
}

#[test]
fn a_seal_that_finds_no_room_or_no_descriptor_is_tried_again_and_takes_nothing_along() {
    let mut machine = begun(8, small(), 2);
    machine.tolerant = true;
    strike(&mut machine, Verb::Write, "t0-r0-s0/", Errno::NOSPC, Times::Once);
    let refused = seal(&mut machine, 0);
    assert!(matches!(&refused, Err(VerbError::Disk(source)) if source.is_full()), "{refused:?}");
    assert!(machine.world.holders("t0-r0-s0/data.0").is_empty(), "its file is not held open for that");
    // What another log has written and not flushed is not lost by an open that fails.
    let written = Step::AppendAt { log: 1, batches: 1, records: 1, bytes: 300, level: Level::Written };
    machine.run(&[written, Step::Answer]).expect("written");
    strike(&mut machine, Verb::Open, "t0-r0-s0/", Errno::MFILE, Times::Forever);
    let refused = seal(&mut machine, 0);
    assert!(matches!(&refused, Err(VerbError::TooManyOpen { .. })), "{refused:?}");
    machine.tolerant = false;
    machine.run(&[Step::UntilDurable { log: 1, now: true }, Step::Answer]).expect("it is latched by nothing");
    machine.run(&[append(1, 1, 300), Step::Answer]).expect("it takes more");
    machine.world.clear_faults();
    assert!(!is_sealed(&machine, 0));
    machine.run(&[Step::LetPass(20_000), Step::Turn(60)]).expect("it is tried again");
    assert!(is_sealed(&machine, 0));
    seal(&mut machine, 0).expect("it is sealed");
    machine.run(&[append(0, 1, 300), Step::Answer, Step::Reopen]).expect("all is there, and closing is clean");
}

#[test]
fn a_seal_whose_footer_failed_says_so_until_the_next_open_and_holds_no_file() {
    let mut machine = begun(9, small(), 2);
    machine.tolerant = true;
    strike(&mut machine, Verb::Write, "t0-r0-s0/", Errno::IO, Times::Once);
    let refused = seal(&mut machine, 0);
    assert!(matches!(&refused, Err(VerbError::Disk(_))), "{refused:?}");
    assert!(machine.world.holders("t0-r0-s0/data.0").is_empty(), "its file is not held open for that");
    machine.world.keep_trace(true);
    let again = seal(&mut machine, 0);
    assert_eq!(again, refused, "a flush that failed is not tried again");
    let touched = machine.world.trace().iter().any(|line| line.starts_with("start ") && line.contains("t0-r0-s0/"));
    assert!(!touched, "{:?}", machine.world.trace());
    machine.kill().expect("all were answered");
    machine.tolerant = false;
    machine.open().expect("all is there");
    seal(&mut machine, 0).expect("it is sealed");
    assert!(is_sealed(&machine, 0));
}

#[test]
fn a_truncation_opens_all_that_it_needs_before_it_changes_anything() {
    let mut machine = begun(11, small(), 1);
    machine.run(&[append(0, 4, 300), Step::Answer]).expect("appends");
    strike(&mut machine, Verb::Open, "t0-r0-s0/", Errno::MFILE, Times::Forever);
    let (answer, pending) = pair();
    assert!(machine.running().verb(0, Asked::Truncate { end: Offset(4), answer }), "room in the queue");
    let refused = until_answered(&mut machine, pending);
    assert!(matches!(&refused, Err(VerbError::TooManyOpen { .. })), "{refused:?}");
    machine.world.clear_faults();
    machine.run(&[append(0, 1, 300), Step::Answer, Step::Reopen]).expect("nothing was changed");
}

#[test]
fn what_was_recovered_and_waits_for_its_footer_says_how_many_bytes_it_has() {
    let mut machine = begun(12, small(), 1);
    machine.run(&[append(0, 3, 5_500), Step::Answer]).expect("appends");
    strike(&mut machine, Verb::Write, "t0-r0-s0/", Errno::NOSPC, Times::Forever);
    let before = bytes(&mut machine);
    machine.tolerant = true;
    drop(seal(&mut machine, 0).expect_err("no room"));
    machine.run(&[append(0, 1, 300), Step::Answer]).expect("it goes on in the next one");
    machine.kill().expect("all were answered");
    assert!(machine.start(None).expect("an open"));
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("it is there");
    assert_eq!(bytes(&mut machine), before);
}

/// How many bytes the first segment of the first log has, as its shard says.
fn bytes(machine: &mut Machine) -> u64 {
    let (answer, pending) = pair();
    assert!(machine.running().verb(0, Asked::Stats { answer }), "room in the queue");
    until_answered(machine, pending).expect("an answer").segments[0].byte_size
}

#[test]
fn a_manifest_that_would_become_too_large_takes_nothing_along_that_was_written() {
    let mut machine = begun(10, small(), 2);
    let written = Step::AppendAt { log: 1, batches: 1, records: 1, bytes: 300, level: Level::Written };
    machine.run(&[written, Step::Answer]).expect("written");
    machine.tolerant = true;
    strike(&mut machine, Verb::Write, "manifest/", Errno::FBIG, Times::Forever);
    let refused = seal(&mut machine, 0);
    assert!(matches!(&refused, Err(VerbError::Manifest(_))), "{refused:?}");
    machine.tolerant = false;
    machine.run(&[Step::UntilDurable { log: 1, now: true }, Step::Answer]).expect("it is latched by nothing");
    machine.run(&[append(1, 1, 300), Step::Answer]).expect("it takes more");
}
