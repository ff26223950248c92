//! Paced: an open loop. Work is asked for by a schedule, whether what was asked for before has been answered or not.
//!
//! Latency counts from when an operation was due, so a stall is charged to every operation that it kept waiting (no
//! coordinated omission). What is due while too many wait, or is refused, is given up and counted.

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::subject::Appending;
use crate::window::Window;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most operations that wait for their answer. What is due beyond is given up: by then the subject is far behind.
pub const BACKLOG_MAX: usize = 2_048;

/// Sleeping takes about this much longer than asked for: a schedule that has something due sooner is kept awake for.
const SLEEP_EXCESS: Duration = Duration::from_micros(150);

/// An operation that will be answered. They are answered in the order in which they were asked for.
pub trait Answered {
    /// Whether the answer has come.
    ///
    /// # Errors
    /// What the answer says.
    fn answered(&mut self) -> Result<bool, BenchError>;
}

impl Answered for Appending {
    fn answered(&mut self) -> Result<bool, BenchError> {
        Ok(self.take()?.is_some())
    }
}

/// What is asked for when.
#[derive(Clone, Copy)]
pub struct Schedule<'a> {
    /// Operations a second.
    pub rate: f64,
    /// How many.
    pub count: u64,
    /// Payload bytes of each.
    pub bytes: usize,
    /// Whether the user has asked to stop.
    pub interrupt: &'a Interrupt,
}

impl Schedule<'_> {
    /// Follows it, starting each operation with `start`, which gives `None` where it is refused, until all are answered. Says
    /// how many were given up.
    ///
    /// # Errors
    /// What an operation answered, or that the user asked to stop.
    pub fn follow<A: Answered>(
        &self,
        window: &mut Window,
        mut start: impl FnMut() -> Result<Option<A>, BenchError>,
    ) -> Result<u64, BenchError> {
        let mut flying: VecDeque<(Instant, A)> = VecDeque::with_capacity(BACKLOG_MAX);
        let (started, mut next, mut given_up) = (Instant::now(), 0, 0);
        let due = |number: u64| started + Duration::from_secs_f64(number as f64 / self.rate);
        while next < self.count || !flying.is_empty() {
            self.interrupt.check()?;
            while next < self.count && due(next) <= Instant::now() {
                let started = if flying.len() < BACKLOG_MAX { start()? } else { None };
                match started {
                    Some(operation) => flying.push_back((due(next), operation)),
                    None => given_up += 1,
                }
                next += 1;
                self.take_answers(&mut flying, window)?;
            }
            self.take_answers(&mut flying, window)?;
            rest_until((next < self.count).then(|| due(next)), flying.is_empty());
        }
        Ok(given_up)
    }

    fn take_answers<A: Answered>(
        &self,
        flying: &mut VecDeque<(Instant, A)>,
        window: &mut Window,
    ) -> Result<(), BenchError> {
        while let Some((due, oldest)) = flying.front_mut() {
            if !oldest.answered()? {
                break;
            }
            let now = Instant::now();
            window.took_until(now, now.saturating_duration_since(*due));
            window.records += 1;
            window.bytes += self.bytes as u64;
            flying.pop_front();
        }
        Ok(())
    }
}

/// Sleeps where nothing is due soon and no answer is awaited; else lets others run and looks again.
fn rest_until(due: Option<Instant>, idle: bool) {
    let left = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()));
    if idle && left > 2 * SLEEP_EXCESS {
        std::thread::sleep(left - SLEEP_EXCESS);
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answered from a moment on.
    struct At(Instant);

    impl Answered for At {
        fn answered(&mut self) -> Result<bool, BenchError> {
            Ok(Instant::now() >= self.0)
        }
    }

    fn follow(rate: f64, count: u64, answer: impl Fn() -> Instant) -> (Window, u64) {
        let mut window = Window::new();
        let interrupt = Interrupt::default();
        let schedule = Schedule { rate, count, bytes: 1, interrupt: &interrupt };
        let given_up = schedule.follow(&mut window, || Ok(Some(At(answer())))).expect("nothing fails");
        (window, given_up)
    }

    #[test]
    fn a_stall_is_charged_to_everything_that_was_due_meanwhile() {
        let end_of_stall = Instant::now() + Duration::from_millis(100);
        let (window, given_up) = follow(1_000.0, 50, || end_of_stall);
        assert_eq!((window.records, given_up), (50, 0));
        // The 26th was due 25 ms after the first, and waited for the rest of the 100.
        let median_us = window.latency().value_at_quantile(0.5) as f64 / 1e3;
        assert!(median_us > 60_000.0, "{median_us}");
    }

    #[test]
    fn what_is_refused_is_given_up() {
        let (mut window, interrupt) = (Window::new(), Interrupt::default());
        let schedule = Schedule { rate: 1e6, count: 10, bytes: 1, interrupt: &interrupt };
        let given_up = schedule.follow(&mut window, || Ok(None::<At>)).expect("nothing fails");
        assert_eq!((window.records, given_up), (0, 10));
    }

    #[test]
    fn what_finds_the_backlog_full_is_given_up_and_counted() {
        let end_of_stall = Instant::now() + Duration::from_millis(100);
        let (window, given_up) = follow(1e9, BACKLOG_MAX as u64 + 7, || end_of_stall);
        assert_eq!((window.records, given_up), (BACKLOG_MAX as u64, 7));
    }
}
