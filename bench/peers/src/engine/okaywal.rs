//! okaywal: entries of one chunk in the one log of all producers. `commit` returns after an `fdatasync` that one of the waiting threads
//! does for all.

use super::{Engine, Setting};
use crate::error::{PeersError, failed, io};
use okaywal::{Configuration, LogVoid, WriteAheadLog};
use std::path::Path;

const NAME: &str = "okaywal";

/// A segment, its part at which it is checkpointed, and the buffer: for records of many KiB the defaults (1 MiB, 768 KiB, 16 KiB) roll
/// some hundred times a second.
const SEGMENT_BYTES: u32 = 64 << 20;
const SEGMENT_BYTES_OF_TRIAL: u32 = 4 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// Segments that are made before anything is measured.
const SEGMENTS_AHEAD: usize = 4;

/// The log. What is checkpointed is given up at once: its segments go round.
pub struct Okaywal(WriteAheadLog);

impl Okaywal {
    /// Opens it, and has some segments written and checkpointed, so that they go round.
    ///
    /// # Errors
    /// What it answered.
    pub fn open(directory: &Path, setting: Setting) -> Result<Okaywal, PeersError> {
        let segment_bytes = if setting.small { SEGMENT_BYTES_OF_TRIAL } else { SEGMENT_BYTES };
        let configured = Configuration::default_for(directory.join(NAME))
            .preallocate_bytes(segment_bytes)
            .checkpoint_after_bytes(u64::from(segment_bytes) / 4 * 3)
            .buffer_bytes(BUFFER_BYTES);
        let log = Okaywal(configured.open(LogVoid).map_err(failed(NAME, "opening it"))?);
        for _ in 0..SEGMENTS_AHEAD {
            log.append(0, &[0; 64])?;
            log.0.checkpoint_active().map_err(failed(NAME, "checkpointing"))?;
        }
        rustix::fs::syncfs(std::fs::File::open(directory).map_err(io("looking for the directory"))?)
            .map_err(|errno| io("syncing the file system")(errno.into()))?;
        Ok(log)
    }
}

impl Engine for Okaywal {
    fn append(&self, _producer: usize, value: &[u8]) -> Result<(), PeersError> {
        let mut entry = self.0.begin_entry().map_err(failed(NAME, "beginning an entry"))?;
        entry.write_chunk(value).map_err(failed(NAME, "writing"))?;
        entry.commit().map(drop).map_err(failed(NAME, "committing"))
    }

    fn close(self: Box<Self>) -> Result<(), PeersError> {
        self.0.shutdown().map_err(failed(NAME, "closing it"))
    }
}
