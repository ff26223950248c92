//! Producing: the closed loops that several scenarios load a store with.

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::subject::Lane;
use crate::window::Window;
use std::collections::VecDeque;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long a loop goes on.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    time: Duration,
    bytes: u64,
    interrupt: &'a Interrupt,
}

impl<'a> Until<'a> {
    /// For this time, or until so many payload bytes were appended: no disk is filled because it is fast.
    pub fn new(time: Duration, bytes: u64, interrupt: &'a Interrupt) -> Until<'a> {
        Until { time, bytes, interrupt }
    }
}

/// One thread that keeps so many appends in flight, over all lanes in turn, and waits for the oldest. `durable` hears where the log ends
/// at each answer.
pub fn keep_in_flight(
    lanes: &[Lane],
    value: &[u8],
    in_flight: usize,
    until: Until<'_>,
    window: &mut Window,
    mut durable: impl FnMut(u64),
) -> Result<(), BenchError> {
    let mut flying = VecDeque::with_capacity(in_flight);
    let mut lanes = lanes.iter().cycle();
    let (mut now, mut left) = (Instant::now(), until.bytes);
    let end = now + until.time;
    loop {
        while now < end && left > 0 && flying.len() < in_flight && !until.interrupt.asked() {
            let Some(lane) = lanes.next() else { break };
            flying.push_back((now, lane.start(value)?));
            left = left.saturating_sub(value.len() as u64);
        }
        let Some((started, oldest)) = flying.pop_front() else { break };
        durable(oldest.wait()?);
        // The end of this one is the start of its successor: one look at the clock a record.
        now = Instant::now();
        window.took_until(now, now - started);
        window.records += 1;
        window.bytes += value.len() as u64;
    }
    until.interrupt.check()
}

/// So many threads that each append one record and wait until it is durable. `durable` hears where the log ends from one of them.
pub fn side_by_side(
    lane: &Lane,
    value: &[u8],
    threads: usize,
    until: Until<'_>,
    window: &mut Window,
    durable: impl FnMut(u64) + Send,
) -> Result<(), BenchError> {
    let mut windows: Vec<Window> = (0..threads).map(|_| window.helper()).collect();
    let (start, of_one) = (Barrier::new(threads), Until { bytes: until.bytes / threads as u64, ..until });
    let work = |window: &mut Window, durable: &mut dyn FnMut(u64)| {
        start.wait();
        keep_in_flight(std::slice::from_ref(lane), value, 1, of_one, window, durable)
    };
    let mut durable = Some(durable);
    std::thread::scope(|scope| {
        let mut spawn = |window| {
            let durable = durable.take();
            scope.spawn(move || match durable {
                Some(mut durable) => work(window, &mut durable),
                None => work(window, &mut |_| {}),
            })
        };
        let workers: Vec<_> = windows.iter_mut().map(&mut spawn).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a producer does not panic"))
    })?;
    windows.iter().for_each(|of_thread| window.absorb(of_thread));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Subject, config};

    #[test]
    fn a_loop_ends_with_its_time_or_its_bytes_and_everything_is_durable() {
        let directory = tempfile::tempdir().expect("a directory");
        let subject = Subject::open(config(&directory.path().join("store"))).expect("a store");
        let interrupt = Interrupt::default();
        let mut window = Window::new();
        let mut ends = Vec::new();
        let until = Until::new(Duration::from_secs(60), 10 << 10, &interrupt);
        let done = subject.timed(&mut window, |window| {
            keep_in_flight(subject.lanes(), &[7; 1 << 10], 4, until, window, |end| ends.push(end))
        });
        done.expect("appended");
        assert_eq!((window.records, window.bytes, ends), (10, 10 << 10, (1..=10).collect()));
        let until = Until::new(Duration::from_millis(10), u64::MAX, &interrupt);
        side_by_side(subject.lane(), &[7; 1 << 10], 3, until, &mut window, |_| {}).expect("appended");
        assert!(window.records >= 13);
        assert_eq!(subject.lane().read(window.records - 1, 1).expect("the last record").next, window.records);
        subject.close().expect("closed");
    }
}
