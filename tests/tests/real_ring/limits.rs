//! What a process is limited to: the size of its files, and the memory of its control group. Each case runs in a process of its own.

use crate::child::{child_at, child_with, ignore_file_size_signal, root_of_child};
use crate::common::{append, bytes_of, log_of, open, place, read_from, small, topic, values};
use crate::lives::{attempt, bounded, within};
use crate::memory_group::{self, MemoryGroup};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::os::unix::process::ExitStatusExt;
use strandline::{AppendError, Config, DirectIo, LogOptions, Offset, OpenError, RangeNumber, Store};
use strandline_disk::host::SetupError;

/// The limit on the size of a file, which may be raised again.
fn limit_files(bytes: Option<u64>) {
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).expect("set");
}

#[test]
fn files_larger_than_the_limit_refuse_the_open_with_field_need_and_limit_and_no_signal_comes() {
    let test = "limits::files_larger_than_the_limit_refuse_the_open_with_field_need_and_limit_and_no_signal_comes";
    let Some(root) = child_with(test, true, |child| child) else { return };
    ignore_file_size_signal(false);
    let config = Config { manifest_bytes: 64 << 10, audit_bytes: 64 << 10, reserve_bytes: 0, ..small(&root) };
    let refused = |config: &Config| match Store::open(config.clone()) {
        Err(OpenError::Setup(why)) => why,
        other => panic!("{other:?}"),
    };
    for limit_bytes in [0, 8 << 10, (128 << 10) - 1] {
        limit_files(Some(limit_bytes));
        let why = refused(&config);
        println!("{why}");
        assert_eq!(*why, SetupError::FileSizeLimit { what: "segment_bytes", needed_bytes: 128 << 10, limit_bytes });
        assert!(why.to_string().contains("LimitFSIZE="), "{why}");
        assert_eq!(std::fs::read_dir(&root).expect("there").count(), 0, "nothing was changed");
    }
    limit_files(Some(128 << 10));
    let why = refused(&Config { manifest_bytes: 256 << 10, ..config.clone() });
    let wanted = SetupError::FileSizeLimit { what: "manifest_bytes", needed_bytes: 256 << 10, limit_bytes: 128 << 10 };
    assert_eq!(*why, wanted);
    // At the limit all of a store fits.
    bounded(move || {
        let store = open(config);
        let log = log_of(&store, "fits");
        let wanted: Vec<Vec<u8>> = (0..40).map(|number| bytes_of(number, 10_000)).collect();
        for value in &wanted {
            append(&log, value);
        }
        log.seal().wait().expect("sealed");
        assert!(store.counters().rolls >= 3 && values(&log) == wanted, "{:?}", store.counters());
        store.close().expect("a clean close");
    });
}

/// A log may have larger segments than the configuration, which the open knows nothing of.
#[test]
fn a_log_whose_segments_the_limit_does_not_allow_is_refused_alone_and_goes_on_when_it_is_raised() {
    let test = "limits::a_log_whose_segments_the_limit_does_not_allow_is_refused_alone_and_goes_on_when_it_is_raised";
    let Some(root) = child_with(test, true, |child| child) else { return };
    ignore_file_size_signal(false);
    limit_files(Some(1 << 20));
    bounded(move || {
        let store = open(Config { audit_bytes: 64 << 10, reserve_bytes: 0, ..small(&root) });
        let options = LogOptions { segment_bytes: Some(2 << 20), ..LogOptions::default() };
        let large = store.log_with(&topic("large"), RangeNumber::default(), options).expect("a log");
        for _ in 0..3 {
            let refused = attempt(&large, b"v").expect_err("past the limit");
            println!("{refused}");
            let AppendError::Prepare { source, .. } = &refused else { panic!("{refused}") };
            assert_eq!((source.errno, source.path.starts_with("large-")), (Errno::FBIG, true), "{refused}");
            assert!(refused.to_string().contains("raise the limit on the size of files"), "{refused}");
        }
        let log = log_of(&store, "other");
        for number in 0..30 {
            append(&log, &bytes_of(number, 10_000));
        }
        assert_eq!(values(&log).len(), 30);
        limit_files(Some(2 << 20));
        assert!(within(5, || attempt(&large, b"v").is_ok()), "{:?}", attempt(&large, b"v"));
        store.close().expect("a clean close");
    });
}

/// What is written in segments that are there already, by a process that ignores the signal, as a host may have it.
#[test]
fn a_limit_that_is_lowered_under_an_open_segment_refuses_and_the_log_goes_on_when_it_is_raised() {
    let test = "limits::a_limit_that_is_lowered_under_an_open_segment_refuses_and_the_log_goes_on_when_it_is_raised";
    let Some(root) = child_with(test, true, |child| child) else { return };
    ignore_file_size_signal(true);
    bounded(move || {
        let store = open(small(&root));
        let (log, other) = (log_of(&store, "log"), log_of(&store, "other"));
        append(&other, b"v");
        let mut kept: Vec<Vec<u8>> = (0..8).map(|number| bytes_of(number, 10_000)).collect();
        for value in &kept {
            append(&log, value);
        }
        limit_files(Some(64 << 10));
        let refused = attempt(&log, &bytes_of(8, 10_000)).expect_err("past the limit");
        println!("{refused}");
        let AppendError::Failed { latch, .. } = &refused else { panic!("{refused}") };
        assert_eq!(latch.source.errno, Errno::FBIG, "{refused}");
        assert!(refused.to_string().contains("raise the limit on the size of files"), "{refused}");
        assert!(refused.to_string().contains("goes on when there is room"), "{refused}");
        assert!(values(&log).starts_with(&kept), "reads go on");
        append(&other, b"where the file still may be written, it is");
        limit_files(None);
        assert!(within(5, || attempt(&log, b"raised").is_ok()), "{:?}", attempt(&log, b"raised"));
        let found = values(&log);
        assert!(found.starts_with(&kept) && found.last().is_some_and(|last| last == b"raised"));
        kept = found;
        store.close().expect("a clean close");
        assert!(values(&log_of(&open(small(&root)), "log")) == kept);
    });
}

/// Lowers the limit under an open segment, and does nothing about the signal.
#[test]
fn child_that_dies_of_the_limit() {
    let Some(root) = root_of_child() else { return };
    ignore_file_size_signal(false);
    let store = open(small(&root));
    let log = log_of(&store, "log");
    for number in 0..8 {
        append(&log, &bytes_of(number, 10_000));
    }
    limit_files(Some(64 << 10));
    let refused = attempt(&log, &bytes_of(8, 10_000)).expect_err("past the limit");
    // A kernel that writes in a worker has nobody to send the signal to.
    println!("it lives: {refused}");
    std::process::exit(7);
}

#[test]
fn a_process_that_the_limit_ends_by_its_signal_has_what_it_acknowledged() {
    let place = place();
    let root = place.path().join("store");
    std::fs::create_dir(&root).expect("made");
    let Some(status) = child_at("limits::child_that_dies_of_the_limit", &root, false, |child| child) else { return };
    println!("{status}");
    assert!(status.signal() == Some(libc::SIGXFSZ) || status.code() == Some(7), "{status}");
    let store = open(small(&root));
    let log = log_of(&store, "log");
    assert!(values(&log).starts_with(&(0..8).map(|number| bytes_of(number, 10_000)).collect::<Vec<_>>()));
    append(&log, b"goes on");
}

#[test]
fn a_memory_limit_below_what_the_configuration_needs_refuses_the_open() {
    let test = "limits::a_memory_limit_below_what_the_configuration_needs_refuses_the_open";
    let limit_bytes = 40 << 20;
    let Some(group) = MemoryGroup::for_child(limit_bytes) else { return };
    let Some(root) = child_with(test, false, |child| group.told_to(child)) else { return };
    memory_group::enter();
    let refused = Store::open(small(&root)).expect_err("too little");
    println!("{refused}");
    let OpenError::MemoryLimit { needed_bytes: 50_331_648, limit_bytes: found } = refused else { panic!("{refused}") };
    assert_eq!(found, limit_bytes);
    assert_eq!(std::fs::read_dir(&root).expect("there").count(), 0, "nothing was changed");
}

/// At the least that is accepted, and somewhat above: everything that a store may take is taken, and the kernel kills nobody.
#[test]
fn at_a_memory_limit_that_was_accepted_a_store_under_load_is_not_killed() {
    let test = "limits::at_a_memory_limit_that_was_accepted_a_store_under_load_is_not_killed";
    for (limit_bytes, direct) in [(48 << 20, DirectIo::Auto), (64 << 20, DirectIo::Off)] {
        let Some(group) = MemoryGroup::for_child(limit_bytes) else { return };
        let child = child_with(test, false, |child| group.told_to(child).env(DIRECT, format!("{direct:?}")));
        let Some(root) = child else { continue };
        memory_group::enter();
        let direct =
            if std::env::var_os(DIRECT).is_some_and(|said| said == "Off") { DirectIo::Off } else { DirectIo::Auto };
        let config = Config { segment_bytes: 4 << 20, manifest_bytes: 1 << 20, direct, ..Config::new(&root) };
        return bounded(move || work_hard(&config));
    }
}

/// Tells the child how to write.
const DIRECT: &str = "STRANDLINE_TEST_DIRECT";

/// Four writers that keep as much waiting as they may, and readers of everything, behind the end and at it.
fn work_hard(config: &Config) {
    let store = open(config.clone());
    let warned = &store.capabilities().warnings;
    println!("{warned:?} {:?}", store.capabilities().ring.arena_bytes);
    assert!(warned.iter().any(|warning| warning.contains("memory limit of the control group")), "{warned:?}");
    let logs = ["a", "b", "c", "d"].map(|name| log_of(&store, name));
    let value = bytes_of(1, 200_000);
    std::thread::scope(|scope| {
        for log in &logs {
            scope.spawn(|| {
                let mut waiting = std::collections::VecDeque::new();
                let mut taken = 0;
                while taken < 100 {
                    match log.append(crate::common::one(log, &value)) {
                        Ok(pending) => {
                            waiting.push_back(pending);
                            taken += 1;
                        }
                        Err(_) => match waiting.pop_front() {
                            Some(pending) => {
                                pending.wait().expect("an append");
                            }
                            None => std::thread::yield_now(),
                        },
                    }
                }
                for pending in waiting {
                    pending.wait().expect("an append");
                }
            });
            scope.spawn(|| {
                for from in [0, 50] {
                    let mut next = Offset(from);
                    while let Ok(read) = log.read(next, 1 << 20).wait() {
                        if read.batches.is_empty() {
                            break;
                        }
                        next = read.next;
                    }
                }
            });
        }
    });
    for log in &logs {
        assert_eq!(log.latest(), Offset(100));
        let mut next = Offset(0);
        while next < Offset(100) {
            next = log.read(next, 1 << 20).wait().expect("readable").next;
        }
    }
    assert!(!read_from(&logs[0], Offset(99)).expect("readable").is_empty());
    store.close().expect("a clean close");
}
