//! Rouse: a log that rested is about to be written. Its live segment is read for the first time since the store was opened.
//!
//! The manifest says where the segment ends and that all of it had been durable, so whatever does not verify below that end is rot.
//! The order after it matters: `Dirty` is durable before the first write, or a crash in between would hide what was written.

use super::recover::fenced;
use super::report::OpenReport;
use crate::format::manifest::Edit;
use crate::id::Life;
use crate::log::Dormant;
use crate::segment::active::{Active, Found, PreparedFile};
use crate::segment::closed::{Closed, Loaded};
use crate::segment::mend;
use crate::segment::survey::{self, Damage, Expected, Survey};
use std::rc::Rc;
use strandline_disk::{Disk, DiskError};

/// What a dormant head turned out to be.
#[derive(Debug)]
pub enum Roused {
    /// It goes on where it ended.
    Active {
        /// The write head.
        active: Box<Active>,
        /// The file that had been made ahead for the segment after it, where it is still there.
        successor: Option<PreparedFile>,
    },
    /// It rotted while it rested. It stays as it is, and the log goes on in another segment.
    Damaged {
        /// The segment, with what is damaged in it.
        closed: Box<Closed>,
        /// Tells the manifest so, and ends the rest.
        edit: Edit,
        /// What an operator should know, a sentence each.
        sentences: Vec<String>,
        /// The file that had been made ahead for the segment after it, where it is still there.
        successor: Option<PreparedFile>,
    },
}

/// Opens the dormant head `closed` of a log and reads it. Nothing is written below its end.
///
/// # Errors
/// What the disk answered. The log is as it was.
pub async fn rouse<D: Disk>(disk: &D, closed: &Closed, dormant: &Dormant, life: Life) -> Result<Roused, DiskError> {
    let (directory, prepared) = dormant.file.open(disk).await?;
    let expected = Expected {
        uid: closed.uid,
        base: closed.base,
        end: Some(closed.end),
        size: closed.size,
        look_ahead: closed.look_ahead,
        cut: None,
    };
    let mut found = survey::survey(disk, &prepared.file, &expected).await?;
    let successor = match &dormant.successor {
        // It holds nothing: when it cannot be opened another one is made, and the next open forgets it.
        Some(unopened) => unopened.open(disk).await.ok().map(|(_, prepared)| prepared),
        None => None,
    };
    if found.damage.is_empty() && found.end < dormant.end_position {
        // All its records are there, but the mark behind them is not: those bytes had been durable and are not written over.
        let reason = "the mark at the end of the segment does not verify".to_owned();
        found.damage.push(Damage { position: found.end, from: closed.end, to: closed.end, reason });
    }
    if !found.damage.is_empty() {
        let loaded = Some(Rc::new(Loaded::surveyed(prepared.file, found)));
        let closed = Closed { loaded, ..closed.clone() };
        let mut report = OpenReport::default();
        let edit = fenced(&closed, dormant.end_position, &mut report);
        return Ok(Roused::Damaged { closed: Box::new(closed), edit, sentences: report.damaged, successor });
    }
    // Nothing was in flight when it went to rest; what is there all the same must not be taken for data later.
    mend::neutralise(disk, &directory, &prepared.file, &found, life).await?;
    let Survey { tail, index, store_times_ms, .. } = found;
    let found = Found { tail, index, store_times_ms };
    let active = Active::resume(prepared, closed.base, closed.opened_at_ms, found);
    Ok(Roused::Active { active: Box::new(active), successor })
}
