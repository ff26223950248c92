//! The logs of a shard, by their numbers. Of one that was deleted, and that nobody can ask for any more, only an empty place is left.

use super::state::Log;
use crate::id::{LogId, Offset, RangeNumber, Topic};
use std::ops::{Index, IndexMut};

/// The logs of a shard. A number is never given twice: whoever comes late with that of a log which is gone finds one that is deleted.
pub struct Logs<A> {
    places: Vec<Option<Box<Log<A>>>>,
    /// What stands for all that are gone: deleted, empty, and at rest.
    gone: Box<Log<A>>,
}

impl<A> Logs<A> {
    /// These logs, numbered from 0.
    #[must_use]
    pub fn new(logs: Vec<Log<A>>) -> Logs<A> {
        let places = logs.into_iter().map(|log| Some(Box::new(log))).collect();
        Logs { places, gone: Box::new(gone()) }
    }

    /// How many numbers were given.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Those that are not gone.
    pub fn iter(&self) -> impl Iterator<Item = &Log<A>> {
        self.places.iter().flatten().map(|log| &**log)
    }

    /// One of them, if there is such a number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&Log<A>> {
        self.places.get(number).map(|place| place.as_deref().unwrap_or(&self.gone))
    }

    /// Adds one, with the next number.
    pub fn push(&mut self, log: Log<A>) {
        self.places.push(Some(Box::new(log)));
    }

    /// Gives up what is left of a log that was deleted.
    pub fn bury(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(number).filter(|place| place.as_ref().is_none_or(|log| log.deleted)) {
            *place = None;
        }
    }
}

impl<A> Index<usize> for Logs<A> {
    type Output = Log<A>;

    fn index(&self, number: usize) -> &Log<A> {
        self.places[number].as_deref().unwrap_or(&self.gone)
    }
}

impl<A> IndexMut<usize> for Logs<A> {
    fn index_mut(&mut self, number: usize) -> &mut Log<A> {
        self.places[number].as_deref_mut().unwrap_or(&mut self.gone)
    }
}

fn gone<A>() -> Log<A> {
    let topic = Topic::new("deleted").expect("a plain name");
    let mut log = Log::empty(LogId { topic, range: RangeNumber::default() });
    log.deleted = true;
    log.losses.note(Offset(0));
    log.shared.close();
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_gone_is_deleted_and_its_number_is_not_given_again() {
        let mut logs: Logs<()> = Logs::new(Vec::new());
        for name in ["a", "b"] {
            logs.push(Log::empty(LogId { topic: Topic::new(name).expect("a name"), range: RangeNumber::default() }));
        }
        logs.bury(0);
        assert!(!logs[0].deleted, "one that lives is not buried");
        logs[0].deleted = true;
        logs.bury(0);
        assert!(logs[0].deleted && logs.get(0).is_some_and(|log| log.deleted));
        assert_eq!((logs.len(), logs.iter().count()), (2, 1));
        logs.push(gone());
        assert_eq!(logs.len(), 3);
        assert!(logs.get(3).is_none());
    }
}
