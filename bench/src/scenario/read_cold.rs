//! read-cold: a log that is in no cache of this machine, read from its first offset to its last in reads of 1 MiB.
//!
//! Store: whole batches, their checksums verified. Ceiling: a bare ring, the same bytes per read, as many reads in flight
//! as the store has readers. Store and ceiling take turns every eighth of the data.

use super::{Context, Scale, Scenario};
use crate::ceiling::ReadCeiling;
use crate::error::BenchError;
use crate::noise::noise;
use crate::place::drop_cached;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Subject, config};
use crate::window::{Figures, Window};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;
use strandline_disk::bare::Shape;

pub const ABOUT: &str = "a log that is in no cache, read by offset in reads of 1 MiB, one per reader in flight";

/// So many readers.
pub struct Case {
    pub name: &'static str,
    pub readers: u64,
}

pub const CASES: [Case; 2] = [Case { name: "1 reader", readers: 1 }, Case { name: "4 readers", readers: 4 }];

const RECORD_BYTES: u64 = 16 << 10;
const READ_BYTES: u64 = 1 << 20;

/// In how many stretches a round goes through the data.
const STRETCHES: u64 = 8;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let directory = context.subdirectory("read-cold".to_owned())?;
    let store = directory.join("store");
    let bytes: u64 = match context.plan.scale {
        Scale::Smoke => 32 << 20,
        Scale::Normal if context.plan.core => 256 << 20,
        Scale::Normal => 512 << 20,
        Scale::Full => 2 << 30,
    };
    context.preparing(Scenario::ReadCold, CASES[0].name);
    let subject = Subject::open(context.config(config(&store)))?;
    subject.lane().fill(&noise(RECORD_BYTES as usize), bytes / RECORD_BYTES, context.interrupt)?;
    subject.close()?;
    CASES.iter().map(|case| run_case(context, case, &directory, bytes)).collect()
}

fn run_case(context: &Context<'_>, case: &Case, directory: &Path, bytes: u64) -> Result<Outcome, BenchError> {
    let scenario = Scenario::ReadCold;
    context.preparing(scenario, case.name);
    let shape = Shape { block: READ_BYTES as usize, depth: case.readers as usize };
    let bare_file = directory.join(format!("ceiling-{}", case.readers));
    let mut ceiling = ReadCeiling::create(&bare_file, bytes, shape, RECORD_BYTES)?;
    let subject = Subject::open(context.config(config(&directory.join("store"))))?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        drop_cached(directory)?;
        context.settle()?;
        let (mut store, mut bare) = (Window::new(), Window::new());
        for stretch in 0..STRETCHES {
            context.interrupt.check()?;
            let records: Vec<_> = parts(case.readers, stretch, bytes / RECORD_BYTES).collect();
            read_side_by_side(&subject, &mut store, &records)?;
            let blocks: Vec<_> = parts(case.readers, stretch, bytes / READ_BYTES).collect();
            ceiling.stretch(&mut bare, in_turn(&blocks).map(|block| block * READ_BYTES))?;
        }
        rounds.store(&store, Figures::new());
        rounds.ceiling(&bare, Figures::new());
    }
    subject.close()?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), case.name))
}

/// What each reader reads in this stretch: every reader has a region of its own, and goes through it stretch by stretch.
fn parts(readers: u64, stretch: u64, total: u64) -> impl Iterator<Item = Range<u64>> {
    let region = total / readers;
    (0..readers).map(move |reader| {
        let start = reader * region;
        start + region * stretch / STRETCHES..start + region * (stretch + 1) / STRETCHES
    })
}

/// The numbers of all ranges, one of each in turn.
fn in_turn(ranges: &[Range<u64>]) -> impl Iterator<Item = u64> {
    let longest = ranges.iter().map(|range| range.end - range.start).max().unwrap_or(0);
    (0..longest).flat_map(|at| ranges.iter().filter_map(move |range| range.clone().nth(at as usize)))
}

/// Reads each range of records on a thread of its own; a single one on this thread.
fn read_side_by_side(subject: &Subject, window: &mut Window, ranges: &[Range<u64>]) -> Result<(), BenchError> {
    let mut windows: Vec<Window> = ranges.iter().map(|_| window.helper()).collect();
    window.timed(|_| match (windows.as_mut_slice(), ranges) {
        ([only], [range]) => read(subject, only, range),
        (windows, ranges) => std::thread::scope(|scope| {
            let start = |(window, range)| scope.spawn(move || read(subject, window, range));
            let readers: Vec<_> = windows.iter_mut().zip(ranges).map(start).collect();
            readers.into_iter().try_for_each(|reader| reader.join().expect("a reader does not panic"))
        }),
    })?;
    windows.iter().for_each(|reader| window.absorb(reader));
    Ok(())
}

/// Reads until all of `records` has been seen.
fn read(subject: &Subject, window: &mut Window, records: &Range<u64>) -> Result<(), BenchError> {
    let mut next = records.start;
    while next < records.end {
        let started = Instant::now();
        let read = subject.lane().read(next, READ_BYTES as usize)?;
        let ended = Instant::now();
        window.took_until(ended, ended - started);
        window.bytes += read.bytes;
        window.records += read.records;
        next = read.next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_all_readers_cover_everything_once() {
        for readers in [1, 4] {
            let mut seen: Vec<u64> = (0..STRETCHES).flat_map(|s| parts(readers, s, 512)).flatten().collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..512).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_ceiling_reads_all_regions_at_once() {
        assert_eq!(in_turn(&[0..2, 10..13]).collect::<Vec<_>>(), [0, 10, 1, 11, 12]);
        assert_eq!(in_turn(&[]).count(), 0);
    }
}
