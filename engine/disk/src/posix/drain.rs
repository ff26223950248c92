//! How a disk ends: nothing that a thread works at may outlive what it reads and writes.

use super::shared::Shared;
use crate::disk::Wait;
use crate::host::DRAIN_MAX_NS;
use crate::host_clock::boot_ns;
use rustix::io::Errno;

impl Drop for Shared {
    /// Drains, ends the threads, closes, and unlocks last. What was started and never handed on answers ECANCELED, as do sleeps.
    fn drop(&mut self) {
        // In a forked child there are no threads and the arena is not mapped, and what is in flight is the parent's.
        if self.base.is_forked() {
            return self.leak();
        }
        self.base.cancel_queued();
        let asleep = self.sleeps.borrow_mut().take_all();
        asleep.for_each(|token| self.base.finish(token, Err(Errno::CANCELED)));
        if let Err(errno) = self.drain() {
            self.base.give_up_draining(errno);
            self.leak();
        }
    }
}

impl Shared {
    fn drain(&self) -> Result<(), Errno> {
        let deadline = boot_ns() + DRAIN_MAX_NS;
        while self.base.slots.flying() > 0 {
            if boot_ns() >= deadline {
                return Err(Errno::TIMEDOUT);
            }
            // Not a full turn: that would also hand on what a woken future started meanwhile.
            let waited = self.wait(Wait::Until(deadline));
            self.settle();
            waited?;
        }
        Ok(())
    }

    /// Leaves the threads, and one count of everything that they use, to themselves for good.
    fn leak(&mut self) {
        self.transfers.leak();
        self.others.leak();
        std::mem::forget(self.answers.clone());
        std::mem::forget(self.held.clone());
        self.base.leak();
    }
}
