//! What verbs and rested logs answer when the disk fails or a caller is early, on the simulated disk.

use crate::simulated::{Machine, on_data};
use strandline::batch::{Batch, BatchLimits};
use strandline::id::Seq;
use strandline::pending::pair;
use strandline::shard::command::{Command, LogNumber};
use strandline::shard::verb::{Verb, Verdict};
use strandline::{AppendError, BatchBuilder, Offset, Record, VerbError};
use strandline_disk::sim::{Fault, Times, What, When};
use strandline_disk::{Errno, Verb as DiskVerb};

impl Machine {
    fn verb<T>(
        &mut self,
        log: LogNumber,
        verb: impl FnOnce(strandline::pending::Answer<Verdict<T>>) -> Verb,
    ) -> Verdict<T> {
        self.ask(|answer, queue| Command::Verb { log, verb: verb(answer), admitted: queue.admit(0).expect("room") })
    }
}

fn batch() -> Batch {
    let mut builder = BatchBuilder::new(BatchLimits { records_max: 10, bytes_max: 1000 });
    builder.push(&Record { value: Some(b"v"), ..Record::default() }).expect("room");
    builder.build().expect("a record")
}

#[test]
fn an_append_that_meets_a_truncation_is_refused_and_taken_when_that_was_answered() {
    let mut machine = Machine::new();
    let log = machine.log("a").expect("a log");
    machine.append(log).expect("an append");
    let (answer, truncated) = pair();
    let (refusal, refused) = pair();
    let admitted = || machine.queue.admit(0).expect("room");
    let verb = Verb::Truncate { end: Offset(0), answer };
    machine.queue.push(Command::Verb { log, verb, admitted: admitted() });
    let level = strandline::Level::Durable;
    machine.queue.push(Command::Append {
        log,
        batch: batch(),
        level,
        expected: None,
        answer: refusal,
        admitted: admitted(),
    });
    let refused = machine.turn_until(refused);
    assert!(matches!(refused, Err(AppendError::Truncating { .. })), "{refused:?}");
    let truncated = machine.turn_until(truncated).expect("truncated");
    assert_eq!((truncated.end, truncated.dropped, truncated.epoch.0), (Offset(0), 1, 1));
    assert_eq!(machine.append(log).map(|receipt| receipt.first), Ok(Offset(0)));
}

#[test]
fn a_log_that_failed_is_changed_by_no_verb_but_its_deletion() {
    let mut machine = Machine::new();
    let log = machine.log("a").expect("a log");
    machine.append(log).expect("an append");
    machine.fail(on_data(DiskVerb::Write), Errno::IO, Times::Once);
    machine.append(log).expect_err("its write failed");
    let refused = machine.verb(log, |answer| Verb::Seal { at: None, answer });
    assert!(matches!(refused, Err(VerbError::Latched { .. })), "{refused:?}");
    let info = machine.verb(log, |answer| Verb::Stats { answer }).expect("it can be looked at");
    assert!(info.failed.is_some());
    machine.verb(log, |answer| Verb::Delete { answer }).expect("it can be deleted");
}

/// What makes room must not need room first: the log takes no appends, and its oldest segments go all the same.
#[test]
fn a_log_that_failed_for_want_of_room_is_trimmed_and_then_goes_on_by_itself() {
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
        let mut machine = Machine::new();
        let log = machine.log("a").expect("a log");
        machine.append(log).expect("an append");
        machine.verb(log, |answer| Verb::Seal { at: None, answer }).expect("sealed");
        (0..2_000).for_each(|_| assert!(machine.shard.turn().is_ok())); // It is shrunk meanwhile.
        machine.append(log).expect("an append");
        machine.fail(on_data(DiskVerb::Write), errno, Times::Forever);
        let failed = machine.append(log).expect_err("there is no room");
        assert!(matches!(failed, AppendError::Failed { .. }), "{failed}");
        let refused = machine.verb(log, |answer| Verb::Seal { at: None, answer });
        assert!(matches!(refused, Err(VerbError::Latched { .. })), "{errno}: {refused:?}");
        let trimmed = machine.verb(log, |answer| Verb::Trim { start: Offset(1), answer });
        assert_eq!(trimmed, Ok(Offset(1)), "{errno}");
        let info = machine.verb(log, |answer| Verb::Stats { answer }).expect("it can be looked at");
        assert_eq!((info.bounds.start, info.segments.len()), (Offset(1), 1), "{errno}: {info:?}");
        machine.world.clear_faults();
        let again = (0..100_000).find_map(|_| machine.append(log).ok());
        assert!(again.is_some_and(|receipt| receipt.first >= Offset(2)), "{errno}: {again:?}");
    }
}

#[test]
fn a_disk_that_fails_under_a_verb_is_named_and_a_damaged_segment_is_not_indexed_again() {
    let mut machine = Machine::new();
    let log = machine.log("a").expect("a log");
    machine.append(log).expect("an append");
    machine.verb(log, |answer| Verb::Seal { at: None, answer }).expect("sealed");
    (0..2_000).for_each(|_| assert!(machine.shard.turn().is_ok())); // It is shrunk meanwhile.
    machine.fail(on_data(DiskVerb::Read), Errno::IO, Times::Once);
    let failed = machine.verb(log, |answer| Verb::Verify { seq: None, answer });
    assert!(matches!(&failed, Err(VerbError::Disk(source)) if source.errno == Errno::IO), "{failed:?}");
    let seq = Seq::new(0).expect("small");
    machine.world.rot("a-r0-s0/data.0", 4096 + 140, 8);
    let damaged = machine.verb(log, |answer| Verb::RebuildIndex { seq, answer });
    assert!(matches!(damaged, Err(VerbError::Damaged { .. })), "{damaged:?}");
    let verified = machine.verb(log, |answer| Verb::Verify { seq: Some(seq), answer }).expect("it was read");
    assert_eq!((verified.segments, verified.rot.len()), (1, 1));
}

#[test]
fn a_manifest_that_cannot_be_written_does_no_verb() {
    let mut machine = Machine::new();
    let log = machine.log("a").expect("a log");
    machine.append(log).expect("an append");
    machine.world.inject(Fault {
        when: When::VerbOnPath(DiskVerb::Write, "manifest".to_owned()),
        what: What::Errno(Errno::IO),
        times: Times::Forever,
    });
    let refused = machine.verb(log, |answer| Verb::Fence { until: None, answer });
    assert!(matches!(refused, Err(VerbError::Manifest(_))), "{refused:?}");
}

#[test]
fn a_log_that_rested_and_cannot_be_read_says_so_and_is_roused_by_a_later_append() {
    let mut machine = Machine::new();
    let log = machine.log("a").expect("a log");
    machine.append(log).expect("an append");
    machine.close().expect("a clean close");
    let mut machine = Machine::open(machine.world).expect("an open store");
    let log = machine.log("a").expect("the log");
    machine.fail(When::VerbOnPath(DiskVerb::Open, "data.".to_owned()), Errno::IO, Times::Once);
    let refused = machine.append(log);
    assert!(matches!(&refused, Err(AppendError::Rouse { source, .. }) if source.errno == Errno::IO), "{refused:?}");
    assert_eq!(machine.append(log).map(|receipt| receipt.first), Ok(Offset(1)));
}

#[test]
fn a_shard_that_goes_answers_whoever_waits_for_a_verb() {
    let mut machine = Machine::new();
    let log = machine.log("a").expect("a log");
    let (answer, waiting) = pair::<Verdict<_>>();
    let admitted = machine.queue.admit(0).expect("room");
    machine.queue.push(Command::Verb { log, verb: Verb::Stats { answer }, admitted });
    drop(machine.shard);
    machine.queue.abandon();
    assert_eq!(waiting.wait(), Err(VerbError::ShardGone));
}
