//! A crew: threads that carry calls out in the order in which they came. Each takes the next when it has answered the one before.

use super::answers::Answers;
use super::call::Call;
use crate::error::{DiskError, Verb};
use crate::slot::Token;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The stack of a thread, in bytes: it makes system calls, and at worst a message of a panic.
const STACK_BYTES: usize = 256 << 10;

/// Some threads and their queue. Dropping it ends them, behind what they were given.
#[derive(Debug)]
pub(super) struct Crew {
    work: Arc<Work>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Work {
    queue: Mutex<Queue>,
    some: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    calls: VecDeque<(Token, Call)>,
    idle: usize,
    closed: bool,
}

impl Crew {
    /// Starts `threads` of them, one at least.
    pub(super) fn start(name: &str, threads: u32, answers: &Arc<Answers>) -> Result<Crew, DiskError> {
        let mut crew = Crew { work: Arc::default(), threads: Vec::new() };
        for number in 0..threads.max(1) {
            let (work, answers) = (crew.work.clone(), answers.clone());
            let thread = std::thread::Builder::new().name(format!("{name}-{number}")).stack_size(STACK_BYTES);
            let started = thread.spawn(move || serve(&work, &answers));
            let refused = |error: std::io::Error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                DiskError::new(Verb::Setup, "a thread for plain system calls", errno)
            };
            crew.threads.push(started.map_err(refused)?);
        }
        Ok(crew)
    }

    /// Queues calls, in order, and wakes as many threads as have something to do. Gives how many were woken.
    pub(super) fn give(&self, calls: &mut Vec<(Token, Call)>) -> u64 {
        if calls.is_empty() {
            return 0;
        }
        let mut queue = self.work.locked();
        queue.calls.extend(calls.drain(..));
        let woken = queue.idle.min(queue.calls.len());
        drop(queue);
        (0..woken).for_each(|_| self.work.some.notify_one());
        woken as u64
    }

    /// Leaves the threads to themselves, for good. In a forked child there are none, and their lock may be held for ever.
    pub(super) fn leak(&mut self) {
        std::mem::forget(self.work.clone());
        self.threads.drain(..).for_each(std::mem::forget);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.work.locked().closed = true;
        self.work.some.notify_all();
        // A thread never panics: `serve` catches what a call does.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Work {
    fn locked(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics half-way while it is held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call, which is waited for; none when the crew is dismissed.
    fn next(&self) -> Option<(Token, Call)> {
        let mut queue = self.locked();
        loop {
            if let Some(call) = queue.calls.pop_front() {
                return Some(call);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.some.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

/// What a thread does. Whatever becomes of a call, it is answered, and only when nothing of it is left.
fn serve(work: &Work, answers: &Answers) {
    block_signals();
    while let Some((token, call)) = work.next() {
        let carried_out = catch_unwind(AssertUnwindSafe(|| call.carry_out()));
        let answer = carried_out.unwrap_or_else(|_| {
            tracing::error!("a thread for plain system calls panicked: the call is answered as failed");
            Err(Errno::IO)
        });
        answers.give((token, answer));
    }
}

/// The host's signals are for the host's threads: here they would only interrupt calls, and some of them, as fallocate, are not
/// finished then. A ring's kernel workers take none either.
fn block_signals() {
    // SAFETY: the set is written whole by `sigfillset` before it is read, and only this thread's mask is changed.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests;
