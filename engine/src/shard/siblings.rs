//! Siblings: what the shards of a store share. One device is below all of them, so that a flush that failed concerns each, and one
//! root directory, whose names any of them may give or take away.

use super::clock::StoreClock;
use super::scrub::ScrubRound;
use crate::format::manifest::ScrubCursor;
use crate::id::{SegmentId, Uid};
use crate::removal::exchange::Exchange;
use crate::removal::going::Outgoing;
use crate::removal::release::Given;
use crate::removal::spares::Spares;
use crate::removal::trash::Placed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strandline_disk::DiskError;

/// What the shards of one store share.
#[derive(Debug, Default)]
pub struct Siblings {
    /// Flushes that failed.
    pub(super) failures: Failures,
    /// What they share with the one that removes files.
    pub removal: Arc<Exchange>,
    claimed: Mutex<BTreeSet<SegmentId>>,
    /// Orphans that wait in the trash. One that is on its way in or out is not among them.
    pub(super) held: Held,
    /// Orphans that are on their way in.
    pub(super) arriving: Held,
    /// The manifest was read from one copy, the other being damaged.
    pub(super) degraded: bool,
    /// Whether the wall clock can be believed.
    pub clock: StoreClock,
    /// How far scrubbing has come.
    pub scrub: ScrubRound,
    logs: AtomicUsize,
}

/// Orphans that wait in the trash.
#[derive(Debug, Default)]
pub struct Held(Mutex<BTreeMap<Uid, Option<Placed>>>);

impl Held {
    fn uids(&self) -> MutexGuard<'_, BTreeMap<Uid, Option<Placed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This one waits from now on. What is known of it saves another look. False when it waited already.
    pub(super) fn put(&self, uid: Uid, placed: Option<Placed>) -> bool {
        self.uids().insert(uid, placed).is_none()
    }

    /// This one is on a way out. Gives what was known of it; `None` when it does not wait.
    pub(super) fn take(&self, uid: Uid) -> Option<Option<Placed>> {
        self.uids().remove(&uid)
    }

    /// Whether this one waits.
    pub(super) fn has(&self, uid: Uid) -> bool {
        self.uids().contains_key(&uid)
    }
}

/// Segments whose directories nobody else makes or deletes while this lives.
#[derive(Debug)]
pub(super) struct Claim {
    siblings: Arc<Siblings>,
    segments: Vec<SegmentId>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.siblings.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody else has claimed any of them.
        for segment in &self.segments {
            claimed.remove(segment);
        }
    }
}

impl Siblings {
    /// With these files for new segments.
    #[must_use]
    pub fn new(spares: Spares) -> Siblings {
        Siblings { removal: Arc::new(Exchange::new(spares)), ..Siblings::default() }
    }

    /// With these orphans in the trash, and a manifest that is whole or not.
    #[must_use]
    pub fn with_trash(self, held: BTreeSet<Uid>, degraded: bool) -> Siblings {
        let held = held.into_iter().map(|uid| (uid, None)).collect();
        Siblings { held: Held(Mutex::new(held)), degraded, ..self }
    }

    /// With this clock.
    #[must_use]
    pub fn with_clock(self, clock: StoreClock) -> Siblings {
        Siblings { clock, ..self }
    }

    /// With scrubbing as far as it had come.
    #[must_use]
    pub fn with_scrub(self, cursor: Option<ScrubCursor>) -> Siblings {
        Siblings { scrub: ScrubRound::open(cursor), ..self }
    }

    /// Claims the directories of segments that the manifest may not know: one in which a segment is being made looks like a stray until
    /// it does. Gives the segment that is claimed already.
    pub(super) fn claim(self: &Arc<Siblings>, segments: Vec<SegmentId>) -> Result<Claim, SegmentId> {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = segments.iter().find(|segment| claimed.contains(segment)) {
            return Err(taken.clone());
        }
        claimed.extend(segments.iter().cloned());
        Ok(Claim { siblings: self.clone(), segments })
    }

    /// Hands released files that nobody reads to the one that removes them.
    pub fn give(&self, released: Vec<Given>) {
        self.removal.inbox.put(released.into_iter().map(|given| Outgoing::new(given, &self.removal.going)));
    }

    /// A flush failed outside the shards: each of them heeds that before it acknowledges anything more.
    pub fn note_failed_flush(&self, source: &DiskError) {
        if !source.is_full() {
            self.failures.note(source, u64::MAX);
        }
    }

    /// Segments that are being made or deleted now.
    pub(super) fn claimed(&self) -> Vec<SegmentId> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Takes room for one more log; false when there are as many as there may be.
    pub(super) fn take_log(&self, limit: usize) -> bool {
        let taken =
            self.logs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |logs| (logs < limit).then_some(logs + 1));
        taken.is_ok()
    }

    /// Gives the room of logs back.
    pub(super) fn give_log_back(&self) {
        self.logs.fetch_sub(1, Ordering::Relaxed);
    }

    /// So many logs were there already.
    pub(super) fn found_logs(&self, count: usize) {
        self.logs.fetch_add(count, Ordering::Relaxed);
    }
}

/// How many flushes have failed, and how the last one did.
#[derive(Debug, Default)]
pub struct Failures {
    count: AtomicU64,
    last: Mutex<Option<DiskError>>,
}

impl Failures {
    /// A flush failed. Gives the count that the one who says so has heeded by that, if he had `seen` all before it.
    pub(super) fn note(&self, source: &DiskError, seen: u64) -> u64 {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(source.clone());
        let before = self.count.fetch_add(1, Ordering::AcqRel);
        if before == seen { before + 1 } else { seen }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The count and the last failure, when there were more than `seen`.
    pub(super) fn since(&self, seen: u64) -> Option<(u64, DiskError)> {
        let count = self.count();
        if count == seen {
            return None;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.map(|source| (count, source))
    }
}
