//! Plan: which cases a seed makes. Each way of each kind comes once before any comes twice, in an order that the seed decides. Pure.

use super::fault::{Counts, Fault, KINDS, Kind, Times, Way};
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// How a load ends before the store is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It closes the store.
    Close,
    /// Its process goes, with appends in flight.
    Kill,
    /// The power goes, and with it all that is not durable.
    PowerAll,
    /// The power goes, and with it some of what is not durable.
    PowerSome,
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its number.
    pub number: u64,
    /// Which of the configurations.
    pub turn: usize,
    /// What goes wrong.
    pub fault: Fault,
    /// How the load ends.
    pub end: End,
}

/// All that a seed decides.
#[derive(Debug)]
pub struct Plan {
    seed: u64,
    /// How many of each kind may be struck, for each configuration.
    counts: Vec<Counts>,
    ways: Vec<(Kind, Way, Times)>,
}

impl Plan {
    /// Of this seed, where each kind is met at least so often in each configuration. The last eighth is left out: chance decides whether it is
    /// met. Kinds that no configuration meets are left out.
    pub fn new(seed: u64, met: &[Counts]) -> Plan {
        let counts: Vec<Counts> = met.iter().map(|counts| counts.map(|count| count - count.div_ceil(8))).collect();
        let met = |kind: &Kind| counts.iter().any(|counts| counts[kind.place()] > 0);
        let of = |kind: Kind| kind.ways().into_iter().map(move |(way, times)| (kind, way, times));
        let mut ways: Vec<_> = KINDS.into_iter().filter(met).flat_map(of).collect();
        let mut random = Random::new(seed, 21);
        for left in (1..ways.len()).rev() {
            ways.swap(left, random.below(left as u64 + 1) as usize);
        }
        Plan { seed, counts, ways }
    }

    /// The case of this number. Cases are distinct while there is another operation to strike.
    pub fn case(&self, number: u64) -> Case {
        let (place, round) = (number as usize % self.ways.len(), number / self.ways.len() as u64);
        let (kind, way, times) = self.ways[place];
        let mut random = Random::new(self.seed, 1_000 + place as u64);
        let turns: Vec<usize> = (0..self.counts.len()).filter(|turn| self.counts[*turn][kind.place()] > 0).collect();
        let turn = turns[(random.below(turns.len() as u64) + round) as usize % turns.len()];
        let count = self.counts[turn][kind.place()];
        let k = 1 + (random.below(count) + round / turns.len() as u64) % count;
        let end = Random::new(self.seed, 2_000 + number).pick(&[End::Close, End::Kill, End::PowerAll, End::PowerSome]);
        Case { number, turn, fault: Fault { kind, k, way, times }, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Vec<Counts> {
        let mut most = [40; KINDS.len()];
        most[Kind::Sync.place()] = 0;
        let mut few = [5; KINDS.len()];
        few[Kind::Rename.place()] = 0;
        vec![most, few]
    }

    #[test]
    fn a_seed_gives_distinct_cases_that_can_be_met() {
        let plan = Plan::new(7, &counts());
        let cases: Vec<Case> = (0..600).map(|number| plan.case(number)).collect();
        for case in &cases {
            let count = counts()[case.turn][case.fault.kind.place()];
            assert!((1..=count).contains(&case.fault.k), "{case:?}");
        }
        for (at, case) in cases.iter().enumerate() {
            let same = |other: &Case| (other.turn, other.fault) == (case.turn, case.fault);
            assert!(!cases[at + 1..].iter().any(same), "{case:?} comes twice");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_cases_and_another_one_does_not() {
        let fault = |seed: u64| (0..50).map(|number| Plan::new(seed, &counts()).case(number).fault).collect::<Vec<_>>();
        assert_eq!(fault(1), fault(1));
        assert_ne!(fault(1), fault(2));
    }

    #[test]
    fn what_is_never_met_is_left_out() {
        let mut none = [2; KINDS.len()];
        none[Kind::List.place()] = 0;
        let plan = Plan::new(1, &[none]);
        assert!((0..400).all(|number| plan.case(number).fault.kind != Kind::List));
    }
}
