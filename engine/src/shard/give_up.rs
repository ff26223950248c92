//! Giving up: the start of a log is raised, its oldest segments go, or all of it does. The manifest durably knows before any byte goes.

use super::command::LogNumber;
use super::leave::Leaving;
use super::shard::Shard;
use super::verb::Verdict;
use super::verbs::Finish;
use crate::config::sabotaged;
use crate::error::{AppendError, VerbError};
use crate::format::manifest::{Edit, ReleaseReason};
use crate::id::{Offset, SegmentId, Seq};
use crate::log::{Shared, Successor};
use crate::manifest::ManifestError;
use crate::pending::Answer;
use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use strandline_disk::Disk;

/// How many of the logs that were deleted are looked at in a turn.
const BURIED_A_TURN: usize = 4;

/// A log that was deleted.
pub(super) struct Dying {
    number: LogNumber,
    /// What whoever holds it has of it.
    held: Weak<Shared>,
}

impl<D: Disk> Shard<D> {
    /// Raises the start of a log. What lies before it cannot be read from then on; whole segments of it go, unless a pin holds them.
    pub(super) fn trim(&mut self, number: LogNumber, start: Offset, answer: Answer<Verdict<Offset>>) {
        let log = &self.logs[number.0];
        if start > log.durable_end {
            let (log, start_of, end) = (log.id.clone(), log.start, log.durable_end);
            return answer.give(Err(VerbError::OutOfRange { log, requested: start, start: start_of, end }));
        }
        if start <= log.start {
            answer.give(Ok(log.start));
            // What an earlier one had to leave may go now.
            return self.release_below_the_start(number);
        }
        let edit = Edit::StartOffset { log: log.id.clone(), start, epoch: log.epoch };
        let durable = self.edits.submit(vec![edit]);
        self.work(number, async move {
            let result = durable.await;
            Box::new(move |shard: &mut Shard<D>| {
                let result = result.map_err(VerbError::from).map(|()| {
                    let log = &mut shard.logs[number.0];
                    log.start = start;
                    log.show();
                    shard.ahead.forget(number);
                    start
                });
                shard.heed_failure(&result);
                // The start is durable, so the caller may know; the bytes follow.
                answer.give(result);
                shard.release_below_the_start(number);
            }) as Finish<D>
        });
    }

    /// Gives up the sealed segments that lie before the start of their log, oldest first, up to one that is pinned or being shrunk.
    pub(super) fn release_below_the_start(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        if log.verb_at_work || log.deleted {
            return; // Looked at again when the verb is done.
        }
        let pinned = log.shared.pins.lowest();
        let goes = |closed: &&crate::segment::closed::Closed| {
            // One that is being shrunk is written still: its file must not be used again meanwhile.
            let shrinks = self.shrinking == Some((number, closed.id.seq));
            closed.sealed && !shrinks && closed.end <= log.start && pinned.is_none_or(|pinned| closed.end <= pinned)
        };
        let gone: Vec<Leaving> = log.closed.iter().take_while(goes).map(Leaving::from).collect();
        if gone.is_empty() {
            return;
        }
        let id = log.id.clone();
        let edits = gone.iter().map(|Leaving { seq, uid, generation, .. }| {
            Edit::released(&SegmentId { log: id.clone(), seq: *seq }, *uid, *generation, ReleaseReason::Expired)
        });
        let durable = self.edits.submit(edits.collect());
        if sabotaged!(self.config, ReleaseBeforeEdit) {
            self.remove_files(number, gone.clone());
        }
        self.work(number, async move {
            let result = durable.await;
            Box::new(move |shard: &mut Shard<D>| match result {
                Ok(()) => {
                    let log = &mut shard.logs[number.0];
                    log.closed.retain(|closed| !gone.iter().any(|gone| gone.seq == closed.id.seq));
                    shard.remove_files(number, gone);
                }
                // They stay where they are; the next trim, to wherever, tries again.
                Err(error) => {
                    tracing::warn!(log = %shard.logs[number.0].id, %error, "segments could not be released");
                    shard.latch_what_the_manifest_took_along(&error);
                }
            }) as Finish<D>
        });
    }

    /// Gives up the oldest segment of a log, as a host's retention does. One that is gone already is no error.
    pub(super) fn delete_segment(&mut self, number: LogNumber, seq: Seq, answer: Answer<Verdict<()>>) {
        let log = &self.logs[number.0];
        let segment = SegmentId { log: log.id.clone(), seq };
        if log.active.as_ref().is_some_and(|active| active.id.seq == seq) {
            return answer.give(Err(VerbError::NotSealed { segment }));
        }
        let Some(closed) = log.closed_at(seq) else { return answer.give(Ok(())) };
        if !closed.sealed {
            // Where there was no room for its footer nothing else may come by that tries again.
            self.again_is_due(number);
            return answer.give(Err(VerbError::NotSealed { segment }));
        }
        match log.closed.front() {
            Some(oldest) if oldest.id.seq != seq => {
                answer.give(Err(VerbError::NotOldest { segment, oldest: oldest.id.clone() }));
            }
            _ => {
                let end = closed.end;
                let (trimmed, pending) = crate::pending::pair();
                pending.on_ready(move |result: Verdict<Offset>| answer.give(result.map(drop)));
                self.trim(number, end, trimmed);
            }
        }
    }

    /// Gives up a log, with everything in it. Its number is not used again, and whoever holds it is told.
    pub(super) fn delete_log(&mut self, number: LogNumber, answer: Answer<Verdict<()>>) {
        let log = &self.logs[number.0];
        let durable = self.edits.submit(vec![Edit::LogDeleted { log: log.id.clone() }]);
        self.work(number, async move {
            let result = durable.await;
            Box::new(move |shard: &mut Shard<D>| {
                match &result {
                    Ok(()) => shard.forget_log(number),
                    // It may be gone all the same: nothing more is acknowledged in it.
                    Err(error) => {
                        shard.latch_what_the_manifest_took_along(error);
                        if let ManifestError::Disk(source) = error {
                            shard.latch_now(number, source);
                        }
                    }
                }
                answer.give(result.map_err(VerbError::from));
            }) as Finish<D>
        });
    }

    /// Gives up what is left of logs that were deleted, as soon as nobody can ask for them and nothing is at work in them any more.
    pub(super) fn bury(&mut self) {
        for _ in 0..self.dying.len().min(BURIED_A_TURN) {
            let Some(Dying { number, held }) = self.dying.pop_front() else { return };
            if held.strong_count() == 0 && self.is_at_rest(number) {
                self.logs.bury(number.0);
                self.timers.forget(number);
                self.seals.failed.retain(|(of, _), _| *of != number);
                self.verbs.remove(&number);
                self.shrink_next(); // It may have waited for a timer of this one.
            } else {
                self.dying.push_back(Dying { number, held });
            }
        }
    }

    /// Whether nothing is left that could come back to a log that was deleted and that nobody holds.
    fn is_at_rest(&self, number: LogNumber) -> bool {
        // What was queued by whoever let go of it last is seen by who sees that it was let go of.
        fence(Ordering::Acquire);
        let log = &self.logs[number.0];
        let no_verbs = self.verbs.get(&number).is_none_or(VecDeque::is_empty);
        let (waiting, written) =
            (log.queued.is_empty() && log.waiting.is_empty(), log.is_settled() && log.unflushed.is_empty());
        let at_work = log.tasks > 0
            || log.reading > 0
            || log.verb_at_work
            || log.truncating > 0
            || log.rousing
            || log.wants_flush
            || log.listed;
        waiting && written && !at_work && no_verbs && self.queue.is_empty()
    }

    fn forget_log(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        log.deleted = true;
        log.shared.close();
        let mut gone: Vec<Leaving> = log.closed.drain(..).map(|closed| Leaving::from(&closed)).collect();
        gone.extend(log.active.take().map(|active| Leaving::from(&active)));
        if let Successor::Ready(prepared) = std::mem::replace(&mut log.successor, Successor::None) {
            gone.push(Leaving::from(&prepared));
        }
        log.dormant = None;
        gone.extend(log.ahead.take().map(|file| Leaving::from(&file)));
        let id = log.id.clone();
        let (bytes, commits) = log.shared.tail.clear();
        self.tail_budget.forget(number, bytes, commits);
        self.ahead.forget(number);
        self.numbers.remove(&id);
        self.siblings.give_log_back();
        // Whoever waits for an append of his to become durable waits for nothing.
        self.logs[number.0].losses.note(Offset(0));
        self.answer_waiting(number);
        self.remove_files(number, gone);
        let refused = AppendError::Deleted { log: id.clone() };
        self.refuse_all(number, &refused);
        self.refuse_verbs(number, &VerbError::NoSuchLog { log: id });
        // What its shard has of it is another one from now on, so that whoever holds the log is all that holds the old one.
        let log = &mut self.logs[number.0];
        let held = Arc::downgrade(&std::mem::replace(&mut log.shared, Arc::new(Shared::new(log.id.clone()))));
        log.shared.close();
        self.dying.push_back(Dying { number, held });
    }
}
