//! The checker: a function per promise of DESIGN.md section 5. Each looks at the model and at what was seen, and changes neither.

use super::files::Disk;
use super::model::{LogModel, Seen};
use super::violation::{Checked, broken, ensure};
use strandline::batch::StoredBatch;
use strandline::format::batch::{BatchHeader, PAYLOAD_BYTES_MAX, verify_payload};
use strandline::format::index::{INDEX_ENTRY_BYTES, Index};
use strandline::format::scan::find_batches;
use strandline::format::segment::{SegmentFooter, SegmentHeader, SegmentState};
use strandline::id::Uid;
use strandline::layout;
use strandline::manifest::state::Stage;
use strandline::{Offset, Receipt};
use strandline_disk::{BLOCK, Position};

/// How far a stamp may lie ahead of the clock before the log stamps true time again, in milliseconds.
const STAMP_AHEAD_MAX_MS: u64 = 10 * 60 * 1000;

/// Promise 1.
///
/// # Errors
/// The acknowledged batch that is not there.
pub fn acknowledged_is_readable(log: &LogModel, read: &[StoredBatch]) -> Checked {
    is_there(log, read, true, "a record acknowledged as durable is readable after any crash")
}

/// Promise 2.
///
/// # Errors
/// The batch that could be read and is gone.
pub fn what_was_read_stays_readable(log: &LogModel, read: &[StoredBatch]) -> Checked {
    is_there(log, read, false, "what was once read stays readable")
}

fn is_there(log: &LogModel, read: &[StoredBatch], acknowledged: bool, promise: &'static str) -> Checked {
    for (place, held) in log.held.iter().enumerate().filter(|(_, held)| held.acknowledged == acknowledged) {
        let same = read.get(place).is_some_and(|found| is_same(found, held.first, &held.sent.payload));
        ensure(same, promise, || {
            let found = read.get(place).map(|found| (found.first(), found.end(), found.payload().len()));
            let wanted = (held.first, held.end(), held.sent.payload.len());
            format!("log {} has {found:?} where batch {} = {wanted:?} must be", log.id, held.sent.serial)
        })?;
    }
    Ok(())
}

fn is_same(found: &StoredBatch, first: Offset, payload: &[u8]) -> bool {
    found.first() == first && found.payload() == payload
}

/// Promise 3: behind what must be there stands a prefix of what was sent next, without a gap, each batch whole.
///
/// # Errors
/// The first batch that stands where it must not.
pub fn exact_prefix_in_staged_order(log: &LogModel, read: &[StoredBatch]) -> Checked {
    const PROMISE: &str = "offsets are contiguous, batches are whole or absent, and what was dropped never returns";
    let mut next = log.end();
    for (place, found) in read.iter().skip(log.held.len()).enumerate() {
        let sent = log.waiting.get(place);
        let same = sent.is_some_and(|sent| is_same(found, next, &sent.payload));
        ensure(same, PROMISE, || {
            let wanted = sent.map(|sent| (sent.serial, sent.payload.len()));
            format!(
                "log {}: {} to {} ({} bytes) stands where {next} of {wanted:?} may be",
                log.id,
                found.first(),
                found.end(),
                found.payload().len()
            )
        })?;
        next = found.end();
    }
    Ok(())
}

/// Where a log starts and ends, its epoch and its fence are those before a change that was asked for, or those after it.
///
/// # Errors
/// What is seen, and what may be.
pub fn bounds_are_old_or_new(log: &LogModel, read: &[StoredBatch], seen: &Seen) -> Checked {
    let end = read.last().map_or(log.start, StoredBatch::end);
    let wanted = Seen { start: log.start, end, epoch: log.epoch, fence: log.fence };
    ensure(*seen == wanted, "a change that was answered stays, and one that was not is whole or absent", || {
        format!("log {}: {seen:?} is none of the states it may be in, one of which is {wanted:?}", log.id)
    })
}

/// A log that was acknowledged is there, unless it was asked to be deleted.
///
/// # Errors
/// Which log is not.
pub fn a_log_that_was_made_stays(log: &LogModel, may_be_deleted: bool) -> Checked {
    ensure(!log.made || may_be_deleted, "a log that was made stays", || {
        format!("log {} is not in the manifest", log.id)
    })
}

/// What was answered as written is there after the process died, with all before it.
///
/// # Errors
/// How much is missing.
pub fn what_was_written_outlives_the_process(log: &LogModel, read: &[StoredBatch]) -> Checked {
    let needed = log.held.len() + log.kept_by_kill;
    ensure(read.len() >= needed, "what was answered as written outlives the process", || {
        format!("log {} has {} batches, of which {needed} had been written", log.id, read.len())
    })
}

/// Promises 3 and 6: a receipt continues the offsets of what was sent before it, and comes after no failure.
///
/// # Errors
/// What is wrong with the receipt.
pub fn answered_in_order(log: &LogModel, serial: u64, receipt: &Receipt) -> Checked {
    ensure(!log.failed, "after a failed write nothing is acknowledged until the store is opened again", || {
        format!("log {}: batch {serial} was acknowledged behind a failure", log.id)
    })?;
    let sent = log.waiting.iter().find(|sent| sent.serial == serial);
    let (records, first) = match (sent, log.offset_of(serial)) {
        (Some(sent), Some(first)) => (sent.records, first),
        // One that is durable has made those before it durable, whose own answers come in the same turn.
        _ => match log.held.iter().find(|held| held.sent.serial == serial) {
            Some(held) => (held.sent.records, held.first),
            None => return broken("every answer is for what was asked", format!("log {}: batch {serial}", log.id)),
        },
    };
    let end = first.plus(records);
    ensure(receipt.first == first && receipt.end == end, "offsets are contiguous and never reused", || {
        format!("log {}: batch {serial} was given {} to {}, not {first} to {end}", log.id, receipt.first, receipt.end)
    })
}

/// A read past the durable end gives what was sent, in order, and nothing else.
///
/// # Errors
/// The batch that differs.
pub fn bytes_read_past_the_end_equal_bytes_sent(log: &LogModel, offset: Offset, read: &[StoredBatch]) -> Checked {
    const PROMISE: &str = "bytes read past the durable end equal bytes sent";
    let mut next = log.end();
    let mut known: Vec<(Offset, Offset, &[u8])> =
        log.held.iter().map(|held| (held.first, held.end(), &held.sent.payload[..])).collect();
    for sent in &log.waiting {
        known.push((next, next.plus(sent.records), &sent.payload));
        next = next.plus(sent.records);
    }
    let start = known.partition_point(|(_, end, _)| *end <= offset);
    for (place, found) in read.iter().enumerate() {
        let same = known.get(start + place).is_some_and(|(first, _, payload)| is_same(found, *first, payload));
        ensure(same, PROMISE, || format!("log {}: a read from {offset} gave {}", log.id, found.first()))?;
    }
    Ok(())
}

/// Promise 4, and never past what is durable: a read gives exactly what the model holds at its place.
///
/// # Errors
/// The batch that differs.
pub fn bytes_read_equal_bytes_appended(log: &LogModel, offset: Offset, read: &[StoredBatch]) -> Checked {
    const PROMISE: &str = "bytes read equal bytes appended";
    let start = log.held.partition_point(|held| held.end() <= offset);
    for (place, found) in read.iter().enumerate() {
        let held = log.held.get(start + place);
        ensure(held.is_some_and(|held| is_same(found, held.first, &held.sent.payload)), PROMISE, || {
            format!("log {}: a read from {offset} gave {} to {}", log.id, found.first(), found.end())
        })?;
        let records = found.records().count() as u64;
        ensure(records == found.end().since(found.first()), PROMISE, || {
            format!("log {}: {} has {records} records that can be decoded", log.id, found.first())
        })?;
    }
    Ok(())
}

/// Store times never go backwards within a log, but where a stamp lay far ahead of the clock.
///
/// # Errors
/// The two times.
pub fn store_times_never_go_backwards(read: &[StoredBatch]) -> Checked {
    for pair in read.windows(2) {
        let (earlier, later) = (pair[0].store_time_ms(), pair[1].store_time_ms());
        let kept = later >= earlier || earlier - later > STAMP_AHEAD_MAX_MS;
        ensure(kept, "store times never go backwards", || {
            format!("{later} ms of {} comes after {earlier} ms", pair[1].first())
        })?;
    }
    Ok(())
}

/// Promise 9: every file is one that the manifest explains, or stands in a directory that was reported as a stray.
///
/// # Errors
/// The file that nothing explains, or the segment without a file.
pub fn files_are_explained(disk: &Disk, strays: &[String]) -> Checked {
    const PROMISE: &str = "files on disk are those of the manifest and reported strays";
    for path in disk.paths() {
        let explained = disk.explains(path)
            || is_spare(disk, path)
            || is_on_its_way(disk, path)
            || strays.iter().any(|stray| path.starts_with(&format!("{stray}/")));
        ensure(explained, PROMISE, || format!("nothing explains {path}; strays are {strays:?}"))?;
    }
    for segment in disk.segments() {
        let there = disk.bytes(&segment.path).is_some();
        let gone = || {
            let released = &disk.state().released;
            format!("the manifest names {} and it is not there: {:?}, {released:?}", segment.path, segment.record)
        };
        ensure(there, PROMISE, gone)?;
    }
    Ok(())
}

/// Whether a file stands in the pool and says so itself.
fn is_spare(disk: &Disk, path: &str) -> bool {
    let uid = path.strip_prefix("spare/").and_then(|rest| rest.strip_suffix("/data.0"));
    let block = disk.bytes(path).and_then(|bytes| bytes.get(..BLOCK));
    let header = block.and_then(|block| SegmentHeader::decode(block).ok());
    uid.and_then(layout::uid_of_directory)
        .zip(header)
        .is_some_and(|(uid, header)| header.state == SegmentState::Spare && header.uid == uid)
}

/// Whether a file says itself that it is on its way into the pool, and the manifest knows that it was given up. A rewritten one has its first
/// name by then.
fn is_on_its_way(disk: &Disk, path: &str) -> bool {
    let block = disk.bytes(path).filter(|_| path.ends_with("/data.0")).and_then(|bytes| bytes.get(..BLOCK));
    let header = block.and_then(|block| SegmentHeader::decode(block).ok());
    header.filter(|header| header.state == SegmentState::Spare).is_some_and(|header| {
        let in_place = path.strip_suffix("/data.0") == Some(layout::directory_name(&header.segment).as_str());
        in_place && disk.state().released.values().any(|record| record.segment == header.segment)
    })
}

/// What was given up is removed in the end: nothing waits for that any more, and no sealed segment lies before the start of its log.
///
/// # Errors
/// What is left.
pub fn nothing_that_was_given_up_is_left(disk: &Disk) -> Checked {
    const PROMISE: &str = "what was given up is removed in the end";
    let released = &disk.state().released;
    ensure(released.is_empty(), PROMISE, || format!("{released:?}"))?;
    for segment in disk.segments() {
        let start = disk.state().logs[&segment.id.log].start;
        let lies_before = matches!(segment.record.stage, Stage::Sealed { closing, .. } if closing.end <= start);
        ensure(!lies_before, PROMISE, || format!("{} and the log starts at {start}", segment.path))?;
    }
    Ok(())
}

/// After a recovery nothing behind the end of a log verifies as a batch: what was dropped cannot return.
///
/// # Errors
/// The batch behind the end.
pub fn the_tail_is_dead(disk: &Disk) -> Checked {
    for segment in disk.segments().iter().filter(|segment| segment.is_last) {
        let Some(bytes) = disk.bytes(&segment.path) else { continue };
        let start = Position(BLOCK as u64);
        let end = match segment.record.stage {
            Stage::Live(_) => {
                walk(bytes, segment.record.uid).last().map_or(start, |(at, header)| at.plus(header.total_length()))
            }
            Stage::Prepared => start,
            Stage::Sealed { .. } | Stage::Fenced { .. } => continue,
        };
        let behind = bytes.get(end.0 as usize..).unwrap_or_default();
        let behind = find_batches(behind, end, segment.record.uid, PAYLOAD_BYTES_MAX);
        ensure(behind.is_empty(), "what recovery dropped never returns", || {
            format!("{} ends at {end} and batches verify behind it: {behind:?}", segment.path)
        })?;
    }
    Ok(())
}

/// The index that was written when a segment was sealed is what a scan of its data gives.
///
/// # Errors
/// The segment, and what differs.
pub fn indexes_equal_scans(disk: &Disk) -> Checked {
    const PROMISE: &str = "the index of a sealed segment equals what a scan finds";
    for segment in disk.segments() {
        let Stage::Sealed { opening, closing } = segment.record.stage else { continue };
        let Some(bytes) = disk.bytes(&segment.path) else { continue };
        let footer = match SegmentFooter::decode(footer_of(bytes, segment.record.size)) {
            Ok(footer) => footer,
            Err(why) => return broken(PROMISE, format!("{}: the footer does not verify: {why}", segment.path)),
        };
        let same = (footer.base, footer.end) == (opening.base, closing.end)
            && footer.logical_bytes() == closing.logical_bytes
            && footer.last_store_time_ms == closing.last_store_time_ms;
        ensure(same, PROMISE, || format!("{}: the footer says {footer:?}, the manifest {closing:?}", segment.path))?;
        let from = footer.index_at.0 as usize;
        let stored = &bytes[from..from + footer.index_entries as usize * INDEX_ENTRY_BYTES];
        let stored = Index::decode(stored, footer.index_entries, footer.index_crc);
        let mut scanned = Index::new();
        let mut end = Position(BLOCK as u64);
        for (at, header) in walk(bytes, segment.record.uid) {
            if !header.is_mark() {
                scanned.note(at, &header);
            }
            end = at.plus(header.total_length());
        }
        let equal = stored.as_ref().is_ok_and(|stored| stored.entries() == scanned.entries()) && end == footer.data_end;
        ensure(equal, PROMISE, || format!("{}: {stored:?} of {footer:?}, a scan gives {scanned:?}", segment.path))?;
    }
    Ok(())
}

/// The footer block of a file whose size is `size`; a file that was just shrunk may be longer still.
fn footer_of(bytes: &[u8], size: u64) -> &[u8] {
    let size = size as usize;
    bytes.get(size.saturating_sub(BLOCK)..size).unwrap_or_default()
}

/// The batches and marks of a file, one behind the other, up to the first that does not verify.
#[must_use]
pub fn walk(bytes: &[u8], uid: Uid) -> Vec<(Position, BatchHeader)> {
    let mut at = Position(BLOCK as u64);
    let mut found = Vec::new();
    while let Some(rest) = bytes.get(at.0 as usize..)
        && let Ok(header) = BatchHeader::decode(rest, uid, at, PAYLOAD_BYTES_MAX)
    {
        let start = strandline::format::batch::HEADER_BYTES;
        let payload = rest.get(start..start + header.payload_bytes as usize);
        if !payload.is_some_and(|payload| verify_payload(&header, payload)) {
            break;
        }
        found.push((at, header));
        at = at.plus(header.total_length());
    }
    found
}
