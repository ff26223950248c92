//! What is said of the clock durably: the last time that was believed, and a seal time that lay ahead of it.

use super::command::{Admitted, LogNumber};
use super::shard::{Event, Shard};
use super::siblings::Siblings;
use super::verb::{Restamped, Verdict};
use super::verbs::Finish;
use crate::error::VerbError;
use crate::format::manifest::Edit;
use crate::id::{SegmentId, Seq};
use crate::log::STAMP_AHEAD_MAX_MS;
use crate::pending::Answer;
use strandline_disk::Disk;

impl<D: Disk> Shard<D> {
    /// Keeps a wall time that was believed, durably.
    pub(super) fn keep_sure_time(&mut self, wall_ms: u64, answer: Answer<Verdict<()>>, admitted: Admitted) {
        self.keep(Edit::ClockSure { wall_ms }, (answer, admitted), move |siblings| siblings.clock.note_sure(wall_ms));
    }

    /// Has the manifest take an edit that is of no log, and notes what it says when it is durable.
    pub(super) fn keep(
        &mut self,
        edit: Edit,
        (answer, admitted): (Answer<Verdict<()>>, Admitted),
        note: impl FnOnce(&Siblings) + 'static,
    ) {
        let durable = self.edits.submit(vec![edit]);
        self.spawn(async move {
            let result = durable.await.map_err(VerbError::from);
            Event::Done(Box::new(move |shard: &mut Shard<D>| {
                shard.heed_failure(&result);
                if result.is_ok() {
                    note(&shard.siblings);
                }
                admitted.answer(answer, result);
            }))
        });
    }

    /// Gives a sealed segment whose seal time lies ahead of the clock the present time instead, durably. Its footer still says what it said:
    /// the manifest is what counts.
    pub(super) fn restamp_seal(&mut self, number: LogNumber, seq: Seq, answer: Answer<Verdict<Restamped>>) {
        let segment = SegmentId { log: self.logs[number.0].id.clone(), seq };
        let (before_ms, sealed_at_ms) = match self.seal_time_ahead(number, &segment) {
            Ok(before_ms) => (before_ms, self.now.wall_ms),
            Err(error) => return answer.give(Err(error)),
        };
        let durable = self.edits.submit(vec![Edit::SealRestamped { segment, sealed_at_ms }]);
        self.work(number, async move {
            let result = durable.await.map_err(VerbError::from);
            Box::new(move |shard: &mut Shard<D>| {
                shard.heed_failure(&result);
                if let (Ok(()), Some(closed)) = (&result, shard.logs[number.0].closed_at_mut(seq)) {
                    closed.sealed_at_ms = sealed_at_ms;
                }
                answer.give(result.map(|()| Restamped { before_ms, sealed_at_ms, unaudited: None }));
            }) as Finish<D>
        });
    }

    /// The seal time of a segment, when it lies so far ahead of a clock that is believed that it may be replaced.
    fn seal_time_ahead(&self, number: LogNumber, segment: &SegmentId) -> Result<u64, VerbError> {
        let (log, segment) = (&self.logs[number.0], segment.clone());
        if log.active.as_ref().is_some_and(|active| active.id == segment) {
            return Err(VerbError::NotSealed { segment });
        }
        let Some(closed) = log.closed_at(segment.seq) else { return Err(VerbError::NoSuchSegment { segment }) };
        let (sealed_at_ms, now_ms) = (closed.sealed_at_ms, self.now.wall_ms);
        if !closed.sealed {
            return Err(VerbError::NotSealed { segment });
        }
        if !self.siblings.clock.believes(self.now) {
            return Err(VerbError::ClockHeld { segment, sealed_at_ms, now_ms });
        }
        if sealed_at_ms <= now_ms.saturating_add(STAMP_AHEAD_MAX_MS) {
            return Err(VerbError::SealTimeNotAhead { segment, sealed_at_ms, now_ms });
        }
        Ok(sealed_at_ms)
    }
}
