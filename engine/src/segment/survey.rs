//! The survey: what a segment's file really holds. Its batches, its end, what is damaged below it, what is torn past it.
//!
//! Reads only. Torn is not rot: bytes past the durable end may be anything after a crash, bytes below it may not. The batch that
//! fails to verify at offset 120 is rot when anything proves that offset 120 had been durable: a later batch within the look-ahead
//! whose `durable_to` is 121 or more, or a known end. Otherwise nothing at or after it was ever acknowledged, and it is torn.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::chain::Chain;
use crate::format::batch::{BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::format::block::BlockError;
use crate::format::index::Index;
use crate::format::scan::{self, Fed, FoundBatch, Scan, Stop};
use crate::format::segment::SegmentHeader;
use crate::id::{Cut, Offset, Uid};
use crate::segment::active::batch_limit;
use crate::segment::tail::Tail;
use futures_util::stream::{FuturesOrdered, StreamExt};
use strandline_disk::{BLOCK, Buffer, Disk, DiskError, File, Position, transfer};

/// How much is read at once while scanning, in bytes.
const PIECE: usize = 1 << 20;
/// How many pieces are read ahead.
const AHEAD: usize = 6;

/// What is known of a segment before it is surveyed.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The uid of its file: the batches of no other file verify.
    pub uid: Uid,
    /// Its first offset.
    pub base: Offset,
    /// One past its last offset, where something else proves it.
    pub end: Option<Offset>,
    /// Size of its file in bytes.
    pub size: u64,
    /// The most that may have been in flight past its durable end, in bytes.
    pub look_ahead: u64,
    /// Where its log was truncated last.
    pub cut: Option<Cut>,
}

/// A stretch below the end that does not verify. It stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it starts.
    pub position: Position,
    /// The first offset that cannot be read.
    pub from: Offset,
    /// The first offset after it.
    pub to: Offset,
    /// What does not verify.
    pub reason: String,
}

/// What lies past the end, and was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The position after its last byte that is not zero.
    pub end: Position,
    /// How many whole valid batches are in it.
    pub batches: usize,
}

/// What a file holds.
#[derive(Debug)]
pub struct Survey {
    /// Its batches, indexed.
    pub index: Index,
    /// How many batches verify, marks not counted.
    pub batches: u64,
    /// The position after the last batch.
    pub end: Position,
    /// One past the last offset.
    pub end_offset: Offset,
    /// Store times of the first and the last batch, 0 without one.
    pub store_times_ms: (u64, u64),
    /// The largest `durable_to` in it.
    pub durable_to: Offset,
    /// What does not verify below the end.
    pub damage: Vec<Damage>,
    /// What lies past the end, as far as anything may have been in flight.
    pub torn: Option<Torn>,
    /// Where the last batch ends that a truncation dropped and that still stands behind the end, however far.
    pub dropped_to: Option<Position>,
    /// The tail to go on with.
    pub tail: Tail,
}

/// Reads the header block. The outer error is the disk's.
///
/// # Errors
/// What the disk answered.
pub async fn read_header<D: Disk>(disk: &D, file: &File) -> Result<Result<SegmentHeader, BlockError>, DiskError> {
    Ok(SegmentHeader::decode(&read_first_block(disk, file).await?))
}

/// Reads the first block; what a shorter file lacks is zero.
///
/// # Errors
/// What the disk answered.
pub async fn read_first_block<D: Disk>(disk: &D, file: &File) -> Result<Buffer, DiskError> {
    let buffer = transfer::take_buffer(disk, BLOCK).await;
    let (mut buffer, result) = transfer::read(disk, file, buffer, Position(0)).await;
    let got = result?;
    if let Some(missing) = buffer.get_mut(got..) {
        missing.fill(0);
    }
    Ok(buffer)
}

/// The first batch of a file that verifies with its position, and the largest `durable_to` within its look-ahead; marks count too.
///
/// # Errors
/// What the disk answered.
pub async fn first_batch<D: Disk>(
    disk: &D,
    file: &File,
    uid: Uid,
    look_ahead: u64,
) -> Result<Option<(Position, BatchHeader, Offset)>, DiskError> {
    let start = Position(BLOCK as u64);
    let window = read_window(disk, file, start, start.plus(look_ahead as usize)).await?;
    let found = scan::find_batches(&window, start, uid, PAYLOAD_BYTES_MAX);
    let mut whole = found.iter().filter(|found| found.payload_ok);
    let Some(first) = whole.clone().next() else { return Ok(None) };
    let durable_to = whole.by_ref().map(|found| found.header.durable_to).max().unwrap_or_default();
    Ok(Some((first.position, first.header, durable_to)))
}

/// Reads the batches of a file from front to end.
///
/// # Errors
/// What the disk answered.
pub async fn survey<D: Disk>(disk: &D, file: &File, expected: &Expected) -> Result<Survey, DiskError> {
    let mut chain = Chain::new(expected);
    let end = loop {
        let stop = scan_chain(disk, file, expected, &mut chain).await?;
        if expected.end == Some(chain.next) {
            break stop.at;
        }
        let later = find_later(disk, file, expected, &chain, stop.at).await?;
        if !chain.step_over(&stop, &later) {
            break stop.at;
        }
    };
    let window = read_window(disk, file, end, window_end(expected, end)).await?;
    let torn = scan::last_nonzero(&window).map(|last| Torn {
        end: end.plus(last.saturating_add(1)),
        batches: scan::find_batches(&window, end, expected.uid, PAYLOAD_BYTES_MAX)
            .iter()
            .filter(|found| found.payload_ok)
            .count(),
    });
    let dropped_to = match chain.may_have_dropped() {
        true => last_batch_end(disk, file, expected, end).await?,
        false => None,
    };
    let block = read_window(disk, file, end.block_floor(BLOCK), end).await?;
    let tail = Tail::from_block(end, &block);
    Ok(Survey {
        index: chain.index,
        batches: chain.batches,
        end,
        end_offset: chain.next,
        store_times_ms: chain.store_times_ms,
        durable_to: chain.durable_to,
        damage: chain.damage,
        torn,
        dropped_to,
        tail,
    })
}

/// Looks for batches past `at`: as far as anything may have been in flight, and, where the end is known to be further on, until
/// some are found or the file ends. Windows overlap by half, so that no batch is cut by both.
async fn find_later<D: Disk>(
    disk: &D,
    file: &File,
    expected: &Expected,
    chain: &Chain,
    at: Position,
) -> Result<Vec<FoundBatch>, DiskError> {
    let goes_on = chain.known_end().is_some();
    // Less than a block would be no way at all.
    let step = (expected.look_ahead as usize).max(BLOCK);
    let mut from = at;
    loop {
        let to = window_end(expected, from.plus(step));
        let to = if goes_on { to } else { window_end(expected, from) };
        let window = read_window(disk, file, from, to).await?;
        let found = scan::find_batches(&window, from, expected.uid, PAYLOAD_BYTES_MAX);
        // The file ends in it, whatever is said of its size: what its handle knows of that may be old.
        let ends = (window.len() as u64) < to.since(from);
        let last = !goes_on || ends || to >= Position(expected.size);
        if last || found.iter().any(|found| found.payload_ok && found.position > at) {
            return Ok(found);
        }
        from = from.plus(step).block_floor(BLOCK);
    }
}

/// Where the last batch of this file that stands at or behind `from` ends, as far as the file goes. Their payloads are not looked at: a
/// header alone is enough to be cleared.
async fn last_batch_end<D: Disk>(
    disk: &D,
    file: &File,
    expected: &Expected,
    from: Position,
) -> Result<Option<Position>, DiskError> {
    let size = Position(expected.size);
    let (mut at, mut last) = (from, None);
    while at < size {
        let to = at.plus(PIECE).min(size);
        let window = read_window(disk, file, at, to).await?;
        let found = scan::find_batches(&window, at, expected.uid, PAYLOAD_BYTES_MAX);
        last = found.last().map(|found| found.position.plus(found.header.total_length()).min(size)).or(last);
        if to == size || (window.len() as u64) < to.since(at) {
            break;
        }
        // Windows overlap, so that no header is cut by both.
        at = Position(to.0.saturating_sub(HEADER_BYTES as u64));
    }
    Ok(last)
}

/// How far past `at` anything may have been in flight.
fn window_end(expected: &Expected, at: Position) -> Position {
    at.plus(expected.look_ahead as usize).min(Position(expected.size)).max(at)
}

/// How far batches may stand in a file. One whose end is known may be sealed and shrunk: then it has room for its own index, and not for the
/// largest that there may be, and only its footer is certain to hold none.
fn scan_limit(expected: &Expected) -> Position {
    match expected.end {
        Some(_) => Position(expected.size.saturating_sub(BLOCK as u64)),
        None => batch_limit(expected.size).plus(HEADER_BYTES),
    }
}

/// Scans from where the chain stands until a batch does not verify or does not follow.
async fn scan_chain<D: Disk>(disk: &D, file: &File, expected: &Expected, chain: &mut Chain) -> Result<Stop, DiskError> {
    let limit = scan_limit(expected);
    let start = chain.position;
    let mut scan = Scan::new(expected.uid, start, PAYLOAD_BYTES_MAX);
    // Read-ahead takes at most half of the arena.
    let piece = PIECE.min(disk.pool().largest() / (2 * AHEAD)).next_multiple_of(BLOCK);
    let mut pieces = FuturesOrdered::new();
    let mut started = false;
    let mut next = start.block_floor(BLOCK);
    let mut skip = start.since(next) as usize;
    loop {
        while pieces.len() < AHEAD && next < limit {
            let want = piece.min(limit.since(next) as usize).next_multiple_of(BLOCK);
            // In the order of the pieces: nobody holds a later piece while waiting for the first.
            let buffer = match disk.pool().take(want) {
                Some(buffer) => buffer,
                None if pieces.is_empty() => transfer::take_buffer(disk, want).await,
                None => break,
            };
            pieces.push_back(transfer::begin(transfer::read(disk, file, buffer, next)));
            started = true;
            next = next.plus(piece);
        }
        if std::mem::take(&mut started) {
            // While the store opens, the disk works on while the pieces that are here are looked at.
            transfer::submit().await;
        }
        let Some((buffer, result)) = pieces.next().await else {
            return Ok(scan.finish());
        };
        let got = result?;
        let whole = got == buffer.len();
        let fresh = buffer.get(skip..got).unwrap_or_default();
        skip = 0;
        if let Fed::Stopped(stop) = scan.feed(fresh, &mut |position, header| chain.take(position, header)) {
            return Ok(stop);
        }
        if !whole {
            return Ok(scan.finish()); // The file ends here.
        }
    }
}

/// Reads `from..to`, in whole blocks underneath. What the file does not have of its last block reads as zeros; what lies behind that is
/// left out, since `to` may come from a disk and be anything.
///
/// # Errors
/// What the disk answered.
pub async fn read_window<D: Disk>(disk: &D, file: &File, from: Position, to: Position) -> Result<Vec<u8>, DiskError> {
    let start = from.block_floor(BLOCK);
    let skip = from.since(start) as usize;
    let length = to.since(start) as usize;
    let there = file.length().saturating_sub(start.0) as usize;
    let mut bytes = Vec::with_capacity(length.min(there).saturating_add(2 * BLOCK));
    while bytes.len() < length {
        let piece = disk.pool().largest() / 4;
        let want = length.saturating_sub(bytes.len()).min(piece).next_multiple_of(BLOCK).min(piece);
        let buffer = transfer::take_buffer(disk, want).await;
        let (buffer, result) = transfer::read(disk, file, buffer, start.plus(bytes.len())).await;
        let got = result?;
        bytes.extend_from_slice(buffer.get(..got).unwrap_or_default());
        if got < want {
            bytes.resize(length.min(bytes.len().max(skip).next_multiple_of(BLOCK)), 0);
            break;
        }
    }
    bytes.truncate(length);
    bytes.drain(..skip);
    Ok(bytes)
}
