//! Inbox: the way from the shards, which give files up, to the one that removes them.

use super::going::Outgoing;
use crossbeam_queue::SegQueue;
use futures_util::task::AtomicWaker;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll};

/// What was given up and nobody has begun to remove. Lock-free; any thread puts in, one takes out.
#[derive(Debug, Default)]
pub struct Inbox {
    queue: SegQueue<Outgoing>,
    taker: AtomicWaker,
    closed: AtomicBool,
    nudged: AtomicBool,
}

impl Inbox {
    /// Puts files in. After the inbox was closed they are dropped: the manifest knows them, and the next open removes them.
    pub fn put(&self, files: impl IntoIterator<Item = Outgoing>) {
        files.into_iter().for_each(|file| self.queue.push(file));
        // Whoever closes it says so and then empties it; here it is filled and then looked at. One sees the other.
        fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) {
            self.abandon();
        }
        self.taker.wake();
    }

    fn abandon(&self) {
        while self.queue.pop().is_some() {}
    }

    /// Has the taker look around, though nothing was put in.
    pub fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        self.taker.wake();
    }

    /// No more is taken in, and whoever waits for some, or for what becomes of some, learns that.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.abandon();
        self.taker.wake();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The next file, if there is one now.
    #[must_use]
    pub fn take(&self) -> Option<Outgoing> {
        self.queue.pop()
    }

    /// Ready when there is a file, when there will be none any more, or once after a nudge.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.taker.register(context.waker());
        // Looked at after the waker is in its place: what is put in later wakes it.
        let nudged = self.nudged.swap(false, Ordering::Acquire);
        if self.queue.is_empty() && !nudged && !self.is_closed() { Poll::Pending } else { Poll::Ready(()) }
    }
}
