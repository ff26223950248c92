//! What ends a run early.

use crate::targets::TargetsError;
use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The directory is in memory, where durable writes cost nothing.
    #[error("{} is on tmpfs, where nothing is durable: name a directory on a disk with --dir, or say --allow-tmpfs", .0.display())]
    Tmpfs(PathBuf),
    /// A file or a process would not do.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The bare ring failed.
    #[error("the ceiling could not be measured: {0}")]
    Ceiling(#[from] strandline_disk::DiskError),
    /// The store refused or failed.
    #[error("the store failed while {doing}: {reason}")]
    Store {
        /// What was being done.
        doing: &'static str,
        /// What the store answered.
        reason: String,
    },
    /// The child process of a scenario did not do its part.
    #[error("the child process failed: {0}")]
    Child(String),
    /// The targets cannot be held against the run.
    #[error(transparent)]
    Targets(#[from] TargetsError),
    /// The report does not fit into JSON.
    #[error("the report could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The user asked to stop.
    #[error("interrupted; nothing is reported")]
    Interrupted,
}

/// Names what was being done when a file or process would not do.
pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> BenchError {
    let doing = doing.into();
    move |source| BenchError::Io { doing, source }
}

/// Names what was being done when the store refused or failed.
pub fn store<E: std::error::Error>(doing: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::Store { doing, reason: error.to_string() }
}
