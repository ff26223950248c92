//! T6 behind the open: the sweeper over stores that are damaged as in [`super::corruption`]. It works on a store on the real ring, so that the
//! damaged files are laid out in a directory. Neither retention nor the search for orphans, with leave to delete, may take a live segment.

use super::corruption::{Laid, Stores};
use super::tally::Tally;
use crate::harness::violation::{Checked, broken, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use strandline::policy::{Bound, Policy};
use strandline::{Config, Store, Topic, layout};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{ClockGuard, Mode, Reading, ReviewLimits, Skipped};
use strandline_sweeper::orphans::{OrphanLimits, OrphanSkip, OrphanSweep};
use strandline_sweeper::pass::{Limits, Sweep};
use tempfile::TempDir;

/// No live segment goes.
pub const KEPT: &str = "no live segment is swept because of damage";

/// A pass that is not made takes nothing, and shows nothing.
const MADE: &str = "the sweeper makes its passes over a damaged store";

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Segments older than this are due.
const AGE_MAX_MS: u64 = HOUR_MS;
/// The first numbers of this tier are spread over all files.
const STRIDE: u64 = 1_000_003;
const PASSES: usize = 2;

/// The damaged stores, and when they are looked at.
#[derive(Debug)]
pub struct Sweeps {
    stores: Stores,
    when: When,
}

/// How the sweeper meets them. What is not [`When::NothingIsDue`] is for showing that the check notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Retention has nothing to take.
    NothingIsDue,
    /// It takes what is sealed.
    TooLate,
    /// It takes what is sealed, and somebody brings that back behind it: what was live is an orphan.
    BroughtBack,
}

impl Sweeps {
    /// They are looked at when nothing is due.
    ///
    /// # Errors
    /// When an honest history breaks a promise.
    pub fn new() -> Checked<Sweeps> {
        Ok(Sweeps { stores: Stores::new(None)?, when: When::NothingIsDue })
    }

    /// They are looked at when retention may take what is sealed, so that live segments do go: the check has to notice that.
    ///
    /// # Errors
    /// When an honest history breaks a promise.
    pub fn too_late() -> Checked<Sweeps> {
        Ok(Sweeps { when: When::TooLate, ..Sweeps::new()? })
    }

    /// The same, and what went is laid out once more, so that the search for orphans takes it.
    ///
    /// # Errors
    /// When an honest history breaks a promise.
    pub fn brought_back() -> Checked<Sweeps> {
        Ok(Sweeps { when: When::BroughtBack, ..Sweeps::new()? })
    }

    /// How many cases there are: those of the damage.
    #[must_use]
    pub fn cases(&self) -> u64 {
        self.stores.cases()
    }

    /// Runs a case.
    ///
    /// # Errors
    /// The first broken promise, with the damage.
    ///
    /// # Panics
    /// When the host refuses a directory or a file.
    pub fn run(&self, number: u64) -> Checked<Tally> {
        let laid = self.stores.laid(number.wrapping_mul(STRIDE) % self.cases());
        self.sweep(&laid).map_err(|violation| {
            let seen = format!("{} ({:?})", violation.seen, laid.case);
            crate::harness::Violation { seen, ..violation }
        })?;
        Ok(Tally { faults: 1, ..Tally::default() })
    }

    fn sweep(&self, laid: &Laid) -> Checked {
        let place = place();
        lay_out(place.path(), laid);
        let config =
            Config { root: place.path().to_owned(), lock_wait: Duration::from_secs(10), ..laid.config.clone() };
        let store = match Store::open(config) {
            Ok(store) => store,
            Err(_) if laid.may_be_refused => return Ok(()),
            Err(error) => return broken("a damaged store opens", error.to_string()),
        };
        let expired = self.retain(&store, laid.changed_ms)?;
        if self.when == When::BroughtBack {
            bring_back(&store, place.path(), laid);
        } else {
            ensure(expired.is_empty(), KEPT, || format!("retention takes {expired:?}"))?;
        }
        let given_up = look_for_orphans(&store, laid)?;
        let live: Vec<&String> = given_up.iter().filter(|name| laid.live.contains(name)).collect();
        ensure(live.is_empty(), KEPT, || format!("{live:?} are given up as orphans"))?;
        let listed = store.listed_segments().or_else(|error| broken(KEPT, error.to_string()))?;
        let listed = listed.segments.iter().map(|(segment, _)| layout::directory_name(segment).as_str().to_owned());
        let listed: BTreeSet<String> = listed.collect();
        for directory in &laid.live {
            let there = place.path().join(directory).is_dir();
            ensure(there && listed.contains(directory), KEPT, || format!("{directory} is gone"))?;
        }
        store.close().or_else(|error| broken("a damaged store closes", error.to_string()))
    }

    /// Passes of retention, by the clock of those who made the store. Gives what they took.
    fn retain(&self, store: &Store, changed_ms: u64) -> Checked<Vec<String>> {
        let policy = Policy { max_age_ms: Bound::Is(AGE_MAX_MS), max_bytes: Bound::Is(1 << 30), ..Policy::default() };
        let told = |error: String| broken("a damaged store takes policies", error);
        store.policies().define("an-hour", &policy, "test").map(drop).or_else(|error| told(error.to_string()))?;
        for name in ["t0", "t1"] {
            let topic = Topic::new(name).expect("a plain name");
            store.policies().bind(&topic, "an-hour", "test").map(drop).or_else(|error| told(error.to_string()))?;
        }
        let at = |ms| Reading { wall_ms: changed_ms + ms, boot_ms: HOUR_MS + ms };
        let mut sweep = Sweep::new(ClockGuard::open(at(0), None));
        let mut expired = Vec::new();
        for _ in 0..PASSES {
            let later_ms = if self.when == When::NothingIsDue { 20 * MINUTE_MS } else { 2 * AGE_MAX_MS };
            let report = sweep.pass(store, at(later_ms), &Limits::default());
            let report = report.or_else(|skip| broken(MADE, format!("retention: {skip}")))?;
            expired.extend(report.expired.iter().map(|expired| format!("{expired:?}")));
        }
        Ok(expired)
    }
}

/// Passes over the directories, by the host's clock and with every brake off. Gives what they gave up.
fn look_for_orphans(store: &Store, laid: &Laid) -> Checked<Vec<String>> {
    let now = clock::read();
    let at = |ms| Reading { wall_ms: now.wall_ms + ms, boot_ms: now.boot_ms + ms };
    let review = ReviewLimits { mode: Mode::Delete, sightings: 1, mass_confirmed: true, ..ReviewLimits::default() };
    let limits = OrphanLimits { review, hold_ms: 0, ..OrphanLimits::default() };
    let mut sweep = OrphanSweep::new(ClockGuard::open(at(0), None));
    let mut given_up = Vec::new();
    for pass in 0..PASSES {
        let report = sweep.pass(store, at((pass as u64 + 1) * DAY_MS), &limits);
        let report = match report {
            Ok(report) => report,
            // Where a copy of the manifest is damaged the list is not whole for it: no pass is made.
            Err(OrphanSkip::Skipped(Skipped::AuthorityPartial)) if laid.case.path.starts_with("manifest/") => continue,
            Err(skip) => return broken(MADE, format!("orphans: {skip}")),
        };
        given_up.extend(report.given_up.iter().map(|ready| ready.candidate.name.to_string()));
    }
    Ok(given_up)
}

/// Waits until what retention took has gone, and lays it out again.
fn bring_back(store: &Store, root: &Path, laid: &Laid) {
    let leaves = || store.listed_segments().is_ok_and(|listed| listed.leaving.is_empty());
    let is_gone = |directory: &String| !root.join(directory).exists();
    crate::real::eventually("what was expired is gone", || leaves() && laid.live.iter().any(is_gone));
    let gone: Vec<&String> = laid.live.iter().filter(|directory| is_gone(directory)).collect();
    for (path, bytes) in laid.files.iter().filter(|(path, _)| gone.iter().any(|name| path.starts_with(name.as_str()))) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
}

fn place() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

fn lay_out(root: &Path, laid: &Laid) {
    for directory in &laid.directories {
        std::fs::create_dir_all(root.join(directory)).expect("made");
    }
    for (path, bytes) in &laid.files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
}
