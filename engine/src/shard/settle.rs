//! Settle: what came back of the disk is taken over, and its callers are answered. Plain code; on failure it latches.

use super::command::{Admitted, LogNumber};
use super::commit::Landed;
use super::descriptors::let_successor_go;
use super::leave::Leaving;
use super::prepare::{PrepareError, given_up};
use super::shard::{Event, Shard};
use crate::error::{AppendError, Latch, LogError};
use crate::format::manifest::Edit;
use crate::id::{LogId, Offset, SegmentId, Seq};
use crate::log::tail_cache::{Kept, bytes_of};
use crate::log::{self, Flight, Level, Staged, Successor, Unprepared};
use crate::manifest::ManifestError;
use crate::segment::active::PreparedFile;
use std::sync::atomic::Ordering;
use strandline_disk::{Disk, DiskError, Position, Verb};

impl<D: Disk> Shard<D> {
    /// Takes over one event.
    pub(super) fn settle(&mut self, event: Event<D>) {
        self.heed_other_shards();
        self.note_background(&event);
        match event {
            Event::Landed { landed, group } => self.settle_landed(landed, group),
            Event::Flushed { covered, barrier, started_ns, result } => {
                self.siblings.removal.latencies.note(self.now.boot_ns.saturating_sub(started_ns));
                self.settle_flushed(covered, barrier, result);
            }
            Event::Manifest(commit) => {
                if let Some(manifest) = self.manifest.as_mut() {
                    manifest.settle(commit);
                }
            }
            Event::Left => {}
            Event::Prepared { log, result } => self.settle_prepared(log, result),
            Event::Sealed { log, segment, result } => self.settle_sealed(log, segment, result),
            Event::Announced { log, result } => self.note_manifest_failure(log, result),
            Event::Done(finish) => finish(self),
            Event::Shrunk { log, segment, size, result } => self.settle_shrunk(log, segment, size, result),
            Event::Cut(result) => self.settle_cut(result),
            Event::Verb { log, finish } => self.settle_verb(log, finish),
            Event::Roused { log, result } => self.settle_roused(log, result),
            Event::Healed { log, result } => self.settle_healed(log, result),
            Event::Read(read) => self.settle_read(*read),
            Event::Sought(done) => self.settle_sought(*done),
            Event::LogMade { log, result } => self.settle_log_made(log, result),
        }
    }

    fn settle_log_made(&mut self, log: LogId, result: Result<(), ManifestError>) {
        if let Err(error) = &result {
            self.latch_what_the_manifest_took_along(error);
        }
        let error = match result {
            Ok(()) => return self.add_log(log),
            Err(ManifestError::Disk(source) | ManifestError::Latched(source)) => LogError::Manifest(source),
            Err(ManifestError::Full { needed, room }) => LogError::ManifestFull { needed, room },
            Err(ManifestError::Gone) => LogError::ShardGone,
        };
        self.siblings.give_log_back();
        self.answer_makers(&log, Err(error));
    }

    /// Work in the background of a log has ended: a verb may have waited for that.
    fn note_background(&mut self, event: &Event<D>) {
        let number = match event {
            Event::Prepared { log, .. }
            | Event::Sealed { log, .. }
            | Event::Announced { log, .. }
            | Event::Roused { log, .. }
            | Event::Healed { log, .. }
            | Event::Shrunk { log, .. } => *log,
            _ => return,
        };
        self.logs[number.0].tasks -= 1;
        if self.verbs.contains_key(&number) {
            self.list(number);
        }
    }

    fn settle_landed(&mut self, landed: Landed, group: Option<u64>) {
        let Landed { log: number, number: flight, at, result } = landed;
        self.flights -= 1;
        self.queue.counters.commits.fetch_add(1, Ordering::Relaxed);
        let log = &mut self.logs[number.0];
        log.settled_ns = self.now.boot_ns;
        if let Some(flight) = log.flights.iter_mut().find(|waiting| waiting.number == flight) {
            flight.landed = true;
            let durable = flight.durable;
            self.siblings.removal.latencies.note(self.now.boot_ns.saturating_sub(flight.started_ns));
            let was_last = !log.flights.iter().any(|flight| flight.durable && !flight.landed);
            self.singles -= usize::from(durable && was_last);
        }
        let segment = log.active.as_ref().map(|active| active.id.clone());
        if let (Err(source), Some(segment)) = (result, segment) {
            tracing::error!(%segment, position = %at, error = %source, "a commit failed: its log is latched");
            if source.is_full() {
                self.siblings.removal.note_use(true);
            }
            let without_room = source.is_without_room();
            let log = &self.logs[number.0];
            let heals = without_room && (log.latch.is_none() || log.heals);
            self.latch(number, Latch { segment, position: at, source: source.clone() });
            self.logs[number.0].heals = heals;
            // It may have been lost together with every other write that the device had not made durable. Want of room
            // concerns only its own log.
            if !without_room {
                self.latch_what_a_flush_took_along(&source, std::iter::empty());
            }
        }
        if self.logs[number.0].latch.is_some() {
            self.fail_exposed(number);
        } else {
            self.take_landed(number, group);
        }
        self.land_in_group(number, group);
    }

    /// Takes over the writes that have landed, in the order of their offsets.
    fn take_landed(&mut self, number: LogNumber, group: Option<u64>) {
        let (mut taken, mut wanted, mut answers) = (0, false, std::mem::take(&mut self.answers));
        let log = &mut self.logs[number.0];
        while let Some(mut flight) = log.flights.pop_front_if(|flight| flight.landed) {
            taken += 1;
            let direct = flight.durable && !log.has_unflushed();
            log.written_end = flight.end_offset;
            log.marked_end = log.marked_end.max(flight.durable_to);
            if let Some(active) = log.active.as_mut() {
                active.note_written(flight.end);
                if direct {
                    active.note_durable(flight.end);
                }
            }
            if direct {
                log.durable_end = flight.end_offset;
            }
            keep_for_readers(&mut self.tail_budget, &self.queue, number, &log.shared, &mut flight);
            for mut staged in flight.staged.drain(..) {
                match staged.receipt.level {
                    Level::Durable if !direct => {
                        wanted = true;
                        log.unflushed.push_back(staged);
                    }
                    _ => {
                        staged.receipt.level = if direct { Level::Durable } else { Level::Written };
                        answers.push(staged);
                    }
                }
            }
            wanted |= flight.durable && !direct;
            // A mark has none: kept as well, there would be one more for each mark.
            if flight.staged.capacity() > 0 {
                self.spare_lists.push(flight.staged);
            }
        }
        self.evict_from_tails();
        let log = &mut self.logs[number.0];
        log.show();
        let exposed = log.has_unflushed();
        let wanted = wanted || (exposed && log.durable_end < log.flush_through);
        self.answer_appends(&mut answers);
        self.answers = answers;
        // What is in a group is flushed when all of it has landed; what landed out of order may have left its group behind.
        if wanted && (group.is_none() || taken > 1) {
            self.want_flush(number);
        } else if exposed && !wanted {
            self.flush_later(number);
        }
        self.after_progress(number);
    }

    fn land_in_group(&mut self, number: LogNumber, group: Option<u64>) {
        let Some(place) = group.and_then(|group| self.groups.iter().position(|waiting| waiting.number == group)) else {
            return;
        };
        let group = &mut self.groups[place];
        group.flying -= 1;
        group.landed.push(number);
        if group.flying == 0 {
            for number in self.groups.swap_remove(place).landed {
                self.want_flush(number);
            }
        }
    }

    /// Answers what has become durable.
    pub(super) fn acknowledge_durable(&mut self, number: LogNumber) {
        let mut answers = std::mem::take(&mut self.answers);
        let log = &mut self.logs[number.0];
        log.show();
        let end = log.durable_end;
        while let Some(staged) = log.unflushed.pop_front_if(|staged| staged.receipt.end <= end) {
            answers.push(staged);
        }
        self.answer_appends(&mut answers);
        self.answers = answers;
        self.after_progress(number);
    }

    /// A log has come further: what waits for that goes on.
    fn after_progress(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if !log.has_unflushed() {
            log.unflushed_since_ns = u64::MAX;
        } else if log.unflushed.is_empty() && !log.flushing && !log.wants_flush {
            self.flush_later(number);
        }
        self.answer_waiting(number);
        self.announce(number);
        if self.verbs.contains_key(&number) {
            self.list(number);
        }
        if self.logs[number.0].queued.is_empty() {
            self.let_rest(number);
        } else {
            self.list(number);
        }
    }

    fn answer_appends(&mut self, answers: &mut Vec<Staged<Admitted>>) {
        self.answered += answers.len();
        let counters = &self.queue.counters;
        for mut staged in answers.drain(..) {
            counters.records.fetch_add(staged.receipt.end.since(staged.receipt.first), Ordering::Relaxed);
            counters.bytes.fetch_add(u64::from(staged.header.payload_bytes), Ordering::Relaxed);
            if let (Some(answer), Some(admitted)) = (staged.answer.take(), staged.admitted.take()) {
                self.wakes.add(admitted.leave(answer, Ok(staged.receipt)));
            }
        }
        self.wakes.wake();
    }

    /// Answers those who wait for an append that is durable now, or never will be.
    pub(super) fn answer_waiting(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if log.waiting.is_empty() {
            return;
        }
        let (latch, losses, id) = (log.latch.as_deref(), &log.losses, &log.id);
        let end = log.durable_end;
        for waiting in log.waiting.extract_if(.., |waiting| {
            latch.is_some() || waiting.receipt.end <= end || losses.concern(waiting.receipt.losses, waiting.receipt.end)
        }) {
            let receipt = waiting.receipt;
            let result = if losses.concern(receipt.losses, receipt.end) {
                Err(AppendError::Lost { log: id.clone(), first: receipt.first })
            } else if receipt.end <= end {
                Ok(())
            } else {
                let latch = Box::new(latch.cloned().expect("it is latched, or it would wait on"));
                Err(AppendError::Failed { log: id.clone(), latch })
            };
            waiting.admitted.answer(waiting.answer, result);
        }
    }
}

/// Failures.
impl<D: Disk> Shard<D> {
    fn latch(&mut self, number: LogNumber, latch: Latch) {
        let log = &mut self.logs[number.0];
        if log.latch.is_none() {
            log.latch = Some(Box::new(latch));
        }
        // Until a write says so itself: of what else failed only the next open knows what it took along.
        log.heals = false;
    }

    /// A flush that failed may have dropped whatever the device had not yet made durable: every log with something exposed is latched,
    /// here and in the other shards, before any of it is acknowledged. A full disk takes nothing along.
    pub(super) fn latch_what_a_flush_took_along(
        &mut self,
        source: &DiskError,
        covered: impl Iterator<Item = LogNumber>,
    ) {
        for number in covered {
            self.latch_exposed(number, source);
        }
        if source.is_without_room() {
            return;
        }
        self.seen_failures = self.siblings.failures.note(source, self.seen_failures);
        self.latch_all_exposed(source);
    }

    /// What failed may have been a flush.
    pub(super) fn heed_disk_failure(&mut self, source: &DiskError) {
        if source.is_failed_flush() {
            self.latch_what_a_flush_took_along(source, std::iter::empty());
        }
    }

    fn latch_all_exposed(&mut self, source: &DiskError) {
        for number in (0..self.logs.len()).map(LogNumber) {
            if self.logs[number.0].is_exposed() {
                self.latch_exposed(number, source);
            }
        }
    }

    /// Latches a log whose files are no longer what it takes them for.
    pub(super) fn latch_now(&mut self, number: LogNumber, source: &DiskError) {
        let log = &self.logs[number.0];
        let head = log.active.as_ref().map(|active| (active.id.clone(), active.durable_end()));
        let head = head.or_else(|| log.closed.back().map(|closed| (closed.id.clone(), Position(0))));
        let none = || (SegmentId { log: log.id.clone(), seq: Seq::default() }, Position(0));
        let (segment, position) = head.unwrap_or_else(none);
        self.latch(number, Latch { segment, position, source: source.clone() });
        self.fail_exposed(number);
    }

    fn latch_exposed(&mut self, number: LogNumber, source: &DiskError) {
        let log = &mut self.logs[number.0];
        let Some(active) = log.active.as_ref().filter(|_| log.latch.is_none()) else { return };
        let (segment, position) = (active.id.clone(), active.durable_end());
        tracing::error!(%segment, error = %source, "a flush failed: the log is latched");
        log.latch = Some(Box::new(Latch { segment, position, source: source.clone() }));
        self.fail_exposed(number);
    }

    /// A flush of another shard may have failed since this one looked last.
    pub(super) fn heed_other_shards(&mut self) {
        if let Some((seen, source)) = self.siblings.failures.since(self.seen_failures) {
            self.seen_failures = seen;
            self.latch_all_exposed(&source);
        }
    }

    /// Only the failure itself takes anything along: what a latched manifest refuses later never reached the disk.
    pub(super) fn latch_what_the_manifest_took_along(&mut self, error: &ManifestError) {
        if let ManifestError::Disk(source) = error {
            self.latch_what_a_flush_took_along(source, std::iter::empty());
        }
    }

    /// Answers everything of a latched log that has landed, and everything that waits.
    pub(super) fn fail_exposed(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        let Some(latch) = log.latch.clone() else { return };
        let failed = AppendError::Failed { log: log.id.clone(), latch: latch.clone() };
        let mut staged: Vec<Staged<Admitted>> = log.unflushed.drain(..).collect();
        log.flights.retain_mut(|flight| {
            if flight.landed {
                staged.append(&mut flight.staged);
            }
            !flight.landed
        });
        for mut staged in staged {
            if let (Some(answer), Some(admitted)) = (staged.answer.take(), staged.admitted.take()) {
                admitted.answer(answer, Err(failed.clone()));
            }
        }
        let latched = AppendError::Latched { log: log.id.clone(), latch };
        self.refuse_all(number, &latched);
    }
}

/// Keeps the batches of a write for readers at the end of the log.
fn keep_for_readers(
    budget: &mut super::tail_budget::TailBudget,
    queue: &super::command::Queue,
    number: LogNumber,
    shared: &crate::log::Shared,
    flight: &mut Flight<Admitted>,
) {
    if budget.is_off() {
        for staged in &mut flight.staged {
            queue.payloads().give_back(std::mem::take(&mut staged.payload));
        }
        return;
    }
    if flight.staged.is_empty() {
        return;
    }
    let keep = |staged: &mut Staged<Admitted>| Kept {
        position: staged.position,
        header: staged.header,
        payload: std::mem::take(&mut staged.payload),
    };
    let batches: Vec<Kept> = flight.staged.iter_mut().map(keep).collect();
    let bytes = bytes_of(&batches);
    let pushed_out = shared.tail.publish(batches, queue.payloads());
    budget.note(number, bytes, pushed_out);
}

/// Segments: made, sealed.
impl<D: Disk> Shard<D> {
    fn evict_from_tails(&mut self) {
        while let Some(number) = self.tail_budget.next_to_go() {
            let freed = self.logs[number.0].shared.tail.evict();
            self.tail_budget.freed(freed);
        }
    }

    /// Tells the manifest of a segment whose first commit is durable.
    pub(super) fn announce(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        let durable_end = log.durable_end;
        let Some(active) = log.active.as_mut().filter(|active| !active.announced && active.base < durable_end) else {
            return;
        };
        active.announced = true;
        let edit = Edit::Live { segment: active.id.clone(), base: active.base, opened_at_ms: active.opened_at_ms };
        let durable = self.edits.submit(vec![edit]);
        self.spawn_background(number, async move { Event::Announced { log: number, result: durable.await } });
        self.prepare_ahead(number);
    }

    fn settle_prepared(&mut self, number: LogNumber, result: Result<PreparedFile, PrepareError>) {
        let log = &mut self.logs[number.0];
        match result {
            Ok(prepared) => {
                let replaced = log.ahead.take().filter(|ahead| ahead.uid != prepared.uid);
                log.successor = Successor::Ready(prepared);
                self.remove_files(number, replaced.as_ref().map(Leaving::from));
            }
            Err(PrepareError::Disk(source)) => {
                tracing::warn!(log = %log.id, error = %source, "preparing the next segment failed");
                if source.is_full() {
                    self.siblings.removal.note_use(true);
                }
                log.successor = Successor::Failed(Unprepared::Disk(source.clone()), self.now.boot_ns);
                self.heed_disk_failure(&source);
            }
            Err(PrepareError::Manifest(error)) => {
                tracing::warn!(log = %log.id, %error, "the manifest did not take the next segment");
                log.successor = Successor::Failed(Unprepared::Disk(as_disk_error(&error)), self.now.boot_ns);
                self.latch_what_the_manifest_took_along(&error);
            }
            Err(PrepareError::Host(refusal)) => {
                tracing::warn!(log = %log.id, %refusal, "the host does not want the next segment");
                log.successor = Successor::Failed(Unprepared::Host(refusal), self.now.boot_ns);
            }
            Err(PrepareError::Exhausted) => {
                log.successor = Successor::None;
                log.next_seq = None;
                if let Some(ahead) = log.ahead.take() {
                    let durable = self.edits.submit(vec![given_up(&ahead)]);
                    self.spawn_background(
                        number,
                        async move { Event::Announced { log: number, result: durable.await } },
                    );
                }
            }
        }
        let log = &mut self.logs[number.0];
        if let Successor::Ready(prepared) = &log.successor {
            log.next_seq = prepared.id.seq.next();
        }
        if self.config.idle_close_after.is_some() && log::is_idle(log) {
            let_successor_go(log); // Nobody needs it soon.
        }
        let log = log.id.clone();
        self.list(number);
        self.close_later(number);
        let opened = self.opened(number);
        self.answer_makers(&log, Ok(opened));
    }

    fn note_manifest_failure(&mut self, number: LogNumber, result: Result<(), ManifestError>) {
        if let Err(error) = result {
            // Recovery adopts the segment by its header block, so appends go on; the next roll will be refused.
            tracing::warn!(log = %self.logs[number.0].id, %error, "the manifest was not told of a roll");
            self.unclean.push(as_disk_error(&error));
            self.latch_what_the_manifest_took_along(&error);
        }
    }

    /// Where the log stands, for tests and reports.
    #[must_use]
    pub fn durable_end(&self, number: LogNumber) -> Option<Offset> {
        self.logs.get(number.0).map(|log| log.durable_end)
    }
}

/// A manifest that is full is reported as a full disk: both end when there is more room.
pub(super) fn as_disk_error(error: &ManifestError) -> DiskError {
    match error {
        ManifestError::Disk(source) | ManifestError::Latched(source) => source.clone(),
        ManifestError::Full { .. } => {
            DiskError::new(strandline_disk::Verb::Write, "manifest", strandline_disk::Errno::NOSPC)
        }
        ManifestError::Gone => DiskError::new(Verb::Write, "manifest", strandline_disk::Errno::CANCELED),
    }
}
