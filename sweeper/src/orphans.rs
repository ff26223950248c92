//! One pass of the orphan sweep: what lies below the root goes through the decisions of [`decide`], and what they say may go is given up.
//!
//! Nothing is decided here, and nothing is removed here: the store looks once more, records what it gives up, and lets it wait in the trash.

use crate::clock::SharedClock;
use crate::confirmed::Confirmed;
use crate::decide::{
    self, Attempts, Brake, Candidate, DirectoryName, HeldOrphan, Mode, Now, Reading, Ready, Reported, ReviewLimits,
    Sightings, Skipped, Survey, WhyHeld,
};
use crate::entries::{self, Seen};
use crate::host::{HostKeeps, ask};
use crate::list::List;
use crate::metrics::OrphanCounts;
use crate::resting::Resting;
use crate::stopping::Stopping;
use crate::worker::Pass;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};
use strandline::id::SegmentId;
use strandline::{DiskError, GivenUp, LetGo, OrphanError, Removed, Store};

/// What a pass may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanLimits {
    /// The mode and the caps of the review. By default the sweep only reports.
    pub review: ReviewLimits,
    /// How old a directory is at least, in milliseconds. Default 10 minutes.
    pub age_min_ms: u64,
    /// How long what was given up waits in the trash, in milliseconds. Default a day.
    pub hold_ms: u64,
    /// How long the host may take to answer all questions of a pass. Default 15 s.
    pub deadline: Duration,
    /// How many segments the host is asked about at once. Default 1,000.
    pub asked_at_once: usize,
}

impl Default for OrphanLimits {
    fn default() -> OrphanLimits {
        OrphanLimits {
            review: ReviewLimits::default(),
            age_min_ms: decide::AGE_MIN_MS,
            hold_ms: 24 * 3_600_000,
            deadline: Duration::from_secs(15),
            asked_at_once: 1_000,
        }
    }
}

/// Why a pass did nothing at all. The sightings stay as they were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrphanSkip {
    /// A guard stood in front of it.
    #[error(transparent)]
    Skipped(#[from] Skipped),
    /// The root could not be read.
    #[error("the root cannot be read: {0}; no orphan is looked for until it can")]
    Root(#[from] DiskError),
    /// The store did not say what its manifest lists.
    #[error("the store does not say what it lists: {0}; no orphan is looked for until it does")]
    Listed(#[from] OrphanError),
}

impl OrphanSkip {
    /// The cause, as metrics label it.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            OrphanSkip::Skipped(Skipped::Off) => "off",
            OrphanSkip::Skipped(Skipped::ClockHeld(_)) => "clock_held",
            OrphanSkip::Skipped(Skipped::AuthorityPartial) => "authority_partial",
            OrphanSkip::Skipped(Skipped::AuthorityEmpty { .. }) => "authority_empty",
            OrphanSkip::Skipped(Skipped::Aborted(_)) => "authority_failed",
            OrphanSkip::Root(_) => "root",
            OrphanSkip::Listed(_) => "listed",
        }
    }
}

/// A directory that could not be given up. It is tried again, after the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanFailure {
    /// Its name.
    pub name: DirectoryName,
    /// What the store answered.
    pub error: OrphanError,
}

/// What one pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanReport {
    /// The instant at which it decided, wall ms.
    pub at_ms: u64,
    /// What it was allowed to do.
    pub mode: Mode,
    /// How many directories can be a segment's.
    pub directories: usize,
    /// How many of them are a segment's that is known.
    pub known: usize,
    /// How many are too young to be looked at.
    pub young: usize,
    /// Those of which nobody could say, how they stand.
    pub undecided: Vec<(DirectoryName, SegmentId, decide::Standing)>,
    /// What was given up.
    pub given_up: Vec<Ready>,
    /// What is unexplained and stays, and why.
    pub held: Vec<HeldOrphan>,
    /// What an operator should look at.
    pub reported: Vec<(DirectoryName, Reported)>,
    /// What could not be given up.
    pub failures: Vec<OrphanFailure>,
    /// How many the caps left untracked.
    pub left_out: usize,
    /// Why nothing went, if the brake stopped the pass.
    pub brake: Option<Brake>,
    /// The cap of a pass left something that is ready: the next pass is due at once.
    pub budget_spent: bool,
    /// What became of orphans whose hold was over.
    pub let_go: LetGo,
    /// What ended the emptying of the trash early, if something did. The rest is tried by the next pass.
    pub trash_failed: Option<OrphanError>,
    /// How many of them could not be removed and are left alone for a while.
    pub resting: usize,
    /// How removal goes: its rate, what waits for it, and how often appends held it back, since the store was opened.
    pub removal: Removed,
    /// The worker was stopped: what it had not begun with stays.
    pub stopped: bool,
}

impl OrphanReport {
    /// What the brake stopped, for an operator to look at and to confirm.
    pub fn braked(&self) -> impl Iterator<Item = &Candidate> {
        let braked = self.held.iter().filter(|held| matches!(held.why, WhyHeld::Braked(_)));
        braked.map(|held| &held.candidate)
    }

    /// How many directories there are for each reason, for metrics: the reasons are a closed set.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let held = self.held.iter().map(|held| match held.why {
            WhyHeld::Sightings { .. } => "held_sightings",
            WhyHeld::Braked(_) => "held_brake",
            WhyHeld::ReportOnly => "held_report_only",
            WhyHeld::PassCap(_) => "held_cap",
        });
        let reported = self.reported.iter().map(|(_, why)| match why {
            Reported::NoHeader => "reported_no_header",
            Reported::Unread => "reported_unread",
            Reported::AgeUnknown => "reported_age_unknown",
            Reported::AnotherStore(_) => "reported_another_store",
            Reported::AnotherSegment(_) => "reported_another_segment",
            Reported::LiveUid(_) => "reported_live_uid",
        });
        let mut counts = BTreeMap::from([
            ("known", self.known),
            ("young", self.young),
            ("undecided", self.undecided.len()),
            ("given_up", self.given_up.len()),
            ("failed", self.failures.len()),
            ("left_out", self.left_out),
            ("gone", self.let_go.gone.len()),
            ("kept_in_trash", self.let_go.kept.len()),
            ("resting_in_trash", self.resting),
        ]);
        held.chain(reported).for_each(|reason| *counts.entry(reason).or_default() += 1);
        counts
    }
}

impl fmt::Display for OrphanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (directories, known) = (self.directories, self.known);
        writeln!(f, "{directories} directories, {known} known, {} orphans given up", self.given_up.len())?;
        if let Some(brake) = &self.brake {
            writeln!(f, "{brake}")?;
        }
        self.given_up.iter().try_for_each(|ready| writeln!(f, "{ready}"))?;
        self.held.iter().try_for_each(|held| writeln!(f, "{held}"))?;
        self.reported.iter().try_for_each(|(name, why)| writeln!(f, "{name}: {why}"))?;
        self.undecided.iter().try_for_each(|(name, id, standing)| writeln!(f, "{name}: {id} is {standing}"))?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "{}: {}", failure.name, failure.error))?;
        self.let_go.kept.iter().try_for_each(|(uid, why)| writeln!(f, "trash/{uid}: {why}"))?;
        if self.resting > 0 {
            writeln!(f, "{} in the trash could not be removed and are left alone for a while", self.resting)?;
        }
        if let Some(error) = &self.trash_failed {
            writeln!(f, "the trash was not emptied to its end: {error}; the next pass goes on")?;
        }
        if self.removal != Removed::default() {
            writeln!(f, "removal: {}", self.removal)?;
        }
        Ok(())
    }
}

impl Pass for OrphanSweep {
    const NAME: &'static str = "orphans";
    type Limits = OrphanLimits;
    type Report = OrphanReport;
    type Skip = OrphanSkip;
    type Counts = OrphanCounts;

    fn pass(&mut self, store: &Store, at: Reading, limits: &OrphanLimits) -> Result<OrphanReport, OrphanSkip> {
        OrphanSweep::pass(self, store, at, limits)
    }

    fn heed(&mut self, stopping: Stopping) {
        self.stopping = stopping;
    }

    /// What failed stays: without a pause it would be tried over and over.
    fn is_due_again(report: &OrphanReport) -> bool {
        report.budget_spent && report.failures.is_empty() && !report.given_up.is_empty()
    }

    fn cause(skip: &OrphanSkip) -> &'static str {
        skip.cause()
    }

    fn count(report: &OrphanReport, counts: &mut OrphanCounts) {
        counts.given_up += report.given_up.len() as u64;
        counts.removed += report.let_go.gone.len() as u64;
        counts.failed += report.failures.len() as u64;
        counts.left = report.counts();
    }
}

/// Makes passes over one store. What was sighted is remembered between them, in memory only: a restart starts again.
#[derive(Debug)]
pub struct OrphanSweep {
    clock: SharedClock,
    sightings: Sightings,
    attempts: Attempts,
    confirmed: Confirmed,
    resting: Resting,
    stopping: Stopping,
}

impl OrphanSweep {
    /// Begins with a guard of the clock that was made when the store was opened.
    pub fn new(clock: impl Into<SharedClock>) -> OrphanSweep {
        let (sightings, attempts) = (Sightings::default(), Attempts::default());
        let (confirmed, stopping) = (Confirmed::default(), Stopping::default());
        let resting = Resting::default();
        OrphanSweep { clock: clock.into(), sightings, attempts, confirmed, resting, stopping }
    }

    /// Where an operator says what of it may go that the brake stopped.
    #[must_use]
    pub fn confirmed(&self) -> &Confirmed {
        &self.confirmed
    }

    /// The guard of the clock, for an operator who confirms the time.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// One pass at this reading of the clocks.
    ///
    /// # Errors
    /// [`OrphanSkip`]: nothing was done.
    pub fn pass(&mut self, store: &Store, at: Reading, limits: &OrphanLimits) -> Result<OrphanReport, OrphanSkip> {
        limits.review.mode.begin()?;
        let now = self.clock.observe(at);
        if let Some(hold) = now.held {
            return Err(Skipped::from(hold).into());
        }
        let deadline = Instant::now() + limits.deadline;
        // The root first: what is made behind it is listed, and what is listed behind it is young.
        let root = store.survey_root()?;
        let listed = store.listed_segments()?;
        if !listed.whole {
            return Err(Skipped::AuthorityPartial.into());
        }
        let keeps = ask(store, &[], deadline).map(|answer| answer.is_some());
        let host = keeps.map_err(|error| Skipped::from(decide::Aborted::Failed(error)))?;
        let list = List::new(&listed, host);
        let seen = Seen { store, now: &now, age_min_ms: limits.age_min_ms, known: list.known() };
        let entries = entries::of(&seen, root.into_iter().take_while(|_| !self.stopping.is_asked()));
        let survey = Survey {
            store: listed.store,
            live_uids: &list.uids,
            authority: list.authority(),
            age_min_ms: limits.age_min_ms,
            tracked_max: limits.review.tracked_max,
        };
        let found = decide::candidates(&entries, &now, &survey, &self.attempts).map_err(Skipped::from)?;
        let explained = list.explain(&HostKeeps { store, deadline, at_once: limits.asked_at_once }, &found)?;
        self.sightings.confirm(&self.confirmed.take());
        let review = decide::review(&explained.unexplained, &self.sightings, &self.attempts, &limits.review);
        let names: HashSet<&DirectoryName> = entries.iter().map(|entry| &entry.name).collect();
        self.attempts.retain(|name| names.contains(name));
        self.sightings = review.sightings;
        let mut report = OrphanReport {
            at_ms: now.ms,
            mode: limits.review.mode,
            directories: found.directories,
            known: found.known + explained.known.len(),
            young: found.young,
            undecided: explained.undecided,
            given_up: Vec::new(),
            budget_spent: review.held.iter().any(|held| matches!(held.why, WhyHeld::PassCap(_))),
            held: review.held,
            reported: found.reported,
            failures: Vec::new(),
            left_out: found.left_out + review.left_out,
            brake: review.brake,
            let_go: LetGo::default(),
            trash_failed: None,
            resting: 0,
            removal: Removed::default(),
            stopped: false,
        };
        self.carry_out(store, review.ready, &list, (&now, limits), &mut report);
        self.empty_the_trash(store, (&now, at.boot_ms), &mut report);
        report.removal = store.counters().removal;
        Ok(report)
    }

    fn carry_out(
        &mut self,
        store: &Store,
        ready: Vec<Ready>,
        list: &List,
        (now, limits): (&Now, &OrphanLimits),
        report: &mut OrphanReport,
    ) {
        if limits.review.mode != Mode::Delete {
            return;
        }
        let hold_until_ms = now.ms.saturating_add(limits.hold_ms);
        let (listed, unlisted): (Vec<Ready>, Vec<Ready>) = ready.into_iter().partition(|one| list.has(one).is_some());
        // What has a reading is text.
        let named = |one: &Ready| String::from_utf8_lossy(one.candidate.name.as_bytes()).into_owned();
        // Whatever was begun with is ended: only what a stop leaves has no answer.
        let goes_on = || !self.stopping.is_asked();
        let directories = unlisted.iter().map(|one| (named(one), entries::sighted(&one.candidate)));
        let answers = store.give_up_directories(directories.take_while(|_| goes_on()), hold_until_ms);
        let of_segments = listed.iter().take_while(|_| goes_on());
        let of_segments = of_segments.map(|one| give_up_segment(store, one, list, hold_until_ms)).collect::<Vec<_>>();
        for (one, answer) in unlisted.into_iter().zip(answers).chain(listed.into_iter().zip(of_segments)) {
            match answer {
                Ok(GivenUp::Held(_) | GivenUp::Absent) => report.given_up.push(one),
                Err(error) => {
                    let name = one.candidate.name;
                    self.attempts.failed(&name);
                    report.failures.push(OrphanFailure { name, error });
                }
            }
        }
    }

    /// Removes what has waited long enough.
    fn empty_the_trash(&mut self, store: &Store, (now, boot_ms): (&Now, u64), report: &mut OrphanReport) {
        if report.mode != Mode::Delete {
            return;
        }
        let emptied = self.resting.empty(store, (now.ms, boot_ms), &self.stopping);
        report.resting = emptied.resting;
        (report.let_go, report.trash_failed) = (emptied.let_go, emptied.ended.err());
        report.stopped = self.stopping.is_asked();
    }
}

/// Gives a segment up that the manifest lists, which happens only when the host has the say.
fn give_up_segment(store: &Store, ready: &Ready, list: &List, hold_until_ms: u64) -> Result<GivenUp, OrphanError> {
    // One without a file of its own in the list is on its way out already.
    let Some(segment) = list.has(ready) else { return Ok(GivenUp::Absent) };
    let uid = list.uids.iter().find(|(_, listed)| *listed == segment).map(|(uid, _)| *uid);
    uid.map_or(Ok(GivenUp::Absent), |uid| store.give_up_segment(segment, uid, hold_until_ms))
}
