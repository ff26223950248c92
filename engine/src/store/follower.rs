//! A follower: reads a log on and on, and waits at its end for more. While what it reads was appended lately, no thread of the store
//! is involved: it listens to the log itself.

use super::log::{Log, ReadOptions};
use crate::id::Offset;
use crate::shard::command::{ReadAnswer, ReadBatches};
use event_listener::Listener;
use std::time::{Duration, Instant};

/// A position in a log that moves on with what is read. Usable from any thread and any async runtime; a wait that is given up loses
/// nothing.
#[derive(Clone, Debug)]
pub struct Follower {
    log: Log,
    position: Offset,
    past_durable: bool,
}

impl Follower {
    pub(super) fn new(log: Log, position: Offset) -> Follower {
        Follower { log, position, past_durable: false }
    }

    /// Whether it also reads what is written and not durable yet, which a power failure may take back.
    #[must_use]
    pub fn past_durable(self, past_durable: bool) -> Follower {
        Follower { past_durable, ..self }
    }

    /// The offset that comes next.
    #[must_use]
    pub fn position(&self) -> Offset {
        self.position
    }

    /// Goes on at `offset`.
    pub fn seek(&mut self, offset: Offset) {
        self.position = offset;
    }

    /// Whole batches from its position on, one at least, and about `bytes` of them: as soon as there are any.
    ///
    /// # Errors
    /// [`crate::ReadError`]; [`crate::ReadError::Closed`] when the store closes meanwhile. The position stays where it is: after
    /// [`crate::ReadError::Corrupt`], [`Follower::seek`] leads past the damage.
    pub async fn next(&mut self, bytes: usize) -> ReadAnswer {
        loop {
            let read = self.log.read_with(self.position, self.options(bytes)).await?;
            if !read.batches.is_empty() {
                return Ok(self.moved_on(read));
            }
            // Listens before it looks: what happens in between is not missed.
            let moved = self.log.shared().listen();
            if self.has_nothing_new() {
                moved.await;
            }
        }
    }

    /// As [`Follower::next`], for a thread that may block. Where nothing comes within `timeout`, there are no batches.
    ///
    /// # Errors
    /// As [`Follower::next`].
    pub fn next_blocking(&mut self, bytes: usize, timeout: Option<Duration>) -> ReadAnswer {
        // A time that is too far away to be told is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let read = self.log.read_with(self.position, self.options(bytes)).wait()?;
            if !read.batches.is_empty() {
                return Ok(self.moved_on(read));
            }
            let moved = self.log.shared().listen();
            if !self.has_nothing_new() {
                continue;
            }
            match deadline {
                None => moved.wait(),
                Some(deadline) if moved.wait_deadline(deadline).is_none() => return Ok(read),
                Some(_) => {}
            }
        }
    }

    fn options(&self, bytes: usize) -> ReadOptions {
        ReadOptions { bytes, past_durable: self.past_durable }
    }

    fn moved_on(&mut self, read: ReadBatches) -> ReadBatches {
        self.position = read.next;
        read
    }

    /// Whether the log ends where this follower stands. One that was cut behind it, or got more, is read again; so is one that is
    /// gone or closed, which then says so.
    fn has_nothing_new(&self) -> bool {
        let bounds = self.log.bounds();
        let end = if self.past_durable { bounds.written_end } else { bounds.end };
        self.log.shared().is_open() && end == self.position
    }
}
