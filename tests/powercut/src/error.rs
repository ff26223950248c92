//! What keeps a run from being made. A violation is no error: it is a result.

use std::io;

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A program is not installed, or cannot be run.
    #[error("{program}: {source}: install it, and run this as root")]
    Program {
        /// The program.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} {arguments}: {told}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Its arguments.
        arguments: String,
        /// What it said.
        told: String,
    },
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The store of the workload failed although no power was cut.
    #[error("the workload: {0}")]
    Workload(String),
    /// The user has asked to stop.
    #[error("stopped by a signal; everything was taken down")]
    Interrupted,
}

/// For `map_err`.
pub fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |source| Trouble::System { doing, source }
}
