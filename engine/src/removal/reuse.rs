//! Reuse: a spare file becomes the file of a segment that is being prepared, with a rename and one block written.

use super::recycle;
use super::spares::Spares;
use super::syncs::Syncs;
use crate::config::{CheckedConfig, sabotaged};
use crate::format::segment::SegmentHeader;
use crate::id::Generation;
use crate::layout;
use crate::segment::survey;
use strandline_disk::{Access, Disk, DiskError, Errno, File, OpenFile, transfer};

/// Moves a spare file into the place of the segment that `header` names, and makes it say so, durably. `None` when there is none, or
/// when something has its place: then a file is made.
///
/// # Errors
/// What the disk answered. The spare file is then out of the pool; what is left of it in the segment's place is found by whoever
/// prepares that segment again.
pub async fn reuse<D: Disk>(
    disk: &D,
    config: &CheckedConfig,
    spares: &Spares,
    syncs: &Syncs,
    header: &SegmentHeader,
) -> Result<Option<File>, DiskError> {
    let Some(spare) = spares.take(header.size) else { return Ok(None) };
    let pool = recycle::pool(disk).await.inspect_err(|_| spares.put_back(spare))?;
    let root = disk.root();
    let name = layout::directory_name(&header.segment);
    match transfer::rename_to(disk, (&pool, &layout::uid_directory_name(spare.uid)), (&root, &name)).await {
        Ok(()) => {}
        Err(error) if [Errno::NOTEMPTY, Errno::EXIST].contains(&error.errno) => {
            spares.put_back(spare);
            return Ok(None);
        }
        Err(error) if error.is_absent() => {
            tracing::warn!(uid = %spare.uid, "a spare file is gone");
            return Ok(None);
        }
        Err(error) => {
            spares.put_back(spare);
            return Err(error);
        }
    }
    let directory = transfer::open_directory(disk, &root, &name).await?;
    let file_name = layout::data_file_name(Generation(0));
    let file = transfer::open(disk, &directory, &file_name, OpenFile::Existing, Access::Auto).await?;
    let found = survey::read_header(disk, &file).await?;
    if found.ok().and_then(|found| recycle::spare_of(&found, header.store, &file)) != Some(spare) {
        tracing::warn!(uid = %spare.uid, "a spare file is not what its name says");
        return Ok(None);
    }
    recycle::write_header(disk, &file, header).await?;
    // Without these two the directory could be back in the pool after a power cut, under a record that was acknowledged.
    if !sabotaged!(config, SkipDirectorySync) {
        syncs.root.sync(disk, &root).await?;
        syncs.pool.sync(disk, &pool).await?;
    }
    spares.note_reused();
    Ok(Some(file))
}
