//! The schedule: a thread that makes a pass now and then, again at once while there is more to do, and when somebody nudges it.

use crate::clock;
use crate::decide::ClockGuard;
use crate::pass::{Limits, Skip, Sweep};
use crate::report::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use strandline::Store;

/// When passes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// From the end of one pass to the beginning of the next. Default 60 s.
    pub interval: Duration,
    /// What each pass may do.
    pub limits: Limits,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { interval: Duration::from_secs(60), limits: Limits::default() }
    }
}

/// How the worker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When its last pass ended, wall ms.
    pub last_pass_at_ms: Option<u64>,
    /// Passes so far.
    pub passes: u64,
    /// Passes that did nothing, for a reason that is in `last_skip`.
    pub skipped: u64,
    /// Passes that panicked. The worker goes on with the next.
    pub panicked: u64,
    /// Why the last skipped pass was skipped; none since one that was not.
    pub last_skip: Option<Skip>,
    /// What the last pass did.
    pub last_report: Option<Report>,
}

impl Health {
    /// Whether the last pass that was tried did its work.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.last_skip.is_none() && self.panicked == 0
    }
}

#[derive(Debug, Default)]
struct Wanted {
    stop: bool,
    nudged: bool,
    health: Health,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

impl Shared {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that makes passes over a store. Dropping it stops it; a pass that is under way ends first.
#[derive(Debug)]
pub struct Sweeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Starts it. The first pass is made at once.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(store: Arc<Store>, schedule: Schedule) -> std::io::Result<Sweeper> {
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        let work = move || work(&store, schedule, &of_thread);
        let thread = std::thread::Builder::new().name("strandline-sweep".to_owned()).spawn(work)?;
        Ok(Sweeper { shared, thread: Some(thread) })
    }

    /// Has a pass made at once, as after a change of a policy.
    pub fn nudge(&self) {
        self.shared.wanted().nudged = true;
        self.shared.changed.notify_all();
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.wanted().health.clone()
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.shared.wanted().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(store: &Store, schedule: Schedule, shared: &Shared) {
    let mut sweep = Sweep::new(ClockGuard::open(clock::read(), newest_stamp_ms(store)));
    loop {
        // One bad pass stops no later one.
        let passed = catch_unwind(AssertUnwindSafe(|| sweep.pass(store, clock::read(), &schedule.limits)));
        let again = note(shared, passed.ok());
        let mut wanted = shared.wanted();
        if !again && !wanted.stop && !wanted.nudged {
            let asleep = shared
                .changed
                .wait_timeout_while(wanted, jittered(schedule.interval), |wanted| !wanted.stop && !wanted.nudged);
            wanted = asleep.unwrap_or_else(PoisonError::into_inner).0;
        }
        if wanted.stop {
            return;
        }
        wanted.nudged = false;
    }
}

/// Notes how a pass went. True when the next one is due at once.
fn note(shared: &Shared, passed: Option<Result<Report, Skip>>) -> bool {
    let health = &mut shared.wanted().health;
    health.passes += 1;
    health.last_pass_at_ms = Some(clock::read().wall_ms);
    match passed {
        Some(Ok(report)) => {
            // What failed stays due: without a pause it would be tried over and over.
            let again = report.budget_spent && report.failures.is_empty() && !report.expired.is_empty();
            (health.last_skip, health.last_report) = (None, Some(report));
            again
        }
        Some(Err(skip)) => {
            health.skipped += 1;
            if health.last_skip.as_ref() != Some(&skip) {
                tracing::warn!(%skip, "a pass was skipped");
            }
            health.last_skip = Some(skip);
            false
        }
        None => {
            health.panicked += 1;
            tracing::error!("a pass panicked; the next one is made all the same");
            false
        }
    }
}

/// Spread by up to a tenth, so that stores that were started together do not sweep together.
fn jittered(interval: Duration) -> Duration {
    let part = clock::read().boot_ms % 100;
    interval + interval / 1_000 * part as u32
}

/// The newest time that the store has stamped, so that a gap to it is seen.
fn newest_stamp_ms(store: &Store) -> Option<u64> {
    let inventory = store.inventory().ok()?;
    let segments = inventory.values().flatten().flat_map(|log| &log.segments);
    segments.flat_map(|segment| [Some(segment.opened_at_ms), segment.sealed_at_ms]).flatten().max().filter(|ms| *ms > 0)
}
