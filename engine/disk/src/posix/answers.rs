//! Answers: what the threads have done and the disk's own thread has not yet seen, and how they wake it.

use super::call::Reply;
use crate::slot::Token;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The answer to one call.
pub(super) type Answer = (Token, Result<Reply, Errno>);

/// Where answers wait.
#[derive(Debug)]
pub(super) struct Answers {
    given: Mutex<Given>,
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct Given {
    answers: Vec<Answer>,
    /// The disk's thread waits for the event, and nobody has rung it since it said so.
    awaited: bool,
}

impl Answers {
    pub(super) fn new() -> Result<Answers, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Answers { given: Mutex::default(), event })
    }

    /// Readable when an answer was given to a thread that waited.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Gives an answer. One system call where the disk's thread waits, else none.
    pub(super) fn give(&self, answer: Answer) {
        let mut given = self.locked();
        given.answers.push(answer);
        let awaited = std::mem::take(&mut given.awaited);
        drop(given);
        if awaited {
            // A full counter (EAGAIN) means that it is readable already.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Says that the disk's thread is about to wait. False where there is something to take already.
    pub(super) fn await_some(&self) -> bool {
        let mut given = self.locked();
        given.awaited = given.answers.is_empty();
        given.awaited
    }

    /// Says that it waits no more. True where an answer is there.
    pub(super) fn awaited(&self) -> bool {
        let mut given = self.locked();
        given.awaited = false;
        !given.answers.is_empty()
    }

    /// Takes what was given, and leaves the memory of `into`, which must be empty, for what comes next.
    pub(super) fn take(&self, into: &mut Vec<Answer>) {
        std::mem::swap(&mut self.locked().answers, into);
    }

    fn locked(&self) -> MutexGuard<'_, Given> {
        // Nothing in here panics half-way.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
