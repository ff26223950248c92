//! Orphans: a directory that nobody knows is given up: looked at once more, recorded durably, and moved into the trash. It waits there,
//! can be taken back, and goes for good when somebody says that its hold is over. Asked of the shard that keeps the manifest.

use super::shard::{Event, Shard};
use super::siblings::Claim;
use crate::config::sabotaged;
use crate::error::{OrphanError, VerbError};
use crate::format::manifest::{Edit, ReleaseReason};
use crate::id::{LogId, SegmentId, StoreId, Uid};
use crate::layout;
use crate::manifest::ManifestError;
use crate::manifest::state::{ReleasedRecord, State};
use crate::pending::Answer;
use crate::removal::evidence::{self, Contents, Evidence};
use crate::removal::going::Outgoing;
use crate::removal::release::Given;
use crate::removal::syncs::Syncs;
use crate::removal::trash::{self, Removed};
use futures_util::future::join_all;
use std::collections::HashSet;
use std::ops::Bound;
use strandline_disk::{Disk, EntryKind, Errno, Name, transfer};

/// How many segments are listed at once, about: the shard has other work.
const LISTED_AT_ONCE: usize = 4_096;

/// How many directories whose hold is over are removed at once. Two files of each may be open.
const LET_GO_AT_ONCE: usize = 32;

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
    /// Give a directory up.
    GiveUp {
        /// Its name.
        name: String,
        /// What was seen of it.
        seen: Sighted,
        /// It may not be removed before, wall ms.
        hold_until_ms: u64,
        /// Who waits for it.
        answer: Answer<OrphanAnswer<GivenUp>>,
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
    /// Remove those for good whose hold is over.
    LetGo {
        /// What time it is, wall ms. Whoever says so has looked whether the clock can be believed.
        now_ms: u64,
        /// Who waits for it.
        answer: Answer<OrphanAnswer<LetGo>>,
    },
}

/// A directory that is being given up, and may be.
struct Named {
    name: Name,
    readings: Vec<SegmentId>,
    _claim: Claim,
}

impl<D: Disk> Shard<D> {
    /// Takes what is asked about orphans.
    pub(super) fn receive_orphan(&mut self, asked: OrphanAsked) {
        // Dropped, it is answered that there is nobody.
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        match asked {
            OrphanAsked::Listed { after, answer } => answer.give(Ok(self.list_segments(state, after.as_ref()))),
            OrphanAsked::Held { answer } => answer.give(Ok(held_records(state))),
            OrphanAsked::GiveUp { name, seen, hold_until_ms, answer } => {
                self.give_directory_up(&name, seen, hold_until_ms.max(1), answer);
            }
            OrphanAsked::Restore { uid, answer } => self.restore(uid, answer),
            OrphanAsked::LetGo { now_ms, answer } => self.let_go(now_ms, answer),
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

    fn give_directory_up(
        &mut self,
        name: &str,
        seen: Sighted,
        hold_until_ms: u64,
        answer: Answer<OrphanAnswer<GivenUp>>,
    ) {
        match self.claim_orphan(name) {
            Err(error) => answer.give(Err(error)),
            Ok(named) => {
                let (disk, store) = (self.disk.clone(), self.store);
                self.spawn(async move {
                    let looked = look(&disk, &named.name, &seen, store).await;
                    Event::Done(Box::new(move |shard| match looked {
                        Ok(Some(contents)) => shard.record_orphan(named, &contents, hold_until_ms, answer),
                        Ok(None) => answer.give(Ok(GivenUp::Absent)),
                        Err(error) => answer.give(Err(error)),
                    }))
                });
            }
        }
    }

    /// Claims the directory, unless the store knows a segment that it may be. What is being made meanwhile has its own claim.
    fn claim_orphan(&self, name: &str) -> Result<Named, OrphanError> {
        let foreign = |reason: &str| OrphanError::Foreign { name: name.to_owned(), reason: reason.to_owned() };
        let readings = layout::candidate_ids(name);
        let plain = Name::new(name).map_err(|error| foreign(&error.to_string()))?;
        if readings.is_empty() || layout::RESERVED.contains(&name) {
            return Err(foreign("its name is not that of a segment"));
        }
        let known = |segment: SegmentId| OrphanError::Known { name: name.to_owned(), segment };
        let claim = self.siblings.claim(readings.clone()).map_err(known)?;
        match readings.iter().find(|id| self.stands_in_its_place(id)) {
            Some(segment) => Err(known(segment.clone())),
            None => Ok(Named { name: plain, readings, _claim: claim }),
        }
    }

    /// Whether the manifest lists a segment, or has given it up and its file still stands where it was.
    pub(super) fn stands_in_its_place(&self, id: &SegmentId) -> bool {
        let Some(manifest) = &self.manifest else { return true };
        let state = manifest.state();
        let listed = state.logs.get(&id.log).is_some_and(|log| log.segments.contains_key(&id.seq));
        // An orphan is in the trash, or was to be and is given up once more.
        listed || state.released.values().any(|released| released.segment == *id && !trash::is_held(released))
    }

    /// Records in the manifest that a directory is given up, and then moves it. Nothing is waited for between the last look at what the
    /// manifest lists and the edit.
    fn record_orphan(
        &mut self,
        named: Named,
        contents: &Contents,
        hold_until_ms: u64,
        answer: Answer<OrphanAnswer<GivenUp>>,
    ) {
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        let header = contents.evidence.header();
        let uid = header.map_or_else(|| Uid(self.disk.random()), |header| header.uid);
        if let Err(error) = may_be_given_up(state, &named, contents) {
            return answer.give(Err(error));
        }
        if self.siblings.held.has(uid) {
            return answer.give(Err(OrphanError::Copy { name: named.name.as_str().to_owned(), uid }));
        }
        let said = header.map(|header| header.segment.clone()).filter(|segment| named.readings.contains(segment));
        let Some(segment) = said.or_else(|| named.readings.first().cloned()) else { return };
        let generation = header.map(|header| header.generation).unwrap_or_default();
        let reason = ReleaseReason::Orphan;
        let record = ReleasedRecord { segment: segment.clone(), generation, reason, hold_until_ms };
        // It was recorded before, and could not be moved then.
        let is_recorded = state.released.contains_key(&uid);
        let edit = Edit::Released { segment: segment.clone(), uid, generation, reason, hold_until_ms };
        let late = sabotaged!(self.config, MoveBeforeEdit).then(|| edit.clone());
        let durable = (!is_recorded && late.is_none()).then(|| self.edits.submit(vec![edit]));
        // No segment of this name is made from now on, until the directory is out of its place.
        let outgoing = Outgoing::new(Given { uid, record, blocks: None }, &self.siblings.removal.going);
        let (disk, edits, syncs) = (self.disk.clone(), self.edits.clone(), self.syncs.clone());
        self.spawn(async move {
            let moved = async {
                if let Some(durable) = durable {
                    // Durable before it is moved: what lies in the trash is known there.
                    durable.await.map_err(VerbError::from)?;
                }
                let trash = trash::open(&disk).await?;
                let moved = trash::move_in(&disk, &trash, &syncs, (&named.name, uid)).await?;
                if let Some(edit) = late {
                    edits.submit(vec![edit]).await.map_err(VerbError::from)?;
                }
                if !moved {
                    edits.submit(vec![Edit::Gone { uid }]).await.map_err(VerbError::from)?;
                }
                Ok(moved)
            };
            let moved = moved.await;
            Event::Done(Box::new(move |shard| shard.settle_given_up(named, outgoing, moved, answer)))
        });
    }

    fn settle_given_up(
        &mut self,
        named: Named,
        outgoing: Outgoing,
        moved: OrphanAnswer<bool>,
        answer: Answer<OrphanAnswer<GivenUp>>,
    ) {
        self.heed_orphan(&moved);
        let uid = outgoing.given.uid;
        let left = moved.is_err().then(|| outgoing.given.record.clone());
        drop(outgoing);
        match &left {
            // Its name stays taken until the same is asked once more, or the store is opened again.
            Some(record) => self.siblings.removal.going.note(std::iter::once((uid, record))),
            None if moved == Ok(true) => self.siblings.held.put(uid),
            None => {}
        }
        drop(named);
        answer.give(moved.map(|moved| if moved { GivenUp::Held(uid) } else { GivenUp::Absent }));
    }

    fn heed_orphan<T>(&mut self, result: &OrphanAnswer<T>) {
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
                    shard.siblings.held.put(uid);
                }
                shard.heed_orphan(&result);
                let name = named.name.as_str().to_owned();
                drop(named);
                answer.give(result.map(|()| name));
            }))
        });
    }

    /// Removes for good what has waited long enough.
    fn let_go(&mut self, now_ms: u64, answer: Answer<OrphanAnswer<LetGo>>) {
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        let is_due = |(uid, record): &(&Uid, &ReleasedRecord)| {
            trash::is_held(record) && record.hold_until_ms <= now_ms && self.siblings.held.has(**uid)
        };
        let due: Vec<Uid> = state.released.iter().filter(is_due).map(|(uid, _)| *uid).collect();
        if due.is_empty() {
            return answer.give(Ok(LetGo::default()));
        }
        let listed: HashSet<Uid> =
            state.logs.values().flat_map(|log| log.segments.values()).map(|record| record.uid).collect();
        // None of them is taken back from now on.
        due.iter().for_each(|uid| self.siblings.held.take(*uid));
        let (disk, edits, syncs) = (self.disk.clone(), self.edits.clone(), self.syncs.clone());
        self.spawn(async move {
            let (mut let_go, mut failed) = (LetGo::default(), None);
            for some in due.chunks(LET_GO_AT_ONCE) {
                let removed = join_all(some.iter().map(|uid| trash::remove(&disk, &syncs, *uid, &listed))).await;
                let mut gone = Vec::new();
                for (uid, removed) in some.iter().zip(removed) {
                    match removed {
                        Ok(Removed::Gone) => gone.push(*uid),
                        Ok(Removed::Kept(reason)) => let_go.kept.push((*uid, reason)),
                        Err(error) => {
                            let_go.kept.push((*uid, error.to_string()));
                            failed.get_or_insert(VerbError::Disk(error));
                        }
                    }
                }
                match edits.submit(gone.iter().map(|uid| Edit::Gone { uid: *uid }).collect()).await {
                    Ok(()) => let_go.gone.extend(gone),
                    Err(error) => {
                        let_go.kept.extend(gone.into_iter().map(|uid| (uid, error.to_string())));
                        failed.get_or_insert(VerbError::from(error));
                    }
                }
            }
            Event::Done(Box::new(move |shard| {
                let_go.kept.iter().for_each(|(uid, _)| shard.siblings.held.put(*uid));
                if let Some(error) = failed {
                    shard.heed_failure(&Err::<(), _>(error));
                }
                answer.give(Ok(let_go));
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

/// Looks whether a directory is what was seen, and one that may go. `None` when it is gone.
async fn look<D: Disk>(disk: &D, name: &Name, seen: &Sighted, store: StoreId) -> Result<Option<Contents>, OrphanError> {
    let text = || name.as_str().to_owned();
    let changed = |reason: &str| OrphanError::Changed { name: text(), reason: reason.to_owned() };
    let foreign = |reason: String| OrphanError::Foreign { name: text(), reason };
    let root = disk.root();
    let stat = match disk.stat(&root, name) {
        Err(error) if error.is_absent() => return Ok(None), // It is gone, as was wanted.
        stat => stat?,
    };
    if stat.kind != EntryKind::Directory {
        return Err(changed("it is no directory"));
    }
    if stat.ctime_ms != seen.ctime_ms {
        return Err(changed("something came, went or was moved since"));
    }
    let directory = match transfer::open_directory(disk, &root, name).await {
        Err(error) if error.is_absent() => return Ok(None),
        Err(error) if [Errno::NOTDIR, Errno::LOOP].contains(&error.errno) => return Err(changed("it is no directory")),
        Err(error) if error.errno == Errno::XDEV => return Err(foreign("it is another mount".to_owned())),
        opened => opened?,
    };
    let contents = evidence::read(disk, &directory).await?;
    if let Some(stranger) = &contents.foreign {
        return Err(foreign(format!("it holds {stranger:?}, which no segment has")));
    }
    if contents.evidence != seen.evidence {
        return Err(changed("its files say something else"));
    }
    match &contents.evidence {
        Evidence::NoHeader => return Err(foreign("it holds data without a valid header block".to_owned())),
        Evidence::Unread => return Err(foreign("it could not be read".to_owned())),
        evidence => match evidence.header() {
            Some(header) if header.store != store => {
                return Err(foreign(format!("it is of store {}", header.store)));
            }
            _ => {}
        },
    }
    Ok(Some(contents))
}

/// Whether what the manifest says now lets a directory go.
fn may_be_given_up(state: &State, named: &Named, contents: &Contents) -> Result<(), OrphanError> {
    let name = || named.name.as_str().to_owned();
    let is_listed = |id: &&SegmentId| state.logs.get(&id.log).is_some_and(|log| log.segments.contains_key(&id.seq));
    if let Some(segment) = named.readings.iter().find(is_listed) {
        return Err(OrphanError::Known { name: name(), segment: segment.clone() });
    }
    let said = contents.evidence.header().filter(|_| !matches!(contents.evidence, Evidence::Spare(_)));
    if let Some(header) = said.filter(|header| !named.readings.contains(&header.segment)) {
        return Err(OrphanError::Foreign {
            name: name(),
            reason: format!("its file is of segment {}", header.segment),
        });
    }
    for (log, record) in &state.logs {
        if let Some((seq, record)) = record.segments.iter().find(|(_, record)| contents.uids.contains(&record.uid)) {
            let segment = SegmentId { log: log.clone(), seq: *seq };
            return Err(OrphanError::LiveUid { name: name(), uid: record.uid, segment });
        }
    }
    let leaving = |uid: &&Uid| state.released.get(uid).is_some_and(|record| !trash::is_held(record));
    match contents.uids.iter().find(leaving).and_then(|uid| state.released.get(uid)) {
        Some(record) => Err(OrphanError::Known { name: name(), segment: record.segment.clone() }),
        None => Ok(()),
    }
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
