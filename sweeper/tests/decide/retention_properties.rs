//! Section 3 of the rules, sentence by sentence: what expires, what rolls, and what never does.

use super::common::*;
use proptest::prelude::*;
use strandline_sweeper::decide::*;

/// The size rule said in another way: a sealed segment goes if it and all sealed ones after it are more than the bound.
fn by_size(segments: &[Segment], max_bytes: Option<u64>) -> Vec<u32> {
    let sealed: Vec<&Segment> = segments.iter().filter(|segment| segment.state == State::Sealed).collect();
    let rest = |at: usize| sealed[at..].iter().map(|segment| u128::from(segment.byte_size)).sum::<u128>();
    let goes = |at: &usize| max_bytes.is_some_and(|bound| bound == 0 || rest(*at) > u128::from(bound));
    (0..sealed.len()).filter(goes).map(|at| sealed[at].seq.get()).collect()
}

fn by_age(segments: &[Segment], now_ms: u64, max_age_ms: Option<u64>) -> Vec<u32> {
    let goes = |segment: &&Segment| match (segment.state, segment.sealed_at_ms, max_age_ms) {
        (State::Sealed, Some(1..), Some(max_age_ms)) => {
            i128::from(now_ms) - i128::from(segment.sealed_at_ms.unwrap_or_default()) > i128::from(max_age_ms)
        }
        _ => false,
    };
    segments.iter().filter(goes).map(|segment| segment.seq.get()).collect()
}

fn without(segments: &[Segment], gone: &[u32]) -> Vec<Segment> {
    segments.iter().filter(|segment| !gone.contains(&segment.seq.get())).cloned().collect()
}

fn held() -> Now {
    let mut guard = ClockGuard::open(Reading { wall_ms: NOW, boot_ms: 0 }, None);
    guard.observe(Reading { wall_ms: NOW + DAY, boot_ms: 0 })
}

proptest! {
    #[test]
    fn exactly_the_union_of_both_rules_expires_each_with_its_reason(
        segments in any_segments(), bounds in any_bounds(), now_ms in edgy(),
    ) {
        let found = expired(&segments, &Now::trusted(now_ms), &bounds);
        let (age, size) = (by_age(&segments, now_ms, bounds.max_age_ms.value), by_size(&segments, bounds.max_bytes.value));
        let mut union: Vec<u32> = age.iter().chain(&size).copied().collect();
        union.sort_unstable();
        union.dedup();
        prop_assert_eq!(seqs(&found), union);
        for expiry in &found {
            prop_assert_eq!(expiry.reasons.age.is_some(), age.contains(&expiry.seq.get()));
            prop_assert_eq!(expiry.reasons.size.is_some(), size.contains(&expiry.seq.get()));
            prop_assert_ne!(expiry.reasons.to_string(), "no reason");
        }
    }

    #[test]
    fn a_segment_that_is_not_sealed_is_never_returned(log in any_log(), now_ms in edgy()) {
        let plan = plan(std::slice::from_ref(&log), &Now::trusted(now_ms), &NO_CAPS, Turn::default());
        for planned in plan.expire {
            let segment = log.segments.iter().find(|segment| segment.seq == planned.segment.seq).expect("there");
            prop_assert_eq!(segment.state, State::Sealed);
        }
    }

    #[test]
    fn an_unknown_seal_time_never_expires_by_age(
        mut segments in any_segments(), age in edgy(), now_ms in edgy(), zero in any::<bool>(),
    ) {
        segments.iter_mut().for_each(|segment| segment.sealed_at_ms = zero.then_some(0));
        prop_assert_eq!(expired(&segments, &Now::trusted(now_ms), &bounds(Some(age), None)), []);
    }

    #[test]
    fn bytes_that_are_not_sealed_never_count(
        segments in any_segments(), other_bytes in edgy(), bounds in any_bounds(), now_ms in edgy(),
    ) {
        let mut changed = segments.clone();
        let open = changed.iter_mut().filter(|segment| segment.state != State::Sealed);
        open.for_each(|segment| segment.byte_size = other_bytes);
        let now = Now::trusted(now_ms);
        prop_assert_eq!(expired(&segments, &now, &bounds), expired(&changed, &now, &bounds));
    }

    #[test]
    fn the_order_of_the_input_never_matters(
        segments in any_segments(), bounds in any_bounds(), now_ms in edgy(),
    ) {
        let reversed: Vec<Segment> = segments.iter().rev().cloned().collect();
        let now = Now::trusted(now_ms);
        prop_assert_eq!(expired(&segments, &now, &bounds), expired(&reversed, &now, &bounds));
    }

    #[test]
    fn a_second_pass_at_the_same_instant_removes_nothing_more(
        log in any_log(), now_ms in edgy(),
    ) {
        let now = Now::trusted(now_ms);
        let gone = seqs(&expired(&log.segments, &now, &log.effective));
        prop_assert_eq!(expired(&without(&log.segments, &gone), &now, &log.effective), []);

        // The same of what is really carried out, held segments and pins included.
        let first = plan(std::slice::from_ref(&log), &now, &NO_CAPS, Turn::default());
        let gone: Vec<u32> = first.expire.iter().map(|planned| planned.segment.seq.get()).collect();
        let left = KeptLog { segments: without(&log.segments, &gone), ..log };
        prop_assert_eq!(plan(&[left], &now, &NO_CAPS, Turn::default()).expire, []);
    }

    #[test]
    fn a_bound_of_0_bytes_takes_exactly_the_sealed_segments(segments in any_segments(), now_ms in edgy()) {
        let sealed = segments.iter().filter(|segment| segment.state == State::Sealed);
        let sealed: Vec<u32> = sealed.map(|segment| segment.seq.get()).collect();
        prop_assert_eq!(seqs(&expired(&segments, &Now::trusted(now_ms), &bounds(None, Some(0)))), sealed);
    }

    #[test]
    fn an_age_of_0_takes_exactly_what_was_sealed_before_now(segments in any_segments(), now_ms in edgy()) {
        let before = segments.iter().filter(|segment| segment.state == State::Sealed);
        let before = before.filter(|segment| matches!(segment.sealed_at_ms, Some(ms) if ms != 0 && ms < now_ms));
        let before: Vec<u32> = before.map(|segment| segment.seq.get()).collect();
        prop_assert_eq!(seqs(&expired(&segments, &Now::trusted(now_ms), &bounds(Some(0), None))), before);
    }

    #[test]
    fn while_the_clock_is_held_nothing_expires_or_rolls_by_age(segments in any_segments(), bounds in any_bounds()) {
        let found = expired(&segments, &held(), &bounds);
        prop_assert!(found.iter().all(|expiry| expiry.reasons.age.is_none()));
        prop_assert_eq!(seqs(&found), by_size(&segments, bounds.max_bytes.value));
        let due = |segment: &Segment| matches!(rolls_by_age(segment, &held(), &bounds), Roll::Due { .. });
        prop_assert!(!segments.iter().any(due));
    }

    #[test]
    fn an_undefined_policy_never_expires_or_rolls_anything_without_a_backstop(
        segments in any_segments(), age in edgy(), bytes in edgy(), now_ms in edgy(),
    ) {
        let global = Global { max_age_ms: Some(age), max_bytes: Some(bytes), segment_max_age_ms: Some(age) };
        let unresolved = effective(Some("gone"), &Policies::new(), &global, None);
        let now = Now::trusted(now_ms);
        prop_assert_eq!(expired(&segments, &now, &unresolved), []);
        prop_assert_eq!(roll_timer_ms(&unresolved), None);
        let due = segments.iter().filter(|one| matches!(rolls_by_age(one, &now, &unresolved), Roll::Due { .. }));
        prop_assert_eq!(due.count(), 0);

        let backed = effective(Some("gone"), &Policies::new(), &global, Some(age));
        prop_assert_eq!(seqs(&expired(&segments, &now, &backed)), by_age(&segments, now_ms, Some(age)));
        let due = segments.iter().filter(|one| matches!(rolls_by_age(one, &now, &backed), Roll::Due { .. }));
        prop_assert_eq!(due.count(), 0);
    }

    #[test]
    fn exactly_an_active_segment_with_data_that_has_reached_its_age_rolls(
        segments in any_segments(), bounds in any_bounds(), now_ms in edgy(),
    ) {
        for segment in &segments {
            let is_due = match (bounds.segment_max_age_ms.value, segment.opened_at_ms) {
                (Some(roll), Some(opened @ 1..)) => {
                    let has_data = segment.end > segment.base || segment.byte_size > 0;
                    let age = i128::from(now_ms) - i128::from(opened);
                    segment.state == State::Active && has_data && age >= i128::from(roll.max(60_000))
                }
                _ => false,
            };
            let roll = rolls_by_age(segment, &Now::trusted(now_ms), &bounds);
            prop_assert_eq!(matches!(roll, Roll::Due { .. }), is_due, "{}", roll);
        }
    }

    #[test]
    fn exactly_stamps_over_ten_minutes_ahead_are_reported(stamp_ms in edgy(), now_ms in edgy()) {
        let is_ahead = i128::from(stamp_ms) - i128::from(now_ms) > 600_000;
        prop_assert_eq!(stamp_ahead(stamp_ms, &Now::trusted(now_ms)).is_some(), is_ahead);
        prop_assert_eq!(stamp_ahead(stamp_ms, &Now { ms: now_ms, ..held() }), None);
    }
}

#[test]
fn a_stamp_ahead_is_reported_from_the_first_millisecond_past_ten_minutes() {
    assert_eq!(stamp_ahead(NOW + 600_000, &Now::trusted(NOW)), None);
    let ahead = stamp_ahead(NOW + 600_001, &Now::trusted(NOW)).expect("one past the limit");
    assert!(ahead.to_string().contains("600001 ms ahead"), "{ahead}");
}

#[test]
fn a_segment_rolls_at_its_age_and_not_a_millisecond_before() {
    let at = |age: u64| rolls_by_age(&active(0, NOW - age), &Now::trusted(NOW), &rolling(None, None, Some(HOUR)));
    assert_eq!(at(HOUR - 1), Roll::NotBefore { at_ms: NOW + 1 });
    assert_eq!(at(HOUR), Roll::Due { age_ms: HOUR, segment_max_age_ms: HOUR });
    let off = rolls_by_age(&active(0, 1), &Now::trusted(NOW), &rolling(Some(1), None, None));
    assert_eq!(off, Roll::Off, "off is off, whatever else is due");
}

#[test]
fn a_segment_that_was_never_written_to_never_rolls() {
    let written = active(0, NOW - DAY);
    let empty = Segment { end: written.base, byte_size: 0, ..written };
    let roll = rolls_by_age(&empty, &Now::trusted(NOW), &rolling(None, None, Some(HOUR)));
    assert_eq!(roll, Roll::Empty);
}

#[test]
fn reasons_print_their_own_numbers_and_who_set_them() {
    let found = expired(&[sealed(0, NOW - 11), sealed(1, NOW)], &Now::trusted(NOW), &bounds(Some(10), Some(150)));
    assert_eq!(
        found[0].reasons.to_string(),
        "sealed 11 ms ago, more than max_age_ms 10 (global); 200 sealed bytes from here on, more than max_bytes 150 (global)"
    );
}
