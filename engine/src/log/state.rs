//! The state of one log, owned by its shard. No I/O.

use crate::batch::Batch;
use crate::error::{AppendError, Latch};
use crate::id::{Epoch, LogId, Offset, Seq};
use crate::pending::Answer;
use crate::segment::active::{Active, PreparedFile};
use crate::segment::closed::Closed;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};
use strandline_disk::DiskError;

/// What an acknowledged append was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The offset of its first record.
    pub first: Offset,
    /// One past the offset of its last record.
    pub end: Offset,
    /// When the store took it, wall ms.
    pub store_time_ms: u64,
}

/// A batch that waits to be staged. `A` is what is held while it is outstanding.
pub struct Queued<A> {
    /// The batch.
    pub batch: Batch,
    /// Who waits for it.
    pub answer: Answer<Result<Receipt, AppendError>>,
    /// Its share of the store's limits, given back when dropped.
    pub admitted: A,
}

/// The segment that comes after the active one.
#[derive(Debug)]
pub enum Successor {
    /// None, and none is being made.
    None,
    /// It is being made.
    Making(Rc<Making>),
    /// It is ready to take records.
    Ready(PreparedFile),
    /// Making it failed, at this time since boot in nanoseconds. It is tried again after a while.
    Failed(DiskError, u64),
}

/// What the log tells the task that makes its successor.
#[derive(Debug, Default)]
pub struct Making {
    hurry: Cell<bool>,
    wanted_per_mille: Cell<u32>,
    burst_bytes: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Making {
    /// Appends wait for it: no more filling.
    pub fn hurry(&self) {
        self.hurry.set(true);
        self.wake();
    }

    /// Whether appends wait for it.
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.hurry.get()
    }

    /// How much of it should be filled by now, in thousandths, and how much should be filled at once, in bytes.
    pub fn want(&self, per_mille: u32, burst_bytes: u64) {
        self.burst_bytes.set(burst_bytes);
        if per_mille > self.wanted_per_mille.get() {
            self.wanted_per_mille.set(per_mille);
            self.wake();
        }
    }

    /// How much should be filled at once, in bytes.
    #[must_use]
    pub fn burst_bytes(&self) -> u64 {
        self.burst_bytes.get()
    }

    /// Waits until more than `filled_per_mille` is wanted, or appends wait. Costs nothing while the log is idle.
    pub async fn wanted(&self, filled_per_mille: u32) {
        std::future::poll_fn(|context| {
            if self.hurry.get() || self.wanted_per_mille.get() >= filled_per_mille {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// The state of one log.
pub struct Log<A> {
    /// Which log it is.
    pub id: LogId,
    /// Offsets below it are gone.
    pub start: Offset,
    /// Raised by truncation.
    pub epoch: Epoch,
    /// Segments that take no more appends, oldest first.
    pub closed: VecDeque<Closed>,
    /// The write head.
    pub active: Option<Active>,
    /// What comes after it.
    pub successor: Successor,
    /// The number that the next segment gets; none when they are used up.
    pub next_seq: Option<Seq>,
    /// The offset that the next record gets.
    pub end: Offset,
    /// Offsets below it are durable, and readable.
    pub durable_end: Offset,
    /// What the newest batch or mark on disk says of how far the log is durable.
    pub marked_end: Offset,
    /// The store time of the last batch, wall ms.
    pub last_store_time_ms: u64,
    /// Batches that wait to be staged.
    pub queued: VecDeque<Queued<A>>,
    /// A commit is in flight.
    pub committing: bool,
    /// The log is in the shard's list of logs with work.
    pub listed: bool,
    /// The log is in the shard's list of logs that rest: once, however often it rested.
    pub resting: bool,
    /// When the last commit was settled, since boot in nanoseconds.
    pub settled_ns: u64,
    /// Why it takes no appends.
    pub latch: Option<Box<Latch>>,
    /// A segment that could not be recovered, and why: what it holds is neither readable nor known to be the end.
    pub unread: Option<Box<Latch>>,
}

impl<A> Log<A> {
    /// A log without segments.
    #[must_use]
    pub fn empty(id: LogId) -> Log<A> {
        Log {
            id,
            start: Offset(0),
            epoch: Epoch(0),
            closed: VecDeque::new(),
            active: None,
            successor: Successor::None,
            next_seq: Seq::new(0),
            end: Offset(0),
            durable_end: Offset(0),
            marked_end: Offset(0),
            last_store_time_ms: 0,
            queued: VecDeque::new(),
            committing: false,
            listed: false,
            resting: false,
            settled_ns: 0,
            latch: None,
            unread: None,
        }
    }

    /// Whether something on disk should say how far the log is durable, and nothing does yet.
    #[must_use]
    pub fn wants_mark(&self) -> bool {
        let quiet = self.queued.is_empty() && !self.committing && self.latch.is_none();
        quiet && self.active.is_some() && self.marked_end < self.durable_end
    }

    /// The stamp of a batch that is taken at `wall_ms`: never smaller than the one before it.
    #[must_use]
    pub fn stamp(&self, wall_ms: u64) -> u64 {
        wall_ms.max(self.last_store_time_ms)
    }

    /// Whether the last stamp lies so far ahead of the clock that the segment is rolled to stamp true time again.
    #[must_use]
    pub fn stamps_lie_ahead(&self, wall_ms: u64) -> bool {
        self.last_store_time_ms > wall_ms.saturating_add(STAMP_AHEAD_MAX_MS)
    }
}

/// How far a log's last stamp may lie ahead of the clock, in milliseconds.
const STAMP_AHEAD_MAX_MS: u64 = 10 * 60 * 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RangeNumber, Topic};

    fn log() -> Log<()> {
        let topic = Topic::new("t").expect("a plain topic");
        Log::empty(LogId { topic, range: RangeNumber::new(0).expect("small") })
    }

    #[test]
    fn stamps_never_go_backwards_within_a_log() {
        let mut log = log();
        log.last_store_time_ms = 1_000;
        assert_eq!(log.stamp(999), 1_000);
        assert_eq!(log.stamp(1_001), 1_001);
    }

    #[test]
    fn a_stamp_may_lie_ten_minutes_ahead_and_no_more() {
        let mut log = log();
        log.last_store_time_ms = 600_000;
        assert!(!log.stamps_lie_ahead(0));
        log.last_store_time_ms = 600_001;
        assert!(log.stamps_lie_ahead(0));
    }
}
