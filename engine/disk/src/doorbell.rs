//! The doorbell: how another thread wakes a shard that sleeps in its ring.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes the thread that turns a disk. A system call only when that thread sleeps.
///
/// The sleeper says so ([`Doorbell::about_to_sleep`]), looks at its queue once more, and only then sleeps;
/// a caller first queues, then rings. The two fences make one of them see the other.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    sleeping: AtomicBool,
    event: Option<OwnedFd>,
}

impl Doorbell {
    /// A doorbell on an eventfd, which the disk watches through its ring.
    ///
    /// # Errors
    /// The errno of `eventfd`.
    pub fn new() -> Result<Doorbell, rustix::io::Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Doorbell(Arc::new(Bell { sleeping: AtomicBool::new(false), event: Some(event) })))
    }

    /// A doorbell that wakes nobody, for a disk that is driven by hand.
    #[must_use]
    pub fn silent() -> Doorbell {
        Doorbell(Arc::new(Bell { sleeping: AtomicBool::new(false), event: None }))
    }

    /// The eventfd to watch.
    #[must_use]
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.0.event.as_ref().map(AsFd::as_fd)
    }

    /// Wakes the sleeper, if it sleeps. Call it after the work has been queued.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if !self.0.sleeping.load(Ordering::Relaxed) || !self.0.sleeping.swap(false, Ordering::AcqRel) {
            return;
        }
        if let Some(event) = self.0.event.as_ref() {
            // A full counter (EAGAIN) means that a wake is pending already.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Says that the caller is about to sleep. It must look at its queue again after this.
    pub fn about_to_sleep(&self) {
        self.0.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the caller is awake.
    pub fn awake(&self) {
        self.0.sleeping.store(false, Ordering::Relaxed);
    }
}
