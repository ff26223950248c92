//! Wakes: who is to be woken for what was answered, put off until several answers are there.

use std::task::Waker;

/// So many answers may wait for their wakes. Each wake may give the core to somebody who then asks alone; all at once come back
/// together, and more than this would leave the producers without work for too long.
const ANSWERS_MAX: usize = 64;

/// Wakers that have been put off. Dropped, also in a panic, they are all woken.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    wakers: Vec<Waker>,
    answers: usize,
}

impl Wakes {
    /// One more answer was given, and somebody may have to be woken for it.
    pub(crate) fn add(&mut self, waker: Option<Waker>) {
        self.answers += usize::from(self.answers > 0 || waker.is_some());
        if let Some(waker) = waker.filter(|waker| !self.wakers.last().is_some_and(|last| last.will_wake(waker))) {
            self.wakers.push(waker);
        }
        if self.answers >= ANSWERS_MAX {
            self.wake();
        }
    }

    /// Wakes all of them.
    pub(crate) fn wake(&mut self) {
        self.answers = 0;
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counted() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }

    #[test]
    fn one_who_waits_for_several_answers_is_woken_once() {
        let ((first, waker), (second, other)) = (counted(), counted());
        let mut wakes = Wakes::default();
        for waker in [&waker, &waker, &other, &other] {
            wakes.add(Some(waker.clone()));
        }
        assert_eq!(first.0.load(Ordering::Relaxed), 0, "put off");
        wakes.wake();
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn nobody_waits_for_more_answers_than_the_limit_and_nobody_is_forgotten() {
        let (count, waker) = counted();
        let mut wakes = Wakes::default();
        wakes.add(Some(waker.clone()));
        (1..ANSWERS_MAX).for_each(|_| wakes.add(None));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        wakes.add(Some(waker));
        drop(wakes);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
}
