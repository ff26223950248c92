//! Filling: a file for new segments is made ahead, in the pool, while appends do not need the disk.
//!
//! A commit that meets a burst of zeros waits for all of it. So bursts are rare: one comes after so many commits that no more than one in a
//! thousand meets one, or while there are none. A crash on the way leaves a directory in the pool that says itself that it holds nothing.

use super::recycle;
use super::release::Doomed;
use super::spares::Spare;
use crate::id::{Generation, SegmentId, StoreId, Uid};
use crate::layout;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, File, OpenFile, Position, transfer};

/// How many commits there should be for one burst.
const COMMITS_A_BURST: u64 = 1_000;
/// The largest burst, in bytes, and what of it goes in one write.
const BURST_BYTES: u64 = 16 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// A file on its way into the pool. Room for it was taken.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) spare: Spare,
    segment: SegmentId,
    pool: Directory,
    directory: Directory,
    file: File,
    /// All in front of this is written.
    position: Position,
    /// The drive writes the zeros by itself, and what it has not written is not allocated.
    zeroes: bool,
    /// Commits that had been counted at the last burst, and at the last look.
    at_burst: u64,
    at_look: u64,
}

/// Which file is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its size in bytes.
    pub(super) size: u64,
    /// A segment that would have liked to have one. The header names it, and it means nothing.
    pub(super) segment: SegmentId,
}

impl Filling {
    /// Makes the directory and the file, with nothing in it.
    ///
    /// # Errors
    /// What the disk answered. What was made of it is taken back, as far as that goes.
    pub(super) async fn begin<D: Disk>(disk: &D, wanted: Wanted, commits: u64) -> Result<Filling, DiskError> {
        let pool = recycle::pool(disk).await?;
        let uid = Uid(disk.random());
        let begun = begin(disk, &pool, uid, wanted.size).await;
        if begun.is_err() {
            take_back(disk, &pool, uid).await;
        }
        let ((directory, file), position) = (begun?, Position(0));
        let Wanted { size, segment } = wanted;
        let (spare, zeroes) = (Spare { size, uid }, disk.capabilities().can_write_zeroes());
        Ok(Filling { spare, segment, pool, directory, file, position, zeroes, at_burst: commits, at_look: commits })
    }

    /// Whether a burst disturbs nobody, or so few that it may be: with so many commits counted by now.
    pub(super) fn may_burst(&mut self, commits: u64) -> bool {
        let is_quiet = std::mem::replace(&mut self.at_look, commits) == commits;
        let may = is_quiet || commits.saturating_sub(self.at_burst) >= COMMITS_A_BURST;
        if may {
            self.at_burst = commits;
        }
        may
    }

    /// Writes a burst of zeros. True when there are no more to write.
    ///
    /// # Errors
    /// What the disk answered.
    pub(super) async fn burst<D: Disk>(&mut self, disk: &D) -> Result<bool, DiskError> {
        let end = Position(self.spare.size.min(self.position.0 + BURST_BYTES));
        if self.zeroes {
            // The drive writes them by itself, and a commit waits for it all the same.
            transfer::write_zeroes(disk, &self.file, self.position, end.since(self.position)).await?;
            self.position = end;
            return Ok(self.position.0 >= self.spare.size);
        }
        let at_once = (disk.pool().largest() / PIECE_BYTES / 2).max(1);
        let mut pieces = FuturesUnordered::new();
        let mut result = Ok(());
        while self.position < end || !pieces.is_empty() {
            if self.position < end && pieces.len() < at_once && result.is_ok() {
                let length = (end.since(self.position) as usize).min(PIECE_BYTES).min(disk.pool().largest() / 2);
                let mut buffer = transfer::take_buffer(disk, length).await;
                buffer.fill(0);
                pieces.push(transfer::write(disk, &self.file, buffer, self.position, false));
                self.position = self.position.plus(length);
                continue;
            }
            match pieces.next().await {
                Some((_, written)) => result = result.and(written),
                None => break,
            }
        }
        result.map(|()| self.position.0 >= self.spare.size)
    }

    /// Makes it a spare file, durably. The header comes last: it says that every block has been written, and synced, and that the file is
    /// durable in its directory. A later process takes it for a spare one and looks no further.
    ///
    /// # Errors
    /// What the disk answered.
    pub(super) async fn finish<D: Disk>(&self, disk: &D, store: StoreId) -> Result<Spare, DiskError> {
        transfer::sync(disk, &self.file).await?;
        transfer::sync_directory(disk, &self.directory).await?;
        let header = recycle::spare_header(store, &self.segment, self.spare);
        recycle::write_header(disk, &self.file, &header).await?;
        transfer::sync_directory(disk, &self.pool).await?;
        Ok(self.spare)
    }

    /// What was made of it, to be removed as anything else is: a piece at a time.
    pub(super) fn abandon(self) -> Doomed {
        let Filling { spare, pool, directory, file, position, zeroes, .. } = self;
        let name = layout::uid_directory_name(spare.uid);
        let bytes = if zeroes { position.0 } else { spare.size };
        Doomed::new(pool, directory, (name, Some(layout::data_file_name(Generation(0)))), Some(file)).with_length(bytes)
    }
}

async fn begin<D: Disk>(disk: &D, pool: &Directory, uid: Uid, size: u64) -> Result<(Directory, File), DiskError> {
    let name = layout::uid_directory_name(uid);
    transfer::create_directory(disk, pool, &name).await?;
    let directory = transfer::open_directory(disk, pool, &name).await?;
    let file_name = layout::data_file_name(Generation(0));
    let file = transfer::open(disk, &directory, &file_name, OpenFile::New, Access::Auto).await?;
    if !disk.capabilities().can_write_zeroes() {
        transfer::allocate(disk, &file, size).await?;
    }
    Ok((directory, file))
}

/// Removes what was made below the name of `uid`. What is left is removed by the next open.
async fn take_back<D: Disk>(disk: &D, pool: &Directory, uid: Uid) {
    let name = layout::uid_directory_name(uid);
    if let Ok(directory) = transfer::open_directory(disk, pool, &name).await {
        let _ = transfer::unlink(disk, &directory, &layout::data_file_name(Generation(0))).await;
        let _ = transfer::remove_directory(disk, pool, &name).await;
    }
}

const _: () = assert!(PIECE_BYTES.is_multiple_of(BLOCK));
