//! A barrier on real files, and on real file systems what the report says of barriers.

use crate::mounted::Mounted;
use crate::seccomp;
use crate::support::{filled, make_file, on_ring, open_at, options, place, run};
use rustix::io::Errno;
use std::fs;
use strandline_disk::capabilities::{Capabilities, Journal};
use strandline_disk::host::{Backend, DirectMode, DiskOptions};
use strandline_disk::real::RealDisk;
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, Verb, transfer};

/// Writes and syncs two files, overwrites both, and ends with one barrier. Gives what they then hold.
fn overwrite_two(disk: &RealDisk) -> [Vec<u8>; 2] {
    let files = ["one", "two"].map(|name| make_file(disk, &disk.root(), name).expect("made"));
    let put = |file: &File, seed: u8| {
        let written = filled(disk, 4 * BLOCK, seed);
        let (written, result) = run(disk, transfer::write(disk, file, written, Position(0), false));
        result.expect("written");
        written.to_vec()
    };
    for file in &files {
        put(file, 1);
        run(disk, transfer::sync(disk, file)).expect("synced");
    }
    run(disk, transfer::sync_directory(disk, &disk.root())).expect("synced");
    let written = [put(&files[0], 2), put(&files[1], 3)];
    run(disk, transfer::barrier(disk, &files[0])).expect("flushed");
    written
}

#[test]
fn a_barrier_is_answered_and_leaves_what_was_written() {
    for access in [DirectMode::Auto, DirectMode::Off] {
        let place = place();
        let disk = open_at(place.path(), &DiskOptions { access, ..options() });
        let report = &disk.capabilities().barrier;
        assert!(!report.reason.is_empty());
        assert!(!report.allowed || disk.capabilities().direct.effective, "{report:?}");
        let written = overwrite_two(&disk);
        for (name, bytes) in ["one", "two"].into_iter().zip(written) {
            assert_eq!(fs::read(place.path().join(name)).expect("there"), bytes);
        }
    }
}

#[test]
fn a_barrier_that_fails_says_what_it_was_and_of_which_file() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let other = open_at(&place.path().join("other"), &options());
    let numbers: Vec<File> =
        (0..8).map(|number| make_file(&other, &other.root(), &format!("f{number}")).expect("made")).collect();
    let error = run(&disk, transfer::barrier(&disk, &numbers[7])).expect_err("this disk has no such file open");
    assert_eq!((error.verb, &*error.path), (Verb::Barrier, "f7"));
}

#[test]
fn a_journalled_ext4_allows_one_barrier_for_two_files() {
    let Some(mut mounted) = Mounted::new(32, &["mkfs.ext4", "-q", "-F"], &[], "rw") else { return };
    let disk = open_at(&mounted.root(), &options());
    let report = disk.capabilities();
    assert_eq!(report.filesystem.journal, Some(Journal::Internal { mode: "ordered".into() }));
    assert!(report.direct.effective, "{:?}", report.direct);
    assert!(report.barrier.allowed, "{:?}", report.barrier);
    let written = overwrite_two(&disk);
    drop(disk);
    mounted.remount("rw");
    for (name, bytes) in ["one", "two"].into_iter().zip(written) {
        assert_eq!(fs::read(mounted.root().join(name)).expect("there"), bytes);
    }
}

/// A kernel that refuses exactly what makes things durable shows that it is asked for it, by the threads that inherit the filter.
#[test]
fn over_plain_calls_what_is_to_be_durable_is_asked_for_as_such() {
    const REFUSED: Errno = Errno::NOTRECOVERABLE;
    let errno = REFUSED.raw_os_error();
    let filtered = move |filter: fn(i32), durable: bool, sync: bool, names: bool| {
        let look = move || {
            let place = place();
            filter(errno);
            let disk = open_at(place.path(), &DiskOptions { backend: Backend::Posix, ..options() });
            if on_ring(&disk) {
                return; // The environment overrules the options.
            }
            let file = make_file(&disk, &disk.root(), "x").expect("made");
            let write =
                |durable| run(&disk, transfer::write(&disk, &file, filled(&disk, BLOCK, 1), Position(0), durable));
            write(false).1.expect("what is not durable needs nothing of it");
            let refused = |result: Result<(), DiskError>| result.is_err_and(|error| error.errno == REFUSED);
            assert_eq!(refused(write(true).1), durable);
            assert_eq!(refused(run(&disk, transfer::sync(&disk, &file))), sync);
            assert_eq!(refused(run(&disk, transfer::barrier(&disk, &file))), sync);
            assert_eq!(refused(run(&disk, transfer::sync_directory(&disk, &disk.root()))), names);
        };
        std::thread::spawn(look).join().expect("no panic");
    };
    filtered(
        |errno| seccomp::refuse_flagged(libc::SYS_pwritev2 as u32, libc::RWF_DSYNC as u32, errno),
        true,
        false,
        false,
    );
    filtered(|errno| seccomp::refuse(libc::SYS_fdatasync as u32, errno), false, true, false);
    filtered(|errno| seccomp::refuse(libc::SYS_fsync as u32, errno), false, false, true);
}

/// Opens a disk on a file system made so, and hands its report on. The disk is gone before the file system is.
fn on(megabytes: u64, mkfs: &[&str], tune: &[&str], mount: &str, look: impl FnOnce(&Capabilities)) {
    if let Some(mounted) = Mounted::new(megabytes, mkfs, tune, mount) {
        look(&open_at(&mounted.root(), &options()).capabilities());
    }
}

fn refused(named: &'static str) -> impl FnOnce(&Capabilities) {
    move |report| {
        let barrier = &report.barrier;
        assert!(!barrier.allowed && barrier.reason.contains(named), "{named}: {barrier:?} {:?}", report.filesystem);
    }
}

#[test]
fn each_way_to_mount_ext4_is_told_apart() {
    let ext4 = ["mkfs.ext4", "-q", "-F"];
    let with = |more: &'static [&'static str]| [&ext4[..], more].concat();
    on(32, &with(&["-O", "^has_journal"]), &[], "rw", |report| {
        assert_eq!(report.filesystem.journal, Some(Journal::Absent));
        assert_eq!(report.filesystem.fast_commit, Some(false));
        assert!(report.barrier.allowed, "{:?}", report.barrier);
    });
    on(32, &ext4, &[], "nobarrier", refused("without barriers"));
    on(32, &ext4, &["tune2fs", "-o", "nobarrier"], "rw", refused("without barriers"));
    on(32, &ext4, &[], "data=writeback", refused("`writeback`"));
    on(32, &ext4, &[], "data=journal", refused("page cache"));
    on(32, &with(&["-O", "fast_commit"]), &[], "rw", refused("`fast_commit`"));
    on(32, &with(&["-b", "4096", "-J", "device=JOURNAL"]), &[], "rw", refused("another device"));
}

#[test]
fn xfs_allows_a_barrier_exactly_without_reflink() {
    on(320, &["mkfs.xfs", "-q", "-m", "reflink=0"], &[], "rw", |report| {
        assert_eq!((report.filesystem.reflink, report.filesystem.zoned), (Some(false), Some(false)));
        assert!(report.barrier.allowed, "{:?}", report.barrier);
    });
    on(320, &["mkfs.xfs", "-q", "-m", "reflink=1"], &[], "rw", refused("reflink on"));
}
