//! Removing: the thread that removes files, with a disk of its own, so that what blocks there holds up no shard.

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
use strandline_disk::host::{Backend, DiskOptions, RootLock};
use strandline_disk::real::RealDisk;

/// Its arena in bytes, and the least of it: header blocks, and what is filled of a file before it is used again.
pub(super) const ARENA_BYTES: usize = 4 << 20;
const ARENA_BYTES_MIN: usize = 1 << 20;
/// Files that it has open at once are few.
const FILES_MAX: u32 = 512;
/// Over plain system calls, it reads and writes one thing after the other.
const TRANSFER_THREADS: u32 = 1;
/// How long it rests before it is started again after it broke down.
const REST: Duration = Duration::from_secs(1);

/// The thread that removes files.
#[derive(Debug)]
pub(super) struct Removing {
    siblings: Arc<Siblings>,
    backend: Backend,
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
    /// Starts it, and gives it when its disk is open.
    pub(super) fn start(work: Work) -> Result<Removing, OpenError> {
        let (siblings, asked) = (work.siblings.clone(), work.config.backend);
        let (tell, told) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("strandline-remove".to_owned());
        let thread =
            thread.spawn(move || work_on(&work, &tell)).map_err(|error| OpenError::Thread(error.to_string()))?;
        // When this is dropped on the way, the thread has ended.
        let mut removing = Removing { siblings, backend: asked, thread: Some(thread) };
        match told.recv() {
            Ok(Ok(backend)) => {
                removing.backend = backend;
                Ok(removing)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(OpenError::ShardGone("the thread that removes files ended without a word".to_owned())),
        }
    }

    /// Who carries its operations out, as it was when the store was opened.
    pub(super) fn backend(&self) -> Backend {
        self.backend
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

type Tell = mpsc::SyncSender<Result<Backend, OpenError>>;

fn work_on(work: &Work, tell: &Tell) {
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

/// Removes until the store is closed. `first` is told when the disk is open.
fn remove(work: &Work, first: &mut Option<&Tell>) -> Result<Result<(), ManifestError>, OpenError> {
    let Work { config, lock, store, edits, siblings } = work;
    let disk = RealDisk::open_locked(lock.clone(), &options(config));
    let disk = disk.map_err(|error| OpenError::Setup(Arc::new(error)))?;
    if let Some(tell) = first.take() {
        let _ = tell.send(Ok(disk.backend()));
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

fn options(config: &CheckedConfig) -> DiskOptions {
    DiskOptions {
        arena_bytes: ARENA_BYTES,
        arena_bytes_min: ARENA_BYTES_MIN,
        workers: config.removal_workers,
        transfer_threads: TRANSFER_THREADS,
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
            assert_eq!(options(&config).workers, removal_workers);
        }
        let default = Config::new("store").check().expect("it can work");
        assert_eq!(options(&default).workers, 1, "unlinks in one directory wait for each other");
    }
}
