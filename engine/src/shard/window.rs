//! Window: a stretch of one segment, read in one go, and the batches that are found in it.
//!
//! Headers are looked at here, payloads are not: their checksums are verified by whoever takes the answer. A large window is a piece
//! of the arena, which the reader holds as it is; only when too much of the arena is held, or little is read, is it copied.

use super::answer::{RawAnswer, Unverified};
use crate::batch::{ReadBytes, ReadMemory, StoredBatch};
use crate::error::ReadError;
use crate::format::batch::{BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::format::scan::find_batches;
use crate::id::{Offset, SegmentId, Uid};
use futures_util::stream::{FuturesOrdered, StreamExt};
use std::sync::Arc;
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, transfer};

/// How much is read at once where a window is copied, in bytes. Pieces of one window are in flight together.
const PIECE: usize = 256 << 10;

/// Windows of fewer bytes are copied: that costs little, and a caller who keeps one batch of a window keeps all of it.
const LENT_BYTES_MIN: usize = 64 << 10;

/// What a read of one segment needs, owned.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) segment: SegmentId,
    pub(super) uid: Uid,
    pub(super) file: File,
    /// Where to start: the wanted batch stands here or later.
    pub(super) from: Position,
    /// Nothing at or past it may be read.
    pub(super) to: Position,
    /// Where to stop, when a batch is known to begin there.
    pub(super) until: Option<Position>,
    /// One past the last offset before `to`.
    pub(super) end: Offset,
    pub(super) offset: Offset,
    pub(super) bytes: usize,
    pub(super) memory: ReadMemory,
}

/// Bytes that stand at `Plan::from`.
struct Window {
    bytes: Arc<ReadBytes>,
    /// So many stand before it: disks read whole blocks.
    skip: usize,
}

impl Window {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(self.skip..).unwrap_or_default()
    }
}

/// What looking for batches in a window came to.
enum Found {
    /// Batches, the first of which holds the wanted offset.
    Batches(Vec<StoredBatch>),
    /// The wanted batch goes on past the window, or starts past it: so many bytes from `Plan::from` are needed.
    Wants(usize),
    /// Nothing that verifies stands where the offset should be.
    Damaged { position: Position, to: Offset, reason: String },
}

/// What stands behind a header that does not verify.
enum Behind {
    /// The wanted batch: only one before it is damaged.
    Wanted(Position),
    /// A later one, from this offset on, or nothing up to the end of the segment.
    Later(Offset),
    /// Nothing as far as the window goes.
    Unknown,
}

/// Up to where a window from `from` on for about `bytes` reaches. A piece of the arena is a power of two of blocks, so a large
/// window fills its piece rather than the next larger one by half.
pub(super) fn window_end(from: Position, bytes: usize) -> Position {
    let most = from.plus(bytes + 2 * BLOCK);
    if bytes < LENT_BYTES_MIN {
        return most;
    }
    let piece = bytes.div_ceil(BLOCK).next_power_of_two() * BLOCK;
    most.min(from.block_floor(BLOCK).plus(piece))
}

impl Plan {
    pub(super) async fn run<D: Disk>(self, disk: &D) -> RawAnswer {
        let mut to = self.until.unwrap_or_else(|| window_end(self.from, self.bytes)).min(self.to);
        loop {
            let window = match self.read_window(disk, to).await {
                Ok(window) => window,
                Err(source) => {
                    return Err(ReadError::Disk { segment: self.segment, position: self.from, source });
                }
            };
            match self.find(&window, to) {
                Found::Wants(bytes) => to = self.from.plus(bytes).min(self.to),
                Found::Batches(batches) => return Ok(Unverified::new(batches, self.segment, self.offset)),
                Found::Damaged { position, to, reason } => {
                    let from = self.offset;
                    return Err(ReadError::Corrupt { segment: self.segment, position, from, to, reason });
                }
            }
        }
    }

    /// Finds the wanted batches in a window that ends at `to`.
    fn find(&self, window: &Window, to: Position) -> Found {
        let bytes = window.bytes();
        // A window that is shorter than it should be ends at the end of the file, and nothing comes behind it.
        let cut = to < self.to && bytes.len() as u64 == to.since(self.from);
        let (mut batches, mut at, mut taken) = (Vec::new(), self.from, 0);
        while at < to {
            let start = at.since(self.from) as usize;
            let rest = bytes.get(start..).unwrap_or_default();
            if cut && rest.len() < HEADER_BYTES {
                break;
            }
            let header = match BatchHeader::decode(rest, self.uid, at, PAYLOAD_BYTES_MAX) {
                Ok(header) => header,
                Err(why) if batches.is_empty() => match self.behind(rest, at, cut) {
                    Behind::Wanted(position) => {
                        at = position;
                        continue;
                    }
                    Behind::Later(to) => return Found::Damaged { position: at, to, reason: why.to_string() },
                    Behind::Unknown => return Found::Wants(2 * bytes.len()),
                },
                Err(_) => break,
            };
            if header.end > self.offset && !header.is_mark() {
                let (is_first, length) = (batches.is_empty(), header.payload_bytes as usize);
                if is_first && header.first > self.offset {
                    let reason = "the batches before it are missing".to_owned();
                    return Found::Damaged { position: at, to: header.first, reason };
                }
                if !is_first && taken + length > self.bytes {
                    break;
                }
                if rest.len() < HEADER_BYTES + length {
                    if is_first && !cut {
                        let reason = "the file ends within it".to_owned();
                        return Found::Damaged { position: at, to: header.end, reason };
                    }
                    break;
                }
                let payload = window.skip + start + HEADER_BYTES;
                batches.push(StoredBatch::kept(at, header, window.bytes.clone(), payload..payload + length));
                taken += length;
            }
            at = at.plus(header.total_length());
        }
        match (batches.is_empty(), cut) {
            (false, _) => Found::Batches(batches),
            (true, true) => Found::Wants(self.wanted_bytes(bytes, at)),
            (true, false) => {
                Found::Damaged { position: at, to: self.end, reason: "the segment ends before it".to_owned() }
            }
        }
    }

    /// How many bytes from `self.from` on hold the batch at `at`, which the window cuts.
    fn wanted_bytes(&self, window: &[u8], at: Position) -> usize {
        let start = at.since(self.from) as usize;
        let rest = window.get(start..).unwrap_or_default();
        let length = match BatchHeader::decode(rest, self.uid, at, PAYLOAD_BYTES_MAX) {
            Ok(header) => header.total_length(),
            Err(_) => self.bytes,
        };
        (start + length).max(window.len()) + 2 * BLOCK
    }

    /// Looks behind a header that does not verify, at `at`, where the bytes `rest` stand.
    fn behind(&self, rest: &[u8], at: Position, cut: bool) -> Behind {
        let later = find_batches(rest, at, self.uid, PAYLOAD_BYTES_MAX);
        match later.iter().find(|found| found.header.end > self.offset && !found.header.is_mark()) {
            Some(found) if found.header.first <= self.offset => Behind::Wanted(found.position),
            Some(found) => Behind::Later(found.header.first),
            None if cut => Behind::Unknown,
            None => Behind::Later(self.end),
        }
    }

    /// Reads up to `to`, into a piece of the arena that the reader will hold where there is one.
    async fn read_window<D: Disk>(&self, disk: &D, to: Position) -> Result<Window, DiskError> {
        let start = self.from.block_floor(BLOCK);
        let (length, skip) = (to.since(start) as usize, self.from.since(start) as usize);
        let whole = length.next_multiple_of(BLOCK);
        let lent = if length >= LENT_BYTES_MIN { disk.pool().take_upper(whole) } else { None };
        let bytes = match lent {
            Some(buffer) => {
                let (mut buffer, result) = transfer::read(disk, &self.file, buffer, start).await;
                // The file may be shorter than it was: what is missing does not verify.
                buffer.set_length(result?.min(length));
                ReadBytes::from(buffer.share())
            }
            None => self.copy_window(disk, start, length).await?,
        };
        Ok(Window { bytes: Arc::new(bytes), skip })
    }

    /// Reads `length` bytes from `start` on into memory of the reader's own, with all pieces in flight together.
    async fn copy_window<D: Disk>(&self, disk: &D, start: Position, length: usize) -> Result<ReadBytes, DiskError> {
        let piece = PIECE.min(disk.pool().largest() / 8).next_multiple_of(BLOCK);
        let to = start.plus(length);
        let mut pieces = FuturesOrdered::new();
        let mut bytes = self.memory.take(length);
        let mut at = start;
        loop {
            while at < to {
                let want = piece.min(to.since(at) as usize).next_multiple_of(BLOCK);
                // Buffers are taken in the order of the pieces. Two reads that each held their later pieces and waited for their first
                // could fill the arena and wait for ever.
                let buffer = match disk.pool().take(want) {
                    Some(buffer) => buffer,
                    None if pieces.is_empty() => transfer::take_buffer(disk, want).await,
                    None => break,
                };
                pieces.push_back(transfer::read(disk, &self.file, buffer, at));
                at = at.plus(want);
            }
            let Some((buffer, result)) = pieces.next().await else { break };
            let got = result?;
            bytes.extend(buffer.get(..got).unwrap_or_default(), length);
            if got < buffer.len() {
                break; // The file is shorter than it was: what is missing does not verify.
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_window_fills_its_piece_of_the_arena_and_no_larger_one() {
        let reaches = |from: u64, bytes| window_end(Position(from), bytes).0;
        assert_eq!(reaches(4096 + 40, 1 << 20), 4096 + (1 << 20));
        assert_eq!(reaches(4096, (1 << 20) - 3 * 4096), 4096 + (1 << 20) - 4096);
        assert_eq!(reaches(4096 + 40, 1000), 4096 + 40 + 1000 + 8192, "little is copied, and may as well be whole");
    }
}
