//! Shape: the configuration of a store under test. Small, so that rolls, recycling and snapshots of the manifest come often.

use crate::random::Random;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use strandline::config::Sabotage;
use strandline::{Config, DirectIo, Preallocate, Removal, SmallCommits, SyncMode};

/// Whether the store goes past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// Past it.
    Direct,
    /// Through it.
    Buffered,
}

/// How appends become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// What the store chooses.
    Auto,
    /// A durable write for each log.
    Dsync,
    /// A write and a sync for each log.
    File,
    /// One barrier for all; where the store refuses it, what it chooses.
    Barrier,
}

/// A deliberate defect, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Defect {
    /// Commits are not flushed.
    SkipFlush,
    /// Directories are not synced when a segment's file comes into them.
    SkipDirectorySync,
    /// Callers are answered when a commit is started.
    AckBeforeCompletion,
    /// A segment takes records before the manifest knows it.
    RecordBeforeEdit,
    /// What lies past the end after a crash stays.
    KeepDeadTail,
    /// One barrier stands for every file, whatever it goes through.
    BarrierForAll,
    /// A roll does not wait for what is not flushed.
    RollBeforeFlush,
    /// A truncation is answered before the manifest knows of it.
    CutBeforeEdit,
    /// A log at rest is written before the manifest knows.
    WriteBeforeDirty,
    /// The bytes of a segment go before the manifest knows that it was given up.
    ReleaseBeforeEdit,
}

impl Defect {
    /// As the engine knows it.
    pub fn engine(self) -> Sabotage {
        match self {
            Defect::SkipFlush => Sabotage::SkipFlush,
            Defect::SkipDirectorySync => Sabotage::SkipDirectorySync,
            Defect::AckBeforeCompletion => Sabotage::AnswerBeforeCompletion,
            Defect::RecordBeforeEdit => Sabotage::RecordBeforeEdit,
            Defect::KeepDeadTail => Sabotage::KeepDeadTail,
            Defect::BarrierForAll => Sabotage::BarrierForAll,
            Defect::RollBeforeFlush => Sabotage::RollBeforeFlush,
            Defect::CutBeforeEdit => Sabotage::CutBeforeEdit,
            Defect::WriteBeforeDirty => Sabotage::WriteBeforeDirty,
            Defect::ReleaseBeforeEdit => Sabotage::ReleaseBeforeEdit,
        }
    }
}

/// What decides a configuration.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Direct or buffered.
    pub io: Io,
    /// How appends become durable.
    pub sync: Sync,
    /// The deliberate defect, if any.
    pub defect: Option<Defect>,
    /// Decides the rest.
    pub seed: u64,
}

/// Fields of policies that fill the manifest's page.
pub const HOST_FIELDS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

impl Shape {
    /// The configuration of a store at `root`.
    pub fn config(&self, root: &Path) -> Config {
        let mut random = Random::new(self.seed, 11);
        Config {
            segment_bytes: 64 << 10,
            batch_bytes_max: 8 << 10,
            commit_bytes_max: 32 << 10,
            arena_bytes: 1 << 20,
            manifest_bytes: 64 << 10,
            audit_bytes: 64 << 10,
            logs_max: 16,
            flush_bytes: 16 << 10,
            flush_interval: Duration::from_millis(5),
            idle_mark_after: Duration::from_millis(5),
            idle_clean_after: Duration::from_millis(15),
            spare_bytes_max: 512 << 10,
            spare_files_min: 1,
            reserve_bytes: 64 << 10,
            free_soft_bytes: Some(0),
            free_hard_bytes: Some(0),
            tail_cache_bytes: 0, // Reads are to reach the disk.
            lock_wait: Duration::from_secs(10),
            direct: if self.io == Io::Direct { DirectIo::Auto } else { DirectIo::Off },
            sync: match self.sync {
                Sync::Auto => SyncMode::Auto,
                Sync::Dsync => SyncMode::Dsync,
                Sync::File => SyncMode::PerFile,
                Sync::Barrier => SyncMode::Barrier,
            },
            host_fields: HOST_FIELDS.map(str::to_owned).to_vec(),
            shards: random.pick(&[1, 1, 2]),
            preallocate: random.pick(&[Preallocate::Written, Preallocate::Written, Preallocate::Allocated]),
            small_commits: random.pick(&[SmallCommits::Rewrite, SmallCommits::Pad]),
            removal: random.pick(&[Removal::Governed, Removal::Unpaced]),
            commit_depth: random.pick(&[1, 4]),
            sabotage: self.defect.map(Defect::engine),
            ..Config::new(root)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_gives_a_configuration_that_can_work() {
        for seed in 0..50 {
            let shape = Shape { io: Io::Direct, sync: Sync::Auto, defect: None, seed };
            shape.config(Path::new("x")).check().expect("it can work");
        }
    }
}
