//! The disk that callers see. Opens a root, and puts the clones of one disk before what they share.

use super::counters::RingCounters;
use super::options::{DirectMode, UringOptions};
use super::ring::Ring;
use super::root::RootLock;
use super::setup_error::SetupError;
use super::shared::Shared;
use super::{control_group, limits, look};
use crate::buffer::Pool;
use crate::capabilities::Capabilities;
use crate::clock::Now;
use crate::disk::{Disk, Entry, Operation, Space, Stat, Wait};
use crate::doorbell::Doorbell;
use crate::error::{DiskError, Verb};
use crate::handle::Directory;
use crate::name::Name;
use crate::slot::InFlight;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// A disk on a ring. It belongs to the thread that opened it; clones share it, and the last one to go drains it.
#[derive(Clone)]
pub struct UringDisk(Rc<Shared>);

impl UringDisk {
    /// Opens `root`, locks it and sets up a ring on this thread. Blocks; waits for the lock as the options say.
    ///
    /// # Errors
    /// [`SetupError`]: what stands in the way, and what to change.
    pub fn open(root: &Path, options: &UringOptions) -> Result<UringDisk, SetupError> {
        UringDisk::open_locked(RootLock::acquire(root, options.lock_wait)?, options)
    }

    /// Sets up a ring on this thread for a root that is locked already. Several disks may share one lock.
    ///
    /// # Errors
    /// [`SetupError`]: what stands in the way, and what to change.
    pub fn open_locked(lock: Arc<RootLock>, options: &UringOptions) -> Result<UringDisk, SetupError> {
        let mut capabilities = lock.host().report(options.access == DirectMode::Auto);
        let arena_bytes = limits::arena_within(options.arena_bytes, control_group::memory_limit());
        let arena_bytes = arena_bytes.max(options.arena_bytes_min.min(options.arena_bytes));
        let (ring, pool, report) = Ring::open(options, arena_bytes, lock.descriptor())?;
        capabilities.ring = report;
        explain(&mut capabilities, options.arena_bytes, arena_bytes);
        Ok(UringDisk(Rc::new(Shared::new(ring, pool, capabilities, lock, options.clock.clone())?)))
    }

    /// What the ring has done. Any thread may read it.
    #[must_use]
    pub fn counters(&self) -> Arc<RingCounters> {
        self.0.counters()
    }

    /// The lock, for another ring of the same store.
    #[must_use]
    pub fn lock(&self) -> Arc<RootLock> {
        self.0.lock()
    }
}

impl fmt::Debug for UringDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UringDisk({}, {} in flight)", self.0.lock().path().display(), self.0.in_flight())
    }
}

/// Adds to the report what only the whole of it shows.
fn explain(capabilities: &mut Capabilities, wanted: usize, allowed: usize) {
    if allowed < wanted {
        let reason =
            format!("The arena is {allowed} of {wanted} bytes: a quarter of the control group's memory limit.");
        capabilities.ring.reasons.push(reason);
    }
    if !capabilities.ring.buffers_registered {
        let warning = "The arena is not registered: raise the locked-memory limit, see the ring's reasons.";
        capabilities.warnings.push(warning.into());
    }
    if !capabilities.ring.files_registered {
        let warning = "Files are not registered: the lock may not outlive the writes of a killed process.";
        capabilities.warnings.push(warning.into());
    }
}

impl Disk for UringDisk {
    fn start(&self, operation: Operation) -> InFlight {
        self.0.start(operation)
    }

    fn turn(&self, wait: Wait) -> Result<(), DiskError> {
        self.0.turn(wait)
    }

    fn take_failed_flush(&self) -> Option<DiskError> {
        self.0.take_failed_flush()
    }

    fn root(&self) -> Directory {
        self.0.root()
    }

    fn list(&self, directory: &Directory) -> Result<Vec<Entry>, DiskError> {
        self.0
            .with_descriptor(directory, if self.0.is_root(directory) { look::list } else { look::list_own })
            .map_err(|errno| DiskError::new(Verb::List, directory.path().clone(), errno))
    }

    fn stat(&self, directory: &Directory, name: &Name) -> Result<Stat, DiskError> {
        self.0
            .with_descriptor(directory, |directory| look::stat(directory, name.as_c_str()))
            .map_err(|errno| DiskError::new(Verb::Stat, directory.path_of(name.as_str()), errno))
    }

    fn space(&self) -> Result<Space, DiskError> {
        let root = self.0.root();
        let found = self.0.with_descriptor(&root, |root| rustix::fs::fstatvfs(root));
        let found = found.map_err(|errno| DiskError::new(Verb::Space, root.path().clone(), errno))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
    }

    fn pool(&self) -> &Pool {
        self.0.pool()
    }

    fn now(&self) -> Now {
        self.0.clock.now()
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            // Fails only while the machine has not gathered its first randomness since boot, which is waited for.
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
        }
        u128::from_ne_bytes(bytes)
    }

    fn doorbell(&self) -> Doorbell {
        self.0.doorbell()
    }

    fn capabilities(&self) -> Rc<Capabilities> {
        self.0.capabilities()
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}
