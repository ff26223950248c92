//! The gauge: what is known of the room on the disk, for all threads. One writes it, the one that removes files; shards and callers read it.

use super::pressure::{Pressure, Stage};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was found by the last look at the disk.
#[derive(Debug, Default)]
pub struct Gauge {
    /// The stage alone, for appends.
    stage: AtomicU8,
    /// Somebody has used room since the last look.
    stale: AtomicBool,
    /// An operation was refused for want of room.
    full: AtomicBool,
    found: Mutex<Pressure>,
}

impl Gauge {
    /// How short of room the disk is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Calm,
            1 => Stage::Soft,
            _ => Stage::Hard,
        }
    }

    /// Everything that is known.
    #[must_use]
    pub fn read(&self) -> Pressure {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what a look has found.
    pub fn show(&self, found: Pressure) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
        self.stage.store(found.stage as u8, Ordering::Relaxed);
    }

    /// Room was used. True when whoever looks should be told: nobody had said so since the last look.
    #[must_use]
    pub(super) fn note_use(&self, full: bool) -> bool {
        self.full.fetch_or(full, Ordering::Relaxed);
        !self.stale.swap(true, Ordering::Relaxed)
    }

    /// Whether a look would find something new.
    #[must_use]
    pub(super) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// A look is about to be made: what is used from now on makes it stale again. True when something was refused for want of room.
    pub(super) fn begin_look(&self) -> bool {
        self.stale.store(false, Ordering::Relaxed);
        self.full.swap(false, Ordering::Relaxed)
    }
}
