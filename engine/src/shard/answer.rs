//! What a shard answers to those who read. The last step, which costs time and concerns nobody else, is left to whoever takes the
//! answer.

use crate::batch::StoredBatch;
use crate::error::ReadError;
use crate::id::Offset;

/// Whole batches, as they were appended.
#[derive(Debug, Default)]
pub struct ReadBatches {
    /// The batches; the first holds the wanted offset. Empty at the end of the log.
    pub batches: Vec<StoredBatch>,
    /// The offset to read next.
    pub next: Offset,
}

/// What a read is answered.
pub type ReadAnswer = Result<ReadBatches, ReadError>;

/// Where the first record of a time is.
#[derive(Debug)]
pub enum Sought {
    /// At this offset.
    At(Offset),
    /// In this batch, at or behind `from`, with a client timestamp of at least `time_ms`.
    Within {
        /// The batch.
        batch: StoredBatch,
        /// The timestamp that is looked for, ms.
        time_ms: i64,
        /// Records before it do not count.
        from: Offset,
    },
}

/// What a search by time is answered.
pub type SeekAnswer = Result<Sought, ReadError>;

/// The offset that was looked for. Unpacks the batch that holds it.
///
/// # Errors
/// As the search.
pub fn offset_of(answer: SeekAnswer) -> Result<Offset, ReadError> {
    let (batch, time_ms, from) = match answer? {
        Sought::At(offset) => return Ok(offset),
        Sought::Within { batch, time_ms, from } => (batch, time_ms, from),
    };
    let mut records = batch.records().map_while(Result::ok).filter(|record| record.offset >= from);
    let found = records.find(|record| record.timestamp_ms >= Some(time_ms));
    // A header that promises more than its records hold can only be a host's doing: the batch is as exact as it gets.
    Ok(found.map_or(batch.first().max(from), |record| record.offset))
}
