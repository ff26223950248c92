//! A living process: a shard that was opened, and what was asked of it and not answered yet.

use super::violation::{Checked, broken};
use std::collections::BTreeMap;
use std::sync::Arc;
use strandline::batch::Batch;
use strandline::config::CheckedConfig;
use strandline::pending::{Pending, pair};
use strandline::shard::command::{AppendAnswer, Command, DurableAnswer, LogAnswer, LogNumber, Queue, Refused};
use strandline::shard::{self, Shard};
use strandline::{CloseError, Level, LogId, LogOptions, Offset, OpenError, OpenReport, ReadAnswer, Receipt};
use strandline_disk::sim::SimDisk;
use strandline_disk::{Disk, Wait};

/// How many turns anything may take before it counts as hanging.
pub const TURNS_MAX: usize = 200_000;

/// An append that was handed over.
#[derive(Debug)]
pub struct AskedAppend {
    /// Its log in the model.
    pub log: usize,
    /// Its number.
    pub serial: u64,
    /// Where the answer comes.
    pub answer: Pending<AppendAnswer>,
}

/// A read that was asked for.
#[derive(Debug)]
pub struct AskedRead {
    /// Its log in the model.
    pub log: usize,
    /// From where.
    pub offset: Offset,
    /// What was known to be durable when it was asked.
    pub end: Offset,
    /// It may also give what is not durable yet.
    pub past_durable: bool,
    /// Where the answer comes.
    pub answer: Pending<ReadAnswer>,
}

/// A wait for durability.
#[derive(Debug)]
pub struct AskedDurable {
    /// Its log in the model.
    pub log: usize,
    /// One past the last offset that is waited for.
    pub end: Offset,
    /// Where the answer comes.
    pub answer: Pending<DurableAnswer>,
}

/// A log that is being opened.
#[derive(Debug)]
pub struct AskedLog {
    /// Its number in the model.
    pub log: usize,
    /// Where the answer comes.
    pub answer: Pending<LogAnswer>,
}

/// A shard in its process.
pub struct Running {
    /// The disk.
    pub disk: SimDisk,
    /// The shard.
    pub shard: Shard<SimDisk>,
    /// The way in.
    pub queue: Arc<Queue>,
    /// What opening found.
    pub report: OpenReport,
    /// The numbers of the logs that were opened, by their place in the model.
    pub numbers: BTreeMap<usize, LogNumber>,
    /// Appends not answered yet, in the order in which they were handed over.
    pub appends: Vec<AskedAppend>,
    /// Reads not answered yet.
    pub reads: Vec<AskedRead>,
    /// Logs that are being opened.
    pub opening: Vec<AskedLog>,
    /// Waits for durability.
    pub durable: Vec<AskedDurable>,
    /// The last receipt of each log.
    pub receipts: BTreeMap<usize, Receipt>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Running({:?}, {} asked)", self.disk, self.asked())
    }
}

/// How an attempt to open ended.
#[derive(Debug)]
pub enum Opening {
    /// The shard serves.
    Serves(Box<Running>),
    /// The turns that were allowed are over.
    Stopped,
    /// It was refused.
    Refused(OpenError),
}

/// Opens a store on `disk`. Stops after `turns`; calls `seen` after each.
///
/// # Errors
/// When it hangs, or when `seen` says so.
pub fn open(
    disk: SimDisk,
    config: &CheckedConfig,
    turns: Option<usize>,
    mut seen: impl FnMut() -> Checked,
) -> Checked<Opening> {
    let queue = Queue::new(config, disk.doorbell());
    let mut opening = Box::pin(shard::open(disk.clone(), config.clone(), queue.clone()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for turn in 0..TURNS_MAX {
        match opening.as_mut().poll(&mut context) {
            std::task::Poll::Pending => {}
            std::task::Poll::Ready(Err(error)) => return Ok(Opening::Refused(error)),
            std::task::Poll::Ready(Ok((shard, report))) => {
                let (numbers, appends, reads, opening) = Default::default();
                let (durable, receipts) = Default::default();
                let running =
                    Running { disk, shard, queue, report, numbers, appends, reads, opening, durable, receipts };
                return Ok(Opening::Serves(Box::new(running)));
            }
        }
        if turns == Some(turn) {
            return Ok(Opening::Stopped);
        }
        if disk.in_flight() == 0 {
            return broken("opening never hangs", "it waits and nothing is in flight");
        }
        disk.turn(Wait::Event).expect("a living disk can be turned");
        seen()?;
    }
    broken("opening never hangs", format!("{TURNS_MAX} turns were not enough"))
}

impl Running {
    /// How much was asked and not answered yet.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.appends.len() + self.reads.len() + self.opening.len() + self.durable.len()
    }

    /// Hands a batch over; false when the queue is full.
    pub fn append(&mut self, log: usize, serial: u64, batch: Batch, level: Level) -> bool {
        let admitted = match self.queue.admit(batch.payload().len()) {
            Ok(admitted) => admitted,
            Err(Refused::Overloaded(..) | Refused::Closed) => return false,
        };
        let (answer, pending) = pair();
        self.queue.push(Command::Append { log: self.numbers[&log], batch, level, expected: None, answer, admitted });
        self.appends.push(AskedAppend { log, serial, answer: pending });
        true
    }

    /// Asks for a read; `None` when the queue is full.
    pub fn read(
        &mut self,
        log: usize,
        offset: Offset,
        bytes: usize,
        past_durable: bool,
    ) -> Option<Pending<ReadAnswer>> {
        let admitted = self.queue.admit(0).ok()?;
        let (answer, pending) = pair();
        self.queue.push(Command::Read { log: self.numbers[&log], offset, bytes, past_durable, answer, admitted });
        Some(pending)
    }

    /// Waits for the last receipt of a log to become durable; `None` when there is none, or the queue is full.
    pub fn until_durable(&mut self, log: usize, now: bool) -> Option<AskedDurable> {
        let receipt = *self.receipts.get(&log)?;
        let admitted = self.queue.admit(0).ok()?;
        let (answer, pending) = pair();
        self.queue.push(Command::UntilDurable { log: self.numbers[&log], receipt, now, answer, admitted });
        Some(AskedDurable { log, end: receipt.end, answer: pending })
    }

    /// Asks for a log; `None` when the queue is full.
    pub fn open_log(&mut self, id: LogId) -> Option<Pending<LogAnswer>> {
        let admitted = self.queue.admit(0).ok()?;
        let (answer, pending) = pair();
        self.queue.push(Command::OpenLog { log: id, options: LogOptions::default(), answer, admitted });
        Some(pending)
    }

    /// Asks the shard to close.
    pub fn close(&mut self) -> Pending<Result<(), CloseError>> {
        let (answer, pending) = pair();
        self.queue.close();
        self.queue.push(Command::Close { answer });
        pending
    }
}
