//! Mending: what is done to a file after a survey, so that what was found stays and what lies past the end never comes back.
//!
//! Nothing below the end is ever changed.

use super::survey::{self, Survey};
use crate::id::Life;
use crate::layout;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, Errno, File, Name, OpenFile, Position, transfer};

/// How much is written at once, in bytes.
const PIECE: usize = 256 << 10;

/// Makes sure that what was found stays there: readers must not see what could vanish.
///
/// # Errors
/// What the disk answered.
pub async fn secure<D: Disk>(disk: &D, file: &File, found: &Survey) -> Result<(), DiskError> {
    if file.is_direct() || !found.damage.is_empty() {
        // What was scanned may still be in the drive's cache only.
        transfer::sync(disk, file).await
    } else {
        // Pages that the kernel failed to write look clean: only writing them again makes them durable.
        rewrite(disk, file, found.end).await
    }
}

/// Writes a buffered file again, from its start to `end`, durably.
async fn rewrite<D: Disk>(disk: &D, file: &File, end: Position) -> Result<(), DiskError> {
    let mut at = Position(0);
    while at < end {
        let to = at.plus(PIECE).min(end.block_ceiling(BLOCK));
        let window = survey::read_window(disk, file, at, to).await?;
        let buffer = transfer::buffer_of(disk, &window).await;
        transfer::write(disk, file, buffer, at, true).await.1?;
        at = to;
    }
    Ok(())
}

/// Makes sure that what is past the end can never be taken for data. Whole batches that were never acknowledged are set aside first:
/// answers the name of the file beside that holds them.
///
/// # Errors
/// What the disk answered.
pub async fn neutralise<D: Disk>(
    disk: &D,
    directory: &Directory,
    file: &File,
    found: &Survey,
    life: Life,
) -> Result<Option<Name>, DiskError> {
    let aside = set_aside_torn(disk, directory, file, found, life).await?;
    clear_torn(disk, file, found).await?;
    Ok(aside)
}

/// The first half of [`neutralise`]: all that has to be opened for it is opened here, and nothing is changed.
///
/// # Errors
/// What the disk answered.
pub async fn set_aside_torn<D: Disk>(
    disk: &D,
    directory: &Directory,
    file: &File,
    found: &Survey,
    life: Life,
) -> Result<Option<Name>, DiskError> {
    match found.torn.as_ref().filter(|torn| torn.batches > 0) {
        Some(torn) => set_aside(disk, directory, file, found.end..torn.end, life).await.map(Some),
        None => Ok(None),
    }
}

/// The second half of [`neutralise`].
///
/// # Errors
/// What the disk answered.
pub async fn clear_torn<D: Disk>(disk: &D, file: &File, found: &Survey) -> Result<(), DiskError> {
    let torn_end = found.torn.as_ref().map(|torn| torn.end);
    let Some(to) = torn_end.max(found.dropped_to) else { return Ok(()) };
    let block = found.end.block_floor(BLOCK);
    let kept = survey::read_window(disk, file, block, found.end).await?;
    clear(disk, file, block, &kept, to).await
}

/// Copies whole batches that were never acknowledged into a file beside, for whoever wants to look at them.
async fn set_aside<D: Disk>(
    disk: &D,
    directory: &Directory,
    from: &File,
    range: std::ops::Range<Position>,
    life: Life,
) -> Result<Name, DiskError> {
    let name = layout::torn_file_name(life);
    let file = match transfer::open(disk, directory, &name, OpenFile::New, Access::Buffered).await {
        Err(error) if error.errno == Errno::EXIST => {
            transfer::open(disk, directory, &name, OpenFile::Existing, Access::Buffered).await?
        }
        opened => opened?,
    };
    let mut at = range.start;
    while at < range.end {
        let to = at.plus(PIECE).min(range.end);
        let window = survey::read_window(disk, from, at, to).await?;
        let mut buffer = transfer::take_buffer(disk, window.len()).await;
        buffer.copy_from_slice(&window);
        transfer::write(disk, &file, buffer, Position(at.since(range.start)), false).await.1?;
        at = to;
    }
    // Durable before the original is cleared, or a crash between the two would leave neither.
    transfer::sync(disk, &file).await?;
    transfer::sync_directory(disk, directory).await?;
    Ok(name)
}

/// Writes `kept` at `from`, which is a block boundary, and zeros behind it up to `to`.
///
/// # Errors
/// What the disk answered.
pub async fn clear<D: Disk>(disk: &D, file: &File, from: Position, kept: &[u8], to: Position) -> Result<(), DiskError> {
    let mut at = from;
    let to = to.block_ceiling(BLOCK);
    while at < to {
        let length = (to.since(at) as usize).min(PIECE);
        let mut buffer = transfer::take_buffer(disk, length).await;
        buffer.fill(0);
        if at == from {
            buffer.iter_mut().zip(kept).for_each(|(byte, kept)| *byte = *kept);
        }
        // Durable before the next append: a dropped batch must never be found again behind a new one.
        transfer::write(disk, file, buffer, at, true).await.1?;
        at = at.plus(length);
    }
    Ok(())
}
