//! T1b: every short sequence of operations, with a crash at every moment of the last of them, in every way. A case is a sequence on one of
//! two kinds of files; the moments of what comes before its last operation are those of a shorter sequence.

use super::tally::Tally;
use crate::harness::machine::{Machine, Observer, small};
use crate::harness::model::Model;
use crate::harness::step::{Ask, At, Step};
use crate::harness::violation::{Checked, Violation};
use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use strandline::Level;
use strandline::config::{CheckedConfig, Config, Preallocate, Sabotage};
use strandline_disk::sim::{Loss, SimWorld};

/// An operation of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A batch, answered when it is written.
    Append,
    /// A batch, answered when it is durable.
    Commit,
    /// Waits until all that was answered is durable.
    Sync,
    /// Seals the segment that is written.
    Roll,
    /// Gives up the oldest segment.
    Release,
    /// Gives up the older half of the offsets.
    Trim,
    /// Closes the store and opens it again.
    Reopen,
}

const ALL: [Operation; 7] = [
    Operation::Append,
    Operation::Commit,
    Operation::Sync,
    Operation::Roll,
    Operation::Release,
    Operation::Trim,
    Operation::Reopen,
];

/// Files that are written whole before they are used, and such as grow.
const KINDS: [Preallocate; 2] = [Preallocate::Off, Preallocate::Written];

/// The operations of the longest sequences.
pub const LENGTH_MAX: u32 = 3;

/// How hard a moment is tried.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    /// Every subset is tried of so many undurable changes.
    pub all_subsets_of: usize,
    /// Of more of them: every prefix, every single loss, every single survivor, and so many subsets by seed.
    pub seeded_subsets: u64,
    /// One moment in so many is tried.
    pub one_in: u64,
}

/// All of it.
pub const WHOLE: Width = Width { all_subsets_of: 8, seeded_subsets: 256, one_in: 1 };

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What is done, the last of it with a crash at every moment.
    pub sequence: Vec<Operation>,
    /// How files are made.
    pub preallocate: Preallocate,
}

/// How many cases there are.
#[must_use]
pub fn cases() -> u64 {
    sequences() * KINDS.len() as u64
}

fn sequences() -> u64 {
    (1..=LENGTH_MAX).map(|length| (ALL.len() as u64).pow(length)).sum()
}

/// The case of a number.
#[must_use]
pub fn case(number: u64) -> Case {
    let (kind, mut rest) = ((number / sequences()) as usize % KINDS.len(), number % sequences());
    let mut length = 1;
    while rest >= (ALL.len() as u64).pow(length) {
        rest -= (ALL.len() as u64).pow(length);
        length += 1;
    }
    let place = |digit: u32| (rest / (ALL.len() as u64).pow(length - 1 - digit)) as usize % ALL.len();
    Case { sequence: (0..length).map(|digit| ALL[place(digit)]).collect(), preallocate: KINDS[kind] }
}

fn config(preallocate: Preallocate, sabotage: Option<Sabotage>) -> Config {
    Config { preallocate, sabotage, batch_bytes_max: 2 << 10, ..small() }
}

fn step_of(operation: Operation) -> Step {
    let append = |level| Step::AppendAt { log: 0, batches: 1, records: 2, bytes: 700, level };
    match operation {
        Operation::Append => append(Level::Written),
        Operation::Commit => append(Level::Durable),
        Operation::Sync => Step::UntilDurable { log: 0, now: true },
        Operation::Roll => Step::Verb { log: 0, ask: Ask::Seal },
        Operation::Release => Step::DeleteSegment { log: 0, place: 0 },
        Operation::Trim => Step::Verb { log: 0, ask: Ask::Trim(At::PerMille(500)) },
        Operation::Reopen => Step::Reopen,
    }
}

/// A store whose log has two sealed segments and one that is written, and batches that are written and not durable.
fn begin(config: Config) -> Checked<Machine> {
    let mut machine = Machine::new(1, config);
    machine.open()?;
    let (seal, commit) = (step_of(Operation::Roll), step_of(Operation::Commit));
    machine.run(&[Step::OpenLog(0), Step::Answer, commit, seal, Step::Answer, commit, commit, seal, Step::Answer])?;
    machine.run(&[commit, Step::Idle, commit, step_of(Operation::Append), Step::Answer])?;
    Ok(machine)
}

/// Runs a case.
///
/// # Errors
/// The first broken promise, with the crash that broke it.
pub fn run(number: u64, width: Width, sabotage: Option<Sabotage>) -> Checked<Tally> {
    let Case { sequence, preallocate } = case(number);
    let mut machine = begin(config(preallocate, sabotage))?;
    let (last, before) = sequence.split_last().expect("a sequence has an operation");
    for operation in before {
        machine.run(&[step_of(*operation), Step::Answer])?;
    }
    let tally = Rc::new(Cell::new(Tally::default()));
    machine.observer = Some(crash_in_every_way(machine.config.clone(), width, number, tally.clone()));
    machine.run(&[step_of(*last), Step::Answer, Step::Idle]).map_err(|violation| {
        let seen = format!("{} (in {sequence:?}, {preallocate:?})", violation.seen);
        Violation { seen, ..violation }
    })?;
    Ok(tally.get())
}

/// An observer that crashes a copy of every moment that differs from those before it.
fn crash_in_every_way(config: CheckedConfig, width: Width, number: u64, tally: Rc<Cell<Tally>>) -> Observer {
    let mut seen = HashSet::new();
    let mut moments = 0;
    Box::new(move |world, model| {
        if !seen.insert(key_of(world, model)) {
            return Ok(());
        }
        moments += 1;
        if !(number + moments).is_multiple_of(width.one_in) {
            return Ok(());
        }
        let crash = |seed, loss: Option<Loss>| {
            let image = check(world, model, &config, seed, loss)?;
            let mut sum = tally.get();
            sum += image;
            tally.set(sum);
            Ok(())
        };
        (0..4).try_for_each(|seed| crash(seed, None))?;
        let loose = world.loose_changes();
        if loose <= width.all_subsets_of {
            return (0..1_u64 << loose).try_for_each(|subset| crash(subset, Some(Loss::Subset(subset))));
        }
        (0..=loose).try_for_each(|kept| crash(1, Some(Loss::First(kept))))?;
        (0..loose).try_for_each(|only| crash(2, Some(Loss::Only(only))))?;
        (0..loose).try_for_each(|lost| crash(3, Some(Loss::AllBut(lost))))?;
        (0..width.seeded_subsets).try_for_each(|seed| crash(seed, Some(Loss::Random)))
    })
}

/// What tells two moments apart: what the disk did and does, and what was answered.
fn key_of(world: &SimWorld, model: &Model) -> u64 {
    let mut hasher = DefaultHasher::new();
    let changes = |line: &String| !["Read ", "Stat", "List", "Sleep"].iter().any(|verb| line.contains(verb));
    world.pending().into_iter().filter(changes).for_each(|line| line.hash(&mut hasher));
    (world.changes(), world.loose_changes()).hash(&mut hasher);
    for log in &model.logs {
        let answered = log.waiting.iter().filter(|sent| sent.answered.is_some()).count();
        (log.held.len(), log.waiting.len(), answered, log.start.0, log.changes.len(), log.made).hash(&mut hasher);
    }
    hasher.finish()
}

/// Crashes a copy, by a kill where nothing is said of a loss. It opens, holds what it must, goes on, and holds that after a power cut.
fn check(world: &SimWorld, model: &Model, config: &CheckedConfig, seed: u64, loss: Option<Loss>) -> Checked<Tally> {
    let (image, mut model) = (world.snapshot(), model.clone());
    image.reseed(seed);
    match loss {
        Some(loss) => {
            model.power_failed();
            image.power_failure(loss);
        }
        None => {
            model.process_died();
            image.kill();
        }
    }
    let append = Step::Append { log: 0, batches: 1, records: 1, bytes: 300 };
    let mut machine = Machine::on(image, config.clone(), model);
    let run = machine.open().and_then(|()| {
        machine.run(&[append, Step::Answer, Step::PowerFailure { loss: Loss::DropAll, again_after: None }])
    });
    run.map_err(|violation| {
        let how = loss.map_or("a kill".to_owned(), |loss| format!("{loss:?} of {}", world.loose_changes()));
        Violation { seen: format!("{} (after {how}, image seed {seed})", violation.seen), ..violation }
    })?;
    Ok(Tally { crashes: 2, dropped: machine.world.lost_changes() - world.lost_changes(), faults: 0 })
}
