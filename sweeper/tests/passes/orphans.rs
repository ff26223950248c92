//! Orphan passes over a real store: what nobody knows is given up and waits, and nothing that anybody knows is touched.

use super::common::{MINUTE, config, log, topic};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strandline::id::{SegmentId, Seq, Uid};
use strandline::{Config, Evidence, GivenUp, Log, LogId, OpenError, OrphanError, RangeNumber, Record, Sighted, Store};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{Brake, ClockGuard, Mode, Reading, Reported, ReviewLimits, Skipped, WhyHeld};
use strandline_sweeper::orphans::{OrphanLimits, OrphanReport, OrphanSkip, OrphanSweep};
use tempfile::TempDir;

pub const DAY: u64 = 24 * 60 * MINUTE;

fn append(log: &Log, byte: u8) {
    let mut batch = log.batch();
    batch.push(&Record { value: Some(&[byte; 1_000]), ..Record::default() }).expect("room");
    log.append(batch.build().expect("a batch")).expect("room").wait().expect("durable");
}

/// A store with one log that stays, `kept-r0-s0`.
pub struct Place {
    pub root: TempDir,
    pub store: Option<Store>,
    pub sweep: OrphanSweep,
    pub limits: OrphanLimits,
    /// By how much the clocks are ahead of the host's.
    pub later_ms: u64,
}

impl Place {
    pub fn new() -> Place {
        Place::with(|_| {})
    }

    pub fn with(set: impl FnOnce(&mut Config)) -> Place {
        let root = tempfile::tempdir().expect("a directory");
        let mut config = config(root.path());
        set(&mut config);
        let store = Store::open(config).expect("a store");
        append(&log(&store, "kept"), 1);
        let review = ReviewLimits { mode: Mode::Delete, ..ReviewLimits::default() };
        let limits = OrphanLimits { review, ..OrphanLimits::default() };
        let sweep = OrphanSweep::new(ClockGuard::open(clock::read(), None));
        Place { root, store: Some(store), sweep, limits, later_ms: 20 * MINUTE }
    }

    pub fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.root.path().join("store").join(below)
    }

    /// A directory that was a segment's of this store: given up, and then back again, as after a repair that came too late.
    pub(super) fn orphan(&self, name: &str) -> String {
        let store = self.store();
        append(&log(store, name), 7);
        let (directory, aside) = (format!("{name}-r0-s0"), self.root.path().join("aside"));
        copy(&self.path(&directory), &aside);
        store.delete_log(&topic(name), RangeNumber::default()).expect("deleted");
        let gone = || !self.path(&directory).exists() && !self.path(&format!("{name}-r0-s1")).exists();
        wait_until(gone);
        // The manifest forgets a moment later.
        wait_until(|| store.listed_segments().expect("an answer").leaving.is_empty());
        fs::rename(&aside, self.path(&directory)).expect("moved");
        directory
    }

    fn reading(&self) -> Reading {
        let Reading { wall_ms, boot_ms } = clock::read();
        Reading { wall_ms: wall_ms + self.later_ms, boot_ms: boot_ms + self.later_ms }
    }

    pub fn pass(&mut self) -> OrphanReport {
        self.try_pass().expect("a pass")
    }

    pub fn try_pass(&mut self) -> Result<OrphanReport, OrphanSkip> {
        let (at, limits) = (self.reading(), self.limits);
        let store = self.store.as_ref().expect("it is open");
        self.sweep.pass(store, at, &limits)
    }

    pub fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(Store::open(config(self.root.path())).expect("a store"));
        self.sweep = OrphanSweep::new(ClockGuard::open(clock::read(), None));
    }

    /// Changes a directory, so that it is seen: the clock of a file system goes in steps of some milliseconds.
    fn change(&self, name: &str) {
        std::thread::sleep(Duration::from_millis(30));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("changed");
    }

    pub fn trash(&self) -> Vec<String> {
        let entries =
            fs::read_dir(self.path("trash")).expect("there").map(|entry| entry.expect("an entry").file_name());
        entries.map(|name| name.into_string().expect("text")).collect()
    }

    pub fn still_works(&self) {
        append(&log(self.store(), "kept"), 2);
        let info = log(self.store(), "kept").stats().wait().expect("statistics");
        assert_eq!(info.bounds.start.0, 0, "nothing of it went");
    }
}

pub fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never came");
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("there") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

pub fn given_up(report: &OrphanReport) -> Vec<String> {
    report.given_up.iter().map(|ready| ready.candidate.name.to_string()).collect()
}

fn id(name: &str, seq: u32) -> SegmentId {
    let log = LogId { topic: topic(name), range: RangeNumber::default() };
    SegmentId { log, seq: Seq::new(seq).expect("small") }
}

#[test]
fn os_01_a_manifest_of_which_a_copy_was_damaged_says_nothing_about_orphans() {
    let mut place = Place::new();
    let orphan = place.orphan("gone");
    drop(place.store.take());
    fs::write(place.path("manifest/b"), [0; 100]).expect("damaged");
    place.reopen();
    for _ in 0..4 {
        assert_eq!(place.try_pass(), Err(OrphanSkip::Skipped(Skipped::AuthorityPartial)));
    }
    assert!(place.path(&orphan).exists());
    // The copy was made again: the next life has two that agree.
    place.reopen();
    place.pass();
    assert_eq!(given_up(&place.pass()), [orphan]);
}

#[test]
fn os_02_what_is_made_between_two_sightings_is_known_and_what_changes_is_sighted_anew() {
    let mut place = Place::new();
    let (made, changed) = ("made-r0-s0", place.orphan("changed"));
    fs::create_dir(place.path(made)).expect("made");
    let first = place.pass();
    assert_eq!(first.held.len(), 2, "{first}");
    append(&log(place.store(), "made"), 3);
    fs::write(place.path(&changed).join("torn.1"), "x").expect("written");
    let second = place.pass();
    assert_eq!((given_up(&second), second.failures.len()), (vec![], 0), "{second}");
    assert!(matches!(second.held[0].why, WhyHeld::Sightings { seen: 1, needed: 2 }), "{second}");
    assert_eq!(given_up(&place.pass()), [changed]);
    append(&log(place.store(), "made"), 4);
    place.still_works();
}

/// It is filled as fast as its log is written, which may take days, and the manifest hears of it when it is whole.
#[test]
fn os_02_a_successor_that_is_being_made_is_no_orphan() {
    let mut place = Place::with(|config| config.segment_bytes = 64 << 20);
    let making = || place.store().listed_segments().expect("an answer").making;
    wait_until(|| making().contains(&id("kept", 1)));
    wait_until(|| place.path("kept-r0-s1").exists());
    for _ in 0..3 {
        let report = place.pass();
        assert_eq!((report.known, report.held.len(), report.failures.len()), (2, 0, 0), "{report}");
    }
    place.still_works();
}

#[test]
fn os_02_what_was_seen_is_compared_with_what_is_there_when_it_goes() {
    let place = Place::new();
    let store = place.store();
    let orphan = place.orphan("gone");
    let evidence = store.evidence_in(orphan.as_ref()).expect("there");
    let entry = |name: &str| {
        let entries = store.survey_root().expect("listed");
        entries.into_iter().find(|entry| entry.name == name).expect("there").ctime_ms
    };
    let seen = Sighted { evidence: evidence.clone(), ctime_ms: entry(&orphan) };
    let refuse = |name: &str, seen: Sighted| store.give_up_directory(name, seen, 1).expect_err("refused");
    let later = Sighted { ctime_ms: seen.ctime_ms + 1, ..seen.clone() };
    assert!(matches!(refuse(&orphan, later), OrphanError::Changed { .. }));
    let empty = Sighted { evidence: Evidence::Empty, ..seen.clone() };
    assert!(matches!(refuse(&orphan, empty), OrphanError::Changed { .. }));
    let live = Sighted { evidence, ctime_ms: entry("kept-r0-s0") };
    let known = OrphanError::Known { name: "kept-r0-s0".to_owned(), segment: id("kept", 0) };
    assert_eq!(refuse("kept-r0-s0", live), known);
    assert!(matches!(refuse("trash", seen.clone()), OrphanError::Foreign { .. }));
    assert!(matches!(refuse("t-r0-s01", seen.clone()), OrphanError::Foreign { .. }));
    // A copy of a live segment under a name that nobody knows.
    copy(&place.path("kept-r0-s0"), &place.path("kept-r7-s0"));
    let copied = store.evidence_in("kept-r7-s0".as_ref()).expect("there");
    let copied = Sighted { evidence: copied, ctime_ms: entry("kept-r7-s0") };
    assert!(matches!(refuse("kept-r7-s0", copied), OrphanError::Foreign { .. }));
    assert_eq!(place.trash(), [""; 0]);
    assert!(matches!(store.give_up_directory(&orphan, seen, 1), Ok(GivenUp::Held(_))));
}

#[test]
fn os_04_data_without_a_valid_header_is_reported_and_never_removed() {
    let mut place = Place::new();
    fs::create_dir(place.path("odd-r0-s0")).expect("made");
    fs::write(place.path("odd-r0-s0/data.0"), [9; 5_000]).expect("written");
    let rotten = place.orphan("rotten");
    let mut bytes = fs::read(place.path(&rotten).join("data.0")).expect("read");
    bytes[100] ^= 1;
    fs::write(place.path(&rotten).join("data.0"), bytes).expect("written");
    for _ in 0..4 {
        let report = place.pass();
        assert_eq!(given_up(&report), [""; 0]);
        let reported: Vec<_> = report.reported.iter().map(|(name, why)| (name.to_string(), why.clone())).collect();
        let no_header = |name: &str| (name.to_owned(), Reported::NoHeader);
        assert_eq!(reported, [no_header("odd-r0-s0"), no_header(&rotten)]);
    }
    assert!(place.path("odd-r0-s0/data.0").exists() && place.path(&rotten).exists());
}

#[test]
fn os_05_an_orphan_waits_in_the_trash_can_be_taken_back_and_goes_when_its_hold_is_over() {
    let mut place = Place::new();
    let orphan = place.orphan("gone");
    let bytes = fs::read(place.path(&orphan).join("data.0")).expect("read");
    assert_eq!(given_up(&place.pass()), [""; 0], "one sighting is not enough");
    assert_eq!(given_up(&place.pass()), [orphan.as_str()]);
    let held = place.store().held_orphans().expect("an answer");
    let [waiting] = &held[..] else { panic!("{held:?}") };
    assert_eq!((waiting.name.as_str(), waiting.bytes), (orphan.as_str(), Some(bytes.len() as u64)));
    assert!(waiting.since_ms > 0 && waiting.until_ms >= place.reading().wall_ms + DAY - MINUTE);
    assert!(!place.path(&orphan).exists());

    // Its name is free: whoever has it keeps it, and the orphan waits on.
    fs::create_dir(place.path(&orphan)).expect("made");
    let taken = OrphanError::Taken { uid: waiting.uid, name: orphan.clone() };
    assert_eq!(place.store().restore_orphan(waiting.uid), Err(taken));
    fs::remove_dir(place.path(&orphan)).expect("removed");
    assert_eq!(place.store().restore_orphan(waiting.uid), Ok(orphan.clone()));
    assert!(fs::read(place.path(&orphan).join("data.0")).expect("read") == bytes);
    assert_eq!(place.store().restore_orphan(waiting.uid), Err(OrphanError::NotHeld { uid: waiting.uid }));
    assert_eq!(place.store().held_orphans(), Ok(vec![]));

    place.pass();
    assert_eq!(given_up(&place.pass()), [orphan]);
    place.later_ms += DAY - 2 * MINUTE;
    assert_eq!(place.pass().let_go.gone, [], "its hold is not over");
    place.reopen();
    place.sweep = OrphanSweep::new(ClockGuard::open(clock::read(), None));
    assert_eq!(place.trash().len(), 1, "opening ends no hold");
    place.later_ms += 4 * MINUTE;
    assert_eq!(place.pass().let_go.gone, [waiting.uid]);
    assert_eq!(place.trash(), [""; 0]);
    assert_eq!(place.store().held_orphans(), Ok(vec![]));
    place.still_works();
}

#[test]
fn os_06_an_empty_list_beside_directories_stops_the_sweep() {
    let mut place = Place::new();
    let orphan = place.orphan("gone");
    place.store().delete_log(&topic("kept"), RangeNumber::default()).expect("deleted");
    wait_until(|| !place.path("kept-r0-s0").exists() && !place.path("kept-r0-s1").exists());
    for _ in 0..3 {
        let skip = OrphanSkip::Skipped(Skipped::AuthorityEmpty { directories: 1 });
        assert_eq!(place.try_pass(), Err(skip));
    }
    assert!(place.path(&orphan).exists());
}

#[test]
fn os_07_a_root_whose_data_the_manifest_does_not_know_is_refused_and_nothing_of_another_store_is_removed() {
    let other = Place::new();
    let place = Place::with(|_| {});
    let Place { root, .. } = place;
    let inside = root.path().join("store");
    drop(other.store);
    fs::remove_dir_all(&inside).expect("removed");
    let fresh = Store::open(config(root.path())).expect("a new store");
    fresh.close().expect("closed");
    copy(&other.root.path().join("store/kept-r0-s0"), &inside.join("kept-r0-s0"));
    let error = Store::open(config(root.path())).expect_err("the manifest knows none of it");
    let OpenError::UnknownData { directory, of, store, .. } = &error else { panic!("{error}") };
    assert_eq!(directory, "kept-r0-s0");
    assert_ne!(of, store);
    assert!(error.to_string().contains("adopt_unknown"), "{error}");

    let mut adopting = config(root.path());
    adopting.adopt_unknown = true;
    let store = Store::open(adopting).expect("told to");
    assert_eq!(store.report().strays, ["kept-r0-s0"]);
    append(&log(&store, "ours"), 1);
    let mut sweep = OrphanSweep::new(ClockGuard::open(clock::read(), None));
    let review = ReviewLimits { mode: Mode::Delete, ..ReviewLimits::default() };
    let limits = OrphanLimits { review, ..OrphanLimits::default() };
    for _ in 0..3 {
        let Reading { wall_ms, boot_ms } = clock::read();
        let at = Reading { wall_ms: wall_ms + 20 * MINUTE, boot_ms: boot_ms + 20 * MINUTE };
        let report = sweep.pass(&store, at, &limits).expect("a pass");
        assert!(matches!(report.reported[..], [(_, Reported::AnotherStore(_))]), "{report}");
    }
    assert!(inside.join("kept-r0-s0/data.0").exists());
    drop(store);
    // Known by then: the override is not needed any more.
    Store::open(config(root.path())).expect("it knows some of what is there");
    // A marker of another identity.
    let mark = fs::read(other.root.path().join("store/strandline.id")).expect("read");
    fs::write(inside.join("strandline.id"), mark).expect("written");
    let error = Store::open(config(root.path())).expect_err("another identity");
    assert!(matches!(error, OpenError::Identity { .. }), "{error}");
}

#[test]
fn os_10_what_a_crash_may_leave_goes_and_what_is_no_segments_stays() {
    let mut place = Place::new();
    let live = place.orphan("live");
    for empty in ["empty-r0-s0", "zero-r0-s3"] {
        fs::create_dir(place.path(empty)).expect("made");
    }
    fs::write(place.path("zero-r0-s3/data.0"), vec![0; 64 << 10]).expect("written");
    let stay = ["backup", "lost+found", "t-r0-s01", "-r0-s1"];
    for name in stay {
        fs::create_dir(place.path(name)).expect("made");
    }
    fs::write(place.path("file-r0-s0"), "x").expect("written");
    std::os::unix::fs::symlink("/", place.path("link-r0-s0")).expect("linked");
    fs::create_dir(place.path("nested-r0-s0")).expect("made");
    fs::create_dir(place.path("nested-r0-s0/data.0")).expect("made");
    place.pass();
    let report = place.pass();
    assert_eq!(given_up(&report), ["empty-r0-s0", &live, "zero-r0-s3"], "{report}");
    assert_eq!(report.counts()["given_up"], 3);
    for name in stay.into_iter().chain(["file-r0-s0", "link-r0-s0", "nested-r0-s0"]) {
        assert!(fs::symlink_metadata(place.path(name)).is_ok(), "{name}");
    }
    place.later_ms += 2 * DAY;
    assert_eq!(place.pass().let_go.gone.len(), 3);
    place.still_works();
}

#[test]
fn os_11_a_directory_that_is_gone_when_it_is_to_go_is_no_error() {
    let place = Place::new();
    let seen = Sighted { evidence: Evidence::Empty, ctime_ms: 1 };
    assert_eq!(place.store().give_up_directory("gone-r0-s0", seen, 1), Ok(GivenUp::Absent));
    assert_eq!(place.store().held_orphans(), Ok(vec![]));
}

#[test]
fn os_13_report_and_off_remove_nothing() {
    let mut place = Place::new();
    let orphan = place.orphan("gone");
    place.limits.review.mode = Mode::Report;
    for _ in 0..3 {
        assert_eq!(given_up(&place.pass()), [""; 0]);
    }
    let report = place.pass();
    assert_eq!(report.held[0].why, WhyHeld::ReportOnly);
    place.limits.review.mode = Mode::Off;
    assert_eq!(place.try_pass(), Err(OrphanSkip::Skipped(Skipped::Off)));
    assert!(place.path(&orphan).exists());
}

#[test]
fn os_17_after_a_restart_every_directory_is_live_spare_waiting_or_a_stray() {
    let mut place = Place::new();
    let orphan = place.orphan("gone");
    place.pass();
    place.pass();
    let stray = place.orphan("stray");
    place.reopen();
    assert_eq!(place.store().report().strays, [stray]);
    let held = place.store().held_orphans().expect("an answer");
    assert_eq!(held.iter().map(|held| held.name.clone()).collect::<Vec<_>>(), [orphan]);
    assert_eq!(place.trash(), [held[0].uid.to_string()]);
    // What an operator put there is nobody's: it is named, and stays.
    fs::create_dir(place.path("trash/notes")).expect("made");
    place.reopen();
    assert!(place.store().report().strays.contains(&"trash/notes".to_owned()));
    place.later_ms += 2 * DAY;
    place.pass();
    assert_eq!(place.trash(), ["notes"]);
}

#[test]
fn an_older_file_beside_one_that_is_in_use_keeps_its_directory() {
    let mut place = Place::new();
    let store = place.store();
    let orphan = place.orphan("mixed");
    // A hand put a file of a live segment beside it; the orphan's own is what the directory says.
    let mine = place.path(&orphan).join("data.0");
    let mut header = strandline::format::segment::SegmentHeader::decode(&fs::read(&mine).expect("read")).expect("good");
    header.generation = strandline::id::Generation(1);
    fs::write(place.path(&orphan).join("data.1"), header.encode()).expect("written");
    fs::copy(place.path("kept-r0-s0/data.0"), &mine).expect("copied");
    let entries = store.survey_root().expect("listed");
    let ctime_ms = entries.into_iter().find(|entry| entry.name == *orphan).expect("there").ctime_ms;
    let seen = Sighted { evidence: store.evidence_in(orphan.as_ref()).expect("there"), ctime_ms };
    let error = store.give_up_directory(&orphan, seen, 1).expect_err("it holds a live file");
    assert!(matches!(&error, OrphanError::LiveUid { segment, .. } if *segment == id("kept", 0)), "{error}");
    place.pass();
    let report = place.pass();
    assert!(matches!(report.failures[..], [_]) && place.path(&orphan).exists(), "{report}");
    // It starves nobody.
    fs::create_dir(place.path("next-r0-s0")).expect("made");
    place.pass();
    assert_eq!(given_up(&place.pass()), ["next-r0-s0"]);
}

#[test]
fn many_at_once_pull_the_brake_and_nothing_goes_until_an_operator_has_looked() {
    let mut place = Place::new();
    for number in 0..12 {
        fs::create_dir(place.path(&format!("t-r0-s{number}"))).expect("made");
    }
    place.pass();
    let braked = place.pass();
    assert!(matches!(braked.brake, Some(Brake::Share { ready: 12, .. })), "{braked}");
    assert_eq!((given_up(&braked).len(), braked.counts()["held_brake"]), (0, 12));
    place.limits.review.mass_confirmed = true;
    place.limits.review.removals_per_pass = 5;
    let report = place.pass();
    assert_eq!((given_up(&report).len(), report.budget_spent), (5, true));
    assert_eq!(given_up(&place.pass()).len(), 5);
    let last = place.pass();
    assert_eq!((given_up(&last).len(), last.budget_spent), (2, false));
    assert_eq!(place.trash().len(), 12);
}

/// Who has read an old report confirms nothing that has changed before a later one.
#[test]
fn what_changed_between_the_report_that_was_read_and_the_last_one_is_not_confirmed() {
    let mut place = Place::new();
    let make = |place: &Place, numbers: std::ops::Range<u32>| {
        numbers.for_each(|number| fs::create_dir(place.path(&format!("t-r0-s{number}"))).expect("made"));
    };
    make(&place, 0..12);
    place.pass();
    let read = place.pass();
    assert_eq!(read.braked().count(), 12, "{read}");
    place.change("t-r0-s3");
    make(&place, 100..112);
    (0..3).for_each(|_| assert!(place.pass().brake.is_some()));
    place.sweep.confirmed().add(read.braked());
    let report = place.pass();
    assert_eq!(given_up(&report).len(), 11, "{report}");
    assert!(place.path("t-r0-s3").exists());
}

/// A confirmation is of what an operator saw, and of nothing that came since.
#[test]
fn what_an_operator_confirms_goes_and_what_came_since_or_changed_pulls_the_brake_again() {
    let mut place = Place::new();
    let make = |place: &Place, numbers: std::ops::Range<u32>| {
        numbers.for_each(|number| fs::create_dir(place.path(&format!("t-r0-s{number}"))).expect("made"));
    };
    make(&place, 100..112);
    place.pass();
    let braked = place.pass();
    assert_eq!(braked.braked().count(), 12, "{braked}");
    place.sweep.confirmed().add(braked.braked());
    place.change("t-r0-s100");
    make(&place, 200..212);
    let report = place.pass();
    assert_eq!(given_up(&report).len(), 11, "{report}");
    assert!(!given_up(&report).contains(&"t-r0-s100".to_owned()), "{report}");
    for _ in 0..3 {
        let braked = place.pass();
        assert!(matches!(braked.brake, Some(Brake::Share { ready: 13, .. })), "{braked}");
        assert!(given_up(&braked).is_empty(), "{braked}");
    }
    assert_eq!(place.trash().len(), 11);
}

#[test]
fn a_clock_that_jumped_ends_no_hold_and_ages_no_orphan() {
    let mut place = Place::new();
    place.orphan("gone");
    place.pass();
    place.pass();
    let Reading { wall_ms, boot_ms } = place.reading();
    let jumped = Reading { wall_ms: wall_ms + 3 * DAY, boot_ms };
    let limits = place.limits;
    let skip = place.sweep.pass(place.store.as_ref().expect("open"), jumped, &limits).expect_err("held");
    assert!(matches!(skip, OrphanSkip::Skipped(Skipped::ClockHeld(_))), "{skip}");
    assert_eq!(place.trash().len(), 1);
}

#[test]
fn a_second_directory_of_a_uid_that_waits_is_a_copy_and_stays() {
    let place = Place::new();
    let store = place.store();
    let orphan = place.orphan("gone");
    copy(&place.path(&orphan), &place.root.path().join("copy"));
    let seen = |name: &str| {
        let entries = store.survey_root().expect("listed");
        let ctime_ms = entries.into_iter().find(|entry| entry.name == name).expect("there").ctime_ms;
        Sighted { evidence: store.evidence_in(name.as_ref()).expect("there"), ctime_ms }
    };
    let held = store.give_up_directory(&orphan, seen(&orphan), 5).expect("given up");
    let GivenUp::Held(uid) = held else { panic!("{held:?}") };
    fs::rename(place.root.path().join("copy"), place.path(&orphan)).expect("moved");
    let copy = OrphanError::Copy { name: orphan.clone(), uid };
    assert_eq!(store.give_up_directory(&orphan, seen(&orphan), 5), Err(copy));
    assert_eq!(store.restore_orphan(uid), Err(OrphanError::Taken { uid, name: orphan }));
    assert_ne!(uid, Uid(0));
}
