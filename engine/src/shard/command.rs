//! What callers ask of a shard, and the bounded queue that carries it. Lock-free; full means `Overloaded`, at once.

use crate::batch::{Batch, ReadMemory};
use crate::config::{CheckedConfig, LogOptions};
use crate::error::{AppendError, CloseError, LogError, VerbError};
use crate::format::manifest::ScrubCursor;
use crate::id::{LogId, Offset};
use crate::log::tail_cache::Home;
use crate::log::{Level, Receipt, Shared};
use crate::pending::{Answer, Places, Unanswered};
use crate::segment::time::Time;
pub use crate::shard::answer::{RawAnswer, ReadAnswer, ReadBatches, SeekAnswer, Unverified, offset_of, verified};
use crate::shard::orphan::OrphanAsked;
use crate::shard::policies::{PolicyAsked, RestampNoted};
use crate::shard::verb::{LogInfo, Verb, Verdict};
use crate::sync::{self, ArrayQueue, AtomicBool};
use event_listener::{Event, EventListener, IntoNotification};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;
use strandline_disk::Doorbell;

/// The number of a log in its shard. Never reused while the store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogNumber(pub usize);

/// What an append is answered.
pub type AppendAnswer = Result<Receipt, AppendError>;

/// What opening a log is answered.
pub type LogAnswer = Result<OpenedLog, LogError>;
/// What a wait for durability is answered.
pub type DurableAnswer = Result<(), AppendError>;

/// A log that was opened: its number in the shard, and what callers see of it.
#[derive(Clone, Debug)]
pub struct OpenedLog {
    /// Its number.
    pub number: LogNumber,
    /// What callers see of it.
    pub shared: Arc<Shared>,
}

/// What callers ask of a shard.
pub enum Command {
    /// Append a batch.
    Append {
        /// The log.
        log: LogNumber,
        /// The batch.
        batch: Batch,
        /// How safe it is to be when it is answered.
        level: Level,
        /// The offset that its first record must get: it was given by another replica.
        expected: Option<Offset>,
        /// Who waits for it.
        answer: Answer<AppendAnswer>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Read whole batches.
    Read {
        /// The log.
        log: LogNumber,
        /// The first offset wanted.
        offset: Offset,
        /// About how many bytes.
        bytes: usize,
        /// Also what is written and not durable yet.
        past_durable: bool,
        /// Who waits for it.
        answer: Answer<RawAnswer>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Wait until an append is durable.
    UntilDurable {
        /// The log.
        log: LogNumber,
        /// What the append was answered.
        receipt: Receipt,
        /// Flush now, and not when the interval is over.
        now: bool,
        /// Who waits for it.
        answer: Answer<DurableAnswer>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Anything else about a log.
    Verb {
        /// The log.
        log: LogNumber,
        /// What.
        verb: Verb,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Roll the log's segments at this age. It waits for nothing: no offset and nothing durable changes.
    SegmentMaxAge {
        /// The log.
        log: LogId,
        /// The age; none is off.
        age: Option<Duration>,
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Tell of every log.
    Inventory {
        /// Who waits for it.
        answer: Answer<Verdict<Vec<LogInfo>>>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Remove a directory that belongs to no segment that the store knows.
    DeleteDirectory {
        /// Its name.
        name: String,
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Something about orphans. Asked of the shard that keeps the manifest.
    Orphan {
        /// What.
        asked: OrphanAsked,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Change something about policies. Asked of the shard that keeps the manifest.
    Policy(PolicyAsked),
    /// Keep a wall time that was believed, durably. Asked of the shard that keeps the manifest.
    SureTime {
        /// The time, wall ms.
        wall_ms: u64,
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Keep how far a round of scrubbing has come, durably. Asked of the shard that keeps the manifest.
    ScrubCursor {
        /// How far.
        cursor: ScrubCursor,
        /// Who waits for it.
        answer: Answer<Verdict<()>>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Add to the audit log what came of a wish to restamp a seal time. Asked of the shard that keeps the manifest.
    NoteRestamp(RestampNoted),
    /// A pin was let go of.
    Unpinned {
        /// The log.
        log: LogNumber,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Open a log; make it when it does not exist.
    OpenLog {
        /// The log.
        log: LogId,
        /// How its segments are to be.
        options: LogOptions,
        /// Who waits for it.
        answer: Answer<LogAnswer>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Look for the first offset of a time.
    Seek {
        /// The log.
        log: LogNumber,
        /// The time.
        time: Time,
        /// Who waits for it.
        answer: Answer<SeekAnswer>,
        /// Its share of the limits.
        admitted: Admitted,
    },
    /// Finish everything and stop.
    Close {
        /// Who waits for it.
        answer: Answer<Result<(), CloseError>>,
    },
}

/// Plain counters of what a shard did, since it was opened.
#[derive(Debug, Default)]
pub struct ShardCounters {
    /// Writes of batches and marks that were settled.
    pub commits: AtomicU64,
    /// Flushes beside durable writes: barriers and syncs of single files.
    pub flushes: AtomicU64,
    /// Barriers among them.
    pub barriers: AtomicU64,
    /// Records acknowledged.
    pub records: AtomicU64,
    /// Payload bytes acknowledged.
    pub bytes: AtomicU64,
    /// Segments rolled.
    pub rolls: AtomicU64,
    /// Rolls that had to wait for their successor.
    pub rolls_waited: AtomicU64,
    /// Reads from the disk that were started.
    pub reads: AtomicU64,
    /// Batches that had been accepted and could not be written.
    pub lost: AtomicU64,
    /// Descriptors that it holds now.
    pub descriptors: AtomicU64,
    /// Heads of logs that were let go of to stay within what it may hold.
    pub heads_let_go: AtomicU64,
    /// Times that the host had no descriptor for it.
    pub descriptors_refused: AtomicU64,
}

/// The way into a shard, shared by all callers.
pub struct Queue {
    commands: ArrayQueue<Command>,
    doorbell: Doorbell,
    closed: AtomicBool,
    gone: AtomicBool,
    /// Operations and payload bytes outstanding, as `share` puts them into one number: both are taken or neither. A share that is taken
    /// for a moment only would refuse somebody else meanwhile, who would then sleep although there is room.
    outstanding: sync::AtomicU64,
    limit: usize,
    bytes_limit: usize,
    room: Event,
    /// Places for the answers of appends, used again and again.
    pub(crate) receipts: Places<AppendAnswer>,
    /// Payload buffers, used again and again.
    payloads: Home,
    /// Memory for reads, used again and again.
    read_memory: ReadMemory,
    /// What the shard did.
    pub counters: ShardCounters,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (outstanding, bytes) = self.outstanding();
        write!(f, "Queue({outstanding} of {} operations, {bytes} of {} bytes)", self.limit, self.bytes_limit)
    }
}

/// How many bits of a share are its bytes. The limits of the configuration are 2^40 bytes and 2^20 operations.
const BYTES_BITS: u32 = 42;

/// So many operations and payload bytes as one number, which adds up and takes away for both at once.
fn share(operations: usize, bytes: usize) -> u64 {
    (operations as u64) << BYTES_BITS | bytes as u64
}

/// The operations and the payload bytes of such a number.
fn operations_and_bytes(share: u64) -> (usize, usize) {
    ((share >> BYTES_BITS) as usize, (share & ((1 << BYTES_BITS) - 1)) as usize)
}

/// A share of the limits; dropping it gives the share back.
pub struct Admitted {
    queue: Arc<Queue>,
    bytes: usize,
}

impl Admitted {
    /// Gives the share back, and then the answer: whoever has the answer finds the room.
    pub fn answer<T: Unanswered>(self, answer: Answer<T>, value: T) {
        drop(self);
        answer.give(value);
    }

    /// The same, but says who is to be woken instead of waking him.
    #[must_use = "somebody may sleep until it is woken"]
    pub fn leave<T: Unanswered>(self, answer: Answer<T>, value: T) -> Option<Waker> {
        drop(self);
        answer.leave(value)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.queue.outstanding.fetch_sub(share(1, self.bytes), Ordering::Release);
        // One more than those who were told and have not run yet: each share that comes back is for somebody else.
        self.queue.room.notify(1.additional());
    }
}

/// Why nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The limits are reached: operations and bytes outstanding.
    Overloaded(usize, usize),
    /// The store is closed, closing, or its shard is gone.
    Closed,
}

/// How many pieces of memory for reads are kept for use again.
const READS_KEPT: usize = 8;

/// How many payload buffers are kept for use again.
const PAYLOADS_KEPT: usize = 1_024;
/// Larger payload buffers are not kept, in bytes.
const PAYLOAD_BYTES_KEPT: usize = 64 << 10;

impl Queue {
    /// A queue with the limits of `config`, whose shard is woken by `doorbell`.
    #[must_use]
    pub fn new(config: &CheckedConfig, doorbell: Doorbell) -> Arc<Queue> {
        Arc::new(Queue {
            // One place more than the limit: closing is never refused.
            commands: ArrayQueue::new(config.outstanding_max + 1),
            doorbell,
            closed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            outstanding: sync::AtomicU64::new(0),
            limit: config.outstanding_max,
            bytes_limit: config.outstanding_bytes_max,
            room: Event::new(),
            receipts: Places::new(config.outstanding_max),
            payloads: Home {
                buffers: Arc::new(crossbeam_queue::ArrayQueue::new(PAYLOADS_KEPT.min(config.outstanding_max))),
                bytes_max: PAYLOAD_BYTES_KEPT,
            },
            read_memory: ReadMemory::new(READS_KEPT, config.read_bytes_max as usize * 2),
            counters: ShardCounters::default(),
        })
    }

    /// Takes a share of the limits for one operation with `bytes` payload bytes.
    ///
    /// # Errors
    /// [`Refused`]; nothing was taken.
    pub fn admit(self: &Arc<Queue>, bytes: usize) -> Result<Admitted, Refused> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Refused::Closed);
        }
        let taken = self.outstanding.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
            let (operations, held) = operations_and_bytes(taken);
            let fits = operations < self.limit && held.saturating_add(bytes) <= self.bytes_limit;
            fits.then(|| share(operations + 1, held + bytes))
        });
        match taken {
            Ok(_) => Ok(Admitted { queue: self.clone(), bytes }),
            Err(taken) => {
                let (operations, held) = operations_and_bytes(taken);
                Err(Refused::Overloaded(operations, held))
            }
        }
    }

    /// Takes a share of the limits for a verb.
    ///
    /// # Errors
    /// [`VerbError::Closed`], [`VerbError::Overloaded`]; nothing was taken.
    pub fn room(self: &Arc<Queue>) -> Result<Admitted, VerbError> {
        self.admit(0).map_err(|refused| match refused {
            Refused::Closed => VerbError::Closed,
            Refused::Overloaded(outstanding, _) => VerbError::Overloaded { outstanding, limit: self.limit },
        })
    }

    /// Queues a command that was admitted and wakes the shard.
    pub fn push(&self, command: Command) {
        // Admission keeps the number of commands below the capacity; closing has a place of its own.
        if self.commands.push(command).is_err() {
            unreachable!("the queue holds every admitted command");
        }
        self.doorbell.ring();
        if self.gone.load(Ordering::SeqCst) && !sync::is_broken() {
            // The shard had emptied the queue for the last time before this push.
            while self.commands.pop().is_some() {}
        }
    }

    /// Takes the next command.
    #[must_use]
    pub fn pop(&self) -> Option<Command> {
        self.commands.pop()
    }

    /// True when nothing waits to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Operations and payload bytes outstanding.
    #[must_use]
    pub fn outstanding(&self) -> (usize, usize) {
        operations_and_bytes(self.outstanding.load(Ordering::Relaxed))
    }

    /// The limits on operations and payload bytes.
    #[must_use]
    pub fn limits(&self) -> (usize, usize) {
        (self.limit, self.bytes_limit)
    }

    /// Waits for a share to be given back.
    #[must_use]
    pub fn listen_for_room(&self) -> EventListener {
        self.room.listen()
    }

    /// Lets no more commands in.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.room.notify(usize::MAX);
    }

    /// True once no more commands are let in.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Says that no shard takes commands any more, and drops what waits; each is answered that the shard is gone.
    pub fn abandon(&self) {
        self.gone.store(true, Ordering::SeqCst);
        while self.commands.pop().is_some() {}
    }

    /// The memory that reads use again.
    #[must_use]
    pub fn read_memory(&self) -> ReadMemory {
        self.read_memory.clone()
    }

    /// An empty payload buffer, used before where there is one.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        self.payloads.buffers.pop().unwrap_or_default()
    }

    /// Where payload buffers go for use again.
    #[must_use]
    pub fn payloads(&self) -> &Home {
        &self.payloads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use event_listener::Listener;
    use std::time::Duration;

    fn queue(outstanding_max: usize) -> Arc<Queue> {
        let config = Config { outstanding_max, ..Config::new("nowhere") }.check().expect("a configuration that works");
        Queue::new(&config, Doorbell::silent())
    }

    #[test]
    fn whoever_is_refused_is_not_woken_by_the_refusal() {
        let queue = queue(1);
        let held = queue.admit(0).expect("room");
        let room = queue.listen_for_room();
        assert_eq!(queue.admit(0).err(), Some(Refused::Overloaded(1, 0)));
        let room = room.wait_timeout(Duration::from_millis(1));
        assert!(room.is_none(), "it would try again at once, and again");

        let room = queue.listen_for_room();
        drop(held);
        assert!(room.wait_timeout(Duration::from_secs(60)).is_some());
    }

    #[test]
    fn operations_and_bytes_are_counted_apart_up_to_their_limits() {
        let queue = queue(2);
        let bytes = queue.limits().1;
        let first = queue.admit(bytes - 1).expect("room");
        assert_eq!(queue.admit(2).err(), Some(Refused::Overloaded(1, bytes - 1)));
        let second = queue.admit(1).expect("exactly the bytes that are left");
        assert_eq!((queue.outstanding(), queue.admit(0).err()), ((2, bytes), Some(Refused::Overloaded(2, bytes))));
        drop(first);
        assert_eq!(queue.outstanding(), (1, 1));
        drop(second);
        assert_eq!(queue.outstanding(), (0, 0));
        assert_eq!(operations_and_bytes(share(1 << 20, 1 << 40)), (1 << 20, 1 << 40));
    }
}
