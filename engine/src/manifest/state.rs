//! What the manifest says: plain data, built from edits. No I/O. The edits that build it again are made by `snapshot.rs`.

use crate::format::manifest::{Edit, ReleaseReason, ScrubCursor};
use crate::id::{Cut, Epoch, Generation, Life, LogId, Offset, SegmentId, Seq, Uid};
use crate::policy::Policies;
use std::collections::BTreeMap;
use std::sync::Arc;
use strandline_disk::Position;

/// Everything that the manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How often the store has been opened.
    pub life: Life,
    /// The logs.
    pub logs: BTreeMap<LogId, LogRecord>,
    /// Files given up, whose bytes are not gone yet.
    pub released: BTreeMap<Uid, ReleasedRecord>,
    /// What is said of policies.
    pub policies: Arc<Policies>,
    /// The last time at which the wall clock was believed, wall ms; none where nobody ever said so.
    pub clock_sure_ms: Option<u64>,
    /// How far the last round of scrubbing has come.
    pub scrub: Option<ScrubCursor>,
}

/// What the manifest says of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecord {
    /// Offsets below it are gone.
    pub start: Offset,
    /// Raised by truncation.
    pub epoch: Epoch,
    /// Where it was truncated last.
    pub cut: Option<Cut>,
    /// The host fenced it: it takes no appends, and up to here it may be repaired.
    pub fence: Option<Offset>,
    /// Its live segment ends exactly here and need not be looked at.
    pub clean: Option<Clean>,
    /// The largest segment number that it has ever used.
    pub last_seq: Option<Seq>,
    /// Its segments.
    pub segments: BTreeMap<Seq, SegmentRecord>,
}

/// Where a log that rests ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clean {
    /// Its live segment.
    pub seq: Seq,
    /// One past its last offset.
    pub end: Offset,
    /// The position after the last batch or mark.
    pub end_position: Position,
    /// Store time of its last batch, wall ms; 0 without one.
    pub last_store_time_ms: u64,
}

/// What the manifest says of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// The uid of its file.
    pub uid: Uid,
    /// The generation of its file.
    pub generation: Generation,
    /// Size of its file in bytes.
    pub size: u64,
    /// The most that may have been in flight past its durable end, in bytes.
    pub look_ahead: u64,
    /// Its blocks were written whole and then synced.
    pub written: bool,
    /// How far it has come.
    pub stage: Stage,
}

/// How far a segment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Made ahead. Its header block may say that it is live already: the edit follows the roll.
    Prepared,
    /// It takes appends, or took the last ones before a roll.
    Live(Opening),
    /// It has a footer and never changes.
    Sealed {
        /// How it began.
        opening: Opening,
        /// How it ended.
        closing: Closing,
    },
    /// It is damaged below its end and is never appended to.
    Fenced {
        /// How it began.
        opening: Opening,
        /// One past its last offset.
        end: Offset,
        /// The position of its end.
        position: Position,
    },
}

/// How a segment began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Its first offset.
    pub base: Offset,
    /// When it took its first record, wall ms.
    pub opened_at_ms: u64,
}

/// How a segment ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// One past its last offset.
    pub end: Offset,
    /// Bytes of its batches.
    pub logical_bytes: u64,
    /// Store time of its first batch, 0 without one.
    pub first_store_time_ms: u64,
    /// Store time of its last batch, 0 without one.
    pub last_store_time_ms: u64,
    /// When it was sealed, wall ms.
    pub sealed_at_ms: u64,
}

/// A file given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedRecord {
    /// The segment it belonged to.
    pub segment: SegmentId,
    /// Its generation.
    pub generation: Generation,
    /// Why it was given up.
    pub reason: ReleaseReason,
    /// It may not be removed before, wall ms.
    pub hold_until_ms: u64,
}

impl State {
    /// Whether a segment is listed.
    #[must_use]
    pub fn lists(&self, segment: &SegmentId) -> bool {
        self.logs.get(&segment.log).is_some_and(|log| log.segments.contains_key(&segment.seq))
    }

    /// The uids of the files of all listed segments.
    pub fn uids(&self) -> impl Iterator<Item = Uid> {
        self.logs.values().flat_map(|log| log.segments.values()).map(|record| record.uid)
    }

    /// Applies one edit.
    ///
    /// # Errors
    /// A sentence that says what contradicts what; the state is then as it was.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        match edit {
            Edit::Opened { life } => self.life = *life,
            Edit::LogCreated { log } => {
                if self.logs.contains_key(log) {
                    return Err(format!("log {log} is created twice"));
                }
                self.logs.insert(log.clone(), LogRecord::default());
            }
            Edit::Prepared { .. } => self.prepare(edit)?,
            Edit::Live { segment, base, opened_at_ms } => {
                self.advance(segment, |stage| match stage {
                    Stage::Prepared => Some(Stage::Live(Opening { base: *base, opened_at_ms: *opened_at_ms })),
                    _ => None,
                })?;
            }
            Edit::Sealed { segment, .. } => {
                self.advance(segment, |stage| match stage {
                    Stage::Live(opening) => ended(opening, edit),
                    _ => None,
                })?;
            }
            Edit::Fenced { segment, end, .. } => {
                self.advance(segment, |stage| match stage {
                    Stage::Live(opening) => ended(opening, edit),
                    // A truncation may shorten it.
                    Stage::Fenced { opening, end: old, .. } if *end <= old => ended(opening, edit),
                    _ => None,
                })?;
            }
            Edit::StartOffset { log, start, epoch } => {
                let log = self.log_before(log, *epoch)?;
                (log.start, log.epoch) = (*start, *epoch);
            }
            Edit::Truncated { log, end, epoch } => self.truncate(log, Cut { end: *end, epoch: *epoch })?,
            Edit::Released { .. } => self.release(edit),
            Edit::Gone { uid } => drop(self.released.remove(uid)),
            Edit::Replaced { .. } => self.replace(edit)?,
            Edit::Shrunk { segment, size } => {
                let record = self.sealed(segment)?;
                if *size == 0 || *size >= record.size {
                    return Err(format!("segment {segment} of {} bytes is shrunk to {size}", record.size));
                }
                record.size = *size;
            }
            Edit::LogDeleted { log } => self.delete(log)?,
            Edit::LogFenced { log, until } => self.log(log)?.fence = *until,
            Edit::Clean { .. } => self.rest(edit)?,
            Edit::Dirty { log } => self.log(log)?.clean = None,
            Edit::SeqUsed { segment } => {
                let log = self.log(&segment.log)?;
                log.last_seq = log.last_seq.max(Some(segment.seq));
            }
            Edit::Policy(edit) => self.apply_policy(edit)?,
            Edit::ClockSure { wall_ms } => self.clock_sure_ms = Some(*wall_ms),
            Edit::Scrubbed(cursor) => self.scrub = Some(cursor.clone()),
            Edit::SealRestamped { segment, sealed_at_ms } => self.restamp(segment, *sealed_at_ms)?,
        }
        Ok(())
    }

    fn log(&mut self, log: &LogId) -> Result<&mut LogRecord, String> {
        self.logs.get_mut(log).ok_or_else(|| format!("log {log} was never created"))
    }

    /// The log, for an edit of `epoch`: epochs never go back.
    fn log_before(&mut self, id: &LogId, epoch: Epoch) -> Result<&mut LogRecord, String> {
        let log = self.log(id)?;
        if epoch < log.epoch {
            return Err(format!("log {id} goes from epoch {} back to {epoch}", log.epoch));
        }
        Ok(log)
    }

    fn segment(&mut self, segment: &SegmentId) -> Result<&mut SegmentRecord, String> {
        let record = self.log(&segment.log)?.segments.get_mut(&segment.seq);
        record.ok_or_else(|| format!("segment {segment} was never prepared"))
    }

    pub(super) fn sealed(&mut self, segment: &SegmentId) -> Result<&mut SegmentRecord, String> {
        let record = self.segment(segment)?;
        match record.stage {
            Stage::Sealed { .. } => Ok(record),
            stage => Err(format!("segment {segment} is to be sealed and is {stage:?}")),
        }
    }

    fn advance(&mut self, segment: &SegmentId, next: impl FnOnce(Stage) -> Option<Stage>) -> Result<(), String> {
        let record = self.segment(segment)?;
        record.stage =
            next(record.stage).ok_or_else(|| format!("segment {segment} cannot follow {:?}", record.stage))?;
        // Whatever a segment becomes, the log's end is not where it was.
        self.log(&segment.log)?.clean = None;
        Ok(())
    }

    /// A file that was given up is on its way out: no segment may stand in it.
    fn is_not_given_up(&self, uid: Uid) -> Result<(), String> {
        match self.released.get(&uid) {
            Some(released) => {
                Err(format!("the file {uid} of segment {} was given up and is used again", released.segment))
            }
            None => Ok(()),
        }
    }

    fn prepare(&mut self, edit: &Edit) -> Result<(), String> {
        let Some((segment, record)) = prepared(edit) else { return Ok(()) };
        self.is_not_given_up(record.uid)?;
        let log = self.log(&segment.log)?;
        if log.segments.contains_key(&segment.seq) {
            return Err(format!("segment {segment} is prepared twice"));
        }
        log.last_seq = log.last_seq.max(Some(segment.seq));
        log.segments.insert(segment.seq, record);
        // Somebody means to write: whatever the first record goes to is looked at again.
        log.clean = None;
        Ok(())
    }

    fn truncate(&mut self, id: &LogId, cut: Cut) -> Result<(), String> {
        let log = self.log_before(id, cut.epoch)?;
        if cut.epoch == log.epoch {
            return Err(format!("log {id} is truncated and stays in epoch {}", cut.epoch));
        }
        if cut.end < log.start {
            return Err(format!("log {id} starts at {} and is truncated to {}", log.start, cut.end));
        }
        (log.cut, log.epoch, log.clean) = (Some(cut), cut.epoch, None);
        Ok(())
    }

    /// A released file belongs to no segment any more, unless a newer generation has taken its place already.
    fn release(&mut self, edit: &Edit) {
        let Edit::Released { segment, uid, generation, reason, hold_until_ms } = edit else { return };
        if let Some(log) = self.logs.get_mut(&segment.log) {
            let LogRecord { segments, clean, .. } = log;
            segments.retain(|_, record| record.uid != *uid);
            clean.take_if(|clean| !segments.contains_key(&clean.seq));
        }
        let released = ReleasedRecord {
            segment: segment.clone(),
            generation: *generation,
            reason: *reason,
            hold_until_ms: *hold_until_ms,
        };
        self.released.insert(*uid, released);
    }

    fn replace(&mut self, edit: &Edit) -> Result<(), String> {
        let Some((segment, next)) = replacement(edit) else { return Ok(()) };
        self.is_not_given_up(next.uid)?;
        let record = self.sealed(segment)?;
        if next.uid == record.uid || next.generation <= record.generation {
            let (old, new) = (record.generation, next.generation);
            return Err(format!("generation {new} of segment {segment} replaces generation {old} and is not newer"));
        }
        *record = next;
        Ok(())
    }

    fn delete(&mut self, id: &LogId) -> Result<(), String> {
        let log = self.logs.remove(id).ok_or_else(|| format!("log {id} is deleted and was never created"))?;
        for (seq, record) in log.segments {
            let segment = SegmentId { log: id.clone(), seq };
            let released = ReleasedRecord {
                segment,
                generation: record.generation,
                reason: ReleaseReason::Expired,
                hold_until_ms: 0,
            };
            self.released.insert(record.uid, released);
        }
        self.unbind_if_gone(&id.topic);
        Ok(())
    }

    fn rest(&mut self, edit: &Edit) -> Result<(), String> {
        let Edit::Clean { segment, end, end_position, last_store_time_ms } = edit else { return Ok(()) };
        let Stage::Live(opening) = self.segment(segment)?.stage else {
            return Err(format!("segment {segment} is clean and not live"));
        };
        if *end < opening.base {
            return Err(format!("segment {segment} starts at {} and ends at {end}", opening.base));
        }
        let log = self.log(&segment.log)?;
        let is_later = |(seq, record): (&Seq, &SegmentRecord)| *seq > segment.seq && record.opening().is_some();
        if log.segments.iter().any(is_later) {
            return Err(format!("segment {segment} is clean and not the last one of its log"));
        }
        log.clean = Some(Clean {
            seq: segment.seq,
            end: *end,
            end_position: *end_position,
            last_store_time_ms: *last_store_time_ms,
        });
        Ok(())
    }
}

/// A segment that was prepared.
fn prepared(edit: &Edit) -> Option<(&SegmentId, SegmentRecord)> {
    let Edit::Prepared { segment, uid, generation, size, look_ahead, written } = edit else { return None };
    let record = SegmentRecord {
        uid: *uid,
        generation: *generation,
        size: *size,
        look_ahead: *look_ahead,
        written: *written,
        stage: Stage::Prepared,
    };
    Some((segment, record))
}

/// What a sealed segment is after it was replaced.
fn replacement(edit: &Edit) -> Option<(&SegmentId, SegmentRecord)> {
    let Edit::Replaced { segment, uid, generation, size, look_ahead, written, base, opened_at_ms, .. } = edit else {
        return None;
    };
    let record = SegmentRecord {
        uid: *uid,
        generation: *generation,
        size: *size,
        look_ahead: *look_ahead,
        written: *written,
        stage: ended(Opening { base: *base, opened_at_ms: *opened_at_ms }, edit)?,
    };
    Some((segment, record))
}

/// The stage after a segment's end.
fn ended(opening: Opening, edit: &Edit) -> Option<Stage> {
    match edit {
        Edit::Sealed { end, logical_bytes, first_store_time_ms, last_store_time_ms, sealed_at_ms, .. }
        | Edit::Replaced { end, logical_bytes, first_store_time_ms, last_store_time_ms, sealed_at_ms, .. } => {
            let closing = Closing {
                end: *end,
                logical_bytes: *logical_bytes,
                first_store_time_ms: *first_store_time_ms,
                last_store_time_ms: *last_store_time_ms,
                sealed_at_ms: *sealed_at_ms,
            };
            Some(Stage::Sealed { opening, closing })
        }
        Edit::Fenced { end, end_position, .. } => Some(Stage::Fenced { opening, end: *end, position: *end_position }),
        _ => None,
    }
}

impl SegmentRecord {
    /// How it began, unless it is only prepared.
    #[must_use]
    pub fn opening(&self) -> Option<Opening> {
        match self.stage {
            Stage::Prepared => None,
            Stage::Live(opening) | Stage::Sealed { opening, .. } | Stage::Fenced { opening, .. } => Some(opening),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RangeNumber, Topic};

    fn segment(seq: u32) -> SegmentId {
        let topic = Topic::new("t").expect("a plain topic");
        let log = LogId { topic, range: RangeNumber::default() };
        SegmentId { log, seq: Seq::new(seq).expect("small") }
    }

    fn prepared(seq: u32, uid: u128) -> Edit {
        let (uid, generation) = (Uid(uid), Generation(0));
        Edit::Prepared { segment: segment(seq), uid, generation, size: 65_536, look_ahead: 4_096, written: true }
    }

    fn live(seq: u32, base: u64) -> Edit {
        Edit::Live { segment: segment(seq), base: Offset(base), opened_at_ms: 1 }
    }

    fn sealed(seq: u32, end: u64) -> Edit {
        Edit::Sealed {
            segment: segment(seq),
            end: Offset(end),
            logical_bytes: 100,
            first_store_time_ms: 1,
            last_store_time_ms: 2,
            sealed_at_ms: 3,
        }
    }

    fn replaced(seq: u32, uid: u128, generation: u32, end: u64) -> Edit {
        Edit::Replaced {
            segment: segment(seq),
            uid: Uid(uid),
            generation: Generation(generation),
            size: 8_192,
            look_ahead: 4_096,
            written: false,
            base: Offset(0),
            end: Offset(end),
            opened_at_ms: 1,
            logical_bytes: 50,
            first_store_time_ms: 1,
            last_store_time_ms: 2,
            sealed_at_ms: 4,
        }
    }

    fn released(seq: u32, uid: u128, reason: ReleaseReason) -> Edit {
        let (uid, generation) = (Uid(uid), Generation(0));
        Edit::Released { segment: segment(seq), uid, generation, reason, hold_until_ms: 0 }
    }

    fn clean(seq: u32, end: u64) -> Edit {
        Edit::Clean { segment: segment(seq), end: Offset(end), end_position: Position(5_000), last_store_time_ms: 9 }
    }

    fn truncated(end: u64, epoch: u64) -> Edit {
        Edit::Truncated { log: segment(0).log, end: Offset(end), epoch: Epoch(epoch) }
    }

    /// A log with segment 0 sealed at offset 10, segment 1 live from there on, and segment 2 prepared.
    fn state() -> State {
        let mut state = State::default();
        let edits = [
            Edit::LogCreated { log: segment(0).log },
            prepared(0, 10),
            live(0, 0),
            sealed(0, 10),
            prepared(1, 11),
            live(1, 10),
            prepared(2, 12),
        ];
        edits.iter().for_each(|edit| state.apply(edit).expect("they follow each other"));
        state
    }

    fn log(state: &State) -> &LogRecord {
        &state.logs[&segment(0).log]
    }

    fn refusal(edit: &Edit) -> String {
        let mut state = state();
        let before = state.clone();
        let sentence = state.apply(edit).expect_err("a contradiction");
        assert_eq!(state, before);
        sentence
    }

    #[test]
    fn a_segment_whose_file_is_replaced_stays_when_the_old_file_is_released() {
        let mut state = state();
        state.apply(&replaced(0, 20, 1, 8)).expect("a newer generation");
        state.apply(&released(0, 10, ReleaseReason::Superseded)).expect("the old file");
        let record = log(&state).segments[&segment(0).seq];
        assert_eq!(
            (record.uid, record.generation, record.size, record.written),
            (Uid(20), Generation(1), 8_192, false)
        );
        assert!(matches!(record.stage, Stage::Sealed { closing, .. } if closing.end == Offset(8)), "{record:?}");
        assert_eq!(state.released.keys().collect::<Vec<_>>(), [&Uid(10)]);
        state.apply(&released(0, 20, ReleaseReason::Expired)).expect("the new file");
        assert!(!log(&state).segments.contains_key(&segment(0).seq));
    }

    #[test]
    fn a_truncation_raises_the_epoch_and_the_newest_cut_counts() {
        let mut state = state();
        state.apply(&truncated(12, 1)).expect("a first truncation");
        state.apply(&truncated(11, 3)).expect("a second one");
        assert_eq!((log(&state).cut, log(&state).epoch), (Some(Cut { end: Offset(11), epoch: Epoch(3) }), Epoch(3)));
        assert!(state.apply(&truncated(11, 3)).is_err() && state.apply(&truncated(11, 2)).is_err());
    }

    #[test]
    fn a_deleted_log_leaves_its_files_to_be_removed_and_nothing_else() {
        let mut state = state();
        state.apply(&Edit::LogDeleted { log: segment(0).log }).expect("it was there");
        assert!(state.logs.is_empty());
        assert_eq!(state.released.keys().copied().collect::<Vec<_>>(), [Uid(10), Uid(11), Uid(12)]);
        assert!(state.released.values().all(|released| released.reason == ReleaseReason::Expired));
        state.apply(&Edit::LogCreated { log: segment(0).log }).expect("its name is free");
    }

    #[test]
    fn whatever_changes_where_a_log_ends_ends_its_rest() {
        let enders = [
            Edit::Dirty { log: segment(0).log },
            prepared(3, 13),
            live(2, 20),
            sealed(1, 20),
            Edit::Fenced { segment: segment(1), end: Offset(20), end_position: Position(5_000) },
            truncated(15, 1),
            released(1, 11, ReleaseReason::Expired),
        ];
        for ender in enders {
            let mut state = state();
            state.apply(&clean(1, 20)).expect("it rests");
            state.apply(&released(0, 10, ReleaseReason::Expired)).expect("its oldest segment is no part of its end");
            assert!(state.apply(&prepared(3, 10)).expect_err("a file given up").contains("used again"));
            assert_eq!(log(&state).clean.map(|clean| clean.end), Some(Offset(20)));
            state.apply(&ender).expect("it follows");
            assert_eq!(log(&state).clean, None, "{ender:?}");
        }
    }

    #[test]
    fn a_segment_number_is_remembered_after_its_segment_is_gone() {
        let mut state = state();
        state.apply(&released(2, 12, ReleaseReason::Expired)).expect("the last one");
        state.apply(&Edit::Gone { uid: Uid(12) }).expect("its bytes");
        assert_eq!(log(&state).last_seq, Seq::new(2));
    }

    #[test]
    fn every_contradiction_is_a_sentence_and_changes_nothing() {
        let unknown = LogId { topic: Topic::new("u").expect("a plain topic"), range: RangeNumber::default() };
        let contradictions = [
            (Edit::LogCreated { log: segment(0).log }, "created twice"),
            (prepared(2, 30), "prepared twice"),
            (live(1, 10), "cannot follow"),
            (sealed(2, 10), "cannot follow"),
            (replaced(1, 20, 1, 8), "is to be sealed"),
            (replaced(0, 20, 0, 8), "is not newer"),
            (replaced(0, 10, 1, 8), "is not newer"),
            (replaced(7, 20, 1, 8), "never prepared"),
            (Edit::Shrunk { segment: segment(0), size: 65_536 }, "is shrunk to 65536"),
            (Edit::Shrunk { segment: segment(0), size: 0 }, "is shrunk to 0"),
            (Edit::Shrunk { segment: segment(1), size: 4_096 }, "is to be sealed"),
            (clean(0, 10), "clean and not live"),
            (clean(2, 10), "clean and not live"),
            (clean(1, 9), "starts at 10 and ends at 9"),
            (truncated(5, 0), "stays in epoch 0"),
            (Edit::LogDeleted { log: unknown.clone() }, "never created"),
            (Edit::LogFenced { log: unknown.clone(), until: None }, "never created"),
            (Edit::Dirty { log: unknown }, "never created"),
        ];
        for (edit, words) in contradictions {
            let sentence = refusal(&edit);
            assert!(sentence.contains(words), "{edit:?}: {sentence}");
        }
    }
}
