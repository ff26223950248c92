//! Making a manifest, and reading it back after any crash.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::copies::Copies;
use super::page::{self, Unreadable};
use super::runtime::Manifest;
use super::state::State;
use crate::config::CheckedConfig;
use crate::error::OpenError;
use crate::format::block::BlockError;
use crate::format::manifest::RegionHeader;
use crate::id::StoreId;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, File, Name, OpenFile, Position, transfer};

/// The largest region that is believed, in bytes: half of the largest `manifest_bytes`.
const REGION_BYTES_MAX: u64 = 1 << 29;

/// The sequence of the page that a new manifest starts with.
const FIRST_SEQUENCE: u64 = 1;

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

/// Makes both copies, of full size and written whole, with the snapshot of a new store in force.
///
/// # Errors
/// What the disk answered.
pub async fn create<D: Disk>(
    disk: &D,
    directory: &Directory,
    config: &CheckedConfig,
    store: StoreId,
) -> Result<(), OpenError> {
    let [a, b] = COPIES;
    let files = [
        make_copy(disk, directory, a, config.manifest_bytes).await?,
        make_copy(disk, directory, b, config.manifest_bytes).await?,
    ];
    let copies = Copies::new(files, config.manifest_bytes / 2);
    let page = page::Page::snapshot(store, FIRST_SEQUENCE, &State::of_a_new_store());
    copies.turn_page(disk, store, FIRST_SEQUENCE, &page.bytes).await?;
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
        let mut buffer = transfer::take_buffer(disk, bytes.saturating_sub(position.0).min(128 << 10) as usize).await;
        buffer.fill(0);
        let length = buffer.len();
        transfer::write(disk, &file, buffer, position, false).await.1?;
        position = position.plus(length);
    }
    transfer::sync(disk, &file).await?;
    Ok(file)
}

#[expect(clippy::expect_used, reason = "the store's own names")]
fn copy_name(copy: &str) -> Name {
    Name::new(copy).expect("a copy's name is a plain one")
}

/// Reads the manifest of `store`. A copy that is missing or cut short is made again, after the other has been read.
///
/// # Errors
/// [`OpenError::ManifestLost`], [`OpenError::ManifestDamaged`], [`OpenError::ManifestHeadersDamaged`],
/// [`OpenError::ManifestContradiction`], or a disk error.
pub async fn load<D: Disk>(disk: &D, directory: &Directory, store: StoreId) -> Result<Loaded<D>, OpenError> {
    let mut damage = Vec::new();
    let [a, b] = COPIES;
    let found = [open_copy(disk, directory, a).await?, open_copy(disk, directory, b).await?];
    // While one is missing the other stands in for it; it is not read twice.
    let first = found.iter().flatten().next().ok_or(OpenError::ManifestLost)?.clone();
    let files = found.clone().map(|file| file.unwrap_or_else(|| first.clone()));
    let region_bytes = region_bytes(disk, &files, store).await?;
    let copies = Copies::new(files.clone(), region_bytes);
    let in_force = in_force(disk, &copies, store).await?;
    let sequence = in_force.iter().flatten().max().copied().ok_or(OpenError::ManifestLost)?;
    if has_lost_a_page(disk, &copies, store, sequence).await? {
        return Err(OpenError::ManifestHeadersDamaged { sequence: sequence.saturating_add(1) });
    }
    let mut regions = [Vec::new(), Vec::new()];
    for (copy, (region, newest)) in regions.iter_mut().zip(in_force).enumerate() {
        match (found.get(copy), newest, COPIES.get(copy)) {
            (Some(Some(_)), Some(newest), _) if newest == sequence => {
                *region = copies.read_region(disk, copy, sequence % 2).await?;
            }
            (Some(Some(_)), None, Some(name)) => {
                damage.push(format!("manifest/{name} has no page that verifies; the other copy was used"));
            }
            _ => {} // It is missing, or was behind when the process died in the middle of turning the page.
        }
    }
    let merged =
        page::merge(regions.each_ref().map(Vec::as_slice), store, sequence).map_err(|unreadable| match unreadable {
            Unreadable::Damaged(position) => OpenError::ManifestDamaged { position },
            Unreadable::Contradiction(text) => OpenError::ManifestContradiction(text),
        })?;
    damage.extend(merged.damage.iter().filter_map(|(copy, position)| {
        let name = COPIES.get(*copy)?;
        Some(format!("manifest/{name} is damaged at {position} of its region; the other copy was used"))
    }));
    let [found_a, found_b] = &found;
    let files = [
        whole_copy(disk, directory, a, found_a, region_bytes, &mut damage).await?,
        whole_copy(disk, directory, b, found_b, region_bytes, &mut damage).await?,
    ];
    let copies = Copies::new(files, region_bytes);
    Ok(Loaded { manifest: Manifest::new(disk.clone(), copies, store, sequence, merged.state), damage })
}

async fn open_copy<D: Disk>(disk: &D, directory: &Directory, copy: &str) -> Result<Option<File>, DiskError> {
    match transfer::open(disk, directory, &copy_name(copy), OpenFile::Existing, Access::Auto).await {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The copy as it was found, or made again where it is missing or shorter than its two regions. What the other copy says has been read
/// by now, and is written to both when the page is turned.
async fn whole_copy<D: Disk>(
    disk: &D,
    directory: &Directory,
    copy: &str,
    found: &Option<File>,
    region_bytes: u64,
    damage: &mut Vec<String>,
) -> Result<File, DiskError> {
    let bytes = region_bytes.saturating_mul(2);
    let what = match found {
        Some(file) if file.length() >= bytes => return Ok(file.clone()),
        Some(_) => "truncated",
        None => "missing",
    };
    damage.push(format!("manifest/{copy} is {what}; it is made again from the other copy"));
    let file = make_copy(disk, directory, copy, bytes).await?;
    transfer::sync_directory(disk, directory).await?;
    Ok(file)
}

/// How long a region is: the header at the front of a copy says so, once the first page was turned; before that the length of the files does.
async fn region_bytes<D: Disk>(disk: &D, files: &[File; 2], store: StoreId) -> Result<u64, DiskError> {
    let by_length = files.iter().map(File::length).max().unwrap_or_default() / 2;
    let copies = Copies::new(files.clone(), by_length);
    for copy in 0..2 {
        let block = copies.read_header(disk, copy, 0).await?;
        if let Ok(header) = RegionHeader::decode(&block)
            && header.store == store
            && header.region_bytes.is_multiple_of(BLOCK as u64)
            && header.region_bytes <= REGION_BYTES_MAX
        {
            return Ok(header.region_bytes);
        }
    }
    Ok(Position(by_length).block_floor(BLOCK).0)
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

/// Whether the page after `sequence` had been in force, and both of its headers are damaged now: going back to the page before it would
/// forget what was acknowledged since.
///
/// A process that dies while it turns the page leaves good frames without their header as well. Then the header of the page that the
/// frames overwrote still stands in front of them, in a copy that is whole; or zeros do, when that half was never used before.
async fn has_lost_a_page<D: Disk>(disk: &D, copies: &Copies, store: StoreId, sequence: u64) -> Result<bool, DiskError> {
    let half = sequence.saturating_add(1) % 2;
    for copy in 0..2 {
        match RegionHeader::decode(&copies.read_header(disk, copy, half).await?) {
            Ok(header) if header.store == store && header.sequence < sequence => return Ok(false),
            Err(BlockError::Empty) if sequence == FIRST_SEQUENCE => return Ok(false),
            _ => {}
        }
    }
    for copy in 0..2 {
        let region = copies.read_region(disk, copy, half).await?;
        if page::begins(&region, store, sequence.saturating_add(1)) {
            return Ok(true);
        }
    }
    Ok(false)
}
