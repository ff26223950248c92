//! What an append is on its way: queued, staged into a write, in flight. Plain data.

use crate::batch::Batch;
use crate::error::AppendError;
use crate::format::batch::BatchHeader;
use crate::id::Offset;
use crate::pending::Answer;
use serde::Serialize;
use strandline_disk::Position;

/// How safe an append is when it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It has its offsets and is in memory. A crash of the process loses it; a full disk may.
    Accepted,
    /// Its write has completed. A power failure may lose it.
    Written,
    /// A flush that started after its write had completed has completed too. Nothing loses it.
    #[default]
    Durable,
}

/// What an append was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The offset of its first record.
    pub first: Offset,
    /// One past the offset of its last record.
    pub end: Offset,
    /// When the store took it, wall ms.
    pub store_time_ms: u64,
    /// How safe it was when this was given.
    pub level: Level,
    /// How many losses its log had known when it was taken.
    pub(crate) losses: u32,
}

/// A batch that was taken, has its offsets, and waits to be staged. `A` is what is held while it is outstanding.
pub struct Queued<A> {
    /// The batch.
    pub batch: Batch,
    /// What it will be answered.
    pub receipt: Receipt,
    /// When it was taken, since boot in nanoseconds.
    pub taken_ns: u64,
    /// The stamp of the batch before it, wall ms.
    pub after_ms: u64,
    /// It was given its offset by another replica: a fence may let it in.
    pub repairs: bool,
    /// Who waits for it; nobody once it was answered as accepted.
    pub answer: Option<Answer<Result<Receipt, AppendError>>>,
    /// Its share of the store's limits, given back when dropped.
    pub admitted: A,
}

impl<A> Queued<A> {
    /// Whether a new segment begins with it: the stamp before it lay so far ahead of the clock that this one is smaller.
    #[must_use]
    pub fn rolls(&self) -> bool {
        self.receipt.store_time_ms < self.after_ms
    }
}

/// A batch in a write.
pub struct Staged<A> {
    /// What it will be answered; the level is the one that was asked for.
    pub receipt: Receipt,
    /// Where it stands.
    pub position: Position,
    /// As it stands on disk.
    pub header: BatchHeader,
    /// Its payload, kept for readers at the end of the log.
    pub payload: Vec<u8>,
    /// Who waits for it.
    pub answer: Option<Answer<Result<Receipt, AppendError>>>,
    /// Held until the append is answered.
    pub admitted: Option<A>,
}

/// A write that was started: some batches, or a mark.
pub struct Flight<A> {
    /// Its number in the shard.
    pub number: u64,
    /// Its batches.
    pub staged: Vec<Staged<A>>,
    /// When it was started, since boot in nanoseconds.
    pub started_ns: u64,
    /// One past the last offset of them.
    pub end_offset: Offset,
    /// The position after them.
    pub end: Position,
    /// The log's durable end when it was staged, as its batches say.
    pub durable_to: Offset,
    /// It is on stable storage when it has landed, by itself.
    pub durable: bool,
    /// It has landed.
    pub landed: bool,
}

/// Somebody who waits for an append to become durable.
pub struct Waiting<A> {
    /// What the append was answered.
    pub receipt: Receipt,
    /// Who waits.
    pub answer: Answer<Result<(), AppendError>>,
    /// Its share of the store's limits.
    pub admitted: A,
}
