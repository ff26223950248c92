//! Orphans: what is asked about them of the shard that keeps the manifest. A directory that nobody knows is given up and moved into the
//! trash, waits there, can be taken back, and goes for good when somebody says that its hold is over.

use super::shard::{Event, Shard};
use crate::error::{OrphanError, VerbError};
use crate::format::manifest::Edit;
use crate::id::{LogId, SegmentId, StoreId, Uid};
use crate::layout;
use crate::manifest::ManifestError;
use crate::manifest::state::{ReleasedRecord, State};
use crate::pending::Answer;
use crate::removal::evidence::Evidence;
use crate::removal::syncs::Syncs;
use crate::removal::trash;
use std::ops::Bound;
use strandline_disk::{Disk, Errno, Name};

/// How many segments are listed at once, about: the shard has other work.
const LISTED_AT_ONCE: usize = 4_096;

/// What is answered.
pub type OrphanAnswer<T> = Result<T, OrphanError>;

/// A directory as it was seen: what is given up must still be that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighted {
    /// What its files said.
    pub evidence: Evidence,
    /// Its ctime, wall ms.
    pub ctime_ms: u64,
}

/// What became of a directory that was to be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It waits in the trash, under this uid.
    Held(Uid),
    /// It was gone already.
    Absent,
}

/// A part of what the manifest lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Which store it is.
    pub store: StoreId,
    /// The manifest was whole when it was read. With one damaged copy nothing is swept.
    pub whole: bool,
    /// Its segments, and the uid of the file of each.
    pub segments: Vec<(SegmentId, Uid)>,
    /// Segments that were given up and still stand in their places.
    pub leaving: Vec<SegmentId>,
    /// Segments that are being made: they stand in their places, and the manifest hears of them when they are whole.
    pub making: Vec<SegmentId>,
    /// Where to go on, when there is more.
    pub next: Option<LogId>,
}

/// An orphan that waits in the trash, as the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRecord {
    /// The uid under which it waits.
    pub uid: Uid,
    /// The segment whose name it had.
    pub segment: SegmentId,
    /// Until when, wall ms.
    pub until_ms: u64,
}

/// What became of orphans whose hold was over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetGo {
    /// Those that are gone for good.
    pub gone: Vec<Uid>,
    /// Those that stay, and why. They are tried again.
    pub kept: Vec<(Uid, String)>,
}

/// What is asked about orphans.
pub enum OrphanAsked {
    /// Which segments there are.
    Listed {
        /// Only the logs behind this one.
        after: Option<LogId>,
        /// Who waits for it.
        answer: Answer<OrphanAnswer<Listed>>,
    },
    /// Give directories up.
    GiveUp {
        /// Their names, and what was seen of each.
        directories: Vec<(String, Sighted)>,
        /// They may not be removed before, wall ms.
        hold_until_ms: u64,
        /// Who waits for it: he is told of each, in their order.
        answer: Answer<OrphanAnswer<Vec<OrphanAnswer<GivenUp>>>>,
    },
    /// Which ones wait.
    Held {
        /// Who waits for it.
        answer: Answer<OrphanAnswer<Vec<HeldRecord>>>,
    },
    /// Take one back.
    Restore {
        /// Which.
        uid: Uid,
        /// Who waits for it: he is told its name.
        answer: Answer<OrphanAnswer<String>>,
    },
    /// Remove those of these for good whose hold is over.
    LetGo {
        /// Which.
        uids: Vec<Uid>,
        /// What time it is, wall ms. Whoever says so has looked whether the clock can be believed.
        now_ms: u64,
        /// Who waits for it.
        answer: Answer<OrphanAnswer<LetGo>>,
    },
}

impl<D: Disk> Shard<D> {
    /// Takes what is asked about orphans.
    pub(super) fn receive_orphan(&mut self, asked: OrphanAsked) {
        // Dropped, it is answered that there is nobody.
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        match asked {
            OrphanAsked::Listed { after, answer } => answer.give(Ok(self.list_segments(state, after.as_ref()))),
            OrphanAsked::Held { answer } => answer.give(Ok(held_records(state))),
            OrphanAsked::GiveUp { directories, hold_until_ms, answer } => {
                self.give_directories_up(directories, hold_until_ms.max(1), answer);
            }
            OrphanAsked::Restore { uid, answer } => self.restore(uid, answer),
            OrphanAsked::LetGo { uids, now_ms, answer } => self.let_go(uids, now_ms, answer),
        }
    }

    fn list_segments(&self, state: &State, after: Option<&LogId>) -> Listed {
        let mut listed = Listed { store: self.store, whole: !self.siblings.degraded, ..Listed::default() };
        if after.is_none() {
            let leaving = state.released.iter().filter(|(uid, _)| !self.siblings.held.has(**uid));
            listed.making = self.siblings.claimed();
            listed.leaving = leaving.map(|(_, record)| record.segment.clone()).collect();
        }
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        for (log, record) in state.logs.range::<LogId, _>(behind) {
            let of_log = record.segments.iter();
            listed.segments.extend(of_log.map(|(seq, of)| (SegmentId { log: log.clone(), seq: *seq }, of.uid)));
            if listed.segments.len() >= LISTED_AT_ONCE {
                listed.next = Some(log.clone());
                break;
            }
        }
        listed
    }

    /// What a failure took along concerns the logs too.
    pub(super) fn heed_orphan<T>(&mut self, result: &OrphanAnswer<T>) {
        if let Err(OrphanError::Verb(error)) = result {
            self.heed_failure(&Err::<(), _>(error.clone()));
        }
    }

    /// Takes an orphan back to where it was.
    fn restore(&mut self, uid: Uid, answer: Answer<OrphanAnswer<String>>) {
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        let record = state.released.get(&uid).filter(|record| trash::is_held(record)).cloned();
        let Some(record) = record.filter(|_| self.siblings.held.has(uid)) else {
            return answer.give(Err(OrphanError::NotHeld { uid }));
        };
        let name = layout::directory_name(&record.segment);
        let taken = || OrphanError::Taken { uid, name: name.as_str().to_owned() };
        let Ok(named) = self.claim_orphan(name.as_str()) else { return answer.give(Err(taken())) };
        let taken = taken();
        self.siblings.held.take(uid);
        let (disk, edits, syncs) = (self.disk.clone(), self.edits.clone(), self.syncs.clone());
        self.spawn(async move {
            let moved = move_back(&disk, &syncs, (uid, &named.name), taken).await;
            // One that could not be moved waits on. Where that cannot be seen now, the next open looks.
            let waits_on = moved.is_err() && trash::holds(&disk, uid).await.unwrap_or(false);
            let result = match &moved {
                // Durably in its place before it is forgotten.
                Ok(()) => edits.submit(vec![Edit::Gone { uid }]).await.map_err(|error| VerbError::from(error).into()),
                Err(error) => Err(error.clone()),
            };
            Event::Done(Box::new(move |shard| {
                if waits_on {
                    shard.siblings.held.put(uid, None);
                }
                shard.heed_orphan(&result);
                let name = named.name.as_str().to_owned();
                drop(named);
                answer.give(result.map(|()| name));
            }))
        });
    }
}

/// The orphans that the manifest says wait.
fn held_records(state: &State) -> Vec<HeldRecord> {
    let held = state.released.iter().filter(|(_, record)| trash::is_held(record));
    let record = |(uid, record): (&Uid, &ReleasedRecord)| HeldRecord {
        uid: *uid,
        segment: record.segment.clone(),
        until_ms: record.hold_until_ms,
    };
    held.map(record).collect()
}

async fn move_back<D: Disk>(
    disk: &D,
    syncs: &Syncs,
    (uid, name): (Uid, &Name),
    taken: OrphanError,
) -> Result<(), OrphanError> {
    // An empty directory of that name would be replaced without a word.
    match disk.stat(&disk.root(), name) {
        Ok(_) => return Err(taken),
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(error.into()),
    }
    match trash::move_out(disk, syncs, uid, name).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(OrphanError::NotHeld { uid }),
        Err(error) if [Errno::NOTEMPTY, Errno::EXIST, Errno::NOTDIR].contains(&error.errno) => Err(taken),
        Err(error) => Err(error.into()),
    }
}

impl From<ManifestError> for OrphanError {
    fn from(error: ManifestError) -> OrphanError {
        OrphanError::Verb(error.into())
    }
}
