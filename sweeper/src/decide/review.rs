//! The third step of the orphan sweep: which unexplained directories have been seen often enough, and the brake.

use super::attempts::Attempts;
use super::authority::Unexplained;
use super::candidates::{Candidate, TRACKED_MAX, sort_oldest_first};
use super::entry::{DirectoryName, Evidence};
use super::mode::Mode;
use std::collections::BTreeMap;
use std::fmt;

/// More than so many directories ready at once stop a pass.
pub const READY_MAX: usize = 50;
/// From so many ready directories on, a tenth of all directories stops a pass as well.
pub const SHARE_READY_MIN: usize = 10;

/// How often a directory has been unexplained, pass after pass, and what it looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Consecutive passes.
    pub passes: u32,
    /// An operator said that it may go: it does not count for the brake, and the brake does not hold it.
    pub confirmed: bool,
    evidence: Evidence,
    ctime_ms: u64,
}

impl Sighting {
    /// Whether this is what was sighted, unchanged.
    fn is_of(&self, candidate: &Candidate) -> bool {
        self.evidence == candidate.evidence && self.ctime_ms == candidate.ctime_ms
    }
}

/// The sightings that one pass hands to the next. In memory only: a restart starts again, and a skipped pass leaves them alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings(BTreeMap<DirectoryName, Sighting>);

impl Sightings {
    /// How many directories are tracked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sightings of this name.
    #[must_use]
    pub fn get(&self, name: &DirectoryName) -> Option<&Sighting> {
        self.0.get(name)
    }

    /// The sighting of a candidate in this pass: one more, or the first again if it changed since.
    fn next(&self, candidate: &Candidate) -> Sighting {
        let same = self.get(&candidate.name).filter(|sighting| sighting.is_of(candidate));
        let passes = same.map_or(1, |sighting| sighting.passes.saturating_add(1));
        let confirmed = same.is_some_and(|sighting| sighting.confirmed);
        Sighting { passes, confirmed, evidence: candidate.evidence.clone(), ctime_ms: candidate.ctime_ms }
    }

    /// An operator has looked at these and says that they are orphans. That holds for what was sighted as he saw it, and for as long as it stays so.
    pub fn confirm<'a>(&mut self, seen: impl IntoIterator<Item = &'a Candidate>) {
        for candidate in seen {
            if let Some(sighting) = self.0.get_mut(&candidate.name).filter(|sighting| sighting.is_of(candidate)) {
                sighting.confirmed = true;
            }
        }
    }

    /// Whether an operator confirmed what bears this name.
    fn is_confirmed(&self, name: &DirectoryName) -> bool {
        self.get(name).is_some_and(|sighting| sighting.confirmed)
    }
}

/// The limits of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewLimits {
    /// What the sweep may do.
    pub mode: Mode,
    /// Consecutive passes in which a directory is unexplained before it is ready; 0 counts as 1.
    pub sightings: u32,
    /// Directories that a pass removes at most.
    pub removals_per_pass: usize,
    /// Directories that are tracked at most.
    pub tracked_max: usize,
    /// There is no brake. Meant for a store that is being cleared out; of a store in use an operator confirms what the brake stopped.
    pub mass_confirmed: bool,
}

impl Default for ReviewLimits {
    fn default() -> ReviewLimits {
        ReviewLimits {
            mode: Mode::Report,
            sightings: 2,
            removals_per_pass: 50,
            tracked_max: TRACKED_MAX,
            mass_confirmed: false,
        }
    }
}

/// Why a pass stops and asks: so many orphans at once are more likely a wrong list than orphans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brake {
    /// Too many.
    Count {
        /// How many are ready.
        ready: usize,
    },
    /// Too large a share.
    Share {
        /// How many are ready.
        ready: usize,
        /// Of how many.
        directories: usize,
    },
}

impl fmt::Display for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Brake::Count { ready } => {
                write!(f, "{ready} directories are ready at once, more than {READY_MAX}: an operator must confirm")
            }
            Brake::Share { ready, directories } => write!(
                f,
                "{ready} of {directories} directories are ready at once, more than a tenth: an operator must confirm"
            ),
        }
    }
}

/// A directory that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// What it is, to be compared with what is there when it goes.
    pub candidate: Candidate,
    /// In how many consecutive passes it was unexplained.
    pub passes: u32,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Candidate { name, evidence, age_ms, .. } = &self.candidate;
        write!(f, "{name}: unexplained in {} passes, {age_ms} ms old, {evidence}", self.passes)
    }
}

/// A directory that is unexplained and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldOrphan {
    /// What it is.
    pub candidate: Candidate,
    /// In how many consecutive passes it was unexplained.
    pub passes: u32,
    /// Why it stays.
    pub why: WhyHeld,
}

impl fmt::Display for HeldOrphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate.name, self.why)
    }
}

/// Why an unexplained directory stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyHeld {
    /// It has not been seen often enough.
    Sightings {
        /// How often it was.
        seen: u32,
        /// How often it must be.
        needed: u32,
    },
    /// The brake stopped the pass.
    Braked(Brake),
    /// The sweep only reports.
    ReportOnly,
    /// The pass is full: the next one goes on.
    PassCap(usize),
}

impl fmt::Display for WhyHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyHeld::Sightings { seen, needed } => write!(f, "unexplained in {seen} of {needed} passes"),
            WhyHeld::Braked(brake) => brake.fmt(f),
            WhyHeld::ReportOnly => f.write_str("would be removed, but the orphan sweep does not delete"),
            WhyHeld::PassCap(cap) => write!(f, "over the cap of {cap} directories in a pass"),
        }
    }
}

/// What a pass decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// What goes, in the order of names.
    pub ready: Vec<Ready>,
    /// What is tracked and stays.
    pub held: Vec<HeldOrphan>,
    /// How many unexplained directories are not tracked. Their removal is delayed.
    pub left_out: usize,
    /// Why nothing goes, if the brake stopped the pass.
    pub brake: Option<Brake>,
    /// What the next pass continues with.
    pub sightings: Sightings,
}

/// Counts this pass's sightings and says which directories are ready.
///
/// Whatever is not among the unexplained loses its sightings; so does a directory that is not the one it was.
#[must_use]
pub fn review(unexplained: &Unexplained, sightings: &Sightings, attempts: &Attempts, limits: &ReviewLimits) -> Review {
    let mut tracked = unexplained.candidates.clone();
    sort_oldest_first(&mut tracked, attempts);
    let mut review = Review { left_out: tracked.len().saturating_sub(limits.tracked_max), ..Review::default() };
    tracked.truncate(limits.tracked_max);
    let needed = limits.sightings.max(1);

    let mut ready = Vec::new();
    for candidate in tracked {
        let sighting = sightings.next(&candidate);
        let passes = sighting.passes;
        review.sightings.0.insert(candidate.name.clone(), sighting);
        match passes >= needed {
            true => ready.push(Ready { candidate, passes }),
            false => {
                let why = WhyHeld::Sightings { seen: passes, needed };
                review.held.push(HeldOrphan { candidate, passes, why });
            }
        }
    }
    ready.sort_by(|one, other| {
        let key = |ready: &Ready| (attempts.failures(&ready.candidate.name), ready.candidate.name.clone());
        key(one).cmp(&key(other))
    });
    // What failed before had passed the brake once. It must not pull it for ever.
    let is_fresh = |name: &DirectoryName| attempts.failures(name) == 0 && !review.sightings.is_confirmed(name);
    let fresh = ready.iter().filter(|ready| is_fresh(&ready.candidate.name)).count();
    review.brake = brake(fresh, unexplained.directories).filter(|_| !limits.mass_confirmed);
    release(ready, limits, &mut review);
    review
}

/// Counted before the cap of a pass: the cap must not hide from the brake how many there are.
fn brake(ready: usize, directories: usize) -> Option<Brake> {
    if ready > READY_MAX {
        return Some(Brake::Count { ready });
    }
    let is_large_share = ready >= SHARE_READY_MIN && ready.saturating_mul(10) > directories;
    is_large_share.then_some(Brake::Share { ready, directories })
}

fn release(ready: Vec<Ready>, limits: &ReviewLimits, review: &mut Review) {
    for one in ready {
        let brake = review.brake.filter(|_| !review.sightings.is_confirmed(&one.candidate.name));
        let why = match (limits.mode, brake) {
            (Mode::Report | Mode::Off, _) => WhyHeld::ReportOnly,
            (Mode::Delete, Some(brake)) => WhyHeld::Braked(brake),
            (Mode::Delete, None) if review.ready.len() >= limits.removals_per_pass => {
                WhyHeld::PassCap(limits.removals_per_pass)
            }
            (Mode::Delete, None) => {
                review.ready.push(one);
                continue;
            }
        };
        review.held.push(HeldOrphan { candidate: one.candidate, passes: one.passes, why });
    }
}
