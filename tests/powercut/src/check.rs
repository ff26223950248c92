//! Check: opens a store after a cut and compares all that is there with what may be.

use crate::clock::Clock;
use crate::content::{self, AFTER_RECOVERY, LOGS};
use crate::history::{Found, Step, after_recovery, ways};
use crate::job::{Again, Checked, Job, Seen, Task, load};
use crate::work::open;
use std::collections::BTreeSet;
use strandline::id::SegmentId;
use strandline::{Log, Offset, RangeNumber, ReadError, Store, layout};
use strandline_tests::tiers::promise::{Broken, Promise};

/// The bytes that one read asks for.
const READ_BYTES: usize = 256 << 10;

/// Makes the check of this job.
///
/// # Errors
/// The history cannot be read. What is wrong with the store is no error.
pub fn check(job: &Job) -> Result<Checked, String> {
    let Task::Check { history, position, again } = &job.task else { return Err("this job is no check".to_owned()) };
    let steps: Vec<Step> = load(history).map_err(|error| format!("the history: {error}"))?;
    let clock = Clock::open(&job.clock).map_err(|error| format!("the clock: {error}"))?;
    let expected = Expected { steps, position: *position, again: again.as_ref(), clock };
    let mut checked = Checked::default();
    match open(job) {
        Ok((store, _)) => {
            check_store(&store, &expected, &mut checked);
            // This process ends now: closing in order would show nothing, and take its time.
            std::mem::forget(store);
        }
        Err(error) => checked.violations.push(Broken::new(Promise::GoesOn, error)),
    }
    Ok(checked)
}

/// What a store is compared with.
struct Expected<'a> {
    steps: Vec<Step>,
    position: u64,
    again: Option<&'a Again>,
    clock: Clock,
}

impl Expected<'_> {
    fn now(&self) -> Result<u64, String> {
        self.clock.read().map(|time| time.events).map_err(|error| format!("the clock: {error}"))
    }

    /// Compares what was found of a log with all the ways in which it may be there.
    fn compare(&self, which: usize, found: Option<&Found>) -> Result<(), Broken> {
        let mut found = found.cloned();
        let again = self.again.and_then(|again| Some((again, again.seen.iter().find(|seen| seen.log == which)?)));
        if let (Some(found), Some((again, seen))) = (&mut found, again) {
            let was = (seen.read <= again.position, seen.appended.is_some_and(|at| at <= again.position));
            after_recovery(found, seen.end, was, AFTER_RECOVERY)?;
        }
        let ways = ways(&self.steps, which, self.position);
        let refusals: Vec<Broken> = ways.iter().filter_map(|way| way.allows(found.as_ref()).err()).collect();
        // What breaks every way breaks the promise that weighs most.
        match refusals.iter().map(|broken| broken.promise).min() {
            Some(promise) if refusals.len() == ways.len() => {
                let seen: Vec<String> = refusals.into_iter().map(|broken| broken.seen).collect();
                Err(Broken::new(promise, seen.join("; or ")))
            }
            _ => Ok(()),
        }
    }
}

fn check_store(store: &Store, expected: &Expected, checked: &mut Checked) {
    let report = store.report();
    checked.torn_bytes = report.torn_bytes;
    for damaged in &report.damaged {
        checked.broke(Promise::Readable, format!("opening says that something is damaged: {damaged}"));
    }
    for log in 0..LOGS {
        match find(store, log) {
            Ok(found) => check_log(found.as_ref(), expected, log, checked),
            Err(error) => checked.broke(Promise::GoesOn, format!("log {log}: {error}")),
        }
    }
    for wrong in misplaced(store).unwrap_or_else(|error| vec![error]) {
        checked.broke(Promise::Placed, wrong);
    }
}

impl Checked {
    fn broke(&mut self, promise: Promise, seen: String) {
        self.violations.push(Broken::new(promise, seen));
    }
}

fn find(store: &Store, log: usize) -> Result<Option<Log>, String> {
    store.find(&content::topic(log), RangeNumber::default()).map_err(|error| error.to_string())
}

fn check_log(log: Option<&Log>, expected: &Expected, which: usize, checked: &mut Checked) {
    let found = match log.map(|log| read(log, which)).transpose() {
        Ok(found) => found,
        Err(error) => return checked.violations.push(error.broken().of(format_args!("log {which}"))),
    };
    checked.batches += found.as_ref().map_or(0, |found| found.batches.len() as u64);
    if let Err(broken) = expected.compare(which, found.as_ref()) {
        checked.violations.push(broken.of(format_args!("log {which}")));
    }
    let (Some(log), Some(found)) = (log, found) else { return };
    match go_on(log, which, &found, expected) {
        Ok(seen) => checked.seen.push(seen),
        Err(error) => checked.broke(Promise::GoesOn, format!("log {which}: {error}")),
    }
}

/// Why a log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The store refused.
    #[error("reading at {0}: {1}")]
    Refused(Offset, ReadError),
    /// It gave what was never appended.
    #[error("{0}")]
    Wrong(String),
}

impl Unread {
    /// The promise that it breaks.
    pub fn broken(&self) -> Broken {
        let promise = match self {
            Unread::Refused(..) => Promise::Readable,
            Unread::Wrong(_) => Promise::Right,
        };
        Broken::new(promise, self.to_string())
    }
}

/// Everything in the log.
///
/// # Errors
/// The first read that was refused, or gave what it should not.
pub fn read(log: &Log, which: usize) -> Result<Found, Unread> {
    let bounds = log.bounds();
    let mut found = Found { start: bounds.start.0, end: bounds.end.0, batches: Vec::new() };
    let mut next = bounds.start;
    while next < bounds.end {
        let read = log.read(next, READ_BYTES).wait().map_err(|error| Unread::Refused(next, error))?;
        let Some(last) = read.batches.last() else {
            return Err(Unread::Wrong(format!("nothing is read at {next}, before the end {}", bounds.end)));
        };
        next = last.end();
        for batch in &read.batches {
            let held = content::recognize(which, batch).map_err(Unread::Wrong)?;
            if found.batches.last().is_some_and(|before| before.end != held.first) {
                return Err(Unread::Wrong(format!("there is a gap before {held:?}")));
            }
            found.batches.push(held);
        }
    }
    // More may have become durable meanwhile.
    found.end = found.end.max(next.0);
    Ok(found)
}

/// Everything in the log verifies.
///
/// # Errors
/// What does not.
pub fn verify(log: &Log) -> Result<(), String> {
    let verified = log.verify(None).wait().map_err(|error| format!("verifying: {error}"))?;
    match verified.rot.first() {
        Some(rot) => Err(format!("verifying finds {rot:?}")),
        None => Ok(()),
    }
}

/// The log takes another batch, right at its end, and gives it back.
fn go_on(log: &Log, which: usize, found: &Found, expected: &Expected) -> Result<Seen, String> {
    let (end, read) = (found.end, expected.now()?);
    verify(log)?;
    let number = AFTER_RECOVERY + u64::from(expected.again.is_some());
    let batch = content::batch(log, which, number);
    let receipt = log.append_blocking(batch).map_err(|error| format!("the append after it: {error}"))?;
    if receipt.first.0 != end {
        return Err(format!("the append after it went to {}, not to the end {end}", receipt.first));
    }
    let appended = Some(expected.now()?);
    let back = log.read(receipt.first, READ_BYTES).wait().map_err(|error| format!("reading it: {error}"))?;
    let held = back.batches.first().ok_or("the append after it is not there")?;
    content::recognize(which, held)?;
    Ok(Seen { log: which, end, read, appended })
}

/// What the manifest lists, told by the names of its directories.
struct Listed {
    live: BTreeSet<String>,
    others: BTreeSet<String>,
}

fn listed(store: &Store) -> Result<Listed, String> {
    let listed = store.listed_segments().map_err(|error| format!("which segments there are: {error}"))?;
    let name = |segment: &SegmentId| layout::directory_name(segment).as_str().to_owned();
    let live = listed.segments.iter().map(|(segment, _)| name(segment)).collect();
    Ok(Listed { live, others: listed.leaving.iter().chain(&listed.making).map(name).collect() })
}

/// Live segments whose directories are gone, and directories that are no segment's and no known stray. What changes while it is looked at counts
/// only where it is so before and after.
///
/// # Errors
/// The store does not say.
pub fn misplaced(store: &Store) -> Result<Vec<String>, String> {
    let before = listed(store)?;
    let entries = store.survey_root().map_err(|error| format!("what lies below the root: {error}"))?;
    let after = listed(store)?;
    let names: BTreeSet<String> = entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
    let gone = before.live.intersection(&after.live).filter(|name| !names.contains(*name));
    let mut wrong: Vec<String> = gone.map(|name| format!("the manifest lists {name}, and it is gone")).collect();
    let strays = &store.report().strays;
    let is_known = |name: &String| {
        let of = |listed: &Listed| listed.live.contains(name) || listed.others.contains(name);
        of(&before) || of(&after) || strays.iter().any(|stray| stray.contains(name.as_str()))
    };
    let back = names.iter().filter(|name| !layout::candidate_ids(name).is_empty() && !is_known(name));
    wrong.extend(back.map(|name| {
        let (report, others) = (store.report(), &before.others);
        format!("{name} is no segment, and is left there; made or removed: {others:?}; opening said {report:?}")
    }));
    Ok(wrong)
}
