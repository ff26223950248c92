//! Books: what the logs must hold, kept by the run from what the process of the store tells, and outliving that process. Pure, but for the time
//! that is passed in.

use super::role::{AGES_KEPT_MS, BYTES_KEPT, Keep, ROLES};
use super::told::{Counted, Told, Verb};
use crate::faults::model::{Model, Went};
use crate::history::Found;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use strandline_tests::tiers::promise::{Broken, Promise};

/// What a batch takes beside its payload, at most.
const BATCH_OVERHEAD: u64 = 128;

/// A policy that keeps bytes may let go of a segment's more, and a crash of what was not durable.
const BYTES_SLACK: u64 = (64 + 64) << 10;

/// How much two readings of the wall clock may lie apart the wrong way.
const CLOCK_SLACK_MS: u64 = 100;

/// Refusals that are told word by word.
const TOLD_MAX: usize = 5;

/// Whether something may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusals {
    /// No: nothing fails.
    No,
    /// Until this moment.
    Until(Instant),
    /// Until the store is opened again.
    UntilOpened,
}

/// All logs of a store.
#[derive(Debug)]
pub struct Books {
    logs: Vec<Kept>,
    /// Whether something may be refused now.
    pub refusals: Refusals,
    /// Something has failed since the store was opened: what was not acknowledged as durable may be lost.
    rough: bool,
    /// The store is open.
    open: bool,
    /// How often it was opened.
    pub openings: u64,
    /// When that was last.
    pub opened: Instant,
    /// The store was closed since it was opened last.
    pub closed: bool,
    /// What is wrong.
    pub broken: Vec<Broken>,
    /// Batches that had been acknowledged as durable, and were looked for.
    pub checked: u64,
    /// Calls that were refused while something failed.
    pub refused: u64,
    /// The first of them.
    pub refusals_told: Vec<String>,
    /// What the process has done so far.
    pub counted: Counted,
    /// When the process was heard of last.
    pub heard: Instant,
}

/// One log.
#[derive(Debug)]
struct Kept {
    model: Model,
    keep: Keep,
    /// When each batch was handed over, wall ms, and its bytes.
    written: BTreeMap<u64, (u64, u64)>,
    /// A truncation or deletion that was not answered so far.
    asked: Option<Verb>,
    /// How far readers have come.
    read: u64,
    /// How often it was looked at since the store was opened.
    looks: u64,
    halted: bool,
}

impl Kept {
    /// Up to where the policy may have let records go by this wall time.
    fn may_expire(&self, at_ms: u64) -> u64 {
        let age = AGES_KEPT_MS[0] - CLOCK_SLACK_MS;
        let kept = BYTES_KEPT[0] - BYTES_SLACK;
        let of = |number: &u64| self.written.get(number).copied().unwrap_or_default();
        match self.keep {
            Keep::Told | Keep::Guest => 0,
            Keep::Age => {
                let old = self.model.places().filter(|(number, ..)| of(number).0 + age <= at_ms);
                old.map(|(.., end)| end).max().unwrap_or(0)
            }
            Keep::Bytes => {
                let sums = self.model.places().rev().scan(0, |sum, (number, first, _)| {
                    *sum += of(&number).1 + BATCH_OVERHEAD;
                    Some((*sum, first))
                });
                sums.into_iter().find(|(sum, _)| *sum >= kept).map_or(0, |(_, first)| first)
            }
        }
    }

    /// Compares what was found, the first time after an opening or later.
    fn look(&mut self, at_ms: u64, found: Option<&Found>) -> Result<u64, Broken> {
        self.model.trimmed(self.may_expire(at_ms), false);
        let checked = self.model.sure();
        self.model.allows(found)?;
        match found {
            _ if self.looks == 0 => self.model.is(found),
            None => {}
            Some(found) => {
                self.model.shown(found);
                self.model.trimmed(found.start, true);
            }
        }
        self.looks += 1;
        self.model.forget();
        let first = self.model.places().next().map_or(u64::MAX, |(number, ..)| number);
        self.written = self.written.split_off(&first);
        Ok(checked)
    }

    /// What was read before stays.
    fn looking(&mut self) {
        self.model.read_to(std::mem::take(&mut self.read));
    }

    fn done(&mut self, verb: Verb, done: bool) {
        self.asked = None;
        match verb {
            Verb::Truncate(end) => self.model.truncated(end, done),
            Verb::Trim(to) => self.model.trimmed(to, done),
            Verb::Delete => self.model.deleted(done),
        }
    }

    /// Whether what stands there may have been cleared already, by what was not answered.
    fn may_be_cleared(&self, offset: u64) -> bool {
        let asked = match self.asked {
            Some(Verb::Truncate(end)) => offset >= end,
            Some(Verb::Delete) => true,
            _ => false,
        };
        asked || self.model.may_be_cleared(offset)
    }

    fn went(&mut self, how: Went) {
        if let Some(verb) = self.asked {
            self.done(verb, false);
        }
        self.looking();
        self.model.went(how);
        (self.looks, self.halted) = (0, false);
    }
}

impl Books {
    /// Of a store that was not made yet.
    pub fn new(now: Instant) -> Books {
        let kept = |role: &super::role::Role| Kept {
            model: Model::new(role.of),
            keep: role.keep,
            written: BTreeMap::new(),
            asked: None,
            read: 0,
            looks: 0,
            halted: false,
        };
        Books {
            logs: ROLES.iter().map(kept).collect(),
            refusals: Refusals::No,
            rough: false,
            open: false,
            openings: 0,
            opened: now,
            closed: false,
            broken: Vec::new(),
            checked: 0,
            refused: 0,
            refusals_told: Vec::new(),
            counted: Counted::default(),
            heard: now,
        }
    }

    /// Something is about to fail. `refusals` says until when that may be heard of.
    pub fn fails(&mut self, refusals: Refusals) {
        (self.refusals, self.rough) = (refusals, true);
    }

    /// How often each log was looked at since the store was opened, at least; those apart of which nothing is asked any more.
    pub fn looks(&self) -> u64 {
        self.logs.iter().filter(|kept| !kept.halted).map(|kept| kept.looks).min().unwrap_or(u64::MAX)
    }

    /// Whether the store is open, and each log was looked at since.
    pub fn settled(&self) -> bool {
        self.open && self.logs.iter().all(|kept| kept.looks > 0)
    }

    /// The store is not open any more.
    pub fn went(&mut self, how: Went) {
        let how = if self.rough { Went::Lost } else { how };
        self.logs.iter_mut().for_each(|kept| kept.went(how));
        (self.refusals, self.rough, self.open) = (Refusals::No, false, false);
    }

    /// Takes what was counted by a process that is gone.
    pub fn take_counted(&mut self) -> Counted {
        std::mem::take(&mut self.counted)
    }

    fn broke(&mut self, promise: Promise, seen: String) {
        self.broken.push(Broken::new(promise, seen));
    }

    fn refused(&mut self, doing: &str, error: &str, now: Instant) {
        let may = match self.refusals {
            Refusals::No => false,
            Refusals::Until(until) => now <= until,
            Refusals::UntilOpened => true,
        };
        let told = format!("{doing}: {error}");
        if !may {
            return self.broke(Promise::GoesOn, format!("nothing fails, and yet: {told}"));
        }
        self.refused += 1;
        if self.refusals_told.len() < TOLD_MAX && !self.refusals_told.contains(&told) {
            self.refusals_told.push(told);
        }
    }

    /// Hears what the process tells.
    pub fn hear(&mut self, told: Told, now: Instant) {
        self.heard = now;
        match told {
            Told::Opened(damaged) => {
                (self.open, self.closed) = (true, false);
                (self.openings, self.opened) = (self.openings + 1, now);
                damaged.into_iter().for_each(|what| self.broke(Promise::Readable, format!("opening says: {what}")));
            }
            Told::Found { log, at_ms, found } => match self.logs[log].look(at_ms, found.as_ref()) {
                Ok(checked) => self.checked += checked,
                Err(broken) => self.broken.push(broken.of(format_args!("log {}", ROLES[log].topic))),
            },
            Told::Halted(log) => self.logs[log].halted = true,
            Told::Making(log) => self.logs[log].model.perhaps_made(),
            Told::Made(log) => self.logs[log].model.made(),
            Told::Begin { log, number, at_ms, bytes } => {
                self.logs[log].model.append_as(number);
                self.logs[log].written.insert(number, (at_ms, bytes));
            }
            Told::Answered { log, number, first, level } => match self.rough {
                true => self.logs[log].model.appended_by_itself(number, first, level.into()),
                false => self.logs[log].model.appended(number, first, level.into()),
            },
            Told::Untried { log, number } => self.logs[log].model.refused(number),
            Told::Ask(log, Verb::Trim(to)) => self.logs[log].model.trimmed(to, false),
            Told::Ask(log, verb) => self.logs[log].asked = Some(verb),
            Told::Done(log, verb, done) => self.logs[log].done(verb, done),
            Told::Looking(log) => self.logs[log].looking(),
            // A look that is under way may have begun before.
            Told::Read(log, end) => self.logs[log].read = end,
            Told::Damaged(log, from, error) if self.logs[log].may_be_cleared(from) => {
                self.refused(ROLES[log].topic, &error, now);
            }
            Told::Damaged(log, _, error) => self.broke(Promise::Readable, format!("log {}: {error}", ROLES[log].topic)),
            Told::Refused(doing, error) => self.refused(&doing, &error, now),
            Told::Broke(broken) => self.broken.push(broken),
            Told::Counted(counted) => self.counted = counted,
            Told::Closed(done) => {
                self.closed = true;
                self.went(if done { Went::Closed } else { Went::Lost });
            }
        }
    }

    /// Nothing was heard for so long.
    pub fn silent(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard)
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::Reached;
    use super::*;
    use crate::content;
    use crate::history::Held;

    const LOG_OF_BYTES: usize = 0;
    const LOG_OF_AGES: usize = 2;

    /// Books in which a log has so many durable batches of 8 KiB, a second apart, and what would be found of it.
    fn of(log: usize, batches: u64) -> (Books, Found, Instant) {
        let now = Instant::now();
        let (mut books, mut found) = (Books::new(now), Found { start: 0, end: 0, batches: Vec::new() });
        for log in 0..ROLES.len() {
            books.hear(Told::Found { log, at_ms: 0, found: None }, now);
        }
        books.hear(Told::Made(log), now);
        for number in 0..batches {
            let held = Held { first: found.end, end: found.end + content::records(ROLES[log].of, number), number };
            books.hear(Told::Begin { log, number, at_ms: number * 1_000, bytes: 8 << 10 }, now);
            books.hear(Told::Answered { log, number, first: held.first, level: Reached::Durable }, now);
            found.end = held.end;
            found.batches.push(held);
        }
        (books, found, now)
    }

    fn from(found: &Found, batch: usize) -> Option<Found> {
        let batches = found.batches[batch..].to_vec();
        Some(Found { start: batches.first().map_or(found.end, |held| held.first), end: found.end, batches })
    }

    fn is_well(log: usize, batches: u64, gone: usize, at_ms: u64) -> bool {
        let (mut books, found, now) = of(log, batches);
        books.hear(Told::Found { log, at_ms, found: from(&found, gone) }, now);
        assert!(books.broken.len() < 2, "{:?}", books.broken);
        books.broken.is_empty()
    }

    #[test]
    fn what_is_younger_than_its_policy_allows_has_not_expired() {
        assert!(is_well(LOG_OF_AGES, 10, 0, 9_000));
        assert!(is_well(LOG_OF_AGES, 10, 7, 9_000), "those are 3 s old");
        assert!(!is_well(LOG_OF_AGES, 10, 8, 9_000), "the eighth is 2 s old");
    }

    #[test]
    fn what_the_policy_keeps_of_bytes_has_not_expired() {
        // 128 KiB at least: 15 batches with what is around them reach less, 16 more.
        assert!(is_well(LOG_OF_BYTES, 100, 84, 0));
        assert!(!is_well(LOG_OF_BYTES, 100, 86, 0));
        assert!(!is_well(LOG_OF_BYTES, 10, 1, 0), "it never had that many");
    }

    #[test]
    fn what_expired_does_not_come_back() {
        let (mut books, found, now) = of(LOG_OF_AGES, 10);
        for gone in [5, 4] {
            books.hear(Told::Found { log: LOG_OF_AGES, at_ms: 9_000, found: from(&found, gone) }, now);
            // The first look after the opening was before there was anything.
            assert_eq!(books.broken.is_empty(), gone == 5);
        }
    }

    #[test]
    fn an_acknowledged_batch_that_is_missing_breaks_a_promise_in_the_next_process_too() {
        for how in [Went::Closed, Went::Killed, Went::Lost] {
            let (mut books, mut found, now) = of(0, 3);
            books.went(how);
            assert!(!books.settled());
            found.end = found.batches.pop().map_or(0, |held| held.first);
            books.hear(Told::Found { log: 0, at_ms: 0, found: Some(found) }, now);
            assert_eq!(books.broken.first().map(|broken| broken.promise), Some(Promise::Kept), "{how:?}");
        }
    }

    #[test]
    fn what_was_read_before_a_look_began_must_be_in_it() {
        let (mut books, found, now) = of(0, 3);
        let read = Told::Read(0, found.end + 1);
        books.hear(Told::Looking(0), now);
        books.hear(read, now);
        books.hear(Told::Found { log: 0, at_ms: 0, found: Some(found.clone()) }, now);
        assert!(books.broken.is_empty(), "it was read while the look was under way");
        books.hear(Told::Looking(0), now);
        books.hear(Told::Found { log: 0, at_ms: 0, found: Some(found) }, now);
        assert_eq!(books.broken.first().map(|broken| broken.promise), Some(Promise::Kept));
    }

    #[test]
    fn something_is_refused_only_while_something_fails() {
        let (mut books, _, now) = of(0, 1);
        let refuse = |books: &mut Books, at: Instant| {
            books.hear(Told::Refused("a seal".to_owned(), "no".to_owned()), at);
            books.broken.len()
        };
        books.fails(Refusals::Until(now + Duration::from_secs(1)));
        assert_eq!(refuse(&mut books, now), 0);
        assert_eq!(refuse(&mut books, now + Duration::from_secs(2)), 1);
        books.fails(Refusals::UntilOpened);
        assert_eq!(refuse(&mut books, now), 1);
        books.went(Went::Closed);
        assert_eq!(refuse(&mut books, now), 2);
        assert_eq!(books.refused, 2);
    }

    #[test]
    fn damage_is_only_where_a_truncation_was_not_answered() {
        let (mut books, found, now) = of(4, 4);
        let end = found.batches[2].first;
        let look = |books: &mut Books, from: u64| {
            books.hear(Told::Damaged(4, from, "damaged".to_owned()), now);
            books.broken.len()
        };
        books.fails(Refusals::UntilOpened);
        books.hear(Told::Ask(4, Verb::Truncate(end)), now);
        assert_eq!(look(&mut books, end), 0);
        assert_eq!(look(&mut books, end - 1), 1);
        books.hear(Told::Done(4, Verb::Truncate(end), true), now);
        assert_eq!(look(&mut books, end), 2, "it was answered: nothing is there any more");
    }
}
