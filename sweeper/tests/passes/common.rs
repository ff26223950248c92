//! What the tests of passes share: a small store, logs that fill segments, and clocks that say what a test wants.

use std::path::Path;
use std::time::{Duration, Instant};
use strandline::policy::{Bound, Policy};
use strandline::{Config, Log, LogId, LogInfo, RangeNumber, Record, SegmentState, Store, Topic};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{ClockGuard, Reading};
use strandline_sweeper::orphans::OrphanLimits;
use strandline_sweeper::pass::{Limits, Sweep};
use strandline_sweeper::report::Report;
use strandline_sweeper::schedule::{Schedule, Sweeper};
use strandline_sweeper::worker::Every;

pub const MINUTE: u64 = 60_000;
pub const HOUR: u64 = 60 * MINUTE;

pub fn config(root: &Path) -> Config {
    let mut config = Config::new(root.join("store"));
    config.segment_bytes = 64 << 10;
    config.batch_bytes_max = 6 << 10;
    config.commit_bytes_max = 16 << 10;
    config.arena_bytes = 4 << 20;
    config
}

pub fn topic(name: &str) -> Topic {
    Topic::new(name).expect("a plain name")
}

pub fn log(store: &Store, name: &str) -> Log {
    store.log(&topic(name), RangeNumber::default()).expect("a log")
}

/// Appends until so many segments are sealed.
pub fn fill(store: &Store, name: &str, sealed: usize) {
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

pub fn info(store: &Store, name: &str) -> LogInfo {
    log(store, name).stats().wait().expect("statistics")
}

pub fn segments(store: &Store, name: &str) -> usize {
    info(store, name).segments.len()
}

pub fn log_id(name: &str) -> LogId {
    LogId { topic: topic(name), range: RangeNumber::default() }
}

/// Appends one record.
pub fn append(store: &Store, name: &str) {
    let log = log(store, name);
    let mut batch = log.batch();
    batch.push(&Record { value: Some(b"one"), ..Record::default() }).expect("room");
    log.append(batch.build().expect("a batch")).expect("room").wait().expect("durable");
}

/// Both clocks so much later.
pub fn later(from: Reading, ms: u64) -> Reading {
    Reading { wall_ms: from.wall_ms + ms, boot_ms: from.boot_ms + ms }
}

/// A pass that is made.
pub fn pass(sweep: &mut Sweep, store: &Store, at: Reading) -> Report {
    sweep.pass(store, at, &Limits::default()).expect("a pass")
}

/// Gives a topic a policy of its own.
pub fn give(store: &Store, name: &str, policy: Policy) {
    store.policies().define(name, &policy, "test").expect("defined");
    store.policies().bind(&topic(name), name, "test").expect("bound");
}

/// A schedule on which nothing happens by itself for the length of a test.
pub fn rarely(limits: Limits) -> Schedule {
    let interval = Duration::from_secs(3_600);
    let orphans = Every { interval, limits: OrphanLimits::default() };
    Schedule { retention: Every { interval, limits }, orphans, scrub: None }
}

pub fn sweep() -> Sweep {
    Sweep::new(ClockGuard::open(clock::read(), None))
}

pub fn keep_bytes(store: &Store, name: &str, bytes: u64) {
    let policy = Policy { max_bytes: Bound::Is(bytes), ..Policy::default() };
    store.policies().define("small", &policy, "test").expect("defined");
    store.policies().bind(&topic(name), "small", "test").expect("bound");
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the retention worker has made so many passes.
pub fn wait_for_passes(sweeper: &Sweeper, passes: u64) {
    until("so many passes", || sweeper.retention().health().passes >= passes);
}
