//! Manifests that no store would write, written by hand with right checksums: what contradicts itself, what is too large, and what is
//! used up.

use crate::common::{append, log_of, one, open, place, small, topic};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use strandline::format::block::StoreIdentity;
use strandline::format::manifest::{Edit, FramePlace, RegionHeader, encode_frame};
use strandline::id::{Epoch, Generation, NUMBER_MAX, SegmentId, Seq, Uid};
use strandline::{AppendError, Config, LogId, Offset, OpenError, RangeNumber, Receipt, Store};
use strandline_disk::Position;

const MANIFEST_BYTES: u64 = 64 << 10;

fn config(root: &Path) -> Config {
    Config { manifest_bytes: MANIFEST_BYTES, ..small(root) }
}

fn log(name: &str) -> LogId {
    LogId { topic: topic(name), range: RangeNumber::default() }
}

/// A closed store whose manifest says exactly these edits.
fn store_with(root: &Path, edits: &[Edit]) {
    open(config(root)).close().expect("a clean close");
    let identity = std::fs::read(root.join("strandline.id")).expect("an identity");
    let store = StoreIdentity::decode(&identity).expect("an identity").store;
    // An even sequence lives in the first half, and it is larger than what is there.
    let sequence = 1_000;
    let place = FramePlace { store, sequence, position: Position(4096) };
    let region = [
        &RegionHeader { store, sequence, region_bytes: MANIFEST_BYTES / 2 }.encode()[..],
        &encode_frame(edits, 0, place),
    ]
    .concat();
    assert!(region.len() as u64 <= MANIFEST_BYTES / 2, "{} bytes", region.len());
    for copy in ["manifest/a", "manifest/b"] {
        let file = OpenOptions::new().write(true).open(root.join(copy)).expect("a copy");
        file.write_all_at(&region, 0).expect("written");
    }
}

#[test]
fn a_manifest_that_contradicts_itself_is_refused() {
    let place = place();
    let created = Edit::LogCreated { log: log("twice") };
    store_with(place.path(), &[created.clone(), created]);
    let refused = Store::open(config(place.path())).expect_err("a log is created once");
    assert!(matches!(&refused, OpenError::ManifestContradiction(text) if text.contains("twice")), "{refused}");
}

#[test]
fn a_manifest_that_its_files_cannot_hold_is_refused_with_the_bytes_that_it_needs() {
    let place = place();
    let edits: Vec<_> = (0..100).map(|number| Edit::LogCreated { log: log(&format!("{number:0231}")) }).collect();
    store_with(place.path(), &edits);
    let refused = Store::open(config(place.path())).expect_err("twice as large as a snapshot");
    assert!(
        matches!(refused, OpenError::ManifestFull { needed, room } if needed > room && room == MANIFEST_BYTES / 2),
        "{refused}"
    );
}

fn refusal(store: &Store, name: &str) -> Result<Receipt, AppendError> {
    let log = log_of(store, name);
    log.append(one(&log, b"v")).expect("room").wait()
}

#[test]
fn a_log_whose_offsets_or_segment_numbers_are_used_up_says_so_and_no_other_suffers() {
    let place = place();
    let (full, last) = (1 << 62, SegmentId { log: log("numbers"), seq: Seq::new(NUMBER_MAX).expect("the last") });
    let edits = [
        Edit::LogCreated { log: log("offsets") },
        Edit::StartOffset { log: log("offsets"), start: Offset(full), epoch: Epoch(0) },
        Edit::LogCreated { log: log("numbers") },
        Edit::Prepared {
            segment: last,
            uid: Uid(1),
            generation: Generation(0),
            size: 128 << 10,
            look_ahead: 1 << 20,
            written: false,
        },
    ];
    store_with(place.path(), &edits);
    let store = open(config(place.path()));
    assert_eq!(refusal(&store, "offsets").expect("the last offset").end, Offset(full + 1));
    let offsets = AppendError::Exhausted { log: log("offsets"), what: "offsets" };
    assert_eq!(refusal(&store, "offsets"), Err(offsets));
    let numbers = AppendError::Exhausted { log: log("numbers"), what: "segment numbers" };
    assert_eq!(refusal(&store, "numbers"), Err(numbers));
    assert_eq!(append(&log_of(&store, "other"), b"v").first, Offset(0));
}
