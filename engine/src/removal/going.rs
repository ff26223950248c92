//! Going: files that are being removed. They are removed by their names, and a name among these is given to no other file meanwhile.

use super::release::Given;
use super::trash::{Orphan, Removed};
use crate::id::{Generation, SegmentId, Uid};
use crate::manifest::state::ReleasedRecord;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files of a store that are on their way out.
#[derive(Debug, Default)]
pub struct Going(Mutex<BTreeMap<SegmentId, Vec<(Uid, Generation)>>>);

impl Going {
    /// These are removed from now on.
    pub fn note<'a>(&self, released: impl Iterator<Item = (Uid, &'a ReleasedRecord)>) {
        let mut going = self.going();
        for (uid, ReleasedRecord { segment, generation, .. }) in released {
            let files = going.entry(segment.clone()).or_default();
            if !files.contains(&(uid, *generation)) {
                files.push((uid, *generation));
            }
        }
    }

    /// Nobody removes this one any more.
    fn forget(&self, Given { uid, record: ReleasedRecord { segment, .. }, .. }: &Given) {
        let mut going = self.going();
        let Some(files) = going.get_mut(segment) else { return };
        files.retain(|(going, _)| going != uid);
        if files.is_empty() {
            going.remove(segment);
        }
    }

    /// The newest generation among the files of a segment that are being removed.
    #[must_use]
    pub fn newest(&self, segment: &SegmentId) -> Option<Generation> {
        self.going().get(segment)?.iter().map(|(_, generation)| *generation).max()
    }

    fn going(&self) -> MutexGuard<'_, BTreeMap<SegmentId, Vec<(Uid, Generation)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file on its way out, or an orphan in the trash. Its name is free for others when this is dropped, wherever that happens.
#[derive(Debug)]
pub struct Outgoing {
    /// The file.
    pub given: Given,
    /// It is a directory in the trash: what else has to be known of it, and who waits for it.
    pub orphan: Option<Orphan>,
    going: Arc<Going>,
}

impl Outgoing {
    /// The file is on its way from now on.
    #[must_use]
    pub fn new(given: Given, going: &Arc<Going>) -> Outgoing {
        going.note(std::iter::once((given.uid, &given.record)));
        Outgoing { given, orphan: None, going: going.clone() }
    }

    /// A directory in the trash. No segment stands in its way, nor it in one's.
    #[must_use]
    pub fn from_trash(given: Given, orphan: Orphan, going: &Arc<Going>) -> Outgoing {
        Outgoing { given, orphan: Some(orphan), going: going.clone() }
    }

    /// Its removal has come to this. Only of an orphan somebody wants to know.
    pub(super) fn end(mut self, removed: Removed) {
        if let Some(orphan) = self.orphan.take() {
            orphan.end(removed);
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.going.forget(&self.given);
    }
}
