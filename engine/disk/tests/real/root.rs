//! Who may open a root, and what is found there.

use crate::skipped::skipped;
use crate::support::{on_ring, open_at, options, place};
use crate::transfers::round_trip;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};
use strandline_disk::Disk;
use strandline_disk::host::{DiskOptions, LOCK_NAME, SetupError};
use strandline_disk::real::RealDisk;

#[test]
fn the_report_says_what_was_obtained() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let capabilities = disk.capabilities();
    assert_eq!((capabilities.backend.as_str(), &capabilities.fallback), (&*disk.backend().to_string(), &None));
    assert!(!capabilities.kernel.is_empty() && !capabilities.filesystem.kind.is_empty());
    assert_eq!(fs::read_dir(place.path()).expect("listed").count(), 1, "only the lock is left by the probe");
    let ring = &capabilities.ring;
    assert_eq!(ring.arena_bytes, disk.pool().largest() as u64);
    if !on_ring(&disk) {
        assert!(ring.flags.is_empty() && !ring.buffers_registered && !ring.files_registered, "{ring:?}");
        return;
    }
    assert!(ring.restricted && ring.files_registered, "{ring:?}");
    assert!(ring.buffers_registered || !ring.reasons.is_empty(), "{ring:?}");
    assert_eq!(ring.entries, 32);
}

#[test]
fn ur_05_no_ring_polls_for_completions_so_that_each_opens_files_by_itself() {
    let place = place();
    let disk = open_at(place.path(), &options());
    assert!(!disk.capabilities().ring.flags.iter().any(|flag| flag.contains("POLL")), "{:?}", disk.capabilities().ring);
    round_trip(&disk);
}

#[test]
fn a_second_opener_is_refused_and_let_in_after_the_first_has_gone() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let wait = Duration::from_millis(120);
    let started = Instant::now();
    let error = RealDisk::open(place.path(), &DiskOptions { lock_wait: wait, ..options() }).expect_err("refused");
    assert!(started.elapsed() >= wait);
    assert!(matches!(&error, SetupError::LockHeld { path, .. } if path.ends_with(LOCK_NAME)), "{error}");
    // Another ring of the same store shares the lock, and the lock lasts as long as any ring.
    let second = RealDisk::open_locked(disk.lock(), &options()).expect("a second ring");
    drop(disk);
    round_trip(&second);
    assert!(matches!(RealDisk::open(place.path(), &options()), Err(SetupError::LockHeld { .. })));
    drop(second);
    open_at(place.path(), &options());
}

#[test]
fn a_waiting_opener_gets_the_lock_when_it_becomes_free() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let path = place.path().to_owned();
    let waiting = std::thread::spawn(move || {
        let started = Instant::now();
        let opened = RealDisk::open(&path, &DiskOptions { lock_wait: Duration::from_secs(20), ..options() }).is_ok();
        (opened, started.elapsed())
    });
    std::thread::sleep(Duration::from_millis(150));
    drop(disk);
    let (opened, waited) = waiting.join().expect("no panic");
    assert!(opened && waited >= Duration::from_millis(100) && waited < Duration::from_secs(10), "{waited:?}");
}

#[test]
fn a_root_that_is_not_safe_is_refused() {
    let place = place();
    let refused = |path: &Path| RealDisk::open(path, &options()).expect_err("refused");
    let file = place.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(matches!(refused(&file), SetupError::NotADirectory { .. }));
    let link = place.path().join("link");
    symlink(place.path(), &link).expect("linked");
    assert!(matches!(refused(&link), SetupError::NotADirectory { .. }));
    let open = place.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("set");
    assert!(matches!(refused(&open), SetupError::WorldWritable { .. }));
    assert!(matches!(refused(&place.path().join("no/parent")), SetupError::Disk(_)));
    let trapped = place.path().join("trapped");
    fs::create_dir(&trapped).expect("made");
    symlink("/etc/passwd", trapped.join(LOCK_NAME)).expect("linked");
    assert!(matches!(refused(&trapped), SetupError::OddLockFile { .. }));
    let new = place.path().join("new");
    drop(open_at(&new, &options()));
    assert_eq!(fs::metadata(&new).expect("made").permissions().mode() & 0o7777, 0o700);
    assert_eq!(fs::metadata(new.join(LOCK_NAME)).expect("made").permissions().mode() & 0o7777, 0o600);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&new, Some(65534), None).expect("given away");
        assert!(matches!(refused(&new), SetupError::NotOurs { owner: 65534, .. }));
    } else {
        skipped("only root can give a directory away");
    }
}
