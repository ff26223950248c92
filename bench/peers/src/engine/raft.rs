//! raft-engine: one Raft group a producer, all in the one log that the engine keeps for all groups. `write` with `sync` returns after an
//! `fdatasync` that the leader of a group of writers does for all of them.

use super::{Engine, Setting};
use crate::error::{PeersError, failed, io};
use protobuf::well_known_types::BytesValue;
use raft_engine::env::DefaultFileSystem;
use raft_engine::{Config, LogBatch, MessageExt, ReadableSize};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "raft-engine";

/// A file of its log (the default), and from how many bytes on it gives up files. It keeps half as many again to be used again, and all
/// are written before it is opened.
const FILE_MIB: u64 = 128;
const PURGE_MIB: u64 = 512;
const FILE_MIB_OF_TRIAL: u64 = 4;
const PURGE_MIB_OF_TRIAL: u64 = 16;

/// Entries that a group keeps.
const KEPT: u64 = 64;

/// An entry whose first bytes are its index.
#[derive(Clone)]
struct Indexed;

impl MessageExt for Indexed {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        entry.value.first_chunk().copied().map_or(0, u64::from_le_bytes)
    }
}

/// The log, and the last index of each group.
pub struct Raft {
    engine: raft_engine::Engine<DefaultFileSystem>,
    last: Vec<AtomicU64>,
    synced: bool,
}

impl Raft {
    /// Opens it with recycling and prefilling, and waits until what was prefilled is on the disk.
    ///
    /// # Errors
    /// What it answered.
    pub fn open(directory: &Path, setting: Setting) -> Result<Raft, PeersError> {
        let (file, purge) = match setting.small {
            true => (FILE_MIB_OF_TRIAL, PURGE_MIB_OF_TRIAL),
            false => (FILE_MIB, PURGE_MIB),
        };
        let config = Config {
            dir: directory.join(NAME).to_string_lossy().into_owned(),
            target_file_size: ReadableSize::mb(file),
            purge_threshold: ReadableSize::mb(purge),
            enable_log_recycle: true,
            prefill_for_recycle: true,
            // The records cannot be compressed: to try would only cost.
            batch_compression_threshold: ReadableSize(0),
            ..Config::default()
        };
        let engine = raft_engine::Engine::open(config).map_err(failed(NAME, "opening it"))?;
        rustix::fs::syncfs(std::fs::File::open(directory).map_err(io("looking for the directory"))?)
            .map_err(|errno| io("syncing the file system")(errno.into()))?;
        let last = (0..setting.producers).map(|_| AtomicU64::new(0)).collect();
        Ok(Raft { engine, last, synced: setting.synced })
    }
}

impl Engine for Raft {
    fn append(&self, producer: usize, value: &[u8]) -> Result<(), PeersError> {
        let index = self.last[producer].load(Ordering::Relaxed) + 1;
        let mut entry = BytesValue { value: value.to_vec(), ..BytesValue::default() };
        if let Some(place) = entry.value.first_chunk_mut() {
            *place = index.to_le_bytes();
        }
        let mut batch = LogBatch::with_capacity(1);
        batch.add_entries::<Indexed>(group(producer), &[entry]).map_err(failed(NAME, "building a batch"))?;
        self.engine.write(&mut batch, self.synced).map_err(failed(NAME, "writing"))?;
        // A group has one writer.
        self.last[producer].store(index, Ordering::Relaxed);
        Ok(())
    }

    fn tidy(&self) -> Result<(), PeersError> {
        for (producer, last) in self.last.iter().enumerate() {
            let last = last.load(Ordering::Relaxed);
            if last > 2 * KEPT {
                self.engine.compact_to(group(producer), last - KEPT);
            }
        }
        self.engine.purge_expired_files().map(drop).map_err(failed(NAME, "purging"))
    }
}

fn group(producer: usize) -> u64 {
    producer as u64 + 1
}
