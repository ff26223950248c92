//! The two copies: files, regions and whole writes to both. Knows nothing of edits.

use crate::format::manifest::RegionHeader;
use crate::id::StoreId;
use futures_util::future::join;
use strandline_disk::{BLOCK, Buffer, Disk, DiskError, File, Position, transfer};

/// The largest piece that is written or read at once, in bytes.
const PIECE: usize = 256 << 10;

/// Both manifest files, open.
#[derive(Clone, Debug)]
pub struct Copies {
    files: [File; 2],
    region_bytes: u64,
}

impl Copies {
    /// Takes two open files with two regions of `region_bytes` each.
    #[must_use]
    pub fn new(files: [File; 2], region_bytes: u64) -> Copies {
        Copies { files, region_bytes }
    }

    /// Bytes of one region.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        self.region_bytes
    }

    fn file(&self, copy: usize) -> &File {
        let [a, b] = &self.files;
        if copy == 0 { a } else { b }
    }

    /// Where the region of `sequence` starts. Even sequences live in the first half, odd ones in the second.
    fn region(&self, sequence: u64) -> Position {
        Position((sequence % 2) * self.region_bytes)
    }

    /// Writes a laid buffer durably to both copies, at `at` in the region of `sequence`; gives the first buffer back.
    ///
    /// # Errors
    /// The first copy that failed. The other may hold the bytes.
    pub async fn write_durably<D: Disk>(
        &self,
        disk: &D,
        sequence: u64,
        at: Position,
        buffer: Buffer,
    ) -> (Buffer, Result<(), DiskError>) {
        let position = self.region(sequence).plus(at.0 as usize);
        // One buffer cannot be in two operations.
        let twin = transfer::buffer_of(disk, &buffer).await;
        let one = transfer::write(disk, &self.files[0], buffer, position, true);
        let two = transfer::write(disk, &self.files[1], twin, position, true);
        // Without durable writes here an acknowledged edit could vanish, and with it the segment that it names.
        let ((buffer, first), (_, second)) = join(one, two).await;
        (buffer, first.and(second))
    }

    /// Writes a whole new region to both copies: the frames first, synced, then the header that puts it in force.
    ///
    /// # Errors
    /// The first write or sync that failed; the old region is then still in force.
    pub async fn turn_page<D: Disk>(
        &self,
        disk: &D,
        store: StoreId,
        sequence: u64,
        frames: &[u8],
    ) -> Result<(), DiskError> {
        let start = self.region(sequence);
        for (number, piece) in frames.chunks(PIECE).enumerate() {
            let mut buffer = transfer::buffer_of(disk, piece).await;
            let at = start.plus(BLOCK + number * PIECE);
            for file in &self.files {
                let (back, result) = transfer::write(disk, file, buffer, at, false).await;
                result?;
                buffer = back;
            }
        }
        // Without these syncs the header below could be durable before the snapshot that it promises.
        transfer::sync(disk, &self.files[0]).await?;
        transfer::sync(disk, &self.files[1]).await?;
        let buffer =
            transfer::buffer_of(disk, &RegionHeader { store, sequence, region_bytes: self.region_bytes }.encode())
                .await;
        self.write_durably(disk, sequence, Position(0), buffer).await.1
    }

    /// Reads one region of one copy whole.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn read_region<D: Disk>(&self, disk: &D, copy: usize, half: u64) -> Result<Vec<u8>, DiskError> {
        let start = self.region(half);
        // A header says how long a region is; what is taken for it ahead is no more than the file has.
        let there = self.file(copy).length().saturating_sub(start.0);
        let mut bytes = Vec::with_capacity(self.region_bytes.min(there) as usize);
        while (bytes.len() as u64) < self.region_bytes {
            let want = PIECE.min(self.region_bytes as usize - bytes.len());
            let buffer = transfer::take_buffer(disk, want).await;
            let (buffer, result) = transfer::read(disk, self.file(copy), buffer, start.plus(bytes.len())).await;
            let got = result?;
            bytes.extend_from_slice(buffer.get(..got).unwrap_or_default());
            if got < want {
                break; // A truncated copy: what is missing does not verify.
            }
        }
        Ok(bytes)
    }

    /// Reads the first block of one region of one copy.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn read_header<D: Disk>(&self, disk: &D, copy: usize, half: u64) -> Result<Vec<u8>, DiskError> {
        let buffer = transfer::take_buffer(disk, BLOCK).await;
        let (buffer, result) = transfer::read(disk, self.file(copy), buffer, self.region(half)).await;
        Ok(buffer.get(..result?).unwrap_or_default().to_vec())
    }
}
