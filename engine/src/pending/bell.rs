//! Bell: threads that wait for answers of one log sleep together, so that one call wakes all whom a commit answered.
//!
//! Waking them one by one is what a commit of many producers costs most: a system call each, and on few cores each wake gives the
//! core away in the middle of the others.

use crate::sync::Rings;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// What threads sleep on. Whoever is woken looks whether it was meant, and sleeps again if not.
pub(super) struct Bell(Rings);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.ring();
    }
}

/// Bells for the logs of one shard; logs share them where there are more.
pub(super) struct Bells(Box<[(Arc<Bell>, Waker)]>);

impl Bells {
    pub(super) fn new(count: usize) -> Bells {
        let pair = |_| {
            let bell = Arc::new(Bell(Rings::new()));
            (bell.clone(), Waker::from(bell))
        };
        Bells((0..count).map(pair).collect())
    }

    /// Sleeps on a bell until `answered` has something to say. It is given the waker to leave behind first.
    pub(super) fn sleep_until<T>(&self, lane: usize, mut answered: impl FnMut(&Waker) -> Option<T>) -> T {
        let (bell, waker) = &self.0[lane % self.0.len()];
        loop {
            // Before the waker is left: a ring that comes between that and the sleep ends the sleep at once.
            let heard = bell.0.heard();
            if let Some(value) = answered(waker) {
                return value;
            }
            bell.0.sleep(heard);
        }
    }
}
