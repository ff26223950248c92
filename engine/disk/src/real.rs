//! The disk on real files that a store opens: over a ring, or over plain system calls where that is asked for or there is no ring.
//! This is the one place that chooses.

use crate::disk::Wait;
use crate::error::DiskError;
use crate::handle::Directory;
use crate::host::{
    Backend, Base, DiskCounters, DiskOptions, OnHost, PROBE_BYTES, RootLock, SetupError, check_file_size,
};
use crate::posix::PosixDisk;
use crate::uring::UringDisk;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A disk on real files. It belongs to the thread that opened it; clones share it, and the last one to go drains it.
#[derive(Clone)]
pub struct RealDisk(Carrier);

#[derive(Clone)]
enum Carrier {
    Uring(UringDisk),
    Posix(PosixDisk),
}

impl RealDisk {
    /// Opens `root`, locks it and sets a disk up on this thread. Blocks; waits for the lock as the options say.
    ///
    /// # Errors
    /// [`SetupError`]: what stands in the way, and what to change.
    pub fn open(root: &Path, options: &DiskOptions) -> Result<RealDisk, SetupError> {
        RealDisk::open_locked(RootLock::acquire(root, options.lock_wait)?, options)
    }

    /// Sets a disk up on this thread for a root that is locked already. Several disks may share one lock.
    ///
    /// # Errors
    /// [`SetupError`]: what stands in the way, and what to change.
    pub fn open_locked(lock: Arc<RootLock>, options: &DiskOptions) -> Result<RealDisk, SetupError> {
        check_file_size("the file that tries direct I/O", PROBE_BYTES)?;
        let posix = |fallback: Option<&SetupError>| PosixDisk::open_locked(lock.clone(), options, fallback);
        let carrier = match options.backend.unless_overruled()? {
            Backend::Uring => Carrier::Uring(UringDisk::open_locked(lock, options)?),
            Backend::Posix => Carrier::Posix(posix(None)?),
            Backend::Auto => match UringDisk::open_locked(lock.clone(), options) {
                Ok(disk) => Carrier::Uring(disk),
                Err(reason) if reason.is_of_the_ring() => {
                    lock.warn_of_fallback(&reason);
                    Carrier::Posix(posix(Some(&reason))?)
                }
                Err(error) => return Err(error),
            },
        };
        Ok(RealDisk(carrier))
    }

    /// Who carries its operations out: [`Backend::Uring`] or [`Backend::Posix`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.0 {
            Carrier::Uring(_) => Backend::Uring,
            Carrier::Posix(_) => Backend::Posix,
        }
    }

    /// What the disk has done. Any thread may read it.
    #[must_use]
    pub fn counters(&self) -> Arc<DiskCounters> {
        self.base().counters.clone()
    }

    /// The lock, for another disk of the same store.
    #[must_use]
    pub fn lock(&self) -> Arc<RootLock> {
        self.base().lock.clone()
    }
}

impl OnHost for RealDisk {
    fn base(&self) -> &Base {
        match &self.0 {
            Carrier::Uring(disk) => disk.base(),
            Carrier::Posix(disk) => disk.base(),
        }
    }

    fn cycle(&self, wait: Wait) -> Result<(), DiskError> {
        match &self.0 {
            Carrier::Uring(disk) => disk.cycle(wait),
            Carrier::Posix(disk) => disk.cycle(wait),
        }
    }

    fn with_descriptor<R>(
        &self,
        directory: &Directory,
        look: impl FnOnce(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        match &self.0 {
            Carrier::Uring(disk) => disk.with_descriptor(directory, look),
            Carrier::Posix(disk) => disk.with_descriptor(directory, look),
        }
    }
}

impl fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Base { lock, slots, .. } = self.base();
        write!(f, "RealDisk({} over {}, {} in flight)", lock.path().display(), self.backend(), slots.flying())
    }
}
