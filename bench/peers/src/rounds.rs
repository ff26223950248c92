//! Rounds: each round has every engine do one window, one after the other, and begins with another one each time.

use crate::child::Contestant;
use crate::engine::{Kind, Setting};
use crate::error::{PeersError, io};
use crate::interrupt::Interrupt;
use crate::part::{Part, Work};
use crate::window::Figures;
use crate::workload::{Producers, Workload};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two windows: what one engine has left to the device is not to be paid for by the next.
const SETTLE: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(10)];

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long a window is.
    pub window: Duration,
    /// How many rounds.
    pub rounds: u32,
    /// Small files, where only the way is tried.
    pub small: bool,
}

/// What one engine did with a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: &'static str,
    /// The engine.
    pub engine: &'static str,
    /// Whether it is ours.
    pub is_ours: bool,
    /// Who appended.
    pub producers: String,
    /// Whether that was one thread with many appends in flight.
    pub is_outstanding: bool,
    /// The median of the rounds, for each figure.
    pub median: Figures,
    /// All rounds.
    pub rounds: Vec<Figures>,
}

/// Runs one workload on all engines.
///
/// # Errors
/// What an engine's process answered, or that the user asked to stop.
pub fn run(
    workload: &'static Workload,
    kinds: &[Kind],
    plan: Plan,
    place: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<Row>, PeersError> {
    let made = tempfile::Builder::new().prefix("workload-").tempdir_in(place).map_err(io("making a directory"))?;
    let contestants = kinds.iter().map(|kind| {
        interrupt.check()?;
        eprintln!("{}: opening {}", workload.name, kind.name());
        start(*kind, workload, plan, made.path())
    });
    let mut contestants: Vec<Contestant> = contestants.collect::<Result<_, _>>()?;
    let turns = turns(workload, kinds);
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); turns.len()];
    for round in 0..plan.rounds as usize {
        eprintln!("{}: round {} of {}", workload.name, round + 1, plan.rounds);
        for place in rotated(turns.len(), round) {
            let (at, producers) = turns[place];
            settle(made.path(), plan, interrupt)?;
            let window = contestants[at].window(producers);
            // A process that heard ctrl-C as well ends without an answer.
            interrupt.check()?;
            figures[place].push(window?);
        }
    }
    contestants.into_iter().try_for_each(Contestant::close)?;
    made.close().map_err(io("removing a directory"))?;
    Ok(turns.iter().zip(figures).filter_map(|(turn, rounds)| row(workload, kinds, *turn, rounds)).collect())
}

fn row(
    workload: &'static Workload,
    kinds: &[Kind],
    (at, producers): (usize, Producers),
    rounds: Vec<Figures>,
) -> Option<Row> {
    let kind = kinds[at];
    Some(Row {
        workload: workload.name,
        engine: kind.name(),
        is_ours: kind.is_ours(),
        producers: producers.name(),
        is_outstanding: matches!(producers, Producers::Outstanding(_)),
        median: Figures::medians(&rounds)?,
        rounds,
    })
}

fn start(kind: Kind, workload: &Workload, plan: Plan, place: &Path) -> Result<Contestant, PeersError> {
    let directory = place.join(kind.name());
    std::fs::create_dir(&directory).map_err(io(format!("making {}", directory.display())))?;
    let setting = Setting { producers: workload.threads, small: plan.small, synced: true };
    let work = Work::Windows(plan.window);
    Contestant::start(&Part { kind, directory, setting, record_bytes: workload.record_bytes, work })
}

/// Who does a window in each round, by its place among `kinds`: threads on every engine, and many in flight where there is a verb for it.
fn turns(workload: &Workload, kinds: &[Kind]) -> Vec<(usize, Producers)> {
    let of_kind = |(at, kind): (usize, &Kind)| {
        let outstanding = workload.outstanding.filter(|_| kind.has_outstanding()).map(Producers::Outstanding);
        let all = [Some(Producers::Threads(workload.threads)), outstanding];
        all.into_iter().flatten().map(move |producers| (at, producers))
    };
    kinds.iter().enumerate().flat_map(of_kind).collect()
}

/// The order of a round: the same ring each time, entered one place further on.
fn rotated(length: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..length).map(move |place| (place + round) % length)
}

fn settle(directory: &Path, plan: Plan, interrupt: &Interrupt) -> Result<(), PeersError> {
    let opened = std::fs::File::open(directory).map_err(io("looking for the directory"))?;
    rustix::fs::syncfs(opened).map_err(|errno| io("syncing the file system")(errno.into()))?;
    let end = Instant::now() + SETTLE[usize::from(plan.small)];
    while Instant::now() < end {
        interrupt.check()?;
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WORKLOADS;

    #[test]
    fn every_engine_has_its_turn_in_each_round_and_another_begins() {
        assert_eq!(rotated(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(rotated(3, 1).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(rotated(3, 5).collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn only_an_engine_with_a_verb_for_it_has_many_in_flight() {
        let turns = turns(&WORKLOADS[1], &[Kind::Strandline, Kind::Okaywal]);
        let (threads, outstanding) = (Producers::Threads(64), Producers::Outstanding(64));
        assert_eq!(turns, [(0, threads), (0, outstanding), (1, threads)]);
    }
}
