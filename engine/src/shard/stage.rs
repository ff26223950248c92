//! Stage: what has queued becomes writes, one for each log. Plain code: batches are laid into registered buffers.

use super::command::{Admitted, LogNumber};
use super::commit::Write;
use super::shard::Shard;
use super::timers::Timer;
use crate::config::SmallCommits;
use crate::error::AppendError;
use crate::format::batch::{BatchHeader, HEADER_BYTES, total_length};
use crate::id::Offset;
use crate::log::{Flight, Level, Log, Queued, Staged};
use crate::segment::tail::Laid;
use std::sync::atomic::Ordering;
use strandline_disk::{BLOCK, Buffer, Disk, Position};

/// A further commit of a log starts beside those in flight when so many payload bytes wait. Less would only split what the next
/// commit takes whole.
const PIPELINE_BYTES: usize = 128 << 10;

/// A commit of at least so many bytes fills its last block, so that another may start beside it: at most a sixteenth is filling.
const PAD_FROM_BYTES: usize = 16 * BLOCK;

/// What keeps a log from being staged now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Something in flight, a timer or the next append lists it again.
    Event,
    /// It is tried again at the next turn: no buffer is free, or enough commits are in flight.
    Turn,
}

impl<D: Disk> Shard<D> {
    /// Stages every listed log. True when a write was started.
    pub(super) fn stage(&mut self) -> bool {
        let mut writes = std::mem::take(&mut self.writes);
        for _ in 0..self.listed.len() {
            let Some(number) = self.listed.pop_front() else { break };
            self.logs[number.0].listed = false;
            match self.stage_log(number) {
                Ok(write) => writes.push(write),
                Err(Hold::Turn) => self.list(number),
                Err(Hold::Event) => {}
            }
        }
        let started = !writes.is_empty();
        self.start(&mut writes);
        self.writes = writes;
        started
    }

    fn stage_log(&mut self, number: LogNumber) -> Result<Write, Hold> {
        if self.do_verbs(number) {
            return Err(Hold::Event);
        }
        let log = &mut self.logs[number.0];
        if log.queued.is_empty() {
            return Err(Hold::Event);
        }
        if let Some(latch) = &log.latch {
            let error = AppendError::Latched { log: log.id.clone(), latch: latch.clone() };
            self.refuse_all(number, &error);
            return Err(Hold::Event);
        }
        if self.rests(number) {
            self.rouse(number);
            return Err(Hold::Event);
        }
        self.may_start(number)?;
        self.make_room(number)?;
        let (appends, length) = self.choose(number);
        let write = self.lay(number, appends, length)?;
        self.prepare_ahead(number);
        Ok(write)
    }

    /// Whether a commit of this log may start beside what is in flight.
    fn may_start(&mut self, number: LogNumber) -> Result<(), Hold> {
        let log = &self.logs[number.0];
        if !log.flights.is_empty() {
            if self.crowded {
                return Err(Hold::Turn); // Another log has waited longer.
            }
            let apart = log.active.as_ref().is_some_and(|active| active.ends_on_a_block());
            let worth_it = log.queued_bytes >= PIPELINE_BYTES || self.config.small_commits == SmallCommits::Pad;
            if !apart || !worth_it || log.flights.len() >= self.config.commit_depth {
                return Err(Hold::Event);
            }
        } else if !self.has_room_for_a_group() {
            self.crowded = true;
            return Err(Hold::Turn);
        } else {
            self.crowded = false;
        }
        let linger_ns = self.config.linger.as_nanos() as u64;
        let Some(first) = log.queued.front().filter(|_| linger_ns > 0 && self.closing.is_none()) else { return Ok(()) };
        let due_ns = first.taken_ns.saturating_add(linger_ns);
        if due_ns > self.now.boot_ns && log.queued_bytes < self.config.commit_bytes_max as usize / 2 {
            self.timers.set(number, Timer::Linger, due_ns);
            return Err(Hold::Event);
        }
        Ok(())
    }

    /// How many of the waiting batches go into this commit, and their length in the file.
    fn choose(&self, number: LogNumber) -> (usize, usize) {
        let log = &self.logs[number.0];
        let Some(active) = &log.active else { return (0, 0) };
        let (mut appends, mut length) = (0, 0);
        for queued in log.queued.iter().take(self.before_the_next_verb(number)) {
            let more = length + total_length(queued.batch.payload().len());
            let over = active.buffer_bytes(more) > self.config.commit_bytes_max as usize;
            if appends > 0 && (over || queued.rolls() || !active.has_room(more) || !active.may_fly(more)) {
                break;
            }
            (appends, length) = (appends + 1, more);
        }
        (appends, length)
    }

    /// Lays the first `appends` waiting batches into a buffer.
    fn lay(&mut self, number: LogNumber, appends: usize, length: usize) -> Result<Write, Hold> {
        let depth = self.config.commit_depth;
        let log = &mut self.logs[number.0];
        let Some(active) = log.active.as_mut() else { return Err(Hold::Event) };
        let apart = self.config.small_commits == SmallCommits::Pad || (depth > 1 && length >= PAD_FROM_BYTES);
        let pad = if apart { active.pad_bytes(length) } else { 0 };
        let Some(Laid { mut buffer, at, kept }) = active.lay(self.disk.pool(), length + pad) else {
            return Err(Hold::Turn);
        };
        let mut staged = self.spare_lists.pop().unwrap_or_default();
        let (durable_to, epoch, life) = (log.durable_end, log.epoch, self.life);
        let (mut filled, mut level) = (kept, Level::Accepted);
        for _ in 0..appends {
            let Some(Queued { batch, receipt, answer, admitted, .. }) = log.queued.pop_front() else { break };
            log.queued_bytes -= batch.payload().len();
            let store_time_ms = receipt.store_time_ms;
            let header = BatchHeader { store_time_ms, durable_to, epoch, life, ..batch.header(receipt.first) };
            let position = active.staged_end();
            filled += active.lay_batch(&header, batch.payload(), &mut buffer[filled..]);
            log.staged_end = header.end;
            level = level.max(receipt.level);
            let payload = batch.into_payload();
            staged.push(Staged { receipt, position, header, payload, answer, admitted: Some(admitted) });
        }
        let header = mark(log, life);
        let Some(active) = log.active.as_mut() else { return Err(Hold::Event) };
        if pad > 0 {
            active.lay_mark(&header, &mut buffer[filled..filled + pad]);
        }
        write_of(number, log, (buffer, at), level, staged).ok_or(Hold::Event)
    }

    /// Lays a mark: an empty batch that says how far the log is durable. Nothing when no buffer is free: it is looked at again.
    pub(super) fn lay_mark(&mut self, number: LogNumber) -> Option<Write> {
        let log = &mut self.logs[number.0];
        let header = mark(log, self.life);
        let active = log.active.as_mut().filter(|active| !active.is_new())?;
        let Laid { mut buffer, at, kept } = active.lay(self.disk.pool(), HEADER_BYTES)?;
        active.lay_mark(&header, &mut buffer[kept..kept + HEADER_BYTES]);
        write_of(number, log, (buffer, at), Level::Durable, Vec::new())
    }

    /// Answers everything that waits in a log with the same refusal. What had been accepted is lost, and receipts for it are void.
    pub(super) fn refuse_all(&mut self, number: LogNumber, error: &AppendError) {
        self.refuse_behind(number, 0, error);
    }

    /// As `refuse_all`, but the first `kept` of what waits go on waiting.
    pub(super) fn refuse_behind(&mut self, number: LogNumber, kept: usize, error: &AppendError) {
        let log = &mut self.logs[number.0];
        let refused = log.queued.split_off(kept);
        let accepted = refused.iter().filter(|queued| queued.answer.is_none()).count();
        let end = log.queued.back().map_or(log.staged_end, |queued| queued.receipt.end);
        if log.end > end {
            log.losses.note(end);
            log.end = end;
        }
        // What was not written stands before nothing.
        if let Some(first) = refused.front() {
            log.last_store_time_ms = first.after_ms;
        }
        // As if they had never been taken: verbs count the batches before them.
        log.taken -= refused.len() as u64;
        for waiting in self.verbs.get_mut(&number).into_iter().flatten() {
            waiting.after = waiting.after.min(log.taken);
        }
        self.queue.counters.lost.fetch_add(accepted as u64, Ordering::Relaxed);
        for Queued { batch, answer, admitted, .. } in refused {
            log.queued_bytes -= batch.payload().len();
            match answer {
                Some(answer) => admitted.answer(answer, Err(error.clone())),
                None => drop(admitted),
            }
        }
        self.answer_waiting(number);
        if self.verbs.contains_key(&number) {
            self.list(number); // They waited for what will not be staged.
        }
    }
}

/// The write of what was laid into a buffer.
fn write_of(
    number: LogNumber,
    log: &mut Log<Admitted>,
    (buffer, at): (Buffer, Position),
    level: Level,
    staged: Vec<Staged<Admitted>>,
) -> Option<Write> {
    let (durable_to, end_offset) = (log.durable_end, log.staged_end);
    let active = log.active.as_mut()?;
    active.laid(&buffer, at);
    let (end, file) = (active.staged_end(), active.file.clone());
    let flight =
        Flight { number: 0, staged, end_offset, end, durable_to, durable: false, landed: false, started_ns: 0 };
    Some(Write { log: number, file, buffer, at, level, flight })
}

/// What a mark of this log says.
fn mark(log: &Log<Admitted>, life: crate::id::Life) -> BatchHeader {
    let end: Offset = log.staged_end;
    BatchHeader {
        first: end,
        end,
        store_time_ms: log.last_store_time_ms,
        durable_to: log.durable_end,
        epoch: log.epoch,
        life,
        ..BatchHeader::default()
    }
}
