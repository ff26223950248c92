//! The store: opening, its logs, closing. One thread serves it.

use super::log::Log;
use crate::config::{CheckedConfig, Config, DirectIo};
use crate::error::{CloseError, LogError, OpenError};
use crate::id::{LogId, RangeNumber, Topic};
use crate::pending::{Pending, pair};
use crate::shard::command::{Command, Queue, Refused};
use crate::shard::{self, OpenReport, Shard, Turned, Woken};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use strandline_disk::uring::{DirectMode, RingCounters, UringDisk, UringOptions};
use strandline_disk::{Capabilities, Disk, DiskError, Wait};

/// An open store. Dropping it closes it; [`Store::close`] says how that went.
#[derive(Debug)]
pub struct Store {
    config: CheckedConfig,
    queue: Arc<Queue>,
    capabilities: Capabilities,
    report: OpenReport,
    ring: Arc<RingCounters>,
    thread: Option<JoinHandle<()>>,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits: one durable write each.
    pub commits: u64,
    /// Records acknowledged.
    pub records: u64,
    /// Payload bytes acknowledged.
    pub bytes: u64,
    /// Segments rolled.
    pub rolls: u64,
    /// Rolls that had to wait for their successor.
    pub rolls_waited: u64,
    /// System calls of the shard's thread on its ring.
    pub enters: u64,
    /// Operations given to the ring.
    pub submitted: u64,
}

/// What the shard's thread says when it has opened.
struct Opened {
    queue: Arc<Queue>,
    capabilities: Capabilities,
    report: OpenReport,
    ring: Arc<RingCounters>,
}

impl Store {
    /// Opens the store at `config.root`; makes it when the directory is absent or empty. Blocks until every log is recovered.
    ///
    /// # Errors
    /// [`OpenError`]. Damage in a segment is no error: [`Store::report`] names it.
    pub fn open(config: Config) -> Result<Store, OpenError> {
        let config = config.check()?;
        let (tell, told) = mpsc::sync_channel(1);
        let of_thread = config.clone();
        let thread = std::thread::Builder::new()
            .name("strandline-0".to_owned())
            .spawn(move || serve(of_thread, &tell))
            .map_err(|error| OpenError::Thread(error.to_string()))?;
        match told.recv() {
            Ok(Ok(Opened { queue, capabilities, report, ring })) => {
                Ok(Store { config, queue, capabilities, report, ring, thread: Some(thread) })
            }
            Ok(Err(error)) => {
                // The thread ends by itself: it has let go of the lock when this returns.
                let _ = thread.join();
                Err(error)
            }
            Err(_) => {
                let panic = thread.join().err().map(|panic| panic_text(&*panic));
                Err(OpenError::ShardGone(panic.unwrap_or_else(|| "it ended without a word".to_owned())))
            }
        }
    }

    /// Opens a log; makes it, durably, when it does not exist.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn log(&self, topic: &Topic, range: RangeNumber) -> Result<Log, LogError> {
        let id = LogId { topic: topic.clone(), range };
        let (answer, pending) = pair();
        match self.queue.admit(0) {
            Ok(admitted) => self.queue.push(Command::OpenLog { log: id.clone(), answer, admitted }),
            Err(Refused::Closed) => return Err(LogError::Closed),
            Err(Refused::Overloaded(outstanding, _)) => {
                return Err(LogError::Overloaded { outstanding, limit: self.queue.limits().0 });
            }
        }
        let opened = pending.wait()?;
        Ok(Log::new(id, opened, &self.config, self.queue.clone()))
    }

    /// What the host, the file system, the drive and the ring were found to allow.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What opening found.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let shard = &self.queue.counters;
        let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            commits: get(&shard.commits),
            records: get(&shard.records),
            bytes: get(&shard.bytes),
            rolls: get(&shard.rolls),
            rolls_waited: get(&shard.rolls_waited),
            enters: self.ring.enters(),
            submitted: self.ring.submitted(),
        }
    }

    /// Finishes everything that was asked for, marks what is durable, and stops.
    ///
    /// # Errors
    /// [`CloseError`]. Everything that was acknowledged is safe all the same.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.stop().map_or(Ok(()), Pending::wait)
    }

    /// Asks the shard to stop and waits for its thread.
    fn stop(&mut self) -> Option<Pending<Result<(), CloseError>>> {
        let thread = self.thread.take()?;
        let (answer, pending) = pair();
        self.queue.close();
        self.queue.push(Command::Close { answer });
        let _ = thread.join();
        Some(pending)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(pending) = self.stop()
            && let Err(error) = pending.wait()
        {
            tracing::warn!(%error, "the store was dropped and did not close cleanly");
        }
    }
}

/// The shard's thread.
fn serve(config: CheckedConfig, tell: &mpsc::SyncSender<Result<Opened, OpenError>>) {
    let disk = match UringDisk::open(&config.root, &options(&config)) {
        Ok(disk) => disk,
        Err(error) => return drop(tell.send(Err(OpenError::Setup(Arc::new(error))))),
    };
    let queue = Queue::new(&config, disk.doorbell());
    let ring = disk.counters();
    let capabilities = (*disk.capabilities()).clone();
    // A panic of ours must not leave callers waiting: everything that owes an answer gives one when it is dropped.
    let served = catch_unwind(AssertUnwindSafe(|| {
        let (shard, report) = match drive(&disk, shard::open(disk.clone(), config, queue.clone())) {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return drop(tell.send(Err(error))),
            Err(error) => return drop(tell.send(Err(OpenError::Disk(error)))),
        };
        let opened = Opened { queue: queue.clone(), capabilities, report, ring };
        if tell.send(Ok(opened)).is_ok() {
            run(shard);
        }
    }));
    queue.close();
    queue.abandon();
    if let Err(panic) = served {
        let panic = panic_text(&*panic);
        tracing::error!(panic, "the shard's thread panicked: every caller was answered, the store is closed");
        // Heard only by a `Store::open` that still waits.
        let _ = tell.try_send(Err(OpenError::ShardGone(panic)));
    }
}

fn run(mut shard: Shard<UringDisk>) {
    loop {
        match shard.turn() {
            Ok(Turned::Open) => {}
            Ok(Turned::Closed) => return,
            Err(error) => return shard.give_up(&error),
        }
    }
}

/// Polls a future on this thread, turning the disk whenever it waits.
fn drive<D: Disk, F: Future>(disk: &D, future: F) -> Result<F::Output, DiskError> {
    let mut future = std::pin::pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(output);
        }
        disk.turn(if woken.take() { Wait::No } else { Wait::Event })?;
    }
}

fn options(config: &CheckedConfig) -> UringOptions {
    UringOptions {
        arena_bytes: config.arena_bytes,
        arena_bytes_min: config.arena_bytes_min(),
        lock_wait: config.lock_wait,
        access: match config.direct {
            DirectIo::Auto => DirectMode::Auto,
            DirectIo::Off => DirectMode::Off,
        },
        ..UringOptions::default()
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
