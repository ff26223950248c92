//! Report: what a run came to.

use super::fault::{KINDS, Kind};
use super::job::Answer;
use super::plan::{Case, End};
use crate::shape::Defect;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use strandline_tests::record::{Host, Run};
use strandline_tests::tiers::Tally;
use strandline_tests::tiers::promise::Promise;

/// As the tier, and what stands below the store, are called in the record.
pub const TIER: &str = "t5-below";
pub const FILE_SYSTEM: &str = "fuse";

/// Of a hundred faults so many must have struck: one that never does shows nothing.
const FIRED_PERCENT_MIN: u64 = 90;

/// Of some cases.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sums {
    /// Cases that were run.
    pub cases: u64,
    /// Faults that struck, at least once each.
    pub fired: u64,
    /// Calls that were answered while a fault was in waiting.
    pub calls: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Batches that had been acknowledged as durable, and were looked for.
    pub checked: u64,
    /// Cases whose process, or power, went away.
    pub crashes: u64,
    /// Cases with something wrong.
    pub violations: u64,
}

/// Of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    seed: u64,
    sabotage: Option<Defect>,
    kernel: String,
    commit: String,
    took_ms: u64,
    total: Sums,
    #[serde(skip)]
    kinds: BTreeMap<Kind, Sums>,
    /// What was wrong, and how to see it again.
    pub violations: Vec<String>,
    /// The promises that were broken.
    pub broken: BTreeSet<Promise>,
    unfired: Vec<String>,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.cases += other.cases;
        self.fired += other.fired;
        self.calls += other.calls;
        self.refused += other.refused;
        self.checked += other.checked;
        self.crashes += other.crashes;
        self.violations += other.violations;
    }
}

impl Report {
    /// Of a run that begins.
    pub fn new(seed: u64, sabotage: Option<Defect>) -> Report {
        let Host { kernel, commit, .. } = Host::look(FILE_SYSTEM);
        let (kinds, total) = (BTreeMap::new(), Sums::default());
        let (violations, broken, unfired) = (Vec::new(), BTreeSet::new(), Vec::new());
        Report { seed, sabotage, kernel, commit, took_ms: 0, total, kinds, violations, broken, unfired }
    }

    /// Cases that were run.
    pub fn cases(&self) -> u64 {
        self.total.cases
    }

    /// How long it took.
    pub fn took(&mut self, ms: u64) {
        self.took_ms = ms;
    }

    /// Adds what one case came to.
    pub fn add(&mut self, case: &Case, fired: u64, answer: &Answer, checked: u64) {
        let violations = u64::from(!answer.violations.is_empty());
        let Answer { calls, refused, .. } = *answer;
        let crashes = u64::from(case.end != End::Close);
        let sums = Sums { cases: 1, fired: u64::from(fired > 0), calls, refused, checked, crashes, violations };
        self.total.add(sums);
        self.kinds.entry(case.fault.kind).or_default().add(sums);
        if fired == 0 {
            self.unfired.push(format!("case {}: {}", case.number, case.fault));
        }
    }

    /// As a line of the record.
    pub fn run(&self) -> Run {
        let host =
            Host { kernel: self.kernel.clone(), file_system: FILE_SYSTEM.to_owned(), commit: self.commit.clone() };
        Run {
            runs: self.total.cases,
            tally: Tally { crashes: self.total.crashes, dropped: 0, faults: self.total.fired },
            seconds: self.took_ms as f64 / 1e3,
            violations: self.total.violations,
            ..Run::ended(TIER, (self.seed, self.seed + 1), host)
        }
    }

    /// Whether the run came out as it should.
    ///
    /// # Errors
    /// Why not.
    pub fn verdict(&self) -> Result<(), String> {
        let Sums { cases, fired, .. } = self.total;
        match self.violations.len() {
            0 if fired * 100 < cases * FIRED_PERCENT_MIN || cases == 0 => {
                Err(format!("{fired} faults of {cases} struck: this run shows too little"))
            }
            0 => Ok(()),
            broken => Err(format!("{broken} cases broke a promise")),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| kind | cases | fired | calls | refused | acknowledged batches checked | violations |")?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, sums: &Sums| {
            let Sums { cases, fired, calls, refused, checked, violations, .. } = sums;
            writeln!(f, "| {name} | {cases} | {fired} | {calls} | {refused} | {checked} | {violations} |")
        };
        for kind in KINDS {
            if let Some(sums) = self.kinds.get(&kind) {
                line(f, &format!("{kind:?}"), sums)?;
            }
        }
        line(f, "all", &self.total)?;
        for unfired in &self.unfired {
            writeln!(f, "did not strike: {unfired}")?;
        }
        let Sums { cases, fired, refused, checked, violations, .. } = self.total;
        let Report { seed, kernel, commit, took_ms, .. } = self;
        write!(f, "faults, seed {seed}, kernel {kernel}, commit {commit}: {cases} cases, {fired} fired, ")?;
        write!(f, "{refused} calls refused, {checked} acknowledged batches checked, {violations} violations; ")?;
        writeln!(f, "{:.1} s", *took_ms as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::{Fault, Times, Way};
    use super::*;

    fn of(fired: u64, violations: u64) -> Report {
        let mut report = Report::new(1, None);
        let fault = Fault { kind: Kind::Sync, k: 1, way: Way::Delay, times: Times::Once };
        let case = Case { number: 0, turn: 0, fault, end: End::Close };
        for number in 0..10 {
            report.add(&case, u64::from(number < fired), &Answer::default(), 0);
        }
        report.violations = (0..violations).map(|number| number.to_string()).collect();
        report
    }

    #[test]
    fn a_run_whose_faults_did_not_strike_fails() {
        assert!(of(9, 0).verdict().is_ok());
        assert!(of(8, 0).verdict().is_err());
        assert!(Report::new(1, None).verdict().is_err(), "no case at all");
    }

    #[test]
    fn a_violation_fails() {
        assert!(of(10, 1).verdict().is_err() && of(10, 0).verdict().is_ok());
    }
}
