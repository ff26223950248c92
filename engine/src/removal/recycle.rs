//! Recycle: the file of a segment that was given up becomes a spare one, with one block written and its directory renamed. What little of
//! it was never written is filled first.
//!
//! The header block is destroyed, durably, before anything else: from then on the file is nobody's, whatever name it has. A crash at any
//! step leaves the file in its old place with a header that says `spare`, or in the pool; both are found by the next open.

use super::release::Blocks;
use super::spares::{Spare, Spares};
use crate::format::block::BlockError;
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{Epoch, Generation, Offset, SegmentId, StoreId, Uid};
use crate::layout;
use crate::segment::{mend, survey};
use strandline_disk::{Access, BLOCK, Buffer, Directory, Disk, DiskError, File, Name, OpenFile, Position, transfer};

/// The file of a released segment, found in its place.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: Directory,
    pub(super) name: Name,
    pub(super) file: File,
    pub(super) file_name: Name,
}

/// A file that is fit for the pool. Room for it was taken.
#[derive(Debug)]
pub(super) struct Recyclable {
    pub(super) place: Place,
    pub(super) blocks: Blocks,
    /// Its header was destroyed already, before a crash or an error.
    pub(super) destroyed: Option<Spare>,
}

/// A file is filled up for the pool when no more of it than this part is unwritten.
const UNWRITTEN_PART_MAX: u64 = 4;

/// Takes room in the pool for a file. `None` when it is not of a full grade, too much of it was never written, it is not alone in its
/// directory, or the pool is full.
pub(super) fn take_room<D: Disk>(
    disk: &D,
    spares: &Spares,
    blocks: Option<Blocks>,
    place: &Place,
) -> Result<Option<Blocks>, DiskError> {
    let fit = blocks.filter(|Blocks { size, written_to }| {
        let few = size.saturating_sub(*written_to) <= size / UNWRITTEN_PART_MAX;
        few && size.is_power_of_two() && place.file.length() == *size
    });
    let Some(blocks) = fit else { return Ok(None) };
    let is_alone = disk.list(&place.directory)?.len() == 1;
    Ok((is_alone && spares.take_room(blocks.size)).then_some(blocks))
}

/// Destroys the header of the file, durably: from then on it is a spare one.
///
/// # Errors
/// What the disk answered. It is finished when this is done again.
pub(super) async fn destroy<D: Disk>(
    disk: &D,
    store: StoreId,
    segment: &SegmentId,
    Recyclable { place, blocks, destroyed }: &Recyclable,
) -> Result<Spare, DiskError> {
    if let Some(spare) = destroyed {
        // It was read, which does not mean that it is durable.
        write_header_apart(disk, &place.file, &spare_header(store, segment, *spare)).await?;
        return Ok(*spare);
    }
    let Blocks { size, written_to } = *blocks;
    if written_to < size {
        // The header that follows says that all blocks were written, and synced.
        mend::clear(disk, &place.file, Position(written_to), &[], Position(size)).await?;
        transfer::sync(disk, &place.file).await?;
    }
    let spare = Spare { size, uid: Uid(disk.random()) };
    write_header_apart(disk, &place.file, &spare_header(store, segment, spare)).await?;
    Ok(spare)
}

/// Writes the header block of a file that nobody needs any more, and syncs it. A block that cannot be written is a failed write then, which
/// concerns nobody else, and no failed flush.
async fn write_header_apart<D: Disk>(disk: &D, file: &File, header: &SegmentHeader) -> Result<(), DiskError> {
    let buffer: Buffer = transfer::buffer_of(disk, &header.encode()).await;
    transfer::write(disk, file, buffer, Position(0), false).await.1?;
    transfer::sync(disk, file).await
}

/// Gives a file whose header says `spare` its place in the pool. It is durable when both directories have been synced, which comes before the
/// manifest forgets the one name and somebody uses the other.
///
/// # Errors
/// What the disk answered.
pub(super) async fn move_in<D: Disk>(
    disk: &D,
    pool: &Directory,
    spare: Spare,
    Recyclable { place: Place { directory, name, file_name, .. }, destroyed, .. }: &Recyclable,
) -> Result<(), DiskError> {
    let first = layout::data_file_name(Generation(0));
    let has_other_name = *file_name != first;
    if has_other_name {
        transfer::rename(disk, directory, file_name, &first).await?;
    }
    // Of one that a crash or an error left here nobody knows whether its name is durable.
    if has_other_name || destroyed.is_some() {
        transfer::sync_directory(disk, directory).await?;
    }
    transfer::rename_to(disk, (&disk.root(), name), (pool, &layout::uid_directory_name(spare.uid))).await
}

/// The header of a spare file. The segment in it is one that the file was, or would have been, a part of: it means nothing.
pub(super) fn spare_header(store: StoreId, segment: &SegmentId, Spare { size, uid }: Spare) -> SegmentHeader {
    SegmentHeader {
        uid,
        store,
        state: SegmentState::Spare,
        segment: segment.clone(),
        generation: Generation(0),
        base: Offset(0),
        opened_at_ms: 0,
        epoch: Epoch::default(),
        size,
        look_ahead: 0,
    }
}

/// Writes a header block, durably. The rest of the file is as it was.
///
/// # Errors
/// What the disk answered.
pub async fn write_header<D: Disk>(disk: &D, file: &File, header: &SegmentHeader) -> Result<(), DiskError> {
    let buffer: Buffer = transfer::buffer_of(disk, &header.encode()).await;
    transfer::write(disk, file, buffer, Position(0), true).await.1
}

/// The directory of the pool.
///
/// # Errors
/// What the disk answered.
pub async fn pool<D: Disk>(disk: &D) -> Result<Directory, DiskError> {
    let name = Name::new(layout::SPARE_DIRECTORY).expect("a plain name");
    transfer::open_directory(disk, &disk.root(), &name).await
}

/// What is in the directory of the pool.
#[derive(Debug, Default)]
pub struct Pooled {
    /// Spare files.
    pub spares: Vec<Spare>,
    /// What is left of spare files that were being removed.
    pub half_removed: Vec<Uid>,
    /// Whatever else is there, by its path.
    pub foreign: Vec<String>,
}

/// Makes the directory of the pool where there is none, and finds what is in it. What is not a whole spare file of this store, nor was
/// one, is left where it is, and named.
///
/// # Errors
/// What the disk answered.
pub async fn find<D: Disk>(disk: &D, store: StoreId) -> Result<Pooled, DiskError> {
    let name = Name::new(layout::SPARE_DIRECTORY).expect("a plain name");
    let pool = match transfer::open_directory(disk, &disk.root(), &name).await {
        Err(error) if error.is_absent() => {
            transfer::create_directory(disk, &disk.root(), &name).await?;
            transfer::sync_directory(disk, &disk.root()).await?;
            return Ok(Pooled::default());
        }
        opened => opened?,
    };
    // A directory that a crash caught on its way in or out is made to stay where it is seen now. What is built on its name later would
    // else go back with it at the next power cut: a rename is durable when both directories are.
    transfer::sync_directory(disk, &pool).await?;
    transfer::sync_directory(disk, &disk.root()).await?;
    let mut found = Pooled::default();
    for entry in disk.list(&pool)? {
        let text = entry.name.to_string_lossy().into_owned();
        let seen = match (layout::uid_of_directory(&text), Name::new(&text)) {
            (Some(uid), Ok(name)) => look_at(disk, store, &pool, &name, uid).await?,
            _ => Seen::Foreign,
        };
        match seen {
            Seen::Spare(spare) => found.spares.push(spare),
            Seen::HalfRemoved(uid) => found.half_removed.push(uid),
            Seen::Unfinished => {}
            Seen::Foreign => found.foreign.push(format!("{}/{text}", layout::SPARE_DIRECTORY)),
        }
    }
    Ok(found)
}

/// What a directory in the pool is.
enum Seen {
    Spare(Spare),
    /// A crash came while it was being cut down.
    HalfRemoved(Uid),
    /// A crash came while it was being filled. Nothing was ever in it, and it is removed.
    Unfinished,
    Foreign,
}

async fn look_at<D: Disk>(
    disk: &D,
    store: StoreId,
    pool: &Directory,
    name: &Name,
    uid: Uid,
) -> Result<Seen, DiskError> {
    // One that cannot be opened is one spare file less, and no reason not to open the store.
    let Ok(directory) = transfer::open_directory(disk, pool, name).await else { return Ok(Seen::Foreign) };
    let file_name = layout::data_file_name(Generation(0));
    let file = match transfer::open(disk, &directory, &file_name, OpenFile::Existing, Access::Auto).await {
        Ok(file) => file,
        Err(error) if error.is_absent() && disk.list(&directory)?.is_empty() => {
            let _ = transfer::remove_directory(disk, pool, name).await;
            return Ok(Seen::Unfinished);
        }
        Err(_) => return Ok(Seen::Foreign),
    };
    match survey::read_header(disk, &file).await? {
        Ok(header) if header.uid != uid || !is_spare(&header, store) => Ok(Seen::Foreign),
        Ok(header) if header.size > file.length() => Ok(Seen::HalfRemoved(uid)),
        Ok(header) => Ok(spare_of(&header, store, &file).map_or(Seen::Foreign, Seen::Spare)),
        Err(BlockError::Empty) if disk.list(&directory)?.len() == 1 => {
            drop(file);
            // What cannot be removed is looked at again by the next open.
            if transfer::unlink(disk, &directory, &file_name).await.is_ok() {
                let _ = transfer::remove_directory(disk, pool, name).await;
            }
            Ok(Seen::Unfinished)
        }
        Err(_) => Ok(Seen::Foreign),
    }
}

/// The spare file of this header, when it says that the file is one and the file is whole.
pub(super) fn spare_of(header: &SegmentHeader, store: StoreId, file: &File) -> Option<Spare> {
    let is_whole = header.size == file.length() && header.size >= BLOCK as u64;
    (is_spare(header, store) && is_whole).then_some(Spare { size: header.size, uid: header.uid })
}

/// Whether this header says that its file is a spare one of this store.
pub(super) fn is_spare(header: &SegmentHeader, store: StoreId) -> bool {
    header.state == SegmentState::Spare && header.store == store
}
