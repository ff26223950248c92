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
    /// Decides the cases and the configurations. The interleaving of threads is chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
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
    /// Succeeds only when a violation is found, and stops at the first.
    #[arg(long)]
    pub expect_violation: bool,
    /// Does one job, which a file holds, for a run of this program.
    #[arg(long, hide = true)]
    pub job: Option<PathBuf>,
}
