//! A clock that was wrong, a store that rested, and what a sweeper makes of it through a restart.

use super::common::*;
use std::sync::Arc;
use strandline::config::Sabotage;
use strandline::format::block::StoreIdentity;
use strandline::format::manifest::RegionHeader;
use strandline::id::{SegmentId, Seq};
use strandline::manifest::page::Page;
use strandline::manifest::state::State;
use strandline::policy::{Bound, Policy};
use strandline::{Config, Gate, Offset, Store, VerbError};
use strandline_disk::{BLOCK, HostClock};
use strandline_sweeper::decide::Hold;
use strandline_sweeper::pass::Limits;
use strandline_sweeper::report::Report;
use strandline_sweeper::schedule::Sweeper;

const DAY: u64 = 24 * HOUR;

fn open(root: &std::path::Path, clock: &HostClock) -> Arc<Store> {
    Arc::new(Store::open(Config { clock: clock.clone(), ..config(root) }).expect("a store"))
}

fn start(store: &Arc<Store>) -> Sweeper {
    Sweeper::start(store.clone(), rarely(Limits::default())).expect("a thread")
}

fn close(store: Arc<Store>) {
    Arc::into_inner(store).expect("nobody else has it").close().expect("a clean close");
}

/// What a pass says that is made from now on.
fn next_report(sweeper: &Sweeper) -> Report {
    let before = sweeper.retention().health().passes;
    sweeper.nudge();
    wait_for_passes(sweeper, before + 1);
    sweeper.retention().health().last_report.expect("it did its work")
}

fn segment(name: &str, seq: u32) -> SegmentId {
    SegmentId { log: log_id(name), seq: Seq::new(seq).expect("small") }
}

/// A store with data of now, whose sweeper believed a clock that is ten days on.
fn kept_ten_days_on(root: &std::path::Path) -> HostClock {
    let clock = HostClock::ahead_by(0);
    let store = open(root, &clock);
    append(&store, "old");
    close(store);
    clock.set_ahead(10 * DAY as i64);
    let store = open(root, &clock);
    let sweeper = start(&store);
    assert!(next_report(&sweeper).clock_held.is_some(), "it rested for ten days");
    assert_eq!(store.clock().sure_ms(), None, "a time in doubt is not kept");
    sweeper.confirm_time();
    assert_eq!(next_report(&sweeper).clock_held, None);
    drop(sweeper);
    close(store);
    clock
}

#[test]
fn a_short_rest_is_no_hold_however_long_ago_the_last_segment_was_begun() {
    let root = tempfile::tempdir().expect("a directory");
    let clock = kept_ten_days_on(root.path());
    clock.set_ahead(10 * DAY as i64 + HOUR as i64);
    let store = open(root.path(), &clock);
    assert!(store.clock().sure_ms().is_some(), "what was kept is read again");
    let sweeper = start(&store);
    assert_eq!(next_report(&sweeper).clock_held, None);
}

#[test]
fn a_rest_of_over_a_day_is_a_hold_that_an_operator_ends() {
    let root = tempfile::tempdir().expect("a directory");
    let clock = kept_ten_days_on(root.path());
    // To the past as well: a time that was kept is not believed more than the clock.
    for ahead in [11 * DAY + HOUR, 8 * DAY] {
        clock.set_ahead(ahead as i64);
        let store = open(root.path(), &clock);
        let kept_ms = store.clock().sure_ms();
        let sweeper = start(&store);
        let held = next_report(&sweeper).clock_held;
        assert!(matches!(held, Some(Hold::Reopened { .. })), "{held:?}");
        assert_eq!(store.clock().sure_ms(), kept_ms, "a time in doubt is not kept");
        sweeper.confirm_time();
        assert_eq!(next_report(&sweeper).clock_held, None);
        assert!(store.clock().sure_ms().is_some_and(|ms| ms.abs_diff(store.now().wall_ms) < MINUTE));
        drop(sweeper);
        close(store);
    }
}

/// What was stamped while the clock was wrong stands in the manifest too, and agrees with it.
#[test]
fn a_clock_that_is_still_wrong_at_the_next_open_is_held_by_the_time_that_was_kept() {
    let root = tempfile::tempdir().expect("a directory");
    let clock = HostClock::ahead_by(0);
    let store = open(root.path(), &clock);
    let sweeper = start(&store);
    append(&store, "old");
    assert_eq!(next_report(&sweeper).clock_held, None);
    clock.set_ahead(730 * DAY as i64);
    append(&store, "new");
    log(&store, "new").seal().wait().expect("sealed, in two years");
    assert!(matches!(next_report(&sweeper).clock_held, Some(Hold::Jumped { .. })));
    drop(sweeper);
    close(store);
    let store = open(root.path(), &clock);
    let held = next_report(&start(&store)).clock_held;
    assert!(matches!(held, Some(Hold::Reopened { .. })), "{held:?}");
}

/// The times are read with the manifest: there is no error by which a hold could be left out.
#[test]
fn a_store_whose_inventory_cannot_be_read_is_held_all_the_same() {
    let root = tempfile::tempdir().expect("a directory");
    let clock = HostClock::ahead_by(0);
    let store = open(root.path(), &clock);
    append(&store, "old");
    close(store);
    clock.set_ahead(2 * DAY as i64);
    let sabotage = Some(Sabotage::PanicOnRead);
    let store =
        Arc::new(Store::open(Config { clock: clock.clone(), sabotage, ..config(root.path()) }).expect("a store"));
    log(&store, "old").read(Offset(0), 100).wait().expect_err("its shard is gone");
    store.inventory().expect_err("nobody answers");
    let sweeper = start(&store);
    wait_for_passes(&sweeper, 1);
    assert!(!store.clock().believes(store.now()));
    let guard = strandline_sweeper::clock::SharedClock::of(&store);
    let held = guard.look(strandline_sweeper::clock::read_of(&store)).held;
    assert!(held.is_some_and(|held| held.to_string().contains("operator")), "{held:?}");
}

#[test]
fn a_pass_keeps_a_time_when_the_one_that_is_kept_is_over_ten_minutes_old_and_a_stop_always_does() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    append(&store, "t");
    let (mut sweep, here) = (sweep(), strandline_sweeper::clock::read());
    let mut kept = |ms: u64| {
        pass(&mut sweep, &store, later(here, ms));
        store.clock().sure_ms()
    };
    assert_eq!(kept(0), Some(here.wall_ms));
    assert_eq!(kept(10 * MINUTE), Some(here.wall_ms), "no edit for each pass");
    assert_eq!(kept(10 * MINUTE + 1), Some(here.wall_ms + 10 * MINUTE + 1));
    let store = Arc::new(store);
    let sweeper = start(&store);
    next_report(&sweeper);
    let before = store.clock().sure_ms();
    std::thread::sleep(std::time::Duration::from_millis(5));
    drop(sweeper);
    assert!(store.clock().sure_ms() != before, "{before:?}");
}

fn aged(max_age_ms: u64) -> Policy {
    Policy { max_age_ms: Bound::Is(max_age_ms), ..Policy::default() }
}

/// A topic whose first segment was sealed while the clock stood a year ahead.
fn pinned(store: &Store, clock: &HostClock) {
    append(store, "t");
    give(store, "t", aged(HOUR));
    clock.set_ahead(365 * DAY as i64);
    log(store, "t").seal().wait().expect("sealed");
    clock.set_ahead(0);
    append(store, "t");
}

#[test]
fn data_that_a_bad_hour_of_the_clock_has_pinned_expires_when_its_seal_time_was_restamped() {
    let root = tempfile::tempdir().expect("a directory");
    let clock = HostClock::ahead_by(0);
    let store = open(root.path(), &clock);
    pinned(&store, &clock);
    let sweeper = start(&store);
    let earliest = |sweeper: &Sweeper| {
        let explained = sweeper.explain_segment(&segment("t", 0)).expect("explained");
        explained.expect("it is there").window.earliest_ms
    };
    assert!(earliest(&sweeper) > Some(store.now().wall_ms + 300 * DAY));
    let report = next_report(&sweeper);
    assert!(report.expired.is_empty() && report.clock_held.is_none(), "{report}");
    assert_eq!(report.stamps_ahead.len(), 1, "{report}");
    clock.set_ahead(6 * MINUTE as i64);
    let held = sweeper.restamp_seal(&segment("t", 0), "ops").expect_err("the clock is held");
    assert!(matches!(held, VerbError::ClockHeld { .. }), "{held}");
    clock.set_ahead(0);
    let restamped = sweeper.restamp_seal(&segment("t", 0), "ops").expect("restamped");
    assert!(restamped.unaudited.is_none() && restamped.sealed_at_ms.abs_diff(store.now().wall_ms) < MINUTE);
    assert_eq!(earliest(&sweeper), Some(restamped.sealed_at_ms + HOUR + 1), "it is explained by that at once");
    assert_eq!(next_report(&sweeper).stamps_ahead, []);
    store.policies().define("t", aged(0), "test").expect("defined");
    until("it is gone", || segments(&store, "t") == 1);
    let gone = sweeper.restamp_seal(&segment("t", 0), "ops").expect_err("it is gone");
    assert!(matches!(gone, VerbError::NoSuchSegment { .. }), "{gone}");
    let lines: Vec<String> = (0..4)
        .flat_map(|number| std::fs::read_to_string(root.path().join(format!("store/audit/{number}.jsonl"))))
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.contains("seal_restamped"))
        .collect();
    let said = |words: &[&str]| lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(said(&["\"ops\"", "refused", "clock_held", "t-r0-s0"]), "{lines:?}");
    assert!(said(&["\"ops\"", "done", &restamped.before_ms.to_string(), "t-r0-s0"]), "{lines:?}");
    assert!(said(&["\"ops\"", "refused", "no_such_segment"]), "{lines:?}");
}

#[test]
fn the_engine_rolls_by_age_again_when_the_time_is_confirmed_to_the_sweeper() {
    let root = tempfile::tempdir().expect("a directory");
    let clock = HostClock::ahead_by(0);
    let store = open(root.path(), &clock);
    let sweeper = start(&store);
    next_report(&sweeper);
    clock.set_ahead(DAY as i64);
    assert!(!store.clock().believes(store.now()));
    sweeper.confirm_time();
    assert!(store.clock().believes(store.now()));
    // Who sweeps it later begins with what was confirmed.
    drop(sweeper);
    assert_eq!(next_report(&start(&store)).clock_held, None);
}

#[test]
fn a_store_of_an_older_release_keeps_no_time_and_restamps_nothing_until_its_upgrade_is_finished() {
    let root = tempfile::tempdir().expect("a directory");
    let clock = HostClock::ahead_by(0);
    close(open(root.path(), &clock));
    make_old(&root.path().join("store"));
    let store = open(root.path(), &clock);
    append(&store, "t");
    clock.set_ahead(365 * DAY as i64);
    log(&store, "t").seal().wait().expect("sealed");
    clock.set_ahead(0);
    store.keep_sure_time(5).expect("nothing to do");
    assert_eq!(store.clock().sure_ms(), None);
    let refused = store.restamp_seal(&segment("t", 0), "ops").expect_err("an older release could not read it");
    assert!(matches!(refused, VerbError::NotFinalized { .. }), "{refused}");
    store.policies().finalize(Gate::Definitions, "ops").expect("finished");
    store.keep_sure_time(5).expect("kept");
    assert_eq!(store.clock().sure_ms(), Some(5));
    store.restamp_seal(&segment("t", 0), "ops").expect("restamped");
}

/// Makes the manifest of an empty store as a release without policies has left it.
fn make_old(store: &std::path::Path) {
    let block = std::fs::read(store.join("strandline.id")).expect("an identity");
    let id = StoreIdentity::decode(&block).expect("an identity").store;
    for path in ["manifest/a", "manifest/b"] {
        let length = std::fs::metadata(store.join(path)).expect("a copy").len() as usize;
        let (sequence, region_bytes, mut bytes) = (1, length as u64 / 2, vec![0; length]);
        let start = region_bytes as usize;
        bytes[start..start + BLOCK].copy_from_slice(&RegionHeader { store: id, sequence, region_bytes }.encode());
        let page = Page::snapshot(id, sequence, &State::default());
        bytes[start + BLOCK..start + BLOCK + page.bytes.len()].copy_from_slice(&page.bytes);
        std::fs::write(store.join(path), bytes).expect("written");
    }
}
