//! The dormant head of a log: where its live segment ends, its file not open.
//!
//! Opening a store with many logs that rest looks at none of their files, and a log that is quiet lets go of its file. Such a segment stands
//! at the end of the closed ones, for reads; before the log is written again it is roused, and where the manifest knows the log as clean
//! it is told first that it is not any more.

use super::Log;
use crate::format::manifest::Edit;
use crate::id::Seq;
use crate::segment::resting;
use crate::segment::unopened::Unopened;
use strandline_disk::Position;

/// The write head of a log, not open.
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
}

/// Whether nothing of the log is in flight or waits, and all of it is durable: its head's file may be let go of.
#[must_use]
pub fn is_quiet<A>(log: &Log<A>) -> bool {
    let works = log.verb_at_work || log.rousing || log.epoch_is_rising || log.truncating > 0 || log.deleted;
    let is_settled = log.queued.is_empty() && log.is_settled() && log.durable_end == log.end;
    is_settled && !works && log.latch.is_none() && log.unread.is_none()
}

/// Whether a mark on disk says of all of the log that it is durable.
#[must_use]
pub fn is_marked<A>(log: &Log<A>) -> bool {
    log.marked_end == log.durable_end
}

/// Whether the log has a head that got its mark, and nothing behind it.
#[must_use]
pub fn is_idle<A>(log: &Log<A>) -> bool {
    (log.active.is_some() || log.dormant.is_some()) && is_quiet(log) && is_marked(log)
}

/// Lets go of the file of a head that is announced, of a log that is quiet. False when there is none.
pub fn fall_asleep<A>(log: &mut Log<A>) -> bool {
    // The manifest must know that the segment is live: until then its file tells what it is.
    let Some(active) = log.active.take_if(|active| active.announced && !active.is_new()) else { return false };
    let (seq, end_position, last_store_time_ms) = (active.id.seq, active.durable_end(), log.last_store_time_ms);
    let (closed, file) = resting::rest(active, log.end);
    log.closed.reserve_exact(1); // Most logs that are quiet have no other.
    log.closed.push_back(closed);
    log.dormant = Some(Dormant { seq, end_position, last_store_time_ms, file });
    // A log that is written now and then makes room for a commit when there is one.
    log.queued.shrink_to_fit();
    log.flights.shrink_to_fit();
    log.unflushed.shrink_to_fit();
    log.waiting.shrink_to_fit();
    true
}

/// Forgets of a dormant head what takes more than `bytes`: it is read again when it is roused.
pub fn forget_much<A>(log: &mut Log<A>, bytes: usize) {
    let Some(seq) = log.dormant.as_ref().map(|dormant| dormant.seq) else { return };
    if let Some(head) = log.closed_at_mut(seq) {
        head.known.take_if(|known| known.bytes() > bytes);
    }
}

/// The edit that says that a log rests: nothing of it is in flight or waits, all of it is durable, and a mark on disk says so. `None`
/// for any other log.
#[must_use]
pub fn clean_edit<A>(log: &Log<A>) -> Option<Edit> {
    let is_quiet = log.queued.is_empty() && log.is_settled() && log.latch.is_none() && log.unread.is_none();
    if !is_quiet || !is_marked(log) || log.durable_end != log.end {
        return None;
    }
    // The manifest must know that the segment is live before it hears that it rests.
    let active = log.active.as_ref().filter(|active| active.announced && !active.is_new());
    let head = active.map(|active| (active.id.clone(), active.durable_end()));
    let asleep = log.dormant.as_ref().map(|dormant| (dormant.file.id.clone(), dormant.end_position));
    let (segment, end_position) = head.or(asleep)?;
    Some(Edit::Clean { segment, end: log.end, end_position, last_store_time_ms: log.last_store_time_ms })
}
