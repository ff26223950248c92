//! walrus: a topic a producer (a topic has one lock, so threads on one topic would sync one after the other). With `SyncEach` each append
//! is one `pwrite` to a descriptor opened with `O_SYNC`, and an `fsync` behind it.
//!
//! It has no way to give anything up but to read it, and removes files only some hours later: it writes to fresh blocks.

use super::{Engine, Setting};
use crate::error::{PeersError, failed};
use walrus_rust::{FsyncSchedule, ReadConsistency, Walrus};

const NAME: &str = "walrus";

/// The log, and the names of its topics.
pub struct OfTopics {
    log: Walrus,
    topics: Vec<String>,
}

impl OfTopics {
    /// Opens it where its environment says.
    ///
    /// # Errors
    /// What it answered.
    pub fn open(setting: Setting) -> Result<OfTopics, PeersError> {
        let schedule = if setting.synced { FsyncSchedule::SyncEach } else { FsyncSchedule::NoFsync };
        let consistency = ReadConsistency::StrictlyAtOnce;
        let log = Walrus::with_consistency_and_schedule(consistency, schedule).map_err(failed(NAME, "opening it"))?;
        Ok(OfTopics { log, topics: (0..setting.producers).map(|producer| format!("topic-{producer}")).collect() })
    }
}

impl Engine for OfTopics {
    fn append(&self, producer: usize, value: &[u8]) -> Result<(), PeersError> {
        self.log.append_for_topic(&self.topics[producer], value).map_err(failed(NAME, "appending"))
    }
}
