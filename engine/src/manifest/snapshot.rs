//! The snapshot: the edits that build a state from nothing, and the room that they may come to need. No I/O.
//!
//! A region must always hold the snapshot, or the store could never be opened again. Room is therefore taken when something begins,
//! for all that may become of it: a log can always be truncated, fenced, cleaned and deleted, a segment rolled, sealed and released,
//! also when the manifest is full.

use super::state::{Clean, Closing, LogRecord, ReleasedRecord, SegmentRecord, Stage, State};
use crate::format::manifest::{EDIT_HEADER_BYTES, Edit, ReleaseReason};
use crate::id::{Cut, Generation, LogId, Offset, SegmentId, Seq, TOPIC_BYTES_MAX_READABLE, Uid};

/// The longest edit of a cursor of scrubbing: one that names a segment of the longest topic.
const SCRUBBED_BYTES_MAX: usize = EDIT_HEADER_BYTES + 8 + 1 + 4 + 2 + TOPIC_BYTES_MAX_READABLE + 4;

impl State {
    /// The bytes of edits that this state may come to need without growing.
    #[must_use]
    pub fn reserved_bytes(&self) -> usize {
        let logs: usize = self.logs.iter().map(|(id, log)| log.reserved_bytes(id)).sum();
        let released: usize = self.released.values().map(|released| released_bytes(&released.segment)).sum();
        let clock = Edit::ClockSure { wall_ms: 0 }.encoded_bytes();
        Edit::Opened { life: self.life }.encoded_bytes()
            + clock
            + SCRUBBED_BYTES_MAX
            + logs
            + released
            + self.policies_bytes()
    }

    /// How many more bytes this state would reserve with this edit; 0 for one whose room was taken before.
    #[must_use]
    pub fn growth(&self, edit: &Edit) -> usize {
        match edit {
            Edit::LogCreated { log } => LogRecord::default().reserved_bytes(log),
            Edit::Prepared { segment, .. } => segment_bytes(segment),
            // The file before it will be released, and the new one later.
            Edit::Replaced { segment, .. } => released_bytes(segment),
            Edit::Released { segment, uid, .. } => {
                let log = self.logs.get(&segment.log);
                let is_listed = log.is_some_and(|log| log.segments.values().any(|record| record.uid == *uid));
                if is_listed || self.released.contains_key(uid) { 0 } else { released_bytes(segment) }
            }
            Edit::Policy(edit) => self.policy_growth(edit),
            _ => 0,
        }
    }

    /// The edits that build this state from nothing.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Edit> {
        let mut edits = vec![Edit::Opened { life: self.life }];
        edits.extend(self.clock_sure_ms.map(|wall_ms| Edit::ClockSure { wall_ms }));
        edits.extend(self.scrub.clone().map(Edit::Scrubbed));
        for (id, log) in &self.logs {
            log.snapshot(id, &mut edits);
        }
        edits.extend(self.released.iter().map(|(uid, released)| released.edit(*uid)));
        // Last, since a binding says nothing of a topic without logs.
        edits.extend(self.policy_edits());
        edits
    }
}

impl LogRecord {
    fn snapshot(&self, id: &LogId, edits: &mut Vec<Edit>) {
        edits.push(Edit::LogCreated { log: id.clone() });
        // The cut comes before the start, which may have moved past it since.
        if let Some(Cut { end, epoch }) = self.cut {
            edits.push(Edit::Truncated { log: id.clone(), end, epoch });
        }
        edits.push(Edit::StartOffset { log: id.clone(), start: self.start, epoch: self.epoch });
        if let Some(seq) = self.last_seq {
            edits.push(Edit::SeqUsed { segment: SegmentId { log: id.clone(), seq } });
        }
        if self.fence.is_some() {
            edits.push(Edit::LogFenced { log: id.clone(), until: self.fence });
        }
        for (seq, record) in &self.segments {
            record.snapshot(&SegmentId { log: id.clone(), seq: *seq }, edits);
        }
        // Last, since what a segment becomes ends the rest of its log.
        if let Some(Clean { seq, end, end_position, last_store_time_ms }) = self.clean {
            let segment = SegmentId { log: id.clone(), seq };
            edits.push(Edit::Clean { segment, end, end_position, last_store_time_ms });
        }
    }

    /// The bytes of all that may be said of this log, its segments included.
    fn reserved_bytes(&self, id: &LogId) -> usize {
        let mut own = Vec::new();
        let fullest = LogRecord {
            cut: Some(Cut::default()),
            fence: Some(Offset::default()),
            clean: Some(Clean::default()),
            last_seq: Some(Seq::default()),
            ..LogRecord::default()
        };
        fullest.snapshot(id, &mut own);
        let segment = segment_bytes(&SegmentId { log: id.clone(), seq: Seq::default() });
        own.iter().map(Edit::encoded_bytes).sum::<usize>() + self.segments.len() * segment
    }
}

impl SegmentRecord {
    fn snapshot(&self, segment: &SegmentId, edits: &mut Vec<Edit>) {
        edits.push(Edit::Prepared {
            segment: segment.clone(),
            uid: self.uid,
            generation: self.generation,
            size: self.size,
            look_ahead: self.look_ahead,
            written: self.written,
        });
        if let Some(opening) = self.opening() {
            let (base, opened_at_ms) = (opening.base, opening.opened_at_ms);
            edits.push(Edit::Live { segment: segment.clone(), base, opened_at_ms });
        }
        match self.stage {
            Stage::Prepared | Stage::Live(_) => {}
            Stage::Sealed { closing, .. } => edits.push(Edit::Sealed {
                segment: segment.clone(),
                end: closing.end,
                logical_bytes: closing.logical_bytes,
                first_store_time_ms: closing.first_store_time_ms,
                last_store_time_ms: closing.last_store_time_ms,
                sealed_at_ms: closing.sealed_at_ms,
            }),
            Stage::Fenced { end, position, .. } => {
                edits.push(Edit::Fenced { segment: segment.clone(), end, end_position: position });
            }
        }
    }
}

impl ReleasedRecord {
    fn edit(&self, uid: Uid) -> Edit {
        Edit::Released {
            segment: self.segment.clone(),
            uid,
            generation: self.generation,
            reason: self.reason,
            hold_until_ms: self.hold_until_ms,
        }
    }
}

/// The bytes of all that may be said of a segment: its whole life, which ends with a seal, and that its file is given up. The files of
/// its older generations take room of their own.
fn segment_bytes(segment: &SegmentId) -> usize {
    let sealed = Stage::Sealed { opening: Default::default(), closing: Closing::default() };
    let record =
        SegmentRecord { uid: Uid(0), generation: Generation(0), size: 0, look_ahead: 0, written: false, stage: sealed };
    let mut edits = Vec::new();
    record.snapshot(segment, &mut edits);
    edits.iter().map(Edit::encoded_bytes).sum::<usize>() + released_bytes(segment)
}

fn released_bytes(segment: &SegmentId) -> usize {
    let reason = ReleaseReason::Expired;
    ReleasedRecord { segment: segment.clone(), generation: Generation(0), reason, hold_until_ms: 0 }
        .edit(Uid(0))
        .encoded_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::any::{edits, step};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What a state says when it is read again is what it said, at every moment of any history.
        #[test]
        fn a_snapshot_builds_the_state_again(groups in edits()) {
            let mut state = State::default();
            for group in groups {
                step(&mut state, &group);
                let mut again = State::default();
                for edit in state.snapshot() {
                    prop_assert_eq!(again.apply(&edit), Ok(()), "{:?}", edit);
                }
                prop_assert_eq!(&again, &state);
            }
        }

        /// Whatever may come without new room fits the room that was taken: a manifest that took its edits can always be read again.
        #[test]
        fn room_that_was_taken_holds_every_snapshot_to_come(groups in edits()) {
            let mut state = State::default();
            let mut taken = state.reserved_bytes();
            for group in groups {
                // As the manifest does it: the room of a group is taken before any of it is applied.
                let growth: usize = group.iter().map(|edit| state.growth(edit)).sum();
                if step(&mut state, &group) {
                    taken += growth;
                }
                let needed: usize = state.snapshot().iter().map(Edit::encoded_bytes).sum();
                let reserved = state.reserved_bytes();
                prop_assert!(needed <= reserved && reserved <= taken, "{} <= {} <= {}: {:?}", needed, reserved, taken, group);
            }
        }

        #[test]
        fn a_contradiction_leaves_the_state_as_it_was(groups in edits()) {
            let mut state = State::default();
            for edit in groups.iter().flatten() {
                let before = state.clone();
                if let Err(sentence) = state.apply(edit) {
                    prop_assert_eq!(&state, &before, "{}", sentence);
                }
            }
        }
    }
}
