//! Cases of crashes and full disks by their ids that need a real kernel: what is locked, mounted, mapped and allocated.

use crate::common::{append, bytes_of, log_of, one, open, place, small, values};
use crate::files::segments;
use crate::seccomp;
use crate::skipped::skipped;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use strandline::{Config, Level, Offset, OpenError, Preallocate, Store};
use strandline_disk::host::SetupError;
use tempfile::TempDir;

/// Tells a child where its store is, and what else it is to do.
const ROOT: &str = "STRANDLINE_CASE_ROOT";
const MAPS: &str = "STRANDLINE_CASE_MAPS";

/// This program again, with one test only.
fn child(test: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture", "--quiet"]).env(ROOT, root).stdout(Stdio::null());
    command
}

#[test]
fn cr_01_an_append_is_durable_when_nothing_else_was_asked_for() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "levels");
    for level in [Level::Accepted, Level::Written, Level::Durable] {
        assert_eq!(append(&log, b"v").level, Level::Durable);
        let receipt = log.append_with(one(&log, b"v"), level).expect("room").wait().expect("an append");
        assert!(receipt.level >= level, "{receipt:?} for {level:?}");
    }
    store.close().expect("a clean close");
}

/// What the kernel lists of the file system that holds a directory: its type, and the options of the mount and of itself.
fn mounted(root: &Path) -> (String, Vec<String>) {
    let root = root.canonicalize().expect("there");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
    let mut found = (0, String::new(), Vec::new());
    for line in mounts.lines() {
        let (of_mount, of_system) = line.split_once(" - ").expect("two parts");
        let of_mount: Vec<&str> = of_mount.split(' ').collect();
        let of_system: Vec<&str> = of_system.split(' ').collect();
        // Of several at one place the last one is on top.
        if root.starts_with(of_mount[4]) && of_mount[4].len() >= found.0 {
            let options = of_mount[5].split(',').chain(of_system[2].split(',')).map(str::to_owned).collect();
            found = (of_mount[4].len(), of_system[0].to_owned(), options);
        }
    }
    (found.1, found.2)
}

/// A place on the drive and one in memory, where there is one.
fn places() -> Vec<TempDir> {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    let in_memory = in_memory.map_err(|error| skipped(format_args!("/dev/shm: {error}"))).ok();
    [Some(place()), in_memory].into_iter().flatten().collect()
}

#[test]
fn cr_24_the_capability_report_records_the_file_system_and_its_mount_options() {
    for place in places() {
        let store = open(small(place.path()));
        let found = store.capabilities().filesystem.clone();
        let (kind, options) = mounted(place.path());
        assert_eq!(found.kind, kind);
        let missing: Vec<&String> = options.iter().filter(|option| !found.options.contains(option)).collect();
        assert!(missing.is_empty() && !options.is_empty(), "{missing:?} of {options:?} are not in {found:?}");
        // Whether ext4 has fast commits decides about barriers: on, or not known, is a refusal that says so.
        let barrier = &store.capabilities().barrier;
        if kind == "ext4" && found.fast_commit != Some(false) {
            assert!(!barrier.allowed && barrier.reason.contains("fast_commit"), "{barrier:?}");
        }
        store.close().expect("a clean close");
    }
}

/// Appends until it is killed, where it is told to.
#[test]
fn child_that_holds_the_lock() {
    let Some(root) = std::env::var_os(ROOT).filter(|_| std::env::var_os(MAPS).is_none()) else { return };
    let store = open(small(&PathBuf::from(root)));
    let log = log_of(&store, "held");
    let mut out = std::io::stderr();
    loop {
        let pending: Vec<_> = (0..32).map(|_| log.append(one(&log, &[7; 900])).expect("room")).collect();
        assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
        out.write_all(b"32\n").expect("the parent listens");
    }
}

/// A child that is killed and waited for, however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_held(opened: &Result<Store, OpenError>) -> bool {
    matches!(opened, Err(OpenError::Setup(why)) if matches!(&**why, SetupError::LockHeld { .. }))
}

#[test]
fn cr_29_a_store_whose_process_was_killed_opens_at_once_and_one_whose_process_lives_says_that_it_is_held() {
    let place = place();
    let (mut acknowledged, mut still_held) = (0, 0);
    for _ in 0..8 {
        let mut command = child("cases::child_that_holds_the_lock", place.path());
        let mut child = Killed(command.stderr(Stdio::piped()).spawn().expect("a child"));
        let mut told = BufReader::new(child.0.stderr.take().expect("piped"));
        let mut line = String::new();
        told.read_line(&mut line).expect("a line");
        assert_eq!(line, "32\n");
        acknowledged += 32;
        let wait = Duration::from_millis(30);
        let (started, config) = (Instant::now(), small(place.path()));
        let refused = Store::open(Config { lock_wait: wait, ..config.clone() });
        assert!(is_held(&refused) && started.elapsed() >= wait, "{refused:?}");
        // Not waited for: what dies still has the lock when the next one wants it.
        child.0.kill().expect("it runs");
        let at_once = Store::open(Config { lock_wait: Duration::ZERO, ..config.clone() });
        still_held += usize::from(is_held(&at_once));
        drop(at_once);
        let store = Store::open(config).expect("it is free soon");
        assert!(values(&log_of(&store, "held")).len() >= acknowledged);
        store.close().expect("a clean close");
    }
    println!("of 8 stores {still_held} were held by a dead process");
    assert!(still_held > 0, "nobody ever had to wait, so this shows nothing");
}

/// Does with a store what there is to do, where it is told to, and is killed by the kernel at the first mapping of a file.
#[test]
fn child_that_maps_no_file() {
    let (Some(root), Some(maps)) = (std::env::var_os(ROOT), std::env::var_os(MAPS)) else { return };
    let store = open(Config { tail_cache_bytes: 0, ..small(&PathBuf::from(root)) });
    let log = log_of(&store, "mapped");
    seccomp::die_of_mapping_a_file();
    let other = log_of(&store, "other");
    append(&other, b"v");
    // Rolls, seals, reads of the head and of sealed segments, a cut within one, and removal.
    for number in 0..120 {
        append(&log, &bytes_of(number, 10_000));
    }
    assert_eq!(values(&log).len(), 120);
    log.verify(None).wait().expect("verified");
    log.truncate_to(Offset(50)).wait().expect("a cut");
    assert_eq!(values(&log).len(), 50);
    log.trim(Offset(30)).wait().expect("a trim");
    store.delete_log(&other.id().topic, other.id().range).expect("a deletion");
    if maps == "yes" {
        drop(std::fs::File::open("/proc/self/exe").map(|file| seccomp::map(&file)));
    }
    store.close().expect("a clean close");
}

#[test]
fn dl_09_df_03_an_open_store_never_maps_a_file_not_even_for_a_moment() {
    for (maps, signal) in [("no", None), ("yes", Some(libc::SIGSYS))] {
        let place = place();
        let status = child("cases::child_that_maps_no_file", place.path()).env(MAPS, maps).status().expect("a child");
        assert_eq!((status.signal(), status.success()), (signal, signal.is_none()), "{maps}: {status}");
    }
}

#[test]
fn df_05_df_09_a_real_file_is_as_the_strategy_says_on_the_drive_and_in_memory() {
    for place in places() {
        for preallocate in [Preallocate::Written, Preallocate::Allocated, Preallocate::Off] {
            let root = place.path().join(format!("{preallocate:?}"));
            let config = Config { preallocate, spare_bytes_max: 0, ..small(&root) };
            let store = open(config.clone());
            let allocates = store.capabilities().fallocate.iter().any(|mode| mode == "allocate");
            assert!(allocates, "the probe found {:?}", store.capabilities().fallocate);
            let log = log_of(&store, "files");
            let size = config.segment_bytes;
            for number in 0..30 {
                append(&log, &bytes_of(number, 15_000));
                // The first counts too; the one behind the head may be in the making.
                for segment in segments(&root).into_iter().take(store.counters().rolls as usize) {
                    let found = std::fs::metadata(segment.join("data.0")).expect("a data file");
                    let is_whole = found.len() == size && found.blocks() * 512 >= size;
                    assert!(is_whole || preallocate == Preallocate::Off, "{segment:?}: {} bytes", found.len());
                }
            }
            let rolls = store.counters().rolls as usize;
            assert!(rolls >= 3, "{rolls}");
            let head = segments(&root)[rolls - 1].join("data.0");
            let grows = std::fs::metadata(&head).expect("a data file").blocks() * 512 < size;
            assert_eq!(grows, preallocate == Preallocate::Off, "{}", head.display());
            assert_eq!(values(&log).len(), 30);
            store.close().expect("a clean close");
        }
    }
}
