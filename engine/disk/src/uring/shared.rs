//! What the clones of one disk share: it joins the ring, the slots and the descriptors, and turns them.
//!
//! No borrow of the ring or of the descriptors is held while an operation is finished, since that wakes futures and drops
//! handles.

use super::descriptors::Descriptors;
use super::operation::{self, Answer, CANCEL, DOORBELL, Parts, Prepared, Sleeps};
use super::ring::{Landed, Ring};
use crate::buffer::Pool;
use crate::capabilities::Capabilities;
use crate::disk::{Access, OpenFile, Operation, Success, Wait};
use crate::error::DiskError;
use crate::handle::Directory;
use crate::host::ways::{BENEATH, check_file, file_to_read};
use crate::host::{Base, Opened, RootLock};
use crate::host_clock::HostClock;
use crate::slot::Token;
use io_uring::{opcode, types};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct Shared {
    /// Counted, so that a drain that fails can leak it; likewise the sleeps and the descriptors.
    pub(super) ring: Rc<RefCell<Ring>>,
    pub(super) sleeps: Rc<RefCell<Sleeps>>,
    pub(super) descriptors: Rc<RefCell<Descriptors>>,
    /// Answered before the ring saw them.
    answered: RefCell<Vec<(Token, Result<Success, Errno>)>>,
    pub(super) doorbell_watched: Cell<bool>,
    /// Last, since the ring knows its pool, and nothing of ours may be left when the lock is given up.
    pub(super) base: Base,
}

impl Shared {
    pub(super) fn new(
        ring: Ring,
        pool: Pool,
        capabilities: Capabilities,
        lock: Arc<RootLock>,
        clock: HostClock,
    ) -> Result<Shared, DiskError> {
        let mut descriptors = Descriptors::new(ring.files());
        let counters = ring.counters().clone();
        let insert = |root| descriptors.insert_plain(root);
        let base = Base::new(pool, capabilities, counters, lock, clock, insert)?;
        Ok(Shared {
            ring: Rc::new(RefCell::new(ring)),
            sleeps: Rc::default(),
            descriptors: Rc::new(RefCell::new(descriptors)),
            answered: RefCell::default(),
            doorbell_watched: Cell::new(false),
            base,
        })
    }

    pub(super) fn with_descriptor<R>(
        &self,
        directory: &Directory,
        look: impl FnOnce(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let descriptors = self.descriptors.borrow();
        descriptors.descriptor(directory.number()).ok_or(Errno::BADF).and_then(look)
    }

    /// Submits, waits and completes. See [`crate::Disk::turn`].
    pub(super) fn turn(&self, wait: Wait) -> Result<(), DiskError> {
        self.close_released();
        let turned = match self.base.failed.get() {
            Some(errno) => Err(errno),
            None => self.cycle(wait),
        };
        self.settle();
        self.base.turned(turned)
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
        while let Some(number) = self.base.take_released() {
            self.descriptors.borrow_mut().close(number, &self.ring.borrow());
        }
    }

    /// Has the ring watch the doorbell, again when the last watch has ended.
    ///
    /// A watch completes once for each ring of the bell, so the bell's counter need not be read each time (64 bits of rings
    /// do not overflow). A new watch however completes at once when the counter is not 0, so here it is read.
    fn watch_doorbell(&self, ring: &mut Ring) -> Result<(), Errno> {
        let Some(event) = self.base.doorbell.event().filter(|_| !self.doorbell_watched.get()) else { return Ok(()) };
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
        let direct = self.base.capabilities.direct.effective;
        loop {
            let Some(token) = self.base.queue.borrow_mut().pop_front() else { return Ok(()) };
            let prepared = self.base.slots.with(token, |operation| {
                if let Some(errno) = self.base.refusal(operation) {
                    return Prepared::Answer(Err(errno));
                }
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
                        self.base.queue.borrow_mut().push_front(token);
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
            self.base.finish(token, result);
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
        let read = self.base.slots.with(token, |operation| {
            let answer = operation::answer(operation, result);
            if matches!(operation, Operation::Sleep { .. }) {
                self.sleeps.borrow_mut().remove(&token);
            }
            answer
        });
        let Some(answer) = read else { return };
        let read_only = matches!(answer, Err(Errno::ROFS));
        let answer = if read_only { self.open_to_read(token) } else { answer };
        let admit = |opened| self.base.admit(token, opened);
        let result = answer.and_then(|answer| match answer {
            Answer::Done => Ok(Success::Done),
            Answer::Moved(bytes) => Ok(Success::Moved(bytes)),
            Answer::File(descriptor, access) => self.admit_file(descriptor, access, read_only).map(admit),
            Answer::Directory(descriptor) => {
                let number = self.descriptors.borrow_mut().insert_plain(descriptor);
                Ok(admit(Opened::Directory(number)))
            }
        });
        self.base.finish(token, result);
    }

    /// Opens a file once more where its file system has become read-only; whatever else has to change something cannot. This blocks, but
    /// there is nobody left whose appends would wait for it.
    fn open_to_read(&self, token: Token) -> Result<Answer, Errno> {
        let open = |operation: &mut Operation| {
            let Operation::Open { directory, name, how: OpenFile::Existing, access } = operation else {
                return Err(Errno::ROFS);
            };
            let descriptors = self.descriptors.borrow();
            let directory = descriptors.descriptor(directory.number()).ok_or(Errno::BADF)?;
            let flags = file_to_read(self.base.is_direct(*access));
            let file = rustix::fs::openat2(directory, name.as_c_str(), flags, Mode::empty(), BENEATH)?;
            Ok(Answer::File(file, *access))
        };
        self.base.slots.with(token, open).unwrap_or(Err(Errno::ROFS))
    }

    fn admit_file(&self, descriptor: OwnedFd, access: Access, read_only: bool) -> Result<Opened, Errno> {
        let stat = rustix::fs::fstat(&descriptor)?;
        check_file(&stat)?;
        let number = self.descriptors.borrow_mut().insert_file(descriptor, &self.ring.borrow());
        Ok(Opened::File { number, length: stat.st_size as u64, access, read_only })
    }
}
