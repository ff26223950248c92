//! Serve: the threads of a store, one for each shard. Each opens its own disk, recovers its logs and turns until it is closed.
//!
//! The first one keeps the manifest: it reads it, hands every other shard its logs, and writes what they hand in.

use super::removing::{Removing, Work};
use crate::config::{CheckedConfig, DirectIo, SyncMode};
use crate::error::OpenError;
use crate::id::{LogId, StoreId};
use crate::manifest::{Edits, Manifest, PublishedPolicies};
use crate::shard::command::Queue;
use crate::shard::{self, OpenReport, Opened, Shard, Share, Siblings, Turned, Woken};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use strandline_disk::host::{Backend, DirectMode, DiskCounters, DiskOptions, RootLock};
use strandline_disk::real::RealDisk;
use strandline_disk::{Capabilities, Disk, DiskError, Wait};

/// A shard as the store holds it.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) queue: Arc<Queue>,
    pub(super) disk: Arc<DiskCounters>,
    pub(super) backend: Backend,
    /// What the manifest says of policies, where this shard keeps it.
    pub(super) policies: Option<PublishedPolicies>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// What a shard's thread says when it has opened.
struct Ready {
    queue: Arc<Queue>,
    capabilities: Capabilities,
    report: OpenReport,
    disk: Arc<DiskCounters>,
    backend: Backend,
    policies: Option<PublishedPolicies>,
    store: StoreId,
    edits: Edits,
    siblings: Arc<Siblings>,
}

type Tell = mpsc::SyncSender<Result<Ready, OpenError>>;

/// Everything of a share but the manifest, which stays where it is.
type Part = Share<RealDisk>;

/// What all threads begin with.
#[derive(Clone)]
struct Start {
    config: CheckedConfig,
    lock: Arc<RootLock>,
}

/// Which shard a log belongs to. Any even spread would do: nothing on disk depends on it.
pub(super) fn shard_of(log: &LogId, shards: usize) -> usize {
    let topic = crate::format::checksum::crc32c(log.topic.as_bytes());
    topic.wrapping_add(log.range.get()) as usize % shards.max(1)
}

/// The threads of a store, and what opening found.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) shards: Vec<Served>,
    pub(super) capabilities: Capabilities,
    pub(super) report: OpenReport,
    pub(super) siblings: Arc<Siblings>,
    pub(super) removing: Removing,
    pub(super) lock: Arc<RootLock>,
}

/// Starts the shards, and gives them when all are open. When one does not open, none is left.
pub(super) fn start(config: &CheckedConfig) -> Result<Started, OpenError> {
    let lock = RootLock::acquire(&config.root, config.lock_wait).map_err(|error| OpenError::Setup(Arc::new(error)))?;
    let start = Start { config: config.clone(), lock };
    let mut waiting = Vec::new();
    let mut others = Vec::new();
    let of_all = start.clone();
    for number in 1..config.shards {
        let (give, given) = mpsc::sync_channel::<Handed>(1);
        let start = start.clone();
        waiting.push(spawn(number, move |tell| serve_share(&start, &given, tell))?);
        others.push(give);
    }
    waiting.insert(0, spawn(0, move |tell| serve_manifest(&start, others, tell))?);
    gather(of_all, waiting)
}

/// What the shard that keeps the manifest hands to another one: all of its share, in a form that may change threads.
struct Handed {
    store: StoreId,
    life: crate::id::Life,
    edits: Edits,
    siblings: Arc<Siblings>,
    logs: Vec<(LogId, crate::manifest::state::LogRecord)>,
}

type Waiting = (mpsc::Receiver<Result<Ready, OpenError>>, JoinHandle<()>);

fn spawn(number: usize, serve: impl FnOnce(&Tell) + Send + 'static) -> Result<Waiting, OpenError> {
    let (tell, told) = mpsc::sync_channel(1);
    let guarded = move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| serve(&tell))) {
            let panic = panic_text(&*panic);
            tracing::error!(panic, "a shard's thread panicked: every caller was answered, the store is closed");
            // Heard only by a `Store::open` that still waits.
            let _ = tell.try_send(Err(OpenError::ShardGone(panic)));
        }
    };
    let thread = std::thread::Builder::new().name(format!("strandline-{number}")).spawn(guarded);
    Ok((told, thread.map_err(|error| OpenError::Thread(error.to_string()))?))
}

/// Waits for every shard. The first error wins; the shards that had opened are closed then.
fn gather(Start { config, lock }: Start, waiting: Vec<Waiting>) -> Result<Started, OpenError> {
    let (mut served, mut failed, mut first, mut report) = (Vec::new(), None, None, OpenReport::default());
    for (told, thread) in waiting {
        match told.recv() {
            Ok(Ok(ready)) => {
                report.absorb(ready.report);
                let Ready { queue, disk, backend, policies, capabilities, store, edits, siblings, .. } = ready;
                let (config, lock) = (config.clone(), lock.clone());
                first.get_or_insert((capabilities, Work { config, lock, store, edits, siblings }));
                served.push(Served { queue, disk, backend, policies, thread: Some(thread) });
            }
            Ok(Err(error)) => {
                // The thread ends by itself: it has let go of the lock when this returns.
                let _ = thread.join();
                // A shard that ended because the first one did has less to say than that one.
                failed.get_or_insert(error);
            }
            Err(_) => {
                let _ = thread.join();
                failed.get_or_insert(OpenError::ShardGone("it ended without a word".to_owned()));
            }
        }
    }
    let started = match (failed, first) {
        (None, Some((capabilities, work))) => {
            let siblings = work.siblings.clone();
            Removing::start(work).map(|removing| (capabilities, siblings, removing))
        }
        (failed, _) => Err(failed.unwrap_or_else(|| OpenError::ShardGone("there is no shard".to_owned()))),
    };
    match started {
        Ok((capabilities, siblings, removing)) => {
            Ok(Started { shards: served, capabilities, report, siblings, removing, lock })
        }
        Err(error) => {
            stop(&mut served);
            Err(error)
        }
    }
}

/// Closes shards and waits for their threads: the one that keeps the manifest last, since the others still hand edits in. Gives what
/// each answered.
pub(super) fn stop(served: &mut [Served]) -> Vec<Result<(), crate::error::CloseError>> {
    let mut answers = Vec::new();
    served.iter().for_each(|shard| shard.queue.close());
    for shard in served.iter_mut().rev() {
        let Some(thread) = shard.thread.take() else { continue };
        let (answer, pending) = crate::pending::pair();
        shard.queue.push(crate::shard::command::Command::Close { answer });
        let _ = thread.join();
        answers.push(pending.wait());
    }
    answers
}

/// The thread of the shard that keeps the manifest.
fn serve_manifest(start: &Start, others: Vec<mpsc::SyncSender<Handed>>, tell: &Tell) {
    let Some(disk) = open_disk(start, tell) else { return };
    let config = &start.config;
    let queue = Queue::new(config, disk.doorbell());
    let _closes = CloseOnDrop(queue.clone());
    let opened = match drive(&disk, shard::open_manifest(&disk, config)) {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return drop(tell.send(Err(error))),
        Err(error) => return drop(tell.send(Err(OpenError::Disk(error)))),
    };
    let Opened { manifest, store, life, logs, released, siblings, report } = opened;
    let edits = manifest.edits();
    let mut shares: Vec<Vec<_>> = (0..config.shards).map(|_| Vec::new()).collect();
    for log in logs {
        shares[shard_of(&log.0, config.shards)].push(log);
    }
    for (give, logs) in others.iter().zip(shares.drain(1..)) {
        let (edits, siblings) = (edits.clone(), siblings.clone());
        // One that has failed says so by itself.
        let _ = give.send(Handed { store, life, edits, siblings, logs });
    }
    let logs = shares.pop().unwrap_or_default();
    let share = Share { store, life, edits, manifest: Some(manifest), siblings, logs };
    share.siblings.give(released);
    recover_and_run(&disk, config, queue, share, report, tell);
}

/// The thread of any other shard.
fn serve_share(start: &Start, given: &mpsc::Receiver<Handed>, tell: &Tell) {
    let Some(disk) = open_disk(start, tell) else { return };
    let queue = Queue::new(&start.config, disk.doorbell());
    let _closes = CloseOnDrop(queue.clone());
    let Ok(Handed { store, life, edits, siblings, logs }) = given.recv() else {
        let gone = OpenError::ShardGone("the shard that keeps the manifest did not open".to_owned());
        return drop(tell.send(Err(gone)));
    };
    let share: Part = Share { store, life, edits, manifest: None, siblings, logs };
    recover_and_run(&disk, &start.config, queue, share, OpenReport::default(), tell);
}

fn recover_and_run(
    disk: &RealDisk,
    config: &CheckedConfig,
    queue: Arc<Queue>,
    share: Part,
    mut report: OpenReport,
    tell: &Tell,
) {
    let policies = share.manifest.as_ref().map(Manifest::policies);
    let (store, edits, siblings) = (share.store, share.edits.clone(), share.siblings.clone());
    let (mut shard, part) = match drive(disk, shard::open_logs(disk.clone(), config.clone(), queue.clone(), share)) {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return drop(tell.send(Err(error))),
        Err(error) => return drop(tell.send(Err(OpenError::Disk(error)))),
    };
    report.took += part.took;
    report.absorb(part);
    shard.gather_for(config.gather);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > config.shards + 1 {
        shard.spin(config.spin);
    }
    let (capabilities, backend, disk) = ((*disk.capabilities()).clone(), disk.backend(), disk.counters());
    report.fallback.clone_from(&capabilities.fallback);
    if tell.send(Ok(Ready { queue, capabilities, report, disk, backend, policies, store, edits, siblings })).is_ok() {
        run(shard);
    }
}

/// However a shard's thread ends, nobody is left waiting.
struct CloseOnDrop(Arc<Queue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
        self.0.abandon();
    }
}

fn open_disk(start: &Start, tell: &Tell) -> Option<RealDisk> {
    let disk = match RealDisk::open_locked(start.lock.clone(), &options(&start.config)) {
        Ok(disk) => disk,
        Err(error) => {
            let _ = tell.send(Err(OpenError::Setup(Arc::new(error))));
            return None;
        }
    };
    let barrier = disk.capabilities().barrier.clone();
    if start.config.sync == SyncMode::Barrier && !barrier.allowed {
        let _ = tell.send(Err(OpenError::NoBarrier { reason: barrier.reason }));
        return None;
    }
    Some(disk)
}

fn run(mut shard: Shard<RealDisk>) {
    loop {
        match shard.turn() {
            Ok(Turned::Open) => {}
            Ok(Turned::Closed) => return,
            Err(error) => return shard.give_up(&error),
        }
    }
}

/// Polls a future on this thread, turning the disk whenever it waits.
pub(super) fn drive<D: Disk, F: Future>(disk: &D, future: F) -> Result<F::Output, DiskError> {
    drive_with(disk, future, |_| {})
}

/// The same, which tells of each flush that failed before the future hears of it.
pub(super) fn drive_with<D: Disk, F: Future>(
    disk: &D,
    future: F,
    alarm: impl Fn(&DiskError),
) -> Result<F::Output, DiskError> {
    let mut future = std::pin::pin!(future);
    let doorbell = disk.doorbell();
    let woken = Woken::new(false, doorbell.clone());
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(output);
        }
        doorbell.about_to_sleep();
        // The shard that keeps the manifest may be waiting for what another one hands in, which rings too.
        let turned = disk.turn(if woken.take() { Wait::No } else { Wait::Event });
        doorbell.awake();
        if let Some(error) = disk.take_failed_flush() {
            alarm(&error);
        }
        turned?;
    }
}

pub(super) fn options(config: &CheckedConfig) -> DiskOptions {
    DiskOptions {
        arena_bytes: config.arena_bytes,
        arena_bytes_min: config.arena_bytes_min(),
        backend: config.backend,
        lock_wait: config.lock_wait,
        access: match config.direct {
            DirectIo::Auto => DirectMode::Auto,
            DirectIo::Off => DirectMode::Off,
        },
        clock: config.host_clock(),
        ..DiskOptions::default()
    }
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
