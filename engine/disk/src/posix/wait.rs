//! Waiting: until something was answered, a sleep is over, the doorbell rings, or the time is up.

use super::shared::Shared;
use crate::disk::Wait;
use crate::host_clock::boot_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

impl Shared {
    /// Waits as told, unless there is something to be seen already. A signal does not cut it short.
    pub(super) fn wait(&self, wait: Wait) -> Result<(), Errno> {
        let ends_ns = match wait {
            Wait::No => return Ok(()),
            Wait::Event => None,
            Wait::Until(ends_ns) => Some(ends_ns),
        };
        loop {
            let now_ns = boot_ns();
            let left_ns = ends_ns.map(|ends_ns| ends_ns.saturating_sub(now_ns));
            if left_ns == Some(0) || self.sleeps.borrow().is_due(now_ns) || !self.answers.await_some() {
                return Ok(());
            }
            let polled = self.poll(left_ns);
            let answered = self.answers.awaited();
            if polled? || answered {
                return Ok(());
            }
        }
    }

    /// One wait. True when the doorbell has rung; whether anything else has happened is for the caller to see.
    fn poll(&self, left_ns: Option<u64>) -> Result<bool, Errno> {
        let mut sleeps = self.sleeps.borrow_mut();
        let armed = sleeps.arm()?;
        let doorbell = self.base.doorbell.event();
        // The first two are read when they have gone off, the timer is not: it is set anew for the next sleep, and watched only for one.
        let timer = Some(sleeps.timer()).filter(|_| !sleeps.is_empty());
        let mut watched = [Some(self.answers.event()), doorbell, timer].map(|of| match of {
            Some(of) => PollFd::from_borrowed_fd(of, PollFlags::IN),
            None => PollFd::from_borrowed_fd(self.answers.event(), PollFlags::empty()),
        });
        let limit =
            left_ns.map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
        self.base.counters.called(1 + u64::from(armed));
        match poll(&mut watched, limit.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        if watched[0].revents().contains(PollFlags::IN) {
            self.base.counters.called(1);
            let _ = rustix::io::read(self.answers.event(), &mut [0; 8]);
        }
        let Some(bell) = doorbell.filter(|_| watched[1].revents().contains(PollFlags::IN)) else { return Ok(false) };
        self.base.counters.called(1);
        Ok(rustix::io::read(bell, &mut [0; 8]).is_ok())
    }
}
