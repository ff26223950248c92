//! Timers: what a shard has to look at later, and when. At most one entry for each log and kind.

use super::command::LogNumber;
use std::collections::{BTreeMap, BTreeSet};

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Whether the log rested long enough for its mark.
    Mark,
    /// Whether something is written and not durable for so long that it is flushed.
    Flush,
    /// Whether a commit has waited long enough for more appends.
    Linger,
    /// Whether the log has been quiet for so long that the manifest is told that it is clean.
    Sleep,
    /// Whether the active segment is old enough to be rolled.
    Age,
    /// Whether the log has been quiet for so long that it keeps no file open.
    Close,
    /// Whether what could not be done in the background goes now.
    Again,
}

/// The timers of a shard.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// By time since boot, in nanoseconds.
    due: BTreeSet<(u64, Timer, LogNumber)>,
    set: BTreeMap<(LogNumber, Timer), u64>,
}

impl Timers {
    /// Has the log looked at when it is `due_ns` since boot. One that is set already stays as it is.
    pub(super) fn set(&mut self, log: LogNumber, timer: Timer, due_ns: u64) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.set.entry((log, timer)) {
            vacant.insert(due_ns);
            self.due.insert((due_ns, timer, log));
        }
    }

    /// Has nothing looked at any more, until it is set again.
    pub(super) fn clear(&mut self, log: LogNumber, timer: Timer) {
        if let Some(due_ns) = self.set.remove(&(log, timer)) {
            self.due.remove(&(due_ns, timer, log));
        }
    }

    /// Has a log not looked at any more: it is gone.
    pub(super) fn forget(&mut self, log: LogNumber) {
        for timer in [Timer::Mark, Timer::Flush, Timer::Linger, Timer::Sleep, Timer::Age, Timer::Close, Timer::Again] {
            self.clear(log, timer);
        }
    }

    /// The next one that is due at `now_ns`, taken out.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<(Timer, LogNumber)> {
        let (due, timer, log) = *self.due.first().filter(|(due, ..)| *due <= now_ns)?;
        self.due.remove(&(due, timer, log));
        self.set.remove(&(log, timer));
        Some((timer, log))
    }

    /// When the next one is due, since boot in nanoseconds; the largest number when there is none.
    pub(super) fn next_ns(&self) -> u64 {
        self.due.first().map_or(u64::MAX, |(due, ..)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_looked_at_once_when_it_is_first_due() {
        let mut timers = Timers::default();
        let (one, two) = (LogNumber(1), LogNumber(2));
        timers.set(one, Timer::Mark, 50);
        timers.set(one, Timer::Mark, 20);
        timers.set(two, Timer::Mark, 40);
        timers.set(one, Timer::Flush, 60);
        assert_eq!(timers.next_ns(), 40);
        assert_eq!(timers.pop(39), None);
        assert_eq!(timers.pop(50), Some((Timer::Mark, two)));
        assert_eq!(timers.pop(50), Some((Timer::Mark, one)));
        assert_eq!(timers.pop(50), None);
        timers.set(one, Timer::Mark, 70);
        assert_eq!(timers.pop(100), Some((Timer::Flush, one)));
        assert_eq!(timers.pop(100), Some((Timer::Mark, one)));
        assert_eq!(timers.next_ns(), u64::MAX);
    }

    #[test]
    fn one_that_is_cleared_may_be_set_to_come_sooner() {
        let mut timers = Timers::default();
        timers.set(LogNumber(1), Timer::Age, 50);
        timers.set(LogNumber(2), Timer::Age, 40);
        timers.clear(LogNumber(1), Timer::Age);
        timers.clear(LogNumber(1), Timer::Age);
        timers.set(LogNumber(1), Timer::Age, 20);
        assert_eq!(timers.pop(30), Some((Timer::Age, LogNumber(1))));
        assert_eq!(timers.pop(50), Some((Timer::Age, LogNumber(2))));
        assert_eq!(timers.pop(50), None);
    }

    #[test]
    fn a_log_that_is_gone_is_not_looked_at() {
        let mut timers = Timers::default();
        timers.set(LogNumber(1), Timer::Age, 50);
        timers.set(LogNumber(1), Timer::Close, 40);
        timers.set(LogNumber(2), Timer::Close, 60);
        timers.forget(LogNumber(1));
        assert_eq!((timers.next_ns(), timers.set.len()), (60, 1));
    }
}
