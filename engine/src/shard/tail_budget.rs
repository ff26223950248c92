//! The tail budget: how much memory the tail caches of a shard's logs take together, and whose oldest commit goes first.

use super::command::LogNumber;
use std::collections::VecDeque;

/// Stale entries that are borne before the order is cleaned of them.
const STALE_MAX: usize = 1_024;

/// What is kept of all logs of a shard, oldest commit first.
#[derive(Debug)]
pub(super) struct TailBudget {
    limit: usize,
    bytes: usize,
    /// The log of each commit that is kept, oldest first; with entries of some that are gone already.
    order: VecDeque<LogNumber>,
    /// For each log how many of its oldest entries in `order` are of commits that are gone.
    stale: Vec<usize>,
    stale_count: usize,
}

impl TailBudget {
    pub(super) fn new(limit: usize) -> TailBudget {
        TailBudget { limit, bytes: 0, order: VecDeque::new(), stale: Vec::new(), stale_count: 0 }
    }

    /// Nothing is kept at all.
    pub(super) fn is_off(&self) -> bool {
        self.limit == 0
    }

    /// A commit of `log` is kept now, with `bytes`; `pushed_out` bytes of its oldest commit went for want of a slot.
    pub(super) fn note(&mut self, log: LogNumber, bytes: usize, pushed_out: usize) {
        self.order.push_back(log);
        self.bytes = (self.bytes + bytes).saturating_sub(pushed_out);
        if pushed_out > 0 {
            self.gone(log, 1);
        }
    }

    /// The log whose oldest commit has to go, while there is too much. Its bytes are told to [`TailBudget::freed`].
    pub(super) fn next_to_go(&mut self) -> Option<LogNumber> {
        while self.bytes > self.limit {
            let log = self.order.pop_front()?;
            match self.stale.get_mut(log.0) {
                Some(stale) if *stale > 0 => {
                    *stale -= 1;
                    self.stale_count -= 1;
                }
                _ => return Some(log),
            }
        }
        None
    }

    /// So many bytes were given back.
    pub(super) fn freed(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// All that was kept of a log is gone: so many bytes in so many commits.
    pub(super) fn forget(&mut self, log: LogNumber, bytes: usize, commits: usize) {
        self.freed(bytes);
        self.gone(log, commits);
    }

    /// The oldest `commits` of a log are gone already.
    fn gone(&mut self, log: LogNumber, commits: usize) {
        if self.stale.len() <= log.0 {
            self.stale.resize(log.0 + 1, 0);
        }
        self.stale[log.0] += commits;
        self.stale_count += commits;
        if self.stale_count > STALE_MAX && self.stale_count * 4 > self.order.len() {
            let stale = &mut self.stale;
            self.order.retain(|log| match stale.get_mut(log.0) {
                Some(stale) if *stale > 0 => {
                    *stale -= 1;
                    false
                }
                _ => true,
            });
            self.stale_count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_commit_of_all_logs_goes_first() {
        let mut budget = TailBudget::new(100);
        budget.note(LogNumber(0), 60, 0);
        budget.note(LogNumber(3), 40, 0);
        assert_eq!(budget.next_to_go(), None);
        budget.note(LogNumber(3), 40, 0);
        assert_eq!(budget.next_to_go(), Some(LogNumber(0)));
        budget.freed(60);
        assert_eq!(budget.next_to_go(), None);
    }

    #[test]
    fn what_went_for_want_of_a_slot_is_counted_once_and_leaves_nothing_behind() {
        let mut budget = TailBudget::new(1_000);
        budget.note(LogNumber(1), 10, 0);
        for _ in 0..100_000 {
            budget.note(LogNumber(0), 10, 0);
            budget.note(LogNumber(0), 10, 10);
            budget.freed(10);
        }
        assert!(budget.order.len() < 140_000, "{}", budget.order.len());
        assert_eq!(budget.bytes, 10);
        budget.note(LogNumber(0), 2_000, 0);
        assert_eq!(budget.next_to_go(), Some(LogNumber(1)), "it is the oldest that is left");
    }
}
