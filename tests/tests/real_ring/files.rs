//! What stands on disk: every segment is looked at with nothing but the format.

use crate::common::{append, bytes_of, log_of, open, place, small, values};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use strandline::format::index::{INDEX_ENTRY_BYTES, Index};
use strandline::format::scan::{Fed, Scan, StopReason};
use strandline::format::segment::{DATA_START, SegmentFooter, SegmentHeader, SegmentState};
use strandline::{Config, Offset, layout};

const BLOCK: usize = 4096;

/// The directories of all segments, in the order of their numbers.
pub fn segments(root: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(root).expect("listed").map(|entry| entry.expect("an entry").file_name());
    let mut found: Vec<_> =
        names.filter_map(|name| Some((layout::candidate_ids(name.to_str()?).pop()?, name))).collect();
    found.sort();
    found.into_iter().map(|(_, name)| root.join(name)).collect()
}

/// The header and the bytes of a segment's data file.
pub fn load(segment: &Path) -> (SegmentHeader, Vec<u8>) {
    let bytes = std::fs::read(segment.join("data.0")).expect("a data file");
    (SegmentHeader::decode(&bytes).expect("a header block"), bytes)
}

/// Checks a sealed segment that is to start at `base`; gives its end and how many records it holds.
fn check_sealed(segment: &Path, base: Offset) -> (Offset, u64) {
    let (header, bytes) = load(segment);
    assert_eq!((header.state, header.base, header.size), (SegmentState::Live, base, bytes.len() as u64));
    assert_eq!(
        layout::directory_name(&header.segment).as_str(),
        segment.file_name().expect("a name").to_str().expect("text")
    );
    let footer = SegmentFooter::decode(&bytes[bytes.len() - BLOCK..]).expect("a footer");
    assert_eq!((footer.uid, footer.base), (header.uid, header.base));
    assert!(header.opened_at_ms <= footer.first_store_time_ms && footer.last_store_time_ms <= footer.sealed_at_ms);

    let (mut index, mut records, mut end) = (Index::new(), 0, header.base);
    let mut scan = Scan::new(header.uid, DATA_START, 64 << 20);
    let fed = scan.feed(&bytes[BLOCK..], &mut |position, batch| {
        assert_eq!(batch.first, end);
        assert!(batch.durable_to <= batch.first && batch.life.0 >= 1);
        (end, records) = (batch.end, records + u64::from(batch.records));
        if !batch.is_mark() {
            index.note(position, batch);
        }
        std::ops::ControlFlow::Continue(())
    });
    let Fed::Stopped(stop) = fed else { panic!("a file ends with zeros or with its index") };
    assert!(matches!(stop.why, StopReason::NotABatch(_)), "{stop:?}");
    assert_eq!((footer.data_end, footer.end), (stop.at, end));
    let at = footer.index_at.0 as usize;
    let stored = &bytes[at..at + footer.index_entries as usize * INDEX_ENTRY_BYTES];
    let stored = Index::decode(stored, footer.index_entries, footer.index_crc).expect("an index");
    assert_eq!(stored.entries(), index.entries());
    assert!(bytes[stop.at.0 as usize..at].iter().all(|byte| *byte == 0), "nothing stale behind the data");
    (end, records)
}

#[test]
fn every_rolled_segment_is_sealed_with_header_index_and_footer_on_disk() {
    let place = place();
    let config = Config { segment_bytes: 64 << 10, batch_bytes_max: 16 << 10, ..small(place.path()) };
    let store = open(config.clone());
    let log = log_of(&store, "rolls");
    let wanted: Vec<_> = (0..300_u64).map(|number| bytes_of(number, (number * 37 % 5_000) as usize)).collect();
    let waiting: Vec<_> =
        wanted.iter().map(|value| log.append(crate::common::one(&log, value)).expect("room")).collect();
    assert!(waiting.into_iter().all(|pending| pending.wait().is_ok()));
    assert!(store.counters().rolls > 10, "{:?}", store.counters());
    store.close().expect("a clean close");

    let segments = segments(place.path());
    let live: Vec<_> = segments.iter().filter(|segment| load(segment).0.state == SegmentState::Live).collect();
    assert!(segments.len() - live.len() <= 1, "at most one successor is prepared");
    let (mut end, mut records) = (Offset(0), 0);
    for segment in &live[..live.len() - 1] {
        let (of_segment, in_segment) = check_sealed(segment, end);
        (end, records) = (of_segment, records + in_segment);
    }
    assert_eq!(load(live[live.len() - 1]).0.base, end);
    assert_eq!(records, end.0, "compaction alone makes gaps");
    let store = open(config);
    assert_eq!(values(&log_of(&store, "rolls")), wanted);
    assert!(store.report().damaged.is_empty() && store.report().strays.is_empty(), "{:?}", store.report());
}

#[test]
fn nobody_else_may_look_into_the_files() {
    let place = place();
    let root = place.path().join("store");
    let store = open(small(&root));
    append(&log_of(&store, "private"), b"v");
    store.close().expect("a clean close");
    let mut left = vec![root];
    while let Some(path) = left.pop() {
        let metadata = std::fs::metadata(&path).expect("there");
        let mode = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o7777, mode, "{}", path.display());
        if metadata.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("listed").map(|entry| entry.expect("an entry").path()));
        }
    }
}

#[test]
fn dl_09_no_file_of_a_store_is_mapped_into_memory() {
    let place = place();
    let root = place.path().canonicalize().expect("there");
    let store = open(small(&root));
    let log = log_of(&store, "mapped");
    let mapped = |what: &Path| {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this process");
        maps.lines().filter(|line| line.contains(what.to_str().expect("text"))).map(str::to_owned).collect::<Vec<_>>()
    };
    for round in 0..4 {
        for number in 0..40 {
            append(&log, &bytes_of(round * 40 + number, 10_000));
        }
        assert_eq!(values(&log).len(), 40 * (round as usize + 1));
        assert_eq!(mapped(&root), [""; 0]);
    }
    log.verify(None).wait().expect("verified");
    log.trim(Offset(log.latest().0 - 1)).wait().expect("a trim");
    assert_eq!(mapped(&root), [""; 0]);
    let program = std::env::current_exe().expect("this program");
    assert!(!mapped(&program).is_empty(), "what is mapped is seen");
    store.close().expect("a clean close");
}
