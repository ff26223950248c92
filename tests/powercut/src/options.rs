//! Options: the command line.

use crate::controls::ControlOptions;
use crate::cut::Mode;
use crate::mounted::FileSystem;
use crate::shape::{Defect, Io, Sync};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Cuts the power under a store on a real file system, over and over, and checks what is left. Needs root, /dev/fuse and loop devices.
#[derive(Clone, Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Options {
    /// Something else than cuts.
    #[command(subcommand)]
    pub other: Option<Other>,
    /// The file system.
    #[arg(long, value_enum, default_value = "ext4")]
    pub fs: FileSystem,
    /// How many cuts.
    #[arg(long, default_value_t = 400)]
    pub cuts: u64,
    /// Cuts of each workload.
    #[arg(long, default_value_t = 40)]
    pub cuts_each: u64,
    /// Decides everything that chance does not: workloads, configurations, cuts. The interleaving of threads is chance. Default: where the
    /// record's last run on this file system ended, else 1.
    #[arg(long)]
    pub seed: Option<u64>,
    /// What is lost; all kinds in turn when none is named.
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Past the page cache or through it; both in turn when none is named.
    #[arg(long, value_enum)]
    pub io: Option<Io>,
    /// How appends become durable; all ways in turn when none is named.
    #[arg(long, value_enum)]
    pub sync: Option<Sync>,
    /// Ends after so many seconds, however many cuts were made.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Megabytes written to the disk after which a workload ends.
    #[arg(long, default_value_t = 24)]
    pub write_mb: u64,
    /// Runs a store with this deliberate defect.
    #[arg(long, value_enum)]
    pub sabotage: Option<Defect>,
    /// Stops at the first violation, and succeeds only when it is of a kind that the table of controls names for the defect.
    #[arg(long, requires = "sabotage")]
    pub expect_violation: bool,
    /// Adds a line of JSON for the run to this file, which `strandline-campaign` writes too, and prints the table of all of it.
    #[arg(long, conflicts_with = "sabotage")]
    pub record: Option<PathBuf>,
    /// Keeps the disks that show a violation in this directory, with the history of the workload.
    #[arg(long)]
    pub keep: Option<PathBuf>,
    /// Does one job, which a file holds, for a run of this program.
    #[arg(long, hide = true)]
    pub job: Option<PathBuf>,
}

/// What else there is.
#[derive(Clone, Debug, Subcommand)]
pub enum Other {
    /// Makes operations of a file system fail under a store, one case after the other, and checks what is left. Needs root and /dev/fuse.
    Faults(crate::faults::Options),
    /// Runs a store under a mixed load while things fail, and looks whether memory, descriptors or disk grow. Needs root and /dev/fuse.
    Soak(crate::soak::Options),
    /// Runs the negative controls of power cuts and of faults: each defect must be noticed as what it is. Needs what these need.
    Controls(ControlOptions),
}
