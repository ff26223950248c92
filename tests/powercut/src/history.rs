//! History: what a workload asked of its logs, when, and what may be there after a cut at some moment. Pure.

use serde::{Deserialize, Serialize};
use strandline_tests::tiers::promise::{Broken, Promise};

/// One thing that was asked of a log. Steps of a log stand in the order in which they were asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Which log.
    pub log: usize,
    /// Events of the disk before it was asked.
    pub begun: u64,
    /// Events of the disk when it was answered as durable. `None` is never, or not durable.
    pub answered: Option<u64>,
    /// What was asked.
    pub what: What,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A log is made, empty, with this start.
    Create {
        /// The offset.
        start: u64,
    },
    /// A batch goes to the end.
    Append(Held),
    /// Everything before an offset goes.
    Trim {
        /// The offset.
        start: u64,
    },
    /// Everything from an offset on goes. Only while nothing else of the log is in flight.
    Truncate {
        /// The end of what stays.
        end: u64,
    },
    /// The log goes. Only while nothing else of it is in flight.
    Delete,
}

/// A batch, as the model and the check know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its first offset.
    pub first: u64,
    /// One past its last offset.
    pub end: u64,
    /// Its number among the appends of its log, from which its bytes follow.
    pub number: u64,
}

/// What is found of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its start.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Its batches from the start on.
    pub batches: Vec<Held>,
}

/// One way in which a log may be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is not.
    Absent,
    /// It is.
    There {
        /// The least and the largest start.
        start: (u64, u64),
        /// Every batch that may be there.
        batches: Vec<Held>,
        /// What it must reach.
        sure_end: u64,
    },
}

/// The ways in which a log may be there after a cut before the event `position`.
pub fn ways(steps: &[Step], log: usize, position: u64) -> Vec<Way> {
    let mut ways = vec![Way::Absent];
    for step in steps.iter().filter(|step| step.log == log && step.begun < position) {
        let sure = step.answered.is_some_and(|answered| answered <= position);
        match &step.what {
            What::Create { start } => {
                let made = Way::There { start: (*start, *start), batches: Vec::new(), sure_end: *start };
                replace(&mut ways, vec![made], sure);
            }
            What::Delete => replace(&mut ways, vec![Way::Absent], sure),
            What::Truncate { end } => {
                let cut = ways.iter().map(|way| truncated(way, *end)).collect();
                replace(&mut ways, cut, sure);
            }
            What::Append(held) => ways.iter_mut().for_each(|way| append(way, *held, sure)),
            What::Trim { start } => ways.iter_mut().for_each(|way| trim(way, *start, sure)),
        }
    }
    ways
}

/// It is so now, or, unless that is sure, still may be as it was.
fn replace(ways: &mut Vec<Way>, now: Vec<Way>, sure: bool) {
    if sure {
        ways.clear();
    }
    ways.extend(now);
}

fn truncated(way: &Way, end: u64) -> Way {
    let mut way = way.clone();
    if let Way::There { batches, sure_end, .. } = &mut way {
        batches.retain(|held| held.end <= end);
        *sure_end = end;
    }
    way
}

fn append(way: &mut Way, held: Held, sure: bool) {
    if let Way::There { batches, sure_end, .. } = way {
        batches.push(held);
        if sure {
            *sure_end = held.end;
        }
    }
}

fn trim(way: &mut Way, to: u64, sure: bool) {
    if let Way::There { start, .. } = way {
        start.1 = start.1.max(to);
        if sure {
            start.0 = start.0.max(to);
        }
    }
}

impl Way {
    /// Whether what was found is this way.
    ///
    /// # Errors
    /// What is different.
    pub fn allows(&self, found: Option<&Found>) -> Result<(), Broken> {
        match (self, found) {
            (Way::Absent, None) => Ok(()),
            (Way::Absent, Some(found)) => wrong(format!("it is there, {}..{}", found.start, found.end)),
            (Way::There { .. }, None) => lost("it is not there".to_owned()),
            (Way::There { start, batches, sure_end }, Some(found)) => allows(*start, batches, *sure_end, found),
        }
    }
}

/// What was acknowledged or shown is not there.
///
/// # Errors
/// Always.
pub fn lost(seen: String) -> Result<(), Broken> {
    Err(Broken::new(Promise::Kept, seen))
}

/// Something is there that should not.
///
/// # Errors
/// Always.
pub fn wrong(seen: String) -> Result<(), Broken> {
    Err(Broken::new(Promise::Right, seen))
}

fn allows(start: (u64, u64), batches: &[Held], sure_end: u64, found: &Found) -> Result<(), Broken> {
    let starts = format!("it starts at {}, not at {}..={}", found.start, start.0, start.1);
    if found.start < start.0 {
        return wrong(starts);
    }
    if found.start > start.1 {
        return lost(starts);
    }
    if found.end < sure_end {
        return lost(format!("it ends at {}: what was acknowledged up to {sure_end} is lost", found.end));
    }
    let mut expected = batches.iter().filter(|held| held.end > found.start);
    let mut end = found.start;
    for held in &found.batches {
        match expected.next() {
            Some(wanted) if wanted == held => end = held.end,
            Some(wanted) => return wrong(format!("{held:?} stands where {wanted:?} was appended")),
            None => return wrong(format!("{held:?} was never appended, or was truncated")),
        }
    }
    if end != found.end {
        return wrong(format!("its batches end at {end}, and it says {}", found.end));
    }
    Ok(())
}

/// What else must hold when the power went away again, after a recovery had read up to `end` and appended another batch there. The batch is taken out
/// of what was found; `numbers_from` is where the numbers of such batches begin.
///
/// # Errors
/// What was read is gone, or the other batch is not where it was appended.
pub fn after_recovery(found: &mut Found, end: u64, was: (bool, bool), numbers_from: u64) -> Result<(), Broken> {
    let (was_read, was_appended) = was;
    let last = found.batches.pop_if(|held| held.number >= numbers_from);
    if let Some(held) = last {
        found.end = held.first;
    }
    match last {
        Some(held) if held.first != end => wrong(format!("{held:?} was appended after a recovery, at {end}")),
        None if was_appended => lost(format!("the batch that was acknowledged after a recovery, at {end}, is lost")),
        _ if was_read && found.end < end => lost(format!("it ends at {}, and was read up to {end}", found.end)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(number: u64) -> Held {
        Held { first: number * 2, end: number * 2 + 2, number }
    }

    fn step(begun: u64, answered: u64, what: What) -> Step {
        Step { log: 0, begun, answered: Some(answered), what }
    }

    /// A log, three appends, a trim, a truncation to two batches, a deletion.
    fn history() -> Vec<Step> {
        vec![
            step(0, 2, What::Create { start: 0 }),
            step(2, 4, What::Append(held(0))),
            step(3, 6, What::Append(held(1))),
            step(4, 8, What::Append(held(2))),
            step(8, 10, What::Trim { start: 2 }),
            step(10, 12, What::Truncate { end: 4 }),
            step(12, 14, What::Delete),
        ]
    }

    fn found(start: u64, numbers: std::ops::Range<u64>) -> Found {
        let batches: Vec<Held> = numbers.map(held).collect();
        Found { start, end: batches.last().map_or(start, |last| last.end), batches }
    }

    fn allowed(position: u64, found: Option<&Found>) -> bool {
        ways(&history(), 0, position).iter().any(|way| way.allows(found).is_ok())
    }

    #[test]
    fn what_was_acknowledged_must_be_there_and_what_was_asked_may() {
        assert!(allowed(1, None) && allowed(1, Some(&found(0, 0..0))));
        assert!(!allowed(2, None), "the log was made");
        assert!(!allowed(4, Some(&found(0, 0..0))), "the first batch is lost");
        assert!(allowed(4, Some(&found(0, 0..1))) && allowed(4, Some(&found(0, 0..2))));
        assert!(!allowed(4, Some(&found(0, 0..3))), "the third was not asked yet");
        assert!(allowed(5, Some(&found(0, 0..3))));
        assert!(!allowed(8, Some(&found(0, 0..2))));
    }

    #[test]
    fn a_hole_another_batch_and_a_wrong_end_are_noticed() {
        let mut hole = found(0, 0..3);
        hole.batches.remove(1);
        assert!(!allowed(8, Some(&hole)));
        let mut other = found(0, 0..3);
        other.batches[1].number = 7;
        assert!(!allowed(8, Some(&other)));
        let longer = Found { end: 8, ..found(0, 0..3) };
        assert!(!allowed(8, Some(&longer)));
    }

    #[test]
    fn verbs_in_flight_have_happened_or_not_and_answered_ones_have() {
        assert!(allowed(9, Some(&found(0, 0..3))) && allowed(9, Some(&found(2, 1..3))));
        assert!(!allowed(10, Some(&found(0, 0..3))), "it was trimmed");
        assert!(allowed(11, Some(&found(2, 1..3))) && allowed(11, Some(&found(2, 1..2))));
        assert!(!allowed(12, Some(&found(2, 1..3))), "it was truncated");
        assert!(!allowed(12, Some(&found(2, 2..2))), "the truncation took too much");
        assert!(allowed(13, None) && allowed(13, Some(&found(2, 1..2))));
        assert!(!allowed(14, Some(&found(2, 1..2))), "it was deleted");
        assert!(allowed(14, None));
    }

    #[test]
    fn what_a_recovery_showed_and_appended_stays() {
        let other = Held { first: 4, end: 5, number: 100 };
        let with = Found { start: 0, end: 5, batches: vec![held(0), held(1), other] };
        let without = found(0, 0..2);
        let after = |mut found: Found, end, was| after_recovery(&mut found, end, was, 100).map(|()| found.end);
        assert_eq!(after(with.clone(), 4, (true, true)), Ok(4));
        assert_eq!(after(without.clone(), 4, (true, false)), Ok(4));
        assert!(after(without.clone(), 4, (true, true)).is_err(), "the append is lost");
        assert!(after(with, 2, (true, true)).is_err(), "it stands elsewhere");
        assert!(after(found(0, 0..1), 4, (true, false)).is_err(), "what was read is gone");
        assert_eq!(after(found(0, 0..1), 4, (false, false)), Ok(2));
    }

    #[test]
    fn a_trim_into_a_batch_leaves_it_whole() {
        let steps = [
            step(0, 1, What::Create { start: 0 }),
            step(1, 2, What::Append(held(0))),
            step(2, 3, What::Append(held(1))),
            step(3, 4, What::Trim { start: 1 }),
        ];
        let way = &ways(&steps, 0, 4)[0];
        assert_eq!(way.allows(Some(&found(1, 0..2))), Ok(()));
    }
}
