//! Where an offset is: which segment, and whether it is in the log at all. Plain decisions.

use super::Log;
use crate::error::{Latch, ReadError};
use crate::id::Offset;
use crate::segment::active::Active;
use crate::segment::time::Time;

/// Where a read starts.
#[derive(Debug)]
pub enum Place<'a> {
    /// In a closed segment: its place in the list.
    Closed(usize),
    /// In the active segment.
    Active(&'a Active),
    /// At the end: there is nothing to read yet.
    End,
}

/// Finds `offset` among what may be read: from the start of the log up to its durable end, or, with `past_durable`, up to where it is
/// written.
///
/// # Errors
/// [`ReadError::OutOfRange`], with the earliest live offset. [`ReadError::Disk`] for what stands in a segment that could not be
/// recovered, or behind it: how far that goes is not known, so it must not read as the end.
pub fn locate<A>(log: &Log<A>, offset: Offset, past_durable: bool) -> Result<Place<'_>, ReadError> {
    let end = if past_durable { log.written_end.max(log.durable_end) } else { log.durable_end };
    if let Some(unread) = log.unread.as_ref().filter(|_| offset >= end) {
        return Err(unread_error(unread));
    }
    if offset < log.start || offset > end {
        return Err(ReadError::OutOfRange { log: log.id.clone(), requested: offset, earliest: log.start, end });
    }
    if offset == end {
        return Ok(Place::End);
    }
    if let Some(active) = log.active.as_ref().filter(|active| offset >= active.base) {
        return Ok(Place::Active(active));
    }
    let place = log.closed.partition_point(|closed| closed.end <= offset);
    match log.closed.get(place) {
        Some(closed) if closed.base <= offset => Ok(Place::Closed(place)),
        // Segments of a log follow each other without a gap, but for one that could not be recovered.
        _ => log.unread.as_ref().map_or(Ok(Place::End), |unread| Err(unread_error(unread))),
    }
}

/// Finds the segment in which the first batch of `time` or later may be, at or behind `from` and below `until`, which are in the log.
/// Segments that are known to hold none are passed over.
///
/// # Errors
/// [`ReadError::Disk`], when nothing is known of a segment in which it may be.
pub fn locate_time<A>(log: &Log<A>, time: Time, from: Offset, until: Offset) -> Result<Place<'_>, ReadError> {
    let from = from.max(log.start);
    // One after the other: stamps go back where the clock had been far ahead, so that they are not in order over all segments.
    let first = log.closed.partition_point(|closed| closed.end <= from);
    for (place, closed) in log.closed.iter().enumerate().skip(first) {
        if closed.base < until && closed.base < closed.end && closed.latest.reaches(time) != Some(false) {
            return Ok(Place::Closed(place));
        }
    }
    match &log.unread {
        Some(unread) => Err(unread_error(unread)),
        None => Ok(log.active.as_ref().filter(|_| from < until).map_or(Place::End, Place::Active)),
    }
}

fn unread_error(unread: &Latch) -> ReadError {
    let Latch { segment, position, source } = unread.clone();
    ReadError::Disk { segment, position, source }
}
