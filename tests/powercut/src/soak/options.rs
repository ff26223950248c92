//! Options: the command line.

use super::leak::Leak;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Below what the store is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// A directory for temporary files.
    Disk,
    /// A directory that FUSE serves from memory.
    Fuse,
    /// One after the other, half of the time each.
    Both,
}

/// What is run.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How many minutes the load takes, both parts together.
    #[arg(long, default_value_t = 30.0)]
    pub minutes: f64,
    /// Decides the configuration and the faults. The interleaving of threads is chance. Default: the one behind the record's last, else 1.
    #[arg(long)]
    pub seed: Option<u64>,
    /// What the store stands on.
    #[arg(long, value_enum, default_value = "both")]
    pub on: On,
    /// Nothing happens to the store: one process, opened once.
    #[arg(long)]
    pub calm: bool,
    /// Lets the process of the store leak, as a control.
    #[arg(long, value_enum)]
    pub sabotage: Option<Leak>,
    /// Succeeds only when the leak was noticed, and as what it is.
    #[arg(long, requires = "sabotage")]
    pub expect_violation: bool,
    /// Adds a line of JSON for each part to this file, which `strandline-campaign` writes too, and prints the table of all of it.
    #[arg(long, conflicts_with = "sabotage")]
    pub record: Option<PathBuf>,
    /// Draws memory, descriptors and disk over time into this file, as SVG.
    #[arg(long)]
    pub plot: Option<PathBuf>,
    /// Keeps what was sampled in this file, as JSON.
    #[arg(long)]
    pub samples: Option<PathBuf>,
    /// Judges and draws what an earlier run has kept with `--samples`, and runs nothing. With `--record` that run is added to it.
    #[arg(long, conflicts_with_all = ["samples", "sabotage"])]
    pub again: Option<PathBuf>,
    /// Does one job, which a file holds, for a run of this program.
    #[arg(long, hide = true)]
    pub job: Option<PathBuf>,
}
