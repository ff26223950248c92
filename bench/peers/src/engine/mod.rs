//! Engines: ours and its peers behind the one verb that they share.
//!
//! Each is set up as its own documentation advises for a log that is kept short: what is old is given up, so that files are used again by
//! whoever can.

mod fjall;
mod grouped;
mod naive;
mod okaywal;
mod ours;
mod raft;
mod walrus;

use crate::error::PeersError;
use crate::producing::Until;
use crate::window::Window;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// An engine that is open.
pub trait Engine: Send + Sync {
    /// Appends one record, and returns when it is durable. `producer` is the number of the calling thread, from 0.
    ///
    /// # Errors
    /// What the engine answered.
    fn append(&self, producer: usize, value: &[u8]) -> Result<(), PeersError>;

    /// One thread that keeps so many appends in flight. Only for engines with a verb that does not wait.
    ///
    /// # Errors
    /// What the engine answered, or that it has no such verb.
    fn outstanding(
        &self,
        depth: usize,
        _value: &[u8],
        _until: Until<'_>,
        _window: &mut Window,
    ) -> Result<(), PeersError> {
        let reason = format!("it has no verb that leaves {depth} appends in flight");
        Err(PeersError::Engine { engine: "this engine", doing: "appending", reason })
    }

    /// Gives up what is old. Called now and then from a thread of its own while others append.
    ///
    /// # Errors
    /// What the engine answered.
    fn tidy(&self) -> Result<(), PeersError> {
        Ok(())
    }

    /// Commits that the engine itself counted as durable, where it has such a count.
    fn commits(&self) -> Option<u64> {
        None
    }

    /// Closes it in order.
    ///
    /// # Errors
    /// What the engine answered.
    fn close(self: Box<Self>) -> Result<(), PeersError> {
        Ok(())
    }
}

/// How an engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// How many threads append.
    pub producers: usize,
    /// Small files, where only the way is tried.
    pub small: bool,
    /// Whether appends are durable. They are not only to see that the check finds that.
    pub synced: bool,
}

/// All engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
pub enum Kind {
    /// The store of this project.
    Strandline,
    /// The same without a ring: plain system calls, which strace sees.
    StrandlinePosix,
    /// A write-ahead log with group commit.
    Okaywal,
    /// TiKV's log of many logs.
    RaftEngine,
    /// A log of topics.
    Walrus,
    /// The journal of a key-value store.
    Fjall,
    /// A file, a lock, write and fdatasync.
    Naive,
    /// The same with group commit, over blocks that were written before.
    NaiveGrouped,
}

impl Kind {
    /// All that are measured.
    pub const MEASURED: [Kind; 7] =
        [Kind::Strandline, Kind::Okaywal, Kind::RaftEngine, Kind::Walrus, Kind::Fjall, Kind::Naive, Kind::NaiveGrouped];

    /// Its name in reports and options.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Strandline => "strandline",
            Kind::StrandlinePosix => "strandline-posix",
            Kind::Okaywal => "okaywal",
            Kind::RaftEngine => "raft-engine",
            Kind::Walrus => "walrus",
            Kind::Fjall => "fjall",
            Kind::Naive => "naive",
            Kind::NaiveGrouped => "naive-grouped",
        }
    }

    /// The package that it comes from; `None` for what is written here.
    pub fn package(self) -> Option<&'static str> {
        match self {
            Kind::Strandline | Kind::StrandlinePosix => Some("strandline"),
            Kind::Okaywal => Some("okaywal"),
            Kind::RaftEngine => Some("raft-engine"),
            Kind::Walrus => Some("walrus-rust"),
            Kind::Fjall => Some("fjall"),
            Kind::Naive | Kind::NaiveGrouped => None,
        }
    }

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Kind::Strandline | Kind::StrandlinePosix)
    }

    /// Whether one thread may have many appends in flight.
    pub fn has_outstanding(self) -> bool {
        self.is_ours()
    }

    /// Whether it can be told not to sync.
    pub fn can_be_unsynced(self) -> bool {
        !matches!(self, Kind::Okaywal)
    }

    /// Whether what it does to be durable are ring operations, which strace does not see.
    pub fn has_ring(self) -> bool {
        self == Kind::Strandline
    }

    /// Opens it in an empty directory, with files ready to be used again where it uses files again.
    ///
    /// # Errors
    /// What the engine answered.
    pub fn open(self, directory: &Path, setting: Setting) -> Result<Box<dyn Engine>, PeersError> {
        Ok(match self {
            Kind::Strandline => Box::new(ours::Ours::open(directory, setting, strandline::Backend::Uring)?),
            Kind::StrandlinePosix => Box::new(ours::Ours::open(directory, setting, strandline::Backend::Posix)?),
            Kind::Okaywal => Box::new(okaywal::Okaywal::open(directory, setting)?),
            Kind::RaftEngine => Box::new(raft::Raft::open(directory, setting)?),
            Kind::Walrus => Box::new(walrus::OfTopics::open(setting)?),
            Kind::Fjall => Box::new(fjall::Journal::open(directory, setting)?),
            Kind::Naive => Box::new(naive::Naive::open(directory, setting)?),
            Kind::NaiveGrouped => Box::new(grouped::Grouped::open(directory, setting)?),
        })
    }

    /// What its process has to find in its environment.
    pub fn environment(self, directory: &Path) -> Vec<(&'static str, std::ffi::OsString)> {
        match self {
            // It prints a line for every append to standard output unless it is told to be quiet.
            Kind::Walrus => {
                vec![("WALRUS_QUIET", "1".into()), ("WALRUS_DATA_DIR", directory.join("walrus").into_os_string())]
            }
            _ => Vec::new(),
        }
    }
}

impl Setting {
    /// One producer, small files, durable.
    #[cfg(test)]
    pub fn small() -> Setting {
        Setting { producers: 1, small: true, synced: true }
    }
}
