//! Recover: what a log really holds after any crash. Only segments without a footer are looked at, and of a log that rests none.
//!
//! Nothing below the durable end is ever changed. What is torn past the end is set aside where whole batches are in it, and
//! then cleared durably, before anything is appended. Doing it twice gives the same end.

use super::command::Admitted;
use super::descriptors::let_successor_go;
use super::report::OpenReport;
use crate::config::{CheckedConfig, sabotaged};
use crate::error::Latch;
use crate::format::manifest::Edit;
use crate::format::segment::{DATA_START, SegmentHeader};
use crate::id::{Life, LogId, SegmentId, Seq, StoreId};
use crate::log::{Dormant, Log, fall_asleep, is_quiet};
use crate::manifest::state::{Clean, LogRecord, Opening, SegmentRecord, Stage};
use crate::segment::active::{Active, Found};
use crate::segment::closed::{Closed, Loaded};
use crate::segment::mend;
use crate::segment::survey::{self, Expected, Survey};
use crate::segment::time::Latest;
use crate::segment::unopened::Unopened;
use std::rc::Rc;
use strandline_disk::{Disk, DiskError, File, Position};

/// A recovered log and what the manifest must be told of it before it is used.
pub(super) struct Recovered {
    pub(super) log: Log<Admitted>,
    pub(super) edits: Vec<Edit>,
    /// Segments that wait for their footer.
    pub(super) unsealed: Vec<Seq>,
    /// What was found.
    pub(super) report: OpenReport,
}

/// What is needed to recover the logs of a shard.
pub(super) struct Recovery<'a, D> {
    pub(super) disk: &'a D,
    pub(super) config: &'a CheckedConfig,
    pub(super) life: Life,
    pub(super) store: StoreId,
}

impl<D: Disk> Recovery<'_, D> {
    /// Recovers one log. A segment that cannot be read latches its log and stops no other.
    ///
    /// # Errors
    /// No descriptor was to be had: that says nothing of the log.
    pub(super) async fn recover(&self, id: &LogId, record: &LogRecord) -> Result<Recovered, DiskError> {
        let mut log = Log::empty(id.clone());
        (log.start, log.epoch) = (record.start, record.epoch);
        log.fence = record.fence;
        // Also of segments that are gone: no number is used twice.
        log.next_seq = record.last_seq.map_or(Seq::new(0), Seq::next);
        log.end = record.start;
        let report = OpenReport { logs: 1, ..OpenReport::default() };
        let mut recovered = Recovered { log, edits: Vec::new(), unsealed: Vec::new(), report };
        let at_rest = record.clean.map(|clean| clean.seq);
        let is_open = |(seq, record): (&Seq, &SegmentRecord)| match record.stage {
            Stage::Live(_) => Some(*seq) != at_rest,
            Stage::Prepared => at_rest.is_none(),
            _ => false,
        };
        let looked_at = record.segments.iter().any(is_open);
        recovered.report.logs_clean = usize::from(!looked_at);
        recovered.report.logs_recovered = usize::from(looked_at);
        let mut segments = Vec::new();
        let mut successor = None;
        let last = record.segments.keys().next_back();
        for (seq, segment) in &record.segments {
            // Of several that are prepared any may hold the roll: the edit that announces one may come behind that of the next file.
            match segment.stage {
                Stage::Prepared if at_rest.is_some() => {
                    successor = self.keep_unopened(&mut recovered, *seq, segment, last == Some(seq));
                }
                Stage::Prepared => {
                    let adopted = self.look_at_prepared(&mut recovered, *seq, *segment, last == Some(seq)).await?;
                    segments.extend(adopted);
                }
                _ => segments.push((*seq, *segment)),
            }
        }
        recovered.log.closed.reserve_exact(segments.len());
        for (place, (seq, segment)) in segments.iter().enumerate() {
            let next = segments.get(place + 1).and_then(|(_, next)| next.opening());
            self.take(&mut recovered, *seq, segment, next, record).await?;
        }
        let log = &mut recovered.log;
        log.clean = log.dormant.is_some();
        log.ahead = successor;
        if log.active.is_none() && log.dormant.is_none() {
            // What is left may lie below the start and wait to be given up, all behind it having been cut off.
            log.end = log.end.max(log.start);
        }
        log.begin_at(log.end);
        if self.disk.handles().open() > self.config.descriptors_of_a_shard() / 2 {
            let_go(log);
        }
        Ok(recovered)
    }

    /// The prepared file of a log that rests, which holds nothing since then. It is opened when the log is roused.
    fn keep_unopened(
        &self,
        recovered: &mut Recovered,
        seq: Seq,
        record: &SegmentRecord,
        is_last: bool,
    ) -> Option<Unopened> {
        let id = SegmentId { log: recovered.log.id.clone(), seq };
        if is_last && self.suits(record) {
            return Some(unopened(&id, record));
        }
        release(recovered, &id, record);
        None
    }

    /// Takes over one segment. `next` says how the one after it began, which proves where this one ended.
    async fn take(
        &self,
        recovered: &mut Recovered,
        seq: Seq,
        record: &SegmentRecord,
        next: Option<Opening>,
        of_log: &LogRecord,
    ) -> Result<(), DiskError> {
        let id = SegmentId { log: recovered.log.id.clone(), seq };
        let Some(opening) = record.opening() else { return Ok(()) };
        let mut closed = closed(&id, record, opening);
        let log = &mut recovered.log;
        match record.stage {
            Stage::Prepared => {}
            Stage::Sealed { closing, .. } => {
                (closed.end, closed.sealed) = (closing.end, true);
                (closed.logical_bytes, closed.sealed_at_ms) = (closing.logical_bytes, closing.sealed_at_ms);
                closed.latest.store_ms = Some(closing.last_store_time_ms);
                log.end = closing.end;
                note_store_time(log, closing.last_store_time_ms);
                log.closed.push_back(closed);
            }
            Stage::Fenced { end, position, .. } => {
                closed.end = end;
                closed.logical_bytes = position.0.saturating_sub(DATA_START.0);
                log.end = end;
                let sentence = format!("segment {id} was found damaged before; it is kept as it is");
                recovered.report.damaged.push(sentence);
                if next.is_none() {
                    self.note_stamps_of_fenced(log, &mut closed).await?;
                }
                log.closed.push_back(closed);
            }
            Stage::Live(_) => {
                if let Some((closed, dormant)) = at_rest(&id, record, of_log) {
                    log.end = closed.end;
                    log.marked_end = closed.end;
                    note_store_time(log, dormant.last_store_time_ms);
                    log.closed.push_back(closed);
                    log.dormant = Some(dormant);
                    return Ok(());
                }
                let expected = Expected {
                    uid: record.uid,
                    base: closed.base,
                    end: next.map(|next| next.base),
                    size: record.size,
                    // What stands behind the damage is what tells rot from a torn end.
                    look_ahead: if sabotaged!(self.config, TruncateOnBadChecksum) { 0 } else { record.look_ahead },
                    cut: of_log.cut,
                };
                if let Err(source) = self.take_live(recovered, closed, record, expected).await {
                    if source.is_out_of_descriptors() {
                        return Err(source);
                    }
                    let sentence = format!("segment {id} cannot be recovered: {source}; its log takes no appends");
                    recovered.report.damaged.push(sentence);
                    leave_unread(&mut recovered.log, &id, source);
                }
            }
        }
        Ok(())
    }

    /// The manifest does not say how late the batches of a damaged segment are, and where it is the newest the next append goes by that.
    /// One that cannot be read says nothing.
    async fn note_stamps_of_fenced(&self, log: &mut Log<Admitted>, closed: &mut Closed) -> Result<(), DiskError> {
        match closed.load(self.disk).await {
            Ok(loaded) => {
                note_store_time(log, loaded.store_times_ms.1);
                closed.loaded = Some(Rc::new(loaded));
            }
            Err(error) if error.is_out_of_descriptors() => return Err(error),
            Err(error) => tracing::warn!(segment = %closed.id, %error, "how late a damaged segment is cannot be read"),
        }
        Ok(())
    }

    /// Surveys a segment without a footer: it goes on, or waits for its footer, or is fenced because it is damaged.
    async fn take_live(
        &self,
        recovered: &mut Recovered,
        mut closed: Closed,
        record: &SegmentRecord,
        expected: Expected,
    ) -> Result<(), DiskError> {
        let (directory, prepared) = unopened(&closed.id, record).open(self.disk).await?;
        let file = &prepared.file;
        recovered.report.damaged.extend(self.check_header(&closed, file).await?);
        let found = survey::survey(self.disk, file, &expected).await?;
        recovered.report.scanned_bytes += found.end.0;
        note_store_time(&mut recovered.log, found.store_times_ms.1);
        closed.end = found.end_offset;
        closed.logical_bytes = found.end.0.saturating_sub(DATA_START.0);
        recovered.log.end = found.end_offset;
        if expected.end.is_none() && !sabotaged!(self.config, TrustPageCache) {
            mend::secure(self.disk, file, &found).await?;
        }
        if !found.damage.is_empty() {
            let position = found.end;
            closed.loaded = Some(Rc::new(Loaded::surveyed(prepared.file, found)));
            recovered.edits.push(fenced(&closed, position, &mut recovered.report));
            recovered.log.closed.push_back(closed);
            return Ok(());
        }
        if expected.end.is_some() {
            recovered.unsealed.push(closed.id.seq);
            closed.loaded = Some(Rc::new(Loaded::surveyed(prepared.file, found)));
            recovered.log.closed.push_back(closed);
            return Ok(());
        }
        if !sabotaged!(self.config, KeepDeadTail) {
            let aside = mend::neutralise(self.disk, &directory, file, &found, self.life).await?;
            recovered.report.warnings.extend(aside.map(|name| {
                let id = &closed.id;
                format!("segment {id}: whole batches that were never acknowledged were set aside in {name}")
            }));
            // What a truncation dropped had been acknowledged once, and was given up on purpose.
            let torn = found.torn.as_ref().filter(|_| found.dropped_to.is_none());
            recovered.report.torn_bytes += torn.map_or(0, |torn| torn.end.since(found.end));
        }
        let log = &mut recovered.log;
        log.marked_end = found.durable_to;
        let Survey { tail, index, store_times_ms, .. } = found;
        let found = Found { tail, index, store_times_ms };
        log.active = Some(Active::resume(prepared, closed.base, closed.opened_at_ms, found));
        Ok(())
    }

    /// A header block that rotted costs nothing: the manifest knows the file by its uid. It is reported.
    async fn check_header(&self, closed: &Closed, file: &File) -> Result<Option<String>, DiskError> {
        let same = |header: &SegmentHeader| header.uid == closed.uid && header.segment == closed.id;
        Ok(match survey::read_header(self.disk, file).await? {
            Ok(header) if same(&header) => None,
            Ok(_) => Some(format!("the header block of segment {} names another file", closed.id)),
            Err(why) => Some(format!("the header block of segment {} does not verify: {why}", closed.id)),
        })
    }
}

/// Closes all files of a log: others are still to be looked at.
fn let_go(log: &mut Log<Admitted>) {
    let_successor_go(log);
    log.closed.iter_mut().for_each(|closed| closed.loaded = None);
    if is_quiet(log) {
        fall_asleep(log);
    }
}

/// The live segment of a log that rests, as a closed one whose end is known, and what is needed to rouse it. Opens nothing.
#[must_use]
pub fn at_rest(id: &SegmentId, record: &SegmentRecord, of_log: &LogRecord) -> Option<(Closed, Dormant)> {
    let Clean { seq, end, end_position, last_store_time_ms } = of_log.clean.filter(|clean| clean.seq == id.seq)?;
    let latest = Latest { store_ms: Some(last_store_time_ms), client_ms: None };
    let closed = Closed { end, latest, ..closed(id, record, record.opening()?) };
    let file = unopened(id, record);
    Some((closed, Dormant { seq, end_position, last_store_time_ms, file }))
}

/// A segment of which nothing is known yet but how it began.
fn closed(id: &SegmentId, record: &SegmentRecord, opening: Opening) -> Closed {
    Closed {
        id: id.clone(),
        uid: record.uid,
        generation: record.generation,
        size: record.size,
        look_ahead: record.look_ahead,
        anchored: record.written,
        base: opening.base,
        end: opening.base,
        opened_at_ms: opening.opened_at_ms,
        sealed: false,
        logical_bytes: 0,
        sealed_at_ms: 0,
        latest: Latest::default(),
        loaded: None,
        known: None,
    }
}

/// A damaged segment is kept as it is and never appended to; its intact batches stay readable. Reports it, and gives the edit that says
/// so.
pub(super) fn fenced(closed: &Closed, end_position: Position, report: &mut OpenReport) -> Edit {
    for damage in closed.loaded.iter().flat_map(|loaded| &loaded.damage) {
        report.damaged.push(format!(
            "segment {} is damaged at {}: offsets {} to {} cannot be read ({})",
            closed.id, damage.position, damage.from, damage.to, damage.reason
        ));
    }
    Edit::Fenced { segment: closed.id.clone(), end: closed.end, end_position }
}

/// Gives up a file that holds nothing. It is removed when the manifest durably says so.
pub(super) fn release(recovered: &mut Recovered, id: &SegmentId, record: &SegmentRecord) {
    let reason = crate::format::manifest::ReleaseReason::Orphan;
    recovered.edits.push(Edit::released(id, record.uid, record.generation, reason));
}

/// The newest batch says where the stamps stand. An older segment may have larger ones: its stamps lay so far ahead of the clock
/// that the next one went back to true time, and that must not happen twice.
fn note_store_time(log: &mut Log<Admitted>, last_of_segment_ms: u64) {
    if last_of_segment_ms > 0 {
        log.last_store_time_ms = last_of_segment_ms;
    }
}

/// A segment that could not be recovered: its log takes no appends, and reads of what it may hold answer the error.
pub(super) fn leave_unread(log: &mut Log<Admitted>, segment: &SegmentId, source: DiskError) {
    let latch = Box::new(Latch { segment: segment.clone(), position: Position(0), source });
    log.unread = Some(latch.clone());
    log.latch = Some(latch);
}

/// A segment's file, not opened yet.
pub(super) fn unopened(id: &SegmentId, record: &SegmentRecord) -> Unopened {
    Unopened {
        id: id.clone(),
        uid: record.uid,
        generation: record.generation,
        size: record.size,
        look_ahead: record.look_ahead,
        written: record.written,
    }
}
