//! Batches as callers see them: built record by record, handed over whole, and read back record by record.
//!
//! A batch is laid out and summed up in the caller's thread; where it will stand is not known yet and does not matter to it.

use crate::format::batch::{BatchHeader, Codec, HOST_BYTES, verify_payload};
use crate::format::checksum::crc32c;
use crate::format::record::{self, Records};
use crate::id::Offset;
use crossbeam_queue::ArrayQueue;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use strandline_disk::Position;

pub use crate::format::batch::Flags;
pub use crate::format::record::{DecodeError, Header, Headers, Record, StoredRecord};

/// How large a batch may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The most records of a batch.
    pub records_max: u32,
    /// The most bytes of a payload.
    pub bytes_max: u32,
}

/// Why a record does not go into a batch, or a batch is not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The batch holds as many records as it may.
    #[error("the batch holds {limit} records already, which is the limit; start another one")]
    TooManyRecords {
        /// The most records of a batch.
        limit: u32,
    },
    /// The payload would become larger than it may.
    #[error("the batch would have {size} bytes with this record; at most {limit} are allowed")]
    TooLarge {
        /// The most bytes of a payload.
        limit: u32,
        /// What the payload would have with the record.
        size: u64,
    },
    /// The record's timestamp is the smallest 64-bit number, which stands for none on disk.
    #[error("the timestamp {} ms stands for none on disk; leave the timestamp out", i64::MIN)]
    Timestamp,
    /// The batch holds no record.
    #[error("the batch holds no record")]
    Empty,
}

/// A batch in the making.
#[derive(Clone)]
pub struct BatchBuilder {
    limits: BatchLimits,
    payload: Vec<u8>,
    record_count: u32,
    flags: Flags,
    client_time_max_ms: Option<i64>,
    host: [u8; HOST_BYTES],
}

impl BatchBuilder {
    /// An empty batch.
    #[must_use]
    pub fn new(limits: BatchLimits) -> BatchBuilder {
        BatchBuilder::with_buffer(limits, Vec::new())
    }

    /// An empty batch that is built in `buffer`, whose room is reused and whose bytes are dropped.
    #[must_use]
    pub fn with_buffer(limits: BatchLimits, mut buffer: Vec<u8>) -> BatchBuilder {
        buffer.clear();
        let (flags, host) = (Flags::default(), [0; HOST_BYTES]);
        BatchBuilder { limits, payload: buffer, record_count: 0, flags, client_time_max_ms: None, host }
    }

    /// Adds a record behind the ones before it. Allocates nothing while the buffer has room.
    ///
    /// # Errors
    /// [`BatchError`]; the batch is then as it was.
    pub fn push(&mut self, record: &Record<'_>) -> Result<(), BatchError> {
        let BatchLimits { records_max, bytes_max } = self.limits;
        if self.record_count >= records_max {
            return Err(BatchError::TooManyRecords { limit: records_max });
        }
        let size = (self.payload.len() as u64).saturating_add(record::encoded_bytes(record));
        if size > u64::from(bytes_max) {
            return Err(BatchError::TooLarge { limit: bytes_max, size });
        }
        if record.timestamp_ms == Some(i64::MIN) {
            return Err(BatchError::Timestamp);
        }
        record::encode(&mut self.payload, self.record_count, record);
        self.record_count += 1;
        self.flags.has_tombstones |= record.value.is_none();
        self.flags.has_keyless |= record.key.is_none();
        self.client_time_max_ms = self.client_time_max_ms.max(record.timestamp_ms);
        Ok(())
    }

    /// Sets the host's own bytes, which the store carries in the batch's header and never reads.
    pub fn set_host_bytes(&mut self, host: [u8; HOST_BYTES]) {
        self.host = host;
    }

    /// How many records the batch holds.
    #[must_use]
    pub fn record_count(&self) -> u32 {
        self.record_count
    }

    /// How many bytes the payload has.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// True before the first record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Sums the batch up.
    ///
    /// # Errors
    /// [`BatchError::Empty`] when it holds no record.
    pub fn build(self) -> Result<Batch, BatchError> {
        if self.is_empty() {
            return Err(BatchError::Empty);
        }
        Ok(Batch {
            payload_crc: crc32c(&self.payload),
            payload: self.payload,
            record_count: self.record_count,
            flags: self.flags,
            client_time_max_ms: self.client_time_max_ms,
            host: self.host,
        })
    }
}

/// A batch that is ready to be appended.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    pub(crate) payload: Vec<u8>,
    pub(crate) payload_crc: u32,
    pub(crate) record_count: u32,
    pub(crate) flags: Flags,
    pub(crate) client_time_max_ms: Option<i64>,
    pub(crate) host: [u8; HOST_BYTES],
}

impl Batch {
    /// The records as they will stand on disk.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// How many records there are, and how many offsets they take.
    #[must_use]
    pub fn record_count(&self) -> u32 {
        self.record_count
    }

    /// The CRC32C of the payload.
    #[must_use]
    pub fn payload_crc(&self) -> u32 {
        self.payload_crc
    }

    /// What is known about the records.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The largest client timestamp among the records, ms.
    #[must_use]
    pub fn client_time_max_ms(&self) -> Option<i64> {
        self.client_time_max_ms
    }

    /// The host's own bytes.
    #[must_use]
    pub fn host_bytes(&self) -> &[u8; HOST_BYTES] {
        &self.host
    }

    /// Gives the buffer back, for [`BatchBuilder::with_buffer`].
    #[must_use]
    pub fn into_payload(self) -> Vec<u8> {
        self.payload
    }

    /// The header of this batch when its first record gets offset `first`. What only the log knows (its times, `durable_to`, epoch
    /// and life) is left at zero, for the log to fill in.
    #[must_use]
    pub(crate) fn header(&self, first: Offset) -> BatchHeader {
        BatchHeader {
            payload_bytes: self.payload.len() as u32,
            payload_crc: self.payload_crc,
            first,
            end: first.plus(u64::from(self.record_count)),
            client_time_max_ms: self.client_time_max_ms,
            records: self.record_count,
            codec: Codec::None,
            flags: self.flags,
            host: self.host,
            ..BatchHeader::default()
        }
    }
}

/// Memory for reads, used again: fresh memory would cost a page fault for each 4 KiB that is read.
#[derive(Clone, Debug)]
pub struct ReadMemory {
    kept: Arc<ArrayQueue<Vec<u8>>>,
    bytes_max: usize,
}

impl ReadMemory {
    /// Keeps at most `pieces` pieces, each of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(pieces: usize, bytes_max: usize) -> ReadMemory {
        ReadMemory { kept: Arc::new(ArrayQueue::new(pieces.max(1))), bytes_max }
    }

    /// Empty memory with room for `bytes`.
    #[must_use]
    pub fn take(&self, bytes: usize) -> ReadBytes {
        let mut memory = self.kept.pop().unwrap_or_default();
        memory.clear();
        memory.reserve(bytes);
        ReadBytes { bytes: memory, home: Some(self.clone()) }
    }
}

/// The bytes of one read, shared by its batches. Their memory goes back for use again with the last of them.
#[derive(Debug)]
pub struct ReadBytes {
    bytes: Vec<u8>,
    home: Option<ReadMemory>,
}

impl ReadBytes {
    /// Adds bytes, up to `length` in all.
    pub(crate) fn extend(&mut self, bytes: &[u8], length: usize) {
        let room = length.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

impl From<Vec<u8>> for ReadBytes {
    fn from(bytes: Vec<u8>) -> ReadBytes {
        ReadBytes { bytes, home: None }
    }
}

impl Deref for ReadBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ReadBytes {
    fn drop(&mut self) {
        if let Some(home) = self.home.take().filter(|home| self.bytes.capacity() <= home.bytes_max) {
            let _ = home.kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Bytes that several batches share, wherever they are kept.
pub trait SharedBytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

impl SharedBytes for ReadBytes {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A batch as it was read, its payload verified. Several of them share the bytes of one read.
#[derive(Clone)]
pub struct StoredBatch {
    position: Position,
    header: BatchHeader,
    bytes: Arc<dyn SharedBytes>,
    payload: Range<usize>,
}

impl StoredBatch {
    /// The batch whose header stood at `position` and whose payload is this part of `bytes`.
    /// Nothing when the payload is not what the header was written for.
    #[must_use]
    pub fn new(
        position: Position,
        header: BatchHeader,
        bytes: Arc<ReadBytes>,
        payload: Range<usize>,
    ) -> Option<StoredBatch> {
        let is_whole = verify_payload(&header, bytes.get(payload.clone())?);
        is_whole.then_some(StoredBatch { position, header, bytes, payload })
    }

    /// As `new`, for a payload that was verified already, or never left memory.
    pub(crate) fn kept(
        position: Position,
        header: BatchHeader,
        bytes: Arc<dyn SharedBytes>,
        payload: Range<usize>,
    ) -> StoredBatch {
        StoredBatch { position, header, bytes, payload }
    }

    /// The batch's header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Where the batch stands in its file.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The offset that the records' offsets count from.
    #[must_use]
    pub fn first(&self) -> Offset {
        self.header.first
    }

    /// One past the last offset.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.header.end
    }

    /// How many records there are; fewer than the offsets from `first` to `end` when compaction took some away.
    #[must_use]
    pub fn record_count(&self) -> u32 {
        self.header.records
    }

    /// When the store took the batch, wall ms.
    #[must_use]
    pub fn store_time_ms(&self) -> u64 {
        self.header.store_time_ms
    }

    /// The host's own bytes.
    #[must_use]
    pub fn host_bytes(&self) -> &[u8; HOST_BYTES] {
        &self.header.host
    }

    /// The payload as it stands on disk, compressed or not.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.bytes.bytes().get(self.payload.clone()).unwrap_or_default()
    }

    /// The records, in order. A compressed payload is not unpacked: its only answer is [`DecodeError::Compressed`].
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        match self.header.codec {
            Codec::None => Records::new(self.payload(), self.header.first, self.header.end, self.header.records),
            codec => Records::refused(DecodeError::Compressed(codec.name())),
        }
    }
}

/// A batch stands in errors, and errors in logs: its bytes do not.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} records, {} bytes)", self.record_count, self.payload.len())
    }
}

impl fmt::Debug for BatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchBuilder({} records, {} bytes)", self.record_count, self.payload.len())
    }
}

impl fmt::Debug for StoredBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredBatch({} to {} at {}, {} bytes)", self.first(), self.end(), self.position, self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BatchLimits = BatchLimits { records_max: 3, bytes_max: 1000 };

    fn valued(value: &[u8]) -> Record<'_> {
        Record { key: Some(b"k"), value: Some(value), ..Record::default() }
    }

    fn stored(batch: &Batch, first: Offset) -> StoredBatch {
        let header = batch.header(first);
        let bytes = [b"before", batch.payload(), b"behind"].concat();
        let payload = 6..6 + batch.payload().len();
        StoredBatch::new(Position(4096), header, Arc::new(bytes.into()), payload).expect("a good payload")
    }

    #[test]
    fn a_batch_is_read_back_as_it_was_built() {
        let mut builder = BatchBuilder::new(LIMITS);
        let headers = [Header { name: b"h", value: None }];
        let record = Record { key: Some(b"k"), value: None, headers: &headers, timestamp_ms: Some(5) };
        builder.push(&valued(b"one")).expect("room");
        builder.push(&record).expect("room");
        builder.set_host_bytes([9; HOST_BYTES]);
        let batch = builder.build().expect("two records");
        assert_eq!((batch.record_count(), batch.client_time_max_ms(), batch.host_bytes()), (2, Some(5), &[9; 32]));
        assert_eq!(batch.payload_crc(), crc32c(batch.payload()));

        let stored = stored(&batch, Offset(40));
        assert_eq!((stored.first(), stored.end(), stored.record_count()), (Offset(40), Offset(42), 2));
        assert_eq!((stored.host_bytes(), stored.payload()), (&[9; 32], batch.payload()));
        let records: Vec<_> = stored.records().map(|record| record.expect("a good record")).collect();
        assert_eq!((records[0].offset, records[0].value), (Offset(40), Some(&b"one"[..])));
        assert_eq!((records[1].offset, records[1].value, records[1].timestamp_ms), (Offset(41), None, Some(5)));
        assert_eq!(records[1].headers().collect::<Vec<_>>(), headers);
    }

    #[test]
    fn a_batch_takes_records_up_to_its_limit_and_not_one_more() {
        let mut builder = BatchBuilder::new(LIMITS);
        for _ in 0..3 {
            builder.push(&valued(b"v")).expect("room");
        }
        let before = builder.payload_bytes();
        assert_eq!(builder.push(&valued(b"v")), Err(BatchError::TooManyRecords { limit: 3 }));
        assert_eq!((builder.record_count(), builder.payload_bytes()), (3, before));
    }

    #[test]
    fn a_batch_takes_bytes_up_to_its_limit_and_not_one_more() {
        let mut builder = BatchBuilder::new(LIMITS);
        builder.push(&valued(b"v")).expect("room");
        let room = 1000 - builder.payload_bytes() - record::RECORD_HEADER_BYTES - 1;
        let late = Record { timestamp_ms: Some(7), key: None, ..valued(&[0; 1000]) };
        assert_eq!(builder.push(&late), Err(BatchError::TooLarge { limit: 1000, size: 30 + 28 + 1000 }));
        let refused = builder.push(&valued(&vec![0; room + 1]));
        assert_eq!(refused, Err(BatchError::TooLarge { limit: 1000, size: 1001 }));
        builder.push(&valued(&vec![0; room])).expect("exactly the room that is left");

        let batch = builder.build().expect("two records");
        assert_eq!((batch.payload().len(), batch.record_count()), (1000, 2));
        assert_eq!((batch.client_time_max_ms(), batch.flags()), (None, Flags::default()));
    }

    #[test]
    fn a_timestamp_that_stands_for_none_is_refused() {
        let mut builder = BatchBuilder::new(LIMITS);
        let record = Record { timestamp_ms: Some(i64::MIN), ..valued(b"v") };
        assert_eq!(builder.push(&record), Err(BatchError::Timestamp));
        assert!(builder.is_empty());
        assert_eq!(builder.build(), Err(BatchError::Empty));
    }

    #[test]
    fn flags_tell_of_tombstones_and_of_records_without_key() {
        let flags = |record: &Record<'_>| {
            let mut builder = BatchBuilder::new(LIMITS);
            builder.push(record).expect("room");
            builder.push(&valued(b"v")).expect("room");
            builder.build().expect("two records").flags()
        };
        assert_eq!(flags(&valued(b"")), Flags { has_tombstones: false, has_keyless: false });
        assert_eq!(flags(&Record { value: None, ..valued(b"") }), Flags { has_tombstones: true, has_keyless: false });
        assert_eq!(flags(&Record { key: None, ..valued(b"") }), Flags { has_tombstones: false, has_keyless: true });
    }

    #[test]
    fn a_batch_knows_its_largest_client_timestamp_wherever_it_stands() {
        let mut builder = BatchBuilder::new(LIMITS);
        for timestamp_ms in [Some(-9), Some(4), None] {
            builder.push(&Record { timestamp_ms, ..valued(b"v") }).expect("room");
        }
        assert_eq!(builder.build().expect("three records").client_time_max_ms(), Some(4));
    }

    #[test]
    fn a_buffer_is_reused_without_allocating() {
        let mut builder = BatchBuilder::with_buffer(LIMITS, Vec::with_capacity(1000));
        builder.push(&valued(b"first life")).expect("room");
        let buffer = builder.build().expect("a record").into_payload();
        let (room, place) = (buffer.capacity(), buffer.as_ptr());

        let mut builder = BatchBuilder::with_buffer(LIMITS, buffer);
        assert_eq!(builder.payload_bytes(), 0);
        builder.push(&valued(&[0; 900])).expect("room");
        let buffer = builder.build().expect("a record").into_payload();
        assert_eq!((buffer.capacity(), buffer.as_ptr()), (room, place));
    }

    #[test]
    fn a_payload_that_is_not_the_headers_is_never_handed_out() {
        let mut builder = BatchBuilder::new(LIMITS);
        builder.push(&valued(b"v")).expect("room");
        let batch = builder.build().expect("a record");
        let (header, length) = (batch.header(Offset(0)), batch.payload().len());
        let handed_out =
            |bytes: Vec<u8>, payload| StoredBatch::new(Position(0), header, Arc::new(bytes.into()), payload).is_some();
        let mut rotten = batch.payload().to_vec();
        assert!(handed_out(rotten.clone(), 0..length));
        assert!(!handed_out(rotten.clone(), 0..length - 1));
        assert!(!handed_out(rotten.clone(), 0..length + 1));
        rotten[length - 1] ^= 1;
        assert!(!handed_out(rotten, 0..length));
    }

    #[test]
    fn a_compressed_batch_says_so() {
        let mut builder = BatchBuilder::new(LIMITS);
        builder.push(&valued(b"v")).expect("room");
        let batch = builder.build().expect("a record");
        let header = BatchHeader { codec: Codec::Gzip, ..batch.header(Offset(0)) };
        let length = batch.payload().len();
        let stored =
            StoredBatch::new(Position(0), header, Arc::new(batch.into_payload().into()), 0..length).expect("good");
        let refused = stored.records().next().expect("an answer").expect_err("compressed");
        assert_eq!(refused, DecodeError::Compressed("gzip"));
    }
}
