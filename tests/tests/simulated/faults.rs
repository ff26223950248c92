//! Faults: every operation of scripted histories fails once, in every way. Nothing acknowledged is lost, everyone is answered,
//! nothing hangs and nothing panics.

use super::asked::{answer, ask};
use strandline::{AppendError, Offset, ReadError};
use strandline_disk::sim::{Fault, Loss, Times, What, When};
use strandline_disk::{Errno, Verb};
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Machine, Step};
use strandline_tests::tiers::faults::{Plan, Setup, Way, ways};

const fn append(log: usize, batches: usize, bytes: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes }
}

fn begin(seed: u64) -> strandline_tests::harness::Checked<Machine> {
    strandline_tests::tiers::faults::begin(seed, Setup::Chosen, None)
}

/// Lets every operation of every script fail in these ways, once and for ever. The other setups are for a campaign.
fn every_operation_fails(is_wanted: impl Fn(&What) -> bool) {
    every_operation_fails_in(Setup::Chosen, is_wanted);
}

fn every_operation_fails_in(setup: Setup, is_wanted: impl Fn(&What) -> bool) {
    let ways: Vec<Way> = ways().into_iter().filter(|way| is_wanted(&way.what)).collect();
    assert!(!ways.is_empty());
    let plan = Plan::new(ways, &[setup], None).expect("an honest history");
    let mut struck = 0;
    for case in 0..plan.cases() {
        let tally = std::cell::Cell::new(0);
        let run = outcome(|| plan.run(case).map(|run| tally.set(run.faults)));
        run.unwrap_or_else(|text| panic!("case {case}: {text}"));
        struck += tally.get();
    }
    eprintln!("{} cases, {struck} operations were struck", plan.cases());
    assert!(struck > 0);
}

#[test]
fn any_operation_may_answer_eio() {
    every_operation_fails(|what| *what == What::Errno(Errno::IO));
}

#[test]
fn any_operation_may_find_the_disk_full_or_the_quota_used_up() {
    every_operation_fails(|what| [What::Errno(Errno::NOSPC), What::Errno(Errno::DQUOT)].contains(what));
}

#[test]
fn any_operation_may_find_its_file_too_large_or_the_disk_read_only() {
    every_operation_fails(|what| [What::Errno(Errno::FBIG), What::Errno(Errno::ROFS)].contains(what));
}

#[test]
fn any_operation_may_be_interrupted_or_put_off() {
    every_operation_fails(|what| [What::Errno(Errno::INTR), What::Errno(Errno::AGAIN)].contains(what));
}

/// A file that is made ahead is given up when its sync fails. That takes operations of its own, and a log's flush that came back meanwhile was
/// believed, although the failed one had taken its batches along.
#[test]
fn a_flush_that_fails_beside_the_logs_is_heeded_before_theirs() {
    every_operation_fails_in(Setup::BarrierAndRecycling, |what| *what == What::FailedSyncDropsDevice);
}

#[test]
fn any_operation_may_be_cancelled() {
    every_operation_fails(|what| *what == What::Errno(Errno::CANCELED));
}

#[test]
fn any_transfer_may_be_short() {
    every_operation_fails(|what| [What::Short, What::Nothing].contains(what));
}

#[test]
fn any_sync_may_fail_and_drop_what_was_dirty() {
    every_operation_fails(|what| [What::FailedSyncDropsDirty, What::FailedSyncDropsDevice].contains(what));
}

#[test]
fn any_operation_may_be_late() {
    every_operation_fails(|what| matches!(what, What::Delay(_)));
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
