//! The parts of a scenario that run in a process of their own, which the scenario kills.

use super::ten_thousand::Many;
use clap::Subcommand;
use std::path::PathBuf;

/// What this program does as its own child.
#[derive(Clone, Debug, Subcommand)]
pub enum Part {
    /// Writes a store that nobody closes
    #[command(hide = true)]
    RecoveryWriter {
        /// The store's directory.
        root: PathBuf,
        /// Payload bytes to write.
        bytes: u64,
    },
    /// Opens a store that nobody closed
    #[command(hide = true)]
    RecoveryOpener {
        /// The store's directory.
        root: PathBuf,
        /// Payload bytes that it holds.
        bytes: u64,
    },
    /// Makes a store of many logs and closes it
    #[command(hide = true)]
    ManyFiller(Many),
    /// Opens a store of many logs, appends to them, and closes it
    #[command(hide = true)]
    ManyUser(Many),
    /// Appends to some of many logs and does not close the store
    #[command(hide = true)]
    ManySoiler(Many),
    /// Opens a store of many logs that nobody closed
    #[command(hide = true)]
    ManyOpener(Many),
}
