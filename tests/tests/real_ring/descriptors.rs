//! Descriptors: a process that may open few files, and a store with many logs in it. Each case runs in a child, as nobody where the tests are
//! root's, since limits are a process's.

use crate::child::child_with;
use crate::common::{append, eventually, log_of, one, small, values};
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use strandline::{AppendError, Config, Log, Offset, OpenError, ReadError, Store};

/// In the child: the root to use. In the parent: runs this test again in a child.
fn child_root(test: &str) -> Option<PathBuf> {
    child_with(&format!("descriptors::{test}"), true, |child| child)
}

/// Lets this process open so many files.
fn limit(files: u64) {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: hard }).expect("lowered");
}

/// How many files this process has open.
fn open_now() -> usize {
    // The listing itself has one.
    std::fs::read_dir("/proc/self/fd").map_or(0, |listed| listed.count() - 1)
}

/// Segments of 64 KiB, so that many logs take little room.
fn config(root: &Path) -> Config {
    Config {
        segment_bytes: 64 << 10,
        batch_bytes_max: 4 << 10,
        commit_bytes_max: 16 << 10,
        logs_max: 1_000,
        manifest_bytes: 4 << 20,
        spare_bytes_max: 0,
        ..small(root)
    }
}

fn value(log: usize, round: usize) -> Vec<u8> {
    format!("value {round} of log {log}").into_bytes()
}

fn logs(store: &Store, count: usize) -> Vec<Log> {
    (0..count).map(|number| log_of(store, format!("t{number}"))).collect()
}

/// Appends one record to each log, many at once, in an order of this round.
fn append_to_all(logs: &[Log], round: usize) {
    let order = (0..logs.len()).map(|place| (place * 211 + round * 97) % logs.len());
    let appends: Vec<_> = order
        .map(|place| (place, logs[place].append(one(&logs[place], &value(place, round))).expect("room")))
        .collect();
    for (place, pending) in appends {
        let receipt = pending.wait().unwrap_or_else(|error| panic!("log {place}: {error}"));
        assert_eq!(receipt.first, Offset(round as u64), "log {place}");
    }
}

fn check_all(logs: &[Log], rounds: usize) {
    for (place, log) in logs.iter().enumerate() {
        let wanted: Vec<_> = (0..rounds).map(|round| value(place, round)).collect();
        assert!(values(log) == wanted, "log {place} holds {} of {rounds}", values(log).len());
    }
}

#[test]
fn sc_03_sc_04_five_hundred_logs_are_written_and_read_where_128_files_may_be_open() {
    let test = "sc_03_sc_04_five_hundred_logs_are_written_and_read_where_128_files_may_be_open";
    let Some(root) = child_root(test) else { return };
    const LOGS: usize = 500;
    limit(128);
    let before = open_now();
    let (most, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(open_now(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        for round in 0..4 {
            let store = Store::open(config(&root)).expect("an open store");
            let (limit, budget) = (store.report().open_files_limit, store.report().descriptors_max);
            assert_eq!((limit, budget), (Some(128), Some(58)));
            let logs = logs(&store, LOGS);
            check_all(&logs, round);
            append_to_all(&logs, round);
            check_all(&logs, round + 1);
            let counters = store.counters();
            assert!(counters.descriptors <= counters.descriptors_max && counters.heads_let_go > 400, "{counters:?}");
            assert_eq!(counters.descriptors_refused, 0, "it stays within what it may have");
            assert!(store.report().damaged.is_empty(), "{:?}", store.report());
            if round % 2 == 0 { store.close().expect("a clean close") } else { drop(store) }
        }
        done.store(true, Ordering::Relaxed);
    });
    // A quarter of the limit is the host's.
    let most = most.load(Ordering::Relaxed);
    println!("at most {most} files were open, {before} of them before");
    assert!(most <= 96 + before, "{most}");
}

/// Opens files until there is no descriptor left.
fn take_the_rest() -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file.into());
    }
    taken
}

#[test]
fn a_host_that_takes_every_descriptor_is_told_so_and_the_store_goes_on_when_it_has_some_again() {
    let test = "a_host_that_takes_every_descriptor_is_told_so_and_the_store_goes_on_when_it_has_some_again";
    let Some(root) = child_root(test) else { return };
    const LOGS: usize = 120;
    limit(128);
    let store = Store::open(config(&root)).expect("an open store");
    let logs = logs(&store, LOGS);
    append_to_all(&logs, 0);
    let taken = take_the_rest();
    // The store gives up some of what it has, and gets on with that.
    append(&logs[0], &value(0, 1));
    drop(taken);
    let mut rounds = vec![1; LOGS];
    rounds[0] = 2;
    // Those at the front are not open after this.
    for (place, log) in logs.iter().enumerate().skip(20) {
        append(log, &value(place, 1));
        rounds[place] += 1;
    }
    // One that takes whatever is given up: now some are refused, and none is latched.
    let (stop, mut refused) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut taken = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                taken.extend(take_the_rest());
                std::thread::yield_now();
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        for (place, log) in logs.iter().enumerate().take(12) {
            match log.append(one(log, &value(place, rounds[place]))).expect("room").wait() {
                Ok(_) => rounds[place] += 1,
                Err(error @ AppendError::TooManyOpen { .. }) => {
                    let said = error.to_string();
                    assert!(said.contains("RLIMIT_NOFILE") && said.contains("descriptors_max"), "{said}");
                    refused += 1;
                }
                Err(error) => panic!("log {place}: {error}"),
            }
            match log.read(Offset(0), 4_096).wait() {
                Ok(_) => {}
                Err(ReadError::TooManyOpen { .. }) => refused += 1,
                Err(error) => panic!("log {place}: {error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{refused} of 24 were refused; {:?}", store.counters());
    assert!(refused > 0 && store.counters().descriptors_refused > 0);
    for (place, log) in logs.iter().enumerate() {
        append(log, &value(place, rounds[place]));
        rounds[place] += 1;
    }
    store.close().expect("a clean close");
    let store = Store::open(config(&root)).expect("an open store");
    for (place, log) in self::logs(&store, LOGS).iter().enumerate() {
        assert_eq!(values(log).len(), rounds[place], "log {place}");
    }
}

#[test]
fn sc_04_a_limit_that_is_too_low_is_refused_by_name_and_the_least_that_it_names_will_do() {
    let test = "sc_04_a_limit_that_is_too_low_is_refused_by_name_and_the_least_that_it_names_will_do";
    let Some(root) = child_root(test) else { return };
    limit(40);
    let error = Store::open(config(&root)).expect_err("too few");
    println!("{error}");
    let OpenError::TooFewDescriptors { limit: 40, least } = error else { panic!("{error}") };
    assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
    limit(least);
    for round in 0..2 {
        let store = Store::open(config(&root)).expect("the least will do");
        let logs = logs(&store, 20);
        append_to_all(&logs, round);
        check_all(&logs, round + 1);
        assert_eq!(store.counters().descriptors_refused, 0);
        store.close().expect("a clean close");
    }
}

#[test]
fn sc_04_idle_logs_have_no_file_open() {
    let test = "sc_04_idle_logs_have_no_file_open";
    let Some(root) = child_root(test) else { return };
    let idle_close_after = Some(Duration::from_millis(300));
    let store = Store::open(Config { idle_close_after, ..config(&root) }).expect("an open store");
    let none = open_now();
    let logs = logs(&store, 100);
    append_to_all(&logs, 0);
    assert!(open_now() >= none + 90, "each has its head open");
    eventually("idle logs let go of all that they have open", || open_now() <= none + 2);
    check_all(&logs, 1);
    append_to_all(&logs, 1);
    check_all(&logs, 2);
}
