//! Options: the command line.

use crate::shape::Defect;
use clap::Args;
use std::path::PathBuf;

/// What is run.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How many cases.
    #[arg(long, default_value_t = 200)]
    pub cases: u64,
    /// Decides the cases and the configurations. The interleaving of threads is chance. Default: the one behind the record's last, else 1.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Runs only the case of this number.
    #[arg(long)]
    pub case: Option<u64>,
    /// Which operation of its kind that case is to strike, from 1: how often a kind is met differs a little from run to run.
    #[arg(long, requires = "case")]
    pub k: Option<u64>,
    /// Ends after so many seconds, however many cases were run.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Runs a store with this deliberate defect.
    #[arg(long, value_enum)]
    pub sabotage: Option<Defect>,
    /// Stops at the first violation, and succeeds only when it is of a kind that the table of controls names for the defect.
    #[arg(long, requires = "sabotage")]
    pub expect_violation: bool,
    /// Adds a line of JSON for the run to this file, which `strandline-campaign` writes too, and prints the table of all of it.
    #[arg(long, conflicts_with = "sabotage")]
    pub record: Option<PathBuf>,
    /// Does one job, which a file holds, for a run of this program.
    #[arg(long, hide = true)]
    pub job: Option<PathBuf>,
}
