//! Explain, for operators: why a segment is kept, when it can go, who pins it, and what of a topic's bounds may not be meant. Read from the
//! live store by the same steps as a pass: what is said here is what the next pass does.

use crate::clock::SharedClock;
use crate::decide::{self, KeptLog, LogExplained, Now, Reading, Rhythm, Schedule, SegmentExplained};
use crate::kept;
use crate::limits::{Limits, Skip};
use crate::pass::Sweep;
use crate::pins::PinBoard;
use strandline::id::SegmentId;
use strandline::{LogId, LogInfo, Store};

/// How long a log must have been written to before its rhythm is judged, in milliseconds.
const RHYTHM_MIN_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u128 = 24 * 60 * 60 * 1000;

/// What a pass would know.
pub(crate) struct Asked<'a> {
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a SharedClock,
    pub(crate) pins: &'a PinBoard,
    pub(crate) limits: &'a Limits,
    pub(crate) schedule: Schedule,
}

impl Asked<'_> {
    /// Everything about a log; nothing if there is no such log.
    pub(crate) fn log(&self, log: &LogId, at: Reading) -> Result<Option<LogExplained>, Skip> {
        let now = self.clock.look(at);
        let kept = kept::read(self.store, self.limits, self.pins)?;
        let found = kept.logs.iter().zip(&kept.infos).find(|(kept, _)| kept.id == *log);
        Ok(found.map(|(kept, info)| decide::explain_log(kept, &now, &self.schedule, rhythm(kept, info, &now))))
    }

    /// Everything about a segment; nothing if there is no such segment.
    pub(crate) fn segment(&self, segment: &SegmentId, at: Reading) -> Result<Option<SegmentExplained>, Skip> {
        let explained = self.log(&segment.log, at)?;
        Ok(explained.and_then(|log| log.segments.into_iter().find(|found| found.segment == *segment)))
    }
}

impl Sweep {
    /// Why each segment of a log is kept, and when it can go, at this reading of the clocks. Nothing if there is no such log. Nothing is
    /// changed, and nothing remembered.
    ///
    /// # Errors
    /// [`Skip`]: a pass would be skipped as well.
    pub fn explain_log(
        &self,
        (store, log): (&Store, &LogId),
        at: Reading,
        limits: &Limits,
        schedule: Schedule,
    ) -> Result<Option<LogExplained>, Skip> {
        Asked { store, clock: &self.clock, pins: &self.pins, limits, schedule }.log(log, at)
    }

    /// The same for one segment.
    ///
    /// # Errors
    /// As [`Sweep::explain_log`].
    pub fn explain_segment(
        &self,
        (store, segment): (&Store, &SegmentId),
        at: Reading,
        limits: &Limits,
        schedule: Schedule,
    ) -> Result<Option<SegmentExplained>, Skip> {
        Asked { store, clock: &self.clock, pins: &self.pins, limits, schedule }.segment(segment, at)
    }
}

/// How the log is written to, by what it holds since its oldest segment was opened. Every offset counts as an append. Nothing is said of a
/// log that is empty or young.
fn rhythm(kept: &KeptLog, info: &LogInfo, now: &Now) -> Option<Rhythm> {
    let (oldest, newest) = (kept.segments.first()?, kept.segments.last()?);
    let since_ms = now.ms.saturating_sub(oldest.known_opened_at_ms()?);
    let offsets = newest.end.0.saturating_sub(oldest.base.0);
    if offsets == 0 || since_ms < RHYTHM_MIN_MS {
        return None;
    }
    let since_ms = u128::from(since_ms);
    let a_day =
        |total: u128| u64::try_from((total.saturating_mul(DAY_MS) + since_ms / 2) / since_ms).unwrap_or(u64::MAX);
    Some(Rhythm {
        appends_per_day: a_day(offsets.into()),
        bytes_per_day: a_day(kept.segments.iter().map(|segment| u128::from(segment.byte_size)).sum()),
        segment_bytes: info.segments.last()?.file_bytes,
    })
}
