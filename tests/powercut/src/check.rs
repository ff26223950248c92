//! Check: opens a store after a cut and compares all that is there with what may be.

use crate::content::{self, AFTER_RECOVERY, LOGS};
use crate::history::{Found, Step, ways};
use crate::job::{Checked, Job, Task, load};
use crate::work::open;
use std::collections::BTreeSet;
use strandline::id::SegmentId;
use strandline::{Log, RangeNumber, Store, layout};

/// The bytes that one read asks for.
const READ_BYTES: usize = 256 << 10;

/// Makes the check of this job.
///
/// # Errors
/// The history cannot be read. What is wrong with the store is no error.
pub fn check(job: &Job) -> Result<Checked, String> {
    let Task::Check { history, position } = &job.task else { return Err("this job is no check".to_owned()) };
    let steps: Vec<Step> = load(history).map_err(|error| format!("the history: {error}"))?;
    let mut checked = Checked::default();
    match open(job) {
        Ok(store) => check_store(&store, &steps, *position, &mut checked),
        Err(error) => checked.violations.push(error),
    }
    Ok(checked)
}

fn check_store(store: &Store, steps: &[Step], position: u64, checked: &mut Checked) {
    let report = store.report();
    checked.torn_bytes = report.torn_bytes;
    checked.strays = report.strays.len() as u64;
    for damaged in &report.damaged {
        checked.violations.push(format!("opening says that something is damaged: {damaged}"));
    }
    for log in 0..LOGS {
        match find(store, log) {
            Ok(found) => check_log(found.as_ref(), steps, log, position, checked),
            Err(error) => checked.violations.push(format!("log {log}: {error}")),
        }
    }
    checked.violations.extend(misplaced(store).unwrap_or_else(|error| vec![error]));
}

fn find(store: &Store, log: usize) -> Result<Option<Log>, String> {
    store.find(&content::topic(log), RangeNumber::default()).map_err(|error| error.to_string())
}

fn check_log(log: Option<&Log>, steps: &[Step], which: usize, position: u64, checked: &mut Checked) {
    let found = match log.map(|log| read(log, which)).transpose() {
        Ok(found) => found,
        Err(error) => return checked.violations.push(format!("log {which}: {error}")),
    };
    checked.batches += found.as_ref().map_or(0, |found| found.batches.len() as u64);
    let ways = ways(steps, which, position);
    let refusals: Vec<String> = ways.iter().filter_map(|way| way.allows(found.as_ref()).err()).collect();
    if refusals.len() == ways.len() {
        checked.violations.push(format!("log {which}: {}", refusals.join("; or ")));
    }
    let (Some(log), Some(found)) = (log, found) else { return };
    if let Err(error) = verify(log).and_then(|()| go_on(log, which, found.end)) {
        checked.violations.push(format!("log {which}: {error}"));
    }
}

/// Everything in the log.
fn read(log: &Log, which: usize) -> Result<Found, String> {
    let bounds = log.bounds();
    let mut found = Found { start: bounds.start.0, end: bounds.end.0, batches: Vec::new() };
    let mut next = bounds.start;
    while next < bounds.end {
        let read = log.read(next, READ_BYTES).wait().map_err(|error| format!("reading at {next}: {error}"))?;
        let Some(last) = read.batches.last() else {
            return Err(format!("nothing is read at {next}, before the end {}", bounds.end));
        };
        next = last.end();
        for batch in &read.batches {
            let held = content::recognize(which, batch)?;
            if found.batches.last().is_some_and(|before| before.end != held.first) {
                return Err(format!("there is a gap before {held:?}"));
            }
            found.batches.push(held);
        }
    }
    Ok(found)
}

fn verify(log: &Log) -> Result<(), String> {
    let verified = log.verify(None).wait().map_err(|error| format!("verifying: {error}"))?;
    match verified.rot.first() {
        Some(rot) => Err(format!("verifying finds {rot:?}")),
        None => Ok(()),
    }
}

/// The log takes another batch, right at its end, and gives it back.
fn go_on(log: &Log, which: usize, end: u64) -> Result<(), String> {
    let batch = content::batch(log, which, AFTER_RECOVERY);
    let receipt = log.append_blocking(batch).map_err(|error| format!("the append after it: {error}"))?;
    if receipt.first.0 != end {
        return Err(format!("the append after it went to {}, not to the end {end}", receipt.first));
    }
    let read = log.read(receipt.first, READ_BYTES).wait().map_err(|error| format!("reading it: {error}"))?;
    let held = read.batches.first().ok_or("the append after it is not there")?;
    content::recognize(which, held).map(drop)
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
fn misplaced(store: &Store) -> Result<Vec<String>, String> {
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
    wrong.extend(
        back.map(|name| format!("{name} is there, and neither a segment, nor being made or removed, nor a stray")),
    );
    Ok(wrong)
}
