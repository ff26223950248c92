//! The model: what the store must hold. Plain lists, no cleverness.

use super::change::{AskedChange, Change, possible};
use super::checker;
use super::violation::{Checked, Violation};
use std::collections::VecDeque;
use std::rc::Rc;
use strandline::batch::StoredBatch;
use strandline::{Level, LogId, Offset, RangeNumber, Receipt, Topic};

/// A batch that was handed to the store.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its number among all batches of the run.
    pub serial: u64,
    /// Its payload.
    pub payload: Rc<[u8]>,
    /// How many records it has.
    pub records: u64,
    /// The level at which it was answered.
    pub answered: Option<Level>,
    /// Its write failed: it may be there or not. Of several some first ones are.
    pub failed: bool,
}

/// A batch that the log must hold for ever.
#[derive(Clone, Debug)]
pub struct Held {
    /// What was sent.
    pub sent: Sent,
    /// Its first offset.
    pub first: Offset,
    /// The time that the store stamped, where it is known.
    pub store_time_ms: u64,
    /// It was acknowledged; else it was only found by a recovery and could be read.
    pub acknowledged: bool,
}

impl Held {
    /// One past its last offset.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.first.plus(self.sent.records)
    }
}

/// What one log must hold.
#[derive(Clone, Debug)]
pub struct LogModel {
    /// Which log.
    pub id: LogId,
    /// Whether the store acknowledged that it exists.
    pub made: bool,
    /// What was acknowledged or could be read, in order.
    pub held: Vec<Held>,
    /// What was sent and is neither known to be durable nor refused, in order: a power failure may keep any prefix of it, the death of
    /// the process keeps what was answered as written.
    pub waiting: VecDeque<Sent>,
    /// So many of those that wait must be there when only the process died.
    pub kept_by_kill: usize,
    /// An append failed in this life: nothing after it may be acknowledged.
    pub failed: bool,
    /// How many batches recoveries have dropped.
    pub dropped: usize,
    /// Offsets below it were given up.
    pub start: Offset,
    /// How often it was truncated.
    pub epoch: u64,
    /// It takes no appends, and may be repaired up to here.
    pub fence: Option<Offset>,
    /// It was deleted, durably, and nobody has asked for it since.
    pub gone: bool,
    /// Changes that were asked for and are not known to be made, or not to be, in order.
    pub changes: Vec<AskedChange>,
    /// How often something that a reader sees has been taken away, or has been asked to be.
    pub version: u64,
}

/// What is seen of a log after a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its first offset.
    pub start: Offset,
    /// One past its last.
    pub end: Offset,
    /// How often it was truncated.
    pub epoch: u64,
    /// How far it may be repaired, when it is fenced.
    pub fence: Option<Offset>,
}

impl LogModel {
    /// The offset after the last batch that is held.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.held.last().map_or(self.start, Held::end)
    }

    /// The offset after the last batch that was sent, when all of them stay.
    #[must_use]
    pub fn sent_end(&self) -> Offset {
        self.waiting.iter().fold(self.end(), |end, sent| end.plus(sent.records))
    }

    /// Whether it was asked to be deleted, and that was not answered.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.changes.iter().any(|asked| asked.change == Change::Delete && !asked.failed)
    }

    /// It is there: a deletion that was asked for was not made, nor anything after it.
    pub fn was_not_deleted(&mut self) {
        let is_deletion = |asked: &AskedChange| asked.change == Change::Delete;
        let first = self.changes.iter().position(|asked| is_deletion(asked) && !asked.failed);
        self.changes.truncate(first.unwrap_or(self.changes.len()));
        self.changes.retain(|asked| !is_deletion(asked));
    }

    /// Where it starts and ends, and what has been taken away.
    #[must_use]
    pub fn readable(&self) -> (Offset, Offset, u64) {
        (self.start, self.end(), self.version)
    }

    /// Everything that was sent before `serial` is durable.
    pub fn hold_before(&mut self, serial: u64) {
        let before = self.waiting.iter().take_while(|sent| sent.serial < serial);
        let end = before.fold(self.end(), |end, sent| end.plus(sent.records));
        self.hold_through(end, 0);
    }

    /// What the log is if those of the changes that were asked for were made, and no other.
    #[must_use]
    pub fn with_changes(&self, made: &[bool]) -> LogModel {
        let mut log = self.clone();
        for (change, made) in std::mem::take(&mut log.changes).iter().zip(made) {
            if *made {
                log.make(change);
            }
        }
        log
    }

    fn bounds(&self) -> (Offset, u64, Option<Offset>) {
        (self.start, self.epoch, self.fence)
    }

    fn check_recovered(&self, read: &[StoredBatch], seen: &Seen) -> Checked {
        checker::bounds_are_old_or_new(self, read, seen)?;
        checker::acknowledged_is_readable(self, read)?;
        checker::what_was_read_stays_readable(self, read)?;
        checker::exact_prefix_in_staged_order(self, read)?;
        checker::what_was_written_outlives_the_process(self, read)
    }

    /// The offset that a waiting batch has, when all before it stay.
    #[must_use]
    pub fn offset_of(&self, serial: u64) -> Option<Offset> {
        let place = self.waiting.iter().position(|sent| sent.serial == serial)?;
        Some(self.waiting.iter().take(place).fold(self.end(), |end, sent| end.plus(sent.records)))
    }

    /// The log went on where `end` is when all before `serial` stay that are there: of what failed before it, the last ones are not.
    pub fn settle_failed_before(&mut self, serial: u64, end: Offset) {
        let end_before = |log: &LogModel| {
            let before = log.waiting.iter().take_while(|sent| sent.serial < serial);
            before.fold(log.end(), |end, sent| end.plus(sent.records))
        };
        while end_before(self) > end && self.forget_failed_before(serial) {}
    }

    /// Forgets the last of what failed before `serial`; false when there is none.
    fn forget_failed_before(&mut self, serial: u64) -> bool {
        let last = self.waiting.iter().rposition(|sent| sent.failed && sent.serial < serial);
        let forgotten = last.and_then(|last| self.waiting.remove(last)).is_some();
        self.dropped += usize::from(forgotten);
        forgotten
    }

    fn forget_accepted_before(&mut self, serial: u64) -> bool {
        let place = self.waiting.iter().position(|sent| sent.serial == serial).unwrap_or_default();
        let accepted = self.waiting.iter().take(place).rposition(|sent| sent.answered == Some(Level::Accepted));
        accepted.and_then(|accepted| self.waiting.remove(accepted)).is_some()
    }

    fn hold_through(&mut self, end: Offset, store_time_ms: u64) {
        while let Some(sent) = self.waiting.front().filter(|sent| self.end().plus(sent.records) <= end).cloned() {
            self.waiting.pop_front();
            let first = self.end();
            self.held.push(Held { sent, first, store_time_ms, acknowledged: true });
            self.kept_by_kill = self.kept_by_kill.saturating_sub(1);
        }
    }

    fn take_waiting(&mut self, serial: u64) -> Option<Sent> {
        let place = self.waiting.iter().position(|sent| sent.serial == serial)?;
        self.waiting.remove(place)
    }
}

/// What a store must hold.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Its logs.
    pub logs: Vec<LogModel>,
}

impl Model {
    /// The number of a log in the model; it is added when it is new.
    ///
    /// # Panics
    /// When there are more logs than range numbers.
    pub fn log(&mut self, number: usize) -> &mut LogModel {
        while self.logs.len() <= number {
            let topic = Topic::new(format!("t{}", self.logs.len())).expect("a plain topic");
            let id = LogId { topic, range: RangeNumber::new(0).expect("a small number") };
            self.logs.push(LogModel {
                id,
                made: false,
                held: Vec::new(),
                waiting: VecDeque::new(),
                kept_by_kill: 0,
                failed: false,
                dropped: 0,
                start: Offset(0),
                epoch: 0,
                fence: None,
                gone: false,
                changes: Vec::new(),
                version: 0,
            });
        }
        &mut self.logs[number]
    }

    /// The store answered a batch. One that is durable makes all before it durable.
    ///
    /// # Errors
    /// When it may not have.
    pub fn acknowledge(&mut self, log: usize, serial: u64, receipt: &Receipt, tolerant: bool) -> Checked {
        let log = self.log(log);
        if tolerant {
            // What was accepted before a failure is gone without a word, and its offsets are given again.
            // What failed is there or not, and when the log goes on that is settled.
            while log.offset_of(serial).is_some_and(|first| first > receipt.first)
                && (log.forget_failed_before(serial) || log.forget_accepted_before(serial))
            {}
        }
        checker::answered_in_order(log, serial, receipt)?;
        if receipt.level == Level::Durable {
            log.hold_through(receipt.end, receipt.store_time_ms);
        } else if let Some(sent) = log.waiting.iter_mut().find(|sent| sent.serial == serial) {
            sent.answered = sent.answered.max(Some(receipt.level));
        }
        Ok(())
    }

    /// All that ends at or before `end` is durable.
    pub fn durable_through(&mut self, log: usize, end: Offset) {
        self.log(log).hold_through(end, 0);
    }

    /// The process died, and the machine lives: what was written is there, and all before it.
    pub fn process_died(&mut self) {
        for log in &mut self.logs {
            let written = log.waiting.iter().rposition(|sent| sent.answered >= Some(Level::Written));
            log.kept_by_kill = written.map_or(0, |last| last + 1);
        }
    }

    /// The machine lost power: only what is durable has to be there.
    pub fn power_failed(&mut self) {
        self.logs.iter_mut().for_each(|log| log.kept_by_kill = 0);
    }

    /// The store was closed in order: everything that was answered is durable.
    pub fn closed(&mut self) {
        for log in &mut self.logs {
            if let Some(last) = log.waiting.iter().rposition(|sent| sent.answered.is_some()) {
                let end = log.waiting.iter().take(last + 1).fold(log.end(), |end, sent| end.plus(sent.records));
                log.hold_through(end, 0);
            }
        }
    }

    /// The store refused a batch without touching the disk: it must never be found.
    pub fn refuse(&mut self, log: usize, serial: u64) {
        self.log(log).take_waiting(serial);
    }

    /// The write of a batch failed: it may be found or not. Nothing behind it may be acknowledged, except by a log that `heals`.
    pub fn fail(&mut self, log: usize, serial: u64, heals: bool) {
        let log = self.log(log);
        log.failed |= !heals;
        log.waiting.iter_mut().filter(|sent| sent.serial == serial).for_each(|sent| sent.failed = true);
    }

    /// Takes over what a log holds after a recovery: what is not there of what waited was dropped, and must never return. Of the changes
    /// that were asked for and not answered some first ones were made, each whole.
    ///
    /// # Errors
    /// When the log does not hold what it must.
    pub fn recovered(&mut self, log: usize, read: &[StoredBatch], seen: &Seen) -> Checked {
        let log = self.log(log);
        checker::store_times_never_go_backwards(read)?;
        let mut wrong: Option<Violation> = None;
        let mut right = None;
        // The last ones of what failed may have been cleared by a log that went on, with others behind them.
        let mut left = Some(log.clone());
        while let (Some(mut before), None) = (left.take(), &right) {
            for made in possible(&before.changes) {
                let changed = before.with_changes(&made);
                match changed.check_recovered(read, seen) {
                    Ok(()) => {
                        right = Some(changed);
                        break;
                    }
                    // What is said of the one whose bounds fit tells most.
                    Err(why) if wrong.is_none() || changed.bounds() == (seen.start, seen.epoch, seen.fence) => {
                        wrong = Some(why);
                    }
                    Err(_) => {}
                }
            }
            left = before.forget_failed_before(u64::MAX).then_some(before);
        }
        match (right, wrong) {
            (Some(right), _) => *log = right,
            (None, wrong) => return wrong.map_or(Ok(()), Err),
        }
        for batch in read.iter().skip(log.held.len()) {
            let sent = log.waiting.pop_front().expect("the checker saw that it is what was sent next");
            let (first, store_time_ms) = (batch.first(), batch.store_time_ms());
            log.held.push(Held { sent, first, store_time_ms, acknowledged: false });
        }
        log.dropped += log.waiting.len();
        log.waiting.clear();
        log.kept_by_kill = 0;
        log.failed = false;
        Ok(())
    }

    /// A log is not there after a recovery.
    ///
    /// # Errors
    /// When it has to be.
    pub fn missing(&mut self, log: usize) -> Checked {
        let log = self.log(log);
        let deleted = possible(&log.changes).iter().map(|made| log.with_changes(made)).find(|log| log.gone);
        checker::a_log_that_was_made_stays(log, deleted.is_some())?;
        if let Some(deleted) = deleted {
            *log = deleted;
        }
        log.waiting.clear();
        log.changes.clear();
        Ok(())
    }

    /// How many batches are held in all.
    #[must_use]
    pub fn held(&self) -> usize {
        self.logs.iter().map(|log| log.held.len()).sum()
    }
}
