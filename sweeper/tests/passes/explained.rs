//! What `explain` says of a live store, against what a pass then does.

use super::common::*;
use std::sync::Arc;
use strandline::id::SegmentId;
use strandline::policy::{Bound, Policy};
use strandline::{LogId, Offset, RangeNumber, Store};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{
    Caps, Fate, HeldBy, LogExplained, Pin, Reading, Schedule, Stay, Warning, record_lives_at_most_ms,
};
use strandline_sweeper::pass::{Limits, Sweep};
use strandline_sweeper::pins::PinBoard;
use strandline_sweeper::schedule::Sweeper;

fn explain(sweep: &Sweep, store: &Store, name: &str, at: Reading) -> LogExplained {
    let explained = sweep.explain_log((store, &log_id(name)), at, &Limits::default(), Schedule::default());
    explained.expect("an answer").expect("a log")
}

#[test]
fn what_explain_says_is_due_is_what_the_next_pass_takes_and_what_it_holds_is_held() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    let names = ["kept", "size", "age", "pinned", "lost"];
    names.iter().for_each(|name| fill(&store, name, 4));
    give(&store, "size", Policy { max_bytes: Bound::Is(100_000), ..Policy::default() });
    give(&store, "age", Policy { max_age_ms: Bound::Is(HOUR), ..Policy::default() });
    give(&store, "pinned", Policy { max_bytes: Bound::Is(0), ..Policy::default() });
    give(&store, "lost", Policy { max_bytes: Bound::Is(0), ..Policy::default() });
    store.policies().delete("lost", true, "test").expect("a forced deletion");
    let pins = PinBoard::default();
    pins.hold(&log_id("pinned"), Pin { holder: "group".to_owned(), from: Offset(12), bytes_max: 1 << 30 });
    let mut sweep = sweep().with_pins(pins);
    for at in [clock::read(), later(clock::read(), 2 * HOUR)] {
        let explained = names.map(|name| explain(&sweep, &store, name, at));
        let limits = Limits { caps: Caps { segments_per_log: 100, segments_per_pass: 1_000 }, ..Limits::default() };
        let report = sweep.pass(&store, at, &limits).expect("a pass");
        let segments = || explained.iter().flat_map(|log| &log.segments);
        let due = segments().filter(|one| matches!(one.fate, Fate::Expire(_))).map(|one| &one.segment);
        let mut expired: Vec<_> = report.expired.iter().map(|planned| &planned.segment).collect();
        expired.sort();
        let mut due: Vec<_> = due.collect();
        due.sort();
        assert_eq!(due, expired, "{report}");
        assert!(!expired.is_empty());
        let pinned = segments().filter(|one| matches!(one.fate, Fate::Pinned { .. })).count();
        let held = report.held.iter().filter(|held| matches!(held.by, HeldBy::Pin { .. })).count();
        assert!(pinned == held && held > 0, "{report}");
        let lost = segments().filter(|one| one.fate == Fate::Stays(Stay::Unresolved)).count();
        assert!(lost >= 4 && explained[4].warnings == [Warning::Unresolved], "{}", explained[4]);
    }
}

#[test]
fn rt_20_a_segment_goes_at_the_instant_that_explain_gives_and_a_record_lives_no_longer_than_it_says() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    append(&store, "timed");
    let (max_age_ms, segment_max_age_ms) = (Bound::Is(10 * MINUTE), Bound::Is(5 * MINUTE));
    give(&store, "timed", Policy { max_age_ms, segment_max_age_ms, ..Policy::default() });
    let (start, mut sweep) = (clock::read(), sweep());
    let explained = explain(&sweep, &store, "timed", start);
    let at_most_ms = 15 * MINUTE + 2 * MINUTE + 1_000;
    assert_eq!(record_lives_at_most_ms(&explained.effective, &Schedule::default()), Some(at_most_ms));
    let said = format!(
        "a record lives at most segment_max_age + max_age + 2 sweep intervals of 60000 ms + seal time 1000 ms = {at_most_ms} ms"
    );
    assert!(explained.to_string().contains(&said), "{explained}");
    let opened_at_ms = info(&store, "timed").segments[0].opened_at_ms;
    let latest_ms = explained.segments[0].window.latest_ms.expect("a promise");
    // From the end of the seal on the sweep has an interval, and a pass begins before another one is over.
    assert!(latest_ms <= opened_at_ms + at_most_ms, "{latest_ms} of {}", opened_at_ms + at_most_ms);
    // The roll: what explain then says of the sealed segment is when it goes, to the millisecond.
    let rolled = later(start, 5 * MINUTE);
    assert_eq!(pass(&mut sweep, &store, rolled).rolled.len(), 1);
    let segment = SegmentId { log: log_id("timed"), seq: info(&store, "timed").segments[0].seq };
    let one = sweep.explain_segment((&store, &segment), rolled, &Limits::default(), Schedule::default());
    let one = one.expect("an answer").expect("a segment");
    let earliest_ms = one.window.earliest_ms.expect("an age");
    let at = |wall_ms: u64| later(start, wall_ms - start.wall_ms);
    let report = pass(&mut sweep, &store, at(earliest_ms - 1));
    assert_eq!(report.expired.len(), 0, "{one}: {report}");
    let report = pass(&mut sweep, &store, at(earliest_ms));
    assert_eq!(report.expired.iter().map(|planned| &planned.segment).collect::<Vec<_>>(), [&segment], "{one}");
    assert!(earliest_ms <= latest_ms);
}

#[test]
fn explain_warns_of_bounds_that_do_not_fit_how_a_log_is_written_and_says_nothing_of_one_that_is_not_there() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    append(&store, "rare");
    append(&store, "rare");
    let (max_age_ms, segment_max_age_ms) = (Bound::Is(100 * HOUR), Bound::Is(HOUR));
    give(&store, "rare", Policy { max_age_ms, segment_max_age_ms, ..Policy::default() });
    let (now, sweep) = (clock::read(), sweep());
    assert_eq!(explain(&sweep, &store, "rare", now).warnings, [], "a young log has no rhythm yet");
    let explained = explain(&sweep, &store, "rare", later(now, 2 * HOUR));
    let write_every_ms = |warning: &Warning| match warning {
        Warning::RollNearWriteRhythm { write_every_ms, .. } => Some(*write_every_ms),
        _ => None,
    };
    let every_ms = explained.warnings.iter().find_map(write_every_ms).expect("a warning");
    assert!((HOUR..HOUR + MINUTE).contains(&every_ms), "two appends in two hours: {every_ms} ms");
    assert!(explained.to_string().contains("warning: segment_max_age_ms 3600000 is near"), "{explained}");
    give(&store, "rare", Policy { max_age_ms: Bound::Is(MINUTE), segment_max_age_ms, ..Policy::default() });
    let explained = explain(&sweep, &store, "rare", now);
    assert!(matches!(explained.warnings[..], [Warning::RollLongAgainstMaxAge { .. }]), "{explained}");
    let nowhere = LogId { topic: topic("nowhere"), range: RangeNumber::default() };
    let explained = sweep.explain_log((&store, &nowhere), now, &Limits::default(), Schedule::default());
    assert_eq!(explained, Ok(None));
    assert_eq!(store.topics().expect("an open store").len(), 1, "no log was made by the question");
}

#[test]
fn a_sweeper_that_runs_explains_by_its_own_interval_clock_and_pins() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    fill(&store, "run", 2);
    let policy = Policy { max_age_ms: Bound::Is(HOUR), segment_max_age_ms: Bound::Is(HOUR), ..Policy::default() };
    give(&store, "run", policy);
    let sweeper = Sweeper::start(store.clone(), rarely(Limits::default())).expect("a thread");
    sweeper.pins().hold(&log_id("run"), Pin { holder: "group".to_owned(), from: Offset(0), bytes_max: 7 });
    let explained = sweeper.explain_log(&log_id("run")).expect("an answer").expect("a log");
    assert_eq!(explained.record_lives_at_most_ms, Some(4 * HOUR + 1_000));
    assert!(explained.segments.iter().all(|one| one.pins == [("group".to_owned(), 7)]), "{explained}");
    let segment = explained.segments[0].clone();
    assert_eq!(sweeper.explain_segment(&segment.segment).expect("an answer"), Some(segment));
    let passes = sweeper.retention().health().passes;
    sweeper.confirm_time();
    until("a pass by the time that was confirmed", || sweeper.retention().health().passes > passes);
}
