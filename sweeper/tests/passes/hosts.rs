//! A host that keeps the list of segments: what it does not know is an orphan, also where the manifest lists it, and what it cannot say
//! stops the pass.

use super::common::{config, keep_bytes, later, log, log_id};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strandline::host::Host;
use strandline::id::{SegmentId, Seq};
use strandline::pending::Answer;
use strandline::{
    Config, ForgetFailed, Forgotten, GivenUp, HostForgotten, HostStandings, Log, LookupFailed, OrphanError, Record,
    Refusal, SharedHost, Standing, Store, VerbError,
};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{Aborted, ClockGuard, Mode, Reading, ReviewLimits, Skipped};
use strandline_sweeper::orphans::{OrphanLimits, OrphanReport, OrphanSkip, OrphanSweep};
use strandline_sweeper::pass::{Limits, Sweep};
use strandline_sweeper::reply::Reply;
use strandline_sweeper::report::Report;

#[derive(Default)]
struct Says {
    known: BTreeSet<SegmentId>,
    standing: Option<Standing>,
    fails: bool,
    leaves_out: bool,
    kept: Vec<Answer<HostStandings>>,
    late: bool,
    /// What it was told to forget, call by call, and what it answers but of these.
    told: Vec<Vec<SegmentId>>,
    keeps: BTreeMap<SegmentId, Forgotten>,
    forgets: Forgets,
    unheard: Vec<Answer<HostForgotten>>,
}

/// How a host forgets.
#[derive(Clone, Copy, Default, PartialEq)]
enum Forgets {
    #[default]
    Well,
    Fails,
    Late,
    LeavesOneOut,
    NeverHeardOfIt,
}

/// A host that knows what was registered, until it is told to forget it.
#[derive(Default)]
struct Registry(Mutex<Says>);

impl Registry {
    fn says(&self) -> std::sync::MutexGuard<'_, Says> {
        self.0.lock().expect("nobody panicked")
    }
}

impl Host for Registry {
    fn register(&self, segment: &SegmentId, answer: Answer<Result<(), Refusal>>) {
        self.says().known.insert(segment.clone());
        answer.give(Ok(()));
    }

    fn lookup(&self, segments: &[SegmentId], answer: Answer<HostStandings>) {
        let mut says = self.says();
        if says.late {
            return says.kept.push(answer);
        }
        if says.fails {
            return answer.give(Err(LookupFailed { reason: "its metadata is being loaded".to_owned() }));
        }
        let other = says.standing.unwrap_or(Standing::Unknown);
        let standing = |id: &SegmentId| if says.known.contains(id) { Standing::Known } else { other };
        let skipped = usize::from(says.leaves_out && !segments.is_empty());
        answer.give(Ok(Some(segments.iter().skip(skipped).map(|id| (id.clone(), standing(id))).collect())));
    }

    fn forget(&self, segments: &[SegmentId], answer: Answer<HostForgotten>) {
        let mut says = self.says();
        says.told.push(segments.to_vec());
        match says.forgets {
            Forgets::Well | Forgets::LeavesOneOut => {}
            Forgets::Fails => return answer.give(Err(ForgetFailed { reason: "its log has no leader".to_owned() })),
            Forgets::Late => return says.unheard.push(answer),
            Forgets::NeverHeardOfIt => return answer.give(Ok(None)),
        }
        let skipped = usize::from(says.forgets == Forgets::LeavesOneOut);
        let (mut answers, mut stopped) = (Vec::new(), None);
        for segment in segments.iter().skip(skipped) {
            if stopped.as_ref() == Some(&segment.log) {
                continue; // Behind one that it keeps it keeps the rest of the log.
            }
            let forgotten = match says.keeps.get(segment).cloned() {
                Some(kept) => {
                    stopped = Some(segment.log.clone());
                    kept
                }
                None if says.known.remove(segment) => Forgotten::Ok,
                None => Forgotten::NoSuchSegment,
            };
            answers.push((segment.clone(), forgotten));
        }
        answer.give(Ok(Some(answers)));
    }
}

fn open(root: &Path, host: &Arc<Registry>) -> Store {
    let host = Some(SharedHost(host.clone()));
    Store::open(Config { host, ..config(root) }).expect("a store")
}

fn append(log: &Log) -> Result<(), strandline::AppendError> {
    let mut batch = log.batch();
    batch.push(&Record { value: Some(&[3; 1_000]), ..Record::default() }).expect("room");
    log.append(batch.build().expect("a batch")).expect("room").wait().map(drop)
}

/// A log of two sealed segments, an active one, and one that was made ahead.
fn fill(store: &Store, name: &str) {
    let log = log(store, name);
    for _ in 0..2 {
        append(&log).expect("appended");
        log.seal().wait().expect("sealed");
    }
    append(&log).expect("appended");
    let is_ahead = || store.listed_segments().expect("an answer").segments.iter().any(|(of, _)| *of == id(name, 3));
    while !is_ahead() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn id(name: &str, seq: u32) -> SegmentId {
    SegmentId { log: log_id(name), seq: Seq::new(seq).expect("small") }
}

fn limits() -> OrphanLimits {
    let review = ReviewLimits { mode: Mode::Delete, ..ReviewLimits::default() };
    OrphanLimits { review, asked_at_once: 2, ..OrphanLimits::default() }
}

fn pass(sweep: &mut OrphanSweep, store: &Store, limits: &OrphanLimits) -> Result<OrphanReport, OrphanSkip> {
    let Reading { wall_ms, boot_ms } = clock::read();
    let later = 20 * 60_000;
    sweep.pass(store, Reading { wall_ms: wall_ms + later, boot_ms: boot_ms + later }, limits)
}

fn sweep() -> OrphanSweep {
    OrphanSweep::new(ClockGuard::open(clock::read(), None))
}

fn names(report: &OrphanReport) -> Vec<String> {
    report.given_up.iter().map(|ready| ready.candidate.name.to_string()).collect()
}

#[test]
fn a_segment_that_the_host_does_not_know_waits_in_the_trash_and_an_active_one_is_fenced_first() {
    let (root, host) = (tempfile::tempdir().expect("a directory"), Arc::<Registry>::default());
    let store = open(root.path(), &host);
    fill(&store, "kept");
    fill(&store, "mine");
    let mut sweep = sweep();
    for _ in 0..3 {
        let report = pass(&mut sweep, &store, &limits()).expect("a pass");
        assert_eq!((names(&report), report.held.len()), (vec![], 0), "{report}");
    }
    host.says().known.remove(&id("mine", 0));
    assert_eq!(names(&pass(&mut sweep, &store, &limits()).expect("a pass")), [""; 0]);
    let report = pass(&mut sweep, &store, &limits()).expect("a pass");
    assert_eq!(names(&report), ["mine-r0-s0"], "{report}");
    assert_eq!(log(&store, "mine").bounds().start.0, 1, "reads never meet what is gone");
    assert!(!root.path().join("store/mine-r0-s0").exists());
    let held = store.held_orphans().expect("an answer");
    assert_eq!(held.iter().map(|held| held.name.as_str()).collect::<Vec<_>>(), ["mine-r0-s0"]);

    // All of it, the write head too: oldest first, and none is appended to any more.
    host.says().known.retain(|id| id.log.topic.as_bytes() != b"mine");
    let held = || store.held_orphans().expect("an answer").len();
    for _ in 0..500 {
        if held() == 3 {
            break; // One that is being shrunk goes a pass later.
        }
        pass(&mut sweep, &store, &limits()).expect("a pass");
        std::thread::sleep(Duration::from_millis(5));
    }
    let info = log(&store, "mine").stats().wait().expect("statistics");
    assert_eq!((info.segments.len(), info.bounds.start), (0, info.bounds.end));
    assert!(matches!(append(&log(&store, "mine")), Err(strandline::AppendError::Fenced { .. })));
    append(&log(&store, "kept")).expect("appended");
    assert_eq!(log(&store, "kept").bounds().start.0, 0);
    drop(store);
    let store = open(root.path(), &host);
    let held = store.held_orphans().expect("an answer").len();
    assert_eq!(held, 3);
    assert_eq!(log(&store, "kept").bounds().start.0, 0);
}

#[test]
fn a_host_that_fails_is_late_or_leaves_one_out_stops_the_pass() {
    let (root, host) = (tempfile::tempdir().expect("a directory"), Arc::<Registry>::default());
    let store = open(root.path(), &host);
    fill(&store, "kept");
    fill(&store, "mine");
    host.says().known.remove(&id("mine", 0));
    let mut sweep = sweep();
    let limits = OrphanLimits { deadline: Duration::from_millis(50), ..limits() };
    assert_eq!(pass(&mut sweep, &store, &limits).expect("a pass").held.len(), 1);
    let mut aborted = |set: fn(&mut Says, bool)| {
        set(&mut host.says(), true);
        let skip = pass(&mut sweep, &store, &limits).expect_err("skipped");
        set(&mut host.says(), false);
        let OrphanSkip::Skipped(Skipped::Aborted(aborted)) = skip else { panic!("{skip}") };
        aborted
    };
    let failed = aborted(|says, on| says.fails = on);
    assert!(matches!(&failed, Aborted::Failed(error) if error.reason.contains("being loaded")), "{failed}");
    let late = aborted(|says, on| says.late = on);
    assert!(matches!(&late, Aborted::Failed(error) if error.reason.contains("time was up")), "{late}");
    let partial = aborted(|says, on| says.leaves_out = on);
    assert!(matches!(partial, Aborted::Partial { .. }), "{partial}");
    // A skipped pass neither adds a sighting nor takes one.
    host.says().standing = Some(Standing::Migrating);
    let undecided = pass(&mut sweep, &store, &limits).expect("a pass");
    assert_eq!((undecided.undecided.len(), names(&undecided)), (1, vec![]), "{undecided}");
    host.says().standing = None;
    assert_eq!(names(&pass(&mut sweep, &store, &limits).expect("a pass")), [""; 0], "it starts again");
    assert_eq!(names(&pass(&mut sweep, &store, &limits).expect("a pass")), ["mine-r0-s0"]);
}

#[test]
fn a_host_that_knows_nothing_of_all_that_there_is_has_lost_its_list() {
    let (root, host) = (tempfile::tempdir().expect("a directory"), Arc::<Registry>::default());
    let store = open(root.path(), &host);
    fill(&store, "mine");
    host.says().known.clear();
    let mut sweep = sweep();
    for _ in 0..3 {
        let skip = pass(&mut sweep, &store, &limits()).expect_err("skipped");
        assert!(matches!(skip, OrphanSkip::Skipped(Skipped::AuthorityEmpty { .. })), "{skip}");
    }
    assert!(root.path().join("store/mine-r0-s0").exists());
}

#[test]
fn a_segment_that_somebody_holds_or_that_is_not_the_oldest_stays() {
    let (root, host) = (tempfile::tempdir().expect("a directory"), Arc::<Registry>::default());
    let store = open(root.path(), &host);
    fill(&store, "mine");
    let log = log(&store, "mine");
    let listed = store.listed_segments().expect("an answer");
    let uid = |seq| listed.segments.iter().find(|(segment, _)| *segment == id("mine", seq)).expect("listed").1;
    let give_up = |seq, uid| store.give_up_segment(&id("mine", seq), uid, 5);
    let refused = give_up(1, uid(1)).expect_err("there is an older one");
    assert_eq!(refused, OrphanError::Verb(VerbError::NotOldest { segment: id("mine", 1), oldest: id("mine", 0) }));
    assert!(matches!(give_up(0, uid(1)), Err(OrphanError::Changed { .. })));
    let pin = log.pin(strandline::Offset(0)).expect("a pin");
    assert_eq!(give_up(0, uid(0)), Err(OrphanError::Pinned { segment: id("mine", 0) }));
    drop(pin);
    let shrinks = |answer: &Result<_, OrphanError>| matches!(answer, Err(OrphanError::Changed { .. }));
    let given_up = std::iter::repeat_with(|| give_up(0, uid(0))).find(|answer| !shrinks(answer));
    assert_eq!(given_up, Some(Ok(GivenUp::Held(uid(0)))));
    assert_eq!(give_up(0, uid(0)), Ok(GivenUp::Absent));
    assert_eq!(append(&log), Ok(()));
}

#[test]
fn what_is_due_expires_only_where_the_host_lets_it_go_and_what_migrates_keeps_its_bytes() {
    let (root, host) = (tempfile::tempdir().expect("a directory"), Arc::<Registry>::default());
    let store = open(root.path(), &host);
    fill(&store, "kept");
    fill(&store, "mine");
    keep_bytes(&store, "mine", 0);
    keep_bytes(&store, "kept", 0);
    host.says().known.retain(|id| id.log.topic.as_bytes() != b"mine");
    let mut sweep = Sweep::new(ClockGuard::open(clock::read(), None));
    let limits = Limits { deadline: Duration::from_millis(50), dry_run: true, ..Limits::default() };
    let mut retained = |limits: &Limits| sweep.pass(&store, later(clock::read(), 1), limits).expect("a pass");
    let failed = |report: &Report| -> Vec<(String, Reply)> {
        report.failures.iter().map(|one| (one.segment.to_string(), one.reply())).collect()
    };
    let stays = |reply| vec![("mine-r0-s0".to_owned(), reply)];
    for dry_run in [true, false] {
        host.says().standing = Some(Standing::Migrating);
        let report = retained(&Limits { dry_run, ..limits });
        assert_eq!(failed(&report), stays(Reply::Migrating), "{report}");
        assert!(report.expired.iter().all(|planned| planned.segment.log == log_id("kept")), "{report}");
        assert_eq!(report.failures_by_reply().into_iter().collect::<Vec<_>>(), [(Reply::Migrating, 1)]);
        for standing in [Standing::Unroutable, Standing::Misplaced] {
            host.says().standing = Some(standing);
            assert_eq!(failed(&retained(&Limits { dry_run, ..limits })), stays(Reply::Other), "{standing}");
        }
    }
    assert_eq!(log(&store, "kept").bounds().start.0, 2, "nobody minded");
    let limits = Limits { dry_run: false, ..limits };
    let silences: [fn(&mut Says, bool); 3] =
        [|says, on| says.fails = on, |says, on| says.late = on, |says, on| says.leaves_out = on];
    for silence in silences {
        silence(&mut host.says(), true);
        assert_eq!(failed(&retained(&limits)), stays(Reply::Other));
        silence(&mut host.says(), false);
    }
    assert_eq!(log(&store, "mine").bounds().start.0, 0, "not a byte went");
    // The host has forgotten them: the pass that is to free their bytes came late.
    host.says().standing = None;
    let report = retained(&limits);
    assert_eq!((report.expired.len(), failed(&report)), (2, vec![]), "{report}");
    assert_eq!(log(&store, "mine").bounds().start.0, 2);
}

/// The control plane forgets first, durably; a crash between its step and the store's leaves what a later pass ends.
#[test]
fn the_host_forgets_what_expires_before_the_store_does_and_what_it_keeps_stays() {
    let (root, host) = (tempfile::tempdir().expect("a directory"), Arc::<Registry>::default());
    let store = open(root.path(), &host);
    for name in ["here", "mine"] {
        fill(&store, name);
        keep_bytes(&store, name, 0);
    }
    let start = |name| log(&store, name).bounds().start.0;
    let mut sweep = Sweep::new(ClockGuard::open(clock::read(), None));
    let limits = Limits { deadline: Duration::from_millis(200), ..Limits::default() };
    let mut retained = |limits: &Limits| sweep.pass(&store, later(clock::read(), 1), limits).expect("a pass");
    let failed = |report: &Report| -> Vec<(String, Reply)> {
        report.failures.iter().map(|one| (one.segment.to_string(), one.reply())).collect()
    };
    let both = |reply| vec![("here-r0-s0".to_owned(), reply), ("mine-r0-s0".to_owned(), reply)];
    assert_eq!(retained(&Limits { dry_run: true, ..limits }).expired.len(), 4);
    assert!(host.says().told.is_empty(), "a dry run has nothing forgotten");

    for forgets in [Forgets::Fails, Forgets::Late, Forgets::NeverHeardOfIt] {
        host.says().forgets = forgets;
        let report = retained(&limits);
        assert_eq!((failed(&report), report.expired.len()), (both(Reply::Other), 0), "{report}");
    }
    assert_eq!((start("here"), start("mine")), (0, 0), "not a byte went");

    let answers = [
        (Forgotten::Migrating, Reply::Migrating),
        (Forgotten::SegmentActive, Reply::SegmentActive),
        (Forgotten::Other { reason: "it is read only".to_owned() }, Reply::Other),
    ];
    host.says().forgets = Forgets::Well;
    host.says().keeps.insert(id("here", 0), Forgotten::Migrating);
    for (answer, reply) in answers {
        host.says().keeps.insert(id("mine", 0), answer);
        let report = retained(&limits);
        let expected = [("here-r0-s0", Reply::Migrating), ("mine-r0-s0", reply)];
        assert_eq!(failed(&report), expected.map(|(name, reply)| (name.to_owned(), reply)), "{report}");
        assert_eq!((report.expired.len(), start("mine")), (0, 0), "what is behind it stays too");
    }

    // It forgot both of `here` and no word of it came: the next pass needs no second one.
    host.says().keeps.clear();
    host.says().forgets = Forgets::LeavesOneOut;
    let report = retained(&limits);
    assert_eq!(failed(&report)[0], ("here-r0-s0".to_owned(), Reply::Other), "{report}");
    host.says().forgets = Forgets::Well;
    host.says().known.retain(|id| id.log.topic.as_bytes() != b"here");
    host.says().told.clear();
    let report = retained(&limits);
    assert_eq!((failed(&report), start("here"), start("mine")), (vec![], 2, 2), "{report}");
    assert!(host.says().told.iter().flatten().all(|id| id.log == log_id("mine")), "{:?}", host.says().told);
}
