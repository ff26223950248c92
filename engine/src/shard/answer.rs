//! What a shard answers to those who read. The last step, which costs time and concerns nobody else, is left to whoever takes the
//! answer: verifying payloads, and unpacking the one batch that holds a record.

use crate::batch::StoredBatch;
use crate::error::ReadError;
use crate::id::{Offset, SegmentId};

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

/// Batches whose headers were verified and whose payloads may still have to be. Nobody sees one before that.
#[derive(Debug)]
pub struct Unverified {
    read: ReadBatches,
    /// Where they come from and which offset was wanted; nothing when they never left memory.
    from: Option<(SegmentId, Offset)>,
}

/// What a shard answers to a read.
pub type RawAnswer = Result<Unverified, ReadError>;

impl Unverified {
    /// Batches of this segment that were read for `offset`.
    #[must_use]
    pub(crate) fn new(batches: Vec<StoredBatch>, segment: SegmentId, offset: Offset) -> Unverified {
        Unverified { from: Some((segment, offset)), ..Unverified::good(batches, offset) }
    }

    /// Batches that never left memory.
    #[must_use]
    pub(crate) fn good(batches: Vec<StoredBatch>, offset: Offset) -> Unverified {
        let next = batches.last().map_or(offset, StoredBatch::end);
        Unverified { read: ReadBatches { batches, next }, from: None }
    }

    /// The offset to read next, if all of them are good.
    #[must_use]
    pub(crate) fn next(&self) -> Offset {
        self.read.next
    }

    /// The headers' side of them: no payload of these may be handed out.
    #[must_use]
    pub(crate) fn batches(&self) -> &[StoredBatch] {
        &self.read.batches
    }

    /// Only the batch in this place, read for its own first offset.
    #[must_use]
    pub(crate) fn only(mut self, place: usize) -> Unverified {
        self.read.batches.truncate(place + 1);
        self.read.batches.drain(..place.min(self.read.batches.len()));
        let first = self.read.batches.first().map_or(self.read.next, StoredBatch::first);
        let from = self.from.map(|(segment, _)| (segment, first));
        Unverified { from, ..Unverified::good(self.read.batches, first) }
    }
}

/// The batches up to the first one whose payload is damaged; where that is the wanted one, the damage.
///
/// # Errors
/// As the read, and [`ReadError::Corrupt`].
pub fn verified(answer: RawAnswer) -> ReadAnswer {
    let Unverified { mut read, from } = answer?;
    let Some((segment, offset)) = from else { return Ok(read) };
    let Some(place) = read.batches.iter().position(|batch| !batch.verifies()) else { return Ok(read) };
    let bad = read.batches.split_off(place);
    match (read.batches.last(), bad.first()) {
        (None, Some(bad)) => Err(ReadError::Corrupt {
            segment,
            position: bad.position(),
            from: offset,
            to: bad.end(),
            reason: "the payload's checksum does not match".to_owned(),
        }),
        (last, _) => {
            read.next = last.map_or(offset, StoredBatch::end);
            Ok(read)
        }
    }
}

/// Where the first record of a time is.
#[derive(Debug)]
pub enum Sought {
    /// At this offset.
    At(Offset),
    /// In this batch, at or behind `from`, with a client timestamp of at least `time_ms`.
    Within {
        /// The batch, alone.
        read: Unverified,
        /// The timestamp that is looked for, ms.
        time_ms: i64,
        /// Records before it do not count.
        from: Offset,
    },
}

/// What a search by time is answered.
pub type SeekAnswer = Result<Sought, ReadError>;

/// The offset that was looked for. Verifies and unpacks the batch that holds it.
///
/// # Errors
/// As the search.
pub fn offset_of(answer: SeekAnswer) -> Result<Offset, ReadError> {
    let (read, time_ms, from) = match answer? {
        Sought::At(offset) => return Ok(offset),
        Sought::Within { read, time_ms, from } => (verified(Ok(read))?, time_ms, from),
    };
    let Some(batch) = read.batches.first() else { return Ok(from) };
    let mut records = batch.records().map_while(Result::ok).filter(|record| record.offset >= from);
    let found = records.find(|record| record.timestamp_ms >= Some(time_ms));
    // A header that promises more than its records hold can only be a host's doing: the batch is as exact as it gets.
    Ok(found.map_or(batch.first().max(from), |record| record.offset))
}
