//! Roll: when the active segment is full or old, its prepared successor takes its place. Plain code, it only swaps files.

use super::clock::StoreClock;
use super::command::LogNumber;
use super::prepare::Urgency;
use super::shard::Shard;
use super::stage::Hold;
use super::timers::Timer;
use super::verb::Verdict;
use crate::config::{CheckedConfig, sabotaged};
use crate::error::{AppendError, VerbError};
use crate::format::batch::total_length;
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{LogId, Offset};
use crate::log::{Log, Successor, Unprepared};
use crate::policy::SEGMENT_MAX_AGE_MS_MIN;
use crate::segment::active::{Active, PreparedFile};
use crate::segment::closed::{Closed, Loaded};
use crate::segment::time::Latest;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use strandline_disk::{Disk, Now};

/// How long after a failure the next segment is not tried again, in nanoseconds: what needs it meanwhile is refused at once.
pub(super) const PREPARE_RETRY_NS: u64 = 100_000_000;

/// The age of a segment is looked at this often at least, since the wall clock may jump, in nanoseconds.
const AGE_LOOK_NS: u64 = 60_000_000_000;

/// A segment whose age could not be acted on is looked at again after so long, in nanoseconds.
const AGE_RETRY_NS: u64 = 1_000_000;

impl<D: Disk> Shard<D> {
    /// Sees to it that the first waiting batch fits the active segment, rolling where it does not.
    pub(super) fn make_room(&mut self, number: LogNumber) -> Result<(), Hold> {
        let log = &mut self.logs[number.0];
        let Some(first) = log.queued.front() else { return Err(Hold::Event) };
        let length = total_length(first.batch.payload().len());
        if let Some(active) = log.active.as_ref() {
            let old = is_old(active.opened_at_ms, age_of(&self.config, log), self.now, &self.siblings.clock);
            let rolls = first.rolls() && active.base < log.staged_end;
            if !rolls && !old && active.has_room(length) {
                if active.may_fly(length) {
                    return Ok(());
                }
                if !log.is_settled() {
                    self.want_flush(number);
                    return Err(Hold::Event);
                }
            }
        }
        let log = &mut self.logs[number.0];
        // What is acknowledged is a prefix: nothing in the next segment may be durable before all of this one is.
        if !log.is_settled() && !sabotaged!(self.config, RollBeforeFlush) {
            self.want_flush(number);
            return Err(Hold::Event);
        }
        match std::mem::replace(&mut log.successor, Successor::None) {
            Successor::Ready(prepared) => {
                self.roll(number, prepared);
                Ok(())
            }
            Successor::Making(making) => {
                making.hurry();
                log.successor = Successor::Making(making);
                Err(Hold::Event)
            }
            Successor::Failed(source, at_ns) if self.now.boot_ns.saturating_sub(at_ns) < PREPARE_RETRY_NS => {
                let log_id = log.id.clone();
                log.successor = Successor::Failed(source.clone(), at_ns);
                let error = match source {
                    Unprepared::Disk(source) if source.is_full() => AppendError::DiskFull { log: log_id, source },
                    Unprepared::Disk(source) => AppendError::Prepare { log: log_id, source },
                    Unprepared::Host(refusal) => AppendError::Host { log: log_id, reason: refusal.to_string() },
                };
                let error = self.explain_append(error);
                self.refuse_all(number, &error);
                Err(Hold::Event)
            }
            _ if log.next_seq.is_none() && log.ahead.is_none() => {
                let error = AppendError::Exhausted { log: log.id.clone(), what: "segment numbers" };
                self.refuse_all(number, &error);
                Err(Hold::Event)
            }
            Successor::Failed(..) | Successor::None => {
                self.queue.counters.rolls_waited.fetch_add(1, Ordering::Relaxed);
                self.prepare(number, Urgency::Hurry);
                Err(Hold::Event)
            }
        }
    }

    /// Makes `prepared` the write head. The segment before it is sealed in the background.
    fn roll(&mut self, number: LogNumber, prepared: PreparedFile) {
        self.queue.counters.rolls.fetch_add(1, Ordering::Relaxed);
        self.close_active(number);
        let log = &mut self.logs[number.0];
        let opened_at_ms = log.queued.front().map_or(self.now.wall_ms, |first| first.receipt.store_time_ms);
        let header = SegmentHeader {
            uid: prepared.uid,
            store: self.store,
            state: SegmentState::Live,
            segment: prepared.id.clone(),
            generation: prepared.generation,
            base: log.staged_end,
            opened_at_ms,
            epoch: log.epoch,
            size: prepared.size,
            look_ahead: prepared.look_ahead,
        };
        log.active = Some(Active::begin(prepared, header));
        self.watch_age(number);
    }

    /// The active segment takes no more appends: it is sealed in the background.
    pub(super) fn close_active(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        let Some(full) = log.active.take() else { return };
        let closed = close(full, log.staged_end);
        let segment = closed.id.seq;
        log.closed.push_back(closed);
        self.seal(number, segment);
    }

    /// Has segments of the log rolled at this age from now on, until the store is closed; `None` is off.
    pub(super) fn set_segment_max_age(&mut self, log: &LogId, age: Option<Duration>) -> Verdict<()> {
        let number = self.numbers.get(log).copied().filter(|number| !self.logs[number.0].deleted);
        let number = number.ok_or_else(|| VerbError::NoSuchLog { log: log.clone() })?;
        if let Some(age) = age.filter(|age| age.as_millis() < SEGMENT_MAX_AGE_MS_MIN.into()) {
            let (log, age_ms, floor_ms) = (log.clone(), age.as_millis() as u64, SEGMENT_MAX_AGE_MS_MIN);
            return Err(VerbError::SegmentMaxAgeTooShort { log, age_ms, floor_ms });
        }
        self.logs[number.0].options.segment_max_age = Some(age);
        self.watch_age_anew(number);
        Ok(())
    }

    /// Has the age of the active segment looked at by what applies now: what was set before may come too late.
    pub(super) fn watch_age_anew(&mut self, number: LogNumber) {
        self.timers.clear(number, Timer::Age);
        self.watch_age(number);
    }

    /// Has the age of the active segment looked at when it may be old enough.
    pub(super) fn watch_age(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        let Some(age) = age_of(&self.config, log) else { return };
        let head = log.dormant.as_ref().and_then(|_| log.closed.back()).map(|closed| closed.opened_at_ms);
        let Some(opened_at_ms) = log.active.as_ref().map(|active| active.opened_at_ms).or(head) else { return };
        let lived_ms = self.now.wall_ms.saturating_sub(opened_at_ms);
        let left_ns = (age.as_millis() as u64).saturating_sub(lived_ms).saturating_mul(1_000_000);
        // While the clock is not believed nothing is old, and what would be due at once is looked at now and then.
        let believed = self.siblings.clock.believes(self.now);
        let soonest_ns = if believed { AGE_RETRY_NS } else { AGE_LOOK_NS };
        let due_ns = self.now.boot_ns.saturating_add(left_ns.clamp(soonest_ns, AGE_LOOK_NS));
        self.timers.set(number, Timer::Age, due_ns);
    }

    /// Has a head looked at again that could not be roused for its age.
    pub(super) fn watch_age_later(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        if age_of(&self.config, log).is_some() && log.latch.is_none() {
            self.timers.set(number, Timer::Age, self.now.boot_ns.saturating_add(AGE_LOOK_NS));
        }
    }

    /// Rolls a segment that is old enough, also when nothing is appended: an idle log keeps no active segment, and the next append
    /// begins the successor.
    pub(super) fn age_is_due(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        if log.verb_at_work {
            return self.watch_age(number); // It may change the head, or take the log away.
        }
        if log.dormant.is_some() && (log.latch.is_some() || self.closing.is_some()) {
            return; // What failed in a head that rested is not tried again: the next open looks.
        }
        let dormant = log.dormant.as_ref().and_then(|dormant| log.closed_at(dormant.seq));
        if let (Some(age), Some(head)) = (age_of(&self.config, log), dormant) {
            if is_old(head.opened_at_ms, Some(age), self.now, &self.siblings.clock) {
                return self.rouse(number); // What it is roused to is old at once.
            }
            return self.watch_age(number);
        }
        let Some(active) = &log.active else { return };
        let idle = log.queued.is_empty() && log.latch.is_none() && self.closing.is_none();
        if idle && is_old(active.opened_at_ms, age_of(&self.config, log), self.now, &self.siblings.clock) {
            if log.is_settled() {
                self.queue.counters.rolls.fetch_add(1, Ordering::Relaxed);
                return self.close_active(number);
            }
            self.want_flush(number);
        }
        self.watch_age(number);
    }
}

/// The age at which the segments of a log are rolled.
pub(super) fn age_of<A>(config: &CheckedConfig, log: &Log<A>) -> Option<Duration> {
    log.options.segment_max_age.unwrap_or(config.segment_max_age)
}

/// Whether a segment is rolled for its age. No age counts while the wall clock cannot be believed.
fn is_old(opened_at_ms: u64, age: Option<Duration>, now: Now, clock: &StoreClock) -> bool {
    let lived_ms = now.wall_ms.saturating_sub(opened_at_ms);
    age.is_some_and(|age| u128::from(lived_ms) >= age.as_millis()) && clock.believes(now)
}

/// The full segment, as one that takes no more appends.
fn close(full: Active, end: Offset) -> Closed {
    let (data_end, logical_bytes) = (full.staged_end(), full.logical_bytes());
    let size = full.size;
    Closed {
        id: full.id,
        uid: full.uid,
        generation: full.generation,
        size,
        look_ahead: full.look_ahead,
        anchored: full.anchored,
        base: full.base,
        end,
        opened_at_ms: full.opened_at_ms,
        sealed: false,
        logical_bytes,
        sealed_at_ms: 0,
        latest: Latest { store_ms: Some(full.store_times_ms.1), client_ms: Some(full.index.client_time_max_ms()) },
        loaded: Some(Rc::new(Loaded {
            file: full.file,
            client_time_max_ms: full.index.client_time_max_ms(),
            index: full.index,
            data_end,
            store_times_ms: full.store_times_ms,
            surveyed: true,
            damage: Vec::new(),
            used_ns: Cell::new(0),
        })),
        known: None,
    }
}
