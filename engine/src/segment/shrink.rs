//! Shrinking: a segment that was sealed far from full gives back what it does not use. Index and footer stand at the new end first;
//! the file is cut in small steps, since a device that discards what is cut stalls everybody else's writes meanwhile.

use super::closed::Closed;
use super::seal;
use crate::format::index;
use std::time::Duration;
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, transfer};

/// How much is cut at once, in bytes, and how long the file rests after it.
const STEP_BYTES: u64 = 2 << 20;
const PAUSE: Duration = Duration::from_millis(2);

/// The size to which a segment is worth shrinking: at most half of what it has. `index_entries` is how many its index holds.
#[must_use]
pub fn shrunk_size(size: u64, data_end: Position, index_entries: usize) -> Option<u64> {
    let data = data_end.block_ceiling(BLOCK).0;
    let index = (index_entries * index::INDEX_ENTRY_BYTES).next_multiple_of(BLOCK) as u64;
    let needed = data + index + BLOCK as u64;
    (needed <= size / 2).then_some(needed)
}

/// Writes index and footer where they stand in a file of `size` bytes. The old ones stay: the file is valid at both sizes.
///
/// # Errors
/// What the disk answered; the segment is as it was.
pub async fn prepare<D: Disk>(disk: &D, file: &File, closed: &Closed, size: u64) -> Result<(), DiskError> {
    let found = closed.survey(disk, file.clone()).await?;
    let footer = closed.footer(&found, closed.sealed_at_ms);
    seal::seal(disk, file, size, &found.index, footer).await
}

/// Cuts a file down to `size`, a step at a time.
///
/// # Errors
/// What the disk answered. What is left over does no harm.
pub async fn cut<D: Disk>(disk: &D, file: &File, mut from: u64, size: u64) -> Result<(), DiskError> {
    while from > size {
        from = from.saturating_sub(STEP_BYTES).max(size);
        transfer::truncate(disk, file, from).await?;
        transfer::sleep(disk, PAUSE).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_segment_that_is_at_most_half_full_is_shrunk() {
        let block = BLOCK as u64;
        assert_eq!(shrunk_size(64 << 20, Position(5_000), 1), Some(4 * block));
        assert_eq!(shrunk_size(8 * block, Position(2 * block), 1), Some(4 * block));
        assert_eq!(shrunk_size(8 * block, Position(2 * block + 1), 1), None);
        assert_eq!(shrunk_size(64 << 20, Position(64 << 19), 1), None);
    }
}
