//! Scripts: histories written by hand in which a narrow window stands, with a crash after every turn. Here those that stand for a defect.

use crate::harness::images::crash_at_every_turn;
use crate::harness::machine::{Machine, small};
use crate::harness::step::{Ask, At, Step};
use crate::harness::violation::Checked;
use crate::harness::workload::Twist;
use std::rc::Rc;
use std::time::Duration;
use strandline::Level;
use strandline::config::{Config, Preallocate};

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// How the store is configured.
    pub config: Config,
    /// What is done first, without a crash.
    pub before: Vec<Step>,
    /// What is done with a crash after every turn.
    pub steps: Vec<Step>,
    /// How many images of each kind that draws are made of every turn.
    pub images: u64,
}

/// Runs a script on a machine that differs as `twist` says.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64, script: &Script, twist: &Twist) -> Checked {
    let mut config = script.config.clone();
    config.sabotage = twist.sabotage;
    if twist.unwritten {
        config.preallocate = Preallocate::Allocated;
    }
    let mut machine = Machine::new(seed, config);
    machine.world.set_direct(twist.direct.unwrap_or(true));
    machine.world.set_barrier_works(!twist.barrier_fails);
    if let Some(lie) = &twist.lie {
        machine.world.sabotage(lie.clone());
    }
    machine.open()?;
    machine.run(&script.before)?;
    machine.observer = Some(crash_at_every_turn(machine.config.clone(), script.images, Rc::default()));
    machine.run(&script.steps)
}

const OPENED: [Step; 2] = [Step::OpenLog(0), Step::Answer];

fn of(steps: Vec<Step>) -> Script {
    Script { config: small(), before: Vec::new(), steps: OPENED.into_iter().chain(steps).collect(), images: 8 }
}

const fn append(batches: usize, records: usize, bytes: usize) -> Step {
    Step::Append { log: 0, batches, records, bytes }
}

/// Rolls that have to wait for their segment.
#[must_use]
pub fn rolls() -> Script {
    of(vec![append(24, 2, 5_500), Step::Answer])
}

/// Two bursts, so that the second is written over what the first left.
#[must_use]
pub fn two_bursts() -> Script {
    of(vec![append(9, 1, 1_000), Step::Answer, append(9, 1, 1_000), Step::Answer])
}

/// Several logs that write side by side: what a barrier is for.
#[must_use]
pub fn side_by_side() -> Script {
    let logs = (0..3).map(Step::OpenLog);
    let append = |log| Step::Append { log, batches: 2, records: 2, bytes: 900 };
    let round = || (0..3).map(append).chain([Step::Turn(3)]);
    let steps = logs.chain([Step::Idle]).chain((0..6).flat_map(|_| round())).chain([Step::Answer]).collect();
    Script { config: small(), before: Vec::new(), steps, images: 2 }
}

/// Rolls behind appends that are written and not flushed.
#[must_use]
pub fn rolls_behind_written_appends() -> Script {
    let written = Step::AppendAt { log: 0, batches: 5, records: 2, bytes: 5_500, level: Level::Written };
    let fill = [written, Step::Turn(2), append(1, 2, 5_500), Step::Turn(1)];
    of(fill.into_iter().cycle().take(24).chain([Step::Answer]).collect())
}

/// A truncation of everything: there is nothing to clear that would take longer than its edit.
#[must_use]
pub fn truncation() -> Script {
    let cut = Step::Verb { log: 0, ask: Ask::Truncate(At::Start) };
    of(vec![append(5, 2, 900), Step::Answer, cut, Step::Answer, append(5, 2, 900), Step::Answer])
}

/// Segments that are given up. They are filled so slowly that each successor is written whole before it is needed: only such files are used
/// again, and only their bytes go at once. Crashes are tried from the trim on.
#[must_use]
pub fn release() -> Script {
    let fill = std::iter::repeat_n([append(2, 2, 5_500), Step::Idle], 12).flatten();
    let trim = Step::Verb { log: 0, ask: Ask::Trim(At::Back(4)) };
    Script {
        config: small(),
        before: OPENED.into_iter().chain(fill).collect(),
        steps: vec![trim, Step::Answer, Step::Idle],
        images: 8,
    }
}

/// A log that rests and wakes.
#[must_use]
pub fn rest_and_wake() -> Script {
    let append = append(2, 2, 900);
    let steps = vec![append, Step::Answer, Step::Idle, append, Step::Answer, Step::Idle, append, Step::Answer];
    Script { config: Config { idle_clean_after: Duration::from_millis(3), ..small() }, ..of(steps) }
}
