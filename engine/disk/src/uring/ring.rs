//! The ring itself: entered and read. Knows entries and numbers; operations and handles are above it.

use super::arena::Arena;
use super::setup;
use crate::buffer::Pool;
use crate::capabilities;
use crate::disk::Wait;
use crate::host::{DiskCounters, DiskOptions, SetupError};
use crate::host_clock::boot_ns;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// How often in a row the kernel may refuse to take entries (EAGAIN, EBUSY) before the ring counts as failed, and the
/// longest pause between two tries: about 10 seconds in all.
const REFUSALS_MAX: u32 = 1_000;
const REFUSAL_PAUSE_MAX: Duration = Duration::from_millis(10);

/// A completion, taken out of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    pub user_data: u64,
    pub result: i32,
    /// More completions of the same entry will follow.
    pub more: bool,
}

/// A ring, enabled on this thread.
pub(super) struct Ring {
    io: IoUring,
    arena: Arena,
    files: u32,
    truncates: bool,
    counters: Arc<DiskCounters>,
    /// Completions taken and not yet handled.
    pub landed: Vec<Landed>,
}

impl Ring {
    /// Sets up a ring and the arena that it reads and writes, with `lock` in slot 0 of its file table.
    pub(super) fn open(
        options: &DiskOptions,
        arena_bytes: usize,
        lock: BorrowedFd<'_>,
    ) -> Result<(Ring, Pool, capabilities::Ring), SetupError> {
        Ring::open_from(0, options, arena_bytes, lock)
    }

    /// As `open`, without trying the setups above rung `first`: what an older kernel would give.
    fn open_from(
        first: usize,
        options: &DiskOptions,
        arena_bytes: usize,
        lock: BorrowedFd<'_>,
    ) -> Result<(Ring, Pool, capabilities::Ring), SetupError> {
        let mut report = capabilities::Ring::default();
        let io = setup::build(first, options.entries, &mut report)?;
        let supported = setup::supported_opcodes(&io, options.entries)?;
        let (pool, arena) = Arena::register(&io, arena_bytes, options, &mut report)?;
        let files = setup::register_files(&io, options.files_max, lock, &mut report);
        setup::limit_workers(&io, options.workers, &mut report);
        setup::restrict(&io, &supported, &mut report);
        let enabled = io.submitter().register_enable_rings();
        let refused = |call, errno| SetupError::from_ring_call(call, errno, setup::ring_bytes(options.entries));
        enabled.map_err(|error| refused("io_uring_register", errno(&error)))?;
        let truncates = supported.contains(&opcode::Ftruncate::CODE);
        if !truncates {
            report.reasons.push("The kernel has no FTRUNCATE (6.9): lengths are changed by a blocking call.".into());
        }
        let counters = Arc::new(DiskCounters::default());
        let mut ring = Ring { io, arena, files, truncates, counters, landed: Vec::new() };
        // One empty call, so that a policy against io_uring_enter is met now and not at the first write.
        if let Err(errno @ (Errno::PERM | Errno::ACCESS | Errno::NOSYS)) = ring.enter(false, None) {
            return Err(refused("io_uring_enter", errno));
        }
        Ok((ring, pool, report))
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Slots of the file table, slot 0 included.
    pub(super) fn files(&self) -> u32 {
        self.files
    }

    /// Whether the ring can change a file's length.
    pub(super) fn truncates(&self) -> bool {
        self.truncates
    }

    pub(super) fn counters(&self) -> &Arc<DiskCounters> {
        &self.counters
    }

    /// Puts a file into a slot of the file table, or empties the slot.
    pub(super) fn update_file(&self, slot: u32, file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let raw = file.map_or(-1, |file| file.as_raw_fd());
        self.io.submitter().register_files_update(slot, &[raw]).map(drop).map_err(|error| errno(&error))
    }

    /// Queues an entry; while the queue is full, what it holds is submitted first.
    ///
    /// # Safety
    /// All memory that `entry` points to stays valid, and is not touched otherwise, until its last completion was seen.
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        while unsafe { self.io.submission().push(entry) }.is_err() {
            self.cycle(Wait::No)?;
        }
        Ok(())
    }

    /// Submits what is queued, waits as told while nothing has landed, and takes what has completed into `landed`.
    ///
    /// One system call, unless there is nothing to submit and no reason to wait (then none), or the kernel took only a
    /// part, was interrupted, or had more completions than the queue holds (then more).
    pub(super) fn cycle(&mut self, wait: Wait) -> Result<(), Errno> {
        let mut refusals = 0;
        let mut entered = false;
        loop {
            self.collect();
            let (queued, deferred, overflown) = {
                let queue = self.io.submission();
                (queue.len(), queue.taskrun(), queue.cq_overflow())
            };
            let patience = if self.landed.is_empty() { patience(wait) } else { Patience::None };
            let to_run = deferred && !entered && self.landed.is_empty();
            if queued == 0 && !overflown && !to_run && patience == Patience::None {
                return Ok(());
            }
            let waiting = patience != Patience::None;
            let limit = if let Patience::Limited(limit) = patience { Some(limit) } else { None };
            entered = true;
            match self.enter(waiting, limit) {
                Ok(taken) if taken > 0 || queued == 0 => refusals = 0,
                // Interrupted, or the time is over: what to do is decided anew above.
                Err(Errno::INTR | Errno::TIME) => {}
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY) => {
                    // The kernel wants completions taken first, or has no memory for more entries just now.
                    refusals += 1;
                    if refusals > REFUSALS_MAX {
                        return Err(Errno::AGAIN);
                    }
                    self.collect();
                    std::thread::sleep(Duration::from_micros(50 * u64::from(refusals)).min(REFUSAL_PAUSE_MAX));
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Gives the file table and the arena back, so that what they hold is free at once and not when the kernel gets to it.
    pub(super) fn unregister(&self) {
        let submitter = self.io.submitter();
        if self.files > 0 {
            let _ = submitter.unregister_files();
        }
        if self.arena.is_registered() {
            let _ = submitter.unregister_buffers();
        }
    }

    fn enter(&mut self, waiting: bool, limit: Option<Duration>) -> Result<usize, Errno> {
        let submitter = self.io.submitter();
        let want = usize::from(waiting);
        let taken = match limit {
            Some(limit) => submitter.submit_with_args(want, &SubmitArgs::new().timespec(&Timespec::from(limit))),
            None => submitter.submit_and_wait(want),
        };
        self.counters.called(1);
        self.counters.submitted_more(*taken.as_ref().unwrap_or(&0) as u64);
        taken.map_err(|error| errno(&error))
    }

    fn collect(&mut self) {
        let more = |entry: &io_uring::cqueue::Entry| io_uring::cqueue::more(entry.flags());
        let landed = self.io.completion().map(|entry| Landed {
            user_data: entry.user_data(),
            result: entry.result(),
            more: more(&entry),
        });
        self.landed.extend(landed);
    }
}

/// How long an enter may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    Limited(Duration),
    Endless,
}

fn patience(wait: Wait) -> Patience {
    match wait {
        Wait::No => Patience::None,
        Wait::Event => Patience::Endless,
        Wait::Until(time) => match time.saturating_sub(boot_ns()) {
            0 => Patience::None,
            nanoseconds => Patience::Limited(Duration::from_nanos(nanoseconds)),
        },
    }
}

pub(super) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
