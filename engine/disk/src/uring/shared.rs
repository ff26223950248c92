//! What the clones of one disk share: it joins the ring, the slots and the descriptors, and turns them.
//!
//! No borrow of the ring or of the descriptors is held while an operation is finished, since that wakes futures and drops
//! handles.

use super::counters::RingCounters;
use super::descriptors::Descriptors;
use super::operation::{self, Answer, CANCEL, DOORBELL, Parts, Prepared, Sleeps};
use super::ring::{Landed, Ring};
use super::root::RootLock;
use crate::buffer::Pool;
use crate::capabilities::Capabilities;
use crate::disk::{Access, Operation, Success, Wait};
use crate::doorbell::Doorbell;
use crate::error::{DiskError, Verb};
use crate::handle::{Directory, File, Released};
use crate::host_clock::HostClock;
use crate::slot::{InFlight, Slots, Token};
use io_uring::{opcode, types};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct Shared {
    /// Counted, so that a drain that fails can leak it; likewise the slots, the pool, the descriptors and the lock.
    pub(super) ring: Rc<RefCell<Ring>>,
    pub(super) slots: Slots,
    pub(super) sleeps: Rc<RefCell<Sleeps>>,
    pub(super) descriptors: Rc<RefCell<Descriptors>>,
    pub(super) pool: Pool,
    /// Started and not yet handed to the ring.
    pub(super) queue: RefCell<VecDeque<Token>>,
    /// Answered before the ring saw them.
    answered: RefCell<Vec<(Token, Result<Success, Errno>)>>,
    released: Released,
    root: Directory,
    doorbell: Doorbell,
    pub(super) doorbell_watched: Cell<bool>,
    capabilities: Rc<Capabilities>,
    pub(super) clock: HostClock,
    /// Why the ring is of no more use.
    pub(super) failed: Cell<Option<Errno>>,
    pub(super) process: rustix::process::Pid,
    /// Last, so that nothing of ours is left when it is given up.
    pub(super) lock: Arc<RootLock>,
}

impl Shared {
    pub(super) fn new(
        ring: Ring,
        pool: Pool,
        capabilities: Capabilities,
        lock: Arc<RootLock>,
        clock: HostClock,
    ) -> Result<Shared, DiskError> {
        let failed = |errno| DiskError::new(Verb::Setup, lock.path().to_string_lossy(), errno);
        let mut descriptors = Descriptors::new(ring.files());
        let released = Released::default();
        let root = rustix::io::fcntl_dupfd_cloexec(lock.directory(), 0).map_err(failed)?;
        let root = Directory::new(descriptors.insert_plain(root), ".".into(), &released);
        let doorbell = Doorbell::new().map_err(failed)?;
        Ok(Shared {
            ring: Rc::new(RefCell::new(ring)),
            slots: Slots::default(),
            sleeps: Rc::default(),
            descriptors: Rc::new(RefCell::new(descriptors)),
            pool,
            queue: RefCell::default(),
            answered: RefCell::default(),
            released,
            root,
            doorbell,
            doorbell_watched: Cell::new(false),
            capabilities: Rc::new(capabilities),
            clock,
            failed: Cell::new(None),
            process: rustix::process::getpid(),
            lock,
        })
    }

    pub(super) fn counters(&self) -> Arc<RingCounters> {
        self.ring.borrow().counters().clone()
    }

    pub(super) fn lock(&self) -> Arc<RootLock> {
        self.lock.clone()
    }

    pub(super) fn root(&self) -> Directory {
        self.root.clone()
    }

    /// Whether this is the root, whose place while it is listed all rings of a store share.
    pub(super) fn is_root(&self, directory: &Directory) -> bool {
        directory.number() == self.root.number()
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    pub(super) fn capabilities(&self) -> Rc<Capabilities> {
        self.capabilities.clone()
    }

    pub(super) fn take_failed_flush(&self) -> Option<DiskError> {
        self.slots.take_failed_flush()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.flying()
    }

    pub(super) fn with_descriptor<R>(
        &self,
        directory: &Directory,
        look: impl FnOnce(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let descriptors = self.descriptors.borrow();
        descriptors.descriptor(directory.number()).ok_or(Errno::BADF).and_then(look)
    }

    pub(super) fn start(&self, operation: Operation) -> InFlight {
        let (token, in_flight) = self.slots.begin(operation);
        self.queue.borrow_mut().push_back(token);
        in_flight
    }

    /// Submits, waits and completes. See [`crate::Disk::turn`].
    pub(super) fn turn(&self, wait: Wait) -> Result<(), DiskError> {
        self.close_released();
        let turned = match self.failed.get() {
            Some(errno) => Err(errno),
            None => self.cycle(wait),
        };
        self.settle();
        turned.map_err(|errno| {
            self.failed.set(Some(errno));
            DiskError::new(Verb::Turn, self.lock.path().to_string_lossy(), errno)
        })
    }

    fn cycle(&self, wait: Wait) -> Result<(), Errno> {
        let mut ring = self.ring.borrow_mut();
        self.watch_doorbell(&mut ring)?;
        self.push_queued(&mut ring)?;
        let wait = if self.answered.borrow().is_empty() { wait } else { Wait::No };
        ring.cycle(wait)
    }

    /// Closes what has no handle left.
    fn close_released(&self) {
        while let Some(number) = self.released.take() {
            self.descriptors.borrow_mut().close(number, &self.ring.borrow());
        }
    }

    /// Has the ring watch the doorbell, again when the last watch has ended.
    ///
    /// A watch completes once for each ring of the bell, so the bell's counter need not be read each time (64 bits of rings
    /// do not overflow). A new watch however completes at once when the counter is not 0, so here it is read.
    fn watch_doorbell(&self, ring: &mut Ring) -> Result<(), Errno> {
        let Some(event) = self.doorbell.event().filter(|_| !self.doorbell_watched.get()) else { return Ok(()) };
        let rung = rustix::io::read(event, &mut [0; 8]).is_ok();
        let events = rustix::event::PollFlags::IN.bits().into();
        let watch = opcode::PollAdd::new(types::Fd(event.as_raw_fd()), events).multi(true).build().user_data(DOORBELL);
        // SAFETY: a poll points to no memory. Should its number come twice (invariant 2), the bell is watched anew.
        unsafe { ring.push(&watch)? };
        self.doorbell_watched.set(true);
        if rung {
            // The ring that was just read away must still end a wait.
            ring.landed.push(Landed { user_data: CANCEL, result: 0, more: false });
        }
        Ok(())
    }

    /// Hands to the ring what was started.
    fn push_queued(&self, ring: &mut Ring) -> Result<(), Errno> {
        let direct = self.capabilities.direct.effective;
        loop {
            let Some(token) = self.queue.borrow_mut().pop_front() else { return Ok(()) };
            let prepared = self.slots.with(token, |operation| {
                let parts = Parts {
                    descriptors: &self.descriptors.borrow(),
                    arena: ring.arena(),
                    truncates: ring.truncates(),
                    direct,
                    sleeps: &mut self.sleeps.borrow_mut(),
                };
                operation::prepare(operation, token, parts)
            });
            match prepared {
                Some(Prepared::Submit(entry)) => {
                    // SAFETY: the buffer and the names belong to the operation, which its slot keeps until `finish`
                    // (invariant 1), where no reference to them can exist (invariant 3); the time of a sleep is boxed in
                    // `sleeps` until then; ways to open are statics.
                    let pushed = unsafe { ring.push(&entry) };
                    if let Err(errno) = pushed {
                        self.queue.borrow_mut().push_front(token);
                        return Err(errno);
                    }
                }
                Some(Prepared::Answer(result)) => self.answered.borrow_mut().push((token, result)),
                None => {}
            }
        }
    }

    /// Completes what has landed.
    pub(super) fn settle(&self) {
        let mut answered = std::mem::take(&mut *self.answered.borrow_mut());
        for (token, result) in answered.drain(..) {
            self.finish(token, result);
        }
        let mut landed = std::mem::take(&mut self.ring.borrow_mut().landed);
        let count = landed.len() as u64;
        for Landed { user_data, result, more } in landed.drain(..) {
            match user_data {
                DOORBELL => self.doorbell_watched.set(more),
                CANCEL => {}
                bits => self.complete(Token::from_bits(bits), result),
            }
        }
        let mut ring = self.ring.borrow_mut();
        ring.counters().handled(count);
        // The lists keep their memory, so that a turn allocates nothing; a waker may have filled new ones meanwhile.
        if ring.landed.is_empty() {
            ring.landed = landed;
        }
        let mut place = self.answered.borrow_mut();
        if place.is_empty() {
            *place = answered;
        }
    }

    fn complete(&self, token: Token, result: i32) {
        let read = self.slots.with(token, |operation| {
            let answer = operation::answer(operation, result);
            let opened = matches!(answer, Ok(Answer::File(..) | Answer::Directory(_)));
            if matches!(operation, Operation::Sleep { .. }) {
                self.sleeps.borrow_mut().remove(&token);
            }
            (answer, opened.then(|| operation.path()))
        });
        let Some((answer, path)) = read else { return };
        let path = path.unwrap_or_else(|| self.root.path().clone());
        let result = answer.and_then(|answer| match answer {
            Answer::Done => Ok(Success::Done),
            Answer::Moved(bytes) => Ok(Success::Moved(bytes)),
            Answer::File(descriptor, access) => self.admit_file(descriptor, path, access).map(Success::File),
            Answer::Directory(descriptor) => Ok(Success::Directory(self.admit_directory(descriptor, path))),
        });
        self.finish(token, result);
    }

    pub(super) fn finish(&self, token: Token, result: Result<Success, Errno>) {
        let result = result.map_err(|errno| {
            let about = self.slots.with(token, |operation| (operation.verb(), operation.path()));
            let (verb, path) = about.unwrap_or_else(|| (Verb::Turn, self.root.path().clone()));
            DiskError::new(verb, path, errno)
        });
        self.slots.finish(token, result);
    }

    fn admit_file(&self, descriptor: OwnedFd, path: Arc<str>, access: Access) -> Result<File, Errno> {
        let stat = rustix::fs::fstat(&descriptor)?;
        check_file(&stat)?;
        let number = self.descriptors.borrow_mut().insert_file(descriptor, &self.ring.borrow());
        let direct = access == Access::Auto && self.capabilities.direct.effective;
        Ok(File::new(number, path, stat.st_size as u64, direct, &self.released))
    }

    fn admit_directory(&self, descriptor: OwnedFd, path: Arc<str>) -> Directory {
        let number = self.descriptors.borrow_mut().insert_plain(descriptor);
        Directory::new(number, path, &self.released)
    }
}

/// A file of ours that nobody can reach under another name, nor have swapped for something else than a file.
pub(super) fn check_file(stat: &Stat) -> Result<(), Errno> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::PERM);
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    if stat.st_nlink != 1 {
        return Err(Errno::MLINK);
    }
    Ok(())
}
