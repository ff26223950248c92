//! The command line.

use crate::engine::Kind;
use crate::rounds::Plan;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Runs the same durable appends on this store and on other embeddable engines, in turn, on a directory of this machine.
///
/// It first counts with strace whether each engine is durable before it acknowledges. One that is not is struck from what is compared.
#[derive(Debug, Parser)]
#[command(name = "strandline-peers", version, args_conflicts_with_subcommands = true)]
pub struct Options {
    /// Run only this engine; may be given several times [default: all]
    #[arg(long = "engine", value_name = "NAME", value_enum)]
    engines: Vec<Kind>,
    /// Run only workloads whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub workload: String,
    /// Make the directory of the run inside this one [default: target]
    #[arg(long, value_name = "DIR", global = true)]
    pub dir: Option<PathBuf>,
    /// Seconds of a window [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
    /// Rounds: windows that each engine has [default: 5, smoke 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Everything once at a tiny size, to see that it works
    #[arg(long)]
    smoke: bool,
    /// Do not count syncs: nothing that is measured may then be compared
    #[arg(long)]
    pub unchecked: bool,
    /// Write the tables to this file as well
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write all figures to this file, for scripts
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw the figures into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// What is done in place of a run.
    #[command(subcommand)]
    pub instead: Option<Instead>,
}

/// What is done in place of a run.
#[derive(Debug, Subcommand)]
pub enum Instead {
    /// Only counts with strace whether each engine is durable before it acknowledges
    Syncs {
        /// Appends of each engine
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        appends: u64,
        /// Tell the engines not to sync, where they can be told: each has to be struck
        #[arg(long)]
        unsynced: bool,
    },
    /// What this program asks of itself
    #[command(hide = true)]
    Part {
        /// The part, as JSON
        part: String,
    },
}

impl Options {
    /// The engines, each once, in their own order.
    pub fn engines(&self) -> Vec<Kind> {
        match self.engines.as_slice() {
            [] => Kind::MEASURED.to_vec(),
            named => {
                let all = Kind::MEASURED.into_iter().chain([Kind::StrandlinePosix]);
                all.filter(|kind| named.contains(kind)).collect()
            }
        }
    }

    /// How much of everything.
    pub fn plan(&self) -> Plan {
        let (window, rounds) = match self.smoke {
            true => (Duration::from_millis(200), 1),
            false => (Duration::from_secs(4), 5),
        };
        let window = self.seconds.map_or(window, Duration::from_secs);
        Plan { window, rounds: self.rounds.unwrap_or(rounds), small: self.smoke }
    }

    /// Appends of each engine whose syncs are counted before a run.
    pub fn appends(&self) -> u64 {
        if self.smoke { 20 } else { 200 }
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
        let options = parsed("peers").expect("no argument");
        assert_eq!((options.engines(), options.appends()), (Kind::MEASURED.to_vec(), 200));
        assert_eq!((options.plan().rounds, options.plan().window), (5, Duration::from_secs(4)));
        assert!(!options.plan().small && !options.unchecked);
    }

    #[test]
    fn engines_are_named_and_repeated() {
        let options = parsed("peers --engine naive --engine strandline --smoke --rounds 2").expect("options");
        assert_eq!(options.engines(), [Kind::Strandline, Kind::Naive]);
        assert_eq!((options.plan().rounds, options.plan().small), (2, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["peers --engine nothing", "peers --seconds 0", "peers --rounds 0", "peers syncs --appends 0"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_engine_is_called_the_same_everywhere() {
        use clap::ValueEnum;
        for kind in Kind::value_variants() {
            assert_eq!(kind.to_possible_value().expect("none is hidden").get_name(), kind.name());
        }
    }
}
