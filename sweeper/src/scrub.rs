//! One pass of scrubbing: sealed segments are read again, in rounds, so that damage is found while there is still another copy of what is damaged.
//!
//! What does not verify is told, and stays as it is: nothing is ever removed here. An index that does not verify is built again from the data,
//! where that is whole.

use crate::decide::Reading;
use crate::metrics::ScrubCounts;
use crate::stopping::Stopping;
use crate::worker::Pass;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strandline::id::SegmentId;
use strandline::{Rot, ScrubAt, ScrubCursor, Scrubbed, SegmentState, Store, VerbError};

/// What was read is kept durably after so many bytes, and at the end of a pass: a crash has no more than that read twice.
const KEPT_EVERY_BYTES: u64 = 1 << 30;

/// What a pass may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubLimits {
    /// From the beginning of one round over all sealed segments to that of the next. Default 14 days. A store that was never scrubbed waits as long for its first.
    pub round: Duration,
}

impl Default for ScrubLimits {
    fn default() -> ScrubLimits {
        ScrubLimits { round: Duration::from_secs(14 * 24 * 3_600) }
    }
}

/// Why a pass did nothing at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubSkip {
    /// The store did not say what it holds.
    #[error("the store does not say what it holds: {0}; nothing is read again until it does")]
    Inventory(VerbError),
    /// How far the round has come could not be kept.
    #[error("how far the round has come cannot be kept: {0}; nothing is read again until it can")]
    Cursor(VerbError),
}

impl ScrubSkip {
    /// The cause, as metrics label it.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            ScrubSkip::Inventory(_) => "inventory",
            ScrubSkip::Cursor(_) => "cursor",
        }
    }
}

/// What one pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// When it began, wall ms.
    pub at_ms: u64,
    /// When the round began that it went on with, wall ms; none where no round was due.
    pub round_begun_ms: Option<u64>,
    /// When the next round is due, wall ms.
    pub next_round_ms: u64,
    /// Segments that were read to their end, and whole batches in them.
    pub segments: usize,
    /// Whole batches in them.
    pub batches: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Segments that were removed or changed meanwhile.
    pub changed: usize,
    /// What does not verify, with its place. It stays as it is.
    pub rot: Vec<Rot>,
    /// Indexes that did not verify and were built again from the data.
    pub rebuilt: Vec<SegmentId>,
    /// Segments that could not be read, or whose index could not be built again, and why.
    pub failures: Vec<(SegmentId, VerbError)>,
    /// The round has come to its end.
    pub ended: bool,
    /// The worker was stopped: the next pass goes on.
    pub stopped: bool,
}

impl fmt::Display for ScrubReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScrubReport { segments, batches, bytes, changed, .. } = self;
        let Some(begun_ms) = self.round_begun_ms else {
            return writeln!(f, "no round is due before {}", self.next_round_ms);
        };
        let how = if self.ended { "has ended" } else { "goes on" };
        writeln!(
            f,
            "the round of {begun_ms} {how}: {segments} segments, {batches} batches, {bytes} bytes, {changed} changed"
        )?;
        for Rot { segment, position, from, to, reason } in &self.rot {
            writeln!(f, "{segment} is damaged at {position}: offsets {from} to {to} cannot be read ({reason})")?;
        }
        self.rebuilt.iter().try_for_each(|segment| writeln!(f, "the index of {segment} was built again"))?;
        self.failures.iter().try_for_each(|(segment, error)| writeln!(f, "{segment}: {error}"))
    }
}

/// Has a round begin now, whenever the next is due. Clones are heard by the same passes.
#[derive(Clone, Debug, Default)]
pub struct RoundAsked(Arc<AtomicBool>);

impl RoundAsked {
    /// Asks for it.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// Makes passes over one store. How far a round has come is kept by the store.
#[derive(Debug, Default)]
pub struct ScrubSweep {
    stopping: Stopping,
    asked: RoundAsked,
}

impl Pass for ScrubSweep {
    const NAME: &'static str = "scrub";
    type Limits = ScrubLimits;
    type Report = ScrubReport;
    type Skip = ScrubSkip;
    type Counts = ScrubCounts;

    fn pass(&mut self, store: &Store, at: Reading, limits: &ScrubLimits) -> Result<ScrubReport, ScrubSkip> {
        ScrubSweep::pass(self, store, at, limits)
    }

    fn heed(&mut self, stopping: Stopping) {
        self.stopping = stopping;
    }

    /// A pass reads to the end of its round.
    fn is_due_again(_: &ScrubReport) -> bool {
        false
    }

    fn cause(skip: &ScrubSkip) -> &'static str {
        skip.cause()
    }

    fn count(report: &ScrubReport, counts: &mut ScrubCounts) {
        counts.segments += report.segments as u64;
        counts.bytes += report.bytes;
        counts.damaged += report.rot.len() as u64;
        counts.rebuilt += report.rebuilt.len() as u64;
        counts.failed += report.failures.len() as u64;
        counts.rounds += u64::from(report.ended);
        counts.next_round_ms = report.next_round_ms;
    }
}

impl ScrubSweep {
    /// Where somebody has a round begin now.
    #[must_use]
    pub fn asked(&self) -> &RoundAsked {
        &self.asked
    }

    /// One pass at this reading of the clocks: it reads what is left of the round, if one is due.
    ///
    /// # Errors
    /// [`ScrubSkip`]: nothing was read.
    pub fn pass(&mut self, store: &Store, at: Reading, limits: &ScrubLimits) -> Result<ScrubReport, ScrubSkip> {
        let round_ms: u64 = limits.round.as_millis().try_into().unwrap_or(u64::MAX);
        let cursor = next_cursor(store.scrub_cursor(), at.wall_ms, round_ms, self.asked.take());
        let next_round_ms = cursor.begun_ms.saturating_add(round_ms);
        let mut report = ScrubReport { at_ms: at.wall_ms, next_round_ms, ..ScrubReport::default() };
        if store.scrub_cursor().as_ref() != Some(&cursor) {
            let kept = store.keep_scrub_cursor(cursor.clone());
            kept.inspect_err(|_| self.asked.ask()).map_err(ScrubSkip::Cursor)?;
        }
        if cursor.at == ScrubAt::End {
            return Ok(report);
        }
        report.round_begun_ms = Some(cursor.begun_ms);
        let mut last = cursor.clone();
        let (mut unkept, mut is_through) = (0, true);
        for segment in left(store, &cursor.at)? {
            if self.stopping.is_asked() {
                break;
            }
            let before = report.bytes;
            if !self.scrub(store, &segment, &mut report) {
                is_through = false;
                break;
            }
            self.stopping.note_progress();
            last.at = ScrubAt::Behind(segment);
            unkept += report.bytes - before;
            if unkept >= KEPT_EVERY_BYTES {
                unkept = 0;
                keep(store, &last);
            }
        }
        report.stopped = self.stopping.is_asked();
        report.ended = is_through && !report.stopped;
        if report.ended {
            last.at = ScrubAt::End;
        }
        keep(store, &last);
        Ok(report)
    }

    /// Reads one segment. False when the pass ends in front of it: the worker was stopped meanwhile, or the store does not answer just now.
    fn scrub(&self, store: &Store, segment: &SegmentId, report: &mut ScrubReport) -> bool {
        let read = std::cell::Cell::new(store.counters().scrub.bytes);
        let goes_on = || {
            // A large segment takes long, at the rate of scrubbing.
            let bytes = store.counters().scrub.bytes;
            if read.replace(bytes) != bytes {
                self.stopping.note_progress();
            }
            !self.stopping.is_asked()
        };
        match store.scrub_while(segment, goes_on) {
            Ok(None) if self.stopping.is_asked() => return false,
            Ok(None) | Err(VerbError::NoSuchLog { .. } | VerbError::NoSuchSegment { .. }) => report.changed += 1,
            Ok(Some(scrubbed)) => note(store, segment, scrubbed, report),
            Err(error) => {
                tracing::warn!(%segment, %error, "a segment could not be read again");
                let is_of_the_disk = matches!(error, VerbError::Disk(_) | VerbError::TooManyOpen { .. });
                report.failures.push((segment.clone(), error));
                return is_of_the_disk;
            }
        }
        true
    }
}

/// Adds what was found in a segment, and builds its index again where only that is damaged.
fn note(store: &Store, segment: &SegmentId, scrubbed: Scrubbed, report: &mut ScrubReport) {
    let Scrubbed { bytes, batches, rot, index } = scrubbed;
    report.segments += 1;
    report.bytes += bytes;
    report.batches += batches;
    for Rot { position, from, to, reason, .. } in &rot {
        tracing::error!(%segment, %position, %from, %to, reason, "a sealed segment is damaged: restore it from another copy; nothing was changed");
    }
    if let Some(why) = index.filter(|_| rot.is_empty()) {
        tracing::warn!(%segment, why, "the index of a sealed segment is built again");
        match rebuild(store, segment) {
            Ok(()) => report.rebuilt.push(segment.clone()),
            Err(error) => report.failures.push((segment.clone(), error)),
        }
    }
    report.rot.extend(rot);
}

fn rebuild(store: &Store, segment: &SegmentId) -> Result<(), VerbError> {
    match store.find(&segment.log.topic, segment.log.range)? {
        Some(log) => log.rebuild_index(segment.seq).wait(),
        None => Err(VerbError::NoSuchLog { log: segment.log.clone() }),
    }
}

/// A round that could not be kept begins anew after a restart: no harm is done.
fn keep(store: &Store, cursor: &ScrubCursor) {
    if let Err(error) = store.keep_scrub_cursor(cursor.clone()) {
        tracing::warn!(%error, "how far scrubbing has come could not be kept");
    }
}

/// The sealed segments that are left in a round, in the order of their ids.
fn left(store: &Store, at: &ScrubAt) -> Result<Vec<SegmentId>, ScrubSkip> {
    let inventory = store.inventory().map_err(ScrubSkip::Inventory)?;
    let logs = inventory.into_values().flatten();
    let sealed = logs.flat_map(|log| {
        let sealed = log.segments.iter().filter(|segment| segment.state == SegmentState::Sealed);
        sealed.map(|segment| SegmentId { log: log.id.clone(), seq: segment.seq }).collect::<Vec<_>>()
    });
    let mut left: Vec<SegmentId> =
        sealed.filter(|segment| !matches!(at, ScrubAt::Behind(read) if segment <= read)).collect();
    left.sort_unstable();
    Ok(left)
}

/// Where a pass at this time goes on: in the round that is under way, at the start of one that is due, or nowhere. A plain decision.
fn next_cursor(last: Option<ScrubCursor>, now_ms: u64, round_ms: u64, asked: bool) -> ScrubCursor {
    match last {
        Some(cursor) if cursor.at != ScrubAt::End => cursor,
        // A clock that was set back must not put rounds off for ever.
        Some(cursor) if !asked && now_ms.abs_diff(cursor.begun_ms) < round_ms => cursor,
        Some(_) => ScrubCursor { begun_ms: now_ms, at: ScrubAt::Start },
        None if asked => ScrubCursor { begun_ms: now_ms, at: ScrubAt::Start },
        None => ScrubCursor { begun_ms: now_ms, at: ScrubAt::End },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_goes_on_until_it_ends_and_the_next_begins_a_round_later_or_when_it_is_asked_for() {
        let at = |begun_ms, at: &ScrubAt| ScrubCursor { begun_ms, at: at.clone() };
        let (start, end) = (ScrubAt::Start, ScrubAt::End);
        assert_eq!(next_cursor(None, 50, 10, false), at(50, &end), "the first comes a round after the first pass");
        assert_eq!(next_cursor(None, 50, 10, true), at(50, &start));
        assert_eq!(next_cursor(Some(at(50, &end)), 59, 10, false), at(50, &end));
        assert_eq!(next_cursor(Some(at(50, &end)), 60, 10, false), at(60, &start));
        assert_eq!(next_cursor(Some(at(50, &end)), 51, 10, true), at(51, &start));
        assert_eq!(next_cursor(Some(at(50, &start)), 500, 10, true), at(50, &start), "one that is under way is enough");
        assert_eq!(next_cursor(Some(at(50, &end)), 40, 10, false), at(40, &start), "the clock was set back");
        assert_eq!(next_cursor(Some(at(50, &end)), 41, 10, false), at(50, &end));
    }
}
