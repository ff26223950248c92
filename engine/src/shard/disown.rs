//! Disown: a segment that the manifest lists and the host does not know is given up as an orphan. Only the oldest one of its log, sealed and
//! not pinned; it waits in the trash like any other orphan.

use super::command::LogNumber;
use super::orphan::{GivenUp, OrphanAnswer};
use super::shard::{Event, Shard};
use super::siblings::Claim;
use super::verbs::Finish;
use crate::error::{OrphanError, VerbError};
use crate::format::manifest::{Edit, ReleaseReason};
use crate::id::{Generation, Offset, SegmentId, Seq, Uid};
use crate::manifest::state::ReleasedRecord;
use crate::pending::Answer;
use crate::removal::going::Outgoing;
use crate::removal::release::Given;
use crate::removal::trash;
use strandline_disk::Disk;

/// A segment that is given up.
struct Disowned {
    segment: SegmentId,
    uid: Uid,
    generation: Generation,
    end: Offset,
    claim: Claim,
}

impl<D: Disk> Shard<D> {
    /// Gives a segment up. Durable before any name changes, and forgotten by the log before that, so that no read looks for it.
    pub(super) fn give_segment_up(
        &mut self,
        number: LogNumber,
        seq: Seq,
        (uid, hold_until_ms): (Uid, u64),
        answer: Answer<OrphanAnswer<GivenUp>>,
    ) {
        let disowned = match self.may_be_disowned(number, seq, uid) {
            Ok(Some(disowned)) => disowned,
            Ok(None) => return answer.give(Ok(GivenUp::Absent)),
            Err(error) => return answer.give(Err(error)),
        };
        let Disowned { segment, generation, end, .. } = &disowned;
        let (reason, hold_until_ms) = (ReleaseReason::Orphan, hold_until_ms.max(1));
        let record = ReleasedRecord { segment: segment.clone(), generation: *generation, reason, hold_until_ms };
        let outgoing = Outgoing::new(Given { uid, record, blocks: None }, &self.siblings.removal.going);
        let log = &self.logs[number.0];
        let start = Edit::StartOffset { log: log.id.clone(), start: log.start.max(*end), epoch: log.epoch };
        let released = Edit::Released { segment: segment.clone(), uid, generation: *generation, reason, hold_until_ms };
        let durable = self.edits.submit(vec![start, released]);
        self.work(number, async move {
            let result = durable.await;
            Box::new(move |shard: &mut Shard<D>| match result.map_err(VerbError::from) {
                Ok(()) => shard.move_disowned(number, disowned, outgoing, answer),
                Err(error) => {
                    shard.heed_failure(&Err::<(), _>(error.clone()));
                    answer.give(Err(error.into()));
                }
            }) as Finish<D>
        });
    }

    fn may_be_disowned(&self, number: LogNumber, seq: Seq, uid: Uid) -> OrphanAnswer<Option<Disowned>> {
        let log = &self.logs[number.0];
        let segment = SegmentId { log: log.id.clone(), seq };
        let name = || segment.to_string();
        if log.active.as_ref().is_some_and(|active| active.id.seq == seq) {
            return Err(VerbError::NotSealed { segment }.into());
        }
        let Some(closed) = log.closed_at(seq) else {
            let newest =
                log.active.as_ref().map(|active| active.id.seq).or(log.closed.back().map(|closed| closed.id.seq));
            // One that was made ahead holds nothing, and the log goes on in it.
            let is_ahead = newest.is_none_or(|newest| seq > newest);
            return if is_ahead { Err(OrphanError::Known { name: name(), segment }) } else { Ok(None) };
        };
        if !closed.sealed {
            return Err(VerbError::NotSealed { segment }.into());
        }
        let changed = |reason: &str| Err(OrphanError::Changed { name: name(), reason: reason.to_owned() });
        if closed.uid != uid {
            return changed("its file is another");
        }
        if let Some(oldest) = log.closed.front().filter(|oldest| oldest.id.seq != seq) {
            return Err(VerbError::NotOldest { segment, oldest: oldest.id.clone() }.into());
        }
        if log.shared.pins.lowest().is_some_and(|pinned| pinned < closed.end) {
            return Err(OrphanError::Pinned { segment });
        }
        if self.shrinking == Some((number, seq)) {
            return changed("its file is being shrunk");
        }
        let (generation, end) = (closed.generation, closed.end);
        let claim = self.siblings.claim(vec![segment.clone()]);
        let claim = claim.map_err(|claimed| OrphanError::Known { name: name(), segment: claimed })?;
        Ok(Some(Disowned { segment, uid, generation, end, claim }))
    }

    /// The log forgets the segment, and then its directory goes into the trash.
    fn move_disowned(
        &mut self,
        number: LogNumber,
        disowned: Disowned,
        outgoing: Outgoing,
        answer: Answer<OrphanAnswer<GivenUp>>,
    ) {
        let Disowned { segment, uid, end, claim, .. } = disowned;
        let log = &mut self.logs[number.0];
        log.start = log.start.max(end);
        log.closed.retain(|closed| closed.uid != uid);
        log.show();
        self.ahead.forget(number);
        let (disk, syncs) = (self.disk.clone(), self.syncs.clone());
        self.spawn(async move {
            let moved = async {
                let trash = trash::open(&disk).await?;
                trash::move_in(&disk, &trash, &syncs, (&crate::layout::directory_name(&segment), uid)).await
            };
            let moved = moved.await.map_err(VerbError::from);
            Event::Done(Box::new(move |shard: &mut Shard<D>| {
                shard.heed_failure(&moved);
                let record = outgoing.given.record.clone();
                drop(outgoing);
                match &moved {
                    Ok(_) => _ = shard.siblings.held.put(uid, None),
                    // Its name stays taken; the next open moves it.
                    Err(_) => shard.siblings.removal.going.note(std::iter::once((uid, &record))),
                }
                drop(claim);
                answer.give(moved.map(|_| GivenUp::Held(uid)).map_err(OrphanError::from));
            }))
        });
    }
}
