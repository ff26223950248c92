//! Passes over a real store: what the plan says is what is gone, and nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strandline::policy::{Bound, Policy};
use strandline::{Config, Log, Offset, RangeNumber, ReadError, Record, SegmentState, Store, Topic};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{ClockGuard, HeldBy, Reading};
use strandline_sweeper::pass::{Limits, Sweep};
use strandline_sweeper::schedule::{Schedule, Sweeper};

fn config(root: &Path) -> Config {
    let mut config = Config::new(root.join("store"));
    config.segment_bytes = 64 << 10;
    config.batch_bytes_max = 6 << 10;
    config.commit_bytes_max = 16 << 10;
    config.arena_bytes = 4 << 20;
    config
}

fn topic(name: &str) -> Topic {
    Topic::new(name).expect("a plain name")
}

fn log(store: &Store, name: &str) -> Log {
    store.log(&topic(name), RangeNumber::default()).expect("a log")
}

/// Appends until so many segments are sealed.
fn fill(store: &Store, name: &str, sealed: usize) {
    let log = log(store, name);
    loop {
        let segments = log.stats().wait().expect("statistics").segments;
        let open = segments.iter().filter(|segment| segment.state != SegmentState::Sealed).count();
        if segments.len() - open >= sealed && open == 1 {
            return; // None waits for its footer any more.
        }
        let mut batch = log.batch();
        batch.push(&Record { value: Some(&[7; 5_000]), ..Record::default() }).expect("room");
        log.append(batch.build().expect("a batch")).expect("room").wait().expect("durable");
    }
}

fn segments(store: &Store, name: &str) -> usize {
    log(store, name).stats().wait().expect("statistics").segments.len()
}

fn sweep() -> Sweep {
    Sweep::new(ClockGuard::open(clock::read(), None))
}

fn keep_bytes(store: &Store, name: &str, bytes: u64) {
    let policy = Policy { max_bytes: Bound::Is(bytes), ..Policy::default() };
    store.policies().define("small", &policy, "test").expect("defined");
    store.policies().bind(&topic(name), "small", "test").expect("bound");
}

#[test]
fn a_pass_expires_by_size_and_a_second_one_finds_nothing_more() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    fill(&store, "kept", 3);
    fill(&store, "short", 5);
    keep_bytes(&store, "short", 100_000);
    let before = segments(&store, "kept");
    let mut sweep = sweep();
    let dry = Limits { dry_run: true, ..Limits::default() };
    let would = sweep.pass(&store, clock::read(), &dry).expect("a pass");
    assert!(would.expired.len() >= 3, "{would}");
    assert!(segments(&store, "short") >= 6, "a dry run changes nothing");
    assert_eq!(would.per_topic.keys().collect::<Vec<_>>(), [&topic("short")]);
    let report = sweep.pass(&store, clock::read(), &Limits::default()).expect("a pass");
    assert_eq!(report.expired, would.expired);
    assert!(report.failures.is_empty(), "{report}");
    let again = sweep.pass(&store, clock::read(), &Limits::default()).expect("a pass");
    assert_eq!(again.expired, [], "one pass is a fixpoint");
    assert_eq!(segments(&store, "kept"), before, "a topic without a policy keeps its data");
    let read = log(&store, "short").read(Offset(0), 100).wait();
    assert!(matches!(read, Err(ReadError::OutOfRange { earliest, .. }) if earliest.0 > 0), "{read:?}");
    store.close().expect("a clean close");
    let store = Store::open(config(root.path())).expect("a store");
    assert_eq!(store.report().strays, [""; 0]);
}

#[test]
fn a_topic_whose_policy_nobody_defined_holds_its_data_and_is_named() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    fill(&store, "orphaned", 3);
    keep_bytes(&store, "orphaned", 0);
    store.policies().delete("small", true, "test").expect("a forced deletion");
    let global = Policy { max_bytes: Bound::Is(0), ..Policy::default() };
    store.policies().set_global(&global, "test").expect("set");
    let report = sweep().pass(&store, clock::read(), &Limits::default()).expect("a pass");
    assert_eq!((report.expired.len(), report.unresolved), (0, vec![topic("orphaned")]));
}

#[test]
fn a_clock_that_jumped_expires_nothing_by_age() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    fill(&store, "aged", 3);
    let policy = Policy { max_age_ms: Bound::Is(60_000), ..Policy::default() };
    store.policies().set_global(&policy, "test").expect("set");
    let mut sweep = sweep();
    let here = clock::read();
    let hour = 3_600_000;
    let jumped = Reading { wall_ms: here.wall_ms + hour, ..here };
    let report = sweep.pass(&store, jumped, &Limits::default()).expect("a pass");
    assert!(report.clock_held.is_some() && report.expired.is_empty(), "{report}");
    let passed = Reading { wall_ms: here.wall_ms + hour, boot_ms: here.boot_ms + hour };
    let report = sweep.pass(&store, passed, &Limits::default()).expect("a pass");
    assert!(report.expired.len() >= 3, "{report}");
}

#[test]
fn a_cap_leaves_the_rest_for_the_next_pass_which_is_due_at_once() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    fill(&store, "capped", 7);
    keep_bytes(&store, "capped", 0);
    let mut limits = Limits::default();
    limits.caps.segments_per_log = 2;
    let report = sweep().pass(&store, clock::read(), &limits).expect("a pass");
    assert_eq!(report.expired.len(), 2);
    assert!(report.budget_spent && report.backlog_bytes > 0, "{report}");
    assert!(report.held.iter().any(|held| matches!(held.by, HeldBy::LogCap(2))), "{report}");
    // A worker goes on without waiting for its interval.
    let schedule = Schedule { interval: Duration::from_secs(3_600), limits };
    let sweeper = Sweeper::start(store.clone(), schedule).expect("a thread");
    wait_for(&sweeper, |passes, _| passes >= 3);
    // The bytes follow: only the write head is left then.
    let end = Instant::now() + Duration::from_secs(20);
    while segments(&store, "capped") > 1 {
        assert!(Instant::now() < end, "{:?}", sweeper.health());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn os_09_the_sweep_runs_by_itself_and_says_when_it_did() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    let schedule = Schedule { interval: Duration::from_secs(3_600), ..Schedule::default() };
    let sweeper = Sweeper::start(store.clone(), schedule).expect("a thread");
    wait_for(&sweeper, |passes, at_ms| passes == 1 && at_ms.is_some());
    assert!(sweeper.health().is_well());
    // RT-12: a change is seen at once when the sweep is nudged.
    fill(&store, "nudged", 3);
    keep_bytes(&store, "nudged", 0);
    sweeper.nudge();
    wait_for(&sweeper, |passes, _| passes >= 2);
    assert!(sweeper.health().last_report.is_some_and(|report| report.expired.len() >= 3));
}

fn wait_for(sweeper: &Sweeper, is_there: impl Fn(u64, Option<u64>) -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let health = sweeper.health();
        if is_there(health.passes, health.last_pass_at_ms) {
            return;
        }
        assert!(Instant::now() < end, "{health:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
