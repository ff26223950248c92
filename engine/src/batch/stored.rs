//! A stored batch: one that was read, its payload verified, its records given out one by one.

use super::memory::{ReadBytes, SharedBytes};
use crate::format::batch::{BatchHeader, Codec, HOST_BYTES, verify_payload};
use crate::format::codec::unpack;
use crate::format::record::{DecodeError, Records};
use crate::id::Offset;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use strandline_disk::Position;

/// A batch as it was read, its payload verified. Several of them share the bytes of one read, which any of them keeps: whoever holds
/// a few for long copies them first with [`StoredBatch::detached`], so that the store gets its memory back.
#[derive(Clone)]
pub struct StoredBatch {
    position: Position,
    header: BatchHeader,
    bytes: Arc<dyn SharedBytes>,
    payload: Range<usize>,
    /// The payload unpacked, once somebody asked for it; nothing when it stands in the file as it is.
    unpacked: Option<Arc<OnceLock<Unpacked>>>,
}

/// What unpacking gave: the same for everybody who asks.
type Unpacked = Result<Vec<u8>, DecodeError>;

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
        is_whole.then(|| StoredBatch::kept(position, header, bytes, payload))
    }

    /// As `new`, for a payload that was verified already, never left memory, or is verified before the batch is handed out.
    pub(crate) fn kept(
        position: Position,
        header: BatchHeader,
        bytes: Arc<dyn SharedBytes>,
        payload: Range<usize>,
    ) -> StoredBatch {
        let is_packed = header.codec != Codec::None && !header.flags.is_foreign;
        let unpacked = is_packed.then(|| Arc::new(OnceLock::new()));
        StoredBatch { position, header, bytes, payload, unpacked }
    }

    /// Whether the payload is the one that the header was written for.
    #[must_use]
    pub(crate) fn verifies(&self) -> bool {
        verify_payload(&self.header, self.payload())
    }

    /// The batch's header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The same batch in memory of its own.
    #[must_use]
    pub fn detached(&self) -> StoredBatch {
        let bytes = ReadBytes::from(self.payload().to_vec());
        StoredBatch::kept(self.position, self.header, Arc::new(bytes), 0..self.payload.len())
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

    /// How the payload is compressed.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.header.codec
    }

    /// The length of the payload before it was compressed; nothing when a host that compressed it did not say.
    #[must_use]
    pub fn uncompressed_bytes(&self) -> Option<u32> {
        let is_unknown = self.header.uncompressed_bytes == 0;
        (!is_unknown).then_some(self.header.uncompressed_bytes)
    }

    /// True when a host laid the payload out: it is handed out as it came, and no records are read out of it.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.header.flags.is_foreign
    }

    /// The payload as our writer laid it out, unpacked. Unpacks it once, for this batch and all its clones, on the thread that asks
    /// first.
    ///
    /// # Errors
    /// [`DecodeError`]: the payload is foreign, or does not unpack to the length that its header states.
    pub fn unpacked(&self) -> Result<&[u8], DecodeError> {
        let BatchHeader { codec, uncompressed_bytes, .. } = self.header;
        if self.is_foreign() {
            return Err(DecodeError::Foreign(codec.name()));
        }
        let Some(unpacked) = &self.unpacked else { return Ok(self.payload()) };
        match unpacked.get_or_init(|| unpack(codec, self.payload(), uncompressed_bytes)) {
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(*error),
        }
    }

    /// The records, in order, unpacked first where they are compressed. Out of a foreign payload none are read: the only answer is
    /// [`DecodeError::Foreign`].
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        match self.unpacked() {
            Ok(payload) => Records::new(payload, self.header.first, self.header.end, self.header.records),
            Err(error) => Records::refused(error),
        }
    }
}

impl fmt::Debug for StoredBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, end, codec) = (self.first(), self.end(), self.codec());
        write!(f, "StoredBatch({first} to {end} at {}, {} bytes, codec {codec})", self.position, self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Batch, BatchBuilder, BatchLimits, ForeignBatch, Record};
    use super::*;
    use proptest::prelude::*;

    const LIMITS: BatchLimits = BatchLimits { records_max: 100, bytes_max: 100_000 };

    fn builder(values: &[&[u8]]) -> BatchBuilder {
        let mut builder = BatchBuilder::new(LIMITS);
        for value in values {
            builder.push(&Record { value: Some(value), ..Record::default() }).expect("room");
        }
        builder
    }

    fn stored_as(header: BatchHeader, payload: &[u8]) -> StoredBatch {
        let bytes = [b"before", payload, b"behind"].concat();
        StoredBatch::new(Position(4096), header, Arc::new(bytes.into()), 6..6 + payload.len()).expect("a good payload")
    }

    fn stored(batch: &Batch) -> StoredBatch {
        stored_as(batch.header(Offset(40)), batch.payload())
    }

    fn values(batch: &StoredBatch) -> Result<Vec<Vec<u8>>, DecodeError> {
        batch.records().map(|record| record.map(|record| record.value.unwrap_or_default().to_vec())).collect()
    }

    #[test]
    fn records_read_the_same_whatever_they_are_compressed_with() {
        let long = b"again and ".repeat(30);
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
            let batch = stored(&builder(&[b"one", &long, b""]).build_compressed(codec).expect("three records"));
            assert_eq!((batch.codec(), batch.is_foreign()), (codec, false));
            assert_eq!(batch.uncompressed_bytes(), Some(3 * 28 + 3 + 300));
            assert_eq!(batch.payload().len() < 300, codec != Codec::None);
            assert_eq!(values(&batch), Ok(vec![b"one".to_vec(), long.clone(), Vec::new()]));
            assert_eq!(batch.records().next().map(|record| record.map(|record| record.offset)), Some(Ok(Offset(40))));
        }
    }

    #[test]
    fn a_payload_is_unpacked_once_for_all_clones() {
        let batch = stored(&builder(&[&[7; 500]]).build_compressed(Codec::Zstd).expect("a record"));
        let clone = batch.clone();
        let unpacked = clone.unpacked().expect("good").as_ptr();
        assert_eq!(batch.unpacked().expect("good").as_ptr(), unpacked);
        let plain = stored(&builder(&[b"v"]).build().expect("a record"));
        assert_eq!(plain.unpacked().expect("good").as_ptr(), plain.payload().as_ptr(), "nothing is copied");
    }

    #[test]
    fn a_payload_that_is_not_the_headers_is_never_handed_out() {
        let batch = builder(&[b"v"]).build().expect("a record");
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
    fn a_foreign_payload_is_handed_out_as_it_came_and_no_records_are_read_out_of_it() {
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Gzip, Codec::Snappy] {
            let payload = builder(&[&[7; 500]]).build_compressed(Codec::Zstd).expect("a record").into_payload();
            let foreign = ForeignBatch { payload: payload.clone(), codec, records: 3, ..ForeignBatch::default() };
            let batch = stored(&Batch::foreign(foreign, LIMITS).expect("within the limits"));
            assert_eq!((batch.payload(), batch.codec(), batch.is_foreign()), (&payload[..], codec, true));
            assert_eq!((batch.record_count(), batch.end(), batch.uncompressed_bytes()), (3, Offset(43), None));
            assert_eq!(values(&batch), Err(DecodeError::Foreign(codec.name())));
            assert_eq!(batch.unpacked(), Err(DecodeError::Foreign(codec.name())));
        }
    }

    #[test]
    fn a_length_that_lies_is_an_answer_and_no_records() {
        let batch = builder(&[&[7; 500]]).build_compressed(Codec::Lz4).expect("a record");
        for uncompressed_bytes in [0, 527, 529] {
            let lying = BatchHeader { uncompressed_bytes, ..batch.header(Offset(0)) };
            let refused = DecodeError::Unpack { codec: "lz4", stated: uncompressed_bytes };
            assert_eq!(values(&stored_as(lying, batch.payload())), Err(refused));
        }
    }

    proptest! {
        /// Behind a right checksum a payload can still be anything: a host may have made it.
        #[test]
        fn any_payload_is_read_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 1..200),
            codec in prop::sample::select(vec![Codec::None, Codec::Lz4, Codec::Zstd]),
            uncompressed_bytes in 0..2000_u32,
            damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut payload = builder(&[&bytes, &bytes]).build_compressed(codec).expect("two records").into_payload();
            let uncompressed_bytes = if damage.is_some() { 2 * (28 + bytes.len() as u32) } else { uncompressed_bytes };
            if let Some((at, byte)) = damage {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
            let header = BatchHeader {
                payload_bytes: payload.len() as u32,
                payload_crc: crate::format::checksum::crc32c(&payload),
                end: Offset(2),
                records: 2,
                codec,
                uncompressed_bytes,
                ..BatchHeader::default()
            };
            prop_assert!(stored_as(header, &payload).records().count() <= 3);
        }
    }
}
