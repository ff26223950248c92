//! Models of the answer and its place: every interleaving of the side that answers and the side that waits.

use super::*;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const NOBODY: u64 = u64::MAX;

impl Unanswered for u64 {
    fn unanswered() -> u64 {
        NOBODY
    }
}

/// What callbacks were given, added up: a second call shows.
struct Called(Arc<AtomicU64>);

impl Called {
    fn new() -> Called {
        Called(Arc::new(AtomicU64::new(0)))
    }

    fn callback(&self) -> impl FnOnce(u64) + Send + 'static {
        let sum = self.0.clone();
        move |value| {
            sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    fn sum(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn loom_an_answer_reaches_a_thread_that_waits() {
    loom::model(|| {
        let (answer, pending) = pair();
        let giver = thread::spawn(move || answer.give(7_u64));
        assert_eq!(pending.wait(), 7);
        giver.join().expect("the giver");
    });
}

#[test]
fn loom_an_answer_reaches_a_task_that_polls() {
    loom::model(|| {
        let (answer, pending) = pair();
        let giver = thread::spawn(move || answer.give(7_u64));
        assert_eq!(loom::future::block_on(pending), 7);
        giver.join().expect("the giver");
    });
}

#[test]
fn loom_a_callback_runs_exactly_once() {
    loom::model(|| {
        let (answer, pending) = pair();
        let called = Called::new();
        let giver = thread::spawn(move || answer.give(7_u64));
        pending.on_ready(called.callback());
        giver.join().expect("the giver");
        assert_eq!(called.sum(), 7);
    });
}

#[test]
fn loom_an_answer_that_is_dropped_is_answered_all_the_same() {
    loom::model(|| {
        let (answer, pending) = pair::<u64>();
        let giver = thread::spawn(move || drop(answer));
        assert_eq!(pending.wait(), NOBODY);
        giver.join().expect("the giver");
    });
}

#[test]
fn loom_nobody_misses_an_answer_that_nobody_waits_for() {
    loom::model(|| {
        let (answer, pending) = pair();
        let giver = thread::spawn(move || answer.give(7_u64));
        drop(pending);
        giver.join().expect("the giver");
    });
}

#[test]
fn loom_a_late_wake_of_one_user_takes_no_waker_of_the_next() {
    loom::model(|| {
        let places = Places::new(1);
        let (answer, pending) = places.pair(0);
        // Still at its wake, perhaps, when the place already has another user.
        let first = thread::spawn(move || answer.give(1_u64));
        assert_eq!(pending.wait(), 1);

        let (answer, pending) = places.pair(0);
        let called = Called::new();
        pending.on_ready(called.callback());
        answer.give(2_u64);
        first.join().expect("the first giver");
        assert_eq!(called.sum(), 2);
    });
}

#[test]
fn loom_a_place_whose_answer_nobody_took_shows_it_to_no_one() {
    loom::model(|| {
        let places = Places::new(1);
        let (answer, pending) = places.pair(0);
        let first = thread::spawn(move || answer.give(1_u64));
        drop(pending);
        let (answer, pending) = places.pair(0);
        let second = thread::spawn(move || answer.give(2_u64));
        assert_eq!(pending.wait(), 2);
        for giver in [first, second] {
            giver.join().expect("a giver");
        }
    });
}

#[test]
fn loom_two_users_at_once_share_no_place() {
    loom::model(|| {
        let places = Places::new(2);
        let user = |value: u64| {
            let places = places.clone();
            move || {
                let (answer, mut pending) = places.pair(0);
                assert_eq!(pending.try_take(), None, "an old answer");
                answer.give(value);
                assert_eq!(pending.try_take(), Some(value));
                assert_eq!(pending.try_take(), None, "an answer is taken once");
            }
        };
        let other = thread::spawn(user(1));
        user(2)();
        other.join().expect("the other user");
        // The places that were given back are used again.
        user(3)();
    });
}

#[test]
fn loom_all_who_wait_at_one_bell_are_woken_by_one_ring() {
    // Three threads: interleavings with more than two preemptions take minutes.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let places = Places::new(2);
        let (first, early) = places.pair(0);
        let (second, late) = places.pair(0);
        let waiter = thread::spawn(move || assert_eq!(early.wait(), 1_u64));
        let giver = thread::spawn(move || {
            let mut wakes = Wakes::default();
            wakes.add(first.leave(1));
            wakes.add(second.leave(2));
            wakes.wake();
        });
        assert_eq!(late.wait(), 2);
        waiter.join().expect("the waiter");
        giver.join().expect("the giver");
    });
}
