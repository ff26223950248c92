//! Model: what a log must, may and must not hold after calls that were answered, refused or left open. Pure.

use crate::content;
use crate::history::{Found, Held, lost, wrong};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strandline::Level;
use strandline_tests::tiers::promise::Broken;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Fate {
    /// It is there, at this offset.
    Sure(u64),
    /// It was answered, at this offset, and is in memory only (false) or written (true).
    Weak(u64, bool),
    /// It was written, and its process is gone: it is there, unless the power goes too.
    Kept(u64),
    /// It may be there; where it was answered, at this offset.
    Perhaps(Option<u64>),
    /// It is not.
    Never,
}

/// Whether a log exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum There {
    Yes,
    No,
    Perhaps,
}

/// How the process or the machine went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    /// The store was closed in order.
    Closed,
    /// The process went, and the page cache stayed.
    Killed,
    /// Everything that was not durable may be gone.
    Lost,
}

/// One log, as it should be. Batches carry numbers that count up over all its lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Which log: what its batches hold follows from that.
    log: usize,
    there: There,
    /// The least and the largest offset at which it may start.
    start: (u64, u64),
    /// What was once read stays.
    seen: u64,
    /// A truncation to here, or with 0 a deletion, was not answered: it may come to light when the store is opened again.
    cut: Option<u64>,
    next: u64,
    batches: BTreeMap<u64, Fate>,
}

impl Model {
    /// A log that is not there yet.
    pub fn new(log: usize) -> Model {
        Model { log, there: There::No, start: (0, 0), seen: 0, cut: None, next: 0, batches: BTreeMap::new() }
    }

    /// What its batches follow from.
    pub fn log(&self) -> usize {
        self.log
    }

    fn end_of(&self, number: u64, first: u64) -> u64 {
        first + content::records(self.log, number)
    }

    /// The ends of all batches that are sure, in order.
    pub fn sure_ends(&self) -> Vec<u64> {
        let sure = self.batches.iter().filter_map(|(number, fate)| match fate {
            Fate::Sure(first) => Some(self.end_of(*number, *first)),
            _ => None,
        });
        sure.filter(|end| *end > self.start.1).collect()
    }

    /// How many are sure.
    pub fn sure(&self) -> u64 {
        self.sure_ends().len() as u64
    }

    /// The log was made or found.
    pub fn made(&mut self) {
        if self.cut != Some(0) {
            self.there = There::Yes;
        }
    }

    /// A call that makes the log was refused.
    pub fn perhaps_made(&mut self) {
        if self.there == There::No {
            self.there = There::Perhaps;
        }
    }

    /// A batch is about to be handed over: its number.
    pub fn append(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.batches.insert(number, Fate::Perhaps(None));
        number
    }

    /// A batch of this number, which is larger than all before it, is about to be handed over.
    pub fn append_as(&mut self, number: u64) {
        self.next = number + 1;
        self.batches.insert(number, Fate::Perhaps(None));
    }

    /// It was answered where something fails: what is before it, and was not answered as durable, may be lost all the same.
    pub fn appended_by_itself(&mut self, number: u64, first: u64, level: Level) {
        let fate = if level == Level::Durable { Fate::Sure(first) } else { Fate::Weak(first, level == Level::Written) };
        self.batches.insert(number, fate);
        self.there = if level == Level::Durable { There::Yes } else { self.there };
    }

    /// It was answered. Durable is a prefix.
    pub fn appended(&mut self, number: u64, first: u64, level: Level) {
        let fate = if level == Level::Durable { Fate::Sure(first) } else { Fate::Weak(first, level == Level::Written) };
        self.batches.insert(number, fate);
        if level == Level::Durable {
            self.there = There::Yes;
            self.settle(|fate| match fate {
                Fate::Weak(before, _) if before < first => Fate::Sure(before),
                fate => fate,
            });
        }
    }

    /// It was refused before anything was done.
    pub fn refused(&mut self, number: u64) {
        self.batches.insert(number, Fate::Never);
    }

    /// What is before `to` was asked to go, and that was answered or not.
    pub fn trimmed(&mut self, to: u64, sure: bool) {
        self.start.1 = self.start.1.max(to);
        if sure {
            self.start.0 = self.start.0.max(to);
        }
    }

    /// What is at or past `end` was asked to go, while nothing was in flight, and that was answered or not.
    pub fn truncated(&mut self, end: u64, sure: bool) {
        self.seen = self.seen.min(end);
        if !sure {
            self.cut = Some(self.cut.map_or(end, |cut| cut.min(end)));
        }
        self.settle(|fate| match fate {
            Fate::Sure(first) | Fate::Weak(first, _) | Fate::Kept(first) | Fate::Perhaps(Some(first))
                if first >= end =>
            {
                if sure {
                    Fate::Never
                } else {
                    Fate::Perhaps(Some(first))
                }
            }
            fate => fate,
        });
    }

    /// The log was asked to go, and that was answered or not.
    pub fn deleted(&mut self, sure: bool) {
        self.seen = 0;
        if sure {
            (self.there, self.start) = (There::No, (0, 0));
            self.settle(|_| Fate::Never);
        } else {
            (self.there, self.start, self.cut) = (There::Perhaps, (0, self.start.1), Some(0));
            self.settle(|fate| match fate {
                Fate::Sure(first) | Fate::Weak(first, _) | Fate::Kept(first) => Fate::Perhaps(Some(first)),
                fate => fate,
            });
        }
    }

    /// The store is not open any more.
    pub fn went(&mut self, how: Went) {
        self.cut = None;
        self.settle(|fate| match (fate, how) {
            (Fate::Weak(first, _) | Fate::Kept(first), Went::Closed) => Fate::Sure(first),
            (Fate::Weak(first, true) | Fate::Kept(first), Went::Killed) => Fate::Kept(first),
            (Fate::Weak(first, _) | Fate::Kept(first), _) => Fate::Perhaps(Some(first)),
            (fate, _) => fate,
        });
    }

    fn settle(&mut self, settled: impl Fn(Fate) -> Fate) {
        self.batches.values_mut().for_each(|fate| *fate = settled(*fate));
    }

    /// Everything up to here was read: it stays.
    pub fn read_to(&mut self, end: u64) {
        self.seen = self.seen.max(end);
    }

    /// The number, first offset and end of each batch that may be there and has a place, in order.
    pub fn places(&self) -> impl DoubleEndedIterator<Item = (u64, u64, u64)> + '_ {
        self.batches.iter().filter_map(|(number, fate)| match fate {
            Fate::Sure(first) | Fate::Weak(first, _) | Fate::Kept(first) | Fate::Perhaps(Some(first)) => {
                Some((*number, *first, self.end_of(*number, *first)))
            }
            Fate::Perhaps(None) | Fate::Never => None,
        })
    }

    /// Forgets what cannot be there any more: were it found, it would count as never appended.
    pub fn forget(&mut self) {
        let (log, start) = (self.log, self.start.0);
        self.batches.retain(|number, fate| match fate {
            Fate::Sure(first) | Fate::Weak(first, _) | Fate::Kept(first) | Fate::Perhaps(Some(first)) => {
                *first + content::records(log, *number) > start
            }
            Fate::Perhaps(None) => true,
            Fate::Never => false,
        });
    }

    /// Whether what stands at this offset was to be dropped by a truncation that was not answered: it may have been cleared already.
    pub fn may_be_cleared(&self, offset: u64) -> bool {
        self.cut.is_some_and(|cut| offset >= cut)
    }

    /// What was found was shown to somebody: at least that is there from now on.
    pub fn shown(&mut self, found: &Found) {
        let cut = self.cut.unwrap_or(u64::MAX);
        self.seen = self.seen.max(found.end.min(cut));
        for held in found.batches.iter().filter(|held| held.end <= cut) {
            self.batches.insert(held.number, Fate::Sure(held.first));
        }
    }

    /// The store was opened without a fault: what was found is all that there is.
    pub fn is(&mut self, found: Option<&Found>) {
        self.settle(|_| Fate::Never);
        match found {
            None => (self.there, self.seen, self.start) = (There::No, 0, (0, 0)),
            Some(found) => {
                (self.there, self.seen, self.start) = (There::Yes, found.end, (found.start, found.start));
                self.shown(found);
            }
        }
    }

    /// Whether a log may be as it was found.
    ///
    /// # Errors
    /// What is wrong.
    pub fn allows(&self, found: Option<&Found>) -> Result<(), Broken> {
        match (self.there, found) {
            (There::Yes, None) => lost("it is not there".to_owned()),
            (_, None) => Ok(()),
            (There::No, Some(found)) => wrong(format!("it was deleted, and is there: {}..{}", found.start, found.end)),
            (_, Some(found)) => self.allows_found(found),
        }
    }

    fn allows_found(&self, found: &Found) -> Result<(), Broken> {
        let (least, most) = self.start;
        let starts = format!("it starts at {}, not at {least}..={most}", found.start);
        if found.start < least {
            return wrong(starts);
        }
        if found.start > most {
            return lost(starts);
        }
        if self.there == There::Yes && found.end < self.seen {
            return lost(format!("it ends at {}, and was read up to {}", found.end, self.seen));
        }
        self.in_order(found)?;
        for (number, fate) in &self.batches {
            let (Fate::Sure(first) | Fate::Kept(first)) = fate else { continue };
            let held = Held { first: *first, end: self.end_of(*number, *first), number: *number };
            if held.end > found.start && !found.batches.contains(&held) {
                return lost(format!("{held:?} was acknowledged, and is not there: it ends at {}", found.end));
            }
        }
        Ok(())
    }

    /// An unbroken run of batches that were appended, in the order in which they were.
    fn in_order(&self, found: &Found) -> Result<(), Broken> {
        let mut before: Option<&Held> = None;
        for held in &found.batches {
            match self.batches.get(&held.number) {
                Some(Fate::Sure(first) | Fate::Weak(first, _) | Fate::Kept(first) | Fate::Perhaps(Some(first)))
                    if *first != held.first =>
                {
                    return wrong(format!("{held:?} was answered at {first}"));
                }
                None => return wrong(format!("{held:?} was never appended")),
                Some(Fate::Never) => return wrong(format!("{held:?} was refused, truncated or deleted, and is there")),
                Some(_) => {}
            }
            match before {
                None if held.first > found.start => return wrong(format!("there is nothing before {held:?}")),
                Some(before) if before.end != held.first || before.number >= held.number => {
                    return wrong(format!("{held:?} stands behind {before:?}"));
                }
                _ => before = Some(held),
            }
        }
        match before.map_or(found.start, |held| held.end) {
            end if end == found.end => Ok(()),
            end => wrong(format!("its batches end at {end}, and it says {}", found.end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log with this many batches, all answered at this level.
    fn of(batches: u64, level: Level) -> (Model, Found) {
        let (mut model, mut found) = (Model::new(0), Found { start: 0, end: 0, batches: Vec::new() });
        model.made();
        for _ in 0..batches {
            let number = model.append();
            let held = Held { first: found.end, end: model.end_of(number, found.end), number };
            model.appended(number, held.first, level);
            found.end = held.end;
            found.batches.push(held);
        }
        (model, found)
    }

    fn without(found: &Found, last: usize) -> Found {
        let mut found = found.clone();
        found.batches.truncate(found.batches.len() - last);
        found.end = found.batches.last().map_or(found.start, |held| held.end);
        found
    }

    #[test]
    fn what_was_acknowledged_as_durable_must_be_there_and_the_rest_as_far_as_the_end_allows() {
        let (mut model, found) = of(4, Level::Durable);
        assert_eq!(model.allows(Some(&found)), Ok(()));
        assert!(model.allows(Some(&without(&found, 1))).is_err());
        assert!(model.allows(None).is_err());
        model.append();
        assert_eq!(model.allows(Some(&found)), Ok(()));
        let (weak, found) = of(4, Level::Written);
        for (how, allowed) in [(Went::Closed, false), (Went::Killed, false), (Went::Lost, true)] {
            let mut model = weak.clone();
            model.went(how);
            assert_eq!(model.allows(Some(&without(&found, 2))).is_ok(), allowed, "{how:?}");
            model.went(Went::Lost);
            assert_eq!(model.allows(Some(&without(&found, 2))).is_ok(), how != Went::Closed, "{how:?}");
        }
    }

    #[test]
    fn durable_is_a_prefix() {
        let (mut model, mut found) = of(2, Level::Accepted);
        let number = model.append();
        model.appended(number, found.end, Level::Durable);
        model.went(Went::Lost);
        assert!(model.allows(Some(&without(&found, 1))).is_err());
        found.batches.push(Held { first: found.end, end: model.end_of(number, found.end), number });
        found.end = model.end_of(number, found.end);
        assert_eq!(model.allows(Some(&found)), Ok(()));
    }

    #[test]
    fn what_was_refused_or_never_appended_must_not_be_there() {
        let (mut model, mut found) = of(2, Level::Durable);
        let number = model.append();
        let held = Held { first: found.end, end: model.end_of(number, found.end), number };
        found.batches.push(held);
        found.end = held.end;
        assert_eq!(model.allows(Some(&found)), Ok(()), "nobody said what became of it");
        model.refused(number);
        assert!(model.allows(Some(&found)).is_err());
        found.batches[2].number += 1;
        assert!(model.allows(Some(&found)).is_err(), "nobody appended it");
    }

    #[test]
    fn holes_moved_batches_and_wrong_ends_are_seen() {
        let (model, found) = of(4, Level::Written);
        let mut hole = found.clone();
        hole.batches.remove(1);
        let mut moved = found.clone();
        moved.batches[0].first += 1;
        let mut end = found.clone();
        end.end += 1;
        for wrong in [hole, moved, end] {
            assert!(model.allows(Some(&wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_truncation_drops_what_it_was_answered_for_and_may_drop_what_it_was_not() {
        let (model, found) = of(4, Level::Durable);
        let end = found.batches[2].first;
        let cut = without(&found, 2);
        let mut sure = model.clone();
        sure.truncated(end, true);
        assert!(sure.allows(Some(&cut)).is_ok() && sure.allows(Some(&found)).is_err());
        let mut open = model.clone();
        open.truncated(end, false);
        assert!(open.allows(Some(&cut)).is_ok() && open.allows(Some(&found)).is_ok());
        assert!(open.allows(Some(&without(&found, 3))).is_err());
        assert!(open.may_be_cleared(end) && !open.may_be_cleared(end - 1));
        open.shown(&found);
        open.went(Went::Killed);
        assert!(open.allows(Some(&cut)).is_ok(), "it may have come to light now");
        open.shown(&found);
        assert!(open.allows(Some(&cut)).is_err(), "it has not");
    }

    #[test]
    fn a_trim_moves_the_start_or_may_and_a_deletion_takes_all_or_may() {
        let (model, found) = of(4, Level::Durable);
        let start = found.batches[1].first;
        let trimmed = Found { start, batches: found.batches[1..].to_vec(), ..found };
        for (is_sure, old) in [(true, false), (false, true)] {
            let mut after = model.clone();
            after.trimmed(start, is_sure);
            assert!(after.allows(Some(&trimmed)).is_ok());
            assert_eq!(after.allows(Some(&found)).is_ok(), old);
            let mut after = model.clone();
            after.deleted(is_sure);
            assert!(after.allows(None).is_ok());
            assert_eq!(after.allows(Some(&found)).is_ok(), old);
            after.made();
            after.went(Went::Killed);
            assert_eq!(after.allows(None).is_ok(), old, "a deletion that was not answered may come to light");
        }
        assert!(model.allows(Some(&trimmed)).is_err());
    }

    #[test]
    fn what_is_forgotten_was_given_up_and_the_rest_is_held_to_as_before() {
        let (mut model, found) = of(4, Level::Durable);
        let start = found.batches[2].first;
        let trimmed = Found { start, batches: found.batches[2..].to_vec(), ..found.clone() };
        model.trimmed(start, true);
        model.forget();
        assert_eq!(model.places().count(), 2);
        assert!(model.allows(Some(&trimmed)).is_ok() && model.allows(Some(&without(&trimmed, 1))).is_err());
        assert!(model.allows(Some(&found)).is_err(), "it was given up");
        model.append_as(77);
        model.appended_by_itself(77, found.end, Level::Durable);
        assert!(model.allows(Some(&trimmed)).is_err(), "that one is missing");
    }

    #[test]
    fn where_something_fails_a_durable_batch_says_nothing_of_those_before_it() {
        let (mut model, found) = of(2, Level::Accepted);
        model.append_as(7);
        model.appended_by_itself(7, found.start, Level::Durable);
        model.went(Went::Lost);
        let end = model.end_of(7, found.start);
        let other = Found { start: 0, end, batches: vec![Held { first: 0, end, number: 7 }] };
        assert_eq!(model.allows(Some(&other)), Ok(()), "it has the place of what was lost");
        model.read_to(end + 1);
        assert!(model.allows(Some(&other)).is_err(), "more was read");
    }

    #[test]
    fn what_was_read_stays() {
        let (mut model, found) = of(3, Level::Accepted);
        model.shown(&without(&found, 1));
        model.went(Went::Lost);
        assert!(model.allows(Some(&without(&found, 1))).is_ok());
        assert!(model.allows(Some(&without(&found, 2))).is_err());
        model.is(Some(&without(&found, 1)));
        assert!(model.allows(Some(&found)).is_err(), "it was opened without the last one");
    }
}
