//! The disk of plain system calls: sets one up for a locked root, and puts its clones before what they share.

use super::shared::Shared;
use crate::buffer::Pool;
use crate::disk::Wait;
use crate::error::{DiskError, Verb};
use crate::handle::Directory;
use crate::host::{Backend, Base, DiskOptions, OnHost, RootLock, SetupError, limits};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::rc::Rc;
use std::sync::Arc;

/// A disk of plain system calls. It belongs to the thread that opened it; clones share it, and the last one to go drains it.
#[derive(Clone)]
pub(crate) struct PosixDisk(Rc<Shared>);

impl PosixDisk {
    /// Starts the threads for a root that is locked already. With `fallback`, why there is no ring.
    pub(crate) fn open_locked(
        lock: Arc<RootLock>,
        options: &DiskOptions,
        fallback: Option<&SetupError>,
    ) -> Result<PosixDisk, SetupError> {
        let mut capabilities = lock.host().report(Backend::Posix, options.access);
        let arena_bytes = limits::arena_bytes(options);
        let pool = Pool::new(arena_bytes).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
            DiskError::new(Verb::Setup, "the arena", errno)
        })?;
        capabilities.ring.arena_bytes = pool.arena().1 as u64;
        capabilities.ring.reasons.extend(limits::explain_arena(options.arena_bytes, arena_bytes));
        if let Some(reason) = fallback {
            capabilities.fallback = Some(reason.to_string());
            capabilities.warnings.push(format!("Plain system calls serve in place of a ring: {reason}."));
        }
        Ok(PosixDisk(Rc::new(Shared::new(pool, capabilities, lock, options)?)))
    }
}

impl OnHost for PosixDisk {
    fn base(&self) -> &Base {
        &self.0.base
    }

    fn cycle(&self, wait: Wait) -> Result<(), DiskError> {
        self.0.turn(wait)
    }

    fn with_descriptor<R>(
        &self,
        directory: &Directory,
        look: impl FnOnce(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.0.with_descriptor(directory, look)
    }
}
