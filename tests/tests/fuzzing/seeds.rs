//! The inputs that the corpus begins with: the golden files, and what real files hold.

use super::folder;
use std::path::Path;
use strandline::format::batch::{BatchHeader, Codec, HEADER_BYTES};
use strandline::format::checksum::crc32c;
use strandline::format::manifest::{Edit, ReleaseReason};
use strandline::id::{Epoch, Generation, Life, LogId, Offset, RangeNumber, SegmentId, Seq, StoreId, Topic, Uid};
use strandline::manifest::page::Page;
use strandline::manifest::state::State;
use strandline_disk::Position;

const STORE: StoreId = StoreId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20);
const UID: Uid = Uid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

/// Makes the corpus. What is there under another name stays.
#[test]
#[ignore = "writes into the source: run it by name after a change of the format"]
fn seeds_are_written_into_the_corpus() {
    blocks();
    batches();
    manifest();
    names();
    policies();
    audit();
    found();
}

fn save(target: &str, name: &str, bytes: &[u8]) {
    std::fs::create_dir_all(folder(target)).expect("the corpus");
    std::fs::write(folder(target).join(name), bytes).expect("a seed");
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new("golden/format-1").join(format!("{name}.bin"))).expect("a golden file")
}

/// A block without the zeros at its end, which a body puts there again.
fn trimmed(mut block: Vec<u8>) -> Vec<u8> {
    let last = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    block.truncate(last);
    block
}

fn blocks() {
    for name in ["header-live", "header-prepared", "header-spare", "footer"] {
        save("segment", name, &trimmed(golden(name)));
    }
    save("segment", "header-whole", &golden("header-live"));
    for name in ["format", "identity", "region"] {
        save("marker", name, &trimmed(golden(name)));
    }
    save("marker", "identity-whole", &golden("identity"));
    let index = golden("index");
    let number = (index.len() as u32 / 32).to_le_bytes();
    save("index", "three-entries", &[&number[..], &crc32c(&index).to_le_bytes(), &index].concat());
    save("index", "none", &[0; 8]);
}

fn batches() {
    for name in ["batch-none", "batch-lz4", "batch-zstd", "batch-foreign-gzip", "mark-padded"] {
        save("batch", name, &golden(name));
    }
    let (whole, torn) = (file(12), [file(4), vec![0; 96], vec![7; 200]].concat());
    save("scan", "whole", &[&[255, 20, 3, 90][..], &whole].concat());
    save("scan", "torn", &[&[2, 0, 255, 1][..], &torn].concat());
    // Bits of the first byte: a size that fits, a look-ahead that does, a base, an end, an end near the base, a cut.
    let said = |bits: u8, spared: u8| [bits, 8, 16, 40, 30, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, spared];
    save("recovery", "whole", &[&said(0b111, 255)[..], &whole].concat());
    save("recovery", "torn", &[&said(0b111, 255)[..], &torn].concat());
    save("recovery", "damaged-below-its-end", &[&said(0b1_1111, 3)[..], &whole].concat());
    save("recovery", "truncated", &[&said(0b10_0111, 255)[..], &whole].concat());
    save("recovery", "lying-numbers", &[&said(0b1000, 4)[..], &whole].concat());
}

/// What a file holds behind its first block: batches, each with what the one before it made durable.
fn file(batches: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..batches {
        let at = Position(4096 + bytes.len() as u64);
        let payload = vec![number as u8 + 1; 20 + number as usize * 17];
        let first = Offset(10 + 2 * number);
        let header = BatchHeader {
            payload_bytes: payload.len() as u32,
            payload_crc: crc32c(&payload),
            first,
            end: first.plus(2),
            store_time_ms: 1_700_000_000_000 + number,
            durable_to: first,
            epoch: Epoch(number / 6),
            life: Life(3),
            records: 2,
            codec: Codec::None,
            uncompressed_bytes: payload.len() as u32,
            ..BatchHeader::default()
        };
        bytes.extend_from_slice(&header.encode(UID, at));
        bytes.extend_from_slice(&payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    assert!(bytes.len() > HEADER_BYTES);
    bytes
}

fn manifest() {
    let edits = [
        "clean",
        "fenced",
        "log-fenced",
        "policy-bound",
        "policy-defined",
        "policy-finalized",
        "policy-global",
        "prepared",
        "released",
        "replaced",
        "sealed",
        "truncated",
    ];
    for name in edits {
        save("frame", name, &golden(&format!("edit-{name}")));
    }
    let many: Vec<u8> = edits.iter().flat_map(|name| payload(&golden(&format!("edit-{name}")))).collect();
    save("frame", "edits-of-many-kinds", &many);
    let mut state = State::default();
    for edit in history() {
        state.apply(&edit).expect("a history");
    }
    let page = Page::snapshot(STORE, 42, &state).bytes;
    save("manifest", "a-page", &[&[0; 4][..], &page].concat());
    save("manifest", "a-damaged-twin", &[&[9, 0, 1, 0][..], &page].concat());
    save("manifest", "a-twin-that-was-behind", &[&[0, 0, 0, 40][..], &page].concat());
    let two = [page.clone(), page].concat();
    save("manifest", "a-page-behind-a-page", &[&[0; 4][..], &two].concat());
}

/// The edits of a frame.
fn payload(frame: &[u8]) -> Vec<u8> {
    let length = u32::from_le_bytes(*frame[8..].first_chunk().expect("a header")) as usize;
    frame[32..32 + length].to_vec()
}

fn history() -> Vec<Edit> {
    let log = LogId { topic: Topic::new("t").expect("short"), range: RangeNumber::default() };
    let segment = |seq| SegmentId { log: log.clone(), seq: Seq::new(seq).expect("small") };
    let prepared = |seq: u32| Edit::Prepared {
        segment: segment(seq),
        uid: Uid(u128::from(seq) + 1),
        generation: Generation(0),
        size: 65_536,
        look_ahead: 16_384,
        written: true,
    };
    let live = |seq, base| Edit::Live { segment: segment(seq), base: Offset(base), opened_at_ms: 5 };
    let sealed = Edit::Sealed {
        segment: segment(0),
        end: Offset(20),
        logical_bytes: 900,
        first_store_time_ms: 6,
        last_store_time_ms: 7,
        sealed_at_ms: 8,
    };
    vec![
        Edit::Opened { life: Life(2) },
        Edit::LogCreated { log: log.clone() },
        prepared(0),
        live(0, 0),
        prepared(1),
        live(1, 20),
        sealed,
        Edit::Truncated { log: log.clone(), end: Offset(25), epoch: Epoch(1) },
        Edit::released(&segment(9), Uid(77), Generation(1), ReleaseReason::Orphan),
        Edit::LogFenced { log, until: Some(Offset(30)) },
        Edit::ClockSure { wall_ms: 9 },
    ]
}

fn names() {
    for (number, name) in
        ["t-r0-s1", "g2gCaAJtAAAAA2EvYmEAYQM", "data.7", "torn.12", "strandline.id"].iter().enumerate()
    {
        save("names", &format!("name-{number}"), name.as_bytes());
    }
    save("names", "a-topic-of-any-bytes", b"\x01\0\0\0\x02\0\0\0\xc3\xa9/..");
    save("names", "a-uid", b"000000000000000000000000000000ab");
}

fn policies() {
    let documents = [
        r#"{"retention.max_age_ms": 0, "retention.max_bytes": null, "spread_by": "rack"}"#,
        r#"{"retention.segment_max_age_ms": 60000, "a": null}"#,
        r#"{"retention.max_bytes": [1.5, {"cleanup": true}], "cleanup": -1}"#,
    ];
    for (number, document) in documents.iter().enumerate() {
        save("policies", &format!("document-{number}"), document.as_bytes());
    }
    for name in ["policy-defined", "policy-global", "policy-bound", "policy-finalized"] {
        save("policies", name, &payload(&golden(&format!("edit-{name}")))[5..]);
    }
}

fn audit() {
    let line = |seq: u64| {
        format!("{{\"seq\":{seq},\"time_ms\":1,\"event\":\"policy_defined\",\"actor\":\"me\",\"outcome\":\"done\"}}\n")
    };
    save("audit", "lines", format!("\0\u{60}{}{}{}", line(7), line(8), line(9)).as_bytes());
    save("audit", "a-torn-line", format!("\0\u{7f}{}{{\"seq\":9,\"ti", line(8)).as_bytes());
    save("audit", "zeros", format!("\u{1e}\0{}\0\0\0\0", line(1)).as_bytes());
}

/// What once was found, as small as it can be. The tests in `found.rs` say what it was.
fn found() {
    // As above, of the first byte: no bit means any number of any size.
    let said = |bits: u8, numbers: [u8; 3]| {
        let [size, look_ahead, base] = numbers;
        [bits, size, look_ahead, base, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    };
    save("recovery", "found-a-window-larger-than-memory", &[&said(0, [255; 3])[..], &file(2)].concat());
    save("recovery", "found-a-size-of-nothing", &[&[0b110][..], &[0; 15], &file(2)].concat());
    save("recovery", "found-a-look-ahead-of-nothing", &[&said(0b1_1111, [16, 0, 40])[..], &file(6)].concat());
    save("recovery", "found-a-size-that-no-file-has", &[&said(0b1_1110, [39, 8, 40])[..], &file(6)].concat());
    let last = format!("\0\0{{\"seq\":{}}}\n", u64::MAX);
    save("audit", "found-a-number-without-a-next-one", last.as_bytes());
}
