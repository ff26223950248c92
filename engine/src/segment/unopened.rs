//! A segment's file as the manifest knows it: one that nobody has opened yet, or that was let go of.

use super::active::{Active, PreparedFile};
use super::closed;
use crate::id::{Generation, SegmentId, Uid};
use strandline_disk::{Directory, Disk, DiskError};

/// A file that can be opened when it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unopened {
    /// Its segment.
    pub id: SegmentId,
    /// Its uid.
    pub uid: Uid,
    /// Its generation.
    pub generation: Generation,
    /// Its size in bytes.
    pub size: u64,
    /// The most that may be in flight past its durable end, in bytes.
    pub look_ahead: u64,
    /// Its blocks were written whole and then synced.
    pub written: bool,
}

impl From<&Active> for Unopened {
    fn from(active: &Active) -> Unopened {
        let Active { uid, generation, size, look_ahead, anchored, .. } = *active;
        Unopened { id: active.id.clone(), uid, generation, size, look_ahead, written: anchored }
    }
}

impl From<&PreparedFile> for Unopened {
    fn from(prepared: &PreparedFile) -> Unopened {
        let PreparedFile { uid, generation, size, look_ahead, anchored, .. } = *prepared;
        Unopened { id: prepared.id.clone(), uid, generation, size, look_ahead, written: anchored }
    }
}

impl Unopened {
    /// Opens the file, and the directory that it is in.
    ///
    /// # Errors
    /// What the disk answered.
    pub async fn open<D: Disk>(&self, disk: &D) -> Result<(Directory, PreparedFile), DiskError> {
        let (directory, file) = closed::open_file(disk, &self.id, self.generation).await?;
        let prepared = PreparedFile {
            id: self.id.clone(),
            uid: self.uid,
            generation: self.generation,
            size: self.size,
            look_ahead: self.look_ahead,
            anchored: self.written,
            file,
        };
        Ok((directory, prepared))
    }
}
