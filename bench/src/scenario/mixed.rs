//! mixed: appends at full rate while one reader follows the end of their log and another scans a cold one.
//!
//! Store: appends with both readers. Ceiling: the same appends without any reader, in turn; the ratio is what readers cost. What the
//! readers get is told beside it.

use super::append_throughput::{BUSY, Producers, bytes_max};
use super::produce::{Until, keep_in_flight};
use super::{Context, Scale, Scenario};
use crate::error::BenchError;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Lane, Subject, config};
use crate::window::{Figures, Window};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub const ABOUT: &str =
    "appends at full rate beside a tail reader and a cold scan; the ceiling is the same without readers";
pub const CASES: [&str; 3] = ["appends", "tail reader", "cold scan"];

const COLD_RECORD_BYTES: u64 = 16 << 10;
const COLD_READ_BYTES: usize = 1 << 20;
const TAIL_READ_BYTES: usize = 64 << 10;
/// How long the tail reader rests when it has read everything.
const TAIL_REST: Duration = Duration::from_micros(100);

/// What the readers share with the producer.
struct Shared {
    durable: AtomicU64,
    over: AtomicBool,
}

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::Mixed;
    context.preparing(scenario, CASES[0]);
    let directory = context.subdirectory("mixed".to_owned())?;
    let subject = Subject::open_many(context.config(config(&directory.join("store"))), 2)?;
    subject.warm(context.plan.spare_segments(), context.interrupt)?;
    let cold_records = cold_bytes(context.plan.scale) / COLD_RECORD_BYTES;
    subject.lanes()[1].fill(&noise(COLD_RECORD_BYTES as usize), cold_records, context.interrupt)?;
    let window = context.plan.window();
    let mut end = append(context, &subject, window / 10, |_| {})?.1;
    let mut outcomes = [Rounds::default(), Rounds::default(), Rounds::default()];
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASES[0], round);
        context.settle()?;
        let (alone, alone_end) = append(context, &subject, window, |_| {})?;
        context.settle()?;
        let (with_readers, with_end) =
            append_beside_readers(context, &subject, window, end.max(alone_end), cold_records)?;
        end = with_end;
        outcomes[0].ceiling(&alone, Figures::new());
        for (rounds, window) in outcomes.iter_mut().zip(&with_readers) {
            rounds.store(window, Figures::new());
        }
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(outcomes.into_iter().zip(CASES).map(|(rounds, case)| rounds.outcome(scenario.name(), case)).collect())
}

fn cold_bytes(scale: Scale) -> u64 {
    match scale {
        Scale::Smoke => 8 << 20,
        Scale::Normal => 256 << 20,
        Scale::Full => 1 << 30,
    }
}

/// Appends for so long; says where the log ended.
fn append(
    context: &Context<'_>,
    subject: &Subject,
    time: Duration,
    durable: impl Fn(u64),
) -> Result<(Window, u64), BenchError> {
    let Producers::InFlight(in_flight) = BUSY.producers else { unreachable!("one thread appends") };
    let (value, mut window, mut last) = (noise(BUSY.record_bytes), Window::new(), 0);
    // Two windows a round append.
    let until = Until::new(time, bytes_max(context.plan) / 2, context.interrupt);
    subject.timed(&mut window, |window| {
        keep_in_flight(&subject.lanes()[..1], &value, in_flight, until, window, |end| {
            last = end;
            durable(end);
        })
    })?;
    Ok((window, last))
}

/// Appends with both readers; the windows of all three, and where the log ended.
fn append_beside_readers(
    context: &Context<'_>,
    subject: &Subject,
    time: Duration,
    end: u64,
    cold_records: u64,
) -> Result<([Window; 3], u64), BenchError> {
    let shared = Shared { durable: AtomicU64::new(end), over: AtomicBool::new(false) };
    let (mut tail, mut cold) = (Window::new(), Window::new());
    let appended = std::thread::scope(|scope| {
        let tail = scope.spawn(|| tail.timed(|window| follow(&subject.lanes()[0], end, &shared, window)));
        let cold = scope.spawn(|| cold.timed(|window| scan(&subject.lanes()[1], cold_records, &shared, window)));
        let appended = append(context, subject, time, |end| shared.durable.store(end, Ordering::Release));
        shared.over.store(true, Ordering::Release);
        for reader in [tail, cold] {
            reader.join().expect("a reader does not panic")?;
        }
        appended
    })?;
    let (mut appends, end) = appended;
    // The ring was entered for reads as well.
    appends.enters = 0;
    Ok(([appends, tail, cold].map(Window::without_cpu), end))
}

/// Reads whatever has become durable behind `next`.
fn follow(lane: &Lane, mut next: u64, shared: &Shared, window: &mut Window) -> Result<(), BenchError> {
    while !shared.over.load(Ordering::Acquire) {
        if next < shared.durable.load(Ordering::Acquire) {
            next = read(lane, next, TAIL_READ_BYTES, window)?;
        } else {
            std::thread::sleep(TAIL_REST);
        }
    }
    Ok(())
}

/// Reads the cold log from end to end, again and again.
fn scan(lane: &Lane, records: u64, shared: &Shared, window: &mut Window) -> Result<(), BenchError> {
    let mut next = 0;
    while !shared.over.load(Ordering::Acquire) {
        next = read(lane, next, COLD_READ_BYTES, window)?;
        next = if next < records { next } else { 0 };
    }
    Ok(())
}

fn read(lane: &Lane, next: u64, bytes: usize, window: &mut Window) -> Result<u64, BenchError> {
    let started = Instant::now();
    let read = lane.read(next, bytes)?;
    let ended = Instant::now();
    window.took_until(ended, ended - started);
    window.records += read.records;
    window.bytes += read.bytes;
    Ok(read.next)
}
