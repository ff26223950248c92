//! Session: a store, its logs, and the model of each, kept up with every answer.

use super::job::{Answer, Job};
use super::model::{Model, Went};
use crate::check::{self, Unread};
use crate::clock::Clock;
use crate::content::{self, LONG};
use crate::history::Found;
use crate::shape::Io;
use std::fmt::Display;
use strandline::{AppendError, Appending, Config, Level, Log, Offset, RangeNumber, ReadError, Store};
use strandline_tests::tiers::promise::{Broken, Promise};

/// Refusals that are told word by word.
const TOLD_MAX: usize = 6;

/// A store in use.
pub struct Session<'a> {
    job: &'a Job,
    clock: Option<Clock>,
    store: Option<Store>,
    logs: Vec<Option<Log>>,
    /// Nothing may be refused any more.
    pub strict: bool,
    /// What will be answered.
    pub answer: Answer,
}

/// Appends that were not answered yet, with their numbers.
pub type Waiting = Vec<(u64, Appending)>;

/// Half of the configurations have no room for spare files: what is given up is then cut short and removed, and not used again.
fn config(job: &Job) -> Config {
    let config = job.shape.config(&job.root);
    match job.shape.io {
        Io::Direct => config,
        Io::Buffered => Config { spare_bytes_max: 0, spare_files_min: 0, ..config },
    }
}

impl<'a> Session<'a> {
    /// Of logs that should hold this. Nothing is open yet.
    pub fn new(job: &'a Job, models: &[Model]) -> Session<'a> {
        let answer = Answer { models: models.to_vec(), ..Answer::default() };
        let logs = models.iter().map(|_| None).collect();
        Session { job, clock: Clock::open(&job.clock).ok(), store: None, logs, strict: false, answer }
    }

    /// How often the fault has struck.
    pub fn struck(&self) -> u64 {
        self.clock.as_ref().and_then(|clock| clock.read().ok()).map_or(0, |time| time.events)
    }

    /// Something is wrong whatever has failed.
    pub fn violated(&mut self, broken: Broken) {
        self.answer.violations.push(broken);
    }

    fn broke(&mut self, promise: Promise, seen: String) {
        self.violated(Broken::new(promise, seen));
    }

    /// A call was answered: gives the answer, or notes that it was refused.
    pub fn answered<T, E: Display>(&mut self, doing: &str, answer: Result<T, E>) -> Option<T> {
        self.answer.calls += 1;
        let error = match answer {
            Ok(answer) => return Some(answer),
            Err(error) => format!("{doing}: {error}"),
        };
        self.answer.refused += 1;
        if self.strict {
            self.broke(Promise::GoesOn, format!("nothing fails any more, and yet: {error}"));
        } else if self.struck() == 0 {
            self.broke(Promise::GoesOn, format!("nothing has failed so far, and yet: {error}"));
        } else if self.answer.refusals.len() < TOLD_MAX {
            self.answer.refusals.push(error);
        }
        None
    }

    /// The open store.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// A log that is open.
    pub fn log(&self, which: usize) -> Option<Log> {
        self.logs[which].clone()
    }

    /// The model of a log.
    pub fn model(&mut self, which: usize) -> &mut Model {
        &mut self.answer.models[which]
    }

    /// Opens the store, without its logs. False when that was refused.
    pub fn open(&mut self) -> bool {
        let opened = Store::open(config(self.job));
        self.store = self.answered("opening", opened);
        // Where the disk fails while the store opens, what could not be read counts as damaged until the next open.
        let fails = !self.strict && self.struck() > 0;
        let damaged = self.store.as_ref().map(|store| store.report().damaged.clone());
        for damaged in damaged.unwrap_or_default() {
            let damaged = format!("opening says that something is damaged: {damaged}");
            if fails { self.answer.refusals.push(damaged) } else { self.broke(Promise::Readable, damaged) }
        }
        self.store.is_some()
    }

    /// Opens or makes a log.
    pub fn open_log(&mut self, which: usize) {
        let Some(store) = &self.store else { return };
        let opened = store.log(&content::topic(which), RangeNumber::default());
        self.logs[which] = self.answered("opening a log", opened);
        match self.logs[which] {
            Some(_) => self.model(which).made(),
            None => self.model(which).perhaps_made(),
        }
    }

    /// Opens a log that is there.
    pub fn find_log(&mut self, which: usize) {
        let Some(store) = &self.store else { return };
        let found = store.find(&content::topic(which), RangeNumber::default());
        self.logs[which] = self.answered("finding a log", found).flatten();
    }

    /// Closes the store. `otherwise` is what an unclean end counts as.
    pub fn close(&mut self, otherwise: Went) {
        let Some(store) = self.store.take() else { return };
        self.logs.iter_mut().for_each(|log| *log = None);
        let closed = self.answered("closing", store.close());
        self.went(if closed.is_some() { Went::Closed } else { otherwise });
    }

    /// The store is not used any more, and is not closed either: its process ends.
    pub fn leave(&mut self, how: Went) {
        std::mem::forget(self.store.take());
        self.went(how);
    }

    fn went(&mut self, how: Went) {
        self.answer.models.iter_mut().for_each(|model| model.went(how));
    }

    /// Hands batches over.
    pub fn start(&mut self, which: usize, batches: usize, level: Level) -> Waiting {
        let Some(log) = self.log(which) else { return Waiting::new() };
        let mut waiting = Waiting::new();
        for _ in 0..batches {
            let number = self.model(which).append();
            let started = log.append_with(content::batch(&log, LONG + which, number), level);
            match self.answered("an append", started) {
                Some(appending) => waiting.push((number, appending)),
                None => self.model(which).refused(number),
            }
        }
        waiting
    }

    /// Waits for what was handed over. Gives how many were taken.
    pub fn finish(&mut self, which: usize, waiting: Waiting) -> usize {
        let mut taken = 0;
        for (number, appending) in waiting {
            let answer = appending.wait();
            let open =
                matches!(answer, Err(AppendError::Failed { .. } | AppendError::Lost { .. } | AppendError::ShardGone));
            match self.answered(&format!("append {number} to log {which}"), answer) {
                Some(receipt) => {
                    taken += 1;
                    self.model(which).appended(number, receipt.first.0, receipt.level);
                }
                None if open => {}
                None => self.model(which).refused(number),
            }
        }
        taken
    }

    /// Appends and waits. Gives how many were taken.
    pub fn append(&mut self, which: usize, batches: usize, level: Level) -> usize {
        let waiting = self.start(which, batches, level);
        self.finish(which, waiting)
    }

    /// Reads a log and compares it with its model.
    pub fn read(&mut self, which: usize) -> Option<Found> {
        let log = self.log(which)?;
        let read = check::read(&log, LONG + which);
        let wrong = match &read {
            Err(Unread::Refused(_, ReadError::Corrupt { from, .. })) => !self.model(which).may_be_cleared(from.0),
            Err(Unread::Wrong(_) | Unread::Refused(_, ReadError::OutOfRange { .. })) => true,
            _ => false,
        };
        if let (true, Err(error)) = (wrong, &read) {
            self.violated(error.broken().of(format_args!("log {which}")));
        }
        let found = self.answered(&format!("reading log {which}"), read)?;
        if let Err(broken) = self.model(which).allows(Some(&found)) {
            self.violated(broken.of(format_args!("log {which}")));
        }
        self.model(which).shown(&found);
        Some(found)
    }

    /// Seals the segment that is written to.
    pub fn seal(&mut self, which: usize) {
        let Some(log) = self.log(which) else { return };
        let sealed = log.seal().wait();
        self.answered("a seal", sealed);
    }

    /// Drops the last batches.
    pub fn truncate(&mut self, which: usize, batches: usize) {
        let (Some(log), ends) = (self.log(which), self.model(which).sure_ends()) else { return };
        let Some(end) = ends.iter().rev().nth(batches).copied() else { return };
        let truncated = log.truncate_to(Offset(end)).wait();
        let truncated = self.answered("a truncation", truncated);
        if truncated.is_some_and(|truncated| truncated.end.0 != end) {
            self.broke(Promise::Right, format!("log {which}: a truncation to {end} says {truncated:?}"));
        }
        self.model(which).truncated(end, truncated.is_some());
    }

    /// Gives up what is before the n-th batch.
    pub fn trim(&mut self, which: usize, batches: usize) {
        let (Some(log), ends) = (self.log(which), self.model(which).sure_ends()) else { return };
        let Some(start) = ends.get(batches).copied() else { return };
        let trimmed = log.trim(Offset(start)).wait();
        let trimmed = self.answered("a trim", trimmed);
        if trimmed.is_some_and(|at| at.0 != start) {
            self.broke(Promise::Right, format!("log {which}: a trim to {start} says {trimmed:?}"));
        }
        self.model(which).trimmed(start, trimmed.is_some());
    }

    /// Gives up the oldest segment, where it is not the only one.
    pub fn delete_oldest(&mut self, which: usize) {
        let Some(log) = self.log(which) else { return };
        let stats = log.stats().wait();
        let Some(info) = self.answered("statistics", stats) else { return };
        let [oldest, next, ..] = &info.segments[..] else { return };
        let deleted = log.delete_segment(oldest.seq).wait();
        let deleted = self.answered("the deletion of a segment", deleted);
        self.model(which).trimmed(next.base.0, deleted.is_some());
    }

    /// Gives the whole log up.
    pub fn delete(&mut self, which: usize) {
        let Some(store) = &self.store else { return };
        let deleted = store.delete_log(&content::topic(which), RangeNumber::default());
        let deleted = self.answered("the deletion of a log", deleted);
        self.logs[which] = None;
        self.model(which).deleted(deleted.is_some());
    }

    /// Reads all that lies on disk.
    pub fn verify(&mut self, which: usize) {
        let Some(log) = self.log(which) else { return };
        let verified = log.verify(None).wait();
        let rot = self.answered("verifying", verified).and_then(|verified| verified.rot.into_iter().next());
        if let Some(rot) = rot {
            self.broke(Promise::Readable, format!("log {which}: verifying finds {rot:?}"));
        }
    }
}
