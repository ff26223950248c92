//! Passes of scrubbing over a real store: damage is told with its place, an index that is damaged alone is built again, a round goes on where it was.

use super::common::*;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use strandline::id::{SegmentId, Seq};
use strandline::{ScrubAt, Store, VerbError};
use strandline_sweeper::clock;
use strandline_sweeper::decide::Reading;
use strandline_sweeper::pass::Limits;
use strandline_sweeper::schedule::{Schedule, Sweeper};
use strandline_sweeper::scrub::{ScrubLimits, ScrubReport, ScrubSweep};
use strandline_sweeper::stopping::Stopping;
use strandline_sweeper::worker::{Every, Pass as _};

const ROUND: Duration = Duration::from_secs(3_600);

fn segment(name: &str, seq: u32) -> SegmentId {
    let log = strandline::LogId { topic: topic(name), range: strandline::RangeNumber::default() };
    SegmentId { log, seq: Seq::new(seq).expect("small") }
}

/// Flips a bit of a segment's file.
fn flip(root: &Path, name: &str, seq: u32, byte: impl FnOnce(u64) -> u64) {
    let path = root.join("store").join(format!("{name}-r0-s{seq}")).join("data.0");
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).expect("the file");
    let at = byte(file.metadata().expect("its length").len());
    let mut bytes = [0];
    file.read_exact_at(&mut bytes, at).expect("read");
    file.write_all_at(&[bytes[0] ^ 1], at).expect("written");
    file.sync_all().expect("synced");
}

fn round(store: &Store, sweep: &mut ScrubSweep) -> ScrubReport {
    sweep.asked().ask();
    sweep.pass(store, clock::read(), &ScrubLimits { round: ROUND }).expect("a pass")
}

#[test]
fn a_round_tells_what_is_damaged_builds_indexes_again_and_removes_nothing() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    fill(&store, "a", 3);
    fill(&store, "b", 3);
    let sealed: usize = ["a", "b"].iter().map(|name| segments(&store, name) - 1).sum();
    let mut sweep = ScrubSweep::default();
    let whole = round(&store, &mut sweep);
    assert_eq!((whole.segments, whole.ended), (sealed, true), "{whole}");
    assert_eq!((whole.rot.len(), whole.rebuilt.len(), whole.failures.len()), (0, 0, 0), "{whole}");
    store.close().expect("a clean close");
    flip(root.path(), "a", 1, |_| 4_096 + 100);
    flip(root.path(), "b", 0, |length| length - 4_096);
    let store = Store::open(config(root.path())).expect("a store");
    let report = round(&store, &mut sweep);
    assert_eq!(report.rot.len(), 1, "{report}");
    assert_eq!((&report.rot[0].segment, report.rot[0].position.0), (&segment("a", 1), 4_096), "{report}");
    assert_eq!(report.rebuilt, [segment("b", 0)], "{report}");
    assert!(report.to_string().contains("a-r0-s1 is damaged at byte 4096"), "{report}");
    let scrubbed = store.counters().scrub;
    assert_eq!((scrubbed.segments, scrubbed.damaged, scrubbed.indexes), (sealed as u64, 1, 1));
    // What was built again is whole; what is damaged is still there, and said again.
    let again = round(&store, &mut sweep);
    assert_eq!((again.rot, again.rebuilt), (report.rot, vec![]));
    assert_eq!(["a", "b"].iter().map(|name| segments(&store, name) - 1).sum::<usize>(), sealed);
    let refused = store.scrub(&segment("nobody", 0));
    assert!(matches!(refused, Err(VerbError::NoSuchLog { .. })), "{refused:?}");
}

#[test]
fn a_round_that_was_stopped_goes_on_where_it_was_after_a_restart_and_the_next_waits_its_time() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Store::open(config(root.path())).expect("a store");
    fill(&store, "t", 5);
    let (here, limits) = (clock::read(), ScrubLimits { round: ROUND });
    let later = |ms| Reading { wall_ms: here.wall_ms + ms, boot_ms: here.boot_ms + ms };
    let mut sweep = ScrubSweep::default();
    let first = sweep.pass(&store, here, &limits).expect("a pass");
    assert_eq!((first.round_begun_ms, first.segments), (None, 0), "a new store has nothing that is old: {first}");
    let hour_ms = ROUND.as_millis() as u64;
    assert_eq!(sweep.pass(&store, later(hour_ms - 1), &limits).expect("a pass").round_begun_ms, None);
    // It is stopped when it has read some.
    let stopping = Stopping::default();
    sweep.heed(stopping.clone());
    let sealed = segments(&store, "t") - 1;
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            until("a segment was read", || store.counters().scrub.bytes > 0);
            stopping.stop();
        });
        sweep.pass(&store, later(hour_ms), &limits).expect("a pass")
    });
    assert!(stopped.stopped && !stopped.ended, "{stopped}");
    assert!(stopped.segments < sealed, "{stopped}");
    store.close().expect("a clean close");
    let store = Store::open(config(root.path())).expect("a store");
    let mut sweep = ScrubSweep::default();
    let rest = sweep.pass(&store, later(hour_ms + 5), &limits).expect("a pass");
    assert_eq!(
        (rest.round_begun_ms, rest.segments),
        (Some(later(hour_ms).wall_ms), sealed - stopped.segments),
        "{rest}"
    );
    assert!(rest.ended && store.scrub_cursor().is_some_and(|cursor| cursor.at == ScrubAt::End));
    assert_eq!(sweep.pass(&store, later(2 * hour_ms - 1), &limits).expect("a pass").round_begun_ms, None);
    assert_eq!(sweep.pass(&store, later(2 * hour_ms), &limits).expect("a pass").segments, sealed);
}

#[test]
fn a_sweeper_scrubs_by_itself_and_counts_what_it_finds() {
    let root = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Store::open(config(root.path())).expect("a store"));
    fill(&store, "t", 3);
    let every = Every { interval: ROUND, limits: ScrubLimits::default() };
    let schedule = Schedule { scrub: Some(every), ..rarely(Limits::default()) };
    let sweeper = Sweeper::start(store.clone(), schedule).expect("threads");
    sweeper.begin_scrub();
    let worker = sweeper.scrub().expect("a worker");
    until("a round", || worker.metrics().counts.rounds == 1);
    let counts = worker.metrics().counts;
    assert_eq!((counts.segments, counts.damaged, counts.failed), (segments(&store, "t") as u64 - 1, 0, 0));
    assert!(counts.bytes > 0 && counts.next_round_ms > clock::read().wall_ms && sweeper.is_well());
}
