//! What ends a run early.

use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// The directory is in memory, where durable writes cost nothing.
    #[error("{} is on tmpfs, where nothing is durable: name a directory on a disk with --dir", .0.display())]
    Tmpfs(PathBuf),
    /// A file or a process would not do.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system answered.
        source: std::io::Error,
    },
    /// An engine refused or failed.
    #[error("{engine} failed while {doing}: {reason}")]
    Engine {
        /// Which.
        engine: &'static str,
        /// What was being done.
        doing: &'static str,
        /// What it answered.
        reason: String,
    },
    /// The process of an engine did not do its part.
    #[error("the process of {engine} failed: {reason}")]
    Child {
        /// Whose.
        engine: &'static str,
        /// What it did instead.
        reason: String,
    },
    /// The counting of syncs is not to be believed: an engine that was told not to sync passed as durable.
    #[error("the check counts nothing: {0} was told not to sync and was found to be durable all the same")]
    Blind(&'static str),
    /// What one process told another does not fit into JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The user asked to stop.
    #[error("interrupted; nothing is reported")]
    Interrupted,
}

/// Names what was being done when a file or process would not do.
pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> PeersError {
    let doing = doing.into();
    move |source| PeersError::Io { doing, source }
}

/// Names what was being done when an engine refused or failed.
pub fn failed<E: std::fmt::Display>(engine: &'static str, doing: &'static str) -> impl FnOnce(E) -> PeersError {
    move |error| PeersError::Engine { engine, doing, reason: error.to_string() }
}
