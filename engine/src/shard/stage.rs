//! Stage: what has queued becomes one write. Plain code: offsets are assigned, batches laid into a registered buffer.
//! Also the decision to roll, which only swaps files that are ready.

use super::command::{Admitted, AppendAnswer, LogNumber};
use super::prepare::Urgency;
use super::shard::{Event, Shard};
use crate::config::sabotaged;
use crate::error::AppendError;
use crate::format::batch::{BatchHeader, HEADER_BYTES, total_length};
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::Offset;
use crate::log::{Log, Queued, Receipt, Successor};
use crate::pending::Answer;
use crate::segment::active::{Active, PreparedFile};
use crate::segment::closed::{Closed, Loaded};
use crate::segment::tail::Laid;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use strandline_disk::{Buffer, Disk, DiskError, Position, transfer};

/// How long after a failure the next segment is not tried again, in nanoseconds: what needs it meanwhile is refused at once.
pub(super) const PREPARE_RETRY_NS: u64 = 100_000_000;

/// One append in a commit.
pub(super) struct Staged {
    pub(super) receipt: Receipt,
    pub(super) payload_bytes: usize,
    pub(super) answer: Option<Answer<AppendAnswer>>,
    /// Held until the append is answered.
    pub(super) admitted: Admitted,
}

/// A commit that has come back from the disk.
pub(super) struct Committed {
    pub(super) log: LogNumber,
    pub(super) staged: Vec<Staged>,
    pub(super) buffer: Buffer,
    pub(super) at: Position,
    pub(super) end: Position,
    pub(super) end_offset: Offset,
    pub(super) durable_to: Offset,
    pub(super) result: Result<(), DiskError>,
}

/// What keeps a log from being staged now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// Nothing waits, or a commit is in flight.
    Idle,
    /// Its successor is being made; it is listed again when that is done.
    Successor,
    /// No buffer is free; it is tried again at the next turn.
    Buffer,
}

impl<D: Disk> Shard<D> {
    /// Stages every listed log. True when a commit was started.
    pub(super) fn stage(&mut self) -> bool {
        let mut started = false;
        for _ in 0..self.listed.len() {
            let Some(number) = self.listed.pop_front() else { break };
            self.logs[number.0].listed = false;
            match self.stage_log(number) {
                Ok(()) => started = true,
                Err(Hold::Buffer) => self.list(number),
                Err(Hold::Idle | Hold::Successor) => {}
            }
        }
        started
    }

    fn stage_log(&mut self, number: LogNumber) -> Result<(), Hold> {
        let log = &mut self.logs[number.0];
        if log.committing || log.queued.is_empty() {
            return Err(Hold::Idle);
        }
        if let Some(latch) = &log.latch {
            let error = AppendError::Latched { log: log.id.clone(), latch: latch.clone() };
            refuse_all(log, &error);
            return Err(Hold::Idle);
        }
        self.make_room(number)?;
        let (appends, length) = self.choose(number);
        let commit = self.lay(number, appends, length)?;
        self.commit(number, commit);
        self.prepare_ahead(number);
        Ok(())
    }

    /// Sees to it that the first waiting batch fits the active segment, rolling where it does not.
    fn make_room(&mut self, number: LogNumber) -> Result<(), Hold> {
        let wall_ms = self.now.wall_ms;
        let log = &mut self.logs[number.0];
        let Some(first) = log.queued.front() else { return Err(Hold::Idle) };
        let fits = log.active.as_ref().is_some_and(|active| active.fits(0, first.batch.payload().len()));
        if fits && !log.stamps_lie_ahead(wall_ms) {
            return Ok(());
        }
        match std::mem::replace(&mut log.successor, Successor::None) {
            Successor::Ready(prepared) => {
                self.roll(number, prepared);
                Ok(())
            }
            Successor::Making(making) => {
                making.hurry();
                log.successor = Successor::Making(making);
                Err(Hold::Successor)
            }
            Successor::Failed(source, at_ns) if self.now.boot_ns.saturating_sub(at_ns) < PREPARE_RETRY_NS => {
                let log_id = log.id.clone();
                log.successor = Successor::Failed(source.clone(), at_ns);
                let error = match source.is_full() {
                    true => AppendError::DiskFull { log: log_id, source },
                    false => AppendError::Prepare { log: log_id, source },
                };
                refuse_all(log, &error);
                Err(Hold::Idle)
            }
            _ if log.next_seq.is_none() => {
                let error = AppendError::Exhausted { log: log.id.clone(), what: "segment numbers" };
                refuse_all(log, &error);
                Err(Hold::Idle)
            }
            Successor::Failed(..) | Successor::None => {
                self.queue.counters.rolls_waited.fetch_add(1, Ordering::Relaxed);
                self.prepare(number, Urgency::Hurry);
                Err(Hold::Successor)
            }
        }
    }

    /// Makes `prepared` the write head. The segment before it is sealed in the background.
    fn roll(&mut self, number: LogNumber, prepared: PreparedFile) {
        let wall_ms = self.now.wall_ms;
        self.queue.counters.rolls.fetch_add(1, Ordering::Relaxed);
        let log = &mut self.logs[number.0];
        if log.stamps_lie_ahead(wall_ms) {
            log.last_store_time_ms = 0; // The one exception to the clamp: the next segment stamps true time.
        }
        let header = SegmentHeader {
            uid: prepared.uid,
            store: self.store,
            state: SegmentState::Live,
            segment: prepared.id.clone(),
            generation: prepared.generation,
            base: log.end,
            opened_at_ms: log.stamp(wall_ms),
            epoch: log.epoch,
            size: prepared.size,
            look_ahead: prepared.look_ahead,
        };
        let full = log.active.replace(Active::begin(prepared, header));
        if let Some(full) = full {
            let closed = close(full, log.end);
            let segment = closed.id.seq;
            log.closed.push_back(closed);
            self.seal(number, segment);
        }
    }

    /// How many of the waiting batches go into this commit, and their length in the file.
    fn choose(&self, number: LogNumber) -> (usize, usize) {
        let log = &self.logs[number.0];
        let Some(active) = &log.active else { return (0, 0) };
        let (mut appends, mut length) = (0, 0);
        for queued in &log.queued {
            let payload = queued.batch.payload().len();
            let more = length + total_length(payload);
            let over = active.buffer_bytes(more) > self.config.commit_bytes_max as usize;
            if appends > 0 && (over || !active.fits(length, payload)) {
                break;
            }
            (appends, length) = (appends + 1, more);
        }
        (appends, length)
    }

    /// Lays the first `appends` waiting batches into a buffer.
    fn lay(&mut self, number: LogNumber, appends: usize, length: usize) -> Result<Commit, Hold> {
        let log = &mut self.logs[number.0];
        let Some(active) = log.active.as_mut() else { return Err(Hold::Idle) };
        let Some(Laid { mut buffer, at, kept }) = active.lay(self.disk.pool(), length) else {
            return Err(Hold::Buffer);
        };
        let mut staged = self.spare_lists.pop().unwrap_or_default();
        let durable_to = log.durable_end;
        let mut filled = kept;
        for _ in 0..appends {
            let Some(Queued { batch, answer, admitted }) = log.queued.pop_front() else { break };
            let first = log.end;
            let header = BatchHeader {
                store_time_ms: self.now.wall_ms.max(log.last_store_time_ms),
                durable_to,
                epoch: log.epoch,
                life: self.life,
                ..batch.header(first)
            };
            filled += active.lay_batch(&header, &batch, &mut buffer[filled..]);
            log.end = header.end;
            log.last_store_time_ms = header.store_time_ms;
            let receipt = Receipt { first, end: header.end, store_time_ms: header.store_time_ms };
            let payload_bytes = batch.payload().len();
            self.queue.give_payload_back(batch.into_payload());
            staged.push(Staged { receipt, payload_bytes, answer: Some(answer), admitted });
        }
        Ok(Commit { buffer, at, end: active.staged_end(), end_offset: log.end, durable_to, staged })
    }

    /// Lays a mark: an empty batch that says how far the log is durable.
    pub(super) fn stage_mark(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        let Some(active) = log.active.as_mut().filter(|active| !active.is_new()) else { return };
        let Some(Laid { mut buffer, at, kept }) = active.lay(self.disk.pool(), HEADER_BYTES) else {
            return; // No buffer: the log is busy after all, or will be looked at again.
        };
        let header = BatchHeader {
            first: log.end,
            end: log.end,
            store_time_ms: log.last_store_time_ms,
            durable_to: log.durable_end,
            epoch: log.epoch,
            life: self.life,
            payload_crc: crate::format::checksum::crc32c(&[]),
            ..BatchHeader::default()
        };
        active.lay_mark(&header, &mut buffer[kept..]);
        let (end, end_offset, durable_to) = (active.staged_end(), log.end, log.durable_end);
        self.commit(number, Commit { buffer, at, end, end_offset, durable_to, staged: Vec::new() });
    }

    /// Commit: the write, durable when it comes back. Works on owned data only.
    fn commit(&mut self, log: LogNumber, mut commit: Commit) {
        let state = &mut self.logs[log.0];
        let Some(active) = state.active.as_ref() else { return };
        state.committing = true;
        self.commits_in_flight += 1;
        if sabotaged!(self.config, AnswerBeforeCompletion) {
            for staged in &mut commit.staged {
                if let Some(answer) = staged.answer.take() {
                    answer.give(Ok(staged.receipt));
                }
            }
        }
        let (disk, file) = (self.disk.clone(), active.file.clone());
        self.spawn(async move {
            let Commit { buffer, at, end, end_offset, durable_to, staged } = commit;
            // Durable before anybody is answered: this is the promise of an acknowledged append.
            let (buffer, result) = transfer::write(&disk, &file, buffer, at, true).await;
            Event::Committed(Box::new(Committed { log, staged, buffer, at, end, end_offset, durable_to, result }))
        });
    }
}

/// A commit that is ready to be written.
struct Commit {
    buffer: Buffer,
    at: Position,
    end: Position,
    end_offset: Offset,
    durable_to: Offset,
    staged: Vec<Staged>,
}

/// Answers everything that waits in a log with the same refusal.
pub(super) fn refuse_all(log: &mut Log<Admitted>, error: &AppendError) {
    for queued in log.queued.drain(..) {
        queued.admitted.answer(queued.answer, Err(error.clone()));
    }
}

/// The full segment, as one that takes no more appends.
fn close(full: Active, end: Offset) -> Closed {
    let data_end = full.durable_end();
    let size = full.size;
    Closed {
        id: full.id,
        uid: full.uid,
        generation: full.generation,
        size,
        look_ahead: full.look_ahead,
        base: full.base,
        end,
        opened_at_ms: full.opened_at_ms,
        sealed: false,
        loaded: Some(Rc::new(Loaded {
            file: full.file,
            index: full.index,
            data_end,
            store_times_ms: full.store_times_ms,
            surveyed: true,
            damage: Vec::new(),
        })),
    }
}
