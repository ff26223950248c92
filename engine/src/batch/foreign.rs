//! A foreign batch: one that the host laid out itself, carried as it is.
//!
//! The store keeps its bytes, its count and what the host says about it, and never looks inside.

use super::{Batch, BatchError, BatchLimits};
use crate::format::batch::{Codec, Flags, HOST_BYTES, PAYLOAD_BYTES_MAX};
use crate::format::checksum::crc32c;

/// A batch whose payload the host laid out and compressed itself: as a client sent it, for example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignBatch {
    /// The payload, as it will be handed out again.
    pub payload: Vec<u8>,
    /// How it is compressed; only carried, so any is possible.
    pub codec: Codec,
    /// How many records there are, and how many offsets they take.
    pub records: u32,
    /// The largest client timestamp among the records, ms.
    pub client_time_max_ms: Option<i64>,
    /// Whether some record is a tombstone.
    pub has_tombstones: bool,
    /// Whether some record has no key.
    pub has_keyless: bool,
    /// The length of the payload before it was compressed, where the host knows it.
    pub uncompressed_bytes: Option<u32>,
    /// The host's own bytes for the batch's header.
    pub host: [u8; HOST_BYTES],
}

impl Batch {
    /// A batch of the host's own layout. Reading it back gives the payload and its codec; records are not read out of it, so that
    /// compaction and lookups by key pass it over.
    ///
    /// # Errors
    /// [`BatchError`]: no records or more than the limit, no payload or a larger one than the limit, a timestamp that stands for none,
    /// or an uncompressed length that cannot be.
    pub fn foreign(batch: ForeignBatch, limits: BatchLimits) -> Result<Batch, BatchError> {
        let BatchLimits { records_max, bytes_max } = limits;
        let (size, limit) = (batch.payload.len() as u64, bytes_max.min(PAYLOAD_BYTES_MAX));
        match batch.records {
            0 => return Err(BatchError::Empty),
            records if records > records_max => return Err(BatchError::TooManyRecords { limit: records_max }),
            _ => {}
        }
        match size {
            0 => return Err(BatchError::NoPayload),
            size if size > u64::from(limit) => return Err(BatchError::TooLarge { limit, size }),
            _ => {}
        }
        if batch.client_time_max_ms == Some(i64::MIN) {
            return Err(BatchError::Timestamp);
        }
        let (least, most) =
            if batch.codec == Codec::None { (size as u32, size as u32) } else { (1, PAYLOAD_BYTES_MAX) };
        if let Some(stated) = batch.uncompressed_bytes.filter(|stated| !(least..=most).contains(stated)) {
            return Err(BatchError::Uncompressed { stated, limit: most });
        }
        let ForeignBatch { has_tombstones, has_keyless, .. } = batch;
        Ok(Batch {
            payload_crc: crc32c(&batch.payload),
            payload: batch.payload,
            record_count: batch.records,
            codec: batch.codec,
            uncompressed_bytes: batch.uncompressed_bytes.unwrap_or(0),
            flags: Flags { has_tombstones, has_keyless, is_foreign: true },
            client_time_max_ms: batch.client_time_max_ms,
            host: batch.host,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::batch::BatchHeader;
    use crate::id::{Offset, Uid};
    use strandline_disk::Position;

    const LIMITS: BatchLimits = BatchLimits { records_max: 3, bytes_max: 10 };

    fn example() -> ForeignBatch {
        ForeignBatch {
            payload: b"ten bytes!".to_vec(),
            codec: Codec::Gzip,
            records: 3,
            client_time_max_ms: Some(-7),
            has_tombstones: true,
            has_keyless: false,
            uncompressed_bytes: Some(5000),
            host: [9; HOST_BYTES],
        }
    }

    fn refused(change: impl FnOnce(&mut ForeignBatch)) -> Option<BatchError> {
        let mut batch = example();
        change(&mut batch);
        Batch::foreign(batch, LIMITS).err()
    }

    #[test]
    fn what_the_host_says_stands_in_the_header() {
        let batch = Batch::foreign(example(), LIMITS).expect("exactly at the limits");
        assert_eq!((batch.payload(), batch.record_count()), (&b"ten bytes!"[..], 3));
        let header = batch.header(Offset(100));
        let flags = Flags { has_tombstones: true, has_keyless: false, is_foreign: true };
        assert_eq!((header.first, header.end, header.records), (Offset(100), Offset(103), 3));
        assert_eq!((header.codec, header.flags, header.uncompressed_bytes), (Codec::Gzip, flags, 5000));
        assert_eq!((header.client_time_max_ms, header.host), (Some(-7), [9; HOST_BYTES]));
        assert_eq!(header.payload_crc, crc32c(b"ten bytes!"));
    }

    #[test]
    fn a_batch_that_cannot_be_is_refused_and_says_why() {
        assert_eq!(refused(|batch| batch.records = 0), Some(BatchError::Empty));
        assert_eq!(refused(|batch| batch.records = 4), Some(BatchError::TooManyRecords { limit: 3 }));
        assert_eq!(refused(|batch| batch.payload.clear()), Some(BatchError::NoPayload));
        assert_eq!(refused(|batch| batch.payload.push(0)), Some(BatchError::TooLarge { limit: 10, size: 11 }));
        assert_eq!(refused(|batch| batch.client_time_max_ms = Some(i64::MIN)), Some(BatchError::Timestamp));
        for (codec, stated, limit) in [
            (Codec::Gzip, 0, PAYLOAD_BYTES_MAX),
            (Codec::Gzip, PAYLOAD_BYTES_MAX + 1, PAYLOAD_BYTES_MAX),
            (Codec::None, 9, 10),
            (Codec::None, 11, 10),
        ] {
            let refused = refused(|batch| (batch.codec, batch.uncompressed_bytes) = (codec, Some(stated)));
            assert_eq!(refused, Some(BatchError::Uncompressed { stated, limit }));
        }
    }

    #[test]
    fn every_batch_that_is_taken_has_a_header_that_reads_back() {
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Gzip, Codec::Snappy] {
            let known = if codec == Codec::None { 10 } else { PAYLOAD_BYTES_MAX };
            for uncompressed_bytes in [None, Some(known)] {
                let foreign = ForeignBatch { codec, uncompressed_bytes, ..example() };
                let header = Batch::foreign(foreign, LIMITS).expect("within the limits").header(Offset(0));
                let bytes = header.encode(Uid(1), Position(0));
                assert_eq!(BatchHeader::decode(&bytes, Uid(1), Position(0), PAYLOAD_BYTES_MAX), Ok(header));
            }
        }
    }
}
