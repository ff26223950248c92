//! The two marker files that say that a directory is a store, and which. Made last, read first.

use crate::config::CheckedConfig;
use crate::error::OpenError;
use crate::format::block::{StoreFormat, StoreIdentity};
use crate::id::StoreId;
use crate::layout;
use crate::manifest::load;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, File, Name, OpenFile, Position, transfer};

/// The name under which the format marker is written before it is renamed into place.
const FORMAT_FILE_NEW: &str = "strandline.format.new";

/// Reads which store this is; makes a new one in a directory that holds nothing else.
///
/// # Errors
/// [`OpenError::NotAStore`], [`OpenError::Identity`], or a disk error.
pub async fn identify<D: Disk>(disk: &D, config: &CheckedConfig) -> Result<StoreId, OpenError> {
    let root = disk.root();
    let format_file = plain(layout::FORMAT_FILE);
    let file = match transfer::open(disk, &root, &format_file, OpenFile::Existing, Access::Buffered).await {
        Ok(file) => file,
        Err(error) if error.is_absent() => return create(disk, config).await,
        Err(error) => return Err(error.into()),
    };
    let block = read_block(disk, &file).await?;
    let format = StoreFormat::decode(&block)
        .map_err(|why| OpenError::Identity { file: layout::FORMAT_FILE, reason: why.to_string() })?;
    let refuse = |reason: String| OpenError::Identity { file: layout::ID_FILE, reason };
    let file = transfer::open(disk, &root, &plain(layout::ID_FILE), OpenFile::Existing, Access::Buffered).await?;
    let identity = StoreIdentity::decode(&read_block(disk, &file).await?).map_err(|why| refuse(why.to_string()))?;
    if identity.store != format.store {
        return Err(refuse(format!(
            "it names store {} and {} names {}",
            identity.store,
            layout::FORMAT_FILE,
            format.store
        )));
    }
    Ok(identity.store)
}

/// Makes a store. The format marker comes last, so a directory without it holds nothing that was ever acknowledged.
async fn create<D: Disk>(disk: &D, config: &CheckedConfig) -> Result<StoreId, OpenError> {
    let root = disk.root();
    let ours = [layout::ID_FILE, layout::PROBE_FILE, layout::MANIFEST_DIRECTORY, FORMAT_FILE_NEW, "lost+found"];
    if let Some(other) = disk.list(&root)?.iter().find(|entry| !ours.iter().any(|name| entry.name == **name)) {
        let entry = other.name.to_string_lossy().into_owned();
        return Err(OpenError::NotAStore { root: config.root.clone(), entry });
    }
    let store = StoreId(disk.random());
    // The file is written in place, for the lock is held on it.
    let file = open_or_make(disk, &root, layout::ID_FILE).await?;
    write_block(disk, &file, &StoreIdentity { store }.encode()).await?;
    let manifest = plain(layout::MANIFEST_DIRECTORY);
    match transfer::create_directory(disk, &root, &manifest).await {
        Err(error) if error.errno != strandline_disk::Errno::EXIST => return Err(error.into()),
        _ => {}
    }
    let directory = transfer::open_directory(disk, &root, &manifest).await?;
    load::create(disk, &directory, config, store).await?;
    // Durable before the marker promises that they are there.
    transfer::sync_directory(disk, &root).await?;
    let file = open_or_make(disk, &root, FORMAT_FILE_NEW).await?;
    let format = StoreFormat { store, release: env!("CARGO_PKG_VERSION").to_owned() };
    write_block(disk, &file, &format.encode()).await?;
    transfer::rename(disk, &root, &plain(FORMAT_FILE_NEW), &plain(layout::FORMAT_FILE)).await?;
    // Without this the whole store could vanish behind records that were acknowledged.
    transfer::sync_directory(disk, &root).await?;
    Ok(store)
}

async fn open_or_make<D: Disk>(disk: &D, root: &Directory, name: &str) -> Result<File, DiskError> {
    match transfer::open(disk, root, &plain(name), OpenFile::Existing, Access::Buffered).await {
        Err(error) if error.is_absent() => {
            transfer::open(disk, root, &plain(name), OpenFile::New, Access::Buffered).await
        }
        opened => opened,
    }
}

async fn read_block<D: Disk>(disk: &D, file: &File) -> Result<Vec<u8>, DiskError> {
    let buffer = transfer::take_buffer(disk, BLOCK).await;
    let (buffer, result) = transfer::read(disk, file, buffer, Position(0)).await;
    Ok(buffer.get(..result?).unwrap_or_default().to_vec())
}

async fn write_block<D: Disk>(disk: &D, file: &File, block: &[u8; BLOCK]) -> Result<(), DiskError> {
    let buffer = transfer::buffer_of(disk, block).await;
    transfer::write(disk, file, buffer, Position(0), false).await.1?;
    // The block and the file's length, before anything refers to it.
    transfer::sync(disk, file).await
}

#[expect(clippy::expect_used, reason = "the store's own names")]
fn plain(name: &str) -> Name {
    Name::new(name).expect("the store's own names are plain")
}
