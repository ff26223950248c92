//! Trash: orphan directories wait in `trash/UID` until their hold is over, whole, and can be taken back until then.
//!
//! The edit that gives a directory up is durable before it is moved. A crash between the two is finished at the next open, after another
//! look at what stands there now; one between the move back and its edit moves it into the trash again. Nothing is ever lost by either.

use super::evidence::{self, Contents, Evidence};
use super::release::{Doomed, Found};
use super::syncs::Syncs;
use crate::format::manifest::ReleaseReason;
use crate::id::Uid;
use crate::layout;
use crate::manifest::state::{ReleasedRecord, State};
use futures_channel::oneshot;
use futures_util::future::join_all;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use strandline_disk::{Access, Directory, Disk, DiskError, Errno, File, Name, OpenFile, transfer};

/// Smaller files are unlinked whole, whatever a step of removal is.
const LARGE_BYTES: u64 = 1 << 20;

/// Whether a released record is of an orphan directory, which waits in the trash. A rewritten file that came to nothing is an orphan too,
/// but it never had a hold and stands where it was made.
#[must_use]
pub fn is_held(record: &ReleasedRecord) -> bool {
    record.reason == ReleaseReason::Orphan && record.hold_until_ms > 0
}

/// Opens the trash. Made where it is missing.
///
/// # Errors
/// What the disk answered.
pub async fn open<D: Disk>(disk: &D) -> Result<Directory, DiskError> {
    let name = Name::new(layout::TRASH_DIRECTORY).expect("a plain name");
    transfer::open_or_create_directory(disk, &disk.root(), &name).await
}

/// What became of a directory whose hold was over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// Nothing of it is left, durably.
    Gone,
    /// It was left alone, for this reason.
    Kept(String),
}

/// What the trash held when the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Directories that wait there.
    pub held: BTreeSet<Uid>,
    /// Released directories that are nowhere any more, or no longer what was released: the manifest may forget them.
    pub gone: Vec<Uid>,
    /// What lies in the trash, and nobody knows why.
    pub foreign: Vec<String>,
    /// What was left as it is, a sentence each.
    pub warnings: Vec<String>,
}

/// Looks into the trash, and finishes what a crash interrupted; with a `degraded` manifest nothing is moved.
///
/// # Errors
/// What the disk answered.
pub async fn find<D: Disk>(disk: &D, state: &State, degraded: bool) -> Result<Waiting, DiskError> {
    let trash = open(disk).await?;
    // A directory that a crash caught on its way is made to stay where it is seen now: what is decided here is decided about its place.
    let syncs = Syncs::default();
    sync_both(disk, &trash, &syncs).await?;
    let mut found = Waiting::default();
    let mut there = BTreeSet::new();
    for entry in disk.list(&trash)? {
        let text = entry.name.to_string_lossy().into_owned();
        match layout::uid_of_directory(&text).filter(|uid| state.released.contains_key(uid)) {
            Some(uid) => drop(there.insert(uid)),
            None => found.foreign.push(format!("{}/{text}", layout::TRASH_DIRECTORY)),
        }
    }
    let listed: HashSet<Uid> = state.uids().collect();
    for (uid, record) in state.released.iter().filter(|(_, record)| is_held(record)) {
        if there.contains(uid) {
            found.held.insert(*uid);
            continue;
        }
        if degraded {
            found
                .warnings
                .push(format!("{} was given up and is left alone while the manifest is damaged", record.segment));
            continue;
        }
        let name = layout::directory_name(&record.segment);
        match is_still_it(disk, state, &listed, (*uid, &name)).await? {
            Still::It => {
                move_in(disk, &trash, &syncs, (&name, *uid)).await?;
                found.held.insert(*uid);
            }
            Still::Gone => found.gone.push(*uid),
            Still::Other(why) => {
                found.warnings.push(format!("{name} was given up and is something else by now ({why}): it stays"));
                found.gone.push(*uid);
            }
            Still::Unread => found.warnings.push(format!("{name} was given up and cannot be read: it stays")),
        }
    }
    Ok(found)
}

enum Still {
    It,
    Gone,
    Unread,
    Other(&'static str),
}

/// Whether a directory is what was given up. A half of it may have been looked at and moved by nobody meanwhile: no store was open.
async fn is_still_it<D: Disk>(
    disk: &D,
    state: &State,
    listed: &HashSet<Uid>,
    (uid, name): (Uid, &Name),
) -> Result<Still, DiskError> {
    let directory = match transfer::open_directory(disk, &disk.root(), name).await {
        Ok(directory) => directory,
        Err(error) if error.is_absent() => return Ok(Still::Gone),
        Err(error) if [Errno::NOTDIR, Errno::LOOP, Errno::XDEV].contains(&error.errno) => {
            return Ok(Still::Other("no directory of ours"));
        }
        Err(error) => return Err(error),
    };
    if layout::candidate_ids(name.as_str()).iter().any(|id| state.lists(id)) {
        return Ok(Still::Other("a segment that the manifest lists"));
    }
    let Contents { evidence, uids, .. } = evidence::read(disk, &directory, Access::Auto).await?;
    Ok(match evidence {
        Evidence::Unread => Still::Unread,
        _ if uids.iter().any(|uid| listed.contains(uid)) => Still::Other("a file that is in use"),
        Evidence::NoHeader => Still::Other("data without a valid header"),
        Evidence::Empty | Evidence::AllZero => Still::It,
        _ if uids.contains(&uid) => Still::It,
        _ => Still::Other("another file"),
    })
}

/// Moves a directory into the trash, durably. False when it was gone.
///
/// # Errors
/// What the disk answered; ENOTEMPTY or EXIST when its place is taken. It is moved or not, and seen by the next open.
pub async fn move_in<D: Disk>(
    disk: &D,
    trash: &Directory,
    syncs: &Syncs,
    (name, uid): (&Name, Uid),
) -> Result<bool, DiskError> {
    let place = layout::uid_directory_name(uid);
    let moved = match transfer::rename_to(disk, (&disk.root(), name), (trash, &place)).await {
        Ok(()) => true,
        Err(error) if error.is_absent() => false,
        Err(error) => return Err(error),
    };
    sync_both(disk, trash, syncs).await?;
    Ok(moved)
}

/// Moves several directories into the trash, with one sync of either directory for all of them. Says of each, in their order, what its
/// ctime is there, or 0 when it was another than here in its old place; `None` when it was gone.
///
/// # Errors
/// Of each what [`move_in`] answers.
pub async fn move_all_in<D: Disk>(
    disk: &D,
    syncs: &Syncs,
    directories: &[(Name, Uid, u64)],
) -> Vec<Result<Option<u64>, DiskError>> {
    if directories.is_empty() {
        return Vec::new();
    }
    let to_all = |error: DiskError| vec![Err(error); directories.len()];
    let trash = match open(disk).await {
        Ok(trash) => trash,
        Err(error) => return to_all(error),
    };
    let (root, into) = (&disk.root(), &trash);
    let moved = join_all(directories.iter().map(|(name, uid, seen_ms)| async move {
        let place = layout::uid_directory_name(*uid);
        let is_same = disk.stat(root, name).is_ok_and(|stat| stat.ctime_ms == *seen_ms);
        match transfer::rename_to(disk, (root, name), (into, &place)).await {
            // What may have changed is looked into once more before it goes.
            Ok(()) if !is_same => Ok(Some(0)),
            Ok(()) => Ok(Some(disk.stat(into, &place).map_or(0, |stat| stat.ctime_ms))),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }));
    let moved = moved.await;
    match sync_both(disk, &trash, syncs).await {
        Ok(()) => moved,
        Err(error) => to_all(error),
    }
}

/// Moves a directory back out of the trash, durably. `false` when it is not there.
///
/// # Errors
/// What the disk answered; ENOTEMPTY, EXIST or ENOTDIR when its name is taken.
pub async fn move_out<D: Disk>(disk: &D, syncs: &Syncs, uid: Uid, name: &Name) -> Result<bool, DiskError> {
    let trash = open(disk).await?;
    match transfer::rename_to(disk, (&trash, &layout::uid_directory_name(uid)), (&disk.root(), name)).await {
        Ok(()) => {}
        Err(error) if error.is_absent() => return Ok(false),
        Err(error) => return Err(error),
    }
    sync_both(disk, &trash, syncs).await?;
    Ok(true)
}

/// Whether a directory is in the trash.
///
/// # Errors
/// What the disk answered.
pub async fn holds<D: Disk>(disk: &D, uid: Uid) -> Result<bool, DiskError> {
    match disk.stat(&open(disk).await?, &layout::uid_directory_name(uid)) {
        Ok(_) => Ok(true),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A directory in the trash that is to be removed for good.
#[derive(Debug)]
pub struct Orphan {
    listed: Arc<HashSet<Uid>>,
    placed: Option<Placed>,
    tell: oneshot::Sender<Removed>,
}

/// What a directory was seen to hold right before it came into the trash, and its ctime since, wall ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// What was in it.
    pub contents: Contents,
    /// Its ctime in the trash.
    pub ctime_ms: u64,
}

impl Orphan {
    /// With the uids that the manifest lists, and what is known of it. What becomes of it is told where that is awaited; nothing is told when
    /// nobody removes it any more.
    pub fn new(listed: Arc<HashSet<Uid>>, placed: Option<Placed>) -> (Orphan, oneshot::Receiver<Removed>) {
        let (tell, told) = oneshot::channel();
        (Orphan { listed, placed, tell }, told)
    }

    pub(super) fn end(self, removed: Removed) {
        // Who does not wait any more needs no answer.
        let _ = self.tell.send(removed);
    }

    /// What it is known to hold, when no name in it came or went and it was not moved since.
    fn known<D: Disk>(&self, disk: &D, trash: &Directory, name: &Name) -> Option<Contents> {
        let placed = self.placed.as_ref().filter(|placed| placed.ctime_ms > 0)?;
        let is_same = disk.stat(trash, name).is_ok_and(|stat| stat.ctime_ms == placed.ctime_ms);
        is_same.then(|| placed.contents.clone())
    }
}

/// Looks whether a directory may be removed from the trash for good. Only names that a segment's directory has are unlinked, and none of a
/// file that is in use.
///
/// # Errors
/// What the disk answered.
pub(super) async fn examine<D: Disk>(
    disk: &D,
    trash: Option<&Directory>,
    uid: Uid,
    orphan: &Orphan,
) -> Result<Found, DiskError> {
    let trash = match trash {
        Some(trash) => trash.clone(),
        None => open(disk).await?,
    };
    let name = layout::uid_directory_name(uid);
    let directory = match transfer::open_directory(disk, &trash, &name).await {
        // It may have been removed just before a kill, and not durably.
        Err(error) if error.is_absent() => return Ok(Found::Gone),
        opened => opened?,
    };
    let Contents { evidence, uids, data, torn, foreign } = match orphan.known(disk, &trash, &name) {
        Some(known) => known,
        None => evidence::read(disk, &directory, Access::Auto).await?,
    };
    if let Some(foreign) = foreign {
        return Ok(Found::Kept(format!("it holds {foreign:?}, which no segment has")));
    }
    if uids.iter().any(|uid| orphan.listed.contains(uid)) {
        return Ok(Found::Kept("it holds a file that is in use".to_owned()));
    }
    if !data.is_empty() && matches!(evidence, Evidence::NoHeader | Evidence::Unread) {
        return Ok(Found::Kept(format!("of a file in it nobody knows whose it is ({evidence:?})")));
    }
    let (mut large, mut bytes) = (Vec::new(), 0);
    // What was set aside goes first: alone it would say nothing of whose it is.
    let files: Vec<Name> = torn.into_iter().chain(data).collect();
    for file in &files {
        let length = match disk.stat(&directory, file) {
            Err(error) if error.is_absent() => continue,
            stat => stat?.bytes,
        };
        bytes += length;
        if length > LARGE_BYTES {
            large.extend(open_large(disk, &directory, file).await?);
        }
    }
    Ok(Found::Doomed(Doomed::orphan((trash, directory, name), files, (large, bytes))))
}

/// Opens a file that is shrunk before it is unlinked: the discards of a large one that goes whole are met by every append.
async fn open_large<D: Disk>(disk: &D, directory: &Directory, name: &Name) -> Result<Option<File>, DiskError> {
    match transfer::open(disk, directory, name, OpenFile::Existing, Access::Auto).await {
        // What is gone, or has another name somewhere, is not cut.
        Err(error) if error.is_absent() || error.errno == Errno::MLINK => Ok(None),
        opened => opened.map(Some),
    }
}

/// A rename is durable when both directories are.
async fn sync_both<D: Disk>(disk: &D, trash: &Directory, syncs: &Syncs) -> Result<(), DiskError> {
    syncs.trash.sync(disk, trash).await?;
    syncs.root.sync(disk, &disk.root()).await
}
