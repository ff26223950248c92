//! A round trip: what it costs to hand something to another thread and to hear of it, with nothing done in between.
//!
//! It is the ceiling of an append that is answered before it is written. The way is the store's own: a lock-free queue there, a place of one
//! element for the answer, and a thread on the other side that is parked when it has nothing to do.

use super::paced::{Answered, BACKLOG_MAX, Schedule};
use crate::error::BenchError;
use crate::window::Window;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Where an answer is put, and who may wait for it.
struct Place {
    answer: ArrayQueue<u64>,
    asker: Thread,
}

struct Asked(Arc<Place>);

impl Answered for Asked {
    fn answered(&mut self) -> Result<bool, BenchError> {
        Ok(self.0.answer.pop().is_some())
    }
}

/// Sends as the schedule says to a thread that only answers. Says how many were given up.
///
/// # Errors
/// That the user asked to stop.
pub fn follow(schedule: Schedule<'_>, window: &mut Window) -> Result<u64, BenchError> {
    let (there, over) = (ArrayQueue::<Arc<Place>>::new(BACKLOG_MAX), AtomicBool::new(false));
    // Places are used again, as the store's are: nothing is allocated while the clock runs.
    let asker = std::thread::current();
    let places: Vec<_> =
        (0..=BACKLOG_MAX).map(|_| Arc::new(Place { answer: ArrayQueue::new(1), asker: asker.clone() })).collect();
    let mut unused = places.iter().cycle().cloned();
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&there, &over));
        let mut given_up = Ok(0);
        let timed = window.timed(|window| {
            given_up = schedule.follow(window, || {
                let place = unused.next().expect("a cycle of places does not end");
                // The backlog of the schedule is as long as the queue: there is room.
                let _ = there.push(place.clone());
                answering.thread().unpark();
                Ok(Some(Asked(place)))
            });
            Ok(())
        });
        over.store(true, Ordering::Release);
        answering.thread().unpark();
        timed.and(given_up)
    })
}

fn answer(there: &ArrayQueue<Arc<Place>>, over: &AtomicBool) {
    let mut answered = 0;
    while !over.load(Ordering::Acquire) {
        while let Some(place) = there.pop() {
            answered += 1;
            let _ = place.answer.push(answered);
            place.asker.unpark();
        }
        // A token that came in between makes this return at once.
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;

    #[test]
    fn everything_that_is_sent_is_answered() {
        let (mut window, interrupt) = (Window::new(), Interrupt::default());
        let schedule = Schedule { rate: 20_000.0, count: 5_000, bytes: 1, interrupt: &interrupt };
        let given_up = follow(schedule, &mut window).expect("nothing fails");
        assert_eq!(window.records + given_up, 5_000);
        assert!(window.records > 0);
    }
}
