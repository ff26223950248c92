//! Sealing: the index behind the data, then the footer that promises it.

use crate::format::index::Index;
use crate::format::segment::SegmentFooter;
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, transfer};

/// How much of an index is written at once, in bytes.
const PIECE: usize = 256 << 10;

/// Writes index and footer. Doing it twice gives the same file.
///
/// # Errors
/// What the disk answered. The data is untouched.
pub async fn seal<D: Disk>(
    disk: &D,
    file: &File,
    size: u64,
    index: &Index,
    mut footer: SegmentFooter,
) -> Result<(), DiskError> {
    let bytes = index.encode();
    footer.index_at = footer.data_end.block_ceiling(BLOCK);
    footer.index_entries = index.entries().len() as u32;
    footer.index_crc = crate::format::checksum::crc32c(&bytes);
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        let buffer = transfer::buffer_of(disk, piece).await;
        // Durable before the footer, which promises the index; a footer without it would only cost a rebuild.
        transfer::write(disk, file, buffer, footer.index_at.plus(number * PIECE), true).await.1?;
    }
    let buffer = transfer::buffer_of(disk, &footer.encode()).await;
    // Durable before the manifest says `sealed`: a sealed segment is not looked at again when the store opens.
    transfer::write(disk, file, buffer, Position(size - BLOCK as u64), true).await.1
}
