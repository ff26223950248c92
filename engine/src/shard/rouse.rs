//! Rouse: a log that rested is about to be written. Its live segment is read for the first time since the store was opened; of one that was
//! let go of meanwhile only the last block is.
//!
//! The manifest says where the segment ends and that all of it had been durable, so whatever does not verify below that end is rot.
//! The order after it matters: `Dirty` is durable before the first write, or a crash in between would hide what was written.

use super::recover::fenced;
use super::report::OpenReport;
use crate::format::manifest::Edit;
use crate::id::Life;
use crate::log::Dormant;
use crate::segment::active::{Active, Found, PreparedFile};
use crate::segment::closed::{Closed, Known, Loaded};
use crate::segment::mend;
use crate::segment::survey::{self, Damage, Expected, Survey};
use crate::segment::tail::Tail;
use std::rc::Rc;
use strandline_disk::{BLOCK, Disk, DiskError};

/// What a dormant head turned out to be.
#[derive(Debug)]
pub enum Roused {
    /// It goes on where it ended.
    Active {
        /// The write head.
        active: Box<Active>,
    },
    /// It rotted while it rested. It stays as it is, and the log goes on in another segment.
    Damaged {
        /// The segment, with what is damaged in it.
        closed: Box<Closed>,
        /// Tells the manifest so, and ends the rest.
        edit: Edit,
        /// What an operator should know, a sentence each.
        sentences: Vec<String>,
    },
}

/// Opens the dormant head `closed` of a log and reads it. Nothing is written below its end.
///
/// # Errors
/// What the disk answered. The log is as it was.
pub async fn rouse<D: Disk>(disk: &D, closed: &Closed, dormant: &Dormant, life: Life) -> Result<Roused, DiskError> {
    let (directory, prepared) = dormant.file.open(disk).await?;
    if let Some(known) = &closed.known
        && let Some(found) = look_again(disk, &prepared, known).await?
    {
        let active = Active::resume(prepared, closed.base, closed.opened_at_ms, found);
        return Ok(Roused::Active { active: Box::new(active) });
    }
    let expected = Expected {
        uid: closed.uid,
        base: closed.base,
        end: Some(closed.end),
        size: closed.size,
        look_ahead: closed.look_ahead,
        cut: None,
    };
    let mut found = survey::survey(disk, &prepared.file, &expected).await?;
    if found.damage.is_empty() && found.end < dormant.end_position {
        // All its records are there, but the mark behind them is not: those bytes had been durable and are not written over.
        let reason = "the mark at the end of the segment does not verify".to_owned();
        found.damage.push(Damage { position: found.end, from: closed.end, to: closed.end, reason });
    }
    if !found.damage.is_empty() {
        let loaded = Some(Rc::new(Loaded::surveyed(prepared.file, found)));
        let closed = Closed { loaded, known: None, ..closed.clone() };
        let mut report = OpenReport::default();
        let edit = fenced(&closed, dormant.end_position, &mut report);
        return Ok(Roused::Damaged { closed: Box::new(closed), edit, sentences: report.damaged });
    }
    // Nothing was in flight when it went to rest; what is there all the same must not be taken for data later.
    mend::neutralise(disk, &directory, &prepared.file, &found, life).await?;
    let Survey { tail, index, store_times_ms, .. } = found;
    let found = Found { tail, index, store_times_ms };
    let active = Active::resume(prepared, closed.base, closed.opened_at_ms, found);
    Ok(Roused::Active { active: Box::new(active) })
}

/// What a head goes on with that was let go of by this process: only its last block is read. `None` when that is not what it was; then all of
/// it is looked at.
async fn look_again<D: Disk>(disk: &D, prepared: &PreparedFile, known: &Known) -> Result<Option<Found>, DiskError> {
    let kept = survey::read_window(disk, &prepared.file, known.end.block_floor(BLOCK), known.end).await?;
    let whole = known.end.since(known.end.block_floor(BLOCK)) as usize == kept.len();
    let tail = whole.then(|| Tail::from_block(known.end, &kept));
    let tail = tail.filter(|tail| tail.checksum() == known.tail_checksum);
    Ok(tail.map(|tail| Found { tail, index: known.index.clone(), store_times_ms: known.store_times_ms }))
}
