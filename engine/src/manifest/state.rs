//! What the manifest says: plain data, built from edits, and the edits that build it again. No I/O.

use crate::format::manifest::{Edit, ReleaseReason};
use crate::id::{Epoch, Generation, Life, LogId, Offset, SegmentId, Seq, Uid};
use std::collections::BTreeMap;
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
}

/// What the manifest says of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecord {
    /// Offsets below it are gone.
    pub start: Offset,
    /// Raised by truncation.
    pub epoch: Epoch,
    /// Its segments.
    pub segments: BTreeMap<Seq, SegmentRecord>,
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
            Edit::Prepared { segment, uid, generation, size, look_ahead } => {
                let log = self.log(&segment.log)?;
                let record = SegmentRecord {
                    uid: *uid,
                    generation: *generation,
                    size: *size,
                    look_ahead: *look_ahead,
                    stage: Stage::Prepared,
                };
                if log.segments.contains_key(&segment.seq) {
                    return Err(format!("segment {segment} is prepared twice"));
                }
                log.segments.insert(segment.seq, record);
            }
            Edit::Live { segment, base, opened_at_ms } => {
                self.advance(segment, |stage| match stage {
                    Stage::Prepared => Some(Stage::Live(Opening { base: *base, opened_at_ms: *opened_at_ms })),
                    _ => None,
                })?;
            }
            Edit::Sealed { segment, .. } | Edit::Fenced { segment, .. } => {
                self.advance(segment, |stage| match stage {
                    Stage::Live(opening) => ended(opening, edit),
                    _ => None,
                })?;
            }
            Edit::StartOffset { log, start, epoch } => {
                let log = self.log(log)?;
                log.start = *start;
                log.epoch = *epoch;
            }
            Edit::Released { segment, uid, generation, reason, hold_until_ms } => {
                let released = ReleasedRecord {
                    segment: segment.clone(),
                    generation: *generation,
                    reason: *reason,
                    hold_until_ms: *hold_until_ms,
                };
                if let Some(log) = self.logs.get_mut(&segment.log) {
                    log.segments.retain(|_, record| record.uid != *uid);
                }
                self.released.insert(*uid, released);
            }
            Edit::Gone { uid } => drop(self.released.remove(uid)),
        }
        Ok(())
    }

    fn log(&mut self, log: &LogId) -> Result<&mut LogRecord, String> {
        self.logs.get_mut(log).ok_or_else(|| format!("log {log} was never created"))
    }

    fn advance(&mut self, segment: &SegmentId, next: impl FnOnce(Stage) -> Option<Stage>) -> Result<(), String> {
        let record = self.log(&segment.log)?.segments.get_mut(&segment.seq);
        let record = record.ok_or_else(|| format!("segment {segment} was never prepared"))?;
        record.stage =
            next(record.stage).ok_or_else(|| format!("segment {segment} cannot follow {:?}", record.stage))?;
        Ok(())
    }

    /// The bytes of edits that this state may come to need without growing: room for the whole life of a segment is taken when it is
    /// prepared, so that what is there can always be rolled, sealed, and opened again.
    #[must_use]
    pub fn reserved_bytes(&self) -> usize {
        let mut whole = self.clone();
        for record in whole.logs.values_mut().flat_map(|log| log.segments.values_mut()) {
            record.stage = Stage::Sealed { opening: record.opening().unwrap_or_default(), closing: Closing::default() };
        }
        whole.snapshot().iter().map(Edit::encoded_bytes).sum()
    }

    /// How many more bytes this state would reserve with this edit; 0 for one whose room was taken before.
    #[must_use]
    pub fn growth(edit: &Edit) -> usize {
        let mut grown = State::default();
        if let Edit::Prepared { segment, .. } = edit {
            grown.logs.insert(segment.log.clone(), LogRecord::default());
        }
        let before = grown.reserved_bytes();
        match edit {
            Edit::LogCreated { .. } | Edit::Prepared { .. } => {
                grown.apply(edit).expect("it follows what was laid for it")
            }
            _ => {}
        }
        grown.reserved_bytes() - before
    }

    /// The edits that build this state from nothing.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Edit> {
        let mut edits = vec![Edit::Opened { life: self.life }];
        for (id, log) in &self.logs {
            edits.push(Edit::LogCreated { log: id.clone() });
            edits.push(Edit::StartOffset { log: id.clone(), start: log.start, epoch: log.epoch });
            for (seq, record) in &log.segments {
                record.snapshot(&SegmentId { log: id.clone(), seq: *seq }, &mut edits);
            }
        }
        for (uid, released) in &self.released {
            edits.push(Edit::Released {
                segment: released.segment.clone(),
                uid: *uid,
                generation: released.generation,
                reason: released.reason,
                hold_until_ms: released.hold_until_ms,
            });
        }
        edits
    }
}

/// The stage after a segment's end.
fn ended(opening: Opening, edit: &Edit) -> Option<Stage> {
    match edit {
        Edit::Sealed { end, logical_bytes, first_store_time_ms, last_store_time_ms, sealed_at_ms, .. } => {
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
    fn snapshot(&self, segment: &SegmentId, edits: &mut Vec<Edit>) {
        edits.push(Edit::Prepared {
            segment: segment.clone(),
            uid: self.uid,
            generation: self.generation,
            size: self.size,
            look_ahead: self.look_ahead,
        });
        let live = |opening: Opening| Edit::Live {
            segment: segment.clone(),
            base: opening.base,
            opened_at_ms: opening.opened_at_ms,
        };
        match self.stage {
            Stage::Prepared => {}
            Stage::Live(opening) => edits.push(live(opening)),
            Stage::Sealed { opening, closing } => {
                edits.push(live(opening));
                edits.push(Edit::Sealed {
                    segment: segment.clone(),
                    end: closing.end,
                    logical_bytes: closing.logical_bytes,
                    first_store_time_ms: closing.first_store_time_ms,
                    last_store_time_ms: closing.last_store_time_ms,
                    sealed_at_ms: closing.sealed_at_ms,
                });
            }
            Stage::Fenced { opening, end, position } => {
                edits.push(live(opening));
                edits.push(Edit::Fenced { segment: segment.clone(), end, end_position: position });
            }
        }
    }

    /// How it began, unless it is only prepared.
    #[must_use]
    pub fn opening(&self) -> Option<Opening> {
        match self.stage {
            Stage::Prepared => None,
            Stage::Live(opening) | Stage::Sealed { opening, .. } | Stage::Fenced { opening, .. } => Some(opening),
        }
    }
}
