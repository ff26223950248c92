//! Pending: an answer that will come, for a future, a blocked thread, a poller or a callback alike.
//!
//! No lock is taken and, for pooled places, nothing is allocated: the place is an atomic one-element queue and an atomic
//! waker. The answering side gives exactly one answer; dropped without one, it gives [`Unanswered::unanswered`].

use crate::sync::{self, ArrayQueue, AtomicWaker, Mutex, Thread};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

mod bell;
#[cfg(all(test, loom))]
mod loom_models;
mod wakes;

use bell::Bells;
pub(crate) use wakes::Wakes;

/// What is answered when the shard that owed the answer is gone.
pub trait Unanswered {
    /// The answer of a shard that died.
    fn unanswered() -> Self;
}

struct Place<T> {
    value: ArrayQueue<T>,
    waker: AtomicWaker,
}

impl<T> Place<T> {
    fn new() -> sync::Arc<Place<T>> {
        sync::Arc::new(Place { value: ArrayQueue::new(1), waker: AtomicWaker::new() })
    }
}

/// Places that are used again, so that an append allocates nothing in steady state.
pub(crate) struct Places<T>(sync::Arc<Kept<T>>);

/// Places that nobody uses, and what threads that wait at one sleep on.
struct Kept<T> {
    places: ArrayQueue<sync::Arc<Place<T>>>,
    bells: Bells,
}

/// Bells of a shard. Threads of logs that share one are woken for each other's commits.
const BELLS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

impl<T> Clone for Places<T> {
    fn clone(&self) -> Self {
        Places(self.0.clone())
    }
}

impl<T: Unanswered> Places<T> {
    pub(crate) fn new(capacity: usize) -> Places<T> {
        Places(sync::Arc::new(Kept { places: ArrayQueue::new(capacity), bells: Bells::new(BELLS) }))
    }

    /// A place. Threads that wait for answers of the same `lane` are woken together.
    pub(crate) fn pair(&self, lane: usize) -> (Answer<T>, Pending<T>) {
        let place = self.0.places.pop().unwrap_or_else(Place::new);
        (Answer { place: Some(place.clone()) }, Pending { place: Some(place), home: Some(self.clone()), lane })
    }
}

/// An answer and where it will be awaited.
pub fn pair<T: Unanswered>() -> (Answer<T>, Pending<T>) {
    let place = Place::new();
    (Answer { place: Some(place.clone()) }, Pending { place: Some(place), home: None, lane: 0 })
}

/// The side that owes the answer.
pub struct Answer<T: Unanswered> {
    place: Option<sync::Arc<Place<T>>>,
}

impl<T: Unanswered> Answer<T> {
    /// Gives the answer.
    pub fn give(self, value: T) {
        if let Some(waker) = self.leave(value) {
            waker.wake();
        }
    }

    /// Gives the answer, and says who is to be woken for it.
    #[must_use = "somebody may sleep until it is woken"]
    pub fn leave(mut self, value: T) -> Option<Waker> {
        self.fill(value)
    }

    fn fill(&mut self, value: T) -> Option<Waker> {
        // Lets go of the place before anybody is woken, so that whoever is woken can use it again.
        let place = self.place.take()?;
        // The place is empty: this side alone fills it, and only once.
        let _ = place.value.push(value);
        place.waker.take()
    }
}

impl<T: Unanswered> Drop for Answer<T> {
    fn drop(&mut self) {
        if self.place.is_some()
            && let Some(waker) = self.fill(T::unanswered())
        {
            waker.wake();
        }
    }
}

/// An answer that will come: await it, [`wait`](Pending::wait) for it, look with [`try_take`](Pending::try_take), or
/// be called with [`on_ready`](Pending::on_ready). Dropping it does not undo what was asked for.
#[must_use = "what was asked for goes on, but nobody will see the answer"]
pub struct Pending<T> {
    /// Let go of with the answer: others use it from then on.
    place: Option<sync::Arc<Place<T>>>,
    home: Option<Places<T>>,
    /// Which bell of its home wakes a thread.
    lane: usize,
}

impl<T> Pending<T> {
    /// The answer, if it has come. After it was taken once this says `None` for ever.
    pub fn try_take(&mut self) -> Option<T> {
        let value = self.place.as_ref()?.value.pop()?;
        // A place is used again only when the answering side has let go of it: its wake could otherwise take the waker of the next
        // user, whose callback would then never run.
        let place = self.place.take().and_then(|mut place| sync::Arc::get_mut(&mut place).is_some().then_some(place));
        if let (Some(home), Some(place)) = (self.home.take(), place) {
            let _ = home.0.places.push(place);
        }
        Some(value)
    }

    /// Has `waker` woken when the answer comes; it may have come by now.
    fn register(&self, waker: &Waker) {
        if let Some(place) = &self.place {
            place.waker.register(waker);
        }
    }

    /// Blocks this thread until the answer comes. Not for threads that run an async executor.
    pub fn wait(mut self) -> T {
        let (home, lane) = (self.home.clone(), self.lane);
        if let Some(value) = self.try_take() {
            return value;
        }
        let mut answered = |waker: &Waker| {
            self.register(waker);
            self.try_take()
        };
        match home {
            Some(home) => home.0.bells.sleep_until(lane, answered),
            None => PARKER.with(|waker| {
                loop {
                    if let Some(value) = answered(waker) {
                        return value;
                    }
                    sync::park();
                }
            }),
        }
    }

    /// Calls `f` with the answer: on the shard's thread when it comes, or here when it has come already. `f` must not block; should
    /// it panic on the shard's thread, that is logged and ends there.
    pub fn on_ready(mut self, f: impl FnOnce(T) + Send + 'static)
    where
        T: Send + 'static,
    {
        if let Some(value) = self.try_take() {
            return f(value);
        }
        let Some(place) = self.place.clone() else { return };
        let callback = Arc::new(Callback { pending: Mutex::new(Some((self, Box::new(f)))) });
        place.waker.register(&Waker::from(callback.clone()));
        // Before the answer is looked for, so that the place can be used again.
        drop(place);
        callback.run_if_answered();
    }
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.try_take() {
            return Poll::Ready(value);
        }
        self.register(context.waker());
        self.try_take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_waiting = self.place.as_ref().is_some_and(|place| place.value.is_empty());
        write!(f, "Pending({})", if is_waiting { "not yet answered" } else { "answered" })
    }
}

/// An answer whose last step is taken by whoever takes the answer, on his own thread: the thread that gave it serves others too.
#[must_use = "what was asked for goes on, but nobody will see the answer"]
pub struct Unfinished<A, B> {
    pending: Pending<A>,
    finish: fn(A) -> B,
}

impl<A, B> Unfinished<A, B> {
    /// Of an answer that `finish` makes the last of.
    pub fn new(pending: Pending<A>, finish: fn(A) -> B) -> Unfinished<A, B> {
        Unfinished { pending, finish }
    }

    /// The answer, if it has come. After it was taken once this says `None` for ever.
    pub fn try_take(&mut self) -> Option<B> {
        self.pending.try_take().map(self.finish)
    }

    /// Blocks this thread until the answer comes. Not for threads that run an async executor.
    pub fn wait(self) -> B {
        (self.finish)(self.pending.wait())
    }

    /// Calls `f` with the answer, as [`Pending::on_ready`] does: the last step is then taken where `f` is called.
    pub fn on_ready(self, f: impl FnOnce(B) + Send + 'static)
    where
        A: Send + 'static,
        B: 'static,
    {
        let finish = self.finish;
        self.pending.on_ready(move |answer| f(finish(answer)));
    }
}

impl<A, B> Future for Unfinished<A, B> {
    type Output = B;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<B> {
        let finish = self.finish;
        Pin::new(&mut self.pending).poll(context).map(finish)
    }
}

impl<A, B> std::fmt::Debug for Unfinished<A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pending.fmt(f)
    }
}

type Called<T> = (Pending<T>, Box<dyn FnOnce(T) + Send>);

/// Runs a closure when it is woken with the answer there.
struct Callback<T> {
    pending: Mutex<Option<Called<T>>>,
}

impl<T> Callback<T> {
    fn run_if_answered(&self) {
        let answered = {
            let mut guard = self.pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let value = guard.as_mut().and_then(|(pending, _)| pending.try_take());
            value.and_then(|value| guard.take().map(|(_, f)| (value, f)))
        };
        if let Some((value, f)) = answered {
            // The shard's thread serves others too: a panic of the host's code must not end it.
            if catch_unwind(AssertUnwindSafe(|| f(value))).is_err() {
                tracing::error!("a callback of the host panicked; its answer had been given");
            }
        }
    }
}

impl<T: Send + 'static> Wake for Callback<T> {
    fn wake(self: Arc<Self>) {
        self.run_if_answered();
    }
}

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

sync::thread_local! {
    static PARKER: Waker = Waker::from(Arc::new(Unpark(sync::current())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    impl Unanswered for u32 {
        fn unanswered() -> u32 {
            u32::MAX
        }
    }

    #[test]
    fn an_answer_reaches_a_waiting_thread() {
        let (answer, pending) = pair();
        let waiter = std::thread::spawn(move || pending.wait());
        std::thread::sleep(std::time::Duration::from_millis(5));
        answer.give(7u32);
        assert_eq!(waiter.join().expect("the waiter"), 7);
    }

    #[test]
    fn an_answer_that_is_never_given_is_answered_all_the_same() {
        let (answer, pending) = pair::<u32>();
        drop(answer);
        assert_eq!(pending.wait(), u32::MAX);
    }

    #[test]
    fn a_callback_runs_once_whether_the_answer_is_early_or_late() {
        for early in [true, false] {
            let (answer, pending) = pair();
            let (sent, seen) = mpsc::channel();
            let mut answer = Some(answer);
            if early {
                answer.take().expect("not given yet").give(3u32);
            }
            pending.on_ready(move |value| sent.send(value).expect("the test listens"));
            if let Some(answer) = answer {
                answer.give(3u32);
            }
            assert_eq!(seen.iter().collect::<Vec<_>>(), [3]);
        }
    }

    #[test]
    fn a_place_is_used_again_and_never_shows_an_old_answer() {
        let places = Places::new(4);
        for round in 0..100u32 {
            let (answer, mut pending) = places.pair(0);
            assert_eq!(pending.try_take(), None);
            answer.give(round);
            assert_eq!(pending.wait(), round);
        }
        assert_eq!(places.0.places.len(), 1);
        let (answer, pending) = places.pair(0);
        drop(pending);
        answer.give(5u32);
        let (_answer, mut pending) = places.pair(0);
        assert_eq!(pending.try_take(), None, "a place whose answer nobody took is not used again");
    }

    #[test]
    fn an_answer_is_taken_once_whoever_uses_its_place_by_then() {
        let places = Places::new(4);
        let (answer, mut first) = places.pair(0);
        answer.give(1u32);
        assert_eq!(first.try_take(), Some(1));
        let (answer, mut second) = places.pair(0);
        answer.give(2);
        assert_eq!(first.try_take(), None, "the answer is somebody else's");
        assert_eq!(second.try_take(), Some(2));
    }

    #[test]
    fn a_place_is_not_used_again_while_its_answering_side_still_holds_it() {
        let places = Places::<u32>::new(4);
        let (answer, mut pending) = places.pair(0);
        let held = answer.place.clone();
        answer.give(1);
        assert_eq!(pending.try_take(), Some(1));
        assert_eq!(places.0.places.len(), 0, "a late wake of it would take the next user's waker");
        drop(held);
        let (answer, mut pending) = places.pair(0);
        answer.give(2);
        assert_eq!(pending.try_take(), Some(2));
        assert_eq!(places.0.places.len(), 1);
    }
}
