//! Verbs in their turn: each waits for what was asked of its log before it, and for what is in the background; then it is done alone.

use super::command::{Admitted, LogNumber};
use super::shard::Shard;
use super::verb::{SegmentState, Verb};
use crate::error::{AppendError, VerbError};
use crate::format::manifest::Edit;
use crate::log::{Log, Queued, Successor};
use crate::pending::Answer;
use std::collections::{BTreeMap, VecDeque};
use strandline_disk::{Disk, DiskError};

/// A verb that waits for its turn.
pub(super) struct WaitingVerb {
    /// So many batches had been taken before it.
    pub(super) after: u64,
    pub(super) verb: Verb,
    /// Its share of the limits, until it is answered.
    pub(super) admitted: Admitted,
}

/// The verbs that wait, by log.
pub(super) type Verbs = BTreeMap<LogNumber, VecDeque<WaitingVerb>>;

impl<D: Disk> Shard<D> {
    /// Takes a verb.
    pub(super) fn receive_verb(&mut self, number: LogNumber, verb: Verb, admitted: Admitted) {
        let log = &mut self.logs[number.0];
        log.truncating += usize::from(verb.drops());
        let after = log.taken;
        self.verbs.entry(number).or_default().push_back(WaitingVerb { after, verb, admitted });
        self.list(number);
    }

    /// How many of the batches that wait come before the next verb of this log.
    pub(super) fn before_the_next_verb(&self, number: LogNumber) -> usize {
        let log = &self.logs[number.0];
        let Some(next) = self.verbs.get(&number).and_then(VecDeque::front) else { return usize::MAX };
        next.after.saturating_sub(log.taken - log.queued.len() as u64) as usize
    }

    /// Does the next verb of a log when its turn has come. True while one is at work or due: nothing else of the log is staged then.
    pub(super) fn do_verbs(&mut self, number: LogNumber) -> bool {
        loop {
            let log = &self.logs[number.0];
            if log.verb_at_work {
                return true;
            }
            if self.verbs.get(&number).is_none_or(VecDeque::is_empty) || self.before_the_next_verb(number) > 0 {
                return false;
            }
            if !self.is_ready_for_a_verb(number) {
                return true; // What it waits for lists the log again.
            }
            let Some(WaitingVerb { verb, admitted, .. }) = self.verbs.get_mut(&number).and_then(VecDeque::pop_front)
            else {
                return false;
            };
            self.logs[number.0].truncating -= usize::from(verb.drops());
            // Whoever has the answer finds the room.
            drop(admitted);
            self.do_verb(number, verb);
        }
    }

    /// Whether all before the next verb is durable and nothing in the background changes the log's segments. What is missing is asked
    /// for.
    fn is_ready_for_a_verb(&mut self, number: LogNumber) -> bool {
        let Some(next) = self.verbs.get(&number).and_then(VecDeque::front) else { return false };
        let needs_the_head = next.verb.needs_the_head();
        let log = &self.logs[number.0];
        if let Successor::Making(making) = &log.successor {
            making.hurry();
        }
        if log.tasks > 0 || log.flushing || !log.flights.is_empty() {
            return false;
        }
        if log.latch.is_some() || log.deleted {
            return true;
        }
        if !log.is_settled() {
            self.want_flush(number);
            return false;
        }
        if needs_the_head && self.rests(number) {
            self.rouse(number);
            return false;
        }
        true
    }

    fn do_verb(&mut self, number: LogNumber, verb: Verb) {
        let log = &self.logs[number.0];
        if log.deleted {
            return match verb {
                Verb::Delete { answer } => answer.give(Ok(())), // It is gone, as was wanted.
                verb => verb.refuse(VerbError::NoSuchLog { log: log.id.clone() }),
            };
        }
        let suits = verb.suits_a_failed_log() || (log.heals && verb.makes_room());
        if let Some(latch) = log.latch.clone().filter(|_| !suits) {
            return verb.refuse(VerbError::Latched { log: log.id.clone(), latch });
        }
        match verb {
            Verb::Fence { until, answer } => {
                // What was taken after it is no part of the log yet: that ends where it was staged.
                let until = until.unwrap_or_default().max(log.staged_end);
                self.fence(number, Some(until), answer);
            }
            Verb::Unfence { answer } => self.unfence(number, answer),
            Verb::Seal { at: None, answer } => self.seal_head(number, 0, answer),
            Verb::Seal { at: Some(end), answer } => self.seal_at(number, end, answer),
            Verb::Truncate { end, answer } => self.truncate(number, end, answer),
            Verb::Trim { start, answer } => self.trim(number, start, answer),
            Verb::DeleteSegment { seq, answer } => self.delete_segment(number, seq, answer),
            Verb::GiveUp { seq, uid, hold_until_ms, answer } => {
                self.give_segment_up(number, seq, (uid, hold_until_ms), answer);
            }
            Verb::RestampSeal { seq, answer } => self.restamp_seal(number, seq, answer),
            Verb::Delete { answer } => self.delete_log(number, answer),
            Verb::Stats { answer } => answer.give(Ok(self.info(number))),
            Verb::Target { seq, answer } => answer.give(self.target(number, seq)),
            Verb::Verify { seq, answer } => self.verify(number, seq, answer),
            Verb::RebuildIndex { seq, answer } => self.rebuild_index(number, seq, answer),
        }
    }

    fn fence(
        &mut self,
        number: LogNumber,
        until: Option<crate::id::Offset>,
        answer: Answer<super::verb::Verdict<crate::id::Offset>>,
    ) {
        let log = self.logs[number.0].id.clone();
        let durable = self.edits.submit(vec![Edit::LogFenced { log, until }]);
        self.work(number, async move {
            // Durable before it is answered: a log that was fenced takes no append after a restart either.
            let result = durable.await;
            Box::new(move |shard: &mut Shard<D>| {
                let result = result.map_err(VerbError::from);
                shard.heed_failure(&result);
                if result.is_ok() {
                    shard.logs[number.0].fence = until;
                    shard.refuse_what_is_fenced(number);
                }
                answer.give(result.map(|()| until.unwrap_or_default()));
            }) as Finish<D>
        });
    }

    fn unfence(&mut self, number: LogNumber, answer: Answer<super::verb::Verdict<()>>) {
        let log = self.logs[number.0].id.clone();
        let durable = self.edits.submit(vec![Edit::LogFenced { log, until: None }]);
        self.work(number, async move {
            let result = durable.await;
            Box::new(move |shard: &mut Shard<D>| {
                let result = result.map_err(VerbError::from);
                shard.heed_failure(&result);
                if result.is_ok() {
                    shard.logs[number.0].fence = None;
                }
                answer.give(result);
            }) as Finish<D>
        });
    }

    /// What a verb's failure took along, in this shard and in others, is latched before the verb is answered.
    pub(super) fn heed_failure<T>(&mut self, result: &Result<T, VerbError>) {
        match result {
            Err(VerbError::Manifest(error)) => self.latch_what_the_manifest_took_along(error),
            Err(VerbError::Disk(source)) => self.heed_disk_failure(source),
            _ => {}
        }
    }

    /// What waits was taken before the fence was durable. Repairs that the fence lets in go on, up to the first batch that it does not:
    /// the offsets behind that one are not given.
    pub(super) fn refuse_what_is_fenced(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        if let Some(until) = log.fence {
            let is_let_in = |queued: &&Queued<Admitted>| queued.repairs && queued.receipt.end <= until;
            let kept = log.queued.iter().take_while(is_let_in).count();
            let error = AppendError::Fenced { log: log.id.clone(), until };
            self.refuse_behind(number, kept, &error);
        }
    }

    /// Starts the part of a verb that waits for the disk. What it gives back is done in the shard's turn, and ends the verb.
    pub(super) fn work(&mut self, number: LogNumber, task: impl Future<Output = Finish<D>> + 'static) {
        self.logs[number.0].verb_at_work = true;
        self.spawn(async move { super::shard::Event::Verb { log: number, finish: task.await } });
    }

    /// Ends a verb.
    pub(super) fn settle_verb(&mut self, number: LogNumber, finish: Finish<D>) {
        self.logs[number.0].verb_at_work = false;
        finish(self);
        self.list(number);
        // Timers that came due meanwhile did nothing, and nothing of the log was shrunk.
        self.let_rest(number);
        self.sleep_later(number);
        self.shrink_next();
    }

    /// A verb that needs the head of a log which could not be roused is not tried again and again.
    pub(super) fn refuse_verb_at_rest(&mut self, number: LogNumber, source: &DiskError) {
        let Some(verbs) = self.verbs.get_mut(&number) else { return };
        if let Some(WaitingVerb { verb, admitted, .. }) = verbs.pop_front_if(|next| next.verb.needs_the_head()) {
            self.logs[number.0].truncating -= usize::from(verb.drops());
            drop(admitted);
            verb.refuse(VerbError::from(source.clone()));
        }
    }

    /// Answers everything that waits in a log that is going.
    pub(super) fn refuse_verbs(&mut self, number: LogNumber, error: &VerbError) {
        for WaitingVerb { verb, admitted, .. } in self.verbs.remove(&number).into_iter().flatten() {
            drop(admitted);
            self.logs[number.0].truncating -= usize::from(verb.drops());
            verb.refuse(error.clone());
        }
    }
}

/// The end of a verb: what it came to is taken over, and its caller answered.
pub(super) type Finish<D> = Box<dyn FnOnce(&mut Shard<D>)>;

/// What state a closed segment is in.
pub(super) fn state_of<A>(log: &Log<A>, closed: &crate::segment::closed::Closed) -> SegmentState {
    let rests = log.dormant.as_ref().is_some_and(|dormant| dormant.seq == closed.id.seq);
    let damaged = closed.loaded.as_ref().is_some_and(|loaded| !loaded.damage.is_empty());
    match closed.sealed {
        true => SegmentState::Sealed,
        false if rests => SegmentState::Active,
        false if damaged => SegmentState::Damaged,
        false => SegmentState::Closed,
    }
}
