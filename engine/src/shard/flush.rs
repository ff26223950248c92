//! Flush: what was written becomes durable. One barrier for all logs that allow it, a sync of the file for each other one.

use super::command::LogNumber;
use super::commit::may_share;
use super::shard::{Event, Shard};
use super::timers::Timer;
use crate::config::sabotaged;
use crate::id::Offset;
use std::sync::atomic::Ordering;
use strandline_disk::{Disk, DiskError, Position, transfer};

/// What a flush covers: it was written when the flush started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered {
    pub(super) log: LogNumber,
    pub(super) offset: Offset,
    pub(super) position: Position,
}

impl<D: Disk> Shard<D> {
    /// Has what is written of a log flushed, soon and together with others.
    pub(super) fn want_flush(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if !log.wants_flush && log.latch.is_none() && log.active.is_some() {
            log.wants_flush = true;
            self.flush_list.push(number);
        }
    }

    /// Has what is written of a log flushed when the interval is over, or at once when it has become much.
    pub(super) fn flush_later(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if log.unflushed_since_ns == u64::MAX {
            log.unflushed_since_ns = self.now.boot_ns;
        }
        let much =
            log.active.as_ref().is_some_and(|active| active.unflushed_bytes() >= u64::from(self.config.flush_bytes));
        if much || self.closing.is_some() {
            return self.want_flush(number);
        }
        let due_ns = log.unflushed_since_ns.saturating_add(self.config.flush_interval.as_nanos() as u64);
        self.timers.set(number, Timer::Flush, due_ns);
    }

    /// Flushes what is left of a log when its interval is over.
    pub(super) fn flush_is_due(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        if log.has_unflushed() {
            self.want_flush(number);
        }
    }

    /// Starts the flushes that are wanted. True when one was started.
    pub(super) fn start_flushes(&mut self) -> bool {
        if self.flush_list.is_empty() {
            return false;
        }
        let always = sabotaged!(self.config, BarrierForAll);
        let (mut left, mut shared, mut started) = (Vec::new(), Vec::new(), false);
        for number in std::mem::take(&mut self.flush_list) {
            let log = &self.logs[number.0];
            let share = self.durability.barrier && may_share(log, always);
            // A flush in flight may have started before the last write landed.
            if log.flushing || (share && self.barrier_in_flight) {
                left.push(number);
            } else if share {
                shared.push(number);
            } else {
                started |= self.start_flush(&[number], false);
            }
        }
        self.flush_list = left;
        if !shared.is_empty() {
            self.barrier_in_flight = self.start_flush(&shared, true);
            started |= self.barrier_in_flight;
        }
        started
    }

    /// Starts one flush for what is written of all of `numbers`. False when nothing of them needs one.
    fn start_flush(&mut self, numbers: &[LogNumber], barrier: bool) -> bool {
        let mut covered = Vec::with_capacity(numbers.len());
        let mut file = None;
        for number in numbers {
            let log = &mut self.logs[number.0];
            log.wants_flush = false;
            let Some(active) = log.active.as_ref().filter(|active| active.unflushed_bytes() > 0) else { continue };
            log.flushing = true;
            covered.push(Covered { log: *number, offset: log.written_end, position: active.written_end() });
            file = Some(active.file.clone());
        }
        let Some(file) = file else { return false };
        self.queue.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.queue.counters.barriers.fetch_add(u64::from(barrier), Ordering::Relaxed);
        let (disk, started_ns) = (self.disk.clone(), self.now.boot_ns);
        let skipped = sabotaged!(self.config, SkipFlush);
        self.spawn(async move {
            // Without it nothing of what was written plainly could be acknowledged as durable.
            let result = match barrier {
                _ if skipped => Ok(()),
                true => transfer::barrier(&disk, &file).await,
                false => transfer::sync(&disk, &file).await,
            };
            Event::Flushed { covered, barrier, started_ns, result }
        });
        true
    }

    /// Takes over a flush that has come back.
    pub(super) fn settle_flushed(&mut self, covered: Vec<Covered>, barrier: bool, result: Result<(), DiskError>) {
        if barrier {
            self.barrier_in_flight = false;
        }
        for Covered { log: number, .. } in &covered {
            self.logs[number.0].flushing = false;
        }
        if let Err(source) = &result {
            self.latch_what_a_flush_took_along(source, covered.iter().map(|covered| covered.log));
        }
        for Covered { log: number, offset, position } in covered {
            if self.logs[number.0].latch.is_some() {
                self.fail_exposed(number);
                continue;
            }
            let log = &mut self.logs[number.0];
            if let Some(active) = log.active.as_mut() {
                active.note_durable(position);
            }
            log.durable_end = log.durable_end.max(offset);
            log.settled_ns = self.now.boot_ns;
            self.acknowledge_durable(number);
        }
    }
}
