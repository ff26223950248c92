//! The command line.

use crate::scenario::{Part, Plan, RemovalPlan, Scale, Scenario};
use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Measures the store on a directory of this machine, each figure beside what a bare ring does in the same run.
///
/// Without an argument it runs the core set, in about two minutes, in a directory that it makes below target/ and removes
/// at the end.
#[derive(Debug, Parser)]
#[command(name = "strandline-bench", version, args_conflicts_with_subcommands = true)]
pub struct Options {
    /// Run only this scenario; may be given several times
    #[arg(long = "scenario", value_name = "NAME", value_enum)]
    scenarios: Vec<Scenario>,
    /// List the scenarios and their cases, and do nothing
    #[arg(long)]
    pub list: bool,
    /// Make the directory of the run inside this one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Run on tmpfs all the same, where nothing is durable
    #[arg(long)]
    pub allow_tmpfs: bool,
    /// Seconds of measuring per case, store and ceiling together [default: 3, named scenarios 20, full 60]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Rounds of store and ceiling in turn [default: 3, named scenarios and full 5, smoke 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Files that a store unlinks at once [default: as a store does that sets nothing]
    #[arg(long, value_name = "N", value_parser = at_once)]
    removal_batch: Option<usize>,
    /// Kernel threads that may remove files at once [default: as a store does that sets nothing]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    removal_workers: Option<u32>,
    /// Directories that `orphans` has emptied [default: 10000, smoke 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    directories: Option<u64>,
    /// Every scenario once at a tiny size, to see that it works
    #[arg(long, conflicts_with = "full")]
    smoke: bool,
    /// Every scenario, longer, and with more data
    #[arg(long)]
    full: bool,
    /// Exit with 1 when a target is missed
    #[arg(long)]
    pub enforce: bool,
    /// Write the report to this file, for scripts
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report to this file, for people
    #[arg(long, value_name = "FILE", default_value = "target/strandline-bench/report.html")]
    pub html: PathBuf,
    /// What this program asks of itself.
    #[command(subcommand)]
    pub part: Option<Part>,
}

/// A number of files from 1 to 4,096.
fn at_once(text: &str) -> Result<usize, String> {
    let within = text.parse().ok().filter(|files| (1..=4_096).contains(files));
    within.ok_or_else(|| "a number from 1 to 4096 is wanted".to_owned())
}

impl Options {
    /// The scenarios to run, each once, in their own order.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let core = self.is_core();
        let wanted = |scenario: &Scenario| match self.scenarios.as_slice() {
            [] => scenario.is_core() || !core,
            named => named.contains(scenario),
        };
        Scenario::ALL.into_iter().filter(wanted).collect()
    }

    /// How much of everything.
    pub fn plan(&self) -> Plan {
        let core = self.is_core();
        let (scale, time, rounds) = match (self.smoke, self.full, core) {
            (true, ..) => (Scale::Smoke, Duration::from_millis(200), 1),
            (_, true, _) => (Scale::Full, Duration::from_secs(60), 5),
            (.., true) => (Scale::Normal, Duration::from_secs(3), 3),
            _ => (Scale::Normal, Duration::from_secs(20), 5),
        };
        Plan {
            scale,
            time: self.seconds.map_or(time, Duration::from_secs),
            rounds: self.rounds.unwrap_or(rounds),
            core,
            removal: RemovalPlan { batch: self.removal_batch, workers: self.removal_workers },
            directories: self.directories,
        }
    }

    /// Nothing was named: a run that is short enough to be made often.
    fn is_core(&self) -> bool {
        self.scenarios.is_empty() && !self.full && !self.smoke
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn no_argument_means_the_core_set() {
        let options = parsed("bench").expect("no argument");
        assert!(options.scenarios().into_iter().all(Scenario::is_core) && !options.scenarios().is_empty());
        let plan = Plan {
            scale: Scale::Normal,
            time: Duration::from_secs(3),
            rounds: 3,
            core: true,
            removal: RemovalPlan::default(),
            directories: None,
        };
        assert_eq!(options.plan(), plan);
        assert_eq!(options.html, PathBuf::from("target/strandline-bench/report.html"));
    }

    #[test]
    fn smoke_and_full_mean_everything() {
        for line in ["bench --smoke", "bench --full"] {
            let options = parsed(line).expect(line);
            assert_eq!(options.scenarios(), Scenario::ALL);
            assert!(!options.plan().core);
        }
    }

    #[test]
    fn scenarios_are_named_and_repeated() {
        let options =
            parsed("bench --scenario recovery --scenario append-latency --smoke --rounds 2").expect("options");
        assert_eq!(options.scenarios(), [Scenario::AppendLatency, Scenario::Recovery]);
        let time = Duration::from_millis(200);
        assert_eq!(
            options.plan(),
            Plan {
                scale: Scale::Smoke,
                time,
                rounds: 2,
                core: false,
                removal: RemovalPlan::default(),
                directories: None
            }
        );
    }

    #[test]
    fn how_files_are_removed_can_be_set() {
        let options =
            parsed("bench --scenario orphans --removal-batch 8 --removal-workers 2 --directories 99").expect("options");
        let plan = options.plan();
        assert_eq!(plan.removal, RemovalPlan { batch: Some(8), workers: Some(2) });
        assert_eq!(plan.directories, Some(99));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "bench --scenario nothing",
            "bench --seconds 0",
            "bench --smoke --full",
            "bench --rounds 0",
            "bench --removal-batch 0",
            "bench --removal-workers 9",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
