//! A quota that is used up (EDQUOT), and btrfs without a free block: the room is the file system's to give, and comes back.
//! A qgroup of btrfs is the quota, since it needs nothing of the kernel that is not there wherever btrfs is.

use crate::common::{self, bytes_of, log_of, read_from, topic};
use crate::lives::{attempt, bounded, directories, within};
use crate::mounted::Mounted;
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use strandline::{AppendError, Config, Log, Offset, OpenError, RangeNumber, Store};

fn config(root: &Path) -> Config {
    Config { segment_bytes: 1 << 20, spare_bytes_max: 0, ..common::small(root) }
}

/// A btrfs whose root for a store is a subvolume with a quota.
fn with_quota(megabytes: u64, options: &str) -> Option<Mounted> {
    let image = Mounted::new(512, &["mkfs.btrfs", "-q", "-f"], &[], options)?;
    let (top, root) = (path(&image.at("")), path(&image.root()));
    let limited = image.changed_by("btrfs", &["quota", "enable", &top])
        && image.changed_by("btrfs", &["-q", "subvolume", "create", &root])
        && image.changed_by("btrfs", &["qgroup", "limit", &format!("{megabytes}M"), &root]);
    limited.then_some(image)
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What a record of this number holds.
fn value(number: u64) -> Vec<u8> {
    bytes_of(number, 30_000)
}

/// Appends until that is refused for want of room, and gives that and how many were acknowledged.
fn fill(log: &Log, from: u64) -> (u64, AppendError) {
    for number in from.. {
        if let Err(error) = attempt(log, &value(number)) {
            return (number, error);
        }
    }
    unreachable!("the numbers end before the disk")
}

/// That the first records are these. Behind them may stand what was refused when it was under way.
fn holds(log: &Log, count: u64) {
    let batches = read_from(log, Offset(0)).expect("readable");
    let records = batches.iter().flat_map(|batch| batch.records()).map(|record| record.expect("a record"));
    let values: Vec<Vec<u8>> = records.map(|record| record.value.expect("a value").to_vec()).collect();
    assert!(values.len() as u64 >= count, "{} of {count} records", values.len());
    assert!(values.iter().zip(0..count).all(|(found, number)| *found == value(number)));
}

/// What the disk answered, whichever step of an append it was.
fn errno_of(error: &AppendError) -> Option<Errno> {
    match error {
        AppendError::DiskFull { source, .. } | AppendError::Rouse { source, .. } => Some(source.errno),
        AppendError::Failed { latch, .. } | AppendError::Latched { latch, .. } => Some(latch.source.errno),
        AppendError::DiskAlmostFull { .. } => Some(Errno::NOSPC),
        _ => None,
    }
}

#[test]
fn a_quota_that_is_used_up_refuses_appends_only_and_they_go_on_when_it_is_raised() {
    let Some(image) = with_quota(24, "nodatacow") else { return };
    bounded(move || {
        let root = image.root();
        let store = Store::open(config(&root)).expect("a store");
        let (log, other) = (log_of(&store, "log"), log_of(&store, "other"));
        let (kept, refused) = fill(&log, 0);
        println!("{kept} records, then {refused}");
        assert!(kept > 300, "a quota of 24 MiB holds more than {kept} records of 30 KB");
        assert_eq!(errno_of(&refused), Some(Errno::DQUOT), "{refused}");
        assert!(refused.to_string().contains("free space or raise the quota"), "{refused}");
        let again = attempt(&log, &value(kept)).expect_err("it is used up");
        assert_eq!(errno_of(&again), Some(Errno::DQUOT), "{again}");
        holds(&log, kept);
        // What gives room back goes on: a log, and the oldest records of another.
        let before = directories(&root, "log-");
        let pinned = read_from(&log, Offset(kept - 2)).expect("readable").len();
        log.trim(Offset(kept / 2)).wait().expect("a trim needs no room");
        assert!(within(30, || directories(&root, "log-") < before), "files are removed");
        assert!(within(30, || attempt(&other, b"v").is_ok()), "with room there are appends again");
        store.delete_log(&topic("other"), RangeNumber::default()).expect("a deletion needs no room");
        assert_eq!(read_from(&log, Offset(kept - 2)).expect("readable").len(), pinned);
        store.close().expect("a clean close");
    });
}

#[test]
fn a_quota_that_is_lifted_is_noticed_without_a_restart_and_one_that_is_used_up_stops_no_open() {
    let Some(image) = with_quota(24, "nodatacow") else { return };
    bounded(move || {
        let root = image.root();
        let store = Store::open(config(&root)).expect("a store");
        let log = log_of(&store, "log");
        let (kept, _) = fill(&log, 0);
        drop(log);
        // What could not be marked is looked at when it is opened again.
        println!("closed: {:?}", store.close());
        let store = Store::open(config(&root)).expect("a quota that is used up stops no open");
        let log = log_of(&store, "log");
        holds(&log, kept);
        let (end, refused) = fill(&log, log.latest().0);
        println!("again: {end} records, then {refused}");
        assert_eq!(errno_of(&refused), Some(Errno::DQUOT), "{refused}");
        assert!(image.changed_by("btrfs", &["qgroup", "limit", "none", &path(&root)]));
        assert!(within(20, || attempt(&log, b"there is room").is_ok()), "{:?}", attempt(&log, b"?"));
        holds(&log, kept);
        store.close().expect("a clean close");
        let store = Store::open(config(&root)).expect("a store");
        holds(&log_of(&store, "log"), kept);
        store.close().expect("a clean close");
    });
}

/// What other programs have on the disk.
fn take_all(path: &PathBuf) {
    let mut file = File::options().append(true).create(true).open(path).expect("a file");
    let mut piece = vec![1; 1 << 20];
    while !piece.is_empty() {
        if file.write(&piece).and_then(|_| file.sync_all()).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
}

#[test]
fn df_02_btrfs_without_copies_on_write_and_without_a_free_block_refuses_appends_serves_reads_trims_and_comes_back_by_itself()
 {
    let Some(image) = Mounted::new(160, &["mkfs.btrfs", "-q", "-f"], &[], "nodatacow") else { return };
    bounded(move || {
        let root = image.root();
        let store = Store::open(config(&root)).expect("a store");
        let log = log_of(&store, "log");
        for number in 0..150 {
            attempt(&log, &value(number)).expect("an append");
        }
        take_all(&image.at("ballast"));
        let (kept, refused) = fill(&log, 150);
        println!("{kept} records, then {refused}");
        assert_eq!(errno_of(&refused), Some(Errno::NOSPC), "{refused}");
        holds(&log, kept);
        drop(log);
        println!("closed: {:?}", store.close());
        let store = Store::open(config(&root)).expect("a full disk stops no open");
        let log = log_of(&store, "log");
        holds(&log, kept);
        let before = directories(&root, "log-");
        log.trim(Offset(kept - 1)).wait().expect("a trim needs no room");
        assert!(within(30, || directories(&root, "log-") < before), "files are removed");
        std::fs::remove_file(image.at("ballast")).expect("removed");
        assert!(within(30, || attempt(&log, b"there is room").is_ok()), "{:?}", store.pressure());
        assert!(!read_from(&log, Offset(kept - 1)).expect("readable").is_empty(), "btrfs");
        store.close().expect("a clean close");
    });
}

/// Where files are copied on write an overwrite needs new blocks: what was preallocated is no promise there, and not even the manifest can be
/// written without room. Then less goes on by itself, and nothing that was acknowledged is lost.
#[test]
fn copies_on_write_without_room_refuse_what_needs_some_and_lose_nothing() {
    for quota in [true, false] {
        let image = match quota {
            true => with_quota(24, "datacow"),
            false => Mounted::new(160, &["mkfs.btrfs", "-q", "-f"], &[], "datacow"),
        };
        let Some(image) = image else { return };
        bounded(move || {
            let root = image.root();
            let store = Store::open(config(&root)).expect("a store");
            let log = log_of(&store, "log");
            for number in 0..150 {
                attempt(&log, &value(number)).expect("an append");
            }
            if !quota {
                take_all(&image.at("ballast"));
            }
            let (kept, refused) = fill(&log, 150);
            println!("{kept} records, then {refused}");
            // What a quota refuses to a copy on write is a full disk to some kernels: 6.1 is one.
            let errno = errno_of(&refused).expect("a refusal of the disk");
            assert!(errno == Errno::NOSPC || quota && errno == Errno::DQUOT, "{refused}");
            holds(&log, kept);
            drop(log);
            println!("closed: {:?}", store.close());
            match Store::open(config(&root)) {
                Ok(store) => holds(&log_of(&store, "log"), kept),
                Err(OpenError::Disk(source)) if source.errno == errno => {
                    let told = OpenError::Disk(source).to_string();
                    assert!(told.contains("free space"), "{told}");
                }
                Err(other) => panic!("{other}"),
            }
            if quota {
                assert!(image.changed_by("btrfs", &["qgroup", "limit", "none", &path(&root)]));
            } else {
                std::fs::remove_file(image.at("ballast")).expect("removed");
            }
            let store = Store::open(config(&root)).expect("there is room");
            let log = log_of(&store, "log");
            holds(&log, kept);
            assert!(within(20, || attempt(&log, b"there is room").is_ok()), "{:?}", attempt(&log, b"?"));
            store.close().expect("a clean close");
        });
    }
}
