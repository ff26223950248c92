//! Job: what one process of a run is to do. Workloads and checks run in processes of their own, so that one that hangs or dies takes nothing along.

use crate::history::Step;
use crate::shape::{Io, Shape, Sync};
use crate::verb::{Span, Verb};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use strandline_tests::tiers::promise::Broken;

/// What to do, as a file tells the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job<T = Task> {
    /// The store's directory.
    pub root: PathBuf,
    /// The clock of what it is on.
    pub clock: PathBuf,
    /// Where the answer goes.
    pub answer: PathBuf,
    /// The store's configuration.
    pub shape: Shape,
    /// What exactly.
    pub task: T,
}

/// A kind of job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Runs a store under load until its disk was given so many bytes, or that long.
    Work {
        /// Bytes written to the disk.
        bytes_max: u64,
        /// The longest, in milliseconds.
        time_ms: u64,
    },
    /// Opens a store after a cut and says what is wrong with it.
    Check {
        /// Where the history of the workload is.
        history: PathBuf,
        /// The cut stands before this event.
        position: u64,
        /// Where the power went away a second time, during an earlier check.
        again: Option<Again>,
    },
}

/// A second cut.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Again {
    /// It stands before this event of the disk of the earlier check.
    pub position: u64,
    /// What that check had found and done.
    pub seen: Vec<Seen>,
}

/// What a check found of a log, and when, by the clock of its own disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Which log.
    pub log: usize,
    /// Its end.
    pub end: u64,
    /// When everything up to there had been read.
    pub read: u64,
    /// When the append after it was answered; `None` is never.
    pub appended: Option<u64>,
}

/// What a workload answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Worked {
    /// All that it asked for.
    pub steps: Vec<Step>,
    /// When it did more than append.
    pub spans: Vec<Span>,
    /// How often it did what.
    pub done: Vec<(Verb, u64)>,
    /// Barriers that stood for several logs.
    pub barriers: u64,
    /// How the store wrote and synced, whatever it was asked for.
    pub in_force: (Io, Sync),
}

/// What a check answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// What is wrong.
    pub violations: Vec<Broken>,
    /// The kernel does not mount the disk.
    pub refused: bool,
    /// Batches that were read and compared.
    pub batches: u64,
    /// Bytes past durable ends that opening cleared.
    pub torn_bytes: u64,
    /// What was found and done, for a second cut.
    pub seen: Vec<Seen>,
}

/// Writes something for another process.
///
/// # Errors
/// What the file system answered.
pub fn save<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    std::fs::write(path, serde_json::to_vec(value)?)
}

/// Reads what another process has written.
///
/// # Errors
/// What the file system answered; what is not what was expected.
pub fn load<T: for<'a> Deserialize<'a>>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// What is wrong, a line each.
pub fn sentences(violations: &[Broken]) -> String {
    violations.iter().map(Broken::to_string).collect::<Vec<_>>().join("\n  ")
}
