//! What the verbs of replicas and operators refuse, on the real ring.

use crate::common::{append, bytes_of, log_of, one, open, place, small, topic};
use std::sync::Arc;
use std::time::Duration;
use strandline::id::{SegmentId, Seq};
use strandline::pending::Answer;
use strandline::{
    AppendError, Config, DirectIo, Host, Level, Log, LogError, LogId, LogOptions, Offset, OpenError, RangeNumber,
    ReadError, Receipt, Refusal, SharedHost, Store, SyncMode, VerbError,
};

fn seq(number: u32) -> Seq {
    Seq::new(number).expect("small")
}

fn segment(log: &Log, number: u32) -> SegmentId {
    SegmentId { log: log.id().clone(), seq: seq(number) }
}

/// A log of two sealed segments and an active one, of two records each.
fn three_segments(store: &Store, name: &str) -> Log {
    let log = log_of(store, name);
    for segment in 0..3 {
        append(&log, &bytes_of(segment, 100));
        append(&log, &bytes_of(segment + 10, 100));
        if segment < 2 {
            log.seal().wait().expect("a sealed segment");
        }
    }
    log
}

#[test]
fn an_offset_that_is_not_in_the_log_is_refused_by_every_verb_that_takes_one() {
    let place = place();
    let store = open(small(place.path()));
    let log = three_segments(&store, "range");
    let out_of_range = |requested, start, end| VerbError::OutOfRange {
        log: log.id().clone(),
        requested: Offset(requested),
        start: Offset(start),
        end: Offset(end),
    };
    assert_eq!(log.trim(Offset(7)).wait(), Err(out_of_range(7, 0, 6)));
    assert_eq!(log.trim(Offset(2)).wait(), Ok(Offset(2)));
    assert_eq!(log.trim(Offset(1)).wait(), Ok(Offset(2)), "it starts there already");
    assert_eq!(log.truncate_to(Offset(1)).wait(), Err(out_of_range(1, 2, 6)));
    assert_eq!(log.pin(Offset(9)).expect_err("past the end"), out_of_range(9, 2, 6));
}

#[test]
fn only_the_oldest_sealed_segment_is_deleted_and_one_that_is_gone_is_no_error() {
    let place = place();
    let store = open(small(place.path()));
    let log = three_segments(&store, "oldest");
    let (first, second, third) = (segment(&log, 0), segment(&log, 1), segment(&log, 2));
    let refused = store.delete_segment(&second).expect_err("the first one is older");
    assert_eq!(refused, VerbError::NotOldest { segment: second.clone(), oldest: first.clone() });
    assert_eq!(
        store.delete_segment(&third).expect_err("it is active"),
        VerbError::NotSealed { segment: third.clone() }
    );
    for _ in 0..2 {
        store.delete_segment(&first).expect("the oldest, or gone");
    }
    assert_eq!(log.bounds().start, Offset(2));
    let nothing = VerbError::NoSuchSegment { segment: segment(&log, 9) };
    assert_eq!(log.verify(Some(seq(9))).wait(), Err(nothing.clone()));
    assert_eq!(log.rebuild_index(seq(9)).wait(), Err(nothing));
    assert_eq!(log.rebuild_index(seq(2)).wait(), Err(VerbError::NotSealed { segment: third }));
    log.rebuild_index(seq(1)).wait().expect("a sealed segment");
}

#[test]
fn a_log_that_was_deleted_says_so_to_whoever_holds_it() {
    let place = place();
    let store = open(small(place.path()));
    let log = three_segments(&store, "gone");
    store.delete_log(&topic("gone"), RangeNumber::default()).expect("deleted");
    store.delete_log(&topic("gone"), RangeNumber::default()).expect("gone already");
    let id = log.id().clone();
    let refused = log.append(one(&log, b"v")).expect("room").wait();
    assert_eq!(refused, Err(AppendError::Deleted { log: id.clone() }));
    assert_eq!(log.read(Offset(0), 1).wait().expect_err("gone"), ReadError::Deleted { log: id.clone() });
    assert_eq!(log.stats().wait(), Err(VerbError::NoSuchLog { log: id }));
    let again = log_of(&store, "gone");
    assert_eq!(append(&again, b"new").first, Offset(0));
    assert_eq!(again.bounds().end, Offset(1));
}

#[test]
fn a_directory_is_deleted_only_when_no_segment_is_meant_and_nothing_else_is_in_it() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "d");
    append(&log, b"v");
    let known = store.delete_directory("d-r0-s0").expect_err("a live segment");
    assert_eq!(known, VerbError::Known { name: "d-r0-s0".to_owned(), segment: segment(&log, 0) });
    for name in ["manifest", "lost+found", "..", "d-r0-s00"] {
        assert!(matches!(store.delete_directory(name), Err(VerbError::Foreign { .. })), "{name}");
    }
    let stray = place.path().join("d-r7-s1");
    std::fs::create_dir(&stray).expect("a directory");
    std::fs::write(stray.join("data.0"), b"old").expect("a file");
    std::fs::write(stray.join("notes.txt"), b"mine").expect("a file");
    let refused = store.delete_directory("d-r7-s1").expect_err("it holds a stranger");
    assert!(refused.to_string().contains("notes.txt"), "{refused}");
    assert!(stray.join("data.0").exists(), "nothing was removed");
    std::fs::remove_file(stray.join("notes.txt")).expect("ours to remove");
    store.delete_directory("d-r7-s1").expect("only what a segment has");
    assert!(!stray.exists());
    store.delete_directory("d-r7-s1").expect("gone already");
}

#[test]
fn a_fenced_log_takes_no_append_and_repairs_only_where_it_ends_and_as_far_as_it_may() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "fence");
    append(&log, b"one");
    assert_eq!(log.fence(Some(Offset(2))).wait(), Ok(Offset(2)));
    let fenced = AppendError::Fenced { log: log.id().clone(), until: Offset(2) };
    assert_eq!(log.append(one(&log, b"v")).expect("room").wait(), Err(fenced.clone()));
    let wrong = log.follow(Offset(0), one(&log, b"v")).expect("room").wait();
    let (expected, end) = (Offset(0), Offset(1));
    assert_eq!(wrong, Err(AppendError::OutOfSync { log: log.id().clone(), expected, end }));
    assert_eq!(log.follow(Offset(1), one(&log, b"two")).expect("room").wait().map(|r| r.first), Ok(Offset(1)));
    assert_eq!(log.follow(Offset(2), one(&log, b"three")).expect("room").wait(), Err(fenced.clone()));
    assert_eq!(store.fenced(&[log.id().clone()]), Ok(vec![true]));
    drop(log);
    store.close().expect("a clean close");
    let store = open(small(place.path()));
    let log = log_of(&store, "fence");
    assert_eq!(log.append(one(&log, b"v")).expect("room").wait(), Err(fenced), "a fence outlives the process");
    log.unfence().wait().expect("unfenced");
    assert_eq!(append(&log, b"three").first, Offset(2));
}

#[test]
fn a_pin_holds_no_more_than_it_may_and_what_it_holds_stays_until_it_is_dropped() {
    let place = place();
    let store = open(Config { pin_bytes_max: 145 << 10, ..small(place.path()) });
    let log = three_segments(&store, "pin");
    // What was sealed far from full shrinks to a header block, a block of data, one of index and one for the footer.
    let sizes = || log.stats().wait().expect("statistics").segments.iter().map(|of| of.file_bytes).collect::<Vec<_>>();
    crate::common::eventually("sealed segments shrink", || sizes() == [16 << 10, 16 << 10, 128 << 10]);
    let refused = log.pin(Offset(0)).expect_err("three segments");
    assert_eq!(refused, VerbError::PinTooLarge { offset: Offset(0), bytes: 160 << 10, limit: 145 << 10 });
    let pin = log.pin(Offset(2)).expect("two segments");
    log.trim(Offset(6)).wait().expect("trimmed");
    let there = |number: u32| place.path().join(format!("pin-r0-s{number}")).exists();
    crate::common::eventually("what no pin holds goes", || !there(0));
    assert!(there(1), "a pin holds it");
    drop(pin);
    crate::common::eventually("what was held goes", || !there(1));
}

#[test]
fn a_closed_store_and_one_with_too_much_in_hand_refuse_verbs() {
    let place = place();
    let store = open(Config { outstanding_max: 1, ..small(place.path()) });
    let log = log_of(&store, "busy");
    let mut never: Receipt = append(&log, b"v");
    (never.end, never.level) = (Offset(1_000), Level::Written);
    let wait = log.until_durable(&never, false);
    assert_eq!(log.stats().wait(), Err(VerbError::Overloaded { outstanding: 1, limit: 1 }));
    drop(wait);
    drop(store);
    assert_eq!(log.stats().wait(), Err(VerbError::Closed));
}

#[test]
fn options_that_cannot_work_are_refused_and_name_the_field() {
    let place = place();
    let store = open(small(place.path()));
    let options = LogOptions { segment_bytes: Some(1), ..LogOptions::default() };
    let refused = store.log_with(&topic("o"), RangeNumber::default(), options).expect_err("too small");
    assert!(matches!(&refused, LogError::Options(error) if error.to_string().contains("segment_bytes")), "{refused}");
    let refused = store.create_topic(&topic("o"), u32::MAX).expect_err("too many");
    assert_eq!(refused, LogError::TooManyRanges { ranges: u32::MAX });
    assert!(store.topics().expect("an open store").is_empty(), "nothing was made");
}

#[test]
fn an_age_under_a_minute_rolls_no_segment_and_a_log_that_does_not_exist_has_none() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "rolled");
    let ask = |age_ms: u64| store.set_segment_max_age(log.id(), Some(Duration::from_millis(age_ms))).wait();
    let too_short = VerbError::SegmentMaxAgeTooShort { log: log.id().clone(), age_ms: 59_999, floor_ms: 60_000 };
    assert_eq!(ask(59_999), Err(too_short));
    let before = log.stats().wait().expect("statistics").segment_max_age_ms;
    assert_eq!(before, store.segment_max_age_ms(), "nothing was changed");
    for age_ms in [60_000, u64::MAX] {
        assert_eq!(ask(age_ms), Ok(()));
        assert_eq!(log.stats().wait().expect("statistics").segment_max_age_ms, Some(age_ms));
    }
    assert_eq!(store.set_segment_max_age(log.id(), None).wait(), Ok(()));
    assert_eq!(log.stats().wait().expect("statistics").segment_max_age_ms, None);
    let nowhere = LogId { topic: topic("nowhere"), range: RangeNumber::default() };
    assert_eq!(store.set_segment_max_age(&nowhere, None).wait(), Err(VerbError::NoSuchLog { log: nowhere }));
    assert_eq!(store.topics().expect("an open store").len(), 1, "no log was made by it");
}

#[test]
fn a_barrier_is_refused_where_one_flush_does_not_stand_for_all() {
    let place = place();
    let config = Config { sync: SyncMode::Barrier, direct: DirectIo::Off, ..small(place.path()) };
    let refused = Store::open(config).expect_err("the page cache is between");
    assert!(matches!(&refused, OpenError::NoBarrier { reason } if !reason.is_empty()), "{refused}");
}

struct Refuses;

impl Host for Refuses {
    fn register(&self, segment: &SegmentId, answer: Answer<Result<(), Refusal>>) {
        let result = if segment.log.topic.as_bytes() == b"unwanted" {
            Err(Refusal { reason: "no such topic".to_owned() })
        } else {
            Ok(())
        };
        answer.give(result);
    }
}

#[test]
fn a_segment_that_the_host_does_not_want_is_not_made() {
    let place = place();
    let store = open(Config { host: Some(SharedHost(Arc::new(Refuses))), ..small(place.path()) });
    let log = log_of(&store, "unwanted");
    let refused = log.append(one(&log, b"v")).expect("room").wait().expect_err("the host says no");
    assert!(matches!(&refused, AppendError::Host { reason, .. } if reason == "no such topic"), "{refused}");
    assert!(!place.path().join("unwanted-r0-s0").join("data.0").exists());
    append(&log_of(&store, "wanted"), b"v");
}

/// Wants every segment until it is told otherwise.
struct Changes(std::sync::atomic::AtomicBool);

impl Host for Changes {
    fn register(&self, segment: &SegmentId, answer: Answer<Result<(), Refusal>>) {
        let gone = self.0.load(std::sync::atomic::Ordering::Relaxed);
        let reason = format!("segment {segment} was given up");
        answer.give(if gone { Err(Refusal { reason }) } else { Ok(()) });
    }
}

#[test]
fn a_sealed_segment_that_the_host_has_given_up_is_not_rewritten() {
    let place = place();
    let host = Arc::new(Changes(false.into()));
    let store = open(Config { host: Some(SharedHost(host.clone())), ..small(place.path()) });
    let log = three_segments(&store, "cut");
    host.0.store(true, std::sync::atomic::Ordering::Relaxed);
    let refused = log.truncate_to(Offset(1)).wait();
    let reason = "segment cut-r0-s0 was given up".to_owned();
    assert_eq!(refused, Err(VerbError::Host { segment: segment(&log, 0), reason }));
    assert_eq!(append(&log, b"v").first, Offset(6), "nothing was changed");
    host.0.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(log.truncate_to(Offset(1)).wait().map(|cut| cut.end), Ok(Offset(1)));
}

#[test]
fn a_pin_that_meets_a_trim_is_refused_or_holds() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "race");
    for _ in 0..12 {
        append(&log, b"v");
        log.seal().wait().expect("sealed");
    }
    for number in 0..12 {
        let pin = std::thread::scope(|scope| {
            let pin = scope.spawn(|| log.pin(Offset(number)));
            assert_eq!(log.trim(Offset(number + 1)).wait(), Ok(Offset(number + 1)));
            pin.join().expect("no panic")
        });
        match pin {
            Ok(_pin) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
                assert!(place.path().join(format!("race-r0-s{number}")).exists(), "offset {number} is held");
            }
            Err(error) => assert!(matches!(error, VerbError::OutOfRange { .. }), "{error}"),
        }
    }
}
