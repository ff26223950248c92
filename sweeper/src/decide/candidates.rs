//! The first step of the orphan sweep: which directories are worth asking the authority about.

use super::attempts::Attempts;
use super::clock::{Hold, Now};
use super::entry::{DirectoryName, Entry, Evidence, Header, Kind, readings};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use strandline::id::{SegmentId, StoreId, Uid};

/// How old a directory is at least before it is a candidate, in milliseconds, unless the configuration says otherwise.
pub const AGE_MIN_MS: u64 = 600_000;
/// How many candidates a pass tracks at most, unless the configuration says otherwise.
pub const TRACKED_MAX: usize = 10_000;

/// Who says which segments there are.
#[derive(Clone, Copy, Debug)]
pub enum Authority<'a> {
    /// The store's own manifest. Its segments are taken out before the cap, which live directories must not use up.
    Own {
        /// All segments that it lists.
        known: &'a HashSet<SegmentId>,
    },
    /// The host, who is asked page by page. The cap is applied to what he does not explain.
    Host,
}

/// What the store knows of itself, and the limits of a pass.
#[derive(Clone, Copy, Debug)]
pub struct Survey<'a> {
    /// Which store it is.
    pub store: StoreId,
    /// Which files the manifest lists, and for which segment.
    pub live_uids: &'a HashMap<Uid, SegmentId>,
    /// Who says which segments there are.
    pub authority: Authority<'a>,
    /// How old a directory is at least, in milliseconds.
    pub age_min_ms: u64,
    /// How many candidates are tracked at most.
    pub tracked_max: usize,
}

/// A directory worth asking about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: DirectoryName,
    /// Every segment that the name can mean.
    pub readings: Vec<SegmentId>,
    /// What its data file says.
    pub evidence: Evidence,
    /// Its ctime, wall ms.
    pub ctime_ms: u64,
    /// How old it is, in milliseconds: the younger of its header and its ctime.
    pub age_ms: u64,
}

/// Why a directory is reported to an operator and never removed, whoever does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It holds something without a valid header block.
    NoHeader,
    /// It could not be read.
    Unread,
    /// Its age is unknown.
    AgeUnknown,
    /// Its file belongs to another store.
    AnotherStore(StoreId),
    /// Its file belongs to another segment, as in a copy by hand.
    AnotherSegment(SegmentId),
    /// Its file is in use for another segment.
    LiveUid(SegmentId),
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reported::NoHeader => f.write_str("it holds data without a valid header block"),
            Reported::Unread => f.write_str("it could not be read"),
            Reported::AgeUnknown => f.write_str("its age is unknown"),
            Reported::AnotherStore(store) => write!(f, "its file belongs to the store {store}"),
            Reported::AnotherSegment(segment) => write!(f, "its file belongs to the segment {segment}"),
            Reported::LiveUid(segment) => write!(f, "its file is in use for the segment {segment}"),
        }
    }
}

/// What the first step found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Whom to ask about, oldest first, ties by name.
    pub found: Vec<Candidate>,
    /// How many the cap left for a later pass.
    pub left_out: usize,
    /// What an operator should look at.
    pub reported: Vec<(DirectoryName, Reported)>,
    /// How many directories can be a segment's at all.
    pub directories: usize,
    /// How many of those the manifest knows, in mode own.
    pub known: usize,
    /// How many are too young.
    pub young: usize,
}

enum Sorted {
    Foreign,
    Known,
    Young,
    Reported(Reported),
    Candidate(Candidate),
}

/// The directories that are old enough to be an orphan and can be a segment's, oldest first.
///
/// Those that could not be removed before come last, so that they never keep the others from being tracked.
///
/// # Errors
/// The [`Hold`] while no age counts: the pass is skipped.
pub fn candidates(entries: &[Entry], now: &Now, survey: &Survey<'_>, attempts: &Attempts) -> Result<Candidates, Hold> {
    if let Some(hold) = now.held {
        return Err(hold);
    }
    let mut all = Candidates::default();
    for entry in entries {
        let sorted = sort(entry, now, survey);
        if !matches!(sorted, Sorted::Foreign) {
            all.directories = all.directories.saturating_add(1);
        }
        match sorted {
            Sorted::Foreign => {}
            Sorted::Known => all.known = all.known.saturating_add(1),
            Sorted::Young => all.young = all.young.saturating_add(1),
            Sorted::Reported(why) => all.reported.push((entry.name.clone(), why)),
            Sorted::Candidate(candidate) => all.found.push(candidate),
        }
    }
    all.reported.sort_by(|one, other| one.0.cmp(&other.0));
    sort_oldest_first(&mut all.found, attempts);
    if matches!(survey.authority, Authority::Own { .. }) {
        all.left_out = all.found.len().saturating_sub(survey.tracked_max);
        all.found.truncate(survey.tracked_max);
    }
    Ok(all)
}

/// Oldest first, ties by name; what could not be removed before comes last.
pub(super) fn sort_oldest_first(candidates: &mut [Candidate], attempts: &Attempts) {
    let failures = |candidate: &Candidate| attempts.failures(&candidate.name);
    candidates.sort_by(|one, other| {
        (failures(one), Reverse(one.age_ms), &one.name).cmp(&(failures(other), Reverse(other.age_ms), &other.name))
    });
}

fn sort(entry: &Entry, now: &Now, survey: &Survey<'_>) -> Sorted {
    if entry.kind != Kind::Directory {
        return Sorted::Foreign;
    }
    let readings = readings(&entry.name);
    if readings.is_empty() {
        return Sorted::Foreign;
    }
    if let Authority::Own { known } = survey.authority
        && readings.iter().any(|id| known.contains(id))
    {
        return Sorted::Known;
    }
    let Some(age_ms) = age_ms(entry, now) else { return Sorted::Reported(Reported::AgeUnknown) };
    if age_ms < survey.age_min_ms {
        // A directory in the making has no valid header for a moment: what is young is not worth a report either.
        return Sorted::Young;
    }
    if let Some(why) = suspicion(&entry.evidence, &readings, survey) {
        return Sorted::Reported(why);
    }
    let (name, evidence) = (entry.name.clone(), entry.evidence.clone());
    Sorted::Candidate(Candidate { name, readings, evidence, ctime_ms: entry.ctime_ms, age_ms })
}

/// The younger of both ages; nothing if one of them is unknown.
fn age_ms(entry: &Entry, now: &Now) -> Option<u64> {
    let known = |ms: u64| if ms == 0 { None } else { now.age_ms(ms) };
    let changed = known(entry.ctime_ms)?;
    match entry.evidence {
        Evidence::Live { opened_at_ms, .. } => Some(changed.min(known(opened_at_ms)?)),
        _ => Some(changed),
    }
}

/// What speaks against a removal even if nobody knows the directory.
fn suspicion(evidence: &Evidence, readings: &[SegmentId], survey: &Survey<'_>) -> Option<Reported> {
    let (header, belongs): (&Header, bool) = match evidence {
        Evidence::Empty | Evidence::AllZero => return None,
        Evidence::NoHeader => return Some(Reported::NoHeader),
        Evidence::Unread => return Some(Reported::Unread),
        Evidence::Spare(header) => (header, false),
        Evidence::Prepared(header) | Evidence::Live { header, .. } => (header, true),
    };
    if header.store != survey.store {
        return Some(Reported::AnotherStore(header.store));
    }
    if belongs && !readings.contains(&header.segment) {
        return Some(Reported::AnotherSegment(header.segment.clone()));
    }
    // The manifest may list this very directory: in mode host the host decides, and a segment that he does not know is an orphan.
    let live = survey.live_uids.get(&header.uid)?;
    (!readings.contains(live)).then(|| Reported::LiveUid(live.clone()))
}
