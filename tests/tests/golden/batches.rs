//! Batches of every kind, whole: header, payload and padding.

use super::blocks::UID;
use super::{Golden, golden};
use std::sync::Arc;
use strandline::batch::{Batch, BatchBuilder, BatchLimits, DecodeError, Flags, ForeignBatch, StoredBatch};
use strandline::format::batch::{BatchHeader, Codec, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use strandline::id::{Epoch, Life, Offset};
use strandline::{Header, Record};
use strandline_disk::Position;

const AT: Position = Position(0x1_0000_1008);
const HOST: [u8; 32] = *b"the thirty-two bytes of the host";

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
struct Owned {
    offset: u64,
    timestamp_ms: Option<i64>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// A batch as it is read: its header, its payload unpacked where it is ours, and its records.
#[derive(Debug, PartialEq)]
struct Read {
    header: BatchHeader,
    records: Result<Vec<Owned>, DecodeError>,
}

pub fn all() -> Vec<Golden> {
    let mark = BatchHeader { records: 0, end: Offset(1_000_000), ..context() };
    vec![
        ours("batch-none", Codec::None),
        ours("batch-lz4", Codec::Lz4),
        ours("batch-zstd", Codec::Zstd),
        foreign("batch-foreign-gzip", Codec::Gzip, Some(5000)),
        foreign("batch-foreign-none", Codec::None, None),
        marked("mark", mark),
        marked("mark-padded", mark.padded(AT, 512)),
    ]
}

/// What a log puts into each header.
fn context() -> BatchHeader {
    BatchHeader {
        first: Offset(1_000_000),
        store_time_ms: 1_700_000_000_123,
        durable_to: Offset(999_990),
        epoch: Epoch(5),
        life: Life(17),
        ..BatchHeader::default()
    }
}

/// The header of `batch`, as a log makes it.
fn header_of(batch: &Batch) -> BatchHeader {
    BatchHeader {
        payload_bytes: batch.payload().len() as u32,
        payload_crc: batch.payload_crc(),
        end: Offset(1_000_000 + u64::from(batch.record_count())),
        client_time_max_ms: batch.client_time_max_ms(),
        tombstone_horizon_ms: 1_700_000_000_000,
        records: batch.record_count(),
        codec: batch.codec(),
        flags: batch.flags(),
        host: *batch.host_bytes(),
        uncompressed_bytes: batch.uncompressed_bytes().unwrap_or(0),
        ..context()
    }
}

fn records() -> Vec<Owned> {
    let headers =
        vec![(b"trace".to_vec(), Some(b"7f".to_vec())), (b"trace".to_vec(), None), (Vec::new(), Some(Vec::new()))];
    let again = b"again and again and again and again and again and again and again".to_vec();
    let record = |offset, timestamp_ms, key: Option<&[u8]>, value, headers| Owned {
        offset,
        timestamp_ms,
        key: key.map(<[u8]>::to_vec),
        value,
        headers,
    };
    vec![
        record(1_000_000, Some(1_699_999_999_999), Some(b"key"), Some(b"value".to_vec()), headers),
        record(1_000_001, None, Some(b"key"), None, Vec::new()),
        record(1_000_002, Some(-1), None, Some(Vec::new()), Vec::new()),
        record(1_000_003, Some(0), Some(b""), Some(again), Vec::new()),
    ]
}

fn build(codec: Codec) -> Batch {
    let mut builder = BatchBuilder::new(BatchLimits { records_max: 10, bytes_max: 1000 });
    builder.set_host_bytes(HOST);
    for Owned { timestamp_ms, key, value, headers, .. } in records() {
        let headers: Vec<_> = headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect();
        let (key, value) = (key.as_deref(), value.as_deref());
        builder.push(&Record { key, value, headers: &headers, timestamp_ms }).expect("room");
    }
    let batch = builder.build_compressed(codec).expect("four records");
    assert_eq!(batch.codec(), codec, "the example shrinks");
    batch
}

/// A batch of our writer. How it is compressed is the library's choice, so the packed length and checksum are the file's own.
fn ours(name: &'static str, codec: Codec) -> Golden {
    let is_exact = codec == Codec::None;
    let check = move |bytes: &[u8]| {
        let found = decode(bytes);
        let mut header = header_of(&build(codec));
        if !is_exact {
            (header.payload_bytes, header.payload_crc) = (found.header.payload_bytes, found.header.payload_crc);
        }
        let expected = Read { header, records: Ok(records()) };
        if found == expected { Ok(()) } else { Err(format!("{found:?} was read, not {expected:?}")) }
    };
    let encode = move || whole(&header_of(&build(codec)), build(codec).payload());
    Golden { name, encode: Box::new(encode), check: Box::new(check), is_exact }
}

fn foreign(name: &'static str, codec: Codec, uncompressed_bytes: Option<u32>) -> Golden {
    let batch = ForeignBatch {
        payload: b"laid out by the host".to_vec(),
        codec,
        records: 3,
        client_time_max_ms: Some(1_699_999_999_999),
        has_tombstones: true,
        has_keyless: false,
        uncompressed_bytes,
        host: HOST,
    };
    let batch = Batch::foreign(batch, BatchLimits { records_max: 3, bytes_max: 1000 }).expect("within the limits");
    let header = header_of(&batch);
    assert_eq!(header.flags, Flags { has_tombstones: true, has_keyless: false, is_foreign: true });
    let read = Read { header, records: Err(DecodeError::Foreign(codec.name())) };
    golden(name, read, |it| whole(&it.header, b"laid out by the host"), decode)
}

fn marked(name: &'static str, mark: BatchHeader) -> Golden {
    let zeros = vec![0; mark.payload_bytes as usize];
    golden(name, Read { header: mark, records: Ok(Vec::new()) }, move |it| whole(&it.header, &zeros), decode)
}

/// The batch as it stands in a file.
fn whole(header: &BatchHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [&header.encode(UID, AT)[..], payload].concat();
    bytes.resize(header.total_length(), 0);
    bytes
}

fn decode(bytes: &[u8]) -> Read {
    let header = BatchHeader::decode(bytes, UID, AT, PAYLOAD_BYTES_MAX).expect("a batch");
    assert_eq!(bytes.len(), header.total_length());
    let payload = HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize;
    let batch =
        StoredBatch::new(AT, header, Arc::new(bytes.to_vec().into()), payload).expect("a payload that verifies");
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let records = batch.records().map(|record| {
        record.map(|record| Owned {
            offset: record.offset.0,
            timestamp_ms: record.timestamp_ms,
            key: owned(record.key),
            value: owned(record.value),
            headers: record.headers().map(|header| (header.name.to_vec(), owned(header.value))).collect(),
        })
    });
    // A mark that pads has a payload and no records in it.
    let records = if header.is_mark() { Ok(Vec::new()) } else { records.collect() };
    Read { header, records }
}
