//! What only a failing disk brings about, on the simulated one: a shard driven by hand.

use crate::common::small;
use std::path::Path;
use std::sync::Arc;
use strandline::batch::BatchLimits;
use strandline::config::Sabotage;
use strandline::pending::{Pending, Unanswered, pair};
use strandline::shard::command::{AppendAnswer, Command, LogNumber, Queue, ReadAnswer, verified};
use strandline::shard::{self, Shard};
use strandline::{
    AppendError, BatchBuilder, CloseError, Config, Level, LogError, LogId, Offset, OpenError, RangeNumber, ReadError,
    Record, Store, Topic,
};
use strandline_disk::sim::{Fault, SimDisk, SimWorld, Times, What, When};
use strandline_disk::{Disk, Errno, Verb};

/// A shard on a disk of its own.
pub(super) struct Machine {
    pub(super) world: SimWorld,
    pub(super) shard: Shard<SimDisk>,
    pub(super) queue: Arc<Queue>,
}

impl Machine {
    pub(super) fn new() -> Machine {
        Machine::open(SimWorld::new(1)).expect("an open store")
    }

    pub(super) fn open(world: SimWorld) -> Result<Machine, OpenError> {
        // Where nothing happens time jumps to whatever is due next: a log would be tried again before it is asked.
        let config = Config { idle_close_after: None, ..small(Path::new("/")) }.check().expect("a configuration");
        let disk = world.open();
        let queue = Queue::new(&config, disk.doorbell());
        let (shard, _) = strandline_disk::sim::drive(&disk, shard::open(disk.clone(), config, queue.clone()))?;
        Ok(Machine { world, shard, queue })
    }

    pub(super) fn fail(&self, when: When, errno: Errno, times: Times) {
        self.world.inject(Fault { when, what: What::Errno(errno), times });
    }

    pub(super) fn turn_until<T>(&mut self, mut pending: Pending<T>) -> T {
        for _ in 0..100_000 {
            if let Some(answer) = pending.try_take() {
                return answer;
            }
            self.shard.turn().expect("the ring works");
        }
        panic!("100,000 turns brought no answer")
    }

    pub(super) fn ask<T: Unanswered>(
        &mut self,
        command: impl FnOnce(strandline::pending::Answer<T>, &Arc<Queue>) -> Command,
    ) -> T {
        let (answer, pending) = pair();
        let command = command(answer, &self.queue);
        self.queue.push(command);
        self.turn_until(pending)
    }

    pub(super) fn log(&mut self, name: &str) -> Result<LogNumber, LogError> {
        let log = LogId { topic: Topic::new(name).expect("a topic"), range: RangeNumber::default() };
        self.ask(|answer, queue| Command::OpenLog {
            log,
            options: strandline::LogOptions::default(),
            answer,
            admitted: queue.admit(0).expect("room"),
        })
        .map(|opened| opened.number)
    }

    pub(super) fn append(&mut self, log: LogNumber) -> AppendAnswer {
        self.append_at(log, Level::Durable)
    }

    pub(super) fn append_at(&mut self, log: LogNumber, level: Level) -> AppendAnswer {
        let mut builder = BatchBuilder::new(BatchLimits { records_max: 10, bytes_max: 1000 });
        builder.push(&Record { value: Some(b"v"), ..Record::default() }).expect("room");
        let batch = builder.build().expect("a record");
        self.ask(|answer, queue| Command::Append {
            log,
            batch,
            level,
            expected: None,
            answer,
            admitted: queue.admit(0).expect("room"),
        })
    }

    pub(super) fn read(&mut self, log: LogNumber) -> ReadAnswer {
        let (offset, bytes) = (Offset(0), 1);
        let past_durable = false;
        verified(self.ask(|answer, queue| {
            let admitted = queue.admit(0).expect("room");
            Command::Read { log, offset, bytes, past_durable, answer, admitted }
        }))
    }

    pub(super) fn close(&mut self) -> Result<(), CloseError> {
        self.ask(|answer, _| Command::Close { answer })
    }
}

pub(super) fn on_data(verb: Verb) -> When {
    When::VerbOnPath(verb, "data.".to_owned())
}

#[test]
fn a_write_that_fails_latches_its_log_and_only_its_log_and_closing_says_so() {
    let mut machine = Machine::new();
    let (log, other) = (machine.log("a").expect("a log"), machine.log("b").expect("a log"));
    machine.append(log).expect("an append");
    machine.fail(on_data(Verb::Write), Errno::IO, Times::Once);
    let failed = machine.append(log).expect_err("its write failed");
    assert!(matches!(&failed, AppendError::Failed { latch, .. } if latch.source.errno == Errno::IO), "{failed}");
    let latched = machine.append(log).expect_err("the log is latched");
    assert!(matches!(&latched, AppendError::Latched { latch, .. } if latch.source.verb.is_a(Verb::Write)), "{latched}");
    machine.append(other).expect("the other log goes on");
    assert_eq!(machine.read(log).expect("what was acknowledged stays readable").next, Offset(1));
    let unclean = machine.close().expect_err("a log could not be closed");
    assert!(matches!(&unclean, CloseError::Unclean { logs: 1, first } if first.errno == Errno::IO), "{unclean}");
}

#[test]
fn a_segment_that_cannot_be_prepared_is_named_with_its_cause_and_tried_again() {
    let mut machine = Machine::new();
    machine.fail(When::Verb(Verb::Allocate), Errno::NOSPC, Times::Once);
    let log = machine.log("full").expect("a log");
    let full = machine.append(log).expect_err("no room");
    assert!(matches!(&full, AppendError::DiskFull { source, .. } if source.is_full()), "{full}");
    machine.world.jump_clock(0);
    machine.fail(When::Verb(Verb::Allocate), Errno::IO, Times::Once);
    let log = machine.log("broken").expect("a log");
    let broken = machine.append(log).expect_err("the disk failed");
    assert!(matches!(&broken, AppendError::Prepare { source, .. } if source.errno == Errno::IO), "{broken}");
    let again = (0..100_000).find_map(|_| machine.append(log).ok());
    assert_eq!(again.map(|receipt| receipt.first), Some(Offset(0)), "it goes on by itself");
}

#[test]
fn an_append_that_was_accepted_and_could_not_be_written_is_named_to_whoever_waits_for_it() {
    let mut machine = Machine::new();
    machine.fail(When::Verb(Verb::Allocate), Errno::NOSPC, Times::Once);
    let log = machine.log("full").expect("a log");
    let receipt = machine.append_at(log, Level::Accepted).expect("it is in memory");
    assert_eq!((receipt.first, receipt.level), (Offset(0), Level::Accepted));
    let lost = machine.ask(|answer, queue| {
        let admitted = queue.admit(0).expect("room");
        Command::UntilDurable { log, receipt, now: true, answer, admitted }
    });
    assert!(matches!(lost, Err(AppendError::Lost { first: Offset(0), .. })), "{lost:?}");
    let again = (0..100_000).find_map(|_| machine.append(log).ok());
    assert_eq!(again.map(|receipt| receipt.first), Some(Offset(0)), "its offset is given again");
    let lost = machine.ask(|answer, queue| {
        let admitted = queue.admit(0).expect("room");
        Command::UntilDurable { log, receipt, now: true, answer, admitted }
    });
    assert!(matches!(lost, Err(AppendError::Lost { .. })), "another append's offset makes it no less lost: {lost:?}");
}

#[test]
fn a_read_that_fails_says_where_and_harms_nothing() {
    let mut machine = Machine::new();
    let log = machine.log("a").expect("a log");
    machine.append(log).expect("an append");
    machine.fail(on_data(Verb::Read), Errno::IO, Times::Once);
    let failed = machine.read(log).expect_err("its read failed");
    assert!(matches!(&failed, ReadError::Disk { source, .. } if source.errno == Errno::IO), "{failed}");
    machine.read(log).expect("the next one works");
    machine.append(log).expect("appends go on");
}

#[test]
fn a_manifest_that_cannot_be_written_makes_no_log() {
    let mut machine = Machine::new();
    machine.fail(When::VerbOnPath(Verb::Write, "manifest".to_owned()), Errno::IO, Times::Once);
    let failed = machine.log("a").expect_err("its edit is not durable");
    assert!(matches!(&failed, LogError::Manifest(source) if source.errno == Errno::IO), "{failed}");
    assert_eq!(machine.log("b").expect_err("until the store is opened again"), failed);
}

#[test]
fn a_disk_that_fails_while_opening_is_named() {
    let world = SimWorld::new(1);
    world.inject(Fault { when: When::Verb(Verb::Write), what: What::Errno(Errno::ROFS), times: Times::Forever });
    let refused = Machine::open(world).err().expect("nothing can be written");
    assert!(matches!(&refused, OpenError::Disk(error) if error.errno == Errno::ROFS), "{refused}");
}

#[test]
fn a_shard_that_goes_answers_whoever_waits_for_a_log() {
    let machine = Machine::new();
    let (answer, pending) = pair();
    let log = LogId { topic: Topic::new("a").expect("a topic"), range: RangeNumber::default() };
    machine.queue.push(Command::OpenLog {
        log,
        options: strandline::LogOptions::default(),
        answer,
        admitted: machine.queue.admit(0).expect("room"),
    });
    machine.queue.abandon();
    drop(machine);
    assert_eq!(pending.wait().expect_err("it is gone"), LogError::ShardGone);
}

#[test]
fn a_panic_while_opening_is_an_error_of_opening() {
    let place = crate::common::place();
    let refused =
        Store::open(Config { sabotage: Some(Sabotage::PanicOnOpen), ..small(place.path()) }).expect_err("it panicked");
    assert!(matches!(&refused, OpenError::ShardGone(text) if text.contains("a deliberate panic")), "{refused}");
    crate::common::open(small(place.path())).close().expect("the lock is free again");
}
