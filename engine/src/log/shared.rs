//! What callers see of a log without asking its shard: how far it has come, and what was appended last.

use super::pins::Pins;
use super::tail_cache::TailCache;
use crate::batch::StoredBatch;
use crate::id::{LogId, Offset};
use event_listener::{Event, EventListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Offsets below it are gone.
    pub start: Offset,
    /// Offsets below it are durable: one past the last record that can be read.
    pub end: Offset,
    /// Offsets below it are written, though perhaps not durable yet.
    pub written_end: Offset,
}

/// A log's part that its shard writes and everybody reads.
#[derive(Debug)]
pub struct Shared {
    /// Which log it is.
    pub id: LogId,
    start: AtomicU64,
    durable_end: AtomicU64,
    written_end: AtomicU64,
    /// Truncations so far.
    cuts: AtomicU64,
    /// Answers may be given without the shard.
    open: AtomicBool,
    moved: Event,
    /// What was appended last.
    pub tail: TailCache,
    /// What the host holds back from being given up.
    pub pins: Pins,
}

impl Shared {
    /// Of a log that has not come anywhere yet.
    #[must_use]
    pub fn new(id: LogId) -> Shared {
        Shared {
            id,
            start: AtomicU64::new(0),
            durable_end: AtomicU64::new(0),
            written_end: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            open: AtomicBool::new(true),
            moved: Event::new(),
            tail: TailCache::default(),
            pins: Pins::default(),
        }
    }

    /// The shard says how far the log has come. Whoever waits for more is told.
    pub fn show(&self, start: Offset, durable_end: Offset, written_end: Offset) {
        self.start.store(start.0, Ordering::Release);
        self.written_end.store(written_end.0, Ordering::Release);
        self.durable_end.store(durable_end.0, Ordering::Release);
        self.moved.notify(usize::MAX);
    }

    /// The log was truncated. Said when the new bounds are shown, and before anything is appended behind them: whoever took the old
    /// ones and reads by them would see records that stand at dropped offsets and are not durable yet.
    pub fn note_cut(&self) {
        self.cuts.fetch_add(1, Ordering::AcqRel);
    }

    /// The shard is gone, or the log is: everything has to be asked of the shard, which says so.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
        self.moved.notify(usize::MAX);
    }

    /// How far the log has come.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let end = Offset(self.durable_end.load(Ordering::Acquire));
        let written_end = Offset(self.written_end.load(Ordering::Acquire)).max(end);
        Bounds { start: Offset(self.start.load(Ordering::Acquire)), end, written_end }
    }

    /// Listens for the log to move. Look at [`Shared::bounds`] after this, and wait only then.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.moved.listen()
    }

    /// True while answers may be given without the shard.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whole batches from `offset` on, about `bytes` of them, when they are at hand: nothing of the disk and no other thread is
    /// needed. An empty list says that `offset` is the end of what may be read. `None` when the shard has to be asked.
    #[must_use]
    pub fn read(&self, offset: Offset, bytes: usize, past_durable: bool) -> Option<Vec<StoredBatch>> {
        if !self.is_open() {
            return None;
        }
        // Before the bounds, and again behind the read: a truncation between the two is seen.
        let cuts = self.cuts.load(Ordering::Acquire);
        let Bounds { start, end, written_end } = self.bounds();
        let end = if past_durable { written_end } else { end };
        if offset < start || offset > end || self.tail.is_empty() {
            return None;
        }
        if offset == end {
            return Some(Vec::new());
        }
        let read = self.tail.read(offset, end, bytes);
        read.filter(|_| self.cuts.load(Ordering::Acquire) == cuts)
    }
}
