//! Sleeps: who is to be woken when. Time that the host was suspended counts, as it does for a ring's.

use crate::slot::Token;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::collections::BTreeSet;

/// The sleeps in flight, by the time since boot in nanoseconds at which each ends.
#[derive(Debug)]
pub(super) struct Sleeps {
    ends: BTreeSet<(u64, Token)>,
    timer: OwnedFd,
    /// The time that the timer is set to, 0 for none.
    armed: u64,
}

impl Sleeps {
    pub(super) fn new() -> Result<Sleeps, Errno> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Sleeps { ends: BTreeSet::new(), timer, armed: 0 })
    }

    pub(super) fn add(&mut self, token: Token, ends_ns: u64) {
        self.ends.insert((ends_ns, token));
    }

    /// One that is over by now.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Token> {
        let due = self.is_due(now_ns);
        due.then(|| self.ends.pop_first()).flatten().map(|(_, token)| token)
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.ends.first().is_some_and(|(ends_ns, _)| *ends_ns <= now_ns)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, to be cancelled.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Token> + use<> {
        std::mem::take(&mut self.ends).into_iter().map(|(_, token)| token)
    }

    /// Has the timer go off when the first one ends, if any does. True where that took a system call.
    pub(super) fn arm(&mut self) -> Result<bool, Errno> {
        let first = self.ends.first().map_or(0, |(ends_ns, _)| (*ends_ns).max(1));
        if first == 0 || first == self.armed {
            return Ok(false);
        }
        let time = Timespec { tv_sec: (first / 1_000_000_000) as i64, tv_nsec: (first % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: time };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.armed = first;
        Ok(true)
    }

    /// Readable when the time has come that was armed last.
    pub(super) fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
