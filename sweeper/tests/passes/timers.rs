//! The engine's timers, which roll segments by age between passes, are set from what applies to each topic.

use super::common::*;
use std::time::Duration;
use strandline::policy::{Bound, Policy};
use strandline::{LogOptions, RangeNumber, Store};
use strandline_sweeper::clock;
use strandline_sweeper::pass::{Limits, Sweep};
use strandline_sweeper::report::RollTimer;

fn rolling(segment_max_age_ms: Bound) -> Policy {
    Policy { segment_max_age_ms, ..Policy::default() }
}

/// Makes a pass, and says for which topics it set a timer.
fn set_by_a_pass(sweep: &mut Sweep, store: &Store) -> Vec<(String, Option<u64>)> {
    let report = pass(sweep, store, clock::read());
    assert!(report.timers_failed.is_empty(), "{report}");
    let timers = report.timers.into_iter();
    timers.map(|RollTimer { log, segment_max_age_ms }| (log.topic.to_string(), segment_max_age_ms)).collect()
}

#[test]
fn rt_09_a_pass_sets_the_timer_of_each_log_whose_policy_rolls_at_another_age_and_says_nothing_twice() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    ["lost", "none", "off", "short"].iter().for_each(|name| append(&store, name));
    give(&store, "lost", rolling(Bound::Is(2 * MINUTE)));
    store.policies().delete("lost", true, "test").expect("a forced deletion");
    give(&store, "off", rolling(Bound::Off));
    give(&store, "short", rolling(Bound::Is(MINUTE)));
    let week = store.segment_max_age_ms();
    let timer = |name: &str| info(&store, name).segment_max_age_ms;
    let mut sweep = sweep();
    let dry = Limits { dry_run: true, ..Limits::default() };
    let would = sweep.pass(&store, clock::read(), &dry).expect("a pass");
    assert_eq!((would.timers.len(), timer("short")), (3, week), "a dry run sets none");
    let name = |name: &str| name.to_owned();
    let set = set_by_a_pass(&mut sweep, &store);
    assert_eq!(set, [(name("lost"), None), (name("off"), None), (name("short"), Some(MINUTE))]);
    assert_eq!([timer("lost"), timer("none"), timer("off"), timer("short")], [None, week, None, Some(MINUTE)]);
    assert_eq!(set_by_a_pass(&mut sweep, &store), [], "they are set already");
    // A policy that is defined again, a global value, and a log that was opened with a value of its own.
    store.policies().define("lost", rolling(Bound::Is(3 * MINUTE)), "test").expect("defined");
    store.policies().set_global(rolling(Bound::Is(u64::MAX)), "test").expect("set");
    let options = LogOptions { segment_max_age: Some(Some(Duration::from_secs(90))), ..LogOptions::default() };
    store.log_with(&topic("short"), RangeNumber::default(), options).expect("a log");
    let set = set_by_a_pass(&mut sweep, &store);
    assert_eq!(set, [(name("lost"), Some(3 * MINUTE)), (name("none"), Some(u64::MAX)), (name("short"), Some(MINUTE))]);
    store.close().expect("a clean close");
    // Nothing of it is durable: the first pass of the next life sets it again.
    let store = Store::open(config(root.path())).expect("a store");
    assert_eq!(info(&store, "short").segment_max_age_ms, week);
    assert_eq!(set_by_a_pass(&mut sweep, &store).len(), 4);
}
