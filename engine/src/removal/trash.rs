//! Trash: orphan directories wait in `trash/UID` until their hold is over, whole, and can be taken back until then.
//!
//! The edit that gives a directory up is durable before it is moved. A crash between the two is finished at the next open, after another
//! look at what stands there now; one between the move back and its edit moves it into the trash again. Nothing is ever lost by either.

use super::evidence::{self, Contents, Evidence};
use super::syncs::Syncs;
use crate::format::manifest::ReleaseReason;
use crate::id::{SegmentId, Uid};
use crate::layout;
use crate::manifest::state::{ReleasedRecord, State};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use strandline_disk::{Access, Directory, Disk, DiskError, Errno, Name, OpenFile, transfer};

/// How much is cut off a file at once, and how long it rests then: 400 MiB a second at most.
const STEP_BYTES: u64 = 4 << 20;
const STEP_REST: Duration = Duration::from_millis(10);

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
pub struct Found {
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
pub async fn find<D: Disk>(disk: &D, state: &State, degraded: bool) -> Result<Found, DiskError> {
    let trash = open(disk).await?;
    // A directory that a crash caught on its way is made to stay where it is seen now: what is decided here is decided about its place.
    let syncs = Syncs::default();
    sync_both(disk, &trash, &syncs).await?;
    let mut found = Found::default();
    let mut there = BTreeSet::new();
    for entry in disk.list(&trash)? {
        let text = entry.name.to_string_lossy().into_owned();
        match layout::uid_of_directory(&text).filter(|uid| state.released.contains_key(uid)) {
            Some(uid) => drop(there.insert(uid)),
            None => found.foreign.push(format!("{}/{text}", layout::TRASH_DIRECTORY)),
        }
    }
    let listed: HashSet<Uid> =
        state.logs.values().flat_map(|log| log.segments.values()).map(|record| record.uid).collect();
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
    let is_listed = |id: &SegmentId| state.logs.get(&id.log).is_some_and(|log| log.segments.contains_key(&id.seq));
    if layout::candidate_ids(name.as_str()).iter().any(is_listed) {
        return Ok(Still::Other("a segment that the manifest lists"));
    }
    let Contents { evidence, uids, .. } = evidence::read(disk, &directory).await?;
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

/// Removes a directory from the trash for good. Only names that a segment's directory has are unlinked, and none of a file that is in use.
///
/// # Errors
/// What the disk answered. What is left is removed when this is called again.
pub async fn remove<D: Disk>(disk: &D, syncs: &Syncs, uid: Uid, listed: &HashSet<Uid>) -> Result<Removed, DiskError> {
    let (trash, name) = (open(disk).await?, layout::uid_directory_name(uid));
    let directory = match transfer::open_directory(disk, &trash, &name).await {
        Ok(directory) => directory,
        Err(error) if error.is_absent() => {
            // It may have been removed just before a kill, and not durably.
            syncs.trash.sync(disk, &trash).await?;
            return Ok(Removed::Gone);
        }
        Err(error) => return Err(error),
    };
    let Contents { evidence, uids, data, torn, foreign } = evidence::read(disk, &directory).await?;
    if let Some(foreign) = foreign {
        return Ok(Removed::Kept(format!("it holds {foreign:?}, which no segment has")));
    }
    if uids.iter().any(|uid| listed.contains(uid)) {
        return Ok(Removed::Kept("it holds a file that is in use".to_owned()));
    }
    if !data.is_empty() && matches!(evidence, Evidence::NoHeader | Evidence::Unread) {
        return Ok(Removed::Kept(format!("of a file in it nobody knows whose it is ({evidence:?})")));
    }
    // What was set aside goes first: alone it would say nothing of whose it is.
    for file in torn.iter().chain(&data) {
        shrink(disk, &directory, file).await?;
        match transfer::unlink(disk, &directory, file).await {
            Err(error) if !error.is_absent() => return Err(error),
            _ => {}
        }
    }
    match transfer::remove_directory(disk, &trash, &name).await {
        Err(error) if !error.is_absent() => return Err(error),
        _ => {}
    }
    // Without this it could come back after the manifest has forgotten it.
    syncs.trash.sync(disk, &trash).await?;
    Ok(Removed::Gone)
}

/// Cuts a file off from its end, step by step: the discards of a large file that is unlinked whole are met by every append. Its header, which
/// says whose it is, is cut last.
async fn shrink<D: Disk>(disk: &D, directory: &Directory, name: &Name) -> Result<(), DiskError> {
    let file = match transfer::open(disk, directory, name, OpenFile::Existing, Access::Auto).await {
        // What is gone, or has another name somewhere, is not cut.
        Err(error) if error.is_absent() || error.errno == Errno::MLINK => return Ok(()),
        opened => opened?,
    };
    let mut left = file.length();
    while left > STEP_BYTES {
        left -= STEP_BYTES;
        transfer::truncate(disk, &file, left).await?;
        transfer::sleep(disk, STEP_REST).await?;
    }
    Ok(())
}

/// A rename is durable when both directories are.
async fn sync_both<D: Disk>(disk: &D, trash: &Directory, syncs: &Syncs) -> Result<(), DiskError> {
    syncs.trash.sync(disk, trash).await?;
    syncs.root.sync(disk, &disk.root()).await
}
