//! The state of one log, owned by its shard. No I/O.

use super::Dormant;
use super::flight::{Flight, Queued, Staged, Waiting};
use super::shared::Shared;
use crate::config::LogOptions;
use crate::error::Latch;
use crate::host::Refusal;
use crate::id::{Epoch, LogId, Offset, Seq};
use crate::segment::active::{Active, PreparedFile};
use crate::segment::closed::Closed;
use crate::segment::unopened::Unopened;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use strandline_disk::DiskError;

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
    Failed(Unprepared, u64),
}

/// Why the next segment was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unprepared {
    /// The disk failed.
    Disk(DiskError),
    /// The host did not want it.
    Host(Refusal),
}

/// What the log tells the task that makes its successor.
#[derive(Debug, Default)]
pub struct Making {
    hurry: Cell<bool>,
    wanted_per_mille: Cell<u32>,
    burst_bytes: Cell<u64>,
    /// Its file is open although nothing is done to it.
    holds: Cell<bool>,
    lets_go: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// What a task that makes a successor goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// With filling it.
    Fill,
    /// Without its file, which is opened again for that.
    LetGo,
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

    /// Waits until more than `filled_per_mille` is wanted, or appends wait; or, where it `holds` the file open, until that is to be let go of.
    /// Costs nothing while the log is idle.
    pub async fn wanted(&self, filled_per_mille: u32, holds: bool) -> Asked {
        let asked = std::future::poll_fn(|context| {
            if self.hurry.get() || self.wanted_per_mille.get() >= filled_per_mille {
                return Poll::Ready(Asked::Fill);
            }
            if holds && self.lets_go.get() {
                return Poll::Ready(Asked::LetGo);
            }
            self.holds.set(holds);
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        });
        let asked = asked.await;
        self.holds.set(false);
        self.lets_go.set(false);
        asked
    }

    /// Whether a file is held open for nothing but more filling, which nobody wants now.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.holds.get() && !self.lets_go.get()
    }

    /// The file is closed until it is filled on.
    pub fn let_go(&self) {
        self.lets_go.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// Where batches were lost after they had been taken: receipts given before that are void from there on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    count: u32,
    /// Number and offset, both growing: an older loss at or behind a newer one says nothing more.
    from: Vec<(u32, Offset)>,
}

impl Losses {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// What was taken and not staged, from `from` on, is lost.
    pub fn note(&mut self, from: Offset) {
        self.count = self.count.wrapping_add(1);
        self.from.retain(|(_, earlier)| *earlier < from);
        self.from.push((self.count, from));
    }

    /// Whether what ends at `end` and was taken when there had been `count` losses is lost.
    #[must_use]
    pub fn concern(&self, count: u32, end: Offset) -> bool {
        self.from.iter().any(|(number, from)| *number > count && *from < end)
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
    /// The write head of a log that rests, until it is roused. There is no active one then.
    pub dormant: Option<Dormant>,
    /// What comes after it.
    pub successor: Successor,
    /// The file that was made ahead for the segment after it and is not open. It holds nothing. There is no other successor then, or it
    /// is being opened.
    pub ahead: Option<Unopened>,
    /// The number that the next segment gets; none when they are used up.
    pub next_seq: Option<Seq>,
    /// The offset that the next record gets when it is taken.
    pub end: Offset,
    /// Offsets below it have been laid into a write.
    pub staged_end: Offset,
    /// Offsets below it are in completed writes.
    pub written_end: Offset,
    /// Offsets below it are durable, and readable.
    pub durable_end: Offset,
    /// What the newest batch or mark on disk says of how far the log is durable.
    pub marked_end: Offset,
    /// The store time of the last batch, wall ms.
    pub last_store_time_ms: u64,
    /// How many batches were taken and not refused; those that are not in `queued` any more were staged.
    pub taken: u64,
    /// Truncations that were asked for and not answered: offsets are not given meanwhile.
    pub truncating: usize,
    /// Size of its next segments in bytes, and the age at which they are rolled, where they differ from the store's.
    pub options: LogOptions,
    /// A truncation is at work.
    pub epoch_is_rising: bool,
    /// A verb is at work that changes the log's segments.
    pub verb_at_work: bool,
    /// Tasks in the background that will bring an edit of the manifest.
    pub tasks: usize,
    /// The host fenced it: it takes no appends, and may be repaired up to here.
    pub fence: Option<Offset>,
    /// It is gone; only its number is left.
    pub deleted: bool,
    /// Batches that wait to be staged.
    pub queued: VecDeque<Queued<A>>,
    /// Payload bytes of those.
    pub queued_bytes: usize,
    /// Writes that were started and not settled yet, in the order of their offsets.
    pub flights: VecDeque<Flight<A>>,
    /// Batches that are written and wait to become durable before they are answered.
    pub unflushed: VecDeque<Staged<A>>,
    /// Who waits for an append of theirs to become durable.
    pub waiting: Vec<Waiting<A>>,
    /// What is below it is flushed as soon as it is written.
    pub flush_through: Offset,
    /// Some completed write waits for a flush.
    pub wants_flush: bool,
    /// A flush that covers what was written when it started is in flight.
    pub flushing: bool,
    /// Since when something is written and not durable, since boot in nanoseconds.
    pub unflushed_since_ns: u64,
    /// How often batches that had been taken were refused later, and from which offset on each time.
    pub losses: Losses,
    /// What callers see of the log without asking its shard.
    pub shared: Arc<Shared>,
    /// The manifest knows the log as clean: it hears that it is dirty before anything is written.
    pub clean: bool,
    /// It is being roused from its rest.
    pub rousing: bool,
    /// Reads and searches that were started and have not come back.
    pub reading: u32,
    /// The log is in the shard's list of logs with work.
    pub listed: bool,
    /// When the last commit was settled, since boot in nanoseconds.
    pub settled_ns: u64,
    /// Why it takes no appends.
    pub latch: Option<Box<Latch>>,
    /// It takes none because its disk was full, and goes on when there is room; and when that is looked at next, since boot in nanoseconds.
    pub heals: bool,
    /// See `heals`.
    pub heal_from_ns: u64,
    /// A segment that could not be recovered, and why: what it holds is neither readable nor known to be the end.
    pub unread: Option<Box<Latch>>,
}

impl<A> Log<A> {
    /// A log without segments.
    #[must_use]
    pub fn empty(id: LogId) -> Log<A> {
        Log {
            shared: Arc::new(Shared::new(id.clone())),
            id,
            start: Offset(0),
            epoch: Epoch(0),
            closed: VecDeque::new(),
            active: None,
            dormant: None,
            successor: Successor::None,
            ahead: None,
            next_seq: Seq::new(0),
            end: Offset(0),
            staged_end: Offset(0),
            written_end: Offset(0),
            durable_end: Offset(0),
            marked_end: Offset(0),
            last_store_time_ms: 0,
            taken: 0,
            truncating: 0,
            options: LogOptions::default(),
            epoch_is_rising: false,
            verb_at_work: false,
            tasks: 0,
            fence: None,
            deleted: false,
            queued: VecDeque::new(),
            queued_bytes: 0,
            flights: VecDeque::new(),
            unflushed: VecDeque::new(),
            waiting: Vec::new(),
            flush_through: Offset(0),
            wants_flush: false,
            flushing: false,
            unflushed_since_ns: u64::MAX,
            losses: Losses::default(),
            clean: false,
            rousing: false,
            reading: 0,
            listed: false,
            settled_ns: 0,
            latch: None,
            heals: false,
            heal_from_ns: 0,
            unread: None,
        }
    }

    /// Whether something on disk should say how far the log is durable, and nothing does yet.
    #[must_use]
    pub fn wants_mark(&self) -> bool {
        // A verb at work may be cutting the very place where the mark would go.
        let quiet = self.queued.is_empty() && self.is_settled() && self.latch.is_none() && !self.verb_at_work;
        quiet && self.active.is_some() && self.marked_end < self.durable_end
    }

    /// Whether the same is so of a head that was let go of: it is roused for that.
    #[must_use]
    pub fn lacks_mark_asleep(&self) -> bool {
        self.dormant.is_some() && !self.rousing && self.latch.is_none() && self.marked_end < self.durable_end
    }

    /// Whether all that was staged is durable and nothing is in flight.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.flights.is_empty() && !self.flushing && !self.has_unflushed()
    }

    /// Whether something is written, or being written, and not durable.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.flushing || !self.flights.is_empty() || self.has_unflushed()
    }

    /// Whether something is written and not durable: batches, or only a mark.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.unflushed_bytes() > 0)
    }

    /// One of the segments that take no more appends.
    #[must_use]
    pub fn closed_at(&self, seq: Seq) -> Option<&Closed> {
        self.closed.iter().find(|closed| closed.id.seq == seq)
    }

    /// One of the segments that take no more appends.
    pub fn closed_at_mut(&mut self, seq: Seq) -> Option<&mut Closed> {
        self.closed.iter_mut().find(|closed| closed.id.seq == seq)
    }

    /// Takes all ends over from what recovery found.
    pub fn begin_at(&mut self, end: Offset) {
        (self.end, self.staged_end, self.written_end, self.durable_end) = (end, end, end, end);
        self.shared.show(self.start, end, end);
    }

    /// Shows to callers how far the log has come.
    pub fn show(&self) {
        self.shared.show(self.start, self.durable_end, self.written_end);
    }

    /// The stamp of a batch that is taken at `wall_ms`: never smaller than the one before it, unless that lies so far ahead of the clock that
    /// the segment is rolled to stamp true time again.
    #[must_use]
    pub fn stamp(&self, wall_ms: u64) -> u64 {
        let lies_ahead = self.last_store_time_ms > wall_ms.saturating_add(STAMP_AHEAD_MAX_MS);
        if lies_ahead { wall_ms } else { wall_ms.max(self.last_store_time_ms) }
    }

    /// After batches were dropped from the end: the last stamp is that of the last batch which is left, as far as it is known. One that was
    /// dropped, far ahead of the clock, would give the next batch true time, which may be before what is left.
    pub fn stamp_behind_what_is_left(&mut self) {
        let of_active = self.active.as_ref().map(|active| Some(active.store_times_ms.1));
        let of_closed = self.closed.iter().rev().map(Closed::last_store_time_ms);
        let newest_with_batches = of_active.into_iter().chain(of_closed).find(|last_ms| *last_ms != Some(0));
        if let Some(Some(last_ms)) = newest_with_batches {
            self.last_store_time_ms = last_ms;
        }
    }
}

/// How far a stamp may lie ahead of the clock, in milliseconds.
pub const STAMP_AHEAD_MAX_MS: u64 = 10 * 60 * 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Generation, RangeNumber, SegmentId, Topic, Uid};
    use strandline_disk::{Errno, Position, Verb};

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
    fn a_head_that_was_let_go_of_is_roused_for_its_mark_unless_its_log_has_failed_or_it_is_roused_already() {
        let mut log = log();
        let seq = Seq::new(0).expect("small");
        let id = SegmentId { log: log.id.clone(), seq };
        let (uid, generation) = (Uid(1), Generation(0));
        let file = Unopened { id: id.clone(), uid, generation, size: 1 << 20, look_ahead: 4_096, written: true };
        log.dormant = Some(Dormant { seq, end_position: Position(8_192), last_store_time_ms: 1, file });
        log.durable_end = Offset(3);
        assert!(log.lacks_mark_asleep());
        log.rousing = true;
        assert!(!log.lacks_mark_asleep());
        log.rousing = false;
        let source = DiskError::new(Verb::Sync, "x", Errno::IO);
        log.latch = Some(Box::new(Latch { segment: id, position: Position(8_192), source }));
        assert!(!log.lacks_mark_asleep(), "a timer without an end");
        (log.latch, log.marked_end) = (None, Offset(3));
        assert!(!log.lacks_mark_asleep());
    }

    #[test]
    fn a_stamp_may_lie_ten_minutes_ahead_and_no_more() {
        let mut log = log();
        log.last_store_time_ms = 600_007;
        assert_eq!(log.stamp(7), 600_007);
        assert_eq!(log.stamp(6), 6);
    }
}
