//! The checksummed blocks and the index: the store's two small files, headers and footers of segments.

use super::{Golden, golden};
use strandline::format::block::{StoreFormat, StoreIdentity};
use strandline::format::checksum::crc32c;
use strandline::format::index::{Index, IndexEntry};
use strandline::format::manifest::RegionHeader;
use strandline::format::segment::{SegmentFooter, SegmentHeader, SegmentState};
use strandline::id::{Epoch, Generation, LogId, Offset, RangeNumber, SegmentId, Seq, StoreId, Topic, Uid};
use strandline_disk::Position;

pub const STORE: StoreId = StoreId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20);
pub const UID: Uid = Uid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

pub fn all() -> Vec<Golden> {
    let format = StoreFormat { store: STORE, release: "strandline 0.1.0".to_owned() };
    let region = RegionHeader { store: STORE, sequence: 42, region_bytes: 8 << 20 };
    vec![
        golden("format", format, |it| it.encode().to_vec(), |bytes| StoreFormat::decode(bytes).expect("a format")),
        golden(
            "identity",
            StoreIdentity { store: STORE },
            |it| it.encode().to_vec(),
            |bytes| StoreIdentity::decode(bytes).expect("an identity"),
        ),
        header("header-spare", SegmentState::Spare),
        header("header-prepared", SegmentState::Prepared),
        header("header-live", SegmentState::Live),
        golden("index", entries(), |_| index().encode(), decode_index),
        golden("footer", footer(), |it| it.encode().to_vec(), |bytes| SegmentFooter::decode(bytes).expect("a footer")),
        golden("region", region, |it| it.encode().to_vec(), |bytes| RegionHeader::decode(bytes).expect("a region")),
    ]
}

/// A segment of a topic that has only an encoded name.
pub fn segment() -> SegmentId {
    SegmentId { log: log(), seq: Seq::new(0x0a0b_0c0d).expect("within the limit") }
}

pub fn log() -> LogId {
    let range = RangeNumber::new(3).expect("within the limit");
    LogId { topic: Topic::new("orders/\u{e9}").expect("within the limits"), range }
}

fn header(name: &'static str, state: SegmentState) -> Golden {
    let spare = LogId { topic: Topic::new("").expect("within the limits"), range: RangeNumber::default() };
    let (segment, generation) = match state {
        SegmentState::Spare => (SegmentId { log: spare, seq: Seq::default() }, Generation(0)),
        _ => (segment(), Generation(2)),
    };
    let is_live = state == SegmentState::Live;
    let header = SegmentHeader {
        uid: UID,
        store: STORE,
        state,
        segment,
        generation,
        base: Offset(if is_live { 1_000_000 } else { 0 }),
        opened_at_ms: if is_live { 1_700_000_000_123 } else { 0 },
        epoch: Epoch(5),
        size: 64 << 20,
        look_ahead: 3 << 20,
    };
    golden(name, header, |it| it.encode().to_vec(), |bytes| SegmentHeader::decode(bytes).expect("a header"))
}

fn entries() -> Vec<IndexEntry> {
    let entry = |position, first_offset, store_time_ms, client_time_max_ms| IndexEntry {
        position: Position(position),
        first_offset: Offset(first_offset),
        store_time_ms,
        client_time_max_ms,
    };
    vec![
        entry(4096, 1_000_000, 1_700_000_000_123, None),
        entry(8200, 1_000_007, 1_700_000_000_123, Some(-1)),
        entry(20_480, 1_000_050, 1_700_000_001_000, Some(1_699_999_999_999)),
    ]
}

/// The index that batches at these places make.
fn index() -> Index {
    let mut index = Index::new();
    for entry in entries() {
        let header = strandline::format::batch::BatchHeader {
            first: entry.first_offset,
            store_time_ms: entry.store_time_ms,
            client_time_max_ms: entry.client_time_max_ms,
            ..Default::default()
        };
        index.note(entry.position, &header);
    }
    index
}

fn decode_index(bytes: &[u8]) -> Vec<IndexEntry> {
    let index = Index::decode(bytes, entries().len() as u32, crc32c(bytes)).expect("an index");
    index.entries().to_vec()
}

fn footer() -> SegmentFooter {
    SegmentFooter {
        uid: UID,
        base: Offset(1_000_000),
        end: Offset(1_000_060),
        data_end: Position(21_000),
        first_store_time_ms: 1_700_000_000_123,
        last_store_time_ms: 1_700_000_001_000,
        client_time_max_ms: Some(1_699_999_999_999),
        sealed_at_ms: 1_700_000_002_000,
        index_at: Position(24_576),
        index_entries: 3,
        index_crc: crc32c(&index().encode()),
    }
}
