//! Recover: what a log really holds after any crash. Only segments without a footer are looked at.
//!
//! Nothing below the durable end is ever changed. What is torn past the end is set aside where whole batches are in it, and
//! then cleared durably, before anything is appended. Doing it twice gives the same end.

use super::command::Admitted;
use super::open::OpenReport;
use crate::config::{CheckedConfig, sabotaged};
use crate::error::Latch;
use crate::format::manifest::{Edit, ReleaseReason};
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{Epoch, Life, LogId, Offset, SegmentId, Seq, StoreId};
use crate::layout;
use crate::log::{Log, Successor};
use crate::manifest::state::{LogRecord, Opening, SegmentRecord, Stage};
use crate::segment::active::{Active, Found, PreparedFile};
use crate::segment::closed::{self, Closed, Loaded};
use crate::segment::survey::{self, Expected, Survey};
use std::rc::Rc;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, File, OpenFile, Position, transfer};

/// A recovered log and what the manifest must be told of it before it is used.
pub(super) struct Recovered {
    pub(super) log: Log<Admitted>,
    pub(super) edits: Vec<Edit>,
    /// Segments that wait for their footer.
    pub(super) unsealed: Vec<Seq>,
}

/// What is needed to recover a log.
pub(super) struct Recovery<'a, D> {
    pub(super) disk: &'a D,
    pub(super) config: &'a CheckedConfig,
    pub(super) life: Life,
    pub(super) store: StoreId,
    pub(super) epoch: Epoch,
    pub(super) report: &'a mut OpenReport,
}

/// A segment whose file was opened.
struct Opened {
    directory: Directory,
    file: File,
}

impl<D: Disk> Recovery<'_, D> {
    /// Recovers one log. A segment that cannot be read latches its log and stops no other.
    pub(super) async fn recover(&mut self, id: &LogId, record: &LogRecord) -> Recovered {
        let mut log = Log::empty(id.clone());
        (log.start, log.epoch) = (record.start, record.epoch);
        self.epoch = record.epoch;
        // Also of segments that are gone: no number is used twice.
        log.next_seq = record.last_seq.map_or(Seq::new(0), Seq::next);
        log.end = record.start;
        let mut recovered = Recovered { log, edits: Vec::new(), unsealed: Vec::new() };
        let mut segments: Vec<(Seq, SegmentRecord)> =
            record.segments.iter().map(|(seq, record)| (*seq, *record)).collect();
        let prepared = segments.pop_if(|(_, record)| record.stage == Stage::Prepared);
        let adopted = match prepared {
            Some((seq, record)) => self.look_at_prepared(&mut recovered, seq, record).await,
            None => None,
        };
        segments.extend(adopted);
        for (place, (seq, record)) in segments.iter().enumerate() {
            let next = segments.get(place + 1).and_then(|(_, next)| next.opening());
            self.take(&mut recovered, *seq, record, next).await;
        }
        let log = &mut recovered.log;
        log.begin_at(log.end);
        recovered
    }

    /// A prepared segment is live when a batch of it verifies: the roll was one write, and the edit comes after it.
    async fn look_at_prepared(
        &mut self,
        recovered: &mut Recovered,
        seq: Seq,
        mut record: SegmentRecord,
    ) -> Option<(Seq, SegmentRecord)> {
        let id = SegmentId { log: recovered.log.id.clone(), seq };
        match self.survey_prepared(&id, &record).await {
            Ok(Some(opening)) => {
                recovered.edits.push(Edit::Live {
                    segment: id,
                    base: opening.base,
                    opened_at_ms: opening.opened_at_ms,
                });
                record.stage = Stage::Live(opening);
                Some((seq, record))
            }
            Ok(None) if !self.suits(&record) => {
                self.discard(recovered, &id, &record).await;
                None
            }
            Ok(None) => {
                match self.reset(&id, &record).await {
                    Ok(prepared) => recovered.log.successor = Successor::Ready(prepared),
                    Err(error) => self.forget(recovered, &id, &record, error),
                }
                None
            }
            Err(error) => {
                self.forget(recovered, &id, &record, error);
                None
            }
        }
    }

    /// Whether a prepared file takes the largest batch of this configuration, which may not be the one that it was made with.
    fn suits(&self, record: &SegmentRecord) -> bool {
        record.size >= self.config.segment_bytes && record.look_ahead >= self.config.look_ahead()
    }

    /// Gives up a prepared file that holds nothing. Should the process die before the manifest forgets it, it is missing at the next
    /// open, and forgotten then.
    async fn discard(&mut self, recovered: &mut Recovered, id: &SegmentId, record: &SegmentRecord) {
        if let Err(error) = self.remove(id, record).await {
            self.report
                .warnings
                .push(format!("segment {id} is too small for this configuration and stays behind: {error}"));
        }
        self.release(recovered, id, record);
    }

    async fn remove(&self, id: &SegmentId, record: &SegmentRecord) -> Result<(), DiskError> {
        let (root, name) = (self.disk.root(), layout::directory_name(id));
        let directory = transfer::open_directory(self.disk, &root, &name).await?;
        transfer::unlink(self.disk, &directory, &layout::data_file_name(record.generation)).await?;
        transfer::remove_directory(self.disk, &root, &name).await
    }

    fn release(&self, recovered: &mut Recovered, id: &SegmentId, record: &SegmentRecord) {
        let (uid, generation) = (record.uid, record.generation);
        let reason = ReleaseReason::Orphan;
        recovered.edits.push(Edit::Released { segment: id.clone(), uid, generation, reason, hold_until_ms: 0 });
        recovered.edits.push(Edit::Gone { uid });
    }

    /// A prepared file that is missing or unreadable holds nothing that was acknowledged: the manifest forgets it.
    fn forget(&mut self, recovered: &mut Recovered, id: &SegmentId, record: &SegmentRecord, error: DiskError) {
        self.report.warnings.push(format!("segment {id} had been prepared and cannot be used: {error}"));
        if !error.is_absent() {
            // It may hold records for all that is known: nothing may be assumed, so the log stays as it is.
            leave_unread(&mut recovered.log, id, error);
            return;
        }
        self.release(recovered, id, record);
    }

    async fn survey_prepared(&self, id: &SegmentId, record: &SegmentRecord) -> Result<Option<Opening>, DiskError> {
        let opened = self.open(id, record).await?;
        let header = survey::read_header(self.disk, &opened.file).await?;
        // The uid in every batch's checksum tells whose file it is, also where the header block was torn or rotted.
        let header = header.ok().filter(|header| header.uid == record.uid && header.state == SegmentState::Live);
        let announced = header.is_some();
        let first = survey::first_batch(self.disk, &opened.file, record.uid, record.look_ahead).await?;
        let Some((position, first, durable_to)) = first else { return Ok(None) };
        let opened_at_ms = header.as_ref().map_or(first.store_time_ms, |header| header.opened_at_ms);
        let base = header.map_or(first.first, |header| header.base);
        // A first batch that does not verify is torn, unless a later one proves that it had been durable. Without a header block
        // the batch that was found is the first where it stands first, or where all before it had been durable.
        let leads = if announced { first.first == base } else { position.0 == BLOCK as u64 || durable_to >= base };
        let proven = leads || durable_to > base;
        let opening = Opening { base, opened_at_ms };
        if proven && !announced {
            self.write_header(id, record, &opened.file, SegmentState::Live, opening).await?;
        }
        Ok(proven.then_some(opening))
    }

    /// Writes the header block of a segment whose first batch reached the disk without it, or the other way round.
    async fn write_header(
        &self,
        id: &SegmentId,
        record: &SegmentRecord,
        file: &File,
        state: SegmentState,
        opening: Opening,
    ) -> Result<(), DiskError> {
        let header = SegmentHeader {
            uid: record.uid,
            store: self.store,
            state,
            segment: id.clone(),
            generation: record.generation,
            base: opening.base,
            opened_at_ms: opening.opened_at_ms,
            epoch: self.epoch,
            size: record.size,
            look_ahead: record.look_ahead,
        };
        let buffer = transfer::buffer_of(self.disk, &header.encode()).await;
        transfer::write(self.disk, file, buffer, Position(0), true).await.1
    }

    /// Makes a prepared segment as good as new: a roll that was torn may have left half of its first write.
    async fn reset(&self, id: &SegmentId, record: &SegmentRecord) -> Result<PreparedFile, DiskError> {
        let opened = self.open(id, record).await?;
        let start = Position(BLOCK as u64);
        let window =
            survey::read_window(self.disk, &opened.file, start, start.plus(record.look_ahead as usize)).await?;
        if let Some(last) = crate::format::scan::last_nonzero(&window) {
            self.clear(&opened.file, start, &[], start.plus(last + 1)).await?;
        }
        let header = survey::read_header(self.disk, &opened.file).await?;
        if !header.is_ok_and(|header| header.uid == record.uid && header.state == SegmentState::Prepared) {
            // The base offset of the torn roll must not be taken for that of the next one.
            let opening = Opening { base: Offset(0), opened_at_ms: 0 };
            self.write_header(id, record, &opened.file, SegmentState::Prepared, opening).await?;
        }
        Ok(prepared_file(id, record, opened.file))
    }

    async fn open(&self, id: &SegmentId, record: &SegmentRecord) -> Result<Opened, DiskError> {
        let (directory, file) = closed::open_file(self.disk, id, record.generation).await?;
        Ok(Opened { directory, file })
    }

    /// Takes over one segment. `next` says how the one after it began, which proves where this one ended.
    async fn take(&mut self, recovered: &mut Recovered, seq: Seq, record: &SegmentRecord, next: Option<Opening>) {
        let id = SegmentId { log: recovered.log.id.clone(), seq };
        let Some(opening) = record.opening() else { return };
        let mut closed = Closed {
            id: id.clone(),
            uid: record.uid,
            generation: record.generation,
            size: record.size,
            look_ahead: record.look_ahead,
            base: opening.base,
            end: opening.base,
            opened_at_ms: opening.opened_at_ms,
            sealed: false,
            loaded: None,
        };
        let log = &mut recovered.log;
        match record.stage {
            Stage::Prepared => {}
            Stage::Sealed { closing, .. } => {
                (closed.end, closed.sealed) = (closing.end, true);
                log.end = closing.end;
                note_store_time(log, closing.last_store_time_ms);
                log.closed.push_back(closed);
            }
            Stage::Fenced { end, .. } => {
                closed.end = end;
                log.end = end;
                self.report.damaged.push(format!("segment {id} was found damaged before; it is kept as it is"));
                log.closed.push_back(closed);
            }
            Stage::Live(_) => {
                if let Err(source) = self.take_live(recovered, closed, record, next.map(|next| next.base)).await {
                    self.report
                        .damaged
                        .push(format!("segment {id} cannot be recovered: {source}; its log takes no appends"));
                    leave_unread(&mut recovered.log, &id, source);
                }
            }
        }
    }

    /// Surveys a segment without a footer: it goes on, or waits for its footer, or is fenced because it is damaged.
    async fn take_live(
        &mut self,
        recovered: &mut Recovered,
        mut closed: Closed,
        record: &SegmentRecord,
        end: Option<Offset>,
    ) -> Result<(), DiskError> {
        let opened = self.open(&closed.id, record).await?;
        self.check_header(&closed, &opened.file).await?;
        let expected =
            Expected { uid: record.uid, base: closed.base, end, size: record.size, look_ahead: record.look_ahead };
        let found = survey::survey(self.disk, &opened.file, &expected).await?;
        self.report.scanned_bytes += found.end.0;
        let log = &mut recovered.log;
        note_store_time(log, found.store_times_ms.1);
        closed.end = found.end_offset;
        log.end = found.end_offset;
        if end.is_none() {
            self.secure(&opened.file, &found).await?;
        }
        if !found.damage.is_empty() {
            self.fence(recovered, closed, opened.file, found);
            return Ok(());
        }
        if end.is_some() {
            recovered.unsealed.push(closed.id.seq);
            closed.loaded = Some(Rc::new(Loaded::surveyed(opened.file, found)));
            recovered.log.closed.push_back(closed);
            return Ok(());
        }
        self.neutralise(&closed.id, &opened, &found).await?;
        log.marked_end = found.durable_to;
        let prepared = prepared_file(&closed.id, record, opened.file);
        let Survey { tail, index, store_times_ms, .. } = found;
        let found = Found { tail, index, store_times_ms };
        log.active = Some(Active::resume(prepared, closed.base, closed.opened_at_ms, found));
        Ok(())
    }

    /// A header block that rotted costs nothing: the manifest knows the file by its uid. It is reported.
    async fn check_header(&mut self, closed: &Closed, file: &File) -> Result<(), DiskError> {
        let same = |header: &SegmentHeader| header.uid == closed.uid && header.segment == closed.id;
        match survey::read_header(self.disk, file).await? {
            Ok(header) if same(&header) => {}
            Ok(_) => self.report.damaged.push(format!("the header block of segment {} names another file", closed.id)),
            Err(why) => {
                self.report.damaged.push(format!("the header block of segment {} does not verify: {why}", closed.id));
            }
        }
        Ok(())
    }

    /// A damaged segment is kept as it is and never appended to; its intact batches stay readable.
    fn fence(&mut self, recovered: &mut Recovered, closed: Closed, file: File, found: Survey) {
        for damage in &found.damage {
            self.report.damaged.push(format!(
                "segment {} is damaged at {}: offsets {} to {} cannot be read ({})",
                closed.id, damage.position, damage.from, damage.to, damage.reason
            ));
        }
        let segment = closed.id.clone();
        recovered.edits.push(Edit::Fenced { segment, end: closed.end, end_position: found.end });
        let closed = Closed { loaded: Some(Rc::new(Loaded::surveyed(file, found))), ..closed };
        recovered.log.closed.push_back(closed);
    }

    /// Makes sure that what was found stays there: readers must not see what could vanish.
    async fn secure(&self, file: &File, found: &Survey) -> Result<(), DiskError> {
        if file.is_direct() || !found.damage.is_empty() {
            // What was scanned may still be in the drive's cache only.
            transfer::sync(self.disk, file).await
        } else {
            // Pages that the kernel failed to write look clean: only writing them again makes them durable.
            self.rewrite(file, found.end).await
        }
    }

    /// Makes sure that what is past the end can never be taken for data.
    async fn neutralise(&mut self, id: &SegmentId, opened: &Opened, found: &Survey) -> Result<(), DiskError> {
        let Some(torn) = found.torn.as_ref().filter(|_| !sabotaged!(self.config, KeepDeadTail)) else { return Ok(()) };
        self.report.torn_bytes += torn.end.since(found.end);
        if torn.batches > 0 {
            self.set_aside(id, opened, found.end, torn.end).await?;
        }
        let block = found.end.block_floor(BLOCK);
        let kept = survey::read_window(self.disk, &opened.file, block, found.end).await?;
        self.clear(&opened.file, block, &kept, torn.end).await
    }

    /// Writes a buffered file again, from its start to `end`, durably.
    async fn rewrite(&self, file: &File, end: Position) -> Result<(), DiskError> {
        let mut at = Position(0);
        while at < end {
            let to = at.plus(256 << 10).min(end.block_ceiling(BLOCK));
            let window = survey::read_window(self.disk, file, at, to).await?;
            let mut buffer = transfer::take_buffer(self.disk, window.len()).await;
            buffer.copy_from_slice(&window);
            transfer::write(self.disk, file, buffer, at, true).await.1?;
            at = to;
        }
        Ok(())
    }

    /// Copies whole batches that were never acknowledged into a file beside, for whoever wants to look at them.
    async fn set_aside(
        &mut self,
        id: &SegmentId,
        opened: &Opened,
        from: Position,
        to: Position,
    ) -> Result<(), DiskError> {
        let name = layout::torn_file_name(self.life);
        let file = match transfer::open(self.disk, &opened.directory, &name, OpenFile::New, Access::Buffered).await {
            Err(error) if error.errno == strandline_disk::Errno::EXIST => {
                transfer::open(self.disk, &opened.directory, &name, OpenFile::Existing, Access::Buffered).await?
            }
            opened => opened?,
        };
        let mut at = from;
        while at < to {
            let end = at.plus(256 << 10).min(to);
            let window = survey::read_window(self.disk, &opened.file, at, end).await?;
            let mut buffer = transfer::take_buffer(self.disk, window.len()).await;
            buffer.copy_from_slice(&window);
            transfer::write(self.disk, &file, buffer, Position(at.since(from)), false).await.1?;
            at = end;
        }
        // Durable before the original is cleared, or a crash between the two would leave neither.
        transfer::sync(self.disk, &file).await?;
        transfer::sync_directory(self.disk, &opened.directory).await?;
        self.report
            .warnings
            .push(format!("segment {id}: whole batches that were never acknowledged were set aside in {name}"));
        Ok(())
    }

    /// Writes `kept` at `from`, which is a block boundary, and zeros behind it up to `to`.
    async fn clear(&self, file: &File, from: Position, kept: &[u8], to: Position) -> Result<(), DiskError> {
        let mut at = from;
        let to = to.block_ceiling(BLOCK);
        while at < to {
            let length = (to.since(at) as usize).min(256 << 10);
            let mut buffer = transfer::take_buffer(self.disk, length).await;
            buffer.fill(0);
            if at == from {
                buffer[..kept.len()].copy_from_slice(kept);
            }
            // Durable before the next append: a dropped batch must never be found again behind a new one.
            transfer::write(self.disk, file, buffer, at, true).await.1?;
            at = at.plus(length);
        }
        Ok(())
    }
}

/// The newest batch says where the stamps stand. An older segment may have larger ones: its stamps lay so far ahead of the clock
/// that the next one went back to true time, and that must not happen twice.
fn note_store_time(log: &mut Log<Admitted>, last_of_segment_ms: u64) {
    if last_of_segment_ms > 0 {
        log.last_store_time_ms = last_of_segment_ms;
    }
}

/// A segment that could not be recovered: its log takes no appends, and reads of what it may hold answer the error.
fn leave_unread(log: &mut Log<Admitted>, segment: &SegmentId, source: DiskError) {
    let latch = Box::new(Latch { segment: segment.clone(), position: Position(0), source });
    log.unread = Some(latch.clone());
    log.latch = Some(latch);
}

fn prepared_file(id: &SegmentId, record: &SegmentRecord, file: File) -> PreparedFile {
    PreparedFile {
        id: id.clone(),
        uid: record.uid,
        generation: record.generation,
        size: record.size,
        look_ahead: record.look_ahead,
        anchored: record.written,
        file,
    }
}
