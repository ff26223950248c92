//! Inspecting: what a shard knows of its logs, and what is really in their files. Changes nothing but an index that is built again.

use super::command::LogNumber;
use super::descriptors::Descriptors;
use super::roll::age_of;
use super::shard::Shard;
use super::verb::{LogInfo, Rot, Sealed, SegmentInfo, SegmentState, Verdict, Verified};
use super::verbs::{Finish, state_of};
use crate::error::VerbError;
use crate::id::{SegmentId, Seq};
use crate::log::shared::Bounds;
use crate::pending::Answer;
use crate::segment::closed::{Closed, open_file};
use crate::segment::scrub::Target;
use crate::segment::seal;
use crate::segment::survey::{self, Expected};
use strandline_disk::{Disk, Position};

impl<D: Disk> Shard<D> {
    /// Everything about a log.
    pub(super) fn info(&self, number: LogNumber) -> LogInfo {
        let log = &self.logs[number.0];
        let closed = log.closed.iter().map(|closed| SegmentInfo {
            seq: closed.id.seq,
            generation: closed.generation,
            state: state_of(log, closed),
            base: closed.base,
            end: closed.end,
            byte_size: self.byte_size(number, closed),
            file_bytes: closed.size,
            opened_at_ms: closed.opened_at_ms,
            sealed_at_ms: closed.sealed.then_some(closed.sealed_at_ms),
        });
        let active = log.active.iter().map(|active| SegmentInfo {
            seq: active.id.seq,
            generation: active.generation,
            state: SegmentState::Active,
            base: active.base,
            end: log.durable_end,
            byte_size: active.logical_bytes(),
            file_bytes: active.size,
            opened_at_ms: active.opened_at_ms,
            sealed_at_ms: None,
        });
        LogInfo {
            id: log.id.clone(),
            bounds: Bounds { start: log.start, end: log.durable_end, written_end: log.written_end },
            epoch: log.epoch,
            fence: log.fence,
            failed: log.latch.as_deref().cloned(),
            segment_max_age_ms: age_of(&self.config, log).map(|age| age.as_millis().try_into().unwrap_or(u64::MAX)),
            segments: closed.chain(active).collect(),
        }
    }

    /// Bytes of a closed segment, without opening it.
    fn byte_size(&self, number: LogNumber, closed: &Closed) -> u64 {
        let dormant = self.logs[number.0].dormant.as_ref().filter(|dormant| dormant.seq == closed.id.seq);
        let from = Position(strandline_disk::BLOCK as u64);
        dormant.map_or(closed.logical_bytes, |dormant| dormant.end_position.since(from))
    }

    /// Every log of this shard.
    pub(super) fn inventory(&self) -> Vec<LogInfo> {
        let there = (0..self.logs.len()).map(LogNumber).filter(|number| !self.logs[number.0].deleted);
        there.map(|number| self.info(number)).collect()
    }

    /// Seals the head of a log; where it is sealed already, says how it ended.
    pub(super) fn seal_head(&mut self, number: LogNumber, dropped: u64, answer: Answer<Verdict<Sealed>>) {
        let log = &self.logs[number.0];
        let seq = match (&log.active, log.closed.back()) {
            (Some(active), _) => active.id.seq,
            (None, Some(closed)) if closed.sealed => return answer.give(Ok(sealed(closed, dropped))),
            (None, Some(closed)) if let Some(error) = self.seals.failed.get(&(number, closed.id.seq)) => {
                if !error.is_tried_again() {
                    return answer.give(Err(error.answer(&closed.id))); // Not as if it could succeed before the next open.
                }
                closed.id.seq
            }
            (None, Some(closed)) if state_of(log, closed) == SegmentState::Damaged => {
                let position = closed
                    .loaded
                    .as_ref()
                    .and_then(|loaded| loaded.damage.first())
                    .map_or(Position(0), |damage| damage.position);
                return answer.give(Err(VerbError::Damaged { segment: closed.id.clone(), position }));
            }
            // Found damaged before this open, and not looked at since.
            (None, Some(closed)) if closed.loaded.is_none() => {
                let position = Position(0);
                return answer.give(Err(VerbError::Damaged { segment: closed.id.clone(), position }));
            }
            (None, Some(closed)) => closed.id.seq,
            (None, None) => {
                // What waits behind the seal is no part of it.
                return answer.give(Ok(Sealed { segment: None, end: log.staged_end, byte_size: 0, dropped }));
            }
        };
        self.seals.asked.entry((number, seq)).or_default().push((dropped, answer));
        if self.logs[number.0].active.is_some() {
            self.close_active(number);
        } else {
            self.seal(number, seq);
        }
    }

    /// Answers those who wait for a segment to be sealed.
    pub(super) fn answer_sealings(&mut self, number: LogNumber, seq: Seq, result: &Result<(), VerbError>) {
        let waiting = self.seals.asked.remove(&(number, seq)).unwrap_or_default();
        let closed = self.logs[number.0].closed_at(seq);
        for (dropped, answer) in waiting {
            answer.give(match (result, closed) {
                (Ok(()), Some(closed)) => Ok(sealed(closed, dropped)),
                (Err(error), _) => Err(error.clone()),
                (Ok(()), None) => Err(VerbError::NoSuchLog { log: self.logs[number.0].id.clone() }),
            });
        }
    }

    /// Reads all segments of a log, or one, and tells what does not verify.
    pub(super) fn verify(&mut self, number: LogNumber, seq: Option<Seq>, answer: Answer<Verdict<Verified>>) {
        let log = &self.logs[number.0];
        let wanted = |of: Seq| seq.is_none_or(|seq| seq == of);
        let mut targets: Vec<(SegmentId, crate::id::Generation, Expected)> = Vec::new();
        for closed in log.closed.iter().filter(|closed| wanted(closed.id.seq)) {
            targets.push((closed.id.clone(), closed.generation, closed.expected()));
        }
        if let Some(active) = log.active.as_ref().filter(|active| wanted(active.id.seq)) {
            let (uid, base, size, look_ahead) = (active.uid, active.base, active.size, active.look_ahead);
            let expected = Expected { uid, base, end: Some(log.durable_end), size, look_ahead, cut: None };
            targets.push((active.id.clone(), active.generation, expected));
        }
        if let (Some(seq), true) = (seq, targets.is_empty()) {
            let segment = SegmentId { log: log.id.clone(), seq };
            return answer.give(Err(VerbError::NoSuchSegment { segment }));
        }
        let (disk, descriptors) = (self.disk.clone(), self.descriptors.clone());
        self.work(number, async move {
            let result = verify_all(&disk, &descriptors, targets).await;
            Box::new(move |_: &mut Shard<D>| answer.give(result)) as Finish<D>
        });
    }

    /// Which file a sealed segment has. Whoever reads it beside the log asks again in the end: nothing is wrong with what was removed or changed
    /// meanwhile.
    pub(super) fn target(&self, number: LogNumber, seq: Seq) -> Verdict<Target> {
        let log = &self.logs[number.0];
        if log.deleted {
            return Err(VerbError::NoSuchLog { log: log.id.clone() });
        }
        let segment = SegmentId { log: log.id.clone(), seq };
        match log.closed_at(seq) {
            Some(closed) if closed.sealed => Ok(Target::from(closed)),
            None if log.active.as_ref().is_none_or(|active| active.id != segment) => {
                Err(VerbError::NoSuchSegment { segment })
            }
            _ => Err(VerbError::NotSealed { segment }),
        }
    }

    /// Builds the index of a sealed segment from its data, and writes index and footer again.
    pub(super) fn rebuild_index(&mut self, number: LogNumber, seq: Seq, answer: Answer<Verdict<()>>) {
        let log = &self.logs[number.0];
        let segment = SegmentId { log: log.id.clone(), seq };
        let Some(closed) = log.closed_at(seq).cloned() else {
            let active = log.active.as_ref().is_some_and(|active| active.id.seq == seq);
            let error = if active { VerbError::NotSealed { segment } } else { VerbError::NoSuchSegment { segment } };
            return answer.give(Err(error));
        };
        if !closed.sealed {
            return answer.give(Err(VerbError::NotSealed { segment }));
        }
        let (disk, descriptors) = (self.disk.clone(), self.descriptors.clone());
        self.work(number, async move {
            let result = build_again(&disk, &descriptors, &closed).await;
            Box::new(move |shard: &mut Shard<D>| {
                shard.heed_failure(&result);
                if result.is_ok()
                    && let Some(closed) = shard.logs[number.0].closed_at_mut(seq)
                {
                    closed.loaded = None; // Opened again when it is read.
                }
                answer.give(result);
            }) as Finish<D>
        });
    }
}

fn sealed(closed: &Closed, dropped: u64) -> Sealed {
    Sealed { segment: Some(closed.id.clone()), end: closed.end, byte_size: closed.logical_bytes, dropped }
}

async fn verify_all<D: Disk>(
    disk: &D,
    descriptors: &Descriptors,
    targets: Vec<(SegmentId, crate::id::Generation, Expected)>,
) -> Verdict<Verified> {
    let mut verified = Verified::default();
    for (segment, generation, expected) in targets {
        let _room = descriptors.room(2).await?;
        let (_, file) = open_file(disk, &segment, generation).await?;
        let found = survey::survey(disk, &file, &expected).await?;
        verified.segments += 1;
        verified.batches += found.batches;
        verified.rot.extend(found.damage.into_iter().map(|damage| Rot::of(&segment, damage)));
    }
    Ok(verified)
}

async fn build_again<D: Disk>(disk: &D, descriptors: &Descriptors, closed: &Closed) -> Verdict<()> {
    let _room = descriptors.room(2).await?;
    let (_, file) = open_file(disk, &closed.id, closed.generation).await?;
    let found = closed.survey(disk, file.clone()).await?;
    if let Some(damage) = found.damage.first() {
        return Err(VerbError::Damaged { segment: closed.id.clone(), position: damage.position });
    }
    let footer = closed.footer(&found, closed.sealed_at_ms);
    Ok(seal::seal(disk, &file, closed.size, &found.index, footer).await?)
}
