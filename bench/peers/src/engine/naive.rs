//! naive: one file that grows, one lock, `write` and `fdatasync` for each record.

use super::{Engine, Setting};
use crate::error::{PeersError, io};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Where it begins again at the start of its file: disks are finite.
const FILE_BYTES: u64 = 2 << 30;

/// The file.
pub struct Naive {
    file: Mutex<(File, u64)>,
    synced: bool,
}

impl Naive {
    /// Makes the file.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn open(directory: &Path, setting: Setting) -> Result<Naive, PeersError> {
        let file = File::create_new(directory.join("log")).map_err(io("making the file of naive"))?;
        file.sync_all().map_err(io("syncing the file of naive"))?;
        Ok(Naive { file: Mutex::new((file, 0)), synced: setting.synced })
    }
}

impl Engine for Naive {
    fn append(&self, _producer: usize, value: &[u8]) -> Result<(), PeersError> {
        let mut locked = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, written) = &mut *locked;
        if *written + value.len() as u64 > FILE_BYTES {
            file.rewind().map_err(io("going back to the start"))?;
            *written = 0;
        }
        file.write_all(value).map_err(io("writing"))?;
        *written += value.len() as u64;
        if self.synced { file.sync_data().map_err(io("syncing")) } else { Ok(()) }
    }
}
