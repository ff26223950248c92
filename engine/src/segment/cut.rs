//! Where a truncation cuts a file: at the start of the batch that holds the offset, since a batch is whole or absent.

use super::survey;
use crate::format::batch::{BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::id::{Offset, Uid};
use strandline_disk::{Disk, DiskError, File, Position};

/// Why no place to cut was found: what stands there does not verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCut {
    /// The disk failed.
    Disk(DiskError),
    /// A header does not verify.
    Damaged(Position),
}

impl From<DiskError> for NoCut {
    fn from(source: DiskError) -> NoCut {
        NoCut::Disk(source)
    }
}

/// The first offset of the batch that holds `offset`, or `offset` itself where a batch begins. Walks the headers from `from`, where a
/// batch at or before it stands, up to `to`.
///
/// # Errors
/// [`NoCut`].
pub async fn boundary<D: Disk>(
    disk: &D,
    file: &File,
    uid: Uid,
    (from, to): (Position, Position),
    offset: Offset,
) -> Result<Offset, NoCut> {
    let mut at = from;
    while at < to {
        let bytes = survey::read_window(disk, file, at, at.plus(HEADER_BYTES)).await?;
        let header = BatchHeader::decode(&bytes, uid, at, PAYLOAD_BYTES_MAX).map_err(|_| NoCut::Damaged(at))?;
        if header.end > offset {
            return Ok(header.first.min(offset));
        }
        at = at.plus(header.total_length());
    }
    Ok(offset)
}
