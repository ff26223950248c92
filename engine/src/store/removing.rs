//! Removing: the thread that removes files, with a ring of its own, so that what blocks there holds up no shard.

use super::serve::{drive_with, panic_text};
use crate::config::CheckedConfig;
use crate::error::OpenError;
use crate::id::StoreId;
use crate::manifest::{Edits, ManifestError};
use crate::removal::remover::{Remover, Settings};
use crate::shard::Siblings;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use strandline_disk::DiskError;
use strandline_disk::uring::{RootLock, UringDisk, UringOptions};

/// Its arena in bytes, and the least of it: header blocks, and what is filled of a file before it is used again.
const ARENA_BYTES: usize = 4 << 20;
const ARENA_BYTES_MIN: usize = 1 << 20;
/// Files that it has open at once are few.
const FILES_MAX: u32 = 512;
/// How long it rests before it is started again after it broke down.
const REST: Duration = Duration::from_secs(1);

/// The thread that removes files.
#[derive(Debug)]
pub(super) struct Removing {
    siblings: Arc<Siblings>,
    thread: Option<JoinHandle<()>>,
}

/// What it works with.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) config: CheckedConfig,
    pub(super) lock: Arc<RootLock>,
    pub(super) store: StoreId,
    pub(super) edits: Edits,
    pub(super) siblings: Arc<Siblings>,
}

impl Removing {
    /// Starts it, and gives it when its ring is open.
    pub(super) fn start(work: Work) -> Result<Removing, OpenError> {
        let siblings = work.siblings.clone();
        let (tell, told) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("strandline-remove".to_owned());
        let thread =
            thread.spawn(move || work_on(&work, &tell)).map_err(|error| OpenError::Thread(error.to_string()))?;
        let removing = Removing { siblings, thread: Some(thread) };
        match told.recv() {
            Ok(Ok(())) => Ok(removing),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(OpenError::ShardGone("the thread that removes files ended without a word".to_owned())),
        }
    }
}

impl Drop for Removing {
    /// Ends it after the step in hand. What is left is removed after the next open.
    fn drop(&mut self) {
        self.siblings.removal.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work_on(work: &Work, tell: &mpsc::SyncSender<Result<(), OpenError>>) {
    let mut first = Some(tell);
    while !work.siblings.removal.inbox.is_closed() {
        match catch_unwind(AssertUnwindSafe(|| remove(work, &mut first))) {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => {
                return tracing::warn!(%error, "released files are removed after the next open");
            }
            Ok(Err(error)) => match first.take() {
                Some(tell) => return drop(tell.send(Err(error))),
                None => tracing::error!(%error, "the thread that removes files broke down: it begins again"),
            },
            Err(panic) => {
                let panic = panic_text(&*panic);
                tracing::error!(panic, "the thread that removes files panicked: it begins again");
            }
        }
        std::thread::sleep(REST);
    }
}

/// Removes until the store is closed. `first` is told when the ring is open.
fn remove(
    work: &Work,
    first: &mut Option<&mpsc::SyncSender<Result<(), OpenError>>>,
) -> Result<Result<(), ManifestError>, OpenError> {
    let Work { config, lock, store, edits, siblings } = work;
    let disk = UringDisk::open_locked(lock.clone(), &options(config));
    let disk = disk.map_err(|error| OpenError::Setup(Arc::new(error)))?;
    if let Some(tell) = first.take() {
        let _ = tell.send(Ok(()));
    }
    let alarm = {
        let siblings = siblings.clone();
        Box::new(move |error: &DiskError| siblings.note_failed_flush(error))
    };
    let exchange = siblings.removal.clone();
    let remover = Remover::new(disk.clone(), (*store, edits.clone()), exchange, Settings::of(config), alarm);
    let alarm = |error: &DiskError| siblings.note_failed_flush(error);
    drive_with(&disk, remover.run(), alarm).map_err(OpenError::Disk)
}

fn options(config: &CheckedConfig) -> UringOptions {
    UringOptions {
        arena_bytes: ARENA_BYTES,
        arena_bytes_min: ARENA_BYTES_MIN,
        io_wq_workers: config.removal_workers,
        files_max: FILES_MAX,
        ..super::serve::options(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn dl_01_the_ring_of_removal_has_the_kernel_workers_of_its_own_setting() {
        for removal_workers in [1, 2, 8] {
            let config = Config { removal_workers, ..Config::new("store") }.check().expect("it can work");
            assert_eq!(options(&config).io_wq_workers, removal_workers);
        }
        let default = Config::new("store").check().expect("it can work");
        assert_eq!(options(&default).io_wq_workers, 1, "unlinks in one directory wait for each other");
    }
}
