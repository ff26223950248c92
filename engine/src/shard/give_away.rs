//! Giving away: directories that nobody knows are given up, many at once. Each is looked at once more, recorded durably, and moved into the
//! trash; they share commits of the manifest and syncs.

use super::orphan::{GivenUp, OrphanAnswer, Sighted};
use super::shard::{Event, Shard};
use super::siblings::Claim;
use crate::config::sabotaged;
use crate::error::{OrphanError, VerbError};
use crate::format::manifest::{Edit, ReleaseReason};
use crate::id::{LogId, SegmentId, Seq, StoreId, Uid};
use crate::layout;
use crate::manifest::state::{ReleasedRecord, State};
use crate::manifest::{Edits, ManifestError};
use crate::pending::Answer;
use crate::removal::evidence::{self, Contents, Evidence};
use crate::removal::going::Outgoing;
use crate::removal::release::Given;
use crate::removal::syncs::Syncs;
use crate::removal::trash::{self, Placed};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use std::collections::{HashMap, HashSet};
use strandline_disk::{Access, Disk, EntryKind, Errno, Name, transfer};

/// How many directories are looked into at once. Two files of each may be open, and the shard has other work.
const LOOKED_AT_ONCE: usize = 16;

/// A directory that is being given up, and may be.
pub(super) struct Named {
    pub(super) name: Name,
    readings: Vec<SegmentId>,
    _claim: Claim,
}

/// One that was looked at once more.
struct Looked {
    named: Named,
    contents: Contents,
    ctime_ms: u64,
}

/// One that is on its way into the trash.
struct Leaving {
    looked: Looked,
    outgoing: Outgoing,
    /// The edit that gives it up, unless it was recorded before and could not be moved then.
    edit: Option<Edit>,
}

/// What came of each, in the order in which they were asked for.
type Each<T> = Vec<OrphanAnswer<T>>;

impl<D: Disk> Shard<D> {
    /// Gives up directories that belong to no segment, and are what was seen.
    pub(super) fn give_directories_up(
        &mut self,
        directories: Vec<(String, Sighted)>,
        hold_until_ms: u64,
        answer: Answer<OrphanAnswer<Each<GivenUp>>>,
    ) {
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        let standing: HashSet<&SegmentId> = standing(state).collect();
        let stands = |id: &SegmentId| state.lists(id) || standing.contains(id);
        let claim = |(name, seen): (String, Sighted)| self.claim_directory(&name, stands).map(|named| (named, seen));
        let claimed: Vec<_> = directories.into_iter().map(claim).collect();
        let (disk, store) = (self.disk.clone(), self.store);
        self.spawn(async move {
            let looks = claimed.into_iter().map(|claimed| async {
                let (named, seen) = claimed?;
                let contents = look(&disk, &named.name, &seen, store).await?;
                Ok(contents.map(|contents| Looked { named, contents, ctime_ms: seen.ctime_ms }))
            });
            let looked: Each<Option<Looked>> = stream::iter(looks).buffered(LOOKED_AT_ONCE).collect().await;
            Event::Done(Box::new(move |shard| shard.record_orphans(looked, hold_until_ms, answer)))
        });
    }

    /// Claims a directory, unless the store knows a segment that it may be.
    pub(super) fn claim_orphan(&self, name: &str) -> Result<Named, OrphanError> {
        self.claim_directory(name, |id| self.stands_in_its_place(id))
    }

    /// Claims a directory, unless a segment `stands` there that it may be. What is being made meanwhile has its own claim.
    fn claim_directory(&self, name: &str, stands: impl Fn(&SegmentId) -> bool) -> Result<Named, OrphanError> {
        let foreign = |reason: &str| OrphanError::Foreign { name: name.to_owned(), reason: reason.to_owned() };
        let readings = layout::candidate_ids(name);
        let plain = Name::new(name).map_err(|error| foreign(&error.to_string()))?;
        if readings.is_empty() || layout::RESERVED.contains(&name) {
            return Err(foreign("its name is not that of a segment"));
        }
        let known = |segment: SegmentId| OrphanError::Known { name: name.to_owned(), segment };
        let claim = self.siblings.claim(readings.clone()).map_err(known)?;
        match readings.iter().find(|id| stands(id)) {
            Some(segment) => Err(known(segment.clone())),
            None => Ok(Named { name: plain, readings, _claim: claim }),
        }
    }

    /// Whether the manifest lists a segment, or has given it up and its file still stands where it was.
    pub(super) fn stands_in_its_place(&self, id: &SegmentId) -> bool {
        let Some(manifest) = &self.manifest else { return true };
        manifest.state().lists(id) || standing(manifest.state()).any(|standing| standing == id)
    }

    /// Records in the manifest that directories are given up, and then moves them. Nothing is waited for between the last look at what the
    /// manifest lists and the edits.
    fn record_orphans(
        &mut self,
        looked: Each<Option<Looked>>,
        hold_until_ms: u64,
        answer: Answer<OrphanAnswer<Each<GivenUp>>>,
    ) {
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        let live = live_uids(state);
        let leave = |looked: OrphanAnswer<Option<Looked>>| {
            let Some(looked) = looked? else { return Ok(None) };
            may_be_given_up(state, &live, &looked.named, &looked.contents)?;
            self.leave(state, looked, hold_until_ms).map(Some)
        };
        let leaving: Each<Option<Leaving>> = looked.into_iter().map(leave).collect();
        let is_late = sabotaged!(self.config, MoveBeforeEdit);
        let (disk, edits, syncs) = (self.disk.clone(), self.edits.clone(), self.syncs.clone());
        // Handed in now: each is durable or not on its own, and most of them go into one commit.
        let durable = if is_late { Vec::new() } else { hand_in(&edits, &leaving) };
        self.spawn(async move {
            let durable = join_all(durable).await;
            let moved = move_all(&disk, &edits, &syncs, &leaving, durable).await;
            if is_late {
                join_all(hand_in(&edits, &leaving)).await;
            }
            Event::Done(Box::new(move |shard| {
                let mut moved = moved.into_iter();
                let settled = leaving.into_iter().map(|leaving| match leaving? {
                    None => Ok(GivenUp::Absent),
                    Some(leaving) => {
                        shard.settle_given_up(leaving, moved.next().unwrap_or(Err(VerbError::Closed.into())))
                    }
                });
                let settled = settled.collect();
                answer.give(Ok(settled));
            }))
        });
    }

    /// Lets one go that may be given up, unless its uid waits in the trash, or is about to.
    fn leave(&self, state: &State, looked: Looked, hold_until_ms: u64) -> OrphanAnswer<Leaving> {
        let Looked { named, contents, .. } = &looked;
        let header = contents.evidence.header();
        let uid = header.map_or_else(|| Uid(self.disk.random()), |header| header.uid);
        let said = header.map(|header| header.segment.clone()).filter(|segment| named.readings.contains(segment));
        let segment = said.or_else(|| named.readings.first().cloned()).ok_or(VerbError::Closed)?;
        if self.siblings.held.has(uid) || !self.siblings.arriving.put(uid, None) {
            return Err(OrphanError::Copy { name: named.name.as_str().to_owned(), uid });
        }
        let generation = header.map(|header| header.generation).unwrap_or_default();
        let reason = ReleaseReason::Orphan;
        let record = ReleasedRecord { segment: segment.clone(), generation, reason, hold_until_ms };
        // It was recorded before, and could not be moved then.
        let is_recorded = state.released.contains_key(&uid);
        let edit = (!is_recorded).then_some(Edit::Released { segment, uid, generation, reason, hold_until_ms });
        // No segment of this name is made from now on, until the directory is out of its place.
        let outgoing = Outgoing::new(Given { uid, record, blocks: None }, &self.siblings.removal.going);
        Ok(Leaving { looked, outgoing, edit })
    }

    fn settle_given_up(&mut self, leaving: Leaving, moved: OrphanAnswer<Option<u64>>) -> OrphanAnswer<GivenUp> {
        self.heed_orphan(&moved);
        let Leaving { looked: Looked { named, contents, .. }, outgoing, .. } = leaving;
        let uid = outgoing.given.uid;
        let left = moved.is_err().then(|| outgoing.given.record.clone());
        drop(outgoing);
        if let Some(record) = &left {
            // Its name stays taken until the same is asked once more, or the store is opened again.
            self.siblings.removal.going.note(std::iter::once((uid, record)));
        }
        if let Ok(Some(ctime_ms)) = moved {
            self.siblings.held.put(uid, Some(Placed { contents, ctime_ms }));
        }
        self.siblings.arriving.take(uid);
        drop(named);
        moved.map(|moved| if moved.is_some() { GivenUp::Held(uid) } else { GivenUp::Absent })
    }
}

/// Hands in the edits that give directories up.
fn hand_in(
    edits: &Edits,
    leaving: &Each<Option<Leaving>>,
) -> Vec<impl Future<Output = Result<(), ManifestError>> + use<>> {
    let leaving = leaving.iter().filter_map(|leaving| leaving.as_ref().ok()?.as_ref());
    leaving.map(|leaving| edits.submit(leaving.edit.iter().cloned().collect())).collect()
}

/// Moves those of these into the trash that were recorded durably: what lies there is known there. Says of each of the leaving ones what
/// its ctime is there; `None` when it was gone.
async fn move_all<D: Disk>(
    disk: &D,
    edits: &Edits,
    syncs: &Syncs,
    leaving: &Each<Option<Leaving>>,
    durable: Vec<Result<(), ManifestError>>,
) -> Each<Option<u64>> {
    let leaving = leaving.iter().filter_map(|leaving| leaving.as_ref().ok()?.as_ref());
    let recorded: Vec<_> = leaving.zip(durable.into_iter().chain(std::iter::repeat(Ok(())))).collect();
    let go = recorded.iter().filter(|(_, durable)| durable.is_ok()).map(|(leaving, _)| {
        let Looked { named, ctime_ms, .. } = &leaving.looked;
        (named.name.clone(), leaving.outgoing.given.uid, *ctime_ms)
    });
    let go: Vec<_> = go.collect();
    let mut moved = trash::move_all_in(disk, syncs, &go).await.into_iter();
    let mut each = Each::new();
    for (leaving, durable) in recorded {
        let moved = match durable {
            Err(error) => Err(VerbError::from(error).into()),
            Ok(()) => moved.next().unwrap_or(Ok(None)).map_err(OrphanError::from),
        };
        let gone =
            matches!(moved, Ok(None)).then(|| edits.submit(vec![Edit::Gone { uid: leaving.outgoing.given.uid }]));
        let forgotten = match gone {
            Some(gone) => gone.await,
            None => Ok(()),
        };
        each.push(forgotten.map_err(|error| VerbError::from(error).into()).and(moved));
    }
    each
}

/// The segments that the manifest has given up and whose files still stand in their places. An orphan is in the trash, or was to be and is
/// given up once more.
fn standing(state: &State) -> impl Iterator<Item = &SegmentId> {
    state.released.values().filter(|released| !trash::is_held(released)).map(|released| &released.segment)
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
    // It was looked at just now by whoever asks, so that it is in the page cache.
    let contents = evidence::read(disk, &directory, Access::Buffered).await?;
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

/// The uids of all that the manifest lists.
fn live_uids(state: &State) -> HashMap<Uid, (&LogId, Seq)> {
    let segments = state.logs.iter().flat_map(|(log, record)| record.segments.iter().map(move |of| (log, of)));
    segments.map(|(log, (seq, record))| (record.uid, (log, *seq))).collect()
}

/// Whether what the manifest says now lets a directory go.
fn may_be_given_up(
    state: &State,
    live: &HashMap<Uid, (&LogId, Seq)>,
    named: &Named,
    contents: &Contents,
) -> Result<(), OrphanError> {
    let name = || named.name.as_str().to_owned();
    if let Some(segment) = named.readings.iter().find(|id| state.lists(id)) {
        return Err(OrphanError::Known { name: name(), segment: segment.clone() });
    }
    let said = contents.evidence.header().filter(|_| !matches!(contents.evidence, Evidence::Spare(_)));
    if let Some(header) = said.filter(|header| !named.readings.contains(&header.segment)) {
        return Err(OrphanError::Foreign {
            name: name(),
            reason: format!("its file is of segment {}", header.segment),
        });
    }
    if let Some((uid, (log, seq))) = contents.uids.iter().find_map(|uid| live.get_key_value(uid)) {
        let segment = SegmentId { log: (*log).clone(), seq: *seq };
        return Err(OrphanError::LiveUid { name: name(), uid: *uid, segment });
    }
    let leaving = |uid: &&Uid| state.released.get(uid).is_some_and(|record| !trash::is_held(record));
    match contents.uids.iter().find(leaving).and_then(|uid| state.released.get(uid)) {
        Some(record) => Err(OrphanError::Known { name: name(), segment: record.segment.clone() }),
        None => Ok(()),
    }
}
