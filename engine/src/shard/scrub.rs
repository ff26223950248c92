//! Scrub: how far a round of it has come, in memory and durably. The reading is done beside the shards.

use super::command::Admitted;
use super::shard::Shard;
use super::verb::Verdict;
use crate::format::manifest::{Edit, ScrubCursor};
use crate::pending::Answer;
use std::sync::{Mutex, PoisonError};
use strandline_disk::Disk;

/// How far the last round has come; none where there was none.
#[derive(Debug, Default)]
pub struct ScrubRound(Mutex<Option<ScrubCursor>>);

impl ScrubRound {
    /// As the manifest said when the store was opened.
    #[must_use]
    pub fn open(cursor: Option<ScrubCursor>) -> ScrubRound {
        ScrubRound(Mutex::new(cursor))
    }

    /// How far.
    #[must_use]
    pub fn cursor(&self) -> Option<ScrubCursor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It has come so far.
    pub fn note(&self, cursor: ScrubCursor) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(cursor);
    }
}

impl<D: Disk> Shard<D> {
    /// Keeps how far a round of scrubbing has come, durably.
    pub(super) fn keep_scrub_cursor(&mut self, cursor: ScrubCursor, answer: Answer<Verdict<()>>, admitted: Admitted) {
        self.keep(Edit::Scrubbed(cursor.clone()), (answer, admitted), move |siblings| siblings.scrub.note(cursor));
    }
}
