//! The shard: the state of its logs and the loop of its thread. All work happens in turns, and only here does state change.

use super::ahead::Ahead;
use super::command::{Admitted, Command, LogNumber, Queue};
use super::prepare::{PrepareError, Urgency};
use super::read::ReadDone;
use super::stage::{Committed, Staged, refuse_all};
use crate::config::{CheckedConfig, sabotaged};
use crate::error::{AppendError, CloseError, LogError};
use crate::format::manifest::Edit;
use crate::id::{Life, LogId, Offset, Seq, StoreId};
use crate::log::{Log, Queued, Successor};
use crate::manifest::{Manifest, ManifestCommit, ManifestError};
use crate::pending::Answer;
use crate::segment::active::PreparedFile;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use strandline_disk::{Disk, DiskError, Now, Wait};

/// How long the shard sleeps at most without listening for callers while a commit is in flight, in nanoseconds. Under load what
/// arrives then is the next commit anyway, and waking for each append would cost more than it brings.
const DEAF_NS: u64 = 5_000_000;

/// A log that could not get its mark, for want of a buffer, is looked at again after so long, in nanoseconds.
const MARK_RETRY_NS: u64 = 1_000_000;

/// No append is taken by a log that has come so far: what is outstanding then still fits the number range.
const OFFSET_MAX: Offset = Offset(1 << 62);

/// How many commands are taken in one turn, so that none starves what is in flight.
const COMMANDS_A_TURN: usize = 4_096;

/// What comes back of a task.
pub(super) enum Event {
    Committed(Box<Committed>),
    Manifest(ManifestCommit),
    Prepared { log: LogNumber, result: Result<PreparedFile, PrepareError> },
    Sealed { log: LogNumber, segment: Seq, result: Result<(), ManifestError> },
    Announced { log: LogNumber, result: Result<(), ManifestError> },
    Read(Box<ReadDone>),
    LogMade { log: LogId, result: Result<(), ManifestError> },
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// There is more to come.
    Open,
    /// The store was closed; there is nothing left to do.
    Closed,
}

type Task = Pin<Box<dyn Future<Output = Event>>>;

/// One thread's worth of logs on one disk.
pub struct Shard<D: Disk> {
    pub(super) disk: D,
    pub(super) config: Rc<CheckedConfig>,
    pub(super) queue: Arc<Queue>,
    pub(super) store: StoreId,
    pub(super) life: Life,
    pub(super) manifest: Manifest<D>,
    pub(super) logs: Vec<Log<Admitted>>,
    /// What is read ahead, for each log.
    pub(super) aheads: Vec<Ahead>,
    pub(super) numbers: BTreeMap<LogId, LogNumber>,
    /// Logs that are being made, and who asked for them.
    pub(super) logs_in_making: BTreeMap<LogId, Vec<Answer<Result<LogNumber, LogError>>>>,
    /// Logs that have something to stage.
    pub(super) listed: VecDeque<LogNumber>,
    /// Logs that went idle, with the time at which they get their mark.
    pub(super) resting: BTreeSet<(u64, LogNumber)>,
    pub(super) idle_mark_after_ns: u64,
    /// Empty lists for commits, used again.
    pub(super) spare_lists: Vec<Vec<Staged>>,
    /// Closed segments that were opened for reads, the longest open first.
    pub(super) loaded: VecDeque<(LogNumber, Seq)>,
    pub(super) commits_in_flight: usize,
    /// Callers are not listened for while a commit is in flight.
    deaf: bool,
    /// What could not be done cleanly, for the answer to `close`.
    pub(super) unclean: Vec<DiskError>,
    pub(super) now: Now,
    tasks: FuturesUnordered<Task>,
    woken: Arc<Woken>,
    closing: Option<Answer<Result<(), CloseError>>>,
}

/// Remembers that a task was woken.
#[derive(Debug, Default)]
pub struct Woken(AtomicBool);

impl Woken {
    /// Whether a task was woken since this was last asked.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<D: Disk> Shard<D> {
    pub(super) fn new(
        disk: D,
        config: CheckedConfig,
        queue: Arc<Queue>,
        store: StoreId,
        life: Life,
        manifest: Manifest<D>,
        logs: Vec<Log<Admitted>>,
    ) -> Shard<D> {
        let numbers = logs.iter().enumerate().map(|(number, log)| (log.id.clone(), LogNumber(number))).collect();
        let now = disk.now();
        let idle_mark_after_ns = config.idle_mark_after.as_nanos() as u64;
        let count = logs.len();
        let mut shard = Shard {
            disk,
            config: Rc::new(config),
            queue,
            store,
            life,
            manifest,
            aheads: logs.iter().map(|_| Ahead::default()).collect(),
            logs,
            numbers,
            logs_in_making: BTreeMap::new(),
            listed: VecDeque::new(),
            resting: BTreeSet::new(),
            idle_mark_after_ns,
            spare_lists: Vec::new(),
            loaded: VecDeque::new(),
            commits_in_flight: 0,
            deaf: false,
            unclean: Vec::new(),
            now,
            tasks: FuturesUnordered::new(),
            woken: Arc::new(Woken(AtomicBool::new(true))),
            closing: None,
        };
        for number in (0..count).map(LogNumber) {
            shard.logs[number.0].settled_ns = now.boot_ns;
            shard.let_rest(number);
        }
        shard
    }

    /// One turn: take commands, stage and commit, settle what has come back, and let the disk work, waiting when there is
    /// nothing else to do.
    ///
    /// # Errors
    /// The ring itself failed. The shard must be dropped; every waiting caller is then answered.
    pub fn turn(&mut self) -> Result<Turned, DiskError> {
        self.now = self.disk.now();
        self.receive();
        self.mark_resting();
        loop {
            let started = self.stage() | self.stage_manifest();
            let polled = self.run_tasks();
            if !started && !polled {
                break;
            }
        }
        if self.has_closed() {
            return Ok(Turned::Closed);
        }
        self.rest()
    }

    /// Lets the disk work. Says to callers that they must ring before it sleeps, and looks once more for what they queued.
    fn rest(&mut self) -> Result<Turned, DiskError> {
        if self.woken.0.load(Ordering::Relaxed) {
            self.disk.turn(Wait::No)?;
            return Ok(Turned::Open);
        }
        let mut deadline = self.resting.first().map_or(u64::MAX, |(due, _)| *due);
        let waiting = self.commits_in_flight > 0 || !self.listed.is_empty() || self.closing.is_some();
        if waiting {
            // Also a log that waits for a buffer: only a completion gives one back.
            deadline = deadline.min(self.now.boot_ns.saturating_add(DEAF_NS));
        } else {
            self.deaf = false;
        }
        if self.deaf {
            self.disk.turn(Wait::Until(deadline))?;
            return Ok(Turned::Open);
        }
        let doorbell = self.disk.doorbell();
        doorbell.about_to_sleep();
        let wait = match (self.queue.is_empty(), deadline) {
            (false, _) => Wait::No,
            (true, u64::MAX) => Wait::Event,
            (true, deadline) => Wait::Until(deadline),
        };
        let turned = self.disk.turn(wait);
        doorbell.awake();
        // Callers come faster than commits end: until there is no commit in flight, they need not be listened for.
        self.deaf = waiting && !self.queue.is_empty();
        turned.map(|()| Turned::Open)
    }

    pub(super) fn spawn(&mut self, task: impl Future<Output = Event> + 'static) {
        self.tasks.push(Box::pin(task));
        self.woken.0.store(true, Ordering::Relaxed);
    }

    /// Puts a log on the list of those that have something to stage.
    pub(super) fn list(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if !log.listed {
            log.listed = true;
            self.listed.push_back(number);
        }
    }

    fn receive(&mut self) {
        for _ in 0..COMMANDS_A_TURN {
            let Some(command) = self.queue.pop() else { return };
            match command {
                Command::Append { log, batch, answer, admitted } => self.receive_append(log, batch, answer, admitted),
                Command::Read { log, offset, bytes, answer, admitted } => {
                    assert!(!sabotaged!(self.config, PanicOnRead), "a deliberate panic");
                    self.start_read(log, offset, bytes, (answer, admitted));
                }
                Command::OpenLog { log, answer, admitted } => {
                    drop(admitted); // Whoever has the answer finds the room.
                    self.open_log(log, answer);
                }
                Command::Close { answer } => self.closing = Some(answer),
            }
        }
    }

    fn receive_append(
        &mut self,
        log: LogNumber,
        batch: crate::batch::Batch,
        answer: Answer<super::command::AppendAnswer>,
        admitted: Admitted,
    ) {
        let state = &mut self.logs[log.0];
        if state.end > OFFSET_MAX {
            return admitted.answer(answer, Err(AppendError::Exhausted { log: state.id.clone(), what: "offsets" }));
        }
        state.queued.push_back(Queued { batch, answer, admitted });
        self.list(log);
    }

    fn open_log(&mut self, log: LogId, answer: Answer<Result<LogNumber, LogError>>) {
        if let Some(number) = self.numbers.get(&log) {
            return answer.give(Ok(*number));
        }
        if let Some(waiting) = self.logs_in_making.get_mut(&log) {
            return waiting.push(answer);
        }
        let to_come = self.logs_in_making.keys().filter(|log| !self.numbers.contains_key(log)).count();
        if self.logs.len() + to_come >= self.config.logs_max {
            return answer.give(Err(LogError::TooManyLogs { limit: self.config.logs_max }));
        }
        self.logs_in_making.insert(log.clone(), vec![answer]);
        let durable = self.manifest.edits().submit(vec![Edit::LogCreated { log: log.clone() }]);
        // Durable before it is acknowledged: its first segment's edit refers to it.
        self.spawn(async move { Event::LogMade { log, result: durable.await } });
    }

    /// Adds a log that the manifest has just come to know, and makes its first segment. Who asked for it is answered when
    /// that is ready, so that its first appends are as fast as the others.
    pub(super) fn add_log(&mut self, id: LogId) {
        let number = LogNumber(self.logs.len());
        self.logs.push(Log::empty(id.clone()));
        self.aheads.push(Ahead::default());
        self.numbers.insert(id, number);
        self.prepare(number, Urgency::Whole);
    }

    /// Answers those who asked for a log that was being made.
    pub(super) fn answer_makers(&mut self, log: &LogId, result: &Result<LogNumber, LogError>) {
        for answer in self.logs_in_making.remove(log).into_iter().flatten() {
            answer.give(result.clone());
        }
    }

    fn stage_manifest(&mut self) -> bool {
        let Some(commit) = self.manifest.stage() else { return false };
        self.spawn(async move { Event::Manifest(commit.await) });
        true
    }

    /// Polls the tasks that were woken, and settles what they bring. True when any was: also one that brings nothing yet may have
    /// handed an edit in.
    fn run_tasks(&mut self) -> bool {
        let mut polled = false;
        let waker = Waker::from(self.woken.clone());
        while self.woken.take() {
            polled = true;
            let mut context = Context::from_waker(&waker);
            while let Poll::Ready(Some(event)) = self.tasks.poll_next_unpin(&mut context) {
                self.settle(event);
            }
        }
        polled
    }

    /// Gives logs their mark that have rested long enough.
    fn mark_resting(&mut self) {
        while let Some((due, number)) = self.resting.first().copied() {
            if due > self.now.boot_ns && self.closing.is_none() {
                return;
            }
            self.resting.pop_first();
            let log = &mut self.logs[number.0];
            log.resting = false;
            let rested = self.now.boot_ns.saturating_sub(log.settled_ns) >= self.idle_mark_after_ns;
            if log.wants_mark() && (rested || self.closing.is_some()) {
                self.stage_mark(number);
            }
            if self.closing.is_none() {
                self.let_rest(number); // It was busy meanwhile, or there was no buffer for its mark.
            }
        }
    }

    /// Puts a log that wants a mark on the list of those that rest. An entry for each commit instead would end a sleep each.
    pub(super) fn let_rest(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if log.wants_mark() && !log.resting {
            log.resting = true;
            let rested = log.settled_ns.saturating_add(self.idle_mark_after_ns);
            self.resting.insert((rested.max(self.now.boot_ns.saturating_add(MARK_RETRY_NS)), number));
        }
    }

    /// When closing: waits for everything in work, sees to it that each log has its mark, and answers.
    fn has_closed(&mut self) -> bool {
        if self.closing.is_none() {
            return false;
        }
        for number in (0..self.logs.len()).map(LogNumber) {
            let log = &self.logs[number.0];
            if let Successor::Making(making) = &log.successor {
                making.hurry();
            }
            if log.wants_mark() {
                self.stage_mark(number);
            }
        }
        let waiting = self.logs.iter().any(|log| log.committing || !log.queued.is_empty() || log.wants_mark());
        if waiting || !self.tasks.is_empty() || self.manifest.is_busy() || !self.queue.is_empty() {
            return false;
        }
        let latched = self.logs.iter().filter_map(|log| log.latch.as_ref().map(|latch| latch.source.clone()));
        let unclean: Vec<DiskError> = latched.chain(self.unclean.drain(..)).collect();
        let result = match unclean.first() {
            None => Ok(()),
            Some(first) => Err(CloseError::Unclean { logs: unclean.len(), first: first.clone() }),
        };
        if let Some(answer) = self.closing.take() {
            answer.give(result);
        }
        true
    }

    /// Answers everything that waits, before the shard goes because its ring failed.
    pub fn give_up(&mut self, error: &DiskError) {
        tracing::error!(%error, "the ring failed: the shard gives up");
        for log in &mut self.logs {
            refuse_all(log, &AppendError::ShardGone);
        }
    }
}
