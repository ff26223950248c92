//! What an append costs beside its write: allocations, system calls, kernel workers. Counted, not timed.
//!
//! One test after the other in one function, since the counts are those of the whole process.

mod common;

use common::{eventually, log_of, open, place};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strandline::{Config, Counters, Log, Record, Store};

/// Counts allocations, those of each thread for itself too. What it does is done by [`System`].
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    // While a thread is torn down it has no counter any more, and needs none.
    let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to `System` as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on to the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: passed on to the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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
    Cost { worker_switches: worker_switches() - switches, took, ..cost(before, after) }
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

/// How often the kernel workers of this process have been switched to, all together.
fn worker_switches() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the tasks of this process");
    let mut switches = 0;
    for task in tasks.filter_map(|task| Some(task.ok()?.path())) {
        // A worker that has just ended is none.
        let Ok(name) = std::fs::read_to_string(task.join("comm")) else { continue };
        let Ok(status) = std::fs::read_to_string(task.join("status")) else { continue };
        if name.starts_with("iou-wrk") {
            let of_line = |line: &str| line.split_once("voluntary_ctxt_switches:")?.1.trim().parse::<u64>().ok();
            switches += 1 + status.lines().filter_map(of_line).sum::<u64>();
        }
    }
    switches
}

/// A store whose write head is one large written segment, warm: its pools are filled, its successor rests half made.
fn warm(root: &std::path::Path) -> (Store, Log) {
    let store = open(Config {
        segment_bytes: 96 << 20,
        arena_bytes: 16 << 20,
        tail_cache_bytes: 256 << 10,
        ..Config::new(root)
    });
    let log = log_of(&store, "warm");
    for depth in [1, 64, 256, 1, 64] {
        appends(&store, &log, 2_000, depth, &mut VecDeque::new());
    }
    // The successor is prepared in step with the head; let it do what it was asked for so far.
    let mut before = worker_switches();
    eventually("the workers rest", || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = worker_switches();
        std::mem::replace(&mut before, now) == now
    });
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
    let alone = appends(&store, &log, 1_000, 1, &mut waiting);
    let crowd = appends(&store, &log, 10_000, 64, &mut waiting);
    let after = appends(&store, &log, 1_000, 1, &mut waiting);
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
            // Filling the successor wakes them now and then; direct writes do not, and only they can do without.
            assert!(cost.worker_switches <= cost.commits / 10, "appends wake kernel workers: {cost:?}");
        }
    }
    store.close().expect("a clean close");
    [alone, crowd, after]
}

#[test]
fn an_append_allocates_nothing_makes_two_system_calls_a_commit_and_wakes_no_kernel_worker() {
    check("drive", place().path());
    // Where a write takes no time, nothing but the two calls is left.
    let memory = tempfile::tempdir_in("/dev/shm").expect("a tmpfs at /dev/shm");
    for cost in check("memory", memory.path()) {
        assert!(cost.enters_per_commit() <= 2.1, "more than 2 system calls a commit: {cost:?}");
    }
}
