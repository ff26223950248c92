//! What users of such systems have met with orphan sweeps, as far as it is decided here. Each test is named after its case.

use super::common::*;
use std::collections::HashMap;
use strandline::id::{StoreId, Uid};
use strandline_sweeper::decide::*;

#[test]
fn os_01_a_list_that_was_not_loaded_completely_decides_nothing() {
    let partial = LiveSet { complete: false, segments: 99 };
    assert_eq!(check_authority(partial, 100), Err(Skipped::AuthorityPartial));
    assert_eq!(check_authority(LiveSet { complete: true, ..partial }, 100), Ok(()));
}

#[test]
fn os_02_a_directory_needs_two_sightings_its_age_and_to_be_the_same_one() {
    let id = segment_id("t", 0, 1);
    let sweep = Sweep::default();
    let mut made = live_directory(&id);
    made.ctime_ms = NOW - AGE_MIN_MS + 1;
    assert_eq!(sweep.candidates(std::slice::from_ref(&made), NOW).young, 1, "it may be in the making");
    let pass = |entry: &Entry, sightings: &Sightings, now_ms| {
        let unexplained = sweep.explained(std::slice::from_ref(entry), now_ms).unexplained;
        review(&unexplained, sightings, &sweep.attempts, &deleting(2, 50))
    };
    let first = pass(&made, &Sightings::default(), NOW + 1);
    assert_eq!(first.held[0].to_string(), "t-r0-s1: unexplained in 1 of 2 passes");
    let mut other = made.clone();
    other.ctime_ms += 1;
    let changed = pass(&other, &first.sightings, NOW + 300_000);
    assert_eq!(ready_names(&changed), [""; 0], "it is not the directory that was seen first");
    let second = pass(&made, &first.sightings, NOW + 300_000);
    assert_eq!(second.ready[0].to_string(), "t-r0-s1: unexplained in 2 passes, 899999 ms old, data of t-r0-s1");
}

#[test]
fn os_04_a_directory_without_identity_is_reported_and_never_a_candidate() {
    let id = segment_id("t", 0, 1);
    let mut header = header(&id);
    header.segment = segment_id("t", 0, 2);
    let copied = Evidence::Live { header: header.clone(), opened_at_ms: NOW - DAY };
    let foreign = Header { store: StoreId(8), ..super::common::header(&id) };
    let reused = Header { uid: Uid(33), ..super::common::header(&id) };
    let live_uids = HashMap::from([(Uid(33), segment_id("u", 0, 0))]);
    let sweep = Sweep { live_uids, ..Sweep::default() };
    for (evidence, words) in [
        (Evidence::NoHeader, "without a valid header"),
        (Evidence::Unread, "could not be read"),
        (copied, "belongs to the segment t-r0-s2"),
        (Evidence::Prepared(header), "belongs to the segment t-r0-s2"),
        (Evidence::Live { header: foreign.clone(), opened_at_ms: 1 }, "belongs to the store"),
        (Evidence::Spare(foreign), "belongs to the store"),
        (Evidence::Live { header: reused, opened_at_ms: 1 }, "in use for the segment u-r0-s0"),
        (Evidence::Live { header: super::common::header(&id), opened_at_ms: 0 }, "age is unknown"),
    ] {
        let found = sweep.candidates(&[directory("t-r0-s1", evidence)], NOW);
        assert_eq!(found.found, []);
        let said = found.reported[0].1.to_string();
        assert!(said.contains(words), "{said}");
    }
    for evidence in [Evidence::Empty, Evidence::AllZero, Evidence::Spare(super::common::header(&id))] {
        assert_eq!(sweep.candidates(&[directory("t-r0-s1", evidence)], NOW).found.len(), 1);
    }
}

#[test]
fn in_mode_host_a_segment_that_only_the_manifest_lists_is_a_candidate() {
    let id = segment_id("t", 0, 1);
    let live_uids = HashMap::from([(Uid(1), id.clone())]);
    let sweep = Sweep { is_host: true, live_uids, ..Sweep::default() };
    assert_eq!(sweep.candidates(&[live_directory(&id)], NOW).found.len(), 1);
}

#[test]
fn os_06_an_empty_list_beside_a_full_disk_is_refused() {
    let empty = LiveSet { complete: true, segments: 0 };
    let refused = check_authority(empty, 100).expect_err("refused");
    assert!(refused.to_string().contains("100 directories"), "{refused}");
    assert_eq!(check_authority(empty, 0), Ok(()));
}

#[test]
fn os_09_a_pass_that_does_nothing_says_why_and_leaves_the_sightings_alone() {
    assert_eq!(Mode::Off.begin(), Err(Skipped::Off));
    assert_eq!(Mode::Off.begin().expect_err("off").to_string(), "the orphan sweep is off");
    assert_eq!(Mode::default(), Mode::Report, "what nobody has configured does not delete");
    let mut guard = ClockGuard::open(Reading { wall_ms: NOW, boot_ms: 0 }, None);
    let now = guard.observe(Reading { wall_ms: NOW + DAY, boot_ms: 0 });
    let (live_uids, authority) = (HashMap::new(), Authority::Host);
    let survey = Survey { store: STORE, live_uids: &live_uids, authority, age_min_ms: 0, tracked_max: 1 };
    let hold = candidates(&[], &now, &survey, &Attempts::default()).expect_err("no age counts");
    let skipped = Skipped::from(hold);
    assert!(skipped.to_string().contains("86400000 ms ahead"), "{skipped}");
}

#[test]
fn os_10_every_name_that_a_crash_or_an_operator_leaves_is_sorted_rightly() {
    let is_ours = |name: &str| is_segment_directory(&DirectoryName::new(name));
    for name in ["t-r0-s1", "a-r0-s0-r1-s2", "x-r1-s2-r0-s0", "g2gCaAJtAAAAA2EvYmEAYQM", "-r0-s1-r0-s1"] {
        assert!(is_ours(name), "{name}");
    }
    for name in [
        "manifest",
        "spare",
        "trash",
        "strandline.format",
        "strandline.id",
        "strandline.probe",
        "lost+found",
        "backup",
        "t-r0-s1.bak",
        "t-r0-s1~",
        ".t-r0-s1.swp ",
        "t-r0-s01",
        "t-r00-s1",
        "-r0-s1",
        "t",
        "",
        ".",
        "..",
        "t-r0-s2147483648",
        "t-r-1-s0",
        "g2gCaAJtAAAAA2EvYmEAYQM=",
        "g2gCaAJtAAAAAXRhAGEB",
        "data.0",
        "torn.1",
        "000000000000000000000000000000ab",
    ] {
        assert!(!is_ours(name), "{name}");
    }
    let link = Entry { kind: Kind::Symlink, ..live_directory(&segment_id("t", 0, 1)) };
    assert_eq!(Sweep::default().candidates(&[link], NOW).directories, 0);
}

#[test]
fn the_brake_says_what_it_stopped() {
    let entries: Vec<Entry> = (0..51).map(|number| live_directory(&segment_id("t", 0, number))).collect();
    let sweep = Sweep::default();
    let limits = ReviewLimits { mass_confirmed: false, ..deleting(1, 50) };
    let look = |entries: &[Entry]| {
        review(&sweep.explained(entries, NOW).unexplained, &Sightings::default(), &sweep.attempts, &limits)
    };
    let many = look(&entries).brake.expect("51").to_string();
    assert_eq!(many, "51 directories are ready at once, more than 50: an operator must confirm");
    let share = look(&entries[..10]).brake.expect("10 of 10").to_string();
    assert_eq!(share, "10 of 10 directories are ready at once, more than a tenth: an operator must confirm");
    assert_eq!(look(&entries[..9]).brake, None);
}
