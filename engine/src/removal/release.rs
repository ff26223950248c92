//! Release: the bytes of files that were given up are removed, and the manifest is told when they are gone.
//!
//! The edit that gives a file up is durable before any of its bytes go. A file is removed only when it says itself whose it is: by its
//! header block, or by a batch, whose checksum covers the uid. Whatever else is found is left alone and reported.

use super::recycle::{self, Place};
use super::spares::{Spare, Spares};
use crate::format::manifest::{Edit, ReleaseReason};
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{Generation, StoreId, Uid};
use crate::layout;
use crate::manifest::state::{ReleasedRecord, State};
use crate::manifest::{Edits, ManifestError};
use crate::segment::survey;
use strandline_disk::{Access, Directory, Disk, DiskError, OpenFile, Verb, transfer};

/// How far a file without a good header block is looked at for a batch that says whose it is, in bytes.
const EVIDENCE_BYTES: u64 = 1 << 20;

/// What became of a released file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nothing of it is left, durably.
    Gone,
    /// Its file is a spare one now, durably.
    Spared(Spare),
    /// It was left alone, for this reason.
    Kept(String),
}

/// A file that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The file.
    pub uid: Uid,
    /// What the manifest says of it.
    pub record: ReleasedRecord,
    /// What is known of its blocks.
    pub blocks: Option<Blocks>,
}

/// Which blocks of a file are known to have been written, and then synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The file's size in bytes.
    pub size: u64,
    /// All of them in front of this, which is a block boundary.
    pub written_to: u64,
}

/// What the removal of a store's files needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Removing<'a> {
    /// Which store it is.
    pub store: StoreId,
    /// Where files go that can be used again.
    pub spares: &'a Spares,
}

/// The released files whose bytes may go now: no hold is on them, and no segment stands in them.
#[must_use]
pub fn due(state: &State, wall_ms: u64) -> Vec<Given> {
    let is_listed =
        |uid: Uid| state.logs.values().flat_map(|log| log.segments.values()).any(|record| record.uid == uid);
    let due = state.released.iter().filter(|(_, released)| released.hold_until_ms <= wall_ms);
    let due = due.filter(|(uid, _)| !is_listed(**uid));
    due.map(|(uid, record)| Given { uid: *uid, record: record.clone(), blocks: None }).collect()
}

/// Removes released files one after the other, and tells the manifest of each that is gone. What cannot be removed is reported and
/// tried again at the next open.
///
/// # Errors
/// A flush that failed, here or of the manifest: what else it may have taken along is for the shard to say.
pub async fn remove_all<D: Disk>(
    disk: &D,
    edits: &Edits,
    removing: Removing<'_>,
    released: Vec<Given>,
) -> Result<(), ManifestError> {
    for given in released {
        let Given { uid, record, .. } = &given;
        match remove_released(disk, removing, &given).await {
            Ok(Removal::Gone) => edits.submit(vec![Edit::Gone { uid: *uid }]).await?,
            Ok(Removal::Spared(spare)) => {
                edits.submit(vec![Edit::Gone { uid: *uid }]).await?;
                removing.spares.put(spare);
            }
            Ok(Removal::Kept(reason)) => {
                tracing::warn!(segment = %record.segment, generation = %record.generation, reason, "a released file was left alone");
            }
            Err(source) if matches!(source.verb, Verb::Sync | Verb::SyncDirectory) => {
                return Err(ManifestError::Disk(source));
            }
            Err(error) => {
                tracing::warn!(segment = %record.segment, %error, "a released file could not be removed; it is tried again at the next open");
            }
        }
    }
    Ok(())
}

/// Removes the file of a released record, and its directory when no other data file is in it; or makes a spare one of it. Doing it twice
/// does no harm.
///
/// # Errors
/// What the disk answered. Some of it may be gone; it is finished when this is called again.
pub async fn remove_released<D: Disk>(disk: &D, removing: Removing<'_>, given: &Given) -> Result<Removal, DiskError> {
    let Given { uid, record, .. } = given;
    let (root, name) = (disk.root(), layout::directory_name(&record.segment));
    let directory = match transfer::open_directory(disk, &root, &name).await {
        Ok(directory) => directory,
        Err(error) if error.is_absent() => {
            // It may have been removed just before a kill, and not durably.
            transfer::sync_directory(disk, &root).await?;
            return Ok(Removal::Gone);
        }
        Err(error) => return Err(error),
    };
    let file_name = layout::data_file_name(record.generation);
    match transfer::open(disk, &directory, &file_name, OpenFile::Existing, Access::Auto).await {
        Ok(file) => match survey::read_header(disk, &file).await? {
            Ok(header) if header.uid == *uid || was_destroyed(&header, removing.store, record) => {
                let place = Place { directory: &directory, name: &name, file: &file, file_name: &file_name };
                if let Some(spare) = spare(disk, removing, given, &header, &place).await? {
                    return Ok(Removal::Spared(spare));
                }
                transfer::unlink(disk, &directory, &file_name).await?;
            }
            // Its name was taken by another file, which is not ours to remove.
            Ok(_) => return Ok(Removal::Gone),
            Err(why) => {
                // The rewritten file of a segment is given up before it is made, and nothing else was ever made under its name.
                let unfinished = record.reason == ReleaseReason::Orphan && record.generation > Generation(0);
                if !unfinished && survey::first_batch(disk, &file, *uid, EVIDENCE_BYTES).await?.is_none() {
                    return Ok(Removal::Kept(format!("nothing in {name}/{file_name} says whose it is: {why}")));
                }
                transfer::unlink(disk, &directory, &file_name).await?;
            }
        },
        Err(error) if error.is_absent() => {}
        Err(error) => return Err(error),
    }
    remove_directory(disk, &directory, &name).await?;
    Ok(Removal::Gone)
}

/// Whether this is the header of a file that was on its way into the pool when a crash or an error came between.
fn was_destroyed(header: &SegmentHeader, store: StoreId, record: &ReleasedRecord) -> bool {
    header.state == SegmentState::Spare && header.store == store && header.segment == record.segment
}

/// Makes a spare file of a released one, where it is fit for that and the pool has room.
async fn spare<D: Disk>(
    disk: &D,
    removing: Removing<'_>,
    given: &Given,
    header: &SegmentHeader,
    place: &Place<'_>,
) -> Result<Option<Spare>, DiskError> {
    let Removing { store, spares } = removing;
    let destroyed = recycle::spare_of(header, store, place.file);
    // Only a file whose blocks were all written ever got such a header.
    let whole = destroyed.map(|Spare { size, .. }| Blocks { size, written_to: size });
    let Some(blocks) = recycle::take_room(disk, spares, whole.or(given.blocks), place)? else { return Ok(None) };
    let spared = match destroyed {
        Some(spare) => recycle::into_the_pool(disk, spare, place).await,
        None => recycle::recycle(disk, store, given, blocks, place).await,
    };
    if spared.is_err() {
        spares.give_room_back(blocks.size);
    }
    spared.map(Some)
}

/// Removes a segment's directory, and what recovery had set aside in it, unless another data file is still there.
async fn remove_directory<D: Disk>(
    disk: &D,
    directory: &Directory,
    name: &strandline_disk::Name,
) -> Result<(), DiskError> {
    let root = disk.root();
    let mut left = transfer::remove_directory(disk, &root, name).await;
    if left.as_ref().is_err_and(is_not_empty) {
        let entries = disk.list(directory)?;
        let names: Vec<String> = entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
        let is_data = names.iter().any(|name| layout::data_file_generation(name).is_some());
        let foreign = names.iter().find(|name| layout::torn_file_life(name).is_none());
        match foreign {
            Some(_) if is_data => {}
            Some(foreign) => tracing::warn!(directory = %name, foreign, "a directory holds what is not ours: it stays"),
            None => {
                for life in names.iter().filter_map(|name| layout::torn_file_life(name)) {
                    transfer::unlink(disk, directory, &layout::torn_file_name(life)).await?;
                }
                left = transfer::remove_directory(disk, &root, name).await;
            }
        }
    }
    match left {
        // Without these syncs the names could come back after the manifest has forgotten them.
        Ok(()) => transfer::sync_directory(disk, &root).await,
        Err(error) if is_not_empty(&error) => transfer::sync_directory(disk, directory).await,
        Err(error) => Err(error),
    }
}

fn is_not_empty(error: &DiskError) -> bool {
    [strandline_disk::Errno::NOTEMPTY, strandline_disk::Errno::EXIST].contains(&error.errno)
}
