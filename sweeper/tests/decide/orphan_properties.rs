//! Section 4 of the rules, sentence by sentence: what is a candidate, what is explained, what is ready, and what never is.

use super::common::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use strandline::id::{Generation, SegmentId, StoreId, Uid};
use strandline::layout::{RESERVED, candidate_ids, directory_name};
use strandline_sweeper::decide::*;

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let header = || {
        let store = prop_oneof![4 => Just(STORE), 1 => Just(StoreId(8))];
        (store, 1..4_u128, any_id()).prop_map(|(store, uid, segment)| Header {
            store,
            uid: Uid(uid),
            segment,
            generation: Generation::default(),
        })
    };
    prop_oneof![
        Just(Evidence::Empty),
        Just(Evidence::AllZero),
        Just(Evidence::NoHeader),
        Just(Evidence::Unread),
        header().prop_map(Evidence::Spare),
        header().prop_map(Evidence::Prepared),
        (header(), edgy()).prop_map(|(header, opened_at_ms)| Evidence::Live { header, opened_at_ms }),
    ]
}

/// Any entry below a root; most headers say what the name says.
fn any_entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![6 => Just(Kind::Directory), 1 => Just(Kind::Symlink), 1 => Just(Kind::Other)];
    let time = prop_oneof![Just(NOW - DAY), Just(NOW - DAY), edgy()];
    (any_name(), kind, any_evidence(), time, 0..4_u8).prop_map(|(name, kind, mut evidence, ctime_ms, fit)| {
        let own = candidate_ids(&name).pop();
        if let (1.., Some(own), Evidence::Live { header, .. } | Evidence::Prepared(header)) = (fit, own, &mut evidence)
        {
            *header = Header { store: STORE, uid: Uid(9), segment: own, generation: Generation::default() };
        }
        Entry { name: DirectoryName::new(name), kind, evidence, ctime_ms }
    })
}

fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec(any_entry(), 0..25).prop_map(|entries| {
        let by_name: BTreeMap<_, _> = entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        by_name.into_values().collect()
    })
}

/// Of these directories the authority knows some segments, and some that are not there.
fn known_of(entries: &[Entry], which: &[bool]) -> HashSet<SegmentId> {
    let readings = entries.iter().flat_map(|entry| candidate_ids(entry.name.as_bytes()));
    readings.zip(which.iter().cycle()).filter(|(_, known)| **known).map(|(id, _)| id).collect()
}

proptest! {
    #[test]
    fn every_id_reads_back_from_its_own_directory_name(id in any_id()) {
        let name = directory_name(&id);
        prop_assert_eq!(candidate_ids(name.as_str()), [id]);
        prop_assert!(is_segment_directory(&DirectoryName::new(name.as_str())));
    }

    #[test]
    fn a_name_that_the_layout_could_not_have_written_is_never_a_segment_directory(name in any_name()) {
        let readings = candidate_ids(&name);
        prop_assert!(readings.iter().all(|id| directory_name(id).as_str().as_bytes() == name));
        let is_reserved = RESERVED.iter().any(|reserved| reserved.as_bytes() == name);
        let is_segment = !readings.is_empty() && !is_reserved;
        prop_assert_eq!(is_segment_directory(&DirectoryName::new(&name)), is_segment);
    }

    #[test]
    fn a_candidate_is_always_an_old_directory_of_a_segment_that_nothing_speaks_for(
        entries in any_entries(), which in prop::collection::vec(any::<bool>(), 1..5), is_host in any::<bool>(),
    ) {
        let sweep = Sweep { known: known_of(&entries, &which), is_host, ..Sweep::default() };
        let found = sweep.candidates(&entries, NOW);
        for candidate in &found.found {
            let entry = entries.iter().find(|entry| entry.name == candidate.name).expect("there");
            prop_assert_eq!(entry.kind, Kind::Directory);
            prop_assert!(!candidate.readings.is_empty());
            prop_assert!(entry.ctime_ms > 0 && NOW.saturating_sub(entry.ctime_ms) >= AGE_MIN_MS);
            prop_assert!(is_host || !candidate.readings.iter().any(|id| sweep.known.contains(id)));
            match &entry.evidence {
                Evidence::NoHeader | Evidence::Unread => prop_assert!(false, "{}", entry.evidence),
                Evidence::Live { header, opened_at_ms } => {
                    prop_assert!(*opened_at_ms > 0 && NOW.saturating_sub(*opened_at_ms) >= AGE_MIN_MS);
                    prop_assert!(candidate.readings.contains(&header.segment));
                    prop_assert_eq!(header.store, STORE);
                }
                Evidence::Prepared(header) => prop_assert!(candidate.readings.contains(&header.segment)),
                Evidence::Spare(header) => prop_assert_eq!(header.store, STORE),
                Evidence::Empty | Evidence::AllZero => {}
            }
        }
        let said = found.found.len() + found.left_out + found.reported.len() + found.known + found.young;
        prop_assert_eq!(said, found.directories, "each directory of a segment is accounted for");
        let key = |candidate: &Candidate| (u64::MAX - candidate.age_ms, candidate.name.clone());
        prop_assert!(found.found.is_sorted_by_key(key), "oldest first, ties by name");
    }

    #[test]
    fn live_directories_never_use_up_the_cap(live in 0..40_u32, orphans in 0..10_u32, tracked_max in 1..5_usize) {
        let ids: Vec<SegmentId> = (0..live + orphans).map(|number| segment_id("t", 0, number)).collect();
        let entries: Vec<Entry> = ids.iter().map(live_directory).collect();
        let known = ids[..live as usize].iter().cloned().collect();
        let sweep = Sweep { known, tracked_max, ..Sweep::default() };
        let found = sweep.candidates(&entries, NOW);
        prop_assert_eq!(found.known, live as usize);
        prop_assert_eq!(found.found.len(), tracked_max.min(orphans as usize));
        prop_assert_eq!(found.found.len() + found.left_out, orphans as usize);

        // In mode host all are asked about, and the cap counts what is unexplained.
        let sweep = Sweep { is_host: true, ..sweep };
        let explained = sweep.explained(&entries, NOW);
        prop_assert_eq!(explained.known.len(), live as usize);
        let limits = ReviewLimits { tracked_max, ..deleting(2, 50) };
        let reviewed = review(&explained.unexplained, &Sightings::default(), &sweep.attempts, &limits);
        prop_assert_eq!(reviewed.sightings.len(), tracked_max.min(orphans as usize));
        prop_assert_eq!(reviewed.sightings.len() + reviewed.left_out, orphans as usize);
    }

    #[test]
    fn every_reading_of_every_name_is_asked_about_exactly_once(entries in any_entries(), ids_max in 0..7_usize) {
        let found = Sweep { is_host: true, ..Sweep::default() }.candidates(&entries, NOW);
        let inquiry = Inquiry::new(&found);
        let asked: Vec<SegmentId> = inquiry.pages(ids_max).flatten().cloned().collect();
        let once: BTreeSet<&SegmentId> = asked.iter().collect();
        prop_assert_eq!(once.len(), asked.len());
        let readings: BTreeSet<&SegmentId> = found.found.iter().flat_map(|candidate| &candidate.readings).collect();
        prop_assert_eq!(once, readings);
        prop_assert!(inquiry.pages(ids_max).all(|page| page.len() <= ids_max.max(1)));
    }

    #[test]
    fn an_error_or_a_partial_answer_always_aborts(
        entries in any_entries(), fails in any::<bool>(), missing in any::<prop::sample::Index>(),
    ) {
        let found = Sweep { is_host: true, ..Sweep::default() }.candidates(&entries, NOW);
        let inquiry = Inquiry::new(&found);
        let ids: Vec<SegmentId> = inquiry.pages(100).flatten().cloned().collect();
        prop_assume!(!ids.is_empty());
        let mut answers = Answers::default();
        let skip = missing.index(ids.len());
        for (at, id) in ids.iter().enumerate() {
            if fails || at != skip {
                answers.take(Ok(vec![(id.clone(), Standing::Unknown)]));
            }
        }
        if fails {
            answers.take(Err(AuthorityError { reason: "15 s went by".to_owned() }));
        }
        let aborted = explain(inquiry, &answers).expect_err("no whole answer");
        match aborted {
            Aborted::Failed(error) => prop_assert!(fails && error.to_string().contains("15 s")),
            Aborted::Partial { unanswered, first } => prop_assert!(!fails && unanswered == 1 && first == ids[skip]),
        }
    }

    #[test]
    fn a_known_reading_always_keeps_a_name_and_an_undecided_one_keeps_it_for_now(
        entries in any_entries(), standings in prop::collection::vec(0..5_usize, 1..9),
    ) {
        let all = [Standing::Unknown, Standing::Unroutable, Standing::Migrating, Standing::Misplaced, Standing::Known];
        let found = Sweep { is_host: true, ..Sweep::default() }.candidates(&entries, NOW);
        let inquiry = Inquiry::new(&found);
        let asked: Vec<SegmentId> = inquiry.pages(100).flatten().cloned().collect();
        let standing: BTreeMap<SegmentId, Standing> =
            asked.iter().cloned().zip(standings.iter().cycle().map(|at| all[*at])).collect();
        let mut answers = Answers::default();
        answers.take(Ok(standing.clone().into_iter().collect()));
        let explained = explain(inquiry, &answers).expect("answered");
        let unexplained: HashSet<&DirectoryName> = explained.unexplained.names().collect();
        for candidate in &found.found {
            let readings: Vec<Standing> = candidate.readings.iter().map(|id| standing[id]).collect();
            let is_known = readings.contains(&Standing::Known);
            let is_unknown = readings.iter().all(|standing| *standing == Standing::Unknown);
            let is_undecided = explained.undecided.iter().any(|(name, ..)| *name == candidate.name);
            prop_assert_eq!(explained.known.contains(&candidate.name), is_known);
            prop_assert_eq!(unexplained.contains(&candidate.name), is_unknown);
            prop_assert_eq!(is_undecided, !is_known && !is_unknown);
        }
    }

    #[test]
    fn of_two_answers_the_one_that_keeps_the_directory_always_counts(order in any::<bool>()) {
        let entries = [live_directory(&segment_id("t", 0, 1))];
        let inquiry = Inquiry::new(&Sweep { is_host: true, ..Sweep::default() }.candidates(&entries, NOW));
        let mut answers = Answers::default();
        for standing in if order { [Standing::Known, Standing::Unknown] } else { [Standing::Unknown, Standing::Known] } {
            answers.take(Ok(vec![(segment_id("t", 0, 1), standing)]));
        }
        prop_assert_eq!(explain(inquiry, &answers).expect("answered").known.len(), 1);
    }

    /// Passes in which a directory is there, known, or skipped, against a count kept by hand.
    #[test]
    fn a_name_is_ready_exactly_after_consecutive_unexplained_passes(
        passes in prop::collection::vec(0..4_u8, 1..20), needed in 0..4_u32,
    ) {
        let id = segment_id("x-r1-s2", 0, 1);
        let (mut sightings, mut count) = (Sightings::default(), 0);
        for pass in passes {
            let (entries, known) = match pass {
                0 => (vec![live_directory(&id)], vec![id.clone()]),
                1 => (vec![], vec![]),
                2 => continue,
                _ => (vec![live_directory(&id)], vec![]),
            };
            count = if pass == 3 { count + 1 } else { 0 };
            let sweep = Sweep { known: known.into_iter().collect(), is_host: true, ..Sweep::default() };
            let reviewed =
                review(&sweep.explained(&entries, NOW).unexplained, &sightings, &sweep.attempts, &deleting(needed, 9));
            prop_assert_eq!(!reviewed.ready.is_empty(), count > 0 && count >= needed);
            sightings = reviewed.sightings;
        }
    }

    #[test]
    fn a_pass_takes_at_most_its_cap_in_the_order_of_names_and_holds_the_rest(
        entries in any_entries(), removals_per_pass in 0..6_usize, mode in 0..3_usize,
    ) {
        let sweep = Sweep { is_host: true, ..Sweep::default() };
        let unexplained = sweep.explained(&entries, NOW).unexplained;
        let mode = [Mode::Delete, Mode::Report, Mode::Off][mode];
        let limits = ReviewLimits { mode, ..deleting(1, removals_per_pass) };
        let reviewed = review(&unexplained, &Sightings::default(), &sweep.attempts, &limits);
        let mut names: Vec<&DirectoryName> = unexplained.names().collect();
        names.sort();
        let ready: Vec<&DirectoryName> = reviewed.ready.iter().map(|ready| &ready.candidate.name).collect();
        match mode {
            Mode::Delete => prop_assert_eq!(&ready[..], &names[..names.len().min(removals_per_pass)]),
            Mode::Report | Mode::Off => prop_assert_eq!(ready.len(), 0),
        }
        prop_assert_eq!(reviewed.ready.len() + reviewed.held.len(), names.len());
        prop_assert!(reviewed.held.iter().all(|held| !held.to_string().is_empty()));
    }

    #[test]
    fn reaching_the_tracking_cap_never_causes_a_removal(
        there in prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 1..12), tracked_max in 0..7_usize,
        is_host in any::<bool>(),
    ) {
        let ids: Vec<SegmentId> = (0..6).map(|number| segment_id("t", 0, number)).collect();
        let (mut capped, mut free) = (Sightings::default(), Sightings::default());
        for pass in there {
            let entries: Vec<Entry> =
                ids.iter().zip(pass).filter(|(_, there)| *there).map(|(id, _)| live_directory(id)).collect();
            let wide = Sweep { is_host, ..Sweep::default() };
            let narrow = Sweep { is_host, tracked_max, ..Sweep::default() };
            let limits = ReviewLimits { tracked_max, ..deleting(2, 50) };
            let one = review(&narrow.explained(&entries, NOW).unexplained, &capped, &narrow.attempts, &limits);
            let other = review(&wide.explained(&entries, NOW).unexplained, &free, &wide.attempts, &deleting(2, 50));
            let without_cap = ready_names(&other);
            prop_assert!(ready_names(&one).iter().all(|name| without_cap.contains(name)));
            (capped, free) = (one.sightings, other.sightings);
        }
    }

    #[test]
    fn what_cannot_be_removed_never_starves_the_rest(stuck in 1..8_usize, free in 1..8_usize, cap in 1..4_usize, tracked_max in 1..4_usize) {
        let mut entries: Vec<Entry> =
            (0..stuck + free).map(|number| live_directory(&segment_id("t", 0, number as u32))).collect();
        // The stuck ones are the oldest and the first by name.
        let is_stuck: HashSet<DirectoryName> = entries[..stuck].iter().map(|entry| entry.name.clone()).collect();
        entries[stuck..].iter_mut().for_each(|entry| entry.ctime_ms += 1);
        let mut sweep = Sweep { tracked_max, ..Sweep::default() };
        let mut sightings = Sightings::default();
        for _ in 0..400 {
            let unexplained = sweep.explained(&entries, NOW).unexplained;
            let limits = ReviewLimits { tracked_max, ..deleting(2, cap) };
            let reviewed = review(&unexplained, &sightings, &sweep.attempts, &limits);
            for ready in reviewed.ready {
                match is_stuck.contains(&ready.candidate.name) {
                    true => sweep.attempts.failed(&ready.candidate.name),
                    false => entries.retain(|entry| entry.name != ready.candidate.name),
                }
            }
            sightings = reviewed.sightings;
        }
        prop_assert_eq!(entries.len(), stuck);
    }

    #[test]
    fn the_brake_always_stops_over_50_or_over_a_tenth_of_at_least_10(ready in 0..60_usize, others in 0..700_usize) {
        let entries: Vec<Entry> =
            (0..ready + others).map(|number| live_directory(&segment_id("t", 0, number as u32))).collect();
        let known = (ready..ready + others).map(|number| segment_id("t", 0, number as u32)).collect();
        let sweep = Sweep { known, ..Sweep::default() };
        let unexplained = sweep.explained(&entries, NOW).unexplained;
        // The cap of a pass must not hide them from the brake.
        let limits = ReviewLimits { mass_confirmed: false, ..deleting(1, 3) };
        let reviewed = review(&unexplained, &Sightings::default(), &sweep.attempts, &limits);
        let braked = ready > 50 || (ready >= 10 && ready * 10 > ready + others);
        prop_assert_eq!(reviewed.brake.is_some(), braked);
        prop_assert_eq!(reviewed.ready.len(), if braked { 0 } else { ready.min(3) });
        prop_assert_eq!(reviewed.sightings.len(), ready, "a braked pass counts its sightings");
        let confirmed = review(&unexplained, &Sightings::default(), &sweep.attempts, &deleting(1, 3));
        prop_assert_eq!(confirmed.ready.len(), ready.min(3));
    }

    /// The first of the two properties that must hold: whatever happens between the passes.
    #[test]
    fn a_directory_whose_segment_is_known_is_never_selected(
        passes in prop::collection::vec(
            (any_entries(), prop::collection::vec(any::<bool>(), 1..5), any::<bool>(), any::<bool>()), 1..5),
        needed in 0..3_u32, tracked_max in 0..30_usize,
    ) {
        let (mut sightings, mut former) = (Sightings::default(), Vec::new());
        for (entries, which, is_host, is_new) in passes {
            // Often the same directories as before, known or not.
            let entries = if is_new || former.is_empty() { entries } else { former };
            let sweep = Sweep { known: known_of(&entries, &which), is_host, tracked_max, ..Sweep::default() };
            let unexplained = sweep.explained(&entries, NOW).unexplained;
            let reviewed = review(&unexplained, &sightings, &sweep.attempts, &deleting(needed, 50));
            for ready in &reviewed.ready {
                let readings = candidate_ids(ready.candidate.name.as_bytes());
                prop_assert!(!readings.iter().any(|id| sweep.known.contains(id)), "{}", ready);
            }
            (sightings, former) = (reviewed.sightings, entries);
        }
    }
}
