//! What users of such systems have met with retention, as far as it is decided here. Each test is named after its case.

use super::common::*;
use strandline::Offset;
use strandline::policy::{Bound, Policy};
use strandline_sweeper::decide::*;

/// Runs retention and rolls every minute over one log until `until_ms`, and says when its first segment went.
fn first_gone_at(log: &mut KeptLog, from_ms: u64, until_ms: u64) -> Option<u64> {
    for now_ms in (from_ms..=until_ms).step_by(60_000) {
        let plan = plan(std::slice::from_ref(log), &Now::trusted(now_ms), &Caps::default(), Turn::default());
        if !plan.expire.is_empty() {
            return Some(now_ms);
        }
        for (id, _) in plan.roll {
            let rolled = log.segments.iter_mut().filter(|segment| segment.seq == id.seq);
            rolled.for_each(|segment| (segment.state, segment.sealed_at_ms) = (State::Sealed, Some(now_ms)));
        }
    }
    None
}

#[test]
fn rt_01_a_lost_timestamp_is_unknown_and_deletes_nothing() {
    let lost = |number| Segment { sealed_at_ms: None, opened_at_ms: None, ..sealed(number, 0) };
    let log = kept(vec![lost(0), lost(1), lost(2), active(3, NOW)], bounds(Some(1), None));
    assert_eq!(expired(&log.segments, &Now::trusted(NOW), &log.effective), []);
    let explained = explain_segment(&log, seq(0), &Now::trusted(NOW), &Schedule::default()).expect("there");
    assert_eq!(explained.fate, Fate::Stays(Stay::SealTimeUnknown));
    assert!(explained.to_string().contains("seal time is unknown"), "{explained}");
}

#[test]
fn rt_02_a_timestamp_of_zero_does_not_expire_by_age() {
    let segments = [sealed(0, 0), sealed(1, 0)];
    assert_eq!(expired(&segments, &Now::trusted(NOW), &bounds(Some(HOUR), None)), []);
    let by_size = expired(&segments, &Now::trusted(NOW), &bounds(Some(HOUR), Some(150)));
    assert_eq!(seqs(&by_size), [0], "the size rule needs no time");
}

#[test]
fn rt_03_a_seal_time_in_the_future_is_reported_with_its_segment_and_what_it_holds() {
    let years = 10 * 365 * DAY;
    let log = kept(vec![sealed(0, NOW + years), sealed(1, NOW - HOUR)], bounds(Some(60_000), None));
    let plan = plan(&[log], &Now::trusted(NOW), &Caps::default(), Turn::default());
    assert_eq!(plan.expire, []);
    assert_eq!(plan.stamps_ahead[0].0, segment_id("t", 0, 0));
    assert_eq!(plan.held[0].by, HeldBy::Behind(seq(0)));
}

#[test]
fn rt_07_the_global_value_applies_and_says_where_it_comes_from() {
    let global = Global { max_age_ms: Some(HOUR), ..Global::default() };
    let policies = Policies::from([(policy_name("inherit"), Policy::default())]);
    let inherited = effective(Some("inherit"), &policies, &global, None);
    assert_eq!(inherited.max_age_ms.to_string(), "3600000 (global)");
    let found = expired(&[sealed(0, NOW - HOUR - 1)], &Now::trusted(NOW), &inherited);
    assert_eq!(found[0].reasons.to_string(), "sealed 3600001 ms ago, more than max_age_ms 3600000 (global)");
}

#[test]
fn rt_08_the_open_segment_is_never_deleted_but_rolled_first() {
    let mut log = kept(vec![active(0, NOW - DAY)], rolling(Some(HOUR), Some(0), Some(HOUR)));
    let first = plan(std::slice::from_ref(&log), &Now::trusted(NOW), &Caps::default(), Turn::default());
    assert_eq!(first.expire, []);
    assert_eq!(first.roll[0].0, segment_id("t", 0, 0));
    log.segments = vec![sealed(0, NOW), active(1, NOW)];
    let second = plan(&[log], &Now::trusted(NOW + 1), &Caps::default(), Turn::default());
    assert_eq!(second.expire[0].segment, segment_id("t", 0, 0));
}

#[test]
fn rt_09_one_record_of_an_idle_topic_goes() {
    let mut log = kept(vec![active(0, NOW)], rolling(Some(60_000), None, Some(60_000)));
    let gone = first_gone_at(&mut log, NOW, NOW + HOUR).expect("an idle topic expires");
    assert!(gone <= NOW + 4 * 60_000, "{gone}");
}

#[test]
fn rt_10_a_segment_expires_strictly_after_its_age() {
    let at = |age: u64| expired(&[sealed(0, NOW - age)], &Now::trusted(NOW), &bounds(Some(HOUR), None)).len();
    assert_eq!([at(HOUR - 1), at(HOUR), at(HOUR + 1)], [0, 0, 1]);
}

#[test]
fn rt_11_a_log_that_breaks_every_bound_is_done_in_one_pass() {
    let segments: Vec<Segment> = (0..6).map(|number| sealed(number, NOW - HOUR + u64::from(number))).collect();
    let bounds = bounds(Some(HOUR - 3), Some(250));
    let first = seqs(&expired(&segments, &Now::trusted(NOW), &bounds));
    assert_eq!(first, [0, 1, 2, 3], "0 to 2 by age, 0 to 3 by size, which counts those as well");
    assert_eq!(expired(&segments[4..], &Now::trusted(NOW), &bounds), []);
}

#[test]
fn rt_12_a_changed_policy_applies_to_the_next_pass() {
    let mut policies = Policies::from([(policy_name("p"), Policy::default())]);
    let segments = [sealed(0, NOW - HOUR)];
    let decide = |policies: &Policies| {
        expired(&segments, &Now::trusted(NOW), &effective(Some("p"), policies, &Global::default(), None)).len()
    };
    assert_eq!(decide(&policies), 0);
    policies.insert(policy_name("p"), Policy { max_age_ms: Bound::Is(1), ..Policy::default() });
    assert_eq!(decide(&policies), 1);
}

#[test]
fn rt_14_precedence_is_the_policy_then_the_global_and_explain_says_which() {
    let policy = Policy { max_age_ms: Bound::Is(HOUR), max_bytes: Bound::Off, ..Policy::default() };
    let global = Global { max_age_ms: Some(DAY), max_bytes: Some(1), ..Global::default() };
    let effective = effective(Some("short"), &Policies::from([(policy_name("short"), policy)]), &global, None);
    let explained = explain_log(&kept(vec![], effective), &Now::trusted(NOW), &Schedule::default(), None).to_string();
    for line in ["max_age_ms 3600000 (policy)", "max_bytes off (policy)", "segment_max_age_ms 604800000 (global)"] {
        assert!(explained.lines().any(|found| found == line), "{line} in {explained}");
    }
}

#[test]
fn rt_15_a_compact_only_topic_never_loses_records_by_age_or_size() {
    let effective = bounds(Some(60_000), Some(0)).cleaned(Cleanup::Compact);
    let log = kept(vec![sealed(0, 1), sealed(1, 1)], effective);
    assert_eq!(expired(&log.segments, &Now::trusted(NOW), &log.effective), []);
    let explained = explain_log(&log, &Now::trusted(NOW), &Schedule::default(), None);
    assert_eq!(explained.segments[0].window, Window { earliest_ms: None, latest_ms: None });
    assert_eq!(explained.record_lives_at_most_ms, None);
    let both = effective.cleaned(Cleanup::CompactDelete);
    assert_eq!(expired(&log.segments, &Now::trusted(NOW), &both).len(), 2);
}

#[test]
fn rt_16_age_goes_on_over_restarts() {
    let (segments, bounds) = ([sealed(0, NOW)], bounds(Some(HOUR), None));
    let mut found = Vec::new();
    for restart in 1..=3 {
        let wall_ms = NOW + restart * HOUR / 2;
        let mut guard = ClockGuard::open(Reading { wall_ms, boot_ms: 0 }, Some(wall_ms - HOUR / 2));
        let now = guard.observe(Reading { wall_ms: wall_ms + 1, boot_ms: 1 });
        found.push(expired(&segments, &now, &bounds).len());
    }
    assert_eq!(found, [0, 1, 1]);
}

#[test]
fn rt_17_ten_thousand_segments_due_at_once_are_gone_after_as_many_passes_as_the_caps_say() {
    let segments_per_log = 100;
    let mut logs: Vec<KeptLog> = (0..100)
        .map(|number| {
            let segments = (0..segments_per_log).map(|seq| sealed(seq, 1)).collect();
            KeptLog { id: log_id(format!("t{number}"), 0), ..kept(segments, bounds(Some(1), None)) }
        })
        .collect();
    let (mut turn, mut passes) = (Turn::default(), 0);
    loop {
        let plan = plan(&logs, &Now::trusted(NOW), &Caps::default(), turn);
        (turn, passes) = (plan.turn, passes + 1);
        for planned in &plan.expire {
            let log = logs.iter_mut().find(|log| log.id == planned.segment.log).expect("there");
            log.segments.retain(|segment| segment.seq != planned.segment.seq);
        }
        let left: usize = logs.iter().map(|log| log.segments.len()).sum();
        assert_eq!(plan.backlog_bytes, left as u128 * 100);
        assert_eq!(plan.budget_spent, left > 0, "the next pass is due at once");
        if left == 0 {
            break;
        }
    }
    assert_eq!(passes, 10_000_usize.div_ceil(128));
}

#[test]
fn rt_20_a_record_lives_no_longer_than_the_formula_that_explain_prints() {
    let effective = rolling(Some(HOUR), None, Some(2 * HOUR));
    let schedule = Schedule { sweep_interval_ms: 60_000, seal_ms: 1_000 };
    let most = record_lives_at_most_ms(&effective, &schedule).expect("both bounds are set");
    assert_eq!(most, 2 * HOUR + HOUR + 2 * 60_000 + 1_000);
    for phase in [0, 1, 30_000, 59_999] {
        let mut log = kept(vec![active(0, NOW)], effective);
        let explained = explain_log(&log, &Now::trusted(NOW), &schedule, None);
        assert_eq!(explained.segments[0].window.latest_ms, Some(NOW + most));
        assert_eq!(explained.segments[0].window.earliest_ms, Some(NOW + HOUR + 1), "it may fill up at once");
        assert!(explained.to_string().contains(&format!("= {most} ms")), "{explained}");
        let gone = first_gone_at(&mut log, NOW + phase, NOW + DAY).expect("it goes");
        assert!(gone <= NOW + most, "{gone}");
    }
}

#[test]
fn rt_21_active_bytes_do_not_evict_history() {
    let full = Segment { byte_size: 1_000_000, ..active(1, NOW) };
    assert_eq!(expired(&[sealed(0, NOW), full], &Now::trusted(NOW), &bounds(None, Some(100))), []);
}

#[test]
fn rt_22_a_pin_is_a_typed_reason_with_its_bytes_and_its_bound() {
    let mut log = kept((0..4).map(|number| sealed(number, 1)).collect(), bounds(Some(HOUR), None));
    log.pins = vec![Pin { holder: "group billing".to_owned(), from: Offset(0), bytes_max: 250 }];
    let plan = plan(std::slice::from_ref(&log), &Now::trusted(NOW), &Caps::default(), Turn::default());
    let gone: Vec<u32> = plan.expire.iter().map(|planned| planned.segment.seq.get()).collect();
    assert_eq!(gone, [0, 1], "what is over the bound goes, oldest first");
    assert_eq!(plan.held[0].by, HeldBy::Pin { holder: "group billing".to_owned(), bytes: 200, bytes_max: 250 });
    let explained = explain_segment(&log, seq(2), &Now::trusted(NOW), &Schedule::default()).expect("there").to_string();
    assert!(explained.contains("pinned by group billing, who holds 200 of at most 250 bytes"), "{explained}");
}
