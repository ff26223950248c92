//! The shard: the state of its logs and the loop of its thread. All work happens in turns, and only here does state change.

use super::ahead::Ahead;
use super::command::{Admitted, LogAnswer, LogNumber, Queue};
use super::commit::{Durability, Group, Landed, Write};
use super::descriptors::{Descriptors, Pressing, let_successor_go};
use super::flush::Covered;
use super::give_up::Dying;
use super::heal::Healed;
use super::policies::Waiting;
use super::prepare::PrepareError;
use super::read::ReadDone;
use super::rest::RouseError;
use super::rouse::Roused;
use super::seal::{SealError, SealedAs, Seals};
use super::seek::SeekDone;
use super::siblings::Siblings;
use super::tail_budget::TailBudget;
use super::timers::{Timer, Timers};
use super::verb::{Sealed, Verdict};
use super::verbs::{Finish, Verbs};
use super::woken::Woken;
use crate::config::{CheckedConfig, LogOptions, SyncMode, sabotaged};
use crate::error::{AppendError, CloseError};
use crate::id::{Life, LogId, Seq, StoreId};
use crate::log::{self, Log, Logs, Staged, Successor};
use crate::manifest::{Edits, Manifest, ManifestCommit, ManifestError};
use crate::pending::{Answer, Wakes};
use crate::removal::syncs::Syncs;
use crate::segment::active::PreparedFile;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use strandline_disk::{Disk, DiskError, Now, Wait};

/// How long the shard sleeps at most without listening for callers while a commit is in flight, in nanoseconds. Under load what
/// arrives then is the next commit anyway, and waking for each append would cost more than it brings.
const DEAF_NS: u64 = 5_000_000;

/// A log that could not get its mark, for want of a buffer, is looked at again after so long, in nanoseconds.
const MARK_RETRY_NS: u64 = 1_000_000;

/// What comes back of a task.
pub(super) enum Event<D: Disk> {
    Landed {
        landed: Landed,
        group: Option<u64>,
    },
    Flushed {
        covered: Vec<Covered>,
        barrier: bool,
        started_ns: u64,
        result: Result<(), DiskError>,
    },
    Manifest(ManifestCommit),
    Prepared {
        log: LogNumber,
        result: Result<PreparedFile, PrepareError>,
    },
    Sealed {
        log: LogNumber,
        segment: Seq,
        result: Result<SealedAs, SealError>,
    },
    Announced {
        log: LogNumber,
        result: Result<(), ManifestError>,
    },
    Read(Box<ReadDone>),
    LogMade {
        log: LogId,
        result: Result<(), ManifestError>,
    },
    /// A log that rested was roused.
    Roused {
        log: LogNumber,
        result: Result<Option<Box<Roused>>, RouseError>,
    },
    /// The head of a log that had met a full disk was looked at.
    Healed {
        log: LogNumber,
        result: Result<Healed, DiskError>,
    },
    /// A segment is valid at a smaller size, and the manifest knows that.
    Shrunk {
        log: LogNumber,
        segment: Seq,
        size: u64,
        result: Verdict<(strandline_disk::File, u64)>,
    },
    /// A shrunk file was cut.
    Cut(Result<(), DiskError>),
    /// Work that belongs to no log is done.
    Done(Finish<D>),
    /// The part of a verb that waits for the disk is done.
    Verb {
        log: LogNumber,
        finish: Finish<D>,
    },
    /// Files that were given up have left the shard.
    Left,
    /// A segment was searched for a time.
    Sought(Box<SeekDone>),
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// There is more to come.
    Open,
    /// The store was closed; there is nothing left to do.
    Closed,
}

type Task<D> = Pin<Box<dyn Future<Output = Event<D>>>>;

/// Who waits for a segment to be sealed, and how many offsets were dropped first.
pub(super) type Sealing = (u64, Answer<Verdict<Sealed>>);

/// One thread's worth of logs on one disk.
pub struct Shard<D: Disk> {
    pub(super) disk: D,
    pub(super) config: Rc<CheckedConfig>,
    pub(super) queue: Arc<Queue>,
    pub(super) store: StoreId,
    pub(super) life: Life,
    /// Where edits are handed in to the shard that keeps the manifest.
    pub(super) edits: Edits,
    /// The manifest, where this is that shard.
    pub(super) manifest: Option<Manifest<D>>,
    pub(super) logs: Logs<Admitted>,
    /// Logs that were deleted and that somebody may still ask for.
    pub(super) dying: VecDeque<Dying>,
    /// What is read ahead.
    pub(super) ahead: Ahead,
    pub(super) numbers: BTreeMap<LogId, LogNumber>,
    /// Logs that are being made, and who asked for them.
    pub(super) logs_in_making: BTreeMap<LogId, (LogOptions, Vec<Answer<LogAnswer>>)>,
    /// Logs that have something to stage.
    pub(super) listed: VecDeque<LogNumber>,
    /// What has to be looked at later.
    pub(super) timers: Timers,
    pub(super) idle_mark_after_ns: u64,
    /// How what is written becomes durable.
    pub(super) durability: Durability,
    /// Writes that were started and have not landed.
    pub(super) flights: usize,
    pub(super) next_flight: u64,
    /// Logs that have a durable write of their own among them.
    pub(super) singles: usize,
    /// A log waits for room to start its first write: those that have one in flight start no further one.
    pub(super) crowded: bool,
    /// Writes that wait for a barrier together.
    pub(super) groups: Vec<Group>,
    /// Logs whose writes are to be flushed.
    pub(super) flush_list: Vec<LogNumber>,
    pub(super) barrier_in_flight: bool,
    /// Changes of policies that wait for the one before.
    pub(super) policies: Rc<Waiting>,
    /// What all shards share, and how many of the failed flushes this one has heeded.
    pub(super) siblings: Arc<Siblings>,
    pub(super) seen_failures: u64,
    /// Syncs of directories that many tasks wait for.
    pub(super) syncs: Syncs,
    /// Verbs that wait for their turn.
    pub(super) verbs: Verbs,
    /// Segments that were sealed far from full, and the sizes that would do; and the one that is being shrunk: it is not given up
    /// meanwhile.
    pub(super) to_shrink: VecDeque<(LogNumber, Seq, u64)>,
    pub(super) shrinking: Option<(LogNumber, Seq)>,
    /// Who waits for a segment to be sealed.
    pub(super) seals: Seals,
    /// What the tail caches take.
    pub(super) tail_budget: TailBudget,
    /// Empty lists, used again.
    pub(super) spare_lists: Vec<Vec<Staged<Admitted>>>,
    pub(super) answers: Vec<Staged<Admitted>>,
    pub(super) wakes: Wakes,
    pub(super) writes: Vec<Write>,
    /// Closed segments that were opened for reads. Some may be closed again.
    pub(super) loaded: Vec<(LogNumber, Seq)>,
    /// What may be open, and how it goes with those who wait for room.
    pub(super) descriptors: Descriptors,
    pub(super) pressing: Pressing,
    /// Callers are not listened for while a commit is in flight.
    deaf: bool,
    /// An append was answered at once: the next one will want the same.
    pub(super) must_hear: bool,
    /// Appends that were answered since it gathered last, and for how long it gathers, in nanoseconds.
    pub(super) answered: usize,
    gather_ns: u64,
    /// How long it looks for work before it sleeps, in nanoseconds.
    spin_ns: u64,
    /// What could not be done cleanly, for the answer to `close`.
    pub(super) unclean: Vec<DiskError>,
    pub(super) now: Now,
    tasks: FuturesUnordered<Task<D>>,
    woken: Arc<Woken>,
    pub(super) closing: Option<Answer<Result<(), CloseError>>>,
}

impl<D: Disk> Shard<D> {
    pub(super) fn new(
        disk: D,
        config: CheckedConfig,
        queue: Arc<Queue>,
        (store, life): (StoreId, Life),
        (edits, manifest): (Edits, Option<Manifest<D>>),
        siblings: Arc<Siblings>,
        logs: Vec<Log<Admitted>>,
    ) -> Shard<D> {
        let numbers = logs.iter().enumerate().map(|(number, log)| (log.id.clone(), LogNumber(number))).collect();
        let (now, idle_mark_after_ns) = (disk.now(), config.idle_mark_after.as_nanos() as u64);
        let durability = Durability { mode: config.sync, barrier: may_use_barriers(&config, &disk) };
        let (tail_budget, woken) = (TailBudget::new(config.tail_cache_bytes), Woken::new(true, disk.doorbell()));
        // Half of what may be lent: the other half is for those who have what they asked for.
        let ahead = Ahead::new(disk.pool().largest() / 4);
        let descriptors = Descriptors::new(disk.handles(), config.descriptors_of_a_shard());
        let mut shard = Shard {
            disk,
            config: Rc::new(config),
            queue,
            store,
            life,
            edits,
            manifest,
            ahead,
            logs: Logs::new(logs),
            dying: VecDeque::new(),
            numbers,
            logs_in_making: BTreeMap::new(),
            listed: VecDeque::new(),
            timers: Timers::default(),
            idle_mark_after_ns,
            durability,
            flights: 0,
            next_flight: 0,
            singles: 0,
            crowded: false,
            groups: Vec::new(),
            flush_list: Vec::new(),
            barrier_in_flight: false,
            policies: Rc::default(),
            siblings,
            seen_failures: 0,
            syncs: Syncs::default(),
            verbs: Verbs::new(),
            to_shrink: VecDeque::new(),
            shrinking: None,
            seals: Seals::default(),
            tail_budget,
            spare_lists: Vec::new(),
            answers: Vec::new(),
            wakes: Wakes::default(),
            writes: Vec::new(),
            loaded: Vec::new(),
            descriptors,
            pressing: Pressing::default(),
            deaf: false,
            must_hear: false,
            answered: 0,
            gather_ns: 0,
            spin_ns: 0,
            unclean: Vec::new(),
            now,
            tasks: FuturesUnordered::new(),
            woken,
            closing: None,
        };
        shard.begin();
        shard
    }

    /// Counts all logs that were recovered, and sets their first timers.
    fn begin(&mut self) {
        self.siblings.found_logs(self.logs.len());
        for number in (0..self.logs.len()).map(LogNumber) {
            self.logs[number.0].settled_ns = self.now.boot_ns;
            self.let_rest(number);
            self.watch_age(number);
            self.close_later(number);
            self.release_below_the_start(number); // A crash may have come between a trim and that.
        }
    }

    /// One turn: take commands, stage and commit, settle what has come back, and let the disk work, waiting when there is
    /// nothing else to do.
    ///
    /// # Errors
    /// The ring itself failed. The shard must be dropped; every waiting caller is then answered.
    pub fn turn(&mut self) -> Result<Turned, DiskError> {
        self.now = self.disk.now();
        // Before anything that was answered beside it is taken up.
        if let Some(source) = self.disk.take_failed_flush() {
            self.heed_disk_failure(&source);
        }
        let _ = self.receive();
        self.look_at_timers();
        loop {
            self.gather();
            let started = self.stage() | self.start_flushes() | self.stage_manifest() | self.make_way();
            let polled = self.run_tasks();
            if !started && !polled {
                break;
            }
        }
        if self.has_closed() {
            return Ok(Turned::Closed);
        }
        self.bury();
        self.rest()
    }

    /// Lets the disk work. Says to callers that they must ring before it sleeps, and looks once more for what they queued.
    fn rest(&mut self) -> Result<Turned, DiskError> {
        if self.woken.is_set() {
            self.disk.turn(Wait::No)?;
            return Ok(Turned::Open);
        }
        let mut deadline = self.timers.next_ns().min(self.presses_at_ns());
        self.queue.counters.descriptors.store(self.descriptors.count().0 as u64, Ordering::Relaxed);
        let waiting = self.flights > 0 || self.barrier_in_flight || !self.listed.is_empty() || self.closing.is_some();
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
        if self.spin_ns > 0 && waiting && self.spins()? {
            return Ok(Turned::Open);
        }
        let doorbell = self.disk.doorbell();
        doorbell.about_to_sleep();
        // Looked at once more now that whoever brings something rings: callers, other shards with edits, and those that answer ours.
        let nothing = self.queue.is_empty() && !self.woken.is_set() && !self.has_edits();
        let wait = match (nothing, deadline) {
            (false, _) => Wait::No,
            (true, u64::MAX) => Wait::Event,
            (true, deadline) => Wait::Until(deadline),
        };
        let turned = self.disk.turn(wait);
        doorbell.awake();
        // Callers come faster than commits end: until there is no commit in flight, they need not be listened for.
        self.deaf = waiting && !self.queue.is_empty() && !std::mem::take(&mut self.must_hear);
        turned.map(|()| Turned::Open)
    }

    /// Looks for work for a moment before it sleeps: a sleep and its end cost more. True when there is some.
    fn spins(&mut self) -> Result<bool, DiskError> {
        let until_ns = self.disk.now().boot_ns.saturating_add(self.spin_ns);
        while self.disk.now().boot_ns < until_ns {
            self.disk.turn(Wait::No)?;
            if !self.queue.is_empty() || self.woken.is_set() {
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        Ok(false)
    }

    /// Lets the shard spin before it sleeps. Only where a core is left for it.
    pub fn spin(&mut self, duration: std::time::Duration) {
        self.spin_ns = duration.as_nanos() as u64;
    }

    /// Lets the shard wait for callers to come back, which takes a clock that goes on by itself.
    pub fn gather_for(&mut self, duration: std::time::Duration) {
        self.gather_ns = duration.as_nanos() as u64;
    }

    /// Callers who were answered together mostly come back together: gives them a moment, and the core when they need it.
    fn gather(&mut self) {
        let answered = std::mem::take(&mut self.answered);
        if answered < 2 || self.gather_ns == 0 || self.closing.is_some() {
            return;
        }
        let (until_ns, mut taken) = (self.disk.now().boot_ns.saturating_add(self.gather_ns), 0);
        loop {
            taken += self.receive();
            if taken >= answered - answered / 4 || self.disk.now().boot_ns >= until_ns {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn has_edits(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.is_busy() && !manifest.is_committing())
    }

    pub(super) fn spawn(&mut self, task: impl Future<Output = Event<D>> + 'static) {
        self.tasks.push(Box::pin(task));
        self.woken.set();
    }

    /// As `spawn`, for work that will change what the manifest says of a log: verbs wait for its end.
    pub(super) fn spawn_background(&mut self, number: LogNumber, task: impl Future<Output = Event<D>> + 'static) {
        self.logs[number.0].tasks += 1;
        self.spawn(task);
    }

    /// Puts a log on the list of those that have something to stage.
    pub(super) fn list(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if !log.listed {
            log.listed = true;
            self.listed.push_back(number);
        }
    }

    fn stage_manifest(&mut self) -> bool {
        let Some(commit) = self.manifest.as_mut().and_then(Manifest::stage) else { return false };
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

    /// Looks at what is due.
    fn look_at_timers(&mut self) {
        let mut marks = std::mem::take(&mut self.writes);
        while let Some((timer, number)) = self.timers.pop(self.now.boot_ns) {
            if timer == Timer::Age {
                self.start(&mut marks); // A segment that is rolled has no mark left to be written.
            }
            match timer {
                Timer::Mark => marks.extend(self.mark_is_due(number)),
                Timer::Flush => self.flush_is_due(number),
                Timer::Linger => self.list(number),
                Timer::Sleep => self.sleep_is_due(number),
                Timer::Age => self.age_is_due(number),
                Timer::Close => self.close_is_due(number),
                Timer::Again => self.again_is_due(number),
            }
        }
        self.start(&mut marks);
        self.writes = marks;
    }

    /// Gives a log its mark that has rested long enough.
    fn mark_is_due(&mut self, number: LogNumber) -> Option<Write> {
        let log = &self.logs[number.0];
        if log.lacks_mark_asleep() && log::is_quiet(log) {
            self.rouse_for_its_mark(number); // It was let go of before it had one.
            return None;
        }
        let rested = self.now.boot_ns.saturating_sub(log.settled_ns) >= self.idle_mark_after_ns;
        let mark = if log.wants_mark() && rested { self.lay_mark(number) } else { None };
        if mark.is_some() {
            self.sleep_later(number);
            if self.config.idle_close_after.is_some() {
                let_successor_go(&mut self.logs[number.0]);
            }
        }
        if mark.is_none() {
            self.let_rest(number); // It was busy meanwhile, or there was no buffer for its mark.
        }
        mark
    }

    /// Has a log looked at when it has rested long enough for its mark. An entry for each commit instead would end a sleep each.
    pub(super) fn let_rest(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        if log.wants_mark() || log.lacks_mark_asleep() {
            let rested = log.settled_ns.saturating_add(self.idle_mark_after_ns);
            let due_ns = rested.max(self.now.boot_ns.saturating_add(MARK_RETRY_NS));
            self.timers.set(number, Timer::Mark, due_ns);
        }
    }

    /// When closing: waits for everything in work, sees to it that each log is durable and has its mark, and answers.
    fn has_closed(&mut self) -> bool {
        if self.closing.is_none() {
            return false;
        }
        let mut marks = std::mem::take(&mut self.writes);
        for number in (0..self.logs.len()).map(LogNumber) {
            let log = &self.logs[number.0];
            if let Successor::Making(making) = &log.successor {
                making.hurry();
            }
            if log.wants_mark() {
                marks.extend(self.lay_mark(number));
            } else if log.has_unflushed() && !log.flushing {
                self.want_flush(number);
            }
        }
        self.start(&mut marks);
        self.writes = marks;
        let works = |log: &Log<Admitted>| {
            log.is_exposed() && log.latch.is_none()
                || !log.flights.is_empty()
                || !log.queued.is_empty()
                || log.wants_mark()
        };
        let waiting = self.logs.iter().any(works)
            || !self.flush_list.is_empty()
            || self.verbs.values().any(|verbs| !verbs.is_empty());
        let manifest_is_busy = self.manifest.as_ref().is_some_and(Manifest::is_busy);
        if waiting || !self.tasks.is_empty() || manifest_is_busy || !self.queue.is_empty() {
            return false;
        }
        let mut edits = false;
        for number in (0..self.logs.len()).map(LogNumber) {
            edits |= self.let_sleep(number);
        }
        if edits {
            return false; // The manifest hears which logs are clean: the next open looks at none of them.
        }
        let latched = self.logs.iter().filter_map(|log| log.latch.as_ref().map(|latch| latch.source.clone()));
        let unsealed = self.seals.failed.iter().filter_map(|((number, segment), error)| {
            self.logs[number.0].closed_at(*segment).map(|closed| error.source(&closed.id))
        });
        let unclean: Vec<DiskError> = latched.chain(unsealed).chain(self.unclean.drain(..)).collect();
        let result = match unclean.first() {
            None => Ok(()),
            Some(first) => Err(CloseError::Unclean { logs: unclean.len(), first: first.clone() }),
        };
        self.logs.iter().for_each(|log| log.shared.close());
        if let Some(answer) = self.closing.take() {
            answer.give(result);
        }
        true
    }

    /// Answers everything that waits, before the shard goes because its ring failed.
    pub fn give_up(&mut self, error: &DiskError) {
        tracing::error!(%error, "the ring failed: the shard gives up");
        for number in (0..self.logs.len()).map(LogNumber) {
            self.refuse_all(number, &AppendError::ShardGone);
        }
    }
}

impl<D: Disk> Drop for Shard<D> {
    fn drop(&mut self) {
        // Whoever holds a log asks from now on, and is told.
        self.logs.iter().for_each(|log| log.shared.close());
    }
}

/// Whether one barrier may stand for several files.
fn may_use_barriers<D: Disk>(config: &CheckedConfig, disk: &D) -> bool {
    let wanted = matches!(config.sync, SyncMode::Auto | SyncMode::Barrier);
    wanted && (disk.capabilities().barrier.allowed || sabotaged!(config, BarrierForAll))
}
