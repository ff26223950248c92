//! On the host: every disk on real files is a [`Disk`], by what it has in common with the others and three verbs of its own.

use super::base::Base;
use super::look;
use crate::buffer::Pool;
use crate::capabilities::Capabilities;
use crate::clock::Now;
use crate::disk::{Disk, Entry, Operation, Space, Stat, Wait};
use crate::doorbell::Doorbell;
use crate::error::{DiskError, Verb};
use crate::handle::{Directory, Handles};
use crate::name::Name;
use crate::slot::InFlight;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::rc::Rc;

/// A disk on real files.
pub trait OnHost: Clone + 'static {
    /// What it has in common with the others.
    fn base(&self) -> &Base;

    /// As [`Disk::turn`].
    ///
    /// # Errors
    /// As there.
    fn cycle(&self, wait: Wait) -> Result<(), DiskError>;

    /// Looks at an open directory past whoever carries the operations out.
    ///
    /// # Errors
    /// What the look answered, EBADF for a handle of another disk.
    fn with_descriptor<R>(
        &self,
        directory: &Directory,
        look: impl FnOnce(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno>;
}

impl<T: OnHost> Disk for T {
    fn start(&self, operation: Operation) -> InFlight {
        self.base().start(operation)
    }

    fn turn(&self, wait: Wait) -> Result<(), DiskError> {
        self.cycle(wait)
    }

    fn take_failed_flush(&self) -> Option<DiskError> {
        self.base().slots.take_failed_flush()
    }

    fn root(&self) -> Directory {
        self.base().root.clone()
    }

    fn list(&self, directory: &Directory) -> Result<Vec<Entry>, DiskError> {
        let list = if self.base().is_root(directory) { look::list } else { look::list_own };
        self.with_descriptor(directory, list)
            .map_err(|errno| DiskError::new(Verb::List, directory.path().clone(), errno))
    }

    fn stat(&self, directory: &Directory, name: &Name) -> Result<Stat, DiskError> {
        self.with_descriptor(directory, |directory| look::stat(directory, name.as_c_str()))
            .map_err(|errno| DiskError::new(Verb::Stat, directory.path_of(name.as_str()), errno))
    }

    fn space(&self) -> Result<Space, DiskError> {
        let root = &self.base().root;
        let found = self.with_descriptor(root, |root| rustix::fs::fstatvfs(root));
        let found = found.map_err(|errno| DiskError::new(Verb::Space, root.path().clone(), errno))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
    }

    fn handles(&self) -> Handles {
        self.base().handles.clone()
    }

    fn pool(&self) -> &Pool {
        &self.base().pool
    }

    fn now(&self) -> Now {
        self.base().clock.now()
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
        self.base().doorbell.clone()
    }

    fn capabilities(&self) -> Rc<Capabilities> {
        self.base().capabilities.clone()
    }

    fn in_flight(&self) -> usize {
        self.base().slots.flying()
    }
}
