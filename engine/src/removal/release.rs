//! Release: what stands at the place of a file that was given up, and how it is removed.
//!
//! The edit that gives a file up is durable before any of its bytes go. A file is removed only when it says itself whose it is: by its
//! header block, or by a batch, whose checksum covers the uid. Whatever else is found is left alone and reported.

use super::recycle::{self, Place, Recyclable};
use super::spares::{Spare, Spares};
use crate::format::manifest::ReleaseReason;
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{Generation, StoreId, Uid};
use crate::layout;
use crate::manifest::state::{ReleasedRecord, State};
use crate::segment::survey;
use std::collections::HashSet;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, Errno, File, Name, OpenFile, transfer};

/// How far a file without a good header block is looked at for a batch that says whose it is, in bytes.
const EVIDENCE_BYTES: u64 = 1 << 20;

/// What a released file was found to be.
#[derive(Debug)]
pub(super) enum Found {
    /// It is not there any more, or its name is another file's by now.
    Gone,
    /// It is fit for the pool, in which room for it was taken.
    Spare(Box<Recyclable>),
    /// It can be removed.
    Doomed(Doomed),
    /// It is left alone, for this reason.
    Kept(String),
}

/// Files that are to be removed, and their directory with them.
#[derive(Debug)]
pub(super) struct Doomed {
    /// Where the directory is.
    parent: Directory,
    directory: Directory,
    /// The directory's name.
    name: Name,
    /// The names of its files, in the order in which they go. One of a segment may have none.
    files: Vec<Name>,
    /// It is an orphan: all that is in it is among these.
    is_whole: bool,
    /// The file that is shrunk now: it has no other name.
    pub(super) file: Option<File>,
    /// How much of that is left, in bytes.
    length: u64,
    /// Those that are shrunk after it.
    next: Vec<File>,
    /// How much of all of them is left, in bytes.
    pub(super) bytes: u64,
}

/// Which names a removal took, and which therefore have to be synced.
#[derive(Debug)]
pub(super) enum Taken {
    /// The directory's own.
    Directory,
    /// One in a directory that stays.
    File(Directory),
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
    /// It is removed where it stands: the way into the pool was tried, and there was no room for it.
    pub in_place: bool,
}

/// The released files whose bytes may go now: no hold is on them, and no segment stands in them.
#[must_use]
pub fn due(state: &State, wall_ms: u64) -> Vec<Given> {
    let listed: HashSet<Uid> = state.uids().collect();
    let due = state.released.iter().filter(|(_, released)| released.hold_until_ms <= wall_ms);
    let due = due.filter(|(uid, _)| !listed.contains(uid));
    due.map(|(uid, record)| Given { uid: *uid, record: record.clone(), blocks: None }).collect()
}

/// Looks what stands at the place of a released file.
///
/// # Errors
/// What the disk answered.
pub(super) async fn examine<D: Disk>(disk: &D, removing: Removing<'_>, given: &Given) -> Result<Found, DiskError> {
    let Given { uid, record, .. } = given;
    let (root, name) = (disk.root(), layout::directory_name(&record.segment));
    let directory = match transfer::open_directory(disk, &root, &name).await {
        // It may have been removed just before a kill, and not durably.
        Err(error) if error.is_absent() => return Ok(Found::Gone),
        opened => opened?,
    };
    let mut file_name = layout::data_file_name(record.generation);
    let mut opened = transfer::open(disk, &directory, &file_name, OpenFile::Existing, Access::Auto).await;
    if record.generation > Generation(0) && opened.as_ref().is_err_and(DiskError::is_absent) {
        // On its way into the pool a rewritten file gets the first name before its directory moves.
        let first = layout::data_file_name(Generation(0));
        if let Some(file) = destroyed_under(disk, removing.store, record, (&directory, &first)).await? {
            (file_name, opened) = (first, Ok(file));
        }
    }
    let file = match opened {
        Err(error) if error.is_absent() => return Ok(Found::Doomed(Doomed::new(root, directory, (name, None), None))),
        // A snapshot has it too. Whatever it is, to take this name from it loses none of its bytes.
        Err(error) if error.errno == Errno::MLINK => {
            return Ok(Found::Doomed(Doomed::new(root, directory, (name, Some(file_name)), None)));
        }
        opened => opened?,
    };
    match survey::read_header(disk, &file).await? {
        Ok(header) if header.uid == *uid || was_destroyed(&header, removing.store, record) => {
            let place = Place { directory, name, file, file_name };
            match spare(disk, removing, given, &header, place)? {
                Ok(recyclable) => Ok(Found::Spare(Box::new(recyclable))),
                Err(Place { directory, name, file, file_name }) => {
                    Ok(Found::Doomed(Doomed::new(root, directory, (name, Some(file_name)), Some(file))))
                }
            }
        }
        // Its name was taken by another file, which is not ours to remove.
        Ok(_) => Ok(Found::Gone),
        Err(why) => {
            // The rewritten file of a segment is given up before it is made, and nothing else was ever made under its name.
            let unfinished = record.reason == ReleaseReason::Orphan && record.generation > Generation(0);
            if !unfinished && survey::first_batch(disk, &file, *uid, EVIDENCE_BYTES).await?.is_none() {
                return Ok(Found::Kept(format!("nothing in {name}/{file_name} says whose it is: {why}")));
            }
            Ok(Found::Doomed(Doomed::new(root, directory, (name, Some(file_name)), Some(file))))
        }
    }
}

impl Doomed {
    /// A directory of this name in `parent`, and the file in it, where there is one.
    pub(super) fn new(
        parent: Directory,
        directory: Directory,
        (name, file_name): (Name, Option<Name>),
        file: Option<File>,
    ) -> Doomed {
        let bytes = file.as_ref().map_or(0, File::length);
        let (files, next) = (file_name.into_iter().collect(), Vec::new());
        Doomed { parent, directory, name, files, is_whole: false, file, length: bytes, next, bytes }
    }

    /// The same, whose file has got so many bytes since it was opened.
    pub(super) fn with_length(self, bytes: u64) -> Doomed {
        Doomed { length: bytes, bytes, ..self }
    }

    /// An orphan of this name in the trash, with all its files, `large` ones among them to be shrunk first, of so many bytes together.
    pub(super) fn orphan(
        (trash, directory, name): (Directory, Directory, Name),
        files: Vec<Name>,
        (mut next, bytes): (Vec<File>, u64),
    ) -> Doomed {
        let file = next.pop();
        let length = file.as_ref().map_or(0, File::length);
        Doomed { parent: trash, directory, name, files, is_whole: true, file, length, next, bytes }
    }

    /// How many files it has.
    pub(super) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Cuts up to so many bytes off the end of a file. Gives how many.
    ///
    /// # Errors
    /// What the disk answered.
    pub(super) async fn shrink<D: Disk>(&mut self, disk: &D, bytes: u64) -> Result<u64, DiskError> {
        let Some(file) = &self.file else { return Ok(0) };
        let length = self.length.saturating_sub(bytes).max(BLOCK as u64).min(self.length);
        transfer::truncate(disk, file, length).await?;
        let freed = std::mem::replace(&mut self.length, length) - length;
        self.bytes -= freed;
        if self.is_whole && length <= BLOCK as u64 {
            // The first block of each stays to the last: it says whose it is.
            self.file = self.next.pop();
            self.length = self.file.as_ref().map_or(0, File::length);
        }
        Ok(freed)
    }

    /// Removes the files, and their directory when no other data file is in it. Neither is durable yet. Doing it twice does no harm.
    ///
    /// # Errors
    /// What the disk answered; of an orphan also that something else is in its directory. Some of it may be gone; it is finished when this
    /// is done again.
    pub(super) async fn unlink<D: Disk>(&mut self, disk: &D) -> Result<Taken, DiskError> {
        self.file = None;
        self.next.clear();
        for name in &self.files {
            match transfer::unlink(disk, &self.directory, name).await {
                Err(error) if !error.is_absent() => return Err(error),
                _ => {}
            }
        }
        if !self.is_whole {
            return remove_directory(disk, &self.parent, &self.directory, &self.name).await;
        }
        match transfer::remove_directory(disk, &self.parent, &self.name).await {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(Taken::Directory),
        }
    }
}

/// The file of this name, if its header says that it was on its way into the pool.
async fn destroyed_under<D: Disk>(
    disk: &D,
    store: StoreId,
    record: &ReleasedRecord,
    (directory, name): (&Directory, &Name),
) -> Result<Option<File>, DiskError> {
    let file = match transfer::open(disk, directory, name, OpenFile::Existing, Access::Auto).await {
        Err(error) if error.is_absent() || error.errno == Errno::MLINK => return Ok(None),
        opened => opened?,
    };
    let header = survey::read_header(disk, &file).await?;
    Ok(header.is_ok_and(|header| was_destroyed(&header, store, record)).then_some(file))
}

/// Whether this is the header of a file that was on its way into the pool when a crash or an error came between.
fn was_destroyed(header: &SegmentHeader, store: StoreId, record: &ReleasedRecord) -> bool {
    header.state == SegmentState::Spare && header.store == store && header.segment == record.segment
}

/// Takes room in the pool for a released file, where it is fit for that and there is some. Else gives the place back.
fn spare<D: Disk>(
    disk: &D,
    Removing { store, spares, in_place }: Removing<'_>,
    given: &Given,
    header: &SegmentHeader,
    place: Place,
) -> Result<Result<Recyclable, Place>, DiskError> {
    if in_place {
        return Ok(Err(place));
    }
    let destroyed = recycle::spare_of(header, store, &place.file);
    // Only a file whose blocks were all written ever got such a header.
    let whole = destroyed.map(|Spare { size, .. }| Blocks { size, written_to: size });
    let room = recycle::take_room(disk, spares, whole.or(given.blocks), &place)?;
    Ok(match room {
        Some(blocks) => Ok(Recyclable { place, blocks, destroyed }),
        None => Err(place),
    })
}

/// Removes a segment's directory, and what recovery had set aside in it, unless another data file is still there.
async fn remove_directory<D: Disk>(
    disk: &D,
    parent: &Directory,
    directory: &Directory,
    name: &Name,
) -> Result<Taken, DiskError> {
    let mut left = transfer::remove_directory(disk, parent, name).await;
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
                left = transfer::remove_directory(disk, parent, name).await;
            }
        }
    }
    match left {
        Err(error) if is_not_empty(&error) => Ok(Taken::File(directory.clone())),
        Err(error) if !error.is_absent() => Err(error),
        _ => Ok(Taken::Directory),
    }
}

fn is_not_empty(error: &DiskError) -> bool {
    [Errno::NOTEMPTY, Errno::EXIST].contains(&error.errno)
}
