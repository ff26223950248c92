//! Driving by hand: a future and the turns of its disk, on this thread and in virtual time.

use crate::disk::{Disk, Wait};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// What [`drive_steps`] gives back.
#[derive(Debug)]
pub enum Driven<F: Future> {
    /// The future is done.
    Ready(F::Output),
    /// It is not; here it is again. Dropping it cancels nothing that is in flight.
    Pending(F),
}

/// Turns the disk until the future is done.
///
/// # Panics
/// When the future waits and the disk has nothing in flight, so that no turn could ever wake it; when a turn fails.
pub fn drive<D: Disk, F: Future>(disk: &D, future: F) -> F::Output {
    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        // One part of it may have woken another.
        if woken.0.swap(false, Ordering::Relaxed) {
            continue;
        }
        assert!(disk.in_flight() > 0, "the future waits for something that this disk will never complete");
        disk.turn(Wait::Event).expect("the disk can be turned while it is driven");
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Turns the disk until the future is done or `turns` turns were made: for stopping in the middle and crashing there.
/// Box and pin an `async` block first (`Box::pin`).
///
/// # Panics
/// When a turn fails.
pub fn drive_steps<D: Disk, F: Future + Unpin>(disk: &D, mut future: F, turns: usize) -> Driven<F> {
    let mut context = Context::from_waker(Waker::noop());
    for turn in 0..=turns {
        if let Poll::Ready(output) = pin!(&mut future).poll(&mut context) {
            return Driven::Ready(output);
        }
        if turn < turns {
            disk.turn(Wait::Event).expect("the disk can be turned while it is driven");
        }
    }
    Driven::Pending(future)
}
