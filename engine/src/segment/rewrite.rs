//! Rewriting a sealed segment up to an offset: its batches, bound to a new file, with an index and a footer of their own.

use super::seal;
use super::survey;
use crate::format::batch::{BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX, verify_payload};
use crate::format::index::Index;
use crate::format::segment::{SegmentFooter, SegmentHeader};
use crate::id::{Offset, Uid};
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, transfer};

/// How much is laid before it is written, in bytes.
const PIECE: usize = 256 << 10;

/// Why a segment was not rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRewritten {
    /// The disk failed.
    Disk(DiskError),
    /// A batch that has to be kept does not verify.
    Damaged(Position),
}

impl From<DiskError> for NotRewritten {
    fn from(source: DiskError) -> NotRewritten {
        NotRewritten::Disk(source)
    }
}

/// Copies the batches of `from` that end at or before `end` into `to`, whose header is `header`, and seals it. Nothing of `to` is
/// durable before this answers; all of it is then, but for its name.
///
/// # Errors
/// [`NotRewritten`]; `from` is untouched.
pub async fn rewrite<D: Disk>(
    disk: &D,
    (from, uid): (&File, Uid),
    data_end: Position,
    (to, header): (&File, &SegmentHeader),
    end: Offset,
    sealed_at_ms: u64,
) -> Result<SegmentFooter, NotRewritten> {
    let mut copy = Copy {
        index: Index::new(),
        store_times_ms: (0, 0),
        laid: header.encode().to_vec(),
        written: Position(0),
        last: header.base,
    };
    let mut at = Position(BLOCK as u64);
    while at < data_end {
        let bytes = survey::read_window(disk, from, at, at.plus(HEADER_BYTES)).await?;
        let batch = BatchHeader::decode(&bytes, uid, at, PAYLOAD_BYTES_MAX).map_err(|_| NotRewritten::Damaged(at))?;
        if batch.end > end {
            break;
        }
        let next = at.plus(batch.total_length());
        if !batch.is_mark() {
            let payload_at = at.plus(HEADER_BYTES);
            let payload =
                survey::read_window(disk, from, payload_at, payload_at.plus(batch.payload_bytes as usize)).await?;
            if !verify_payload(&batch, &payload) {
                return Err(NotRewritten::Damaged(at));
            }
            copy.take(&batch, &payload, header.uid);
            copy.write(disk, to, PIECE).await?;
        }
        at = next;
    }
    let data_end = copy.end();
    copy.laid.resize(copy.laid.len().next_multiple_of(BLOCK), 0);
    copy.write(disk, to, BLOCK).await?;
    // Durable before the footer, which promises it.
    transfer::sync(disk, to).await?;
    let footer = SegmentFooter {
        uid: header.uid,
        base: header.base,
        end: copy.last,
        data_end,
        first_store_time_ms: copy.store_times_ms.0,
        last_store_time_ms: copy.store_times_ms.1,
        client_time_max_ms: copy.index.client_time_max_ms(),
        sealed_at_ms,
        index_at: Position(0),
        index_entries: 0,
        index_crc: 0,
    };
    seal::seal(disk, to, header.size, &copy.index, footer).await?;
    Ok(footer)
}

/// What was copied so far, and what of it is not written yet.
struct Copy {
    index: Index,
    store_times_ms: (u64, u64),
    laid: Vec<u8>,
    /// Where the first laid byte goes.
    written: Position,
    last: Offset,
}

impl Copy {
    fn end(&self) -> Position {
        self.written.plus(self.laid.len())
    }

    fn take(&mut self, batch: &BatchHeader, payload: &[u8], uid: Uid) {
        let at = self.end();
        self.laid.extend_from_slice(&batch.encode(uid, at));
        self.laid.extend_from_slice(payload);
        self.laid.resize(self.laid.len().next_multiple_of(crate::format::batch::ALIGN), 0);
        self.index.note(at, batch);
        if self.store_times_ms.0 == 0 {
            self.store_times_ms.0 = batch.store_time_ms;
        }
        self.store_times_ms.1 = batch.store_time_ms;
        self.last = batch.end;
    }

    /// Writes whole blocks once at least `least` bytes are laid.
    async fn write<D: Disk>(&mut self, disk: &D, to: &File, least: usize) -> Result<(), DiskError> {
        if self.laid.len() < least {
            return Ok(());
        }
        let whole = self.laid.len() - self.laid.len() % BLOCK;
        let mut done = 0;
        while done < whole {
            let length = (whole - done).min(PIECE).min(disk.pool().largest() / 4);
            let buffer = transfer::buffer_of(disk, self.laid.get(done..done + length).unwrap_or_default()).await;
            transfer::write(disk, to, buffer, self.written.plus(done), false).await.1?;
            done += length;
        }
        self.laid.drain(..whole);
        self.written = self.written.plus(whole);
        Ok(())
    }
}
