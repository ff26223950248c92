//! A pass over many orphans that is to stop: it begins with nothing more, and what was begun is ended.

use super::orphans::{DAY, Place, given_up, wait_until};
use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use strandline::{Evidence, LetGo, Removal, RootEntry, Sighted};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{ClockGuard, Mode, ReviewLimits};
use strandline_sweeper::orphans::{OrphanLimits, OrphanSweep};
use strandline_sweeper::schedule::{Schedule, Sweeper};
use strandline_sweeper::stopping::Stopping;
use strandline_sweeper::worker::{Every, Pass as _};

/// So many empty directories that no log knows.
fn make_empty(place: &Place, count: usize) {
    (0..count).for_each(|number| fs::create_dir(place.path(&format!("many-r0-s{number}"))).expect("made"));
}

#[test]
fn a_pass_whose_worker_was_stopped_begins_with_nothing_and_loses_nothing() {
    let mut place = Place::new();
    make_empty(&place, 19);
    place.orphan("gone");
    place.limits.review.mass_confirmed = true;
    place.pass();
    let stopping = Stopping::default();
    place.sweep.heed(stopping.clone());
    stopping.stop();
    let report = place.pass();
    assert!(report.stopped, "{report}");
    assert_eq!((given_up(&report), place.trash()), (vec![], vec![]));
    // Nor does it remove what waits.
    place.sweep = OrphanSweep::new(ClockGuard::open(clock::read(), None));
    place.pass();
    assert_eq!(given_up(&place.pass()).len(), 20);
    place.later_ms += 2 * DAY;
    place.sweep.heed(stopping);
    assert_eq!((place.pass().let_go.gone.len(), place.trash().len()), (0, 20));
    let stopping = Stopping::default();
    place.sweep.heed(stopping.clone());
    assert_eq!((place.pass().let_go.gone.len(), place.trash().len()), (20, 0));
    assert!(stopping.progress() > 0, "while some of it goes, a pass that takes long does not hang");
}

#[test]
fn a_stop_comes_into_force_between_two_parts_and_what_was_begun_is_ended() {
    let mut place = Place::with(|config| config.removal = Removal::Unpaced);
    make_empty(&place, 3_000);
    let store = place.store();
    let entries = store.survey_root().expect("listed").into_iter();
    let many = entries.filter(|entry| entry.name.to_string_lossy().starts_with("many-"));
    let directories = many.map(|RootEntry { name, ctime_ms, .. }| {
        (name.into_string().expect("text"), Sighted { evidence: Evidence::Empty, ctime_ms })
    });
    // Each that is asked for is answered, and no other is.
    let answers = store.give_up_directories(directories.take(2_900), 1);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!((answers.len(), place.trash().len()), (2_900, 2_900));
    // What was begun with is ended by the one that removes files, whoever waits for it.
    let asked = Cell::new(0);
    let goes_on = || asked.replace(asked.get() + 1) < 1;
    let (let_go, ended) = store.remove_held_orphans_while(u64::MAX, |_| true, goes_on);
    ended.expect("an answer");
    assert_eq!(let_go.kept, []);
    wait_until(|| place.trash().is_empty());
    wait_until(|| store.held_orphans().expect("an answer").is_empty());
    assert_eq!(store.remove_held_orphans_while(u64::MAX, |_| true, || false), (LetGo::default(), Ok(())));
    place.reopen();
    place.still_works();
}

#[test]
fn a_sweeper_that_is_dropped_ends_a_pass_over_many_orphans_early() {
    let place = Place::with(|config| config.removal = Removal::Unpaced);
    make_empty(&place, 6_000);
    let review = ReviewLimits {
        mode: Mode::Delete,
        sightings: 1,
        removals_per_pass: usize::MAX,
        tracked_max: usize::MAX,
        mass_confirmed: true,
    };
    let limits = OrphanLimits { review, age_min_ms: 0, ..OrphanLimits::default() };
    let schedule = Schedule { orphans: Every { interval: Duration::from_secs(3_600), limits }, ..Schedule::default() };
    let Place { root, store, .. } = place;
    let sweeper = Sweeper::start(Arc::new(store.expect("it is open")), schedule).expect("threads");
    let trash = root.path().join("store/trash");
    wait_until(|| fs::read_dir(&trash).is_ok_and(|mut entries| entries.next().is_some()));
    let worker = sweeper.orphans().expect("one").clone();
    drop(sweeper);
    let report = worker.health().last_report.expect("a pass");
    assert!(report.stopped && !report.given_up.is_empty(), "{report}");
    assert!(report.given_up.len() < 6_000, "all of them went before anybody looked");
    assert_eq!(report.failures, []);
    assert_eq!(fs::read_dir(&trash).expect("there").count(), report.given_up.len());
}
