//! How a disk ends: nothing in flight may outlive what it reads and writes.

use super::operation::CANCEL;
use super::shared::Shared;
use crate::disk::{Operation, Wait};
use crate::host::DRAIN_MAX_NS;
use crate::host_clock::boot_ns;
use crate::slot::Token;
use io_uring::opcode;
use rustix::io::Errno;

impl Drop for Shared {
    /// Drains, unregisters, closes, and unlocks last. What was started and never submitted answers ECANCELED, as do sleeps.
    fn drop(&mut self) {
        // In a forked child the ring and the arena are not mapped, and what is in flight is the parent's.
        if self.base.is_forked() {
            return self.leak();
        }
        self.base.cancel_queued();
        if let Err(errno) = self.drain() {
            self.base.give_up_draining(errno);
            return self.leak();
        }
        self.ring.borrow().unregister();
    }
}

impl Shared {
    fn drain(&self) -> Result<(), Errno> {
        let deadline = boot_ns() + DRAIN_MAX_NS;
        if self.base.slots.flying() > 0 && self.base.failed.get().is_none() {
            self.cancel_sleeps()?;
        }
        while self.base.slots.flying() > 0 {
            if let Some(errno) = self.base.failed.get() {
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
            self.base.slots.with(*token, |operation| matches!(operation, Operation::Sleep { .. })).unwrap_or(false)
        };
        for token in self.base.slots.tokens().into_iter().filter(asleep) {
            let cancel = opcode::AsyncCancel::new(token.to_bits()).build().user_data(CANCEL);
            // SAFETY: a cancel points to no memory: it carries the token's number (invariant 2).
            unsafe { self.ring.borrow_mut().push(&cancel)? };
        }
        Ok(())
    }

    /// Gives one count of everything away for good, so that it stays for the kernel to use.
    fn leak(&self) {
        std::mem::forget(self.ring.clone());
        std::mem::forget(self.sleeps.clone());
        std::mem::forget(self.descriptors.clone());
        self.base.leak();
    }
}
