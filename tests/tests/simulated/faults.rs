//! Faults: every operation of scripted histories fails once, in every way. Nothing acknowledged is lost, everyone is answered,
//! nothing hangs and nothing panics.

use strandline::pending::Pending;
use strandline::shard::command::AppendAnswer;
use strandline::{AppendError, Offset, ReadError};
use strandline_disk::sim::{Fault, Loss, Times, What, When};
use strandline_disk::{Errno, Verb};
use strandline_tests::harness::machine::{batch_of, small};
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Ask, At, Checked, Machine, Step};

const fn append(log: usize, batches: usize, bytes: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes }
}

/// A history in which a fault strikes: appends, rolls, seals, a new log, a mark, a reopen.
fn script() -> Vec<Step> {
    let read = Step::Read { log: 0, per_mille: 0, bytes: 1 << 16 };
    vec![
        append(0, 9, 5_500),
        Step::Turn(3),
        append(0, 3, 5_500),
        append(1, 2, 700),
        Step::Answer,
        read,
        Step::OpenLog(2),
        Step::Answer,
        append(2, 1, 90),
        Step::Idle,
        Step::Reopen,
        append(0, 2, 3_000),
        append(1, 1, 300),
        Step::Answer,
        read,
        Step::Idle,
    ]
}

/// A history of verbs in which a fault strikes.
fn verbs() -> Vec<Step> {
    let ask = |log, ask| Step::Verb { log, ask };
    vec![
        append(0, 9, 5_500),
        ask(0, Ask::Stats),
        append(0, 12, 5_500),
        ask(0, Ask::Truncate(At::Back(30))),
        Step::Answer,
        append(0, 2, 300),
        ask(0, Ask::Truncate(At::Back(3))),
        append(1, 2, 700),
        ask(1, Ask::Fence(Some(At::Past(2)))),
        Step::Follow { log: 1, records: 2, bytes: 90, off: 0 },
        Step::Answer,
        ask(0, Ask::Trim(At::PerMille(400))),
        ask(0, Ask::Seal),
        ask(1, Ask::Unfence),
        ask(1, Ask::SealAt(At::Back(1))),
        Step::Answer,
        ask(0, Ask::Verify),
        Step::DeleteSegment { log: 0, place: 0 },
        Step::RebuildIndex { log: 0, place: 0 },
        append(0, 1, 90),
        ask(1, Ask::Delete),
        Step::Answer,
        Step::OpenLog(1),
        Step::Answer,
        append(1, 2, 400),
        Step::Idle,
        Step::Reopen,
        ask(0, Ask::Truncate(At::Back(1))),
        Step::Answer,
        append(0, 1, 300),
        Step::Idle,
    ]
}

fn begin(seed: u64) -> Checked<Machine> {
    let mut machine = Machine::new(seed, small());
    machine.open()?;
    machine.run(&[
        Step::OpenLog(0),
        Step::OpenLog(1),
        Step::Idle,
        append(0, 4, 5_500),
        append(1, 1, 100),
        Step::Answer,
    ])?;
    Ok(machine)
}

/// Runs the script with the fault at the k-th operation; then without faults: all promises hold and every log goes on.
fn with_fault_at(script: &[Step], k: u64, what: &What, times: Times) -> Checked {
    let mut machine = begin(k)?;
    machine.tolerant = true;
    machine.world.inject(Fault { when: When::KthOperation(k), what: what.clone(), times });
    machine.run(script)?;
    machine.world.clear_faults();
    machine.tolerant = false;
    let loss = [Loss::DropAll, Loss::KeepAll, Loss::Random][(k % 3) as usize];
    machine.apply(Step::PowerFailure { loss, again_after: None })?;
    let unfence = |log| Step::Verb { log, ask: Ask::Unfence };
    machine.run(&[Step::OpenLog(1), Step::Answer, unfence(0), unfence(1), Step::Answer])?;
    machine.run(&[append(0, 2, 900), append(1, 1, 900), Step::Answer, Step::Reopen, Step::Idle])
}

/// Lets every operation of the scripts fail.
fn every_operation_fails(what: &What, times: Times) {
    every_operation_of(&script(), what, times);
    every_operation_of(&verbs(), what, times);
}

fn every_operation_of(script: &[Step], what: &What, times: Times) {
    let mut machine = begin(1).expect("an honest start");
    let start = machine.world.operations();
    machine.run(script).expect("an honest history");
    let operations = machine.world.operations() - start;
    for k in 1..=operations + 5 {
        if let Err(text) = outcome(|| with_fault_at(script, k, what, times)) {
            panic!("operation {k} of {operations}, {what:?} {times:?}: {text}");
        }
    }
}

#[test]
fn any_operation_may_answer_eio_once() {
    every_operation_fails(&What::Errno(Errno::IO), Times::Once);
}

#[test]
fn all_operations_may_answer_eio_from_any_moment_on() {
    every_operation_fails(&What::Errno(Errno::IO), Times::Forever);
}

#[test]
fn any_operation_may_answer_enospc() {
    every_operation_fails(&What::Errno(Errno::NOSPC), Times::Once);
    every_operation_fails(&What::Errno(Errno::NOSPC), Times::Forever);
}

#[test]
fn any_operation_may_be_interrupted() {
    every_operation_fails(&What::Errno(Errno::INTR), Times::Once);
    every_operation_fails(&What::Errno(Errno::AGAIN), Times::Once);
}

#[test]
fn any_transfer_may_be_short() {
    every_operation_fails(&What::Short, Times::Once);
    every_operation_fails(&What::Short, Times::Forever);
    every_operation_fails(&What::Nothing, Times::Once);
}

#[test]
fn any_sync_may_fail_and_drop_what_was_dirty() {
    every_operation_fails(&What::FailedSyncDropsDirty, Times::Once);
    every_operation_fails(&What::FailedSyncDropsDevice, Times::Once);
}

#[test]
fn any_operation_may_be_late() {
    every_operation_fails(&What::Delay(200), Times::Once);
}

#[test]
fn making_a_store_may_fail_at_any_operation() {
    for k in 1..80 {
        for what in [What::Errno(Errno::IO), What::Errno(Errno::NOSPC), What::FailedSyncDropsDirty, What::Short] {
            let mut machine = Machine::new(k, small());
            machine.tolerant = true;
            machine.world.inject(Fault { when: When::KthOperation(k), what: what.clone(), times: Times::Once });
            let run = outcome(|| machine.run(&[Step::PowerFailure { loss: Loss::Random, again_after: None }]));
            run.unwrap_or_else(|text| panic!("operation {k}, {what:?}: {text}"));
        }
    }
}

fn ask(machine: &mut Machine, log: usize, serial: u64, bytes: usize) -> Pending<AppendAnswer> {
    let model = machine.model.clone();
    let batch = batch_of(serial, 1, bytes);
    assert!(machine.running().append((log, serial), batch, strandline::Level::Durable, &model), "room in the queue");
    machine.running().appends.pop().expect("the append that was just asked").answer
}

fn answer(machine: &mut Machine, mut pending: Pending<AppendAnswer>) -> AppendAnswer {
    for _ in 0..100_000 {
        if let Some(answer) = pending.try_take() {
            return answer;
        }
        machine.turn().expect("a turn");
    }
    panic!("an append is never answered");
}

#[test]
fn cr_04_every_completion_is_checked_and_the_log_is_latched() {
    for what in [What::Errno(Errno::IO), What::Errno(Errno::NOSPC)] {
        let mut machine = begin(4).expect("a start");
        let path = When::VerbOnPath(Verb::Write, "t0-r0-s0/".to_owned());
        machine.world.inject(Fault { when: path, what, times: Times::Once });
        let failed = ask(&mut machine, 0, 1, 300);
        let error = answer(&mut machine, failed).expect_err("the write failed");
        assert!(
            matches!(&error, AppendError::Failed { latch, .. } if latch.segment.to_string() == "t0-r0-s0"),
            "{error}"
        );
        let later = ask(&mut machine, 0, 2, 300);
        let error = answer(&mut machine, later).expect_err("the log is latched");
        assert!(matches!(error, AppendError::Latched { .. }), "{error}");
        let other = ask(&mut machine, 1, 3, 300);
        answer(&mut machine, other).expect("the other log goes on");
    }
}

#[test]
fn cr_21_a_failed_sync_is_never_followed_by_an_acknowledgement() {
    for what in [What::FailedSyncDropsDirty, What::FailedSyncDropsDevice] {
        let mut machine = begin(5).expect("a start");
        let path = When::VerbOnPath(Verb::Write, "t0-r0-s0/".to_owned());
        machine.world.inject(Fault { when: path, what, times: Times::Once });
        let failed = ask(&mut machine, 0, 1, 300);
        answer(&mut machine, failed).expect_err("the sync failed");
        for serial in 2..5 {
            let later = ask(&mut machine, 0, serial, 300);
            answer(&mut machine, later).expect_err("the log is latched, though the disk would answer well");
        }
        machine.tolerant = true;
        machine.run(&[Step::Reopen, append(0, 1, 300), Step::Answer, Step::Reopen]).expect("acknowledged records stay");
    }
}

#[test]
fn a_full_disk_refuses_appends_and_goes_on_by_itself_when_there_is_room() {
    let mut machine = begin(6).expect("a start");
    machine.apply(Step::Idle).expect("idle");
    let used: usize = machine.world.files().iter().map(|(path, _)| machine.world.allocated_blocks(path) * 4096).sum();
    machine.world.set_capacity(used as u64);
    let (mut serial, mut taken) = (0, 0);
    let refused = loop {
        serial += 1;
        let pending = ask(&mut machine, 0, serial, 5_500);
        match answer(&mut machine, pending) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 100, "the disk is full, and yet everything is taken");
    };
    assert!(matches!(refused, AppendError::DiskFull { .. }), "{refused}");
    assert!(taken >= 10, "what is preallocated can be filled: {taken}");
    let read = machine.read(0, Offset(0), 100).expect("an answer");
    assert!(!read.expect("a full disk can be read").batches.is_empty());
    machine.world.set_capacity(u64::MAX);
    machine.run(&[Step::Turn(10_000)]).expect("turns");
    let pending = ask(&mut machine, 0, 1_000, 300);
    answer(&mut machine, pending).expect("the log goes on without a restart");
}

#[test]
fn a_segment_that_cannot_be_recovered_answers_an_error_and_never_the_end_of_the_log() {
    let mut machine = begin(7).expect("a start");
    machine.apply(Step::Idle).expect("idle");
    let end = machine.model.logs[0].end();
    machine.kill().expect("a kill");
    let path = When::VerbOnPath(Verb::Read, "t0-r0-s0/".to_owned());
    machine.world.inject(Fault { when: path, what: What::Errno(Errno::IO), times: Times::Forever });
    assert!(machine.start(None).expect("the store opens"));
    machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer]).expect("both logs open");
    for offset in [0, 1, end.0 - 1] {
        let read = machine.read(0, Offset(offset), 100).expect("an answer");
        assert!(matches!(read, Err(ReadError::Disk { .. })), "offset {offset}: {read:?}");
    }
    assert!(machine.read(1, Offset(0), 100).expect("an answer").is_ok(), "the other log is not affected");
    let refused = ask(&mut machine, 0, 1, 300);
    answer(&mut machine, refused).expect_err("nothing is appended behind what cannot be read");
    machine.world.clear_faults();
    machine.tolerant = true;
    machine.apply(Step::Kill { again_after: None }).expect("everything is there again");
}

#[test]
fn many_large_reads_share_a_small_arena_and_all_are_answered() {
    let mut config = small();
    config.read_bytes_max = 1 << 20;
    let mut machine = Machine::new(8, config);
    // What is left when the host's limits have halved the arena again and again.
    machine.world.set_pool_bytes(64 << 10);
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer, append(0, 60, 5_500), Step::Answer]).expect("appends");
    let reads: Vec<Step> =
        (0..64).map(|number| Step::Read { log: 0, per_mille: number * 15, bytes: 1 << 20 }).collect();
    machine.run(&reads).expect("room in the queue");
    machine.run(&[append(0, 10, 5_500), Step::Answer]).expect("all are answered");
}
