//! naive-grouped: what an afternoon buys. One file whose blocks were all written before, a buffer that records gather in, and whoever comes
//! first writes and syncs what all have gathered. No checksums, no recovery, nothing to read.

use super::{Engine, Setting};
use crate::error::{PeersError, io};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The file, and the one of a trial.
const FILE_BYTES: [u64; 2] = [256 << 20, 4 << 20];

/// The file and who waits for it.
pub struct Grouped {
    file: File,
    file_bytes: u64,
    gathered: Mutex<Gathered>,
    committed: Condvar,
    synced: bool,
}

/// Records that wait for the next commit.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    spare: Vec<u8>,
    position: u64,
    /// The commit that what is gathered now will be part of.
    next: u64,
    /// Commits that are durable.
    durable: u64,
    is_committing: bool,
    failed: bool,
}

impl Grouped {
    /// Makes the file and writes all of it.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn open(directory: &Path, setting: Setting) -> Result<Grouped, PeersError> {
        let file = File::create_new(directory.join("log")).map_err(io("making the file of naive-grouped"))?;
        let (file_bytes, zeros) = (FILE_BYTES[usize::from(setting.small)], vec![0; 1 << 20]);
        for position in (0..file_bytes).step_by(zeros.len()) {
            file.write_all_at(&zeros, position).map_err(io("writing the file of naive-grouped"))?;
        }
        file.sync_all().map_err(io("syncing the file of naive-grouped"))?;
        let gathered = Mutex::new(Gathered { next: 1, ..Gathered::default() });
        Ok(Grouped { file, file_bytes, gathered, committed: Condvar::new(), synced: setting.synced })
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and syncs what was gathered, without the lock, and takes it back.
    fn commit<'a>(&'a self, mut gathered: MutexGuard<'a, Gathered>) -> Result<MutexGuard<'a, Gathered>, PeersError> {
        gathered.is_committing = true;
        let (commit, spare) = (gathered.next, std::mem::take(&mut gathered.spare));
        gathered.next += 1;
        let bytes = std::mem::replace(&mut gathered.bytes, spare);
        if gathered.position + bytes.len() as u64 > self.file_bytes {
            gathered.position = 0;
        }
        let position = gathered.position;
        gathered.position += bytes.len() as u64;
        drop(gathered);
        let written = self.file.write_all_at(&bytes, position);
        let written = written.and_then(|()| if self.synced { self.file.sync_data() } else { Ok(()) });
        let mut gathered = self.lock();
        gathered.spare = bytes;
        gathered.spare.clear();
        gathered.durable = commit;
        gathered.is_committing = false;
        gathered.failed |= written.is_err();
        self.committed.notify_all();
        written.map(|()| gathered).map_err(io("writing and syncing"))
    }
}

impl Engine for Grouped {
    fn append(&self, _producer: usize, value: &[u8]) -> Result<(), PeersError> {
        let mut gathered = self.lock();
        gathered.bytes.extend_from_slice(value);
        let mine = gathered.next;
        while gathered.durable < mine {
            gathered = match gathered.is_committing {
                true => self.committed.wait(gathered).unwrap_or_else(PoisonError::into_inner),
                false => self.commit(gathered)?,
            };
        }
        match gathered.failed {
            true => Err(io("writing and syncing")(std::io::Error::other("a commit failed"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_many_threads_are_all_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = Grouped::open(directory.path(), Setting::small()).expect("opened");
        std::thread::scope(|scope| {
            for producer in 1..=8_u8 {
                let engine = &engine;
                scope.spawn(move || (0..50).try_for_each(|_| engine.append(0, &[producer; 64])).expect("appended"));
            }
        });
        let bytes = std::fs::read(directory.path().join("log")).expect("read");
        for producer in 1..=8_u8 {
            assert_eq!(bytes.iter().filter(|byte| **byte == producer).count(), 50 * 64, "of {producer}");
        }
    }
}
