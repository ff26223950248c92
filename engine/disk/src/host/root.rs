//! The root directory and the lock on it. Owns both descriptors; knows nothing of who carries operations out.

use super::probe::Host;
use super::setup_error::SetupError;
use crate::error::{DiskError, Verb};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

/// The lock file's name in the root. It also holds the store's identity, so it is written in place and never renamed.
pub const LOCK_NAME: &str = "strandline.id";

/// The pauses between tries for the lock double from the first to the second.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// An open root directory that no other process may open. Shared by the disks of one store; the last one to go unlocks.
///
/// Each ring also keeps the lock's descriptor in its file table: a process that is killed frees its own descriptors at once
/// while its writes still land, and only the ring's table lives as long as they do. Plain calls need nothing like it: a thread
/// that the kernel holds in a write has the process's descriptors open until that write has ended.
#[derive(Debug)]
pub struct RootLock {
    path: PathBuf,
    directory: OwnedFd,
    lock: OwnedFd,
    process: rustix::process::Pid,
    host: OnceLock<Host>,
    warned: Once,
}

impl RootLock {
    /// Opens `root`, making it (mode 0700) when its parent exists, and locks it, waiting at most `wait`. Blocks.
    ///
    /// # Errors
    /// [`SetupError`], most of all `LockHeld` when another process keeps the lock.
    pub fn acquire(root: &Path, wait: Duration) -> Result<Arc<RootLock>, SetupError> {
        let directory = open_root(root)?;
        let path = root.join(LOCK_NAME);
        let lock = lock_within(&directory, &path, wait)?;
        let process = rustix::process::getpid();
        Ok(Arc::new(RootLock {
            path: root.to_owned(),
            directory,
            lock,
            process,
            host: OnceLock::new(),
            warned: Once::new(),
        }))
    }

    /// The root, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// What the host allows, probed once: the probe uses a file of fixed name, which two rings must not fight over.
    pub(crate) fn host(&self) -> &Host {
        self.host.get_or_init(|| Host::probe(self.directory()))
    }

    /// Warns once, however many disks of the store have to do without a ring.
    pub(crate) fn warn_of_fallback(&self, reason: &SetupError) {
        self.warned
            .call_once(|| tracing::warn!(%reason, "there is no ring to be had: plain system calls serve instead"));
    }
}

impl Drop for RootLock {
    fn drop(&mut self) {
        // A forked child that ends must not unlock what its parent still uses.
        if rustix::process::getpid() == self.process {
            // Explicit, since the ring's file table is torn down some milliseconds after its close.
            let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
        }
    }
}

fn open_root(root: &Path) -> Result<OwnedFd, SetupError> {
    let failed = |errno| match errno {
        Errno::ROFS => SetupError::ReadOnly { path: root.to_owned() },
        errno => SetupError::Disk(DiskError::new(Verb::Setup, root.to_string_lossy(), errno)),
    };
    match rustix::fs::mkdir(root, Mode::RWXU) {
        Ok(()) => sync_parent(root).map_err(failed)?,
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => SetupError::NotADirectory { path: root.to_owned() },
        errno => failed(errno),
    })?;
    let stat = rustix::fs::fstat(&directory).map_err(failed)?;
    check_owner(root, &stat)?;
    if stat.st_mode & 0o002 != 0 {
        return Err(SetupError::WorldWritable { path: root.to_owned(), mode: stat.st_mode & 0o7777 });
    }
    Ok(directory)
}

/// Without this, a power cut could take the new root away with everything that was made durable below it.
fn sync_parent(root: &Path) -> Result<(), Errno> {
    let parent = match root.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::fsync(rustix::fs::open(parent, flags, Mode::empty())?)
}

fn check_owner(path: &Path, stat: &Stat) -> Result<(), SetupError> {
    let us = rustix::process::geteuid().as_raw();
    if stat.st_uid == us {
        return Ok(());
    }
    Err(SetupError::NotOurs { path: path.to_owned(), owner: stat.st_uid, us })
}

fn lock_within(directory: &OwnedFd, path: &Path, wait: Duration) -> Result<OwnedFd, SetupError> {
    let started = Instant::now();
    let mut pause = PAUSE_FIRST;
    let mut told = false;
    loop {
        if let Some(lock) = try_lock(directory, path)? {
            return Ok(lock);
        }
        let waited = started.elapsed();
        if waited >= wait {
            return Err(SetupError::LockHeld { path: path.to_owned(), waited });
        }
        if !told {
            told = true;
            tracing::info!(path = %path.display(), ?wait, "waiting for the lock on the store");
        }
        std::thread::sleep(pause.min(wait - waited));
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One try: `None` while somebody else has the lock.
fn try_lock(directory: &OwnedFd, path: &Path) -> Result<Option<OwnedFd>, SetupError> {
    let failed = |errno| match errno {
        Errno::LOOP | Errno::ISDIR | Errno::NXIO => SetupError::OddLockFile { path: path.to_owned() },
        Errno::ROFS => SetupError::ReadOnly { path: path.parent().unwrap_or(path).to_owned() },
        errno => SetupError::Disk(DiskError::new(Verb::Lock, path.to_string_lossy(), errno)),
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let lock = rustix::fs::openat(directory, LOCK_NAME, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    }
    let held = rustix::fs::fstat(&lock).map_err(failed)?;
    check_owner(path, &held)?;
    if FileType::from_raw_mode(held.st_mode) != FileType::RegularFile || held.st_nlink > 1 {
        return Err(SetupError::OddLockFile { path: path.to_owned() });
    }
    // A lock on a file that lost its name meanwhile excludes nobody.
    match rustix::fs::statat(directory, LOCK_NAME, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) if named.st_ino == held.st_ino && named.st_dev == held.st_dev => Ok(Some(lock)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}
