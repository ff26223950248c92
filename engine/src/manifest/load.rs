//! Making a manifest, and reading it back after any crash.

use super::copies::Copies;
use super::page::{self, Unreadable};
use super::runtime::Manifest;
use super::state::State;
use crate::config::CheckedConfig;
use crate::error::OpenError;
use crate::format::manifest::RegionHeader;
use crate::id::StoreId;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, File, Name, OpenFile, Position, transfer};

/// The names of the copies.
const COPIES: [&str; 2] = ["a", "b"];

/// What reading a manifest gave.
#[derive(Debug)]
pub struct Loaded<D> {
    /// The manifest, not yet in use: its page must be turned before the first edit.
    pub manifest: Manifest<D>,
    /// What was found damaged and read from the other copy, a sentence each.
    pub damage: Vec<String>,
}

/// Makes both copies, of full size and written whole, with an empty snapshot in force.
///
/// # Errors
/// What the disk answered.
pub async fn create<D: Disk>(
    disk: &D,
    directory: &Directory,
    config: &CheckedConfig,
    store: StoreId,
) -> Result<(), OpenError> {
    let mut files = Vec::new();
    for copy in COPIES {
        files.push(make_copy(disk, directory, copy, config.manifest_bytes).await?);
    }
    let copies = Copies::new([files[0].clone(), files[1].clone()], config.manifest_bytes);
    let page = page::Page::snapshot(store, 1, &State::default());
    copies.turn_page(disk, store, 1, &page.bytes).await?;
    transfer::sync_directory(disk, directory).await?;
    Ok(())
}

/// Makes one copy: allocated and written, so that edits need no new blocks and no extent conversion.
async fn make_copy<D: Disk>(disk: &D, directory: &Directory, copy: &str, bytes: u64) -> Result<File, DiskError> {
    let name = copy_name(copy);
    match transfer::unlink(disk, directory, &name).await {
        Err(error) if !error.is_absent() => return Err(error),
        _ => {}
    }
    let file = transfer::open(disk, directory, &name, OpenFile::New, Access::Auto).await?;
    transfer::allocate(disk, &file, bytes).await?;
    let mut position = Position(0);
    while position.0 < bytes {
        let mut buffer = transfer::take_buffer(disk, (bytes - position.0).min(128 << 10) as usize).await;
        buffer.fill(0);
        let length = buffer.len();
        transfer::write(disk, &file, buffer, position, false).await.1?;
        position = position.plus(length);
    }
    transfer::sync(disk, &file).await?;
    Ok(file)
}

fn copy_name(copy: &str) -> Name {
    Name::new(copy).expect("a copy's name is a plain one")
}

/// Reads the manifest of `store`. A copy that is missing is made again from the other when the page is turned.
///
/// # Errors
/// [`OpenError::ManifestLost`], [`OpenError::ManifestDamaged`], [`OpenError::ManifestContradiction`], or a disk error.
pub async fn load<D: Disk>(
    disk: &D,
    directory: &Directory,
    config: &CheckedConfig,
    store: StoreId,
) -> Result<Loaded<D>, OpenError> {
    let mut damage = Vec::new();
    let mut files = Vec::new();
    for copy in COPIES {
        files.push(open_copy(disk, directory, copy, config.manifest_bytes, &mut damage).await?);
    }
    let bytes = files.iter().map(File::length).max().unwrap_or(config.manifest_bytes);
    let copies = Copies::new([files[0].clone(), files[1].clone()], bytes);
    let in_force = in_force(disk, &copies, store).await?;
    let sequence = in_force.iter().flatten().max().copied().ok_or(OpenError::ManifestLost)?;
    let mut regions = [Vec::new(), Vec::new()];
    for (copy, region) in regions.iter_mut().enumerate() {
        match in_force[copy] {
            Some(found) if found == sequence => *region = copies.read_region(disk, copy, sequence % 2).await?,
            Some(_) => {} // It was behind when the process died in the middle of turning the page.
            None => {
                damage.push(format!("manifest/{} has no page that verifies; the other copy was used", COPIES[copy]))
            }
        }
    }
    let merged = page::merge([&regions[0], &regions[1]], store, sequence).map_err(|unreadable| match unreadable {
        Unreadable::Damaged(position) => OpenError::ManifestDamaged { position },
        Unreadable::Contradiction(text) => OpenError::ManifestContradiction(text),
    })?;
    damage.extend(merged.damage.iter().map(|(copy, position)| {
        format!("manifest/{} is damaged at {position} of its region; the other copy was used", COPIES[*copy])
    }));
    Ok(Loaded { manifest: Manifest::new(disk.clone(), copies, store, sequence, merged.state), damage })
}

async fn open_copy<D: Disk>(
    disk: &D,
    directory: &Directory,
    copy: &str,
    bytes: u64,
    damage: &mut Vec<String>,
) -> Result<File, DiskError> {
    match transfer::open(disk, directory, &copy_name(copy), OpenFile::Existing, Access::Auto).await {
        Ok(file) if file.length() >= 4 * BLOCK as u64 => return Ok(file),
        Ok(_) => damage.push(format!("manifest/{copy} is truncated; it is made again from the other copy")),
        Err(error) if error.is_absent() => {
            damage.push(format!("manifest/{copy} is missing; it is made again from the other copy"));
        }
        Err(error) => return Err(error),
    }
    let file = make_copy(disk, directory, copy, bytes).await?;
    transfer::sync_directory(disk, directory).await?;
    Ok(file)
}

/// For each copy the larger sequence of its two regions that has a valid header.
async fn in_force<D: Disk>(disk: &D, copies: &Copies, store: StoreId) -> Result<[Option<u64>; 2], DiskError> {
    let mut in_force = [None, None];
    for (copy, newest) in in_force.iter_mut().enumerate() {
        for half in 0..2 {
            let block = copies.read_header(disk, copy, half).await?;
            let header = RegionHeader::decode(&block).ok().filter(|header| header.store == store);
            *newest = (*newest).max(header.map(|header| header.sequence).filter(|sequence| sequence % 2 == half));
        }
    }
    Ok(in_force)
}
