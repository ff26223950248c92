//! Descriptors: a store with more logs than it may have files open holds all that it must, never opens more than it may, and where the host
//! has none left answers so and goes on when it has.

use super::asked::{answer, ask};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use strandline::config::{Config, DESCRIPTORS_MIN, DESCRIPTORS_OF_ITS_OWN};
use strandline::pending::pair;
use strandline::{AppendError, Offset, ReadError, VerbError};
use strandline_disk::sim::{Fault, Loss, Times, What, When};
use strandline_disk::{Disk, Errno, Verb};
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::{for_each_seed, outcome};
use strandline_tests::harness::{Ask, At, Checked, Machine, Random, Step};

/// More logs than there may be files open.
const LOGS: usize = 24;
/// How many a shard may have open.
const MOST: usize = DESCRIPTORS_MIN + DESCRIPTORS_OF_ITS_OWN;
/// What the disk of the remover has open beside that.
const REMOVER: usize = 6;

fn tight() -> Config {
    Config { descriptors_max: Some(DESCRIPTORS_MIN), ..small() }
}

const fn append(log: usize, batches: usize, bytes: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes }
}

const fn read(log: usize) -> Step {
    Step::Read { log, per_mille: 0, bytes: 64 << 10 }
}

/// A store of so many logs, each with a batch.
fn begun(seed: u64, config: Config, logs: usize) -> Checked<Machine> {
    let mut machine = Machine::new(seed, config);
    machine.open()?;
    for log in 0..logs {
        machine.run(&[Step::OpenLog(log), Step::Answer])?;
    }
    (0..logs).try_for_each(|log| machine.run(&[append(log, 1, 300), Step::Turn(1)]))?;
    machine.apply(Step::Answer)?;
    Ok(machine)
}

/// How many descriptors the first shard holds.
fn held(machine: &mut Machine) -> usize {
    machine.running().disks[0].handles().open()
}

/// How often the first shard's host had none for it.
fn shortages(machine: &mut Machine) -> u64 {
    machine.running().disks[0].handles().shortages()
}

/// Reads all of every log.
fn read_all(machine: &mut Machine) -> Checked {
    for log in 0..machine.model.logs.len() {
        let (start, end, _) = machine.model.log(log).readable();
        let read = machine.read_all(log, start)?.expect("nothing failed");
        assert_eq!(read.last().map_or(start, |batch| batch.end()), end, "log {log}");
    }
    Ok(())
}

#[test]
fn sc_04_with_more_logs_than_descriptors_all_is_kept_and_no_more_is_opened_than_may_be() {
    for_each_seed(6, |seed| {
        let mut machine = Machine::new(seed, tight());
        // The host gives no more than the store said that it would take.
        machine.world.set_descriptors(MOST + REMOVER);
        machine.open()?;
        let mut random = Random::new(seed);
        (0..LOGS).try_for_each(|log| machine.run(&[Step::OpenLog(log), Step::Turn(random.below(3))]))?;
        machine.apply(Step::Answer)?;
        for round in 0..120 {
            let log = random.below(LOGS);
            machine.apply(append(log, 1 + random.below(3), random.pick(&[60, 700, 5_500])))?;
            machine.apply(Step::Turn(random.below(6)))?;
            let other = random.below(LOGS);
            match random.below(12) {
                0..3 => machine.apply(read(other))?,
                3 => machine.apply(Step::Verb { log: other, ask: Ask::Stats })?,
                4 => machine.apply(Step::Verb { log: other, ask: Ask::Verify })?,
                5 => machine.apply(Step::Verb { log: other, ask: Ask::Truncate(At::Back(2)) })?,
                6 => machine.apply(Step::Verb { log: other, ask: Ask::Seal })?,
                7 => machine.apply(Step::Answer)?,
                8 => machine.apply(Step::Turn(40))?,
                _ => {}
            }
            assert!(held(&mut machine) <= MOST, "round {round}: {}", held(&mut machine));
            if round % 40 == 39 {
                assert_eq!(shortages(&mut machine), 0, "it stays within what it may have");
                machine.run(&[Step::Answer, [Step::Reopen, Step::Kill { again_after: None }][round % 2]])?;
            }
        }
        machine.run(&[Step::Answer, Step::Reopen])?;
        read_all(&mut machine)?;
        assert_eq!(shortages(&mut machine), 0, "it stays within what it may have");
        assert!(machine.running().report.damaged.is_empty());
        machine.apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None })
    });
}

#[test]
fn a_head_that_was_let_go_of_goes_on_where_it_ended_and_its_last_block_is_all_that_is_read() {
    let mut machine = begun(3, tight(), LOGS).expect("logs");
    let path = "t0-r0-s0/data.0";
    let before = machine.model.logs[0].end();
    // The others were written after it: it was let go of long ago.
    machine.world.keep_trace(true);
    machine.run(&[append(0, 1, 300), Step::Answer]).expect("an append");
    let trace: Vec<String> = machine.world.trace().into_iter().filter(|line| line.starts_with("start ")).collect();
    let reads: Vec<&String> = trace.iter().filter(|line| line.contains("Read") && line.contains(path)).collect();
    assert!(reads.iter().all(|line| line.contains(" at 4096..8192")) && !reads.is_empty(), "{reads:?}");
    assert!(trace.iter().all(|line| !line.contains("manifest")), "the manifest hears nothing of it: {trace:?}");
    assert_eq!(machine.model.logs[0].end(), before.plus(2));
    read_all(&mut machine).expect("all of it");
}

#[test]
fn rot_in_the_last_block_of_a_head_that_was_let_go_of_is_found_before_anything_is_written_behind_it() {
    let mut machine = begun(4, tight(), LOGS).expect("logs");
    machine.world.rot("t0-r0-s0/data.0", 4096 + 40, 0x10);
    machine.tolerant = true;
    machine.run(&[append(0, 1, 300), Step::Answer]).expect("it goes on in another segment");
    assert!(machine.world.files().iter().any(|(path, _)| path == "t0-r0-s1/data.0"));
    let read = machine.read(0, Offset(0), 100).expect("an answer");
    assert!(matches!(&read, Err(ReadError::Corrupt { from: Offset(0), .. })), "{read:?}");
}

#[test]
fn a_crash_at_any_turn_of_letting_go_and_opening_again_keeps_what_was_acknowledged() {
    let count = Rc::new(Cell::new(0));
    for (seed, idle_close_after) in [(1, None), (2, Some(Duration::from_millis(3)))] {
        let idle_clean_after = Duration::from_millis(if seed == 1 { 4 } else { 60_000 });
        let run = outcome(|| {
            let config = Config { idle_close_after, idle_clean_after, ..tight() };
            let mut machine = begun(seed, config, 14)?;
            machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
            for log in 0..14 {
                machine.run(&[append(log, 1, 5_500), Step::Turn(2), read((log + 7) % 14)])?;
            }
            machine.run(&[Step::Answer, Step::Turn(8), append(3, 14, 5_500), append(4, 1, 90), Step::Answer])?;
            machine.run(&[Step::Verb { log: 5, ask: Ask::Truncate(At::Back(2)) }, Step::Answer, append(5, 1, 90)])?;
            machine.run(&[Step::Answer, Step::Reopen, append(0, 1, 90), Step::Answer])
        });
        run.unwrap_or_else(|text| panic!("seed {seed}: {text}"));
    }
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 200);
}

/// What goes on while opens fail.
fn script() -> Vec<Step> {
    let mut script: Vec<Step> = (0..14).flat_map(|log| [append(log, 1, 5_500), Step::Turn(1)]).collect();
    script.extend((0..14).map(read));
    script.extend([Step::Answer, append(0, 14, 5_500), Step::Answer, read(0)]);
    script.extend([Step::Verb { log: 1, ask: Ask::Verify }, Step::Verb { log: 2, ask: Ask::Truncate(At::Back(2)) }]);
    script.extend([Step::Answer, Step::Reopen, append(2, 1, 90), append(3, 1, 90), Step::Answer]);
    script
}

#[test]
fn any_open_may_find_no_descriptor_for_a_moment_and_nothing_notices() {
    let mut struck = 0;
    for verb in [Verb::Open, Verb::OpenDirectory] {
        for errno in [Errno::MFILE, Errno::NFILE] {
            for k in 1.. {
                let run = outcome(|| {
                    let mut machine = begun(k, tight(), 14)?;
                    let what = What::Errno(errno);
                    machine.world.inject(Fault { when: When::KthOf(verb, k), what, times: Times::Once });
                    machine.run(&script())?;
                    let fired = machine.world.faults_fired();
                    machine.apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None })?;
                    Ok(fired)
                });
                let fired = run.unwrap_or_else(|text| panic!("{verb:?} {k}, {errno:?}: {text}"));
                struck += fired;
                if fired == 0 {
                    break;
                }
            }
        }
    }
    eprintln!("{struck} opens were struck");
    assert!(struck > 100);
}

#[test]
fn where_the_host_leaves_none_an_append_and_a_read_say_so_nothing_is_latched_and_they_go_on_when_it_does() {
    let mut machine = begun(5, tight(), LOGS).expect("logs");
    machine.tolerant = true;
    machine.world.set_descriptors(0);
    let refused = ask(&mut machine, 0, 900_001, 300);
    let error = answer(&mut machine, refused).expect_err("nothing can be opened");
    let said = error.to_string();
    assert!(matches!(&error, AppendError::TooManyOpen { budget: MOST, .. }), "{error:?}");
    assert!(said.contains("RLIMIT_NOFILE") && said.contains("descriptors_max"), "{said}");
    let read = machine.read(1, Offset(0), 100).expect("an answer");
    assert!(matches!(&read, Err(ReadError::TooManyOpen { budget: MOST, .. })), "{read:?}");
    let (given, mut verified) = pair();
    assert!(machine.running().verb(2, strandline::shard::verb::Verb::Verify { seq: None, answer: given }));
    machine.apply(Step::Turn(400)).expect("turns");
    let verified = verified.try_take().expect("an answer");
    assert!(matches!(&verified, Err(VerbError::TooManyOpen { .. })), "{verified:?}");
    assert!(shortages(&mut machine) > 0);
    // It gave up some of what it had: with as many as it holds now it gets on.
    let left = machine.world.descriptors();
    machine.world.set_descriptors(left + 3);
    machine.tolerant = false;
    for log in 0..LOGS {
        machine.run(&[append(log, 1, 300), Step::Answer]).unwrap_or_else(|violation| panic!("log {log}: {violation}"));
    }
    read_all(&mut machine).expect("all of it");
    machine.world.set_descriptors(usize::MAX);
    machine.run(&[Step::Reopen, Step::Idle]).expect("nothing was lost");
}

#[test]
fn where_nothing_can_be_let_go_of_whoever_waits_is_refused_by_name_and_the_others_go_on() {
    let mut machine = begun(6, tight(), LOGS).expect("logs");
    machine.tolerant = true;
    // Logs whose write failed keep their heads open.
    let mut failed = 0;
    let refused = loop {
        assert!(failed < LOGS - 1, "it never ran out");
        let path = format!("t{failed}-r0-s0/");
        let what = What::Errno(Errno::IO);
        machine.world.inject(Fault { when: When::VerbOnPath(Verb::Write, path), what, times: Times::Once });
        let pending = ask(&mut machine, failed, 800_000 + failed as u64, 300);
        match answer(&mut machine, pending).expect_err("it failed") {
            AppendError::Failed { .. } => failed += 1,
            error => break error,
        }
    };
    assert!(failed >= 4, "only {failed} heads were kept");
    assert!(matches!(&refused, AppendError::TooManyOpen { budget: MOST, held, .. } if *held <= MOST), "{refused:?}");
    machine.world.clear_faults();
    assert_eq!(shortages(&mut machine), 0, "the host was not asked for more");
    // The others have not failed: with an answer from the first of them on there was no head that could go.
    machine.kill().expect("all were answered");
    assert!(machine.start(None).expect("an open"));
    machine.run(&[Step::OpenLog(failed), Step::Answer]).expect("it is there");
    let pending = ask(&mut machine, failed, 900_000, 300);
    answer(&mut machine, pending).expect("it was never latched");
}

#[test]
fn sc_04_a_log_that_is_idle_holds_one_descriptor_at_most_and_none_after_thirty_seconds() {
    let idle_close_after = Config::new("x").idle_close_after;
    assert_eq!(idle_close_after, Some(Duration::from_secs(30)));
    let config = Config { idle_close_after, idle_mark_after: Duration::from_millis(100), ..small() };
    let mut machine = begun(7, config, LOGS).expect("logs");
    let own = 6;
    machine.world.let_pass(150);
    machine.apply(Step::Turn(40)).expect("marks");
    assert!((LOGS..=LOGS + own).contains(&held(&mut machine)), "{}", held(&mut machine));
    // One goes on: it keeps its own.
    for _ in 0..40 {
        machine.world.let_pass(1_000);
        machine.run(&[append(0, 1, 300), Step::Answer]).expect("an append");
    }
    assert!((1..=3 + own).contains(&held(&mut machine)), "{}", held(&mut machine));
    read_all(&mut machine).expect("all of it");
    machine.world.let_pass(31_000);
    machine.apply(Step::Turn(40)).expect("nothing");
    machine.world.let_pass(31_000);
    machine.apply(Step::Turn(40)).expect("nothing");
    assert!(held(&mut machine) <= own, "{}", held(&mut machine));
}

#[test]
fn a_log_that_is_being_roused_is_not_told_to_be_clean_however_long_that_takes() {
    let mut machine = begun(8, tight(), LOGS).expect("logs");
    let slow = When::VerbOnPath(Verb::Open, "t0-r0-s0/".to_owned());
    machine.world.inject(Fault { when: slow, what: What::Delay(200), times: Times::Once });
    let verify = Step::Verb { log: 0, ask: Ask::Verify };
    machine.run(&[verify, Step::Turn(4)]).expect("its file is being opened");
    assert_eq!(machine.world.faults_fired(), 1, "it had been let go of");
    // Meanwhile it has rested for so long that it would be clean.
    machine.world.let_pass(2 * machine.config.idle_clean_after.as_millis() as u64);
    machine.run(&[Step::Answer, append(0, 1, 300), Step::Answer]).expect("an append");
    machine
        .apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None })
        .expect("what was acknowledged is there");
}
