//! What threads share by: each type under one name, so that a model checker can take its place.
//!
//! `--cfg loom` builds the engine with types that loom watches, `--cfg shuttle` with those of shuttle. The queue is then a stand-in that orders
//! more than the real one does (a lock); the waker is the algorithm of the real one, step by step, over watched atomics.

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::*;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::*;

#[cfg(not(any(loom, shuttle)))]
mod real {
    pub(crate) use crossbeam_queue::ArrayQueue;
    pub(crate) use futures_util::task::AtomicWaker;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
    pub(crate) use std::sync::{Arc, Mutex};
    pub(crate) use std::thread::{Thread, current, park};
    pub(crate) use std::thread_local;

    use rustix::thread::futex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Only a model can be broken on purpose.
    pub(crate) const fn is_broken() -> bool {
        false
    }

    /// A count of rings that any number of threads sleeps on.
    pub(crate) struct Rings(AtomicU32);

    impl Rings {
        pub(crate) fn new() -> Rings {
            Rings(AtomicU32::new(0))
        }

        pub(crate) fn heard(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        /// Sleeps unless it was rung since `heard`; may end early.
        pub(crate) fn sleep(&self, heard: u32) {
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, heard, None);
        }

        pub(crate) fn ring(&self) {
            self.0.fetch_add(1, Ordering::Release);
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }
}

#[cfg(any(loom, shuttle))]
mod modelled {
    #[cfg(loom)]
    use loom as checker;
    #[cfg(shuttle)]
    use shuttle as checker;

    use checker::sync::Condvar;
    use checker::sync::atomic::AtomicUsize;
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering;
    use std::task::Waker;

    pub(crate) use checker::sync::atomic::{AtomicBool, AtomicU64};
    pub(crate) use checker::sync::{Arc, Mutex};
    pub(crate) use checker::thread_local;

    // Not the checker's: all threads of a model are this one.
    std::thread_local! {
        static BROKEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Whether the models of this thread have a deliberate defect: a push then does not look whether its shard is gone.
    pub(crate) fn is_broken() -> bool {
        BROKEN.get()
    }

    /// Gives the models of this thread the defect, or takes it from them.
    #[cfg(test)]
    pub(crate) fn set_broken(is_broken: bool) {
        BROKEN.set(is_broken);
    }

    /// A thread as far as it can be woken, in place of std's. Loom's own takes an unpark that comes late for the end of whatever the
    /// thread waits for by then.
    #[derive(Clone)]
    pub(crate) struct Thread(std::sync::Arc<Parking>);

    struct Parking {
        is_woken: Mutex<bool>,
        changed: Condvar,
    }

    thread_local! {
        static CURRENT: Thread =
            Thread(std::sync::Arc::new(Parking { is_woken: Mutex::new(false), changed: Condvar::new() }));
    }

    pub(crate) fn current() -> Thread {
        CURRENT.with(Clone::clone)
    }

    pub(crate) fn park() {
        let Thread(parking) = current();
        let mut is_woken = parking.is_woken.lock().expect("no panic while it is held");
        while !std::mem::take(&mut *is_woken) {
            is_woken = parking.changed.wait(is_woken).expect("no panic while it is held");
        }
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            *self.0.is_woken.lock().expect("no panic while it is held") = true;
            self.0.changed.notify_one();
        }
    }

    /// As the real one, under a lock.
    pub(crate) struct Rings {
        count: Mutex<u32>,
        rung: Condvar,
    }

    impl Rings {
        pub(crate) fn new() -> Rings {
            Rings { count: Mutex::new(0), rung: Condvar::new() }
        }

        pub(crate) fn heard(&self) -> u32 {
            *self.count.lock().expect("no panic while it is held")
        }

        pub(crate) fn sleep(&self, heard: u32) {
            let mut count = self.count.lock().expect("no panic while it is held");
            while *count == heard {
                count = self.rung.wait(count).expect("no panic while it is held");
            }
        }

        pub(crate) fn ring(&self) {
            *self.count.lock().expect("no panic while it is held") += 1;
            self.rung.notify_all();
        }
    }

    /// A bounded queue under a lock, in place of crossbeam's.
    pub(crate) struct ArrayQueue<T> {
        items: Mutex<VecDeque<T>>,
        capacity: usize,
    }

    impl<T> ArrayQueue<T> {
        pub(crate) fn new(capacity: usize) -> ArrayQueue<T> {
            ArrayQueue { items: Mutex::new(VecDeque::new()), capacity }
        }

        pub(crate) fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items.lock().expect("no panic while it is held");
            if items.len() == self.capacity {
                return Err(item);
            }
            items.push_back(item);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items.lock().expect("no panic while it is held").pop_front()
        }

        pub(crate) fn len(&self) -> usize {
            self.items.lock().expect("no panic while it is held").len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }

    const WAITING: usize = 0;
    const REGISTERING: usize = 1;
    const WAKING: usize = 2;

    /// The waker of `futures`: whoever changes the state away from `WAITING` has the waker for itself.
    pub(crate) struct AtomicWaker {
        state: AtomicUsize,
        /// A lock only in name: that somebody would have to wait for it is a failure of the states.
        waker: std::sync::Mutex<Option<Waker>>,
    }

    impl AtomicWaker {
        pub(crate) fn new() -> AtomicWaker {
            AtomicWaker { state: AtomicUsize::new(WAITING), waker: std::sync::Mutex::new(None) }
        }

        fn exchange(&self, waker: Option<Waker>) -> Option<Waker> {
            let mut held = self.waker.try_lock().expect("the states keep everybody else out");
            std::mem::replace(&mut *held, waker)
        }

        pub(crate) fn register(&self, waker: &Waker) {
            let begun = self.state.compare_exchange(WAITING, REGISTERING, Ordering::Acquire, Ordering::Acquire);
            match begun {
                Ok(_) => {
                    drop(self.exchange(Some(waker.clone())));
                    let ended = self.state.compare_exchange(REGISTERING, WAITING, Ordering::AcqRel, Ordering::Acquire);
                    if ended.is_err() {
                        // Somebody wakes meanwhile, and leaves it to this side.
                        let waker = self.exchange(None);
                        self.state.swap(WAITING, Ordering::AcqRel);
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                    }
                }
                Err(WAKING) => waker.wake_by_ref(),
                Err(_) => {}
            }
        }

        pub(crate) fn take(&self) -> Option<Waker> {
            if self.state.fetch_or(WAKING, Ordering::AcqRel) != WAITING {
                return None;
            }
            let waker = self.exchange(None);
            self.state.fetch_and(!WAKING, Ordering::Release);
            waker
        }
    }
}
