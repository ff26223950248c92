//! What users of such systems have met with retention, from a record to its free bytes. Each test is named after its case.

use super::common::*;
use std::process::{Command, Stdio};
use std::sync::Arc;
use strandline::policy::{Bound, Policy};
use strandline::{Offset, Store};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{Caps, ClockGuard, HeldBy, Pin, Reading};
use strandline_sweeper::pass::{Limits, Sweep};
use strandline_sweeper::pins::PinBoard;
use strandline_sweeper::report::{ByReason, Expired};
use strandline_sweeper::schedule::Sweeper;

fn aged(max_age_ms: u64) -> Policy {
    Policy { max_age_ms: Bound::Is(max_age_ms), segment_max_age_ms: Bound::Is(MINUTE), ..Policy::default() }
}

#[test]
fn rt_09_an_idle_topic_of_one_record_comes_down_to_nothing() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    append(&store, "idle");
    give(&store, "idle", aged(MINUTE));
    let (start, mut sweep) = (clock::read(), sweep());
    let report = pass(&mut sweep, &store, start);
    assert!(report.rolled.is_empty() && report.expired.is_empty(), "{report}");
    let report = pass(&mut sweep, &store, later(start, MINUTE + 1_000));
    assert_eq!((report.rolled.len(), report.expired.len()), (1, 0), "{report}");
    let report = pass(&mut sweep, &store, later(start, HOUR));
    assert_eq!(report.expired_by_reason(), ByReason { age: 1, ..ByReason::default() }, "{report}");
    // The store has forgotten it; its bytes follow.
    until("no bytes", || info(&store, "idle").segments.is_empty());
    assert_eq!(info(&store, "idle").file_bytes(), 0);
    append(&store, "idle");
    assert_eq!(log(&store, "idle").bounds().start, Offset(1), "offsets go on");
}

#[test]
fn rt_12_a_changed_policy_is_carried_out_long_before_the_interval_is_over_and_nobody_nudges() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    fill(&store, "changed", 4);
    let sweeper = Sweeper::start(store.clone(), rarely(Limits::default())).expect("a thread");
    wait_for_passes(&sweeper, 1);
    let before = segments(&store, "changed");
    keep_bytes(&store, "changed", 0);
    until("a pass by the new policy", || segments(&store, "changed") < before);
    until("all but the write head gone", || segments(&store, "changed") <= 1);
    assert!(sweeper.is_well());
}

/// Tells the child where its store is.
const ROOT: &str = "STRANDLINE_SWEEPER_CHILD";

/// The child of the test below: nothing by itself. It never closes its store.
#[test]
fn child_that_is_killed() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let store = Store::open(config(root.as_ref())).expect("a store");
    fill(&store, "acked", 4);
    keep_bytes(&store, "acked", 0);
    std::fs::write(std::path::Path::new(&root).join("acked"), "").expect("a file");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn rt_13_a_policy_that_was_acknowledged_is_carried_out_by_the_store_that_opens_after_kill_9() {
    let root = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "cases::child_that_is_killed"])
        .env(ROOT, root.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    let acked = root.path().join("acked");
    until("an acknowledged policy", || acked.exists() || child.try_wait().expect("a child").is_some());
    child.kill().expect("killed");
    child.wait().expect("dead");
    assert!(acked.exists(), "the child died by itself");
    let store = Store::open(config(root.path())).expect("a store");
    let policy = store.policies().get(&topic("acked")).expect("a policy");
    assert_eq!((policy.fields.max_bytes, policy.undefined), (Bound::Is(0), false));
    let report = pass(&mut sweep(), &store, clock::read());
    assert!(report.expired.len() >= 4 && report.failures.is_empty(), "{report}");
}

#[test]
fn rt_16_age_goes_on_while_the_store_is_restarted_more_often_than_it() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    fill(&store, "aged", 3);
    give(&store, "aged", aged(HOUR));
    store.close().expect("a clean close");
    let start = clock::read();
    for minutes in [0, 30, 59, 61] {
        let store = Store::open(config(root.path())).expect("a store");
        // The host was started again as well: its boot clock begins anew.
        let at = Reading { wall_ms: start.wall_ms + minutes * MINUTE, boot_ms: 1_000 };
        let report = pass(&mut Sweep::new(ClockGuard::open(at, Some(start.wall_ms))), &store, at);
        assert_eq!(report.clock_held, None);
        let sealed = info(&store, "aged").segments.iter().filter(|one| one.sealed_at_ms.is_some()).count();
        match minutes {
            61 => assert!(sealed == 0 && report.expired.len() >= 3, "{report}"),
            _ => assert!(report.expired.is_empty() && sealed >= 3, "{report}"),
        }
        store.close().expect("a clean close");
    }
}

#[test]
fn rt_17_a_backlog_shrinks_without_a_pause_and_the_metrics_say_how_far() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    fill(&store, "behind", 40);
    let sealed = segments(&store, "behind") as u64 - 1;
    keep_bytes(&store, "behind", 0);
    let limits = Limits { caps: Caps { segments_per_pass: 4, segments_per_log: 4 }, ..Limits::default() };
    let first = sweep().pass(&store, clock::read(), &Limits { dry_run: true, ..limits }).expect("a pass");
    assert!(first.budget_spent && first.held_counts().capped == sealed - 4, "{first}");
    let sweeper = Sweeper::start(store.clone(), rarely(limits)).expect("a thread");
    until("no backlog", || sweeper.retention().metrics().counts.expired.values().any(|one| one.segments == sealed));
    wait_for_passes(&sweeper, sealed.div_ceil(4));
    let metrics = sweeper.retention().metrics();
    assert_eq!(metrics.counts.backlog_bytes, 0);
    assert!(metrics.durations.count() >= sealed.div_ceil(4), "{metrics:?}");
    assert_eq!(metrics.counts.expired.keys().collect::<Vec<_>>(), [&topic("behind")]);
}

/// A consumer that never commits holds what it asked for, is named, and does not fill the disk.
#[test]
fn rt_22_a_pin_is_named_in_the_report_with_its_bytes_and_holds_no_more_than_it_may() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    fill(&store, "slow", 6);
    keep_bytes(&store, "slow", 0);
    let sealed: Vec<_> = info(&store, "slow").segments.into_iter().filter(|one| one.sealed_at_ms.is_some()).collect();
    let pins = PinBoard::default();
    let mut sweep = sweep().with_pins(pins.clone());
    let holder = "group billing".to_owned();
    pins.hold(&log_id("slow"), Pin { holder: holder.clone(), from: Offset(0), bytes_max: u64::MAX });
    let report = pass(&mut sweep, &store, clock::read());
    assert!(report.expired.is_empty(), "{report}");
    let bytes = sealed.iter().map(|one| one.byte_size).sum();
    let all = Expired { segments: sealed.len() as u64, bytes };
    assert_eq!(report.pinned().into_iter().collect::<Vec<_>>(), [("group billing", all)]);
    let named = |by: &HeldBy| matches!(by, HeldBy::Pin { holder: by, bytes_max, .. } if *by == holder && *bytes_max == 16 << 30);
    assert!(report.held.iter().all(|held| named(&held.by)), "{report}");
    // The operator's limit: the oldest go, and the newest that fit under it stay.
    let pin_bytes_max = sealed.iter().rev().take(2).map(|one| one.byte_size).sum();
    let limits = Limits { pin_bytes_max, ..Limits::default() };
    let report = sweep.pass(&store, clock::read(), &limits).expect("a pass");
    assert_eq!((report.expired.len(), report.held_counts().pinned), (sealed.len() - 2, 2), "{report}");
    assert!(pins.let_go(&log_id("slow"), &holder));
    assert_eq!(pass(&mut sweep, &store, clock::read()).expired.len(), 2, "what was held goes when it is let go of");
}
