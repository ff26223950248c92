//! What the clones of one disk share: it hands operations to the threads, and ends those that were answered.
//!
//! No borrow of anything in here is held while an operation is finished, since that wakes futures and drops handles.

use super::answers::{Answer, Answers};
use super::call::{Call, Held, Reply};
use super::crew::Crew;
use super::prepare::{Prepared, prepare};
use super::sleeps::Sleeps;
use crate::buffer::Pool;
use crate::capabilities::Capabilities;
use crate::disk::{Access, Operation, Success, Wait};
use crate::error::{DiskError, Verb};
use crate::handle::Directory;
use crate::host::numbers::Numbers;
use crate::host::{Base, DiskCounters, DiskOptions, Opened, RootLock};
use crate::host_clock::boot_ns;
use crate::slot::Token;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct Shared {
    /// Those that only read and write.
    pub(super) transfers: Crew,
    /// Those that do everything else.
    pub(super) others: Crew,
    pub(super) answers: Arc<Answers>,
    pub(super) sleeps: RefCell<Sleeps>,
    /// Counted, so that a drain that fails can leak it.
    pub(super) held: Rc<RefCell<Numbers<Held>>>,
    /// Taken and not yet handled, or answered before any thread saw them.
    answered: RefCell<Vec<Answer>>,
    /// Where calls for the one crew and for the other are gathered.
    calls: RefCell<[Vec<(Token, Call)>; 2]>,
    /// Last, since nothing of ours may be left when the lock is given up.
    pub(super) base: Base,
}

impl Shared {
    pub(super) fn new(
        pool: Pool,
        capabilities: Capabilities,
        lock: Arc<RootLock>,
        options: &DiskOptions,
    ) -> Result<Shared, DiskError> {
        let failed = |errno| DiskError::new(Verb::Setup, lock.path().to_string_lossy(), errno);
        let answers = Arc::new(Answers::new().map_err(failed)?);
        let sleeps = RefCell::new(Sleeps::new().map_err(failed)?);
        let transfers = Crew::start("strandline-io", options.transfer_threads, &answers)?;
        let others = Crew::start("strandline-fs", options.workers, &answers)?;
        let mut held = Numbers::new(0, u32::MAX);
        let insert = |root: OwnedFd| held.insert(Arc::new(root));
        let counters = Arc::new(DiskCounters::default());
        let base = Base::new(pool, capabilities, counters, lock, options.clock.clone(), insert)?;
        Ok(Shared {
            transfers,
            others,
            answers,
            sleeps,
            held: Rc::new(RefCell::new(held)),
            answered: RefCell::default(),
            calls: RefCell::default(),
            base,
        })
    }

    pub(super) fn with_descriptor<R>(
        &self,
        directory: &Directory,
        look: impl FnOnce(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.held.borrow().get(directory.number()).ok_or(Errno::BADF).and_then(|held| look(held.as_fd()))
    }

    /// Hands on, waits and completes. See [`crate::Disk::turn`].
    pub(super) fn turn(&self, wait: Wait) -> Result<(), DiskError> {
        self.close_released();
        let turned = match self.base.failed.get() {
            Some(errno) => Err(errno),
            // Nobody would ever answer, and the arena is not mapped.
            None if self.base.is_forked() => Err(Errno::CHILD),
            None => self.cycle(wait),
        };
        if turned != Err(Errno::CHILD) {
            self.settle();
        }
        self.base.turned(turned)
    }

    fn cycle(&self, wait: Wait) -> Result<(), Errno> {
        self.hand_on();
        let wait = if self.answered.borrow().is_empty() { wait } else { Wait::No };
        self.wait(wait)
    }

    /// Gives to the crews what was started.
    fn hand_on(&self) {
        let mut calls = self.calls.borrow_mut();
        let direct = self.base.capabilities.direct.effective;
        loop {
            let Some(token) = self.base.queue.borrow_mut().pop_front() else { break };
            let held = self.held.borrow();
            let prepared = self.base.slots.with(token, |operation| match self.base.refusal(operation) {
                Some(errno) => Err(errno),
                None => prepare(operation, &held, direct),
            });
            match prepared {
                Some(Ok(Prepared::Call(call))) => calls[usize::from(!call.is_transfer())].push((token, call)),
                Some(Ok(Prepared::Sleep(ends_ns))) => self.sleeps.borrow_mut().add(token, ends_ns),
                Some(Err(errno)) => self.answered.borrow_mut().push((token, Err(errno))),
                None => {}
            }
        }
        let [transfers, others] = &mut *calls;
        self.base.counters.submitted_more((transfers.len() + others.len()) as u64);
        let woken = self.transfers.give(transfers) + self.others.give(others);
        self.base.counters.called(woken);
    }

    /// Completes what was answered, and sleeps that are over.
    pub(super) fn settle(&self) {
        let mut answered = std::mem::take(&mut *self.answered.borrow_mut());
        answered.drain(..).for_each(|(token, reply)| self.complete(token, reply));
        self.answers.take(&mut answered);
        self.base.counters.handled(answered.len() as u64);
        answered.drain(..).for_each(|(token, reply)| self.complete(token, reply));
        let now_ns = if self.sleeps.borrow().is_empty() { 0 } else { boot_ns() };
        loop {
            let Some(token) = self.sleeps.borrow_mut().pop_due(now_ns) else { break };
            self.base.finish(token, Ok(Success::Done));
        }
        let mut place = self.answered.borrow_mut();
        if place.is_empty() {
            *place = answered;
        }
    }

    fn complete(&self, token: Token, reply: Result<Reply, Errno>) {
        let admit = |opened| self.base.admit(token, opened);
        let insert = |held: OwnedFd| self.held.borrow_mut().insert(Arc::new(held));
        let result = reply.map(|reply| match reply {
            Reply::Done => Success::Done,
            Reply::Moved(bytes) => Success::Moved(bytes),
            Reply::File(file, length, read_only) => {
                let access = |operation: &mut Operation| match operation {
                    Operation::Open { access, .. } => *access,
                    _ => Access::Buffered,
                };
                let access = self.base.slots.with(token, access).unwrap_or(Access::Buffered);
                admit(Opened::File { number: insert(file), length, access, read_only })
            }
            Reply::Directory(directory) => admit(Opened::Directory(insert(directory))),
        });
        self.base.finish(token, result);
    }

    /// Closes what has no handle left. Each operation in flight holds a handle, and a call is gone before its operation ends.
    fn close_released(&self) {
        while let Some(number) = self.base.take_released() {
            let closed = self.held.borrow_mut().take(number);
            drop(closed);
        }
    }
}

#[cfg(test)]
mod tests;
