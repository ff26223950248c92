//! Base: what the clones of one disk share, whoever carries its operations out. It takes operations in, and ends them.

use super::counters::DiskCounters;
use super::file_size::FileSize;
use super::root::RootLock;
use crate::buffer::Pool;
use crate::capabilities::Capabilities;
use crate::disk::{Access, Operation, Success};
use crate::doorbell::Doorbell;
use crate::error::{DiskError, Verb};
use crate::handle::{Directory, File, Handles};
use crate::host_clock::HostClock;
use crate::slot::{InFlight, Slots, Token};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// How long a disk that is dropped waits for operations in flight before it leaks what they use, in nanoseconds.
pub(crate) const DRAIN_MAX_NS: u64 = 60_000_000_000;

/// What was opened, by its number, and not yet in a handle.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A file.
    File {
        number: u32,
        /// In bytes.
        length: u64,
        /// How it was asked for.
        access: Access,
        read_only: bool,
    },
    /// A directory.
    Directory(u32),
}

/// Out of reach from outside of this crate, as is [`super::on_host::OnHost`], which gives it.
pub struct Base {
    /// Counted, so that a drain that fails can leak it; likewise the pool and the lock.
    pub(crate) slots: Slots,
    pub(crate) pool: Pool,
    /// Started and not yet handed on.
    pub(crate) queue: RefCell<VecDeque<Token>>,
    pub(crate) handles: Handles,
    pub(crate) root: Directory,
    pub(crate) doorbell: Doorbell,
    pub(crate) capabilities: Rc<Capabilities>,
    pub(crate) counters: Arc<DiskCounters>,
    pub(crate) clock: HostClock,
    file_size: FileSize,
    /// Why nothing will complete any more.
    pub(crate) failed: Cell<Option<Errno>>,
    process: rustix::process::Pid,
    /// Last, so that nothing of ours is left when it is given up.
    pub(crate) lock: Arc<RootLock>,
}

impl Base {
    /// `insert` takes a descriptor of the root in, and gives its number.
    pub(crate) fn new(
        pool: Pool,
        capabilities: Capabilities,
        counters: Arc<DiskCounters>,
        lock: Arc<RootLock>,
        clock: HostClock,
        insert: impl FnOnce(OwnedFd) -> u32,
    ) -> Result<Base, DiskError> {
        let failed = |errno| DiskError::new(Verb::Setup, lock.path().to_string_lossy(), errno);
        let handles = Handles::default();
        let root = rustix::io::fcntl_dupfd_cloexec(lock.directory(), 0).map_err(failed)?;
        let root = Directory::new(insert(root), ".".into(), &handles);
        let doorbell = Doorbell::new().map_err(failed)?;
        Ok(Base {
            slots: Slots::default(),
            pool,
            queue: RefCell::default(),
            handles,
            root,
            doorbell,
            capabilities: Rc::new(capabilities),
            counters,
            clock,
            file_size: FileSize::read(),
            failed: Cell::new(None),
            process: rustix::process::getpid(),
            lock,
        })
    }

    /// Whether this is a child of the process that opened the disk. What is in flight is the parent's then.
    pub(crate) fn is_forked(&self) -> bool {
        rustix::process::getpid() != self.process
    }

    /// Whether this is the root, whose place while it is listed all disks of a store share.
    pub(crate) fn is_root(&self, directory: &Directory) -> bool {
        directory.number() == self.root.number()
    }

    pub(crate) fn start(&self, operation: Operation) -> InFlight {
        let (token, in_flight) = self.slots.begin(operation);
        self.queue.borrow_mut().push_back(token);
        in_flight
    }

    /// Whether what is asked for so is opened for direct I/O.
    pub(crate) fn is_direct(&self, access: Access) -> bool {
        access == Access::Auto && self.capabilities.direct.effective
    }

    /// What an operation is answered that the kernel must not hear of.
    pub(crate) fn refusal(&self, operation: &Operation) -> Option<Errno> {
        match operation {
            Operation::Write { file, .. }
            | Operation::Allocate { file, .. }
            | Operation::WriteZeroes { file, .. }
            | Operation::Truncate { file, .. }
                if file.is_read_only() =>
            {
                Some(Errno::ROFS)
            }
            operation => self.file_size.refusal(operation),
        }
    }

    /// Ends what was started and never handed on.
    pub(crate) fn cancel_queued(&self) {
        let queued = std::mem::take(&mut *self.queue.borrow_mut());
        queued.into_iter().for_each(|token| self.finish(token, Err(Errno::CANCELED)));
    }

    /// A number whose last handle is gone, to be closed.
    pub(crate) fn take_released(&self) -> Option<u32> {
        self.handles.take()
    }

    /// Ends a turn: from its first failure on nothing completes any more.
    pub(crate) fn turned(&self, turned: Result<(), Errno>) -> Result<(), DiskError> {
        turned.map_err(|errno| {
            self.failed.set(Some(errno));
            DiskError::new(Verb::Turn, self.lock.path().to_string_lossy(), errno)
        })
    }

    /// A handle for what an operation opened.
    pub(crate) fn admit(&self, token: Token, opened: Opened) -> Success {
        let path = self.slots.with(token, |operation| operation.path());
        let path = path.unwrap_or_else(|| self.root.path().clone());
        match opened {
            Opened::File { number, length, access, read_only } => {
                let file = File::new(number, path, length, self.is_direct(access), &self.handles);
                Success::File(if read_only { file.only_to_read() } else { file })
            }
            Opened::Directory(number) => Success::Directory(Directory::new(number, path, &self.handles)),
        }
    }

    /// Ends an operation. No borrow of the disk may be held: it wakes futures and drops handles.
    pub(crate) fn finish(&self, token: Token, result: Result<Success, Errno>) {
        let result = result.map_err(|errno| {
            let about = self.slots.with(token, |operation| (operation.verb(), operation.path()));
            let (verb, path) = about.unwrap_or_else(|| (Verb::Turn, self.root.path().clone()));
            DiskError::new(verb, path, errno)
        });
        self.slots.finish(token, result);
    }

    /// Says that what is in flight could not be waited for, and leaks what it uses.
    pub(crate) fn give_up_draining(&self, errno: Errno) {
        tracing::error!(
            in_flight = self.slots.flying(),
            %errno,
            "operations are still in flight: what they use is leaked and the store stays locked until the process ends"
        );
    }

    /// Gives one count of everything away for good, so that it stays for those who still use it.
    pub(crate) fn leak(&self) {
        std::mem::forget(self.slots.clone());
        std::mem::forget(self.pool.clone());
        std::mem::forget(self.lock.clone());
    }
}
