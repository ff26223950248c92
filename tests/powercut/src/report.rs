//! Report: what was cut and found, as a table and as a line of JSON.

use crate::cut::Mode;
use crate::mounted::FileSystem;
use crate::shape::{Defect, Io, Sync};
use crate::verb::{Span, VERBS, Verb};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use strandline_tests::record::{Host, Run};
use strandline_tests::tiers::Tally;
use strandline_tests::tiers::promise::Promise;

/// As the tier is called in the record.
pub const TIER: &str = "t3";

/// What is counted for each way to cut.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Cuts that were checked.
    pub cuts: u64,
    /// Writes that were not there at all.
    pub dropped: u64,
    /// Writes that were there in part.
    pub torn: u64,
    /// Batches that were read and compared.
    pub batches: u64,
    /// Bytes that opening cleared.
    pub cleared: u64,
    /// Torn disks that the kernel does not mount: the file system's own limit, and nothing of the store was checked.
    pub refused: u64,
    /// Cuts after which something was wrong.
    pub violations: u64,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which file system.
    pub file_system: FileSystem,
    /// The first seed.
    pub seed: u64,
    /// The deliberate defect, if any.
    pub sabotage: Option<Defect>,
    /// The kernel.
    pub kernel: String,
    /// The commit of the source, with `+` where it was changed since.
    pub commit: String,
    /// Workloads that were cut.
    pub workloads: u64,
    /// Those of them that asked for a barrier where none is allowed.
    pub barrier_refused: u64,
    /// How often they did what is more than an append, and how many cuts met it in flight.
    pub verbs: BTreeMap<Verb, Exercised>,
    /// Barriers that stood for several logs.
    pub barriers: u64,
    /// Cuts that stand in the recovery after another one.
    pub again: u64,
    /// Milliseconds that the run took.
    pub took_ms: u64,
    /// All ways together.
    pub total: Counts,
    /// Each way that was in force by itself.
    #[serde(skip)]
    pub ways: BTreeMap<(Io, Sync, &'static str), Counts>,
    /// What was found to be wrong, with how to see it again.
    pub violations: Vec<String>,
    /// The promises that were broken.
    pub broken: BTreeSet<Promise>,
}

/// What became of a verb.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Exercised {
    /// How often it was done.
    pub done: u64,
    /// Cuts that met it in flight.
    pub cut: u64,
}

/// A run of so many cuts must have met every verb in flight: the size that CI has of each file system.
fn ci_cuts(file_system: FileSystem) -> u64 {
    match file_system {
        FileSystem::Ext4 => 400,
        FileSystem::Xfs => 40,
        FileSystem::Btrfs => 80,
    }
}

/// The name of a mode.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Prefix => "prefix",
        Mode::Subset => "subset",
        Mode::Torn => "torn",
        Mode::Drop => "drop",
        Mode::Strict => "strict",
    }
}

impl Counts {
    /// Adds what one cut came to.
    pub fn add(&mut self, other: Counts) {
        self.cuts += other.cuts;
        self.dropped += other.dropped;
        self.torn += other.torn;
        self.batches += other.batches;
        self.cleared += other.cleared;
        self.refused += other.refused;
        self.violations += other.violations;
    }
}

impl Report {
    /// Of a run that begins.
    pub fn new(file_system: FileSystem, seed: u64, sabotage: Option<Defect>) -> Report {
        let Host { kernel, commit, .. } = Host::look(file_system.name());
        Report {
            file_system,
            seed,
            sabotage,
            kernel,
            commit,
            workloads: 0,
            barrier_refused: 0,
            verbs: VERBS.into_iter().map(|verb| (verb, Exercised::default())).collect(),
            barriers: 0,
            again: 0,
            took_ms: 0,
            total: Counts::default(),
            ways: BTreeMap::new(),
            violations: Vec::new(),
            broken: BTreeSet::new(),
        }
    }

    /// As a line of the record.
    pub fn run(&self) -> Run {
        let host = Host {
            kernel: self.kernel.clone(),
            file_system: self.file_system.name().to_owned(),
            commit: self.commit.clone(),
        };
        Run {
            runs: self.total.cuts,
            tally: Tally { crashes: self.total.cuts, dropped: self.total.dropped, faults: 0 },
            seconds: self.took_ms as f64 / 1e3,
            violations: self.total.violations,
            ..Run::ended(TIER, (self.seed, self.seed + self.workloads), host)
        }
    }

    /// Whether the run came out as it should: nothing was broken, and it shows something.
    ///
    /// # Errors
    /// Why not.
    pub fn verdict(&self, drops: bool) -> Result<(), String> {
        if !self.violations.is_empty() {
            return Err(format!("{} cuts broke a promise", self.violations.len()));
        }
        if drops && self.total.dropped == 0 {
            return Err("no write was dropped: this run shows nothing".to_owned());
        }
        let missed: Vec<Verb> = self.missed().collect();
        if !missed.is_empty() && self.total.cuts >= ci_cuts(self.file_system) {
            return Err(format!("no cut of {} met these in flight: {missed:?}", self.total.cuts));
        }
        Ok(())
    }

    /// The verbs that no cut met in flight.
    fn missed(&self) -> impl Iterator<Item = Verb> {
        self.verbs.iter().filter(|(_, exercised)| exercised.cut == 0).map(|(verb, _)| *verb)
    }

    /// A cut stands here: counts what it met in flight.
    pub fn met(&mut self, spans: &[Span], position: u64) {
        let met: BTreeSet<Verb> = spans.iter().filter(|span| span.is_cut_at(position)).map(|span| span.verb).collect();
        for verb in met {
            self.verbs.entry(verb).or_default().cut += 1;
        }
    }

    /// Adds what one cut came to.
    pub fn add(&mut self, io: Io, sync: Sync, mode: Mode, counts: Counts) {
        self.total.add(counts);
        self.ways.entry((io, sync, mode_name(mode))).or_default().add(counts);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| io | sync | mode | cuts | dropped | torn | batches read | bytes cleared | not mounted | violations |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        let line = |f: &mut fmt::Formatter<'_>, way: &str, of: &Counts| {
            let Counts { cuts, dropped, torn, batches, cleared, refused, violations } = of;
            writeln!(f, "| {way} | {cuts} | {dropped} | {torn} | {batches} | {cleared} | {refused} | {violations} |")
        };
        for ((io, sync, mode), counts) in &self.ways {
            line(f, &format!("{io:?} | {sync:?} | {mode}").to_lowercase(), counts)?;
        }
        line(f, "all | | ", &self.total)?;
        writeln!(f, "\n| verb | done | cut in flight |\n|---|---|---|")?;
        for (verb, Exercised { done, cut }) in &self.verbs {
            writeln!(f, "| {} | {done} | {cut} |", format!("{verb:?}").to_lowercase())?;
        }
        let missed: Vec<Verb> = self.missed().collect();
        if !missed.is_empty() {
            writeln!(f, "NO CUT MET THESE IN FLIGHT: {missed:?}")?;
        }
        let Report { file_system, seed, kernel, commit, workloads, barriers, barrier_refused, again, took_ms, .. } =
            self;
        let name = file_system.name();
        write!(
            f,
            "{name}, seed {seed}, kernel {kernel}, commit {commit}: {workloads} workloads, {barriers} barriers, "
        )?;
        if *barrier_refused > 0 {
            write!(f, "{barrier_refused} workloads asked for them in vain, ")?;
        }
        writeln!(f, "{again} of the cuts during a recovery; {:.1} s", *took_ms as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cuts: u64, dropped: u64) -> Report {
        let mut report = Report::new(FileSystem::Ext4, 7, None);
        report.add(Io::Direct, Sync::Dsync, Mode::Drop, Counts { cuts, dropped, ..Counts::default() });
        report.verbs.values_mut().for_each(|exercised| exercised.cut = 1);
        report
    }

    #[test]
    fn a_run_that_dropped_nothing_fails_unless_nothing_was_to_be_dropped() {
        assert!(of(400, 1).verdict(true).is_ok());
        assert!(of(400, 0).verdict(true).is_err() && of(400, 0).verdict(false).is_ok());
    }

    #[test]
    fn a_run_of_the_size_of_ci_that_met_a_verb_nowhere_fails() {
        for verb in VERBS {
            let met_nowhere = |cuts| {
                let mut report = of(cuts, 1);
                report.verbs.insert(verb, Exercised { done: 9, cut: 0 });
                report
            };
            assert!(met_nowhere(400).verdict(true).is_err(), "{verb:?}");
            assert!(met_nowhere(399).verdict(true).is_ok() && met_nowhere(399).to_string().contains("NO CUT MET"));
        }
    }

    #[test]
    fn the_record_has_the_seeds_of_the_workloads() {
        let mut report = of(400, 3);
        report.workloads = 10;
        let run = report.run();
        assert_eq!((run.from, run.to, run.runs, run.tally.dropped, &*run.file_system), (7, 17, 400, 3, "ext4"));
    }
}
