//! Woken: remembers that a task was woken, by its own thread or by another one, which then has to end the sleep of this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use strandline_disk::Doorbell;

/// Remembers that a task was woken.
#[derive(Debug)]
pub struct Woken {
    woken: AtomicBool,
    doorbell: Doorbell,
    /// The thread whose tasks these are.
    owner: usize,
}

thread_local! {
    static ME: u8 = const { 0 };
}

/// A number that no other thread has while this one lives.
fn this_thread() -> usize {
    ME.with(|me| std::ptr::from_ref(me).addr())
}

impl Woken {
    /// Nothing was woken yet, or all was: whoever begins with `true` looks at everything once.
    #[must_use]
    pub fn new(woken: bool, doorbell: Doorbell) -> Arc<Woken> {
        Arc::new(Woken { woken: AtomicBool::new(woken), doorbell, owner: this_thread() })
    }

    /// Whether a task was woken since this was last taken.
    #[must_use]
    pub fn take(&self) -> bool {
        self.woken.swap(false, Ordering::Acquire)
    }

    /// Whether a task was woken.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// A task has something to do.
    pub fn set(&self) {
        self.woken.store(true, Ordering::Release);
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
        // The owner wakes its own tasks while its ring is being turned, when it does not sleep though it said that it would: to ring
        // then would cost two system calls a commit.
        if this_thread() != self.owner {
            self.doorbell.ring();
        }
    }
}
