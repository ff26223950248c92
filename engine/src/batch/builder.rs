//! A batch in the making: records laid out one behind the other, compressed and summed up at the end.

use super::{Batch, BatchError, BatchLimits};
use crate::format::batch::{Codec, Flags, HOST_BYTES, PAYLOAD_BYTES_MAX};
use crate::format::checksum::crc32c;
use crate::format::codec::pack;
use crate::format::record::{self, Record};
use std::fmt;

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
    /// An empty batch. Its payload stays within [`PAYLOAD_BYTES_MAX`] whatever the limits say, compressed or not: nobody could read a
    /// larger one.
    #[must_use]
    pub fn new(limits: BatchLimits) -> BatchBuilder {
        BatchBuilder::with_buffer(limits, Vec::new())
    }

    /// An empty batch that is built in `buffer`, whose room is reused and whose bytes are dropped.
    #[must_use]
    pub fn with_buffer(limits: BatchLimits, mut buffer: Vec<u8>) -> BatchBuilder {
        buffer.clear();
        let (flags, host) = (Flags::default(), [0; HOST_BYTES]);
        let limits = BatchLimits { bytes_max: limits.bytes_max.min(PAYLOAD_BYTES_MAX), ..limits };
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

    /// Sums the batch up, its payload as it is.
    ///
    /// # Errors
    /// [`BatchError::Empty`] when it holds no record.
    pub fn build(self) -> Result<Batch, BatchError> {
        self.build_compressed(Codec::None)
    }

    /// Compresses the payload, here and now, and sums the batch up. A payload that does not shrink stays as it is, and the batch says
    /// so. The builder's buffer is used on; what compressing needs is kept by the thread, up to 4 MiB and what zstd takes.
    ///
    /// # Errors
    /// [`BatchError::Empty`] when it holds no record, [`BatchError::NotOurs`] for gzip and snappy.
    pub fn build_compressed(mut self, codec: Codec) -> Result<Batch, BatchError> {
        if !codec.is_ours() {
            return Err(BatchError::NotOurs(codec.name()));
        }
        if self.is_empty() {
            return Err(BatchError::Empty);
        }
        let uncompressed_bytes = self.payload.len() as u32;
        let codec = if codec == Codec::None { codec } else { pack(codec, &mut self.payload) };
        Ok(Batch {
            payload_crc: crc32c(&self.payload),
            payload: self.payload,
            record_count: self.record_count,
            codec,
            uncompressed_bytes,
            flags: self.flags,
            client_time_max_ms: self.client_time_max_ms,
            host: self.host,
        })
    }
}

impl fmt::Debug for BatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchBuilder({} records, {} bytes)", self.record_count, self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Header, StoredBatch};
    use super::*;
    use crate::format::codec::Codec;
    use crate::format::record::RECORD_HEADER_BYTES;
    use crate::id::Offset;
    use std::sync::Arc;
    use strandline_disk::Position;

    const LIMITS: BatchLimits = BatchLimits { records_max: 3, bytes_max: 1000 };

    fn valued(value: &[u8]) -> Record<'_> {
        Record { key: Some(b"k"), value: Some(value), ..Record::default() }
    }

    fn stored(batch: &Batch, first: Offset) -> StoredBatch {
        let (header, length) = (batch.header(first), batch.payload().len());
        StoredBatch::new(Position(4096), header, Arc::new(batch.payload().to_vec().into()), 0..length).expect("good")
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
        let room = 1000 - builder.payload_bytes() - RECORD_HEADER_BYTES - 1;
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
        assert_eq!(flags(&valued(b"")), Flags::default());
        assert_eq!(flags(&Record { value: None, ..valued(b"") }), Flags { has_tombstones: true, ..Flags::default() });
        assert_eq!(flags(&Record { key: None, ..valued(b"") }), Flags { has_keyless: true, ..Flags::default() });
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
    fn a_compressed_batch_is_summed_up_over_what_is_stored() {
        for codec in [Codec::Lz4, Codec::Zstd] {
            let mut builder = BatchBuilder::with_buffer(LIMITS, Vec::with_capacity(1000));
            builder.push(&valued(&[7; 900])).expect("room");
            let place = builder.payload.as_ptr();
            let batch = builder.build_compressed(codec).expect("a record");
            assert_eq!((batch.codec(), batch.uncompressed_bytes()), (codec, Some(929)));
            assert!(batch.payload().len() < 100, "{codec}: {} bytes", batch.payload().len());
            assert_eq!(batch.payload_crc(), crc32c(batch.payload()));
            let header = batch.header(Offset(5));
            assert_eq!((header.codec, header.uncompressed_bytes), (codec, 929));
            assert_eq!(header.payload_bytes as usize, batch.payload().len());
            let buffer = batch.into_payload();
            assert_eq!(buffer.as_ptr(), place, "the buffer is still the caller's");
        }
    }

    #[test]
    fn a_batch_that_does_not_shrink_is_stored_as_it_is() {
        let noise = crate::format::any::noise(9000);
        let mut builder = BatchBuilder::new(BatchLimits { bytes_max: 10_000, ..LIMITS });
        builder.push(&valued(&noise)).expect("room");
        let plain = builder.clone().build().expect("a record");
        assert_eq!((plain.codec(), plain.uncompressed_bytes()), (Codec::None, Some(9029)));
        for codec in [Codec::Lz4, Codec::Zstd] {
            assert_eq!(builder.clone().build_compressed(codec).as_ref(), Ok(&plain), "{codec}");
        }
    }

    #[test]
    fn codecs_of_others_are_refused() {
        for codec in [Codec::Gzip, Codec::Snappy] {
            let mut builder = BatchBuilder::new(LIMITS);
            builder.push(&valued(b"v")).expect("room");
            assert_eq!(builder.build_compressed(codec), Err(BatchError::NotOurs(codec.name())));
        }
    }

    #[test]
    fn a_payload_never_outgrows_what_can_be_read() {
        let limits = BatchLimits { records_max: 2, bytes_max: u32::MAX };
        let mut builder = BatchBuilder::new(limits);
        let value = vec![0; PAYLOAD_BYTES_MAX as usize];
        let refused = BatchError::TooLarge { limit: PAYLOAD_BYTES_MAX, size: 29 + u64::from(PAYLOAD_BYTES_MAX) };
        assert_eq!(builder.push(&valued(&value)), Err(refused));
    }
}
