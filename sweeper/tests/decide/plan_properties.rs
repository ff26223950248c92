//! Carrying out: only ever a prefix, pins within their bounds, caps that no log starves behind, and `explain`, which says the same.

use super::common::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use strandline::Offset;
use strandline_sweeper::decide::*;

fn planned(log: &KeptLog, now: &Now) -> Vec<u32> {
    let plan = plan(std::slice::from_ref(log), now, &NO_CAPS, Turn::default());
    plan.expire.iter().map(|planned| planned.segment.seq.get()).collect()
}

/// Logs of which each has so many segments due.
fn backlog(due: &[usize]) -> Vec<KeptLog> {
    let log = |(number, due): (usize, &usize)| {
        let segments = (0..*due as u32).map(|seq| sealed(seq, 1)).collect();
        KeptLog { id: log_id(format!("t{number}"), 0), ..kept(segments, bounds(Some(1), None)) }
    };
    due.iter().enumerate().map(log).collect()
}

/// Runs passes until nothing is due, and gives for each what it took, by topic and seq.
fn passes(logs: &mut [KeptLog], caps: &Caps) -> Vec<Vec<(String, u32)>> {
    let (mut turn, mut taken) = (Turn::default(), Vec::new());
    loop {
        let plan = plan(logs, &Now::trusted(NOW), caps, turn);
        turn = plan.turn;
        if plan.expire.is_empty() {
            return taken;
        }
        for log in &mut *logs {
            let gone: BTreeSet<_> = plan.expire.iter().map(|planned| planned.segment.clone()).collect();
            let id = log.id.clone();
            log.segments.retain(|segment| !gone.iter().any(|gone| gone.log == id && gone.seq == segment.seq));
        }
        taken.push(plan.expire.iter().map(|one| (one.segment.log.topic.to_string(), one.segment.seq.get())).collect());
    }
}

proptest! {
    #[test]
    fn what_is_carried_out_is_always_a_prefix_and_the_rest_is_held_behind_the_first_that_stays(
        log in any_log(), now_ms in edgy(),
    ) {
        let log = KeptLog { pins: Vec::new(), ..log };
        let now = Now::trusted(now_ms);
        let due: Vec<u32> = seqs(&expired(&log.segments, &now, &log.effective));
        let all: Vec<u32> = log.segments.iter().map(|segment| segment.seq.get()).collect();
        let longest = all.iter().zip(&due).take_while(|(one, other)| one == other).count();
        prop_assert_eq!(planned(&log, &now), &all[..longest]);

        let plan = plan(std::slice::from_ref(&log), &now, &NO_CAPS, Turn::default());
        let held: Vec<u32> = plan.held.iter().map(|held| held.segment.seq.get()).collect();
        prop_assert_eq!(&held, &due[longest..]);
        for held in &plan.held {
            prop_assert_eq!(&held.by, &HeldBy::Behind(seq(all[longest])));
        }
    }

    #[test]
    fn a_pin_never_holds_more_than_its_bound_and_never_what_lies_before_it(log in any_log(), now_ms in edgy()) {
        let now = Now::trusted(now_ms);
        let plan = plan(std::slice::from_ref(&log), &now, &NO_CAPS, Turn::default());
        let segment = |id: &strandline::id::SegmentId| {
            log.segments.iter().find(|segment| segment.seq == id.seq).expect("there")
        };
        let pinned: Vec<&Held> = plan.held.iter().filter(|held| matches!(held.by, HeldBy::Pin { .. })).collect();
        let bytes: u128 = pinned.iter().map(|held| u128::from(held.byte_size)).sum();
        for held in &pinned {
            let HeldBy::Pin { holder, bytes: said, bytes_max } = &held.by else { continue };
            prop_assert_eq!(*said, bytes);
            prop_assert!(bytes <= u128::from(*bytes_max));
            let reaches = |pin: &Pin| &pin.holder == holder && segment(&held.segment).end > pin.from;
            prop_assert!(log.pins.iter().any(reaches));
        }
        // The pins take nothing else: without them exactly the pinned ones would go as well.
        let free = planned(&KeptLog { pins: Vec::new(), ..log.clone() }, &now);
        let both: Vec<u32> = planned(&log, &now).into_iter()
            .chain(pinned.iter().map(|held| held.segment.seq.get())).collect();
        prop_assert_eq!(free, both);
    }

    #[test]
    fn a_pin_within_its_bound_is_always_heeded(log in any_log(), now_ms in edgy(), from in 0..40_u64) {
        let pin = Pin { holder: "backup".to_owned(), from: Offset(from), bytes_max: u64::MAX };
        let small = log.segments.iter().map(|segment| Segment { byte_size: segment.byte_size % 1_000, ..segment.clone() });
        let log = KeptLog { segments: small.collect(), pins: vec![pin], ..log };
        for gone in planned(&log, &Now::trusted(now_ms)) {
            let gone = log.segments.iter().find(|segment| segment.seq.get() == gone).expect("there");
            prop_assert!(gone.end <= Offset(from));
        }
    }

    #[test]
    fn no_pass_is_ever_over_a_cap_and_all_that_is_due_is_taken_or_held(
        due in prop::collection::vec(0..9_usize, 0..9), segments_per_pass in 0..12_usize, segments_per_log in 0..5_usize,
    ) {
        let caps = Caps { segments_per_pass, segments_per_log };
        let logs = backlog(&due);
        let plan = plan(&logs, &Now::trusted(NOW), &caps, Turn::default());
        prop_assert!(plan.expire.len() <= segments_per_pass);
        for log in &logs {
            let taken = plan.expire.iter().filter(|planned| planned.segment.log == log.id).count();
            prop_assert!(taken <= segments_per_log);
        }
        prop_assert_eq!(plan.expire.len() + plan.held.len(), due.iter().sum::<usize>());
        prop_assert_eq!(plan.budget_spent, !plan.held.is_empty());
        prop_assert_eq!(plan.backlog_bytes, plan.held.len() as u128 * 100);
    }

    #[test]
    fn no_log_ever_starves_another(
        due in prop::collection::vec(1..30_usize, 1..20), segments_per_pass in 1..12_usize, segments_per_log in 1..5_usize,
    ) {
        let mut logs = backlog(&due);
        let taken = passes(&mut logs, &Caps { segments_per_pass, segments_per_log });
        prop_assert!(logs.iter().all(|log| log.segments.is_empty()), "a backlog converges");
        let first_round = due.len().div_ceil(segments_per_pass);
        let served: BTreeSet<&String> = taken.iter().take(first_round).flatten().map(|(topic, _)| topic).collect();
        prop_assert_eq!(served.len(), due.len(), "each log is served within {} passes", first_round);
        for number in 0..due.len() {
            let topic = format!("t{number}");
            let order: Vec<u32> = taken.iter().flatten().filter(|one| one.0 == topic).map(|one| one.1).collect();
            prop_assert!(order.is_sorted(), "the oldest of a log go first");
        }
    }

    #[test]
    fn explain_always_says_what_a_pass_does(log in any_log(), now_ms in edgy()) {
        let (now, schedule) = (Now::trusted(now_ms), Schedule::default());
        let explained = explain_log(&log, &now, &schedule, None);
        let goes = explained.segments.iter().filter(|segment| matches!(segment.fate, Fate::Expire(_)));
        let goes: Vec<u32> = goes.map(|segment| segment.segment.seq.get()).collect();
        prop_assert_eq!(goes, planned(&log, &now));
        for segment in &explained.segments {
            let alone = explain_segment(&log, segment.segment.seq, &now, &schedule);
            prop_assert_eq!(alone.as_ref(), Some(segment));
        }
    }

    #[test]
    fn no_numbers_make_a_decision_or_its_words_panic(
        log in any_log(), now_ms in edgy(), interval in edgy(), seal_ms in edgy(),
        appends_per_day in edgy(), bytes_per_day in edgy(), segment_bytes in edgy(),
    ) {
        let schedule = Schedule { sweep_interval_ms: interval, seal_ms };
        let rhythm = Rhythm { appends_per_day, bytes_per_day, segment_bytes };
        let explained = explain_log(&log, &Now::trusted(now_ms), &schedule, Some(rhythm));
        prop_assert!(!explained.to_string().is_empty());
        let plan = plan(&[log], &Now::trusted(now_ms), &Caps::default(), Turn::default());
        let words = plan.expire.iter().map(Planned::to_string).chain(plan.held.iter().map(Held::to_string));
        prop_assert!(words.into_iter().all(|words| !words.is_empty()));
    }

    /// Passes run at every instant of a small world: the window that `explain` gives before is the one in which a segment goes.
    #[test]
    fn a_segment_never_goes_outside_the_window_that_explain_gives(
        sealed_at in prop::collection::vec(1..200_u64, 1..6), age in 0..100_u64, interval in 1..40_u64, asked_at in 1..300_u64,
        phase in 0..40_u64,
    ) {
        let segments = (0..).zip(sealed_at).map(|(number, at)| sealed(number, at)).collect();
        let mut log = kept(segments, bounds(Some(age), None));
        let schedule = Schedule { sweep_interval_ms: interval, seal_ms: 0 };
        let windows = explain_log(&log, &Now::trusted(asked_at), &schedule, None).segments;
        for at in (asked_at..asked_at + 400).filter(|at| at % interval == phase % interval) {
            for gone in planned(&log, &Now::trusted(at)) {
                let window = windows[gone as usize].window;
                prop_assert!(window.earliest_ms.expect("by age") <= at);
                prop_assert!(at <= window.latest_ms.expect("by age"));
                log.segments.retain(|segment| segment.seq.get() != gone);
            }
        }
        prop_assert_eq!(log.segments, []);
    }
}

#[test]
fn what_holds_a_segment_is_named() {
    let stuck = Segment { sealed_at_ms: None, ..sealed(0, 0) };
    let log = kept(vec![stuck, sealed(1, NOW - 11)], bounds(Some(10), None));
    let plan = plan(&[log], &Now::trusted(NOW), &Caps::default(), Turn::default());
    assert_eq!(plan.expire, []);
    assert_eq!(
        plan.held[0].to_string(),
        "t-r0-s1: held behind segment 0, which stays; due: sealed 11 ms ago, more than max_age_ms 10 (global)"
    );
}

#[test]
fn a_pass_of_default_caps_takes_128_segments_and_16_of_a_log() {
    let one = plan(&backlog(&[17]), &Now::trusted(NOW), &Caps::default(), Turn::default());
    assert_eq!((one.expire.len(), one.held.len()), (16, 1));
    assert_eq!(one.held[0].by.to_string(), "over the cap of 16 segments of a log in a pass");
    let many = plan(&backlog(&[16; 9]), &Now::trusted(NOW), &Caps::default(), Turn::default());
    assert_eq!((many.expire.len(), many.held.len()), (128, 16));
    assert_eq!(many.held[0].by.to_string(), "over the cap of 128 segments in a pass");
}

#[test]
fn operators_are_warned_of_bounds_that_they_may_not_have_meant() {
    let minute = 60_000;
    let busy = Rhythm { appends_per_day: 1440, bytes_per_day: 1440, segment_bytes: 64 << 20 };
    let said = |effective: &Effective, rhythm| -> Vec<String> {
        warnings(effective, rhythm).iter().map(ToString::to_string).collect()
    };
    let found = said(&rolling(Some(7 * DAY), None, Some(minute)), Some(busy));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("near the 60000 ms between two appends"), "{found:?}");
    assert!(found[1].contains("1440 segments a day, 10080 of them kept"), "{found:?}");
    let found = said(&rolling(None, None, Some(minute)), Some(busy));
    assert!(found[1].contains("no age ever takes them"), "{found:?}");
    // Short retention clears them away, as the guide says.
    let found = warnings(&rolling(Some(5 * minute), None, Some(minute)), Some(busy));
    assert!(!found.iter().any(|warning| matches!(warning, Warning::RollNearWriteRhythm { .. })), "{found:?}");
    let found = said(&rolling(Some(HOUR), None, Some(7 * DAY)), None);
    assert!(found[0].contains("longer than max_age_ms 3600000"), "{found:?}");
    let found = said(&rolling(Some(HOUR), None, None), None);
    assert!(found[0].contains("never expires"), "{found:?}");
    let undefined = effective(Some("gone"), &Policies::new(), &Global::default(), None);
    assert!(said(&undefined, Some(busy))[0].contains("this topic holds its data"));
    assert_eq!(warnings(&rolling(Some(7 * DAY), None, Some(DAY)), Some(busy)), []);
}
