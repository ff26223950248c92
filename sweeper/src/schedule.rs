//! The schedule: which workers a store has, and when each makes its passes.

use crate::bell::Bell;
use crate::clock::{self, SharedClock};
use crate::confirmed::Confirmed;
use crate::decide::{self, Candidate, LogExplained, Mode, SegmentExplained};
use crate::explain::Asked;
use crate::orphans::{OrphanLimits, OrphanSweep};
use crate::pass::{Limits, Skip, Sweep};
use crate::pins::PinBoard;
use crate::scrub::{RoundAsked, ScrubLimits, ScrubSweep};
use crate::supervisor::Supervisor;
use crate::worker::{Every, Tended, Worker};
use std::sync::Arc;
use std::time::Duration;
use strandline::id::SegmentId;
use strandline::{LogId, Restamped, Store, VerbError};

/// When passes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Retention: what expires, what rolls by age. Default every 60 s.
    pub retention: Every<Limits>,
    /// Orphan directories. Default every 300 s, and only to report. In the mode `off` there is no such worker.
    pub orphans: Every<OrphanLimits>,
    /// Scrubbing: looked for every hour whether a round is due. `None` is off.
    pub scrub: Option<Every<ScrubLimits>>,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            retention: Every { interval: Duration::from_secs(60), limits: Limits::default() },
            orphans: Every { interval: Duration::from_secs(300), limits: OrphanLimits::default() },
            scrub: Some(Every { interval: Duration::from_secs(3_600), limits: ScrubLimits::default() }),
        }
    }
}

/// The workers of a store. Each has a thread of its own; one that dies is started again. Dropping it stops them: a pass that is under way
/// ends first.
#[derive(Debug)]
pub struct Sweeper {
    store: Arc<Store>,
    schedule: Schedule,
    clock: SharedClock,
    pins: PinBoard,
    retention: Worker<Sweep>,
    orphans: Option<Worker<OrphanSweep>>,
    confirmed: Confirmed,
    scrub: Option<Worker<ScrubSweep>>,
    round_asked: RoundAsked,
    /// Stops the workers when it is dropped.
    _supervisor: Supervisor,
}

impl Sweeper {
    /// Starts the workers. Their first passes are made at once.
    ///
    /// # Errors
    /// The thread that starts the others could not be started.
    pub fn start(store: Arc<Store>, schedule: Schedule) -> std::io::Result<Sweeper> {
        Sweeper::start_with_pins(store, schedule, PinBoard::default())
    }

    /// As [`Sweeper::start`], for a host that has said what it holds back before the first pass.
    ///
    /// # Errors
    /// As [`Sweeper::start`].
    pub fn start_with_pins(store: Arc<Store>, schedule: Schedule, pins: PinBoard) -> std::io::Result<Sweeper> {
        let clock = SharedClock::of(&store);
        let bell = Arc::<Bell>::default();
        let mut seen = (store.policies().changes(), store.pressure().risen);
        let sweep = Sweep::new(clock.clone()).with_pins(pins.clone());
        let retention = Worker::new(store.clone(), sweep, schedule.retention, bell.clone());
        let orphan_sweep = OrphanSweep::new(clock.clone());
        let confirmed = orphan_sweep.confirmed().clone();
        let orphans = (schedule.orphans.limits.review.mode != Mode::Off)
            .then(|| Worker::new(store.clone(), orphan_sweep, schedule.orphans, bell.clone()));
        let scrub_sweep = ScrubSweep::default();
        let round_asked = scrub_sweep.asked().clone();
        let scrub = schedule.scrub.map(|every| Worker::new(store.clone(), scrub_sweep, every, bell.clone()));
        let mut workers: Vec<Box<dyn Tended>> = vec![Box::new(retention.clone())];
        workers.extend(scrub.iter().map(|worker| Box::new(worker.clone()) as Box<dyn Tended>));
        workers.extend(orphans.iter().map(|worker| Box::new(worker.clone()) as Box<dyn Tended>));
        let (watched, nudged) = (store.clone(), retention.clone());
        let look = move || {
            let now = (watched.policies().changes(), watched.pressure().risen);
            if now != seen {
                seen = now;
                nudged.nudge();
            }
        };
        let supervisor = Supervisor::start(workers, bell, look)?;
        Ok(Sweeper {
            store,
            schedule,
            clock,
            pins,
            retention,
            orphans,
            confirmed,
            scrub,
            round_asked,
            _supervisor: supervisor,
        })
    }

    /// The worker that makes retention passes. A change of a policy, or a disk that gets shorter of room, nudges it within about a second; a host that keeps the bindings
    /// nudges it by hand.
    #[must_use]
    pub fn retention(&self) -> &Worker<Sweep> {
        &self.retention
    }

    /// The worker that sweeps orphans; none in the mode `off`.
    #[must_use]
    pub fn orphans(&self) -> Option<&Worker<OrphanSweep>> {
        self.orphans.as_ref()
    }

    /// The worker that reads sealed segments again; none where that is off.
    #[must_use]
    pub fn scrub(&self) -> Option<&Worker<ScrubSweep>> {
        self.scrub.as_ref()
    }

    /// Has a round of scrubbing begin now, unless one is under way.
    pub fn begin_scrub(&self) {
        self.round_asked.ask();
        self.scrub.iter().for_each(Worker::nudge);
    }

    /// Has every worker make a pass at once.
    pub fn nudge(&self) {
        self.retention.nudge();
        self.orphans.iter().for_each(Worker::nudge);
        self.scrub.iter().for_each(Worker::nudge);
    }

    /// Whether every worker is well.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let others = self.orphans.iter().all(|worker| worker.health().is_well())
            && self.scrub.iter().all(|worker| worker.health().is_well());
        self.retention.health().is_well() && others
    }

    /// An operator says that the wall clock is right: what was held because it jumped goes on, in the engine's timers too.
    pub fn confirm_time(&self) {
        self.store.confirm_time();
        self.clock.confirm(clock::read_of(&self.store));
        self.nudge();
    }

    /// An operator has looked at orphans that the brake stopped, and says that they are orphans: these go, at the rate of a pass, and no others. They are those of
    /// the report that he read ([`braked`](crate::orphans::OrphanReport::braked)), or some of them: one that has changed since counts as new.
    pub fn confirm_orphans<'a>(&self, seen: impl IntoIterator<Item = &'a Candidate>) {
        self.confirmed.add(seen);
        self.orphans.iter().for_each(Worker::nudge);
    }

    /// Gives a sealed segment whose seal time lies over 10 minutes ahead of the clock the present time, durably, and has a pass made. `actor` is
    /// who wants it, for the audit log. Refused while the clock is held, by the rules by which passes hold it.
    ///
    /// # Errors
    /// As [`Store::restamp_seal`].
    pub fn restamp_seal(&self, segment: &SegmentId, actor: &str) -> Result<Restamped, VerbError> {
        let restamped = self.store.restamp_seal(segment, actor)?;
        self.retention.nudge();
        Ok(restamped)
    }

    /// What the host holds back.
    #[must_use]
    pub fn pins(&self) -> &PinBoard {
        &self.pins
    }

    /// Why each segment of a log is kept, and when it can go. Nothing if there is no such log.
    ///
    /// # Errors
    /// [`Skip`]: a pass would be skipped as well.
    pub fn explain_log(&self, log: &LogId) -> Result<Option<LogExplained>, Skip> {
        self.asked().log(log, clock::read_of(&self.store))
    }

    /// The same for one segment.
    ///
    /// # Errors
    /// As [`Sweeper::explain_log`].
    pub fn explain_segment(&self, segment: &SegmentId) -> Result<Option<SegmentExplained>, Skip> {
        self.asked().segment(segment, clock::read_of(&self.store))
    }

    fn asked(&self) -> Asked<'_> {
        let Every { interval, limits } = &self.schedule.retention;
        let sweep_interval_ms = interval.as_millis().try_into().unwrap_or(u64::MAX);
        let schedule = decide::Schedule { sweep_interval_ms, ..decide::Schedule::default() };
        Asked { store: &self.store, clock: &self.clock, pins: &self.pins, limits, schedule }
    }
}

impl Drop for Sweeper {
    /// The workers are stopped behind this. What the clock says now is the last that this store is sure of.
    fn drop(&mut self) {
        self.clock.keep_last(&self.store);
    }
}
