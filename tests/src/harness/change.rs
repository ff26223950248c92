//! A change that a verb makes to a log, as the model makes it: whole, or not at all.

use super::model::LogModel;
use strandline::Offset;

/// What a verb asks of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Drops everything at or past an offset.
    Truncate(Offset),
    /// Gives up everything before an offset.
    Trim(Offset),
    /// Takes no appends any more; repairs up to an offset, at least the end.
    Fence(Option<Offset>),
    /// As `Fence`, and how far repairs go is known already.
    FencedUntil(Offset),
    /// Takes appends again.
    Unfence,
    /// Is gone, with everything in it.
    Delete,
}

/// A change that was asked for and is not known to be made, or not to be.
#[derive(Clone, Copy, Debug)]
pub struct AskedChange {
    /// What was sent before it has smaller numbers.
    pub serial: u64,
    /// What it changes.
    pub change: Change,
    /// A failure was answered: it may have been made all the same, and what came after it too.
    pub failed: bool,
}

/// Which of the changes that were asked for may have been made when the process died: of those that were not answered some first ones,
/// and of those that failed any. Fewest first.
pub(super) fn possible(changes: &[AskedChange]) -> Vec<Vec<bool>> {
    let mut ways: Vec<(Vec<bool>, bool)> = vec![(Vec::new(), true)];
    for change in changes {
        let mut next = Vec::new();
        for (way, all) in &ways {
            let with = |made| way.iter().copied().chain([made]).collect::<Vec<bool>>();
            next.push((with(false), *all && change.failed));
            if *all || change.failed {
                next.push((with(true), *all));
            }
        }
        ways = next;
    }
    ways.sort_by_key(|(way, _)| way.iter().filter(|made| **made).count());
    ways.into_iter().map(|(way, _)| way).collect()
}

impl Change {
    /// Whether a reader may find less after it.
    #[must_use]
    pub fn takes_away(self) -> bool {
        self.drops() || matches!(self, Change::Trim(_))
    }

    /// Whether offsets may be given again after it.
    #[must_use]
    pub fn drops(self) -> bool {
        matches!(self, Change::Truncate(_) | Change::Delete)
    }
}

impl LogModel {
    /// Makes a change. False when the log is not one on which it can be made.
    pub fn make(&mut self, asked: &AskedChange) -> bool {
        // A verb is done when everything before it is durable.
        self.hold_before(asked.serial);
        match asked.change {
            Change::Truncate(end) => return self.truncate(end),
            Change::Trim(start) => return self.trim(start),
            Change::Fence(until) => self.fence = Some(until.unwrap_or_default().max(self.end())),
            Change::FencedUntil(until) => self.fence = Some(until),
            Change::Unfence => self.fence = None,
            Change::Delete => self.forget(),
        }
        true
    }

    fn truncate(&mut self, end: Offset) -> bool {
        if end < self.start {
            return false;
        }
        if end >= self.end() {
            return true;
        }
        // A batch is whole or absent. One that reaches over the start goes whole too, and the log is empty then.
        let held = self.held.iter().take_while(|held| held.end() <= end).count();
        self.held.truncate(held);
        self.epoch += 1;
        self.version += 1;
        true
    }

    fn trim(&mut self, start: Offset) -> bool {
        if start > self.end() {
            return false;
        }
        if start > self.start {
            self.start = start;
            self.held.retain(|held| held.end() > start);
            self.version += 1;
        }
        true
    }

    /// Nothing of the log is left; another one of its name begins at the beginning.
    fn forget(&mut self) {
        self.held.clear();
        self.waiting.clear();
        (self.start, self.epoch, self.fence) = (Offset(0), 0, None);
        (self.made, self.kept_by_kill, self.failed) = (false, 0, false);
        self.gone = true;
        self.version += 1;
    }
}
