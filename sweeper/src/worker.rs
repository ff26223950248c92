//! A worker: a thread that makes one kind of pass over a store, now and then, again at once while there is more to do, and when somebody
//! nudges it. Here is its loop, and what is known of it; that it lives is the supervisor's business.

use crate::bell::Bell;
use crate::clock;
use crate::decide::Reading;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::stopping::Stopping;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strandline::Store;

/// How long a worker that died is left dead, at first.
const BACKOFF: Duration = Duration::from_millis(100);
/// And at most.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A pass that has been under way for so many intervals, and for so long, hangs.
const INTERVALS_OVERDUE: u32 = 10;
const OVERDUE_MIN: Duration = Duration::from_secs(300);

/// A kind of pass.
pub trait Pass: Send + 'static {
    /// What it is called, in the names of threads and in the log.
    const NAME: &'static str;
    /// What a pass may do.
    type Limits: Clone + fmt::Debug + Send + Sync + 'static;
    /// What a pass did.
    type Report: Clone + fmt::Debug + Send + 'static;
    /// Why a pass did nothing at all.
    type Skip: Clone + fmt::Debug + fmt::Display + Send + 'static;
    /// What is counted of the reports.
    type Counts: Clone + fmt::Debug + Default + Send + 'static;

    /// Makes one at this reading of the clocks.
    ///
    /// # Errors
    /// Why nothing was done.
    fn pass(&mut self, store: &Store, at: Reading, limits: &Self::Limits) -> Result<Self::Report, Self::Skip>;

    /// Is told once, before the first one, where to hear that the worker stops. A pass that takes long looks there between its steps.
    fn heed(&mut self, _stopping: Stopping) {}

    /// Whether the next one is due at once.
    fn is_due_again(report: &Self::Report) -> bool;

    /// The cause, as metrics label it.
    fn cause(skip: &Self::Skip) -> &'static str;

    /// Counts what a pass did.
    fn count(report: &Self::Report, counts: &mut Self::Counts);
}

/// How often a worker makes its passes, and what each may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every<L> {
    /// From the end of one pass to the beginning of the next, at most: it is up to a tenth less, so that stores which were started together
    /// do not sweep together.
    pub interval: Duration,
    /// What each pass may do.
    pub limits: L,
}

struct State<P: Pass> {
    stop: bool,
    nudged: bool,
    health: Health<P::Report, P::Skip>,
    metrics: Metrics<P::Counts>,
    /// When the pass that is under way began, or was last seen to get on.
    heard_of: Option<Instant>,
    /// How often passes had said that they get on.
    progress: u64,
    /// The causes of skipped passes that were said since one was not skipped.
    said: BTreeSet<&'static str>,
    thread: Option<JoinHandle<()>>,
    /// The thread has ended, or is about to.
    ended: bool,
    /// Deaths since the thread last came to rest after a pass.
    deaths_in_a_row: u32,
    /// When it is started, or started again.
    again_at: Option<Instant>,
}

impl<P: Pass> Default for State<P> {
    fn default() -> State<P> {
        State {
            stop: false,
            nudged: false,
            health: Health::default(),
            metrics: Metrics::default(),
            heard_of: None,
            progress: 0,
            said: BTreeSet::new(),
            thread: None,
            ended: false,
            deaths_in_a_row: 0,
            again_at: None,
        }
    }
}

struct Shared<P: Pass> {
    store: Arc<Store>,
    every: Every<P::Limits>,
    bell: Arc<Bell>,
    stopping: Stopping,
    /// What the passes remember. It outlives the thread: a hold of the clock does not end by a death.
    pass: Mutex<P>,
    state: Mutex<State<P>>,
    changed: Condvar,
}

/// A worker, as its owner holds it.
pub struct Worker<P: Pass>(Arc<Shared<P>>);

impl<P: Pass> Clone for Worker<P> {
    fn clone(&self) -> Worker<P> {
        Worker(self.0.clone())
    }
}

impl<P: Pass> fmt::Debug for Worker<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &P::NAME).field("health", &self.health()).finish_non_exhaustive()
    }
}

impl<P: Pass> Worker<P> {
    /// One without a thread: the supervisor starts it, as it starts one that has died. Its first pass is made at once.
    pub(crate) fn new(store: Arc<Store>, mut pass: P, every: Every<P::Limits>, bell: Arc<Bell>) -> Worker<P> {
        let stopping = Stopping::default();
        pass.heed(stopping.clone());
        let state = State { again_at: Some(Instant::now()), ..State::default() };
        let (pass, state, changed) = (Mutex::new(pass), Mutex::new(state), Condvar::new());
        Worker(Arc::new(Shared { store, every, bell, stopping, pass, state, changed }))
    }

    /// Has a pass made at once. While one is under way the next follows it, one for any number of nudges.
    pub fn nudge(&self) {
        self.0.state().nudged = true;
        self.0.changed.notify_all();
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> Health<P::Report, P::Skip> {
        self.0.state().health.clone()
    }

    /// What it has counted since it was started first.
    #[must_use]
    pub fn metrics(&self) -> Metrics<P::Counts> {
        self.0.state().metrics.clone()
    }

    fn spawn(&self, state: &mut State<P>) -> std::io::Result<()> {
        let shared = self.0.clone();
        let thread = std::thread::Builder::new().name(format!("strandline-{}", P::NAME));
        state.thread = Some(thread.spawn(move || shared.work())?);
        (state.ended, state.again_at, state.health.is_alive) = (false, None, true);
        Ok(())
    }
}

/// What the supervisor does with a worker.
pub(crate) trait Tended: Send {
    /// Starts it again if it has died and its time has come; says when to look again at the latest, if that is known.
    fn tend(&self, now: Instant) -> Option<Instant>;

    /// Asks it to stop behind the pass that is under way, and that to begin with nothing more.
    fn stop(&self);

    /// Waits until it has stopped.
    fn join(&self);
}

impl<P: Pass> Tended for Worker<P> {
    fn tend(&self, now: Instant) -> Option<Instant> {
        let mut state = self.0.state();
        if state.stop {
            return None;
        }
        state.note_overdue(P::NAME, self.0.every.interval, (self.0.stopping.progress(), now));
        if state.ended {
            state.ended = false;
            let _ = state.thread.take().map(JoinHandle::join); // It is past everything that takes time.
            state.note_death(P::NAME, now);
        }
        if state.again_at.is_some_and(|again_at| again_at <= now)
            && let Err(error) = self.spawn(&mut state)
        {
            tracing::error!(worker = P::NAME, %error, "a worker could not be started");
            state.note_death(P::NAME, now);
        }
        state.again_at
    }

    fn stop(&self) {
        self.0.stopping.stop();
        self.0.state().stop = true;
        self.0.changed.notify_all();
    }

    fn join(&self) {
        let thread = self.0.state().thread.take();
        let _ = thread.map(JoinHandle::join);
    }
}

impl<P: Pass> State<P> {
    fn note_death(&mut self, name: &'static str, now: Instant) {
        let backoff = BACKOFF.saturating_mul(1 << self.deaths_in_a_row.min(16)).min(BACKOFF_MAX);
        self.deaths_in_a_row = self.deaths_in_a_row.saturating_add(1);
        self.metrics.deaths += 1;
        self.health.is_alive = false;
        self.note_end();
        self.again_at = now.checked_add(backoff);
        tracing::error!(worker = name, ?backoff, "a worker died; it is started again");
    }

    /// No pass is under way any more.
    fn note_end(&mut self) {
        self.heard_of = None;
        (self.health.under_way_since_ms, self.health.is_overdue) = (None, false);
    }

    /// Sees a pass that hangs, and says so once: one that has begun, or last got on, so long ago. Nothing ends it: what it waits for may have happened.
    fn note_overdue(&mut self, name: &'static str, interval: Duration, (progress, now): (u64, Instant)) {
        if std::mem::replace(&mut self.progress, progress) != progress && self.heard_of.is_some() {
            (self.heard_of, self.health.is_overdue) = (Some(now), false);
        }
        let took = self.heard_of.map_or(Duration::ZERO, |heard_of| now.saturating_duration_since(heard_of));
        let is_overdue = took >= interval.saturating_mul(INTERVALS_OVERDUE).max(OVERDUE_MIN);
        if is_overdue && !std::mem::replace(&mut self.health.is_overdue, true) {
            tracing::error!(worker = name, ?took, "a pass has not ended: the disk, or the host, does not answer it");
        }
    }

    fn note_pass(&mut self, passed: Option<Result<P::Report, P::Skip>>, took: Duration) {
        self.note_end();
        let (health, now_ms) = (&mut self.health, clock::read().wall_ms);
        health.passes += 1;
        health.last_pass_at_ms = Some(now_ms);
        health.last_panicked = passed.is_none();
        match passed {
            Some(Ok(report)) => {
                self.metrics.durations.note(took);
                P::count(&report, &mut self.metrics.counts);
                self.said.clear();
                health.last_done_at_ms = Some(now_ms);
                (health.last_skip, health.last_report) = (None, Some(report));
            }
            Some(Err(skip)) => {
                let cause = P::cause(&skip);
                *self.metrics.skipped.entry(cause).or_default() += 1;
                if self.said.insert(cause) {
                    tracing::warn!(worker = P::NAME, %skip, "a pass was skipped");
                }
                health.last_skip = Some(skip);
            }
            None => {
                self.metrics.panicked += 1;
                tracing::error!(worker = P::NAME, "a pass panicked; the next one is made all the same");
            }
        }
    }
}

/// Tells the supervisor that the thread ends, however it does.
struct Ending<'a, P: Pass>(&'a Shared<P>);

impl<P: Pass> Drop for Ending<'_, P> {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.bell.ring();
    }
}

impl<P: Pass> Shared<P> {
    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let _ending = Ending(self);
        while self.begins() {
            let began = Instant::now();
            // One bad pass stops no later one.
            let passed = catch_unwind(AssertUnwindSafe(|| {
                let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
                pass.pass(&self.store, clock::read_of(&self.store), &self.every.limits)
            }));
            let (passed, took) = (passed.ok(), began.elapsed());
            let again = matches!(&passed, Some(Ok(report)) if P::is_due_again(report));
            self.state().note_pass(passed, took);
            self.rest(again);
        }
    }

    /// Whether a pass is to be made. What was asked for until now is answered by it.
    fn begins(&self) -> bool {
        let mut state = self.state();
        state.nudged = false;
        if !state.stop {
            (state.health.under_way_since_ms, state.heard_of) = (Some(clock::read().wall_ms), Some(Instant::now()));
        }
        !state.stop
    }

    /// Waits until the next pass is due.
    fn rest(&self, again: bool) {
        let mut state = self.state();
        state.deaths_in_a_row = 0;
        if again {
            return;
        }
        let interval = jittered(self.every.interval);
        let asleep = self.changed.wait_timeout_while(state, interval, |state| !state.stop && !state.nudged);
        drop(asleep.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Shorter by up to a tenth, at random. Never longer: how long a record lives at most counts on the interval.
fn jittered(interval: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without randomness, as early after a boot, there is no jitter.
    let _ = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    interval - interval.mul_f64(f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{Skip, Sweep};
    use std::sync::atomic::{AtomicU64, Ordering};
    use strandline::VerbError;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Counts what is said.
    struct Ear(Arc<AtomicU64>);

    impl Subscriber for Ear {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_skipped_pass_says_why_once_for_each_cause_until_one_is_not_skipped() {
        let mut state = State::<Sweep>::default();
        let said = Arc::new(AtomicU64::new(0));
        let skip = |error| Some(Err(Skip::Inventory(error)));
        tracing::subscriber::with_default(Ear(said.clone()), || {
            for passed in 1..=10 {
                let error = VerbError::Overloaded { outstanding: passed, limit: 1 };
                state.note_pass(skip(error), Duration::ZERO);
            }
            assert_eq!(said.load(Ordering::SeqCst), 1);
            let policies = Skip::Policies(strandline::PolicyError::Closed);
            state.note_pass(Some(Err(policies)), Duration::ZERO);
            state.note_pass(skip(VerbError::Closed), Duration::ZERO);
            assert_eq!(said.load(Ordering::SeqCst), 2, "another cause, and the first one again");
            let report = crate::report::Report::new(crate::decide::Now::trusted(1), &crate::decide::Plan::default());
            state.note_pass(Some(Ok(report)), Duration::ZERO);
            state.note_pass(skip(VerbError::Closed), Duration::ZERO);
            assert_eq!(said.load(Ordering::SeqCst), 3);
        });
        let skipped: Vec<_> = state.metrics.skipped.into_iter().collect();
        assert_eq!(skipped, [("inventory", 12), ("policies", 1)]);
    }

    #[test]
    fn a_pass_that_hangs_is_not_well_and_said_once_until_it_has_ended() {
        let (interval, said) = (Duration::from_secs(60), Arc::new(AtomicU64::new(0)));
        let began = Instant::now();
        let health = Health { is_alive: true, ..Health::default() };
        let mut state = State::<Sweep> { heard_of: Some(began), health, ..State::default() };
        tracing::subscriber::with_default(Ear(said.clone()), || {
            state.note_overdue("play", interval, (0, began + interval * 10 - Duration::from_millis(1)));
            assert!(state.health.is_well());
            (0..3).for_each(|more| state.note_overdue("play", interval, (0, began + interval * 10 + interval * more)));
            assert!(!state.health.is_well());
            assert_eq!(said.load(Ordering::SeqCst), 1);
            let report = crate::report::Report::new(crate::decide::Now::trusted(1), &crate::decide::Plan::default());
            state.note_pass(Some(Ok(report)), interval * 12);
            state.note_overdue("play", interval, (0, began + interval * 20));
            assert!(state.health.is_well() && state.health.last_done_at_ms.is_some());
            // However short the interval is, a pass may take some minutes.
            state.heard_of = Some(began);
            state.note_overdue("play", Duration::ZERO, (0, began + OVERDUE_MIN - Duration::from_millis(1)));
            assert!(state.health.is_well());
            state.note_overdue("play", Duration::ZERO, (0, began + OVERDUE_MIN));
            assert!(!state.health.is_well());
            // And one that gets on may take any time.
            state.note_overdue("play", Duration::ZERO, (1, began + OVERDUE_MIN * 2));
            state.note_overdue("play", Duration::ZERO, (1, began + OVERDUE_MIN * 3 - Duration::from_millis(1)));
            assert!(state.health.is_well());
            state.note_overdue("play", Duration::ZERO, (1, began + OVERDUE_MIN * 3));
            assert!(!state.health.is_well());
        });
    }

    #[test]
    fn an_interval_is_shortened_by_no_more_than_a_tenth_and_not_always_by_the_same() {
        let interval = Duration::from_secs(60);
        let drawn: BTreeSet<Duration> = (0..100).map(|_| jittered(interval)).collect();
        assert!(drawn.iter().all(|drawn| (interval * 9 / 10..=interval).contains(drawn)), "{drawn:?}");
        assert!(drawn.len() > 90, "{} different ones of 100", drawn.len());
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
        assert!(jittered(Duration::MAX / 2) <= Duration::MAX / 2);
    }
}
