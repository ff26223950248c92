//! A batch: its header, its payload, what that unpacks to, and its records.

use super::{AT, UID, cut, sign};
use std::sync::Arc;
use strandline::batch::StoredBatch;
use strandline::format::batch::{ALIGN, BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use strandline::format::codec;
use strandline::format::record;
use strandline::id::Uid;
use strandline::{Header, Record};

/// The bytes are a batch.
pub fn check(bytes: &[u8]) {
    let bytes = cut(bytes);
    read(bytes);
    let mut signed = bytes.to_vec();
    sign::batch(&mut signed, UID, AT);
    read(&signed);
}

fn read(bytes: &[u8]) {
    let Ok(header) = BatchHeader::decode(bytes, UID, AT, PAYLOAD_BYTES_MAX) else { return };
    let again = header.encode(UID, AT);
    assert_eq!(again, bytes[..HEADER_BYTES], "a header is written as it was read: {header:?}");
    assert!(BatchHeader::decode(bytes, UID, AT.plus(ALIGN), PAYLOAD_BYTES_MAX).is_err(), "at another place");
    assert!(BatchHeader::decode(bytes, Uid(UID.0 ^ 1), AT, PAYLOAD_BYTES_MAX).is_err(), "in another file");
    let ends = HEADER_BYTES + header.payload_bytes as usize;
    assert_eq!(header.total_length(), ends + header.padding());
    assert!(header.total_length().is_multiple_of(ALIGN) && header.padding() < ALIGN);
    let payload = HEADER_BYTES..ends;
    let Some(batch) = StoredBatch::new(AT, header, Arc::new(bytes.to_vec().into()), payload.clone()) else { return };
    assert_eq!(batch.payload(), &bytes[payload]);
    unpack(&batch);
    records(&batch);
}

fn unpack(batch: &StoredBatch) {
    let header = batch.header();
    if let Ok(unpacked) = codec::unpack(header.codec, batch.payload(), header.uncompressed_bytes) {
        assert_eq!(unpacked.len(), header.uncompressed_bytes as usize, "as long as it said");
    }
}

/// Records lie within the offsets of their batch and grow. A payload whose records are all good has one spelling.
fn records(batch: &StoredBatch) {
    let (mut next, mut payload, mut is_whole) = (batch.first(), Vec::new(), !batch.header().is_mark());
    for (read, record) in batch.records().enumerate() {
        assert!(read <= batch.record_count() as usize, "no more records than the header says, and one refusal");
        let Ok(stored) = record else {
            is_whole = false;
            continue;
        };
        assert!(stored.offset >= next && stored.offset < batch.end(), "{} of {next}..{}", stored.offset, batch.end());
        next = stored.offset.plus(1);
        let headers: Vec<Header<'_>> = stored.headers().collect();
        assert_eq!(headers.len(), stored.headers().len());
        let (key, value, timestamp_ms) = (stored.key, stored.value, stored.timestamp_ms);
        let record = Record { key, value, headers: &headers, timestamp_ms };
        record::encode(&mut payload, stored.offset.since(batch.first()) as u32, &record);
    }
    if is_whole {
        assert_eq!(
            batch.unpacked().expect("records were read out of it"),
            payload,
            "records are written as they were read"
        );
    }
}
