//! Batches as callers see them: built record by record, handed over whole, and read back record by record.
//!
//! A batch is laid out, compressed and summed up in the caller's thread; where it will stand is not known yet and does not matter to it.

mod builder;
mod foreign;
mod memory;
mod stored;

use crate::format::batch::{BatchHeader, HOST_BYTES};
use crate::id::Offset;
use std::fmt;

pub use crate::format::batch::{Codec, Flags};
pub use crate::format::record::{DecodeError, Header, Headers, Record, StoredRecord};
pub use builder::BatchBuilder;
pub use foreign::ForeignBatch;
pub use memory::{ReadBytes, ReadMemory, SharedBytes};
pub use stored::StoredBatch;

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
    /// The codec is not one that the store writes.
    #[error("the store does not write {0}; compress the records yourself and hand them over as a foreign batch")]
    NotOurs(&'static str),
    /// A foreign batch has no payload.
    #[error("the foreign batch has no payload")]
    NoPayload,
    /// A foreign batch has an uncompressed length that cannot be.
    #[error(
        "the foreign batch says that it unpacks to {stated} bytes, which cannot be; 1 to {limit} can, or not saying"
    )]
    Uncompressed {
        /// What the host says.
        stated: u32,
        /// The most that is possible; without a codec the payload's length, and only that.
        limit: u32,
    },
}

/// A batch that is ready to be appended.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    pub(crate) payload: Vec<u8>,
    pub(crate) payload_crc: u32,
    pub(crate) record_count: u32,
    pub(crate) codec: Codec,
    /// The length of the payload before it was compressed; 0 when a host that compressed it does not say.
    pub(crate) uncompressed_bytes: u32,
    pub(crate) flags: Flags,
    pub(crate) client_time_max_ms: Option<i64>,
    pub(crate) host: [u8; HOST_BYTES],
}

impl Batch {
    /// The records as they will stand on disk, compressed or not.
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

    /// How the payload is compressed.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The length of the payload before it was compressed; nothing when a host that compressed it did not say.
    #[must_use]
    pub fn uncompressed_bytes(&self) -> Option<u32> {
        (self.uncompressed_bytes != 0).then_some(self.uncompressed_bytes)
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
            codec: self.codec,
            flags: self.flags,
            host: self.host,
            uncompressed_bytes: self.uncompressed_bytes,
            ..BatchHeader::default()
        }
    }
}

/// A batch stands in errors, and errors in logs: its bytes do not.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} records, {} bytes, codec {})", self.record_count, self.payload.len(), self.codec)
    }
}
