//! read-tail: a reader at the end of a log that is being appended to, one record a read, as each becomes durable.
//!
//! Store: the time of each read; it always finds its record, for it is asked when the append has been answered. What the
//! process reads from the disk meanwhile is counted by the kernel, and is to be nothing. There is no ceiling: a bare ring has no cache.

use super::{Context, Scenario};
use crate::error::BenchError;
use crate::host;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Lane, Subject, config};
use crate::window::{Figures, Window};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

pub const ABOUT: &str = "a reader at the end of a log that grows at a fixed rate, one record a read";
pub const CASE: &str = "1 KiB";

const RECORD_BYTES: usize = 1 << 10;
/// Slow enough that each append is answered before the next is due, so that appends do not wait for each other.
const RECORDS_PER_SECOND: u32 = 2_000;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::ReadTail;
    context.preparing(scenario, CASE);
    let directory = context.subdirectory("read-tail".to_owned())?;
    let subject = Subject::open(context.config(config(&directory.join("store"))))?;
    subject.warm(context.plan.spare_segments(), context.interrupt)?;
    // No ceiling takes its half of the time.
    let window = context.plan.window() * 2;
    follow(context, &subject, window / 10, 0)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE, round);
        context.settle()?;
        let end = subject.lane().append(&noise(RECORD_BYTES))?;
        let before = host::disk_read_bytes();
        let read = follow(context, &subject, window, end)?;
        let kib = (host::disk_read_bytes() - before) / 1024.0;
        rounds.store(&read, Figures::from([(Metric::DiskRead, kib)]));
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(vec![rounds.outcome(scenario.name(), CASE)])
}

/// Appends at the fixed rate for so long, with a reader at the end, which starts at offset `next`.
fn follow(context: &Context<'_>, subject: &Subject, time: Duration, next: u64) -> Result<Window, BenchError> {
    let mut window = Window::new();
    let mut reads = window.helper();
    subject.timed(&mut window, |_| {
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(subject.lane(), next, told, &mut reads));
            let appended = append(context, subject.lane(), time, &tell);
            // The reader ends when nobody can tell it of more.
            drop(tell);
            reader.join().expect("the reader does not panic").and(appended)
        })
    })?;
    // Commits and CPU time of the producer are not the reader's.
    (window.commits, window.enters) = (0, 0);
    window.absorb(&reads);
    Ok(window.without_cpu())
}

/// Appends by the schedule and tells where the log ends.
fn append(context: &Context<'_>, lane: &Lane, time: Duration, tell: &Sender<u64>) -> Result<(), BenchError> {
    let (value, started) = (noise(RECORD_BYTES), Instant::now());
    for number in 0..(time.as_secs_f64() * f64::from(RECORDS_PER_SECOND)).max(1.0) as u32 {
        context.interrupt.check()?;
        let due = started + Duration::from_secs(1) * number / RECORDS_PER_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let end = lane.append(&value)?;
        if tell.send(end).is_err() {
            // The reader has failed, and says why.
            break;
        }
    }
    Ok(())
}

/// Reads record by record up to each end that is told.
fn read(lane: &Lane, mut next: u64, told: Receiver<u64>, window: &mut Window) -> Result<(), BenchError> {
    for end in told {
        while next < end {
            let started = Instant::now();
            let read = lane.read(next, RECORD_BYTES)?;
            let ended = Instant::now();
            window.took_until(ended, ended - started);
            window.records += read.records;
            window.bytes += read.bytes;
            next = read.next;
        }
    }
    Ok(())
}
