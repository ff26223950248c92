//! Producing: the closed loop that every engine is loaded with, and the housekeeping beside it.

use crate::engine::Engine;
use crate::error::PeersError;
use crate::interrupt::Interrupt;
use crate::window::Window;
use crate::workload::Producers;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between two times at which an engine gives up what is old.
const TIDY_EVERY: Duration = Duration::from_millis(100);

/// How long a loop goes on.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    /// At most this long.
    pub time: Duration,
    /// At most so many payload bytes: not every engine gives anything back.
    pub bytes: u64,
    /// And not when the user asked to stop.
    pub interrupt: &'a Interrupt,
}

/// Loads an engine for so long, counting into `window`.
///
/// # Errors
/// What the engine answered, or that the user asked to stop.
pub fn produce(
    engine: &dyn Engine,
    producers: Producers,
    value: &[u8],
    until: Until<'_>,
    window: &mut Window,
) -> Result<(), PeersError> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let tidying = scope.spawn(|| tidy_until(engine, &over));
        let produced = window.timed(|window| match producers {
            Producers::Threads(threads) => side_by_side(engine, threads, value, until, window),
            Producers::Outstanding(depth) => engine.outstanding(depth, value, until, window),
        });
        over.store(true, Ordering::Relaxed);
        tidying.thread().unpark();
        produced.and(tidying.join().expect("housekeeping does not panic"))
    })?;
    until.interrupt.check()
}

fn tidy_until(engine: &dyn Engine, over: &AtomicBool) -> Result<(), PeersError> {
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(TIDY_EVERY);
        engine.tidy()?;
    }
    Ok(())
}

/// Takes one of what may still be appended.
fn take(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// So many threads that each append one record and wait until it is durable.
fn side_by_side(
    engine: &dyn Engine,
    threads: usize,
    value: &[u8],
    until: Until<'_>,
    window: &mut Window,
) -> Result<(), PeersError> {
    let mut windows: Vec<Window> = (0..threads).map(|_| Window::new()).collect();
    let (start, left) = (Barrier::new(threads), AtomicU64::new(until.bytes / value.len().max(1) as u64));
    let work = &|producer: usize, window: &mut Window| {
        start.wait();
        let mut now = Instant::now();
        let end = now + until.time;
        while now < end && !until.interrupt.asked() && take(&left) {
            engine.append(producer, value)?;
            // The end of this one is the start of its successor.
            let ended = Instant::now();
            window.took(ended - now);
            now = ended;
        }
        Ok::<(), PeersError>(())
    };
    std::thread::scope(|scope| {
        let spawn = |(producer, window)| scope.spawn(move || work(producer, window));
        let workers: Vec<_> = windows.iter_mut().enumerate().map(spawn).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a producer does not panic"))
    })?;
    windows.iter().for_each(|of_thread| window.absorb(of_thread));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Kind, Setting};

    #[test]
    fn a_loop_ends_with_its_bytes_and_counts_every_append() {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = Kind::Naive.open(directory.path(), Setting::small()).expect("opened");
        let (interrupt, mut window) = (Interrupt::default(), Window::new());
        let until = Until { time: Duration::from_secs(60), bytes: 10 << 10, interrupt: &interrupt };
        let produced = produce(&*engine, Producers::Threads(3), &[7; 1 << 10], until, &mut window);
        produced.expect("appended");
        assert_eq!(window.records(), 10);
        let refused = produce(&*engine, Producers::Outstanding(8), &[7; 1 << 10], until, &mut window);
        assert!(refused.expect_err("it has no such verb").to_string().contains("in flight"));
    }
}
