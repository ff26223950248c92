//! How a disk ends: nothing in flight may outlive what it reads and writes.

use super::operation::CANCEL;
use super::shared::Shared;
use crate::disk::{Operation, Wait};
use crate::host_clock::boot_ns;
use crate::slot::Token;
use io_uring::opcode;
use rustix::io::Errno;
use std::time::Duration;

/// How long a drop waits for operations in flight before it leaks what they use.
const DRAIN_MAX: Duration = Duration::from_secs(60);

impl Drop for Shared {
    /// Drains, unregisters, closes, and unlocks last. What was started and never submitted answers ECANCELED, as do sleeps.
    fn drop(&mut self) {
        // In a forked child the ring and the arena are not mapped, and what is in flight is the parent's.
        if rustix::process::getpid() != self.process {
            return self.leak();
        }
        let unsubmitted = std::mem::take(&mut *self.queue.borrow_mut());
        for token in unsubmitted {
            self.finish(token, Err(Errno::CANCELED));
        }
        if let Err(errno) = self.drain() {
            tracing::error!(
                in_flight = self.slots.flying(),
                %errno,
                "operations are still in flight: what they use is leaked and the store stays locked until the process ends"
            );
            return self.leak();
        }
        self.ring.borrow().unregister();
    }
}

impl Shared {
    fn drain(&self) -> Result<(), Errno> {
        let deadline = boot_ns() + DRAIN_MAX.as_nanos() as u64;
        if self.slots.flying() > 0 && self.failed.get().is_none() {
            self.cancel_sleeps()?;
        }
        while self.slots.flying() > 0 {
            if let Some(errno) = self.failed.get() {
                return Err(errno);
            }
            if boot_ns() >= deadline {
                return Err(Errno::TIMEDOUT);
            }
            // Not a full turn: that would also start what a woken future started meanwhile.
            let cycled = self.ring.borrow_mut().cycle(Wait::Until(deadline));
            self.settle();
            cycled?;
        }
        Ok(())
    }

    /// A cancel is a hint: the sleep's own completion is what counts.
    fn cancel_sleeps(&self) -> Result<(), Errno> {
        let asleep = |token: &Token| {
            self.slots.with(*token, |operation| matches!(operation, Operation::Sleep { .. })).unwrap_or(false)
        };
        for token in self.slots.tokens().into_iter().filter(asleep) {
            let cancel = opcode::AsyncCancel::new(token.to_bits()).build().user_data(CANCEL);
            // SAFETY: a cancel points to no memory: it carries the token's number (invariant 2).
            unsafe { self.ring.borrow_mut().push(&cancel)? };
        }
        Ok(())
    }

    /// Gives one count of everything away for good, so that it stays for the kernel to use.
    fn leak(&self) {
        std::mem::forget(self.ring.clone());
        std::mem::forget(self.slots.clone());
        std::mem::forget(self.sleeps.clone());
        std::mem::forget(self.descriptors.clone());
        std::mem::forget(self.pool.clone());
        std::mem::forget(self.lock.clone());
    }
}
