//! The verbs of a log beside append and read, as callers hold them: what replicas, operators and retention ask for.

use super::log::Log;
use crate::error::VerbError;
use crate::id::{Offset, Seq};
use crate::pending::{Answer, Pending, pair};
use crate::shard::command::Command;
use crate::shard::verb::{LogInfo, Sealed, Truncated, Verb, Verdict, Verified};

/// A verb that was asked for.
pub type Asked<T> = Pending<Verdict<T>>;

impl Log {
    /// Fences the log, durably: it takes no appends, though [`Log::follow`] may repair it up to `until` (its end, when none is given).
    /// What waits is refused. The answer says how far repairs are taken.
    pub fn fence(&self, until: Option<Offset>) -> Asked<Offset> {
        self.ask(|answer| Verb::Fence { until, answer })
    }

    /// Ends a fence, durably.
    pub fn unfence(&self) -> Asked<()> {
        self.ask(|answer| Verb::Unfence { answer })
    }

    /// Flushes and seals the active segment, for good. The next append begins another one. Sealed already, it says how that ended.
    pub fn seal(&self) -> Asked<Sealed> {
        self.ask(|answer| Verb::Seal { at: None, answer })
    }

    /// Drops what is at or past `end`, fences the log there, and seals what is left. The answer says how much was dropped.
    pub fn seal_at(&self, end: Offset) -> Asked<Sealed> {
        self.ask(|answer| Verb::Seal { at: Some(end), answer })
    }

    /// Drops everything at or past `end`, for good: the new end and a raised epoch are durable before anything goes or this answers.
    /// A batch that holds `end` goes whole, so the log may end before it. Appends are refused meanwhile.
    pub fn truncate_to(&self, end: Offset) -> Asked<Truncated> {
        self.ask(|answer| Verb::Truncate { end, answer })
    }

    /// Gives up everything before `start`, durably: it cannot be read any more. Whole segments of it are removed in the background,
    /// those apart that a pin holds. The answer says where the log starts.
    pub fn trim(&self, start: Offset) -> Asked<Offset> {
        self.ask(|answer| Verb::Trim { start, answer })
    }

    /// Gives up the oldest segment, durably. One that is gone already is no error.
    pub fn delete_segment(&self, seq: Seq) -> Asked<()> {
        self.ask(|answer| Verb::DeleteSegment { seq, answer })
    }

    /// Flushes, and then tells everything about the log and its segments.
    pub fn stats(&self) -> Asked<LogInfo> {
        self.ask(|answer| Verb::Stats { answer })
    }

    /// Reads every batch of the log, or of one segment, and tells what does not verify. Appends wait until it has ended.
    pub fn verify(&self, seq: Option<Seq>) -> Asked<Verified> {
        self.ask(|answer| Verb::Verify { seq, answer })
    }

    /// Builds the index of a sealed segment from its data, and writes it again.
    pub fn rebuild_index(&self, seq: Seq) -> Asked<()> {
        self.ask(|answer| Verb::RebuildIndex { seq, answer })
    }

    /// Holds records from `from` on back from being removed until the pin is dropped. They may be trimmed meanwhile, and are then not
    /// read any more, but their bytes stay.
    ///
    /// # Errors
    /// [`VerbError::PinTooLarge`] when that is more than `pin_bytes_max`, [`VerbError::OutOfRange`], or what [`Log::stats`] answers.
    pub fn pin(&self, from: Offset) -> Result<Pin, VerbError> {
        // Held first and looked at then: what a trim takes away in between is seen to be gone.
        let pin = Pin { number: self.shared.pins.hold(from), log: self.clone() };
        let info = self.stats().wait()?;
        let held = info.segments.iter().filter(|segment| segment.end > from);
        let (bytes, limit) = (held.map(|segment| segment.file_bytes).sum::<u64>(), self.pin_bytes_max);
        if bytes > limit {
            return Err(VerbError::PinTooLarge { offset: from, bytes, limit });
        }
        let bounds = info.bounds;
        if from < bounds.start || from > bounds.end {
            let (log, requested) = (self.id().clone(), from);
            return Err(VerbError::OutOfRange { log, requested, start: bounds.start, end: bounds.end });
        }
        Ok(pin)
    }

    pub(super) fn ask<T>(&self, verb: impl FnOnce(Answer<Verdict<T>>) -> Verb) -> Asked<T> {
        let (answer, pending) = pair();
        self.ask_verb(verb(answer));
        pending
    }

    /// Hands a verb over, or refuses it.
    pub(super) fn ask_verb(&self, verb: Verb) {
        match self.queue.room() {
            Ok(admitted) => self.queue.push(Command::Verb { log: self.number, verb, admitted }),
            Err(refused) => verb.refuse(refused),
        }
    }
}

/// Records that are held back from being removed, while it lives.
#[derive(Debug)]
#[must_use = "nothing is held any more when it is dropped"]
pub struct Pin {
    number: u64,
    log: Log,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.log.shared.pins.let_go(self.number);
        // What was held may go now. A store that is too busy or closed for it looks at the next trim.
        if let Ok(admitted) = self.log.queue.admit(0) {
            self.log.queue.push(Command::Unpinned { log: self.log.number, admitted });
        }
    }
}
