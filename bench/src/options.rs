//! The command line.

use crate::scenario::{Part, Plan, Scale, Scenario};
use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Measures the store on a directory of this machine, each figure beside what a bare ring does in the same run.
///
/// Without an argument it runs every scenario in a directory that it makes below target/ and removes at the end.
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
    /// Seconds of measuring per case, store and ceiling together [default: 20, smoke 1, full 60]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Rounds of store and ceiling in turn [default: 5, smoke 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Each scenario once at a tiny size, to see that it works
    #[arg(long, conflicts_with = "full")]
    smoke: bool,
    /// Longer, and with more data
    #[arg(long)]
    full: bool,
    /// Exit with 1 when a target is missed
    #[arg(long)]
    pub enforce: bool,
    /// Write the report to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What this program asks of itself.
    #[command(subcommand)]
    pub part: Option<Part>,
}

impl Options {
    /// The scenarios to run, each once, in their own order.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let wanted = |scenario: &Scenario| self.scenarios.is_empty() || self.scenarios.contains(scenario);
        Scenario::ALL.into_iter().filter(wanted).collect()
    }

    /// How much of everything.
    pub fn plan(&self) -> Plan {
        let (scale, seconds, rounds) = match (self.smoke, self.full) {
            (true, _) => (Scale::Smoke, 1, 1),
            (_, true) => (Scale::Full, 60, 5),
            _ => (Scale::Normal, 20, 5),
        };
        Plan {
            scale,
            time: Duration::from_secs(self.seconds.unwrap_or(seconds)),
            rounds: self.rounds.unwrap_or(rounds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn no_argument_means_everything() {
        let options = parsed("bench").expect("no argument");
        assert_eq!(options.scenarios(), Scenario::ALL);
        assert_eq!(options.plan(), Plan { scale: Scale::Normal, time: Duration::from_secs(20), rounds: 5 });
    }

    #[test]
    fn scenarios_are_named_and_repeated() {
        let options =
            parsed("bench --scenario recovery --scenario append-latency --smoke --rounds 2").expect("options");
        assert_eq!(options.scenarios(), [Scenario::AppendLatency, Scenario::Recovery]);
        assert_eq!(options.plan(), Plan { scale: Scale::Smoke, time: Duration::from_secs(1), rounds: 2 });
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["bench --scenario nothing", "bench --seconds 0", "bench --smoke --full", "bench --rounds 0"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
