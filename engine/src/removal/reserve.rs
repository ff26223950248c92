//! The reserve: blocks that are allocated and hold nothing. Removal gives them back when even it is refused for want of room, and makes
//! them its own again when there is some.

use crate::layout;
use strandline_disk::{Access, Disk, DiskError, File, Name, OpenFile, transfer};

/// The reserve of a store.
#[derive(Debug)]
pub(super) struct Reserve {
    /// Its size in bytes; 0 is none.
    bytes: u64,
    /// It is there as far as is known: it can be spent.
    there: bool,
}

impl Reserve {
    /// One of so many bytes, of which nothing is known yet.
    pub(super) fn new(bytes: u64) -> Reserve {
        Reserve { bytes, there: false }
    }

    /// Whether it should be made.
    pub(super) fn is_missing(&self) -> bool {
        self.bytes > 0 && !self.there
    }

    /// Finds what is there, and takes it for the reserve when it is whole. Without a reserve one that was left is removed.
    ///
    /// # Errors
    /// What the disk answered.
    pub(super) async fn find<D: Disk>(&mut self, disk: &D) -> Result<(), DiskError> {
        match open(disk).await? {
            Some(_) if self.bytes == 0 => {
                transfer::unlink(disk, &disk.root(), &name()).await?;
                transfer::sync_directory(disk, &disk.root()).await
            }
            found => {
                self.there = found.is_some_and(|file| file.length() == self.bytes);
                Ok(())
            }
        }
    }

    /// Makes it: allocated whole, and durable.
    ///
    /// # Errors
    /// What the disk answered. What had been allocated of it is given back.
    pub(super) async fn make<D: Disk>(&mut self, disk: &D) -> Result<(), DiskError> {
        let root = disk.root();
        let file = match open(disk).await? {
            Some(file) => file,
            None => transfer::open(disk, &root, &name(), OpenFile::New, Access::Buffered).await?,
        };
        // The file system makes all of it or, when it has no room, may leave a part.
        transfer::truncate(disk, &file, 0).await?;
        if let Err(error) = transfer::allocate(disk, &file, self.bytes).await {
            transfer::truncate(disk, &file, 0).await?;
            return Err(error);
        }
        transfer::sync(disk, &file).await?;
        transfer::sync_directory(disk, &root).await?;
        self.there = true;
        Ok(())
    }

    /// Gives its blocks back to the file system. False when there are none.
    ///
    /// # Errors
    /// What the disk answered.
    pub(super) async fn spend<D: Disk>(&mut self, disk: &D) -> Result<bool, DiskError> {
        if !std::mem::take(&mut self.there) {
            return Ok(false);
        }
        let Some(file) = open(disk).await? else { return Ok(false) };
        transfer::truncate(disk, &file, 0).await?;
        // Freed blocks can be used only when the journal has committed that they are free.
        transfer::sync(disk, &file).await?;
        Ok(true)
    }
}

async fn open<D: Disk>(disk: &D) -> Result<Option<File>, DiskError> {
    match transfer::open(disk, &disk.root(), &name(), OpenFile::Existing, Access::Buffered).await {
        Err(error) if error.is_absent() => Ok(None),
        opened => opened.map(Some),
    }
}

fn name() -> Name {
    Name::new(layout::RESERVE_FILE).expect("a plain name")
}
