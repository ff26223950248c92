//! The disk on a ring: sets one up for a locked root, and puts the clones of one disk before what they share.

use super::ring::Ring;
use super::shared::Shared;
use crate::capabilities::Capabilities;
use crate::disk::Wait;
use crate::error::DiskError;
use crate::handle::Directory;
use crate::host::{Backend, Base, DiskOptions, OnHost, RootLock, SetupError, limits};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::rc::Rc;
use std::sync::Arc;

/// A disk on a ring. It belongs to the thread that opened it; clones share it, and the last one to go drains it.
#[derive(Clone)]
pub(crate) struct UringDisk(Rc<Shared>);

impl UringDisk {
    /// Sets up a ring on this thread for a root that is locked already.
    pub(crate) fn open_locked(lock: Arc<RootLock>, options: &DiskOptions) -> Result<UringDisk, SetupError> {
        let mut capabilities = lock.host().report(Backend::Uring, options.access);
        let arena_bytes = limits::arena_bytes(options);
        let (ring, pool, report) = Ring::open(options, arena_bytes, lock.descriptor())?;
        capabilities.ring = report;
        explain(&mut capabilities, options.arena_bytes, arena_bytes);
        Ok(UringDisk(Rc::new(Shared::new(ring, pool, capabilities, lock, options.clock.clone())?)))
    }
}

impl OnHost for UringDisk {
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

/// Adds to the report what only the whole of it shows.
fn explain(capabilities: &mut Capabilities, wanted: usize, allowed: usize) {
    capabilities.ring.reasons.extend(limits::explain_arena(wanted, allowed));
    if !capabilities.ring.buffers_registered {
        let warning = "The arena is not registered: raise the locked-memory limit, see the ring's reasons.";
        capabilities.warnings.push(warning.into());
    }
    if !capabilities.ring.files_registered {
        let warning = "Files are not registered: the lock may not outlive the writes of a killed process.";
        capabilities.warnings.push(warning.into());
    }
}
