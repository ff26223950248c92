//! A living process: the shards that were opened, and what was asked of them and not answered yet.

use super::model::Model;
use super::random::Random;
use super::violation::{Checked, broken};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use strandline::batch::Batch;
use strandline::config::CheckedConfig;
use strandline::format::checksum::crc32c;
use strandline::pending::{Pending, pair};
use strandline::removal::exchange::Removed;
use strandline::removal::inbox::Inbox;
use strandline::removal::pressure::{Pressure, Stage};
use strandline::removal::remover::{Remover, Settings};
use strandline::removal::scrubber::ScrubAsked;
use strandline::shard::clock::StoreClock;
use strandline::shard::command::{
    AppendAnswer, Command, DurableAnswer, LogAnswer, LogNumber, OpenedLog, Queue, Refused,
};
use strandline::shard::verb::{Verb, Verdict};
use strandline::shard::{self, Opened, Shard, Share, Siblings, Turned};
use strandline::{
    CloseError, Level, LogId, LogInfo, Offset, OpenError, OpenReport, Receipt, ScrubCursor, Sealed, Truncated, Verified,
};
use strandline_disk::sim::{SimDisk, SimWorld};
use strandline_disk::{Disk, DiskError, Wait};

/// How many turns anything may take before it counts as hanging.
pub const TURNS_MAX: usize = 200_000;

/// An append that was handed over.
#[derive(Debug)]
pub struct AskedAppend {
    /// Its log in the model.
    pub log: usize,
    /// Its number.
    pub serial: u64,
    /// It was to start here.
    pub expected: Option<Offset>,
    /// A fence or a truncation may keep it out.
    pub may_be_refused: bool,
    /// The log had been fenced, and nobody had asked to end that.
    pub must_be_refused: bool,
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
    /// What had been taken away by then.
    pub version: u64,
    /// Where the answer comes.
    pub answer: strandline::Reading,
}

/// A wait for durability.
#[derive(Debug)]
pub struct AskedDurable {
    /// Its log in the model.
    pub log: usize,
    /// One past the last offset that is waited for.
    pub end: Offset,
    /// What had been taken away by then.
    pub version: u64,
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

/// A verb that was asked for.
#[derive(Debug)]
pub struct AskedVerb {
    /// Its log in the model.
    pub log: usize,
    /// What was sent before it has smaller numbers.
    pub serial: u64,
    /// How many changes of the model it makes.
    pub changes: usize,
    /// Where the answer comes.
    pub answer: VerbAnswer,
}

/// Where the answer of a verb comes.
#[derive(Debug)]
pub enum VerbAnswer {
    /// Of a truncation.
    Truncate(Pending<Verdict<Truncated>>),
    /// Of a trim.
    Trim(Pending<Verdict<Offset>>),
    /// Of a seal, at an offset or not.
    Seal(Pending<Verdict<Sealed>>),
    /// Of a fence.
    Fence(Pending<Verdict<Offset>>),
    /// Of the end of one.
    Unfence(Pending<Verdict<()>>),
    /// Of the deletion of a log.
    Delete(Pending<Verdict<()>>),
    /// Of the deletion of a segment.
    DeleteSegment(Pending<Verdict<()>>),
    /// Of statistics.
    Stats(Pending<Verdict<LogInfo>>),
    /// Of a verification.
    Verify(Pending<Verdict<Verified>>),
    /// Of an index that is built again.
    RebuildIndex(Pending<Verdict<()>>),
}

/// The shards of a store in their process.
pub struct Running {
    /// The disks, one for each shard, and the one of the remover.
    pub disks: Vec<SimDisk>,
    /// The shards; none where one was closed.
    pub shards: Vec<Option<Shard<SimDisk>>>,
    /// The ways in.
    pub queues: Vec<Arc<Queue>>,
    /// What opening found.
    pub report: OpenReport,
    /// The logs that were opened, by their place in the model.
    pub opened: BTreeMap<usize, (usize, OpenedLog)>,
    /// Appends not answered yet, in the order in which they were handed over.
    pub appends: Vec<AskedAppend>,
    /// Reads not answered yet.
    pub reads: Vec<AskedRead>,
    /// Logs that are being opened.
    pub opening: Vec<AskedLog>,
    /// Waits for durability.
    pub durable: Vec<AskedDurable>,
    /// Verbs not answered yet, in the order in which they were asked for.
    pub verbs: Vec<AskedVerb>,
    /// The last receipt of each log.
    pub receipts: BTreeMap<usize, Receipt>,
    /// What removes files, while it does.
    remover: Option<Removing>,
    /// What the shards share.
    siblings: Arc<Siblings>,
    /// In which order the shards take their turns.
    order: Random,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Running({:?}, {} asked, verbs {:?})", self.disks, self.asked(), self.verbs)
    }
}

/// How an attempt to open ended.
#[derive(Debug)]
pub enum Opening {
    /// The store serves.
    Serves(Box<Running>),
    /// The turns that were allowed are over.
    Stopped,
    /// It was refused.
    Refused(OpenError),
}

/// Which shard a log belongs to, as a store spreads them.
#[must_use]
pub fn shard_of(log: &LogId, shards: usize) -> usize {
    crc32c(log.topic.as_bytes()).wrapping_add(log.range.get()) as usize % shards.max(1)
}

type Removing = Pin<Box<dyn Future<Output = Result<(), strandline::error::ManifestError>>>>;

type Work<T> = Pin<Box<dyn Future<Output = Result<T, OpenError>>>>;

/// A shard on its way.
enum Part {
    Opens(Work<(Shard<SimDisk>, OpenReport)>),
    Open(Box<Shard<SimDisk>>),
}

/// Opens a store on `world`, with a disk for each shard. Stops after `turns`; calls `seen` after each.
///
/// # Errors
/// When it hangs, or when `seen` says so.
pub fn open(
    world: &SimWorld,
    config: &CheckedConfig,
    turns: Option<usize>,
    mut seen: impl FnMut() -> Checked,
) -> Checked<Opening> {
    let disks: Vec<SimDisk> = (0..=config.shards).map(|_| world.open()).collect();
    let queues: Vec<Arc<Queue>> =
        disks.iter().take(config.shards).map(|disk| Queue::new(config, disk.doorbell())).collect();
    let mut order = Random::new(world.operations());
    let mut reading: Option<Work<Opened<SimDisk>>> = {
        let (disk, config) = (disks[0].clone(), config.clone());
        Some(Box::pin(async move { shard::open_manifest(&disk, &config).await }))
    };
    let (mut parts, mut remover, mut report): (Vec<Part>, _, _) = (Vec::new(), None, OpenReport::default());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut quiet = 0;
    for turn in 0..TURNS_MAX {
        if let Some(work) = reading.as_mut() {
            match work.as_mut().poll(&mut context) {
                std::task::Poll::Pending => {}
                std::task::Poll::Ready(Err(error)) => return Ok(Opening::Refused(error)),
                std::task::Poll::Ready(Ok(opened)) => {
                    reading = None;
                    let siblings = opened.siblings.clone();
                    siblings.give(opened.released.clone());
                    remover = Some((removing(&opened, &disks[config.shards], config), siblings));
                    report.absorb(opened.report.clone());
                    parts = spread(opened, &disks[..config.shards], &queues, config);
                }
            }
        }
        for place in shuffled(&mut order, parts.len()) {
            let Part::Opens(work) = &mut parts[place] else { continue };
            match work.as_mut().poll(&mut context) {
                std::task::Poll::Pending => {}
                std::task::Poll::Ready(Err(error)) => return Ok(Opening::Refused(error)),
                std::task::Poll::Ready(Ok((shard, part))) => {
                    report.absorb(part);
                    parts[place] = Part::Open(Box::new(shard));
                }
            }
        }
        let still = |part: &Part| matches!(part, Part::Opens(_));
        if reading.is_none() && !parts.iter().any(still) {
            let open = |part| match part {
                Part::Open(shard) => Some(*shard),
                Part::Opens(_) => None,
            };
            let shards = parts.into_iter().map(open).collect();
            let remover = remover.expect("the manifest was read");
            return Ok(Opening::Serves(Box::new(Running::new((disks, queues), shards, remover, report, order))));
        }
        if turns == Some(turn) {
            return Ok(Opening::Stopped);
        }
        quiet = if disks.iter().all(|disk| disk.in_flight() == 0) { quiet + 1 } else { 0 };
        if quiet > 4 * disks.len() {
            return broken("opening never hangs", "it waits and nothing is in flight");
        }
        for place in shuffled(&mut order, disks.len()) {
            match parts.get_mut(place) {
                Some(Part::Open(shard)) => drop(shard.turn().expect("a living disk can be turned")),
                _ => disks[place].turn(Wait::Event).expect("a living disk can be turned"),
            }
            seen()?;
        }
    }
    broken("opening never hangs", format!("{TURNS_MAX} turns were not enough"))
}

/// What removes files, on a disk of its own.
fn removing(opened: &Opened<SimDisk>, disk: &SimDisk, config: &CheckedConfig) -> Removing {
    let (siblings, exchange) = (opened.siblings.clone(), opened.siblings.removal.clone());
    let alarm = Box::new(move |error: &DiskError| siblings.note_failed_flush(error));
    let manifest = (opened.store, opened.manifest.edits());
    Box::pin(Remover::new(disk.clone(), manifest, exchange, Settings::of(config), alarm).run())
}

/// Hands every shard its share, as the threads of a store do.
fn spread(opened: Opened<SimDisk>, disks: &[SimDisk], queues: &[Arc<Queue>], config: &CheckedConfig) -> Vec<Part> {
    let Opened { manifest, store, life, logs, siblings, .. } = opened;
    let edits = manifest.edits();
    let mut shares: Vec<Vec<_>> = (0..disks.len()).map(|_| Vec::new()).collect();
    for log in logs {
        shares[shard_of(&log.0, disks.len())].push(log);
    }
    let mut manifest = Some(manifest);
    let parts = shares.into_iter().zip(disks).zip(queues).map(|((logs, disk), queue)| {
        let (edits, siblings, manifest) = (edits.clone(), siblings.clone(), manifest.take());
        let share = Share { store, life, edits, manifest, siblings, logs };
        Part::Opens(Box::pin(shard::open_logs(disk.clone(), config.clone(), queue.clone(), share)))
    });
    parts.collect()
}

fn shuffled(random: &mut Random, count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        places.swap(place, random.below(place + 1));
    }
    places
}

impl Running {
    fn new(
        (disks, queues): (Vec<SimDisk>, Vec<Arc<Queue>>),
        shards: Vec<Option<Shard<SimDisk>>>,
        (remover, siblings): (Removing, Arc<Siblings>),
        report: OpenReport,
        order: Random,
    ) -> Running {
        let (opened, appends, reads, opening) = Default::default();
        let (durable, verbs, receipts) = Default::default();
        let remover = Some(remover);
        Running {
            disks,
            shards,
            queues,
            report,
            opened,
            appends,
            reads,
            opening,
            durable,
            verbs,
            receipts,
            remover,
            siblings,
            order,
        }
    }

    /// In which order the shards, and the remover behind them, take their next turns.
    pub fn next_round(&mut self) -> Vec<usize> {
        shuffled(&mut self.order, self.shards.len() + 1)
    }

    /// One turn of one shard, or of the remover.
    ///
    /// # Errors
    /// What its ring answered.
    pub fn turn_shard(&mut self, place: usize) -> Result<Turned, DiskError> {
        match self.shards.get_mut(place) {
            Some(Some(shard)) => shard.turn(),
            Some(None) => Ok(Turned::Closed),
            None => self.turn_remover(),
        }
    }

    fn turn_remover(&mut self) -> Result<Turned, DiskError> {
        let Some(remover) = self.remover.as_mut() else { return Ok(Turned::Closed) };
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if remover.as_mut().poll(&mut context).is_ready() {
            self.remover = None;
            return Ok(Turned::Closed);
        }
        let disk = &self.disks[self.shards.len()];
        // With nothing in flight it sleeps, while time goes by as the shards have it.
        disk.turn(if disk.in_flight() == 0 { Wait::No } else { Wait::Event })?;
        if let Some(error) = disk.take_failed_flush() {
            self.siblings.note_failed_flush(&error);
        }
        Ok(Turned::Open)
    }

    /// Tells the remover to end.
    pub fn close_removal(&self) {
        self.siblings.removal.close();
    }

    /// The shards have nothing to do, and the remover waits to try again what failed.
    #[must_use]
    pub fn only_rests(&self) -> bool {
        let removed = self.removed();
        let shards = self.disks.iter().take(self.shards.len());
        removed.resting > 0 && removed.waiting == removed.resting && shards.map(Disk::in_flight).sum::<usize>() == 0
    }

    /// Nobody has anything to do, and the remover looks again and again how much room there is.
    #[must_use]
    pub fn only_watches(&self) -> bool {
        let short = self.pressure().stage > Stage::Calm;
        let shards = self.disks.iter().take(self.shards.len());
        let idle = shards.map(Disk::in_flight).sum::<usize>() == 0 && self.disks[self.shards.len()].in_flight() <= 1;
        short && idle && self.removed().waiting == 0
    }

    /// What the remover has done, and what is left.
    #[must_use]
    pub fn removed(&self) -> Removed {
        self.siblings.removal.done.removed()
    }

    /// Where segments are put that are to be read again.
    #[must_use]
    pub fn scrubs(&self) -> &Inbox<ScrubAsked> {
        &self.siblings.removal.scrubs
    }

    /// How far the last round of scrubbing has come.
    #[must_use]
    pub fn scrub_cursor(&self) -> Option<ScrubCursor> {
        self.siblings.scrub.cursor()
    }

    /// Whether the wall clock is believed.
    #[must_use]
    pub fn clock(&self) -> &StoreClock {
        &self.siblings.clock
    }

    /// How short of room the disk is, as far as the store knows.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        self.siblings.removal.gauge.read()
    }

    /// Operations in flight on all disks.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.disks.iter().map(Disk::in_flight).sum()
    }

    /// How much was asked and not answered yet.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.appends.len() + self.reads.len() + self.opening.len() + self.durable.len() + self.verbs.len()
    }

    /// Whether a log was opened.
    #[must_use]
    pub fn knows(&self, log: usize) -> bool {
        self.opened.contains_key(&log)
    }

    fn way_to(&self, log: usize) -> (Arc<Queue>, LogNumber) {
        let (shard, opened) = &self.opened[&log];
        (self.queues[*shard].clone(), opened.number)
    }

    /// Hands a batch over; false when the queue is full.
    pub fn append(&mut self, asked: (usize, u64), batch: Batch, level: Level, model: &Model) -> bool {
        self.append_at(asked, batch, (level, None), model)
    }

    /// As `append`; its first record is to get an offset.
    pub fn append_at(
        &mut self,
        (log, serial): (usize, u64),
        batch: Batch,
        (level, expected): (Level, Option<Offset>),
        model: &Model,
    ) -> bool {
        let (queue, number) = self.way_to(log);
        let admitted = match queue.admit(batch.payload().len()) {
            Ok(admitted) => admitted,
            Err(Refused::Overloaded(..) | Refused::Closed) => return false,
        };
        let of_log = model.logs.get(log);
        let asked_for = of_log.is_some_and(|log| !log.changes.is_empty());
        let fenced = of_log.is_some_and(|log| log.fence.is_some());
        let (answer, pending) = pair();
        queue.push(Command::Append { log: number, batch, level, expected, answer, admitted });
        self.appends.push(AskedAppend {
            log,
            serial,
            expected,
            may_be_refused: asked_for || fenced,
            must_be_refused: fenced && !asked_for && expected.is_none(),
            answer: pending,
        });
        true
    }

    /// Asks for a read; `None` when the queue is full.
    pub fn read(
        &mut self,
        log: usize,
        offset: Offset,
        bytes: usize,
        past_durable: bool,
    ) -> Option<strandline::Reading> {
        let (queue, number) = self.way_to(log);
        let admitted = queue.admit(0).ok()?;
        let (answer, pending) = pair();
        queue.push(Command::Read { log: number, offset, bytes, past_durable, answer, admitted });
        Some(strandline::Unfinished::new(pending, strandline::shard::command::verified))
    }

    /// Waits for the last receipt of a log to become durable; `None` when there is none, or the queue is full.
    pub fn until_durable(&mut self, log: usize, now: bool, version: u64) -> Option<AskedDurable> {
        let receipt = *self.receipts.get(&log)?;
        if !self.knows(log) {
            return None;
        }
        let (queue, number) = self.way_to(log);
        let admitted = queue.admit(0).ok()?;
        let (answer, pending) = pair();
        queue.push(Command::UntilDurable { log: number, receipt, now, answer, admitted });
        Some(AskedDurable { log, end: receipt.end, version, answer: pending })
    }

    /// Asks for a log; `None` when the queue is full.
    pub fn open_log(&mut self, id: LogId) -> Option<Pending<LogAnswer>> {
        let queue = &self.queues[shard_of(&id, self.queues.len())];
        let admitted = queue.admit(0).ok()?;
        let (answer, pending) = pair();
        queue.push(Command::OpenLog { log: id, options: strandline::LogOptions::default(), answer, admitted });
        Some(pending)
    }

    /// Asks for the age at which a log's segments are rolled.
    pub fn segment_max_age(&mut self, id: &LogId, age: Option<Duration>) -> Option<Pending<Verdict<()>>> {
        let queue = &self.queues[shard_of(id, self.queues.len())];
        let admitted = queue.admit(0).ok()?;
        let (answer, pending) = pair();
        queue.push(Command::SegmentMaxAge { log: id.clone(), age, answer, admitted });
        Some(pending)
    }

    /// Asks for a verb; false when the queue is full.
    pub fn verb(&mut self, log: usize, verb: Verb) -> bool {
        let (queue, number) = self.way_to(log);
        let Ok(admitted) = queue.admit(0) else { return false };
        queue.push(Command::Verb { log: number, verb, admitted });
        true
    }

    /// Lets nothing more in.
    pub fn close_queues(&self) {
        self.queues.iter().for_each(|queue| queue.close());
    }

    /// Asks one shard to close.
    pub fn close(&mut self, place: usize) -> Pending<Result<(), CloseError>> {
        let (answer, pending) = pair();
        self.queues[place].push(Command::Close { answer });
        pending
    }
}
