//! Pins: records that the host holds back from being given up, for a while and up to a bound.

use crate::id::Offset;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The pins of one log. Taken and dropped by callers, looked at by the shard; never on the way of an append.
#[derive(Debug, Default)]
pub struct Pins(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    next: u64,
    from: BTreeMap<u64, Offset>,
}

impl Pins {
    /// Holds everything from `from` on; gives the number to let go of it.
    pub fn hold(&self, from: Offset) -> u64 {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.next += 1;
        let number = held.next;
        held.from.insert(number, from);
        number
    }

    /// Lets go.
    pub fn let_go(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).from.remove(&number);
    }

    /// The lowest offset that is held.
    #[must_use]
    pub fn lowest(&self) -> Option<Offset> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).from.values().min().copied()
    }
}
