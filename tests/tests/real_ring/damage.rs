//! Damage made by hand in the files of a closed store: what is intact stays readable, what is not is named.

use crate::common::{append, bytes_of, log_of, open, place, read_from, small, values};
use crate::files::{load, segments};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use strandline::format::scan::{FoundBatch, find_batches};
use strandline::format::segment::SegmentState;
use strandline::{Config, Log, Offset, OpenError, ReadError, Store};
use strandline_disk::Position;

/// A configuration under which no log is known as clean: opening looks at each.
fn looked_at(root: &std::path::Path) -> Config {
    Config { sabotage: Some(strandline::config::Sabotage::NeverClean), ..small(root) }
}

/// Flips the bits of `bytes` at `at`.
fn flip(file: &Path, at: u64, bytes: usize) {
    let open = OpenOptions::new().read(true).write(true).open(file).expect("a file of ours");
    let mut found = vec![0; bytes];
    open.read_exact_at(&mut found, at).expect("as long");
    found.iter_mut().for_each(|byte| *byte ^= 0x55);
    open.write_all_at(&found, at).expect("written");
}

/// Appends `records` of about `length` bytes, one a batch, and closes cleanly.
fn filled(config: &Config, records: u64, length: usize) {
    let store = open(config.clone());
    let log = log_of(&store, "rot");
    for number in 0..records {
        append(&log, &bytes_of(number, length));
    }
    store.close().expect("a clean close");
}

/// The batches (no marks) of the segment numbered `number`.
fn batches(root: &Path, number: usize) -> Vec<FoundBatch> {
    let (header, bytes) = load(&segments(root)[number]);
    let found = find_batches(&bytes[4096..], Position(4096), header.uid, 64 << 20);
    found.into_iter().filter(|found| !found.header.is_mark()).collect()
}

fn data_file(root: &Path, number: usize) -> std::path::PathBuf {
    segments(root)[number].join("data.0")
}

/// Every record but those of `lost` reads as it was appended, from every offset and in every size; the lost ones are named.
fn assert_only_lost(log: &Log, end: u64, length: usize, lost: std::ops::Range<u64>) {
    for offset in 0..end {
        for bytes in [1, 3_000, 100_000] {
            match log.read(Offset(offset), bytes).wait() {
                Ok(read) => {
                    assert!(!lost.contains(&offset), "{offset} was damaged");
                    for record in read.batches.iter().flat_map(|batch| batch.records()) {
                        let record = record.expect("a record");
                        assert_eq!(record.value, Some(&bytes_of(record.offset.0, length)[..]));
                    }
                    assert_eq!(read.batches[0].first(), Offset(offset));
                }
                Err(ReadError::Corrupt { from, to, .. }) => {
                    assert!(lost.contains(&offset), "{offset} is intact, and {bytes} bytes of it are called damaged");
                    assert_eq!((from, to), (Offset(offset), Offset(lost.end)), "{bytes} bytes");
                }
                Err(error) => panic!("offset {offset}: {error}"),
            }
        }
    }
}

#[test]
fn rot_in_a_sealed_segment_costs_only_the_batch_that_it_hit() {
    for (length, in_header) in [(300, false), (300, true), (20_000, false), (20_000, true)] {
        let place = place();
        let config = looked_at(place.path());
        filled(&config, 400_000 / (length as u64 + 200), length);
        let in_first = batches(place.path(), 0);
        let hit = in_first[in_first.len() / 2];
        flip(&data_file(place.path(), 0), hit.position.0 + if in_header { 20 } else { 128 + 40 }, 1);
        let store = open(config);
        let log = log_of(&store, "rot");
        assert!(store.report().damaged.is_empty(), "a sealed segment is not looked at when the store opens");
        let end = 400_000 / (length as u64 + 200);
        assert_only_lost(&log, end, length, hit.header.first.0..hit.header.end.0);
        assert_eq!(append(&log, b"on it goes").first, Offset(end));
    }
}

#[test]
fn a_damaged_footer_or_index_costs_nothing() {
    for which in 0..3 {
        let place = place();
        let config = looked_at(place.path());
        filled(&config, 300, 900);
        let file = data_file(place.path(), 0);
        let size = fs::metadata(&file).expect("there").len();
        match which {
            0 => flip(&file, size - 4096 + 30, 8),
            1 => {
                let last = *batches(place.path(), 0).last().expect("batches");
                let index = last.position.plus(last.header.total_length()).block_ceiling(4096);
                flip(&file, index.0 + 8, 4);
            }
            _ => OpenOptions::new().write(true).open(&file).expect("ours").set_len(size - 4096).expect("cut"),
        }
        let store = open(config);
        assert_eq!(values(&log_of(&store, "rot")), (0..300).map(|number| bytes_of(number, 900)).collect::<Vec<_>>());
    }
}

#[test]
fn a_lost_data_file_of_a_sealed_segment_takes_no_other_down() {
    let place = place();
    let config = looked_at(place.path());
    filled(&config, 300, 900);
    let lost = batches(place.path(), 0);
    let end = lost.last().expect("batches").header.end;
    fs::remove_file(data_file(place.path(), 0)).expect("removed");
    let store = open(config);
    let log = log_of(&store, "rot");
    let refused = log.read(Offset(0), 1).wait().expect_err("its file is gone");
    assert!(matches!(&refused, ReadError::Disk { source, .. } if source.is_absent()), "{refused}");
    assert_eq!(read_from(&log, end).expect("readable").len() as u64, 300 - end.0);
    append(&log, b"on it goes");
}

/// The number of the last live segment.
fn head(root: &Path) -> usize {
    let live = segments(root).iter().filter(|segment| load(segment).0.state == SegmentState::Live).count();
    live - 1
}

#[test]
fn rot_below_the_durable_end_of_the_write_head_is_kept_named_and_never_appended_over() {
    let place = place();
    let config = looked_at(place.path());
    filled(&config, 60, 500);
    let found = batches(place.path(), 0);
    let hit = found[30];
    let file = data_file(place.path(), 0);
    flip(&file, hit.position.0 + 200, 1);
    let before = fs::read(&file).expect("there");
    for life in 0..3_u64 {
        let store = open(config.clone());
        let report = store.report();
        assert!(report.damaged.iter().any(|line| line.contains("damaged")) && report.torn_bytes == 0, "{report:?}");
        let log = log_of(&store, "rot");
        assert_only_lost(&log, 60, 500, 30..31);
        assert_eq!(append(&log, b"on it goes").first, Offset(60 + life));
        store.close().expect("a clean close");
    }
    assert!(fs::read(&file).expect("there")[..64 << 10] == before[..64 << 10], "what is damaged is kept as it is");
}

#[test]
fn what_lies_past_the_end_is_torn_cleared_and_reported() {
    let place = place();
    let config = looked_at(place.path());
    filled(&config, 20, 500);
    let (header, bytes) = load(&segments(place.path())[0]);
    let last = *find_batches(&bytes[4096..], Position(4096), header.uid, 64 << 20).last().expect("a mark");
    let end = last.position.plus(last.header.total_length());
    let file = data_file(place.path(), 0);
    flip(&file, end.0 + 100, 5_000);
    let store = open(config.clone());
    assert_eq!((store.report().torn_bytes, store.report().damaged.len()), (5_100, 0), "{:?}", store.report());
    let log = log_of(&store, "rot");
    assert_eq!(values(&log).len(), 20);
    assert!(fs::read(&file).expect("there")[end.0 as usize..].iter().all(|byte| *byte == 0));
    assert_eq!(append(&log, b"on it goes").first, Offset(20));
    drop(store);
    assert_eq!(open(config).report().torn_bytes, 0);
}

#[test]
fn a_last_batch_that_was_torn_is_gone_and_its_offset_is_used_again() {
    let place = place();
    // No mark, so that nothing proves that the last batch had been durable: a crash in the middle of its write.
    let config = looked_at(place.path());
    filled(&config, 20, 500);
    let (header, bytes) = load(&segments(place.path())[0]);
    let found = find_batches(&bytes[4096..], Position(4096), header.uid, 64 << 20);
    let (last, mark) = (found[19], found[20]);
    assert!(mark.header.is_mark());
    let file = data_file(place.path(), 0);
    let zeros = vec![0; mark.header.total_length()];
    let open_file = OpenOptions::new().write(true).open(&file).expect("ours");
    open_file.write_all_at(&zeros, mark.position.0).expect("written");
    flip(&file, last.position.0 + 300, 1);
    let store = open(config);
    let torn = last.header.total_length() as u64;
    assert!((torn - 8..=torn).contains(&store.report().torn_bytes), "{:?}", store.report());
    let log = log_of(&store, "rot");
    assert_eq!(values(&log).len(), 19);
    assert_eq!(append(&log, b"again").first, Offset(19));
}

#[test]
fn a_header_block_that_rotted_costs_nothing_and_is_reported() {
    let place = place();
    let config = looked_at(place.path());
    filled(&config, 20, 500);
    flip(&data_file(place.path(), head(place.path())), 40, 4);
    let store = open(config);
    assert!(store.report().damaged.iter().any(|line| line.contains("header block")), "{:?}", store.report());
    assert_eq!(values(&log_of(&store, "rot")).len(), 20);
}

#[test]
fn a_stray_directory_is_reported_and_left_alone() {
    let place = place();
    let config = looked_at(place.path());
    filled(&config, 2, 10);
    fs::create_dir(place.path().join("rot-r0-s77")).expect("made");
    fs::write(place.path().join("rot-r0-s77/data.0"), "something").expect("written");
    let store = open(config);
    assert_eq!(store.report().strays, ["rot-r0-s77"]);
    assert_eq!(fs::read(place.path().join("rot-r0-s77/data.0")).expect("still there"), b"something");
}

#[test]
fn either_copy_of_the_manifest_is_enough() {
    for copy in ["manifest/a", "manifest/b"] {
        for how in 0..3 {
            let place = place();
            let config = looked_at(place.path());
            filled(&config, 300, 900);
            let file = place.path().join(copy);
            match how {
                0 => fs::remove_file(&file).expect("removed"),
                1 => flip(&file, 0, fs::metadata(&file).expect("there").len() as usize),
                _ => OpenOptions::new().write(true).open(&file).expect("ours").set_len(100).expect("cut"),
            }
            let store = open(config.clone());
            assert!(!store.report().warnings.is_empty(), "{copy} {how}: {:?}", store.report());
            assert_eq!(values(&log_of(&store, "rot")).len(), 300);
            store.close().expect("a clean close");
            let store = open(config);
            assert!(store.report().warnings.is_empty(), "{copy} {how} was made again: {:?}", store.report());
            assert_eq!(values(&log_of(&store, "rot")).len(), 300);
        }
    }
}

/// Damages files of a good store and gives the refusal to open it.
fn refusal(damage: impl FnOnce(&Path)) -> OpenError {
    let place = place();
    let config = looked_at(place.path());
    filled(&config, 300, 900);
    damage(place.path());
    Store::open(config).expect_err("it must not open")
}

#[test]
fn a_store_whose_identity_or_manifest_is_lost_is_refused_and_says_which() {
    let identity = |file: &'static str| refusal(|root| flip(&root.join(file), 20, 4));
    for file in ["strandline.format", "strandline.id"] {
        let refused = identity(file);
        assert!(matches!(&refused, OpenError::Identity { file: named, .. } if *named == file), "{refused}");
    }
    let other = place();
    drop(open(small(other.path())));
    let refused = refusal(|root| {
        fs::copy(other.path().join("strandline.id"), root.join("strandline.id")).expect("copied");
    });
    assert!(matches!(&refused, OpenError::Identity { file: "strandline.id", .. }), "{refused}");

    let both =
        |root: &Path, at: u64| ["manifest/a", "manifest/b"].iter().for_each(|copy| flip(&root.join(copy), at, 4));
    let refused = refusal(|root| {
        for copy in ["manifest/a", "manifest/b"] {
            fs::remove_file(root.join(copy)).expect("removed");
        }
    });
    assert!(matches!(refused, OpenError::ManifestLost), "{refused}");
    // After one open the second page is in force, in the first half; its first frame is the snapshot, and edits follow it.
    let refused = refusal(|root| both(root, 4096 + 40));
    assert!(matches!(refused, OpenError::ManifestDamaged { .. }), "{refused}");
}

#[test]
fn a_copy_that_is_made_again_under_a_larger_setting_never_rolls_the_manifest_back() {
    for lost in ["manifest/a", "manifest/b"] {
        let place = place();
        filled(&looked_at(place.path()), 20, 1_000);
        let larger = Config { manifest_bytes: 256 << 10, ..looked_at(place.path()) };
        fs::remove_file(place.path().join(lost)).expect("a copy");
        // Several opens, so that a page of either half is the newest once.
        for round in 0..4 {
            let store = open(larger.clone());
            let log = log_of(&store, format!("later-{round}"));
            append(&log, b"acknowledged");
            assert_eq!(values(&log_of(&store, "rot")).len(), 20, "{lost} was lost, round {round}");
            for earlier in 0..=round {
                assert_eq!(values(&log_of(&store, format!("later-{earlier}"))), [b"acknowledged"], "round {round}");
            }
            store.close().expect("a clean close");
        }
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_open_is_an_error_and_no_endless_read() {
    let place = place();
    let config = looked_at(place.path());
    let store = open(config.clone());
    let log = log_of(&store, "rot");
    for number in 0..20 {
        append(&log, &bytes_of(number, 1_000));
    }
    let file = OpenOptions::new().write(true).open(data_file(place.path(), 0)).expect("a file of ours");
    file.set_len(8_192).expect("cut");
    for offset in 0..20 {
        for bytes in [1, 3_000, 100_000] {
            match log.read(Offset(offset), bytes).wait() {
                Ok(read) => assert_eq!(read.batches[0].first(), Offset(offset)),
                Err(error) => assert!(matches!(error, ReadError::Corrupt { .. }), "{error}"),
            }
        }
    }
    // Not the last one: when the log rests a mark is written behind it, and what is kept of that block goes with it.
    let lost = log.read(Offset(10), 1).wait().expect_err("it is gone");
    assert!(lost.to_string().contains("cannot be read"), "{lost}");
    store.close().expect("a clean close");
}
