//! The dormant head of a log that rests: where its live segment ends, known from the manifest alone, its file not opened.
//!
//! Opening a store with many logs that rest looks at none of their files. Such a segment stands at the end of the closed ones, for
//! reads; before the log is written again it is roused, and the manifest is told that the log is not clean any more.

use super::Log;
use crate::format::manifest::Edit;
use crate::id::Seq;
use crate::segment::unopened::Unopened;
use strandline_disk::Position;

/// The write head of a log that rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dormant {
    /// Its segment, which is the last of the closed ones.
    pub seq: Seq,
    /// The position after its last batch or mark.
    pub end_position: Position,
    /// The store time of its last batch, wall ms; 0 without one.
    pub last_store_time_ms: u64,
    /// Its file.
    pub file: Unopened,
    /// The file that had been made ahead for the segment after it. It holds nothing.
    pub successor: Option<Unopened>,
}

/// The edit that says that a log rests: nothing of it is in flight or waits, all of it is durable, and a mark on disk says so. `None`
/// for any other log, and for one of which the manifest knows it already.
#[must_use]
pub fn clean_edit<A>(log: &Log<A>) -> Option<Edit> {
    let is_quiet = log.queued.is_empty() && log.is_settled() && log.latch.is_none() && log.unread.is_none();
    let is_marked = log.marked_end == log.durable_end && log.durable_end == log.end;
    // The manifest must know that the segment is live before it hears that it rests.
    let active = log.active.as_ref().filter(|active| is_quiet && is_marked && active.announced && !active.is_new())?;
    Some(Edit::Clean {
        segment: active.id.clone(),
        end: log.end,
        end_position: active.durable_end(),
        last_store_time_ms: log.last_store_time_ms,
    })
}
