//! What an append costs beside its write: allocations, system calls, kernel workers; and what memory a log takes that does nothing.
//! Counted, not timed.
//!
//! One test after the other, since the counts are those of the whole process.

mod common;

use common::{append, eventually, log_of, open, place, small};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use strandline::{Config, Counters, Log, Record, Store};

/// Counts allocations, those of each thread for itself too, and the bytes that are allocated. What it does is done by [`System`].
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Held by the test that counts.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    // While a thread is torn down it has no counter any more, and needs none.
    let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to `System` as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: passed on to the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What some appends came to.
#[derive(Debug)]
struct Cost {
    records: u64,
    commits: u64,
    enters: u64,
    /// Allocations of the thread that appends.
    of_caller: u64,
    /// Allocations of all other threads: the shard's.
    of_shard: u64,
    /// How often kernel workers of this process were woken.
    worker_switches: u64,
    took: Duration,
}

/// Appends batches of one record of 100 bytes with `depth` outstanding.
fn appends(store: &Store, log: &Log, count: u64, depth: usize, waiting: &mut VecDeque<Answer>) -> Cost {
    let counted = || (ALLOCATIONS.load(Ordering::Relaxed), OF_THREAD.with(Cell::get), store.counters());
    let switches = worker_switches();
    let started = Instant::now();
    let before = counted();
    for _ in 0..count {
        if waiting.len() >= depth
            && let Some(pending) = waiting.pop_front()
        {
            pending.wait().expect("an append");
        }
        let mut builder = log.batch();
        builder.push(&Record { key: Some(b"key"), value: Some(&[7; 100]), ..Record::default() }).expect("room");
        waiting.push_back(log.append(builder.build().expect("a record")).expect("room"));
    }
    for pending in waiting.drain(..) {
        pending.wait().expect("an append");
    }
    let after = counted();
    let took = started.elapsed();
    Cost { worker_switches: switches_since(&switches), took, ..cost(before, after) }
}

type Answer = strandline::Pending<Result<strandline::Receipt, strandline::AppendError>>;
type Counted = (u64, u64, Counters);

fn cost(before: Counted, after: Counted) -> Cost {
    let of_caller = after.1 - before.1;
    Cost {
        records: after.2.records - before.2.records,
        commits: after.2.commits - before.2.commits,
        enters: after.2.enters - before.2.enters,
        of_caller,
        of_shard: after.0 - before.0 - of_caller,
        worker_switches: 0,
        took: Duration::ZERO,
    }
}

/// How often each of the kernel workers of this process has been switched to, its start included.
fn worker_switches() -> BTreeMap<OsString, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the tasks of this process");
    let mut switches = BTreeMap::new();
    for task in tasks.filter_map(|task| Some(task.ok()?.path())) {
        // A worker that has just ended is none.
        let Ok(name) = std::fs::read_to_string(task.join("comm")) else { continue };
        let Ok(status) = std::fs::read_to_string(task.join("status")) else { continue };
        if name.starts_with("iou-wrk") {
            let of_line = |line: &str| line.split_once("voluntary_ctxt_switches:")?.1.trim().parse::<u64>().ok();
            let count = 1 + status.lines().filter_map(of_line).sum::<u64>();
            switches.insert(task.file_name().unwrap_or_default().to_owned(), count);
        }
    }
    switches
}

/// How often they have been switched to since `before`. One that has ended meanwhile had rested for seconds.
fn switches_since(before: &BTreeMap<OsString, u64>) -> u64 {
    let new = |(task, count): (OsString, u64)| count.saturating_sub(before.get(&task).copied().unwrap_or_default());
    worker_switches().into_iter().map(new).sum()
}

/// A store whose write head is one large written segment, warm: its pools are filled, and its successor is whole, since it came out of
/// the pool as the head did. Filling one wakes kernel workers, the more often the slower the machine is.
fn warm(root: &std::path::Path) -> (Store, Log) {
    let store = open(Config {
        segment_bytes: 96 << 20,
        arena_bytes: 16 << 20,
        tail_cache_bytes: 256 << 10,
        spare_files_min: 0,
        ..Config::new(root)
    });
    for before in ["one", "another"].map(|name| log_of(&store, name)) {
        store.delete_log(&before.id().topic, before.id().range).expect("a deletion");
    }
    eventually("their files are in the pool", || store.counters().spare_files == 2);
    let log = log_of(&store, "warm");
    for (depth, count) in [(1, 300), (64, 2_000), (256, 2_000), (1, 300), (64, 2_000)] {
        appends(&store, &log, count, depth, &mut VecDeque::new());
    }
    let mut before = worker_switches();
    eventually("the workers rest", || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        switches_since(&std::mem::replace(&mut before, worker_switches())) == 0
    });
    assert_eq!(store.counters().reused, 2, "head and successor: {:?}", store.counters());
    (store, log)
}

impl Cost {
    fn enters_per_commit(&self) -> f64 {
        self.enters as f64 / self.commits as f64
    }

    /// The system calls that these commits may have made: two each, and one for each 5 ms that a write takes, when the shard
    /// looks whether another log was asked for something.
    fn enters_allowed(&self) -> f64 {
        2.02 * self.commits as f64 + self.took.as_secs_f64() * 200.0
    }
}

/// Appends with 1 and with 64 outstanding, and checks what they cost.
fn check(place: &str, root: &std::path::Path) -> [Cost; 3] {
    let (store, log) = warm(root);
    let mut waiting = VecDeque::with_capacity(256);
    let alone = appends(&store, &log, 500, 1, &mut waiting);
    let crowd = appends(&store, &log, 10_000, 64, &mut waiting);
    let after = appends(&store, &log, 500, 1, &mut waiting);
    println!(
        "{place}, 1 outstanding:  {alone:?}\n{place}, 64 outstanding: {crowd:?}\n{place}, 1 outstanding:  {after:?}"
    );

    // Two kinds of runs tell what a commit costs from what a record costs.
    let per_commit = (alone.of_shard + after.of_shard) as f64 / (alone.commits + after.commits) as f64;
    let per_record = (crowd.of_shard as f64 - per_commit * crowd.commits as f64) / crowd.records as f64;
    println!("{place}: {per_commit:.2} allocations per commit and {per_record:.4} per record on the shard's thread");
    let (one, many) = (alone.enters_per_commit(), crowd.enters_per_commit());
    println!("{place}: {one:.2} system calls per commit with 1 outstanding, {many:.2} with 64");
    assert!(crowd.commits < crowd.records / 4, "a crowd shares commits: {crowd:?}");
    assert!(per_record.abs() < 0.01, "the shard allocates for a record: {per_record}");
    for cost in [&alone, &crowd, &after] {
        assert!(cost.of_caller <= cost.records / 500, "the caller allocates for a record: {cost:?}");
        assert!(cost.enters as f64 <= cost.enters_allowed(), "too many system calls: {cost:?}");
    }
    if store.capabilities().direct.effective {
        for cost in [&alone, &crowd, &after] {
            // Direct writes wake none, and only they can do without. What the store does now and then beside them may.
            assert!(cost.worker_switches <= 4 + cost.commits / 100, "appends wake kernel workers: {cost:?}");
        }
    }
    store.close().expect("a clean close");
    [alone, crowd, after]
}

#[test]
fn df_10_ur_10_an_append_allocates_nothing_makes_two_system_calls_a_commit_and_wakes_no_kernel_worker() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    check("drive", place().path());
    // Where a write takes no time, nothing but the two calls is left.
    let memory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    for cost in check("memory", memory.path()) {
        assert!(cost.enters_per_commit() <= 2.1, "more than 2 system calls a commit: {cost:?}");
    }
}

/// The bytes that are allocated, once they do not change any more.
fn bytes_at_rest() -> u64 {
    let mut before = BYTES.load(Ordering::Relaxed);
    eventually("nothing is allocated any more", || {
        std::thread::sleep(Duration::from_millis(30));
        let now = BYTES.load(Ordering::Relaxed);
        std::mem::replace(&mut before, now) == now
    });
    before
}

/// Logs of which nothing is asked, and how much memory each of them may take, in bytes.
const IDLE_LOGS: usize = 2_000;
const IDLE_BYTES_MAX: u64 = 9 << 10;
const OPENED_BYTES_MAX: u64 = 4 << 10;
/// The same of a log that was written and has let go of its file.
const ASLEEP_BYTES_MAX: u64 = 4 << 10;

#[test]
fn df_13_a_log_that_does_nothing_takes_a_few_kibibytes_of_memory() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    let config = Config {
        segment_bytes: 64 << 10,
        batch_bytes_max: 16 << 10,
        manifest_bytes: 4 << 20,
        logs_max: IDLE_LOGS + 1,
        spare_files_min: 0,
        ..small(memory.path())
    };
    let of_each = |before: u64| bytes_at_rest().saturating_sub(before) / IDLE_LOGS as u64;
    let started = Instant::now();
    let store = open(config.clone());
    append(&log_of(&store, "first"), b"v");
    let before = bytes_at_rest();
    for number in 0..IDLE_LOGS {
        append(&log_of(&store, format!("log {number}")), &[7; 1_000]);
    }
    let written = of_each(before);
    store.close().expect("a clean close");
    let before = bytes_at_rest();
    let store = open(config.clone());
    let opened = of_each(before);
    assert_eq!(store.report().logs_clean, IDLE_LOGS + 1);
    store.close().expect("a clean close");
    let before = bytes_at_rest();
    let store = open(Config { idle_close_after: Some(Duration::from_millis(300)), ..config });
    for number in 0..IDLE_LOGS {
        append(&log_of(&store, format!("log {number}")), &[7; 1_000]);
    }
    let few = || store.counters().descriptors <= 16;
    eventually("logs that are idle let go of their files", few);
    let asleep = of_each(before);
    println!(
        "{written} bytes for a log that was written, {opened} for one that was only opened, {asleep} for one that was let go of; {:?}",
        started.elapsed()
    );
    assert!(asleep <= ASLEEP_BYTES_MAX, "{asleep} bytes");
    assert!(written <= IDLE_BYTES_MAX && opened <= OPENED_BYTES_MAX, "{written} and {opened} bytes");
    store.close().expect("a clean close");
}

/// Logs that rest again and again, how often, and the bytes that all of that may leave behind.
const RESTING_LOGS: usize = 100;
const RESTS: usize = 30;
const RESTS_BYTES_MAX: u64 = 256 << 10;

#[test]
fn logs_that_come_to_rest_again_and_again_leave_no_memory_behind() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    let config = Config {
        segment_bytes: 256 << 10,
        batch_bytes_max: 16 << 10,
        manifest_bytes: 4 << 20,
        idle_mark_after: Duration::from_millis(1),
        spare_files_min: 0,
        tail_cache_bytes: 0,
        ..small(memory.path())
    };
    let store = open(config);
    let logs: Vec<Log> = (0..RESTING_LOGS).map(|number| log_of(&store, format!("log {number}"))).collect();
    let rest = || {
        for log in &logs {
            append(log, b"v");
        }
        std::thread::sleep(Duration::from_millis(15));
    };
    (0..5).for_each(|_| rest());
    let (before, commits) = (bytes_at_rest(), store.counters().commits);
    (0..RESTS).for_each(|_| rest());
    let (left, appends) = (bytes_at_rest().saturating_sub(before), (RESTS * RESTING_LOGS) as u64);
    let marks = store.counters().commits - commits - appends;
    println!("{left} bytes behind {marks} marks");
    assert!(marks > appends / 2, "{marks} marks: too few to show anything");
    assert!(left <= RESTS_BYTES_MAX, "{left} bytes behind {marks} marks");
    store.close().expect("a clean close");
}

/// Logs that are made, written and deleted one after the other, and the bytes that each of them may leave behind: its number, in a list that
/// grows by doubling.
const DELETED_LOGS: u64 = 500;
const DELETED_BYTES_MAX: u64 = 400;

#[test]
fn a_log_that_was_deleted_leaves_little_more_than_its_number_behind() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    let config = Config {
        segment_bytes: 64 << 10,
        batch_bytes_max: 16 << 10,
        manifest_bytes: 4 << 20,
        spare_files_min: 0,
        spare_bytes_max: 0,
        ..small(memory.path())
    };
    let store = open(config);
    let live = |number: u64| {
        let log = log_of(&store, format!("log {number}"));
        for _ in 0..20 {
            append(&log, &[7; 1_000]);
        }
        let topic = log.id().topic.clone();
        store.delete_topic(&topic).expect("deleted");
        // Whoever holds it still may ask, and is told.
        assert!(log.stats().wait().is_err() && log.truncate_to(strandline::Offset(1)).wait().is_err());
    };
    // Long enough for pools of buffers to be full.
    (0..100).for_each(live);
    let before = bytes_at_rest();
    (100..100 + DELETED_LOGS).for_each(live);
    let left = bytes_at_rest().saturating_sub(before) / DELETED_LOGS;
    println!("{left} bytes for a log that was deleted");
    assert!(left <= DELETED_BYTES_MAX, "{left} bytes for a log that was deleted");
    store.close().expect("a clean close");
}
