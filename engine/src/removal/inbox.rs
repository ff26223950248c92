//! Inbox: the way from the shards to the one that removes files: what they give up, and what they want read again.

use crossbeam_queue::SegQueue;
use futures_util::task::AtomicWaker;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll};

/// What was handed over and nobody has begun with. Lock-free; any thread puts in, one takes out.
#[derive(Debug)]
pub struct Inbox<T> {
    queue: SegQueue<T>,
    taker: AtomicWaker,
    closed: AtomicBool,
    nudged: AtomicBool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        let (queue, taker) = (SegQueue::default(), AtomicWaker::default());
        Inbox { queue, taker, closed: AtomicBool::default(), nudged: AtomicBool::default() }
    }
}

impl<T> Inbox<T> {
    /// Puts something in. After the inbox was closed it is dropped: of files the manifest knows, and the next open removes them.
    pub fn put(&self, items: impl IntoIterator<Item = T>) {
        items.into_iter().for_each(|item| self.queue.push(item));
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

    /// The next one, if there is one now.
    #[must_use]
    pub fn take(&self) -> Option<T> {
        self.queue.pop()
    }

    /// Ready when there is something, when there will be none any more, or once after a nudge.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.taker.register(context.waker());
        // Looked at after the waker is in its place: what is put in later wakes it.
        let nudged = self.nudged.swap(false, Ordering::Acquire);
        if self.queue.is_empty() && !nudged && !self.is_closed() { Poll::Pending } else { Poll::Ready(()) }
    }
}
