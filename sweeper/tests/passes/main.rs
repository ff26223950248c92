//! Passes over a real store: what the plan says is what is gone, and nothing else.

mod cases;
mod common;
mod explained;
mod hosts;
mod orphans;
mod restarts;
mod scrub;
#[path = "../../../engine/disk/tests/real/skipped.rs"]
mod skipped;
mod stopping;
mod swaps;
mod timers;

use common::*;
use std::sync::Arc;
use strandline::policy::{Bound, Policy};
use strandline::{Offset, ReadError, Store};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{HeldBy, Mode, Reading};
use strandline_sweeper::pass::Limits;
use strandline_sweeper::schedule::Sweeper;

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
    let sweeper = Sweeper::start(store.clone(), rarely(limits)).expect("a thread");
    wait_for_passes(&sweeper, 3);
    // The bytes follow: only the write head is left then.
    until("one segment", || segments(&store, "capped") <= 1);
}

#[test]
fn an_operator_lets_go_what_the_brake_stopped_while_the_sweeper_runs() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    append(&store, "known");
    let make = |number: u32| root.path().join("store").join(format!("lost-r0-s{number}"));
    (0..60).for_each(|number| std::fs::create_dir(make(number)).expect("a directory that nobody knows"));
    let mut schedule = rarely(Limits::default());
    let limits = &mut schedule.orphans.limits;
    (limits.age_min_ms, limits.review.sightings, limits.review.mode) = (0, 1, Mode::Delete);
    let sweeper = Sweeper::start(store.clone(), schedule).expect("a thread");
    let report = || sweeper.orphans().expect("a worker").health().last_report;
    until("a pass", || report().is_some());
    let braked = report().expect("a report");
    assert!(braked.brake.is_some() && braked.given_up.is_empty(), "{braked}");
    assert_eq!(braked.braked().count(), 60);
    sweeper.confirm_orphans(braked.braked());
    until("they wait in the trash", || store.held_orphans().expect("an answer").len() == 60);
    assert!(report().expect("a report").removal.rate > 0 && sweeper.is_well());
}

#[test]
fn os_09_the_sweeps_run_by_themselves_and_say_when_they_did() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    append(&store, "known"); // An empty list beside a directory would stop the orphan sweep.
    std::fs::create_dir(root.path().join("store").join("lost-r0-s0")).expect("a directory that nobody knows");
    let schedule = rarely(Limits::default());
    let sweeper = Sweeper::start(store.clone(), schedule).expect("a thread");
    let orphans = || sweeper.orphans().expect("a worker").health();
    wait_for_passes(&sweeper, 1);
    until("a pass of the orphan sweep", || orphans().passes == 1);
    let health = sweeper.retention().health();
    assert!(health.is_well() && sweeper.is_well() && health.last_pass_at_ms.is_some(), "{health:?}");
    let counts = sweeper.orphans().expect("a worker").metrics().counts;
    assert!(counts.left["young"] >= 1 && counts.given_up == 0, "{:?}", orphans());
    // By hand, for what the store cannot see.
    sweeper.nudge();
    wait_for_passes(&sweeper, 2);
    until("another pass of the orphan sweep", || orphans().passes == 2);
    drop(sweeper);
    let mut off = schedule;
    off.orphans.limits.review.mode = Mode::Off;
    let sweeper = Sweeper::start(store, off).expect("a thread");
    wait_for_passes(&sweeper, 1);
    assert!(sweeper.orphans().is_none() && sweeper.is_well(), "a sweep that is off is no ill worker");
}
