//! T5: the k-th operation of a history fails, in every way, once and from then on. A case is a setup, a script, a way and a k.

use super::tally::Tally;
use crate::harness::machine::{Machine, small};
use crate::harness::step::{Ask, At, Step};
use crate::harness::violation::{Checked, Violation};
use strandline::config::{Config, Sabotage, SyncMode};
use strandline_disk::Errno;
use strandline_disk::sim::{Fault, Loss, Times, What, When};

/// How an operation fails, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// How.
    pub what: What,
    /// How often.
    pub times: Times,
}

/// Every way.
#[must_use]
pub fn ways() -> Vec<Way> {
    let errnos =
        [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::ROFS, Errno::AGAIN, Errno::INTR, Errno::CANCELED];
    let twice = errnos.map(What::Errno).into_iter().chain([
        What::Short,
        What::Nothing,
        What::FailedSyncDropsDirty,
        What::FailedSyncDropsDevice,
    ]);
    let each = |what: What| [Times::Once, Times::Forever].map(|times| Way { what: what.clone(), times });
    // One that is late for ever has no end.
    twice.flat_map(each).chain([Way { what: What::Delay(200), times: Times::Once }]).collect()
}

/// How the store writes and syncs where faults strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// As it chooses, past the page cache: a durable write for one log, a barrier for several.
    Chosen,
    /// A durable write for each log, past the page cache.
    Dsync,
    /// A barrier whenever it can, and files that are made ahead and used again.
    BarrierAndRecycling,
    /// A write through the page cache and a sync of the file for each log.
    Buffered,
}

/// Every setup.
pub const SETUPS: [Setup; 4] = [Setup::Chosen, Setup::Dsync, Setup::BarrierAndRecycling, Setup::Buffered];

impl Setup {
    fn config(self) -> Config {
        match self {
            Setup::Chosen => small(),
            Setup::Dsync => Config { sync: SyncMode::Dsync, ..small() },
            Setup::BarrierAndRecycling => Config { sync: SyncMode::Barrier, spare_files_min: 2, ..small() },
            Setup::Buffered => Config { sync: SyncMode::PerFile, ..small() },
        }
    }
}

const fn append(log: usize, batches: usize, bytes: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes }
}

/// A history in which a fault strikes: appends, rolls, seals, a new log, a mark, a reopen.
#[must_use]
pub fn appends() -> Vec<Step> {
    let read = Step::Read { log: 0, per_mille: 0, bytes: 1 << 16 };
    vec![
        append(0, 9, 5_500),
        Step::Turn(3),
        append(0, 3, 5_500),
        append(1, 2, 700),
        Step::Answer,
        read,
        Step::OpenLog(2),
        Step::Answer,
        append(2, 1, 90),
        Step::Idle,
        Step::Reopen,
        append(0, 2, 3_000),
        append(1, 1, 300),
        Step::Answer,
        read,
        Step::Idle,
    ]
}

/// A history of verbs in which a fault strikes.
#[must_use]
pub fn verbs() -> Vec<Step> {
    let ask = |log, ask| Step::Verb { log, ask };
    vec![
        append(0, 9, 5_500),
        ask(0, Ask::Stats),
        append(0, 12, 5_500),
        ask(0, Ask::Truncate(At::Back(30))),
        Step::Answer,
        append(0, 2, 300),
        ask(0, Ask::Truncate(At::Back(3))),
        append(1, 2, 700),
        ask(1, Ask::Fence(Some(At::Past(2)))),
        Step::Follow { log: 1, records: 2, bytes: 90, off: 0 },
        Step::Answer,
        ask(0, Ask::Trim(At::PerMille(400))),
        ask(0, Ask::Seal),
        ask(1, Ask::Unfence),
        ask(1, Ask::SealAt(At::Back(1))),
        Step::Answer,
        ask(0, Ask::Verify),
        Step::DeleteSegment { log: 0, place: 0 },
        Step::RebuildIndex { log: 0, place: 0 },
        append(0, 1, 90),
        ask(1, Ask::Delete),
        Step::Answer,
        Step::OpenLog(1),
        Step::Answer,
        append(1, 2, 400),
        Step::Idle,
        Step::Reopen,
        ask(0, Ask::Truncate(At::Back(1))),
        Step::Answer,
        append(0, 1, 300),
        Step::Idle,
    ]
}

/// A store of two logs, in which a fault is to strike.
///
/// # Errors
/// When an honest history breaks a promise.
pub fn begin(seed: u64, setup: Setup, sabotage: Option<Sabotage>) -> Checked<Machine> {
    let mut machine = Machine::new(seed, Config { sabotage, ..setup.config() });
    machine.world.set_direct(setup != Setup::Buffered);
    machine.open()?;
    machine.run(&[
        Step::OpenLog(0),
        Step::OpenLog(1),
        Step::Idle,
        append(0, 4, 5_500),
        append(1, 1, 100),
        Step::Answer,
    ])?;
    Ok(machine)
}

/// The cases, in order: setup by setup, script by script, way by way.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Each script in each setup with the number of operations that it takes when nothing fails, and a few more.
    scripts: Vec<(Setup, Vec<Step>, u64)>,
    ways: Vec<Way>,
    sabotage: Option<Sabotage>,
}

impl Plan {
    /// All of them in these setups.
    ///
    /// # Errors
    /// When an honest history breaks a promise.
    pub fn new(ways: Vec<Way>, setups: &[Setup], sabotage: Option<Sabotage>) -> Checked<Plan> {
        let each = setups.iter().flat_map(|setup| [(*setup, appends()), (*setup, verbs())]);
        let scripts = each.map(|(setup, script)| {
            let mut machine = begin(1, setup, None)?;
            let start = machine.world.operations();
            machine.run(&script)?;
            Ok((setup, script, machine.world.operations() - start + 5))
        });
        Ok(Plan { scripts: scripts.collect::<Checked<Vec<_>>>()?, ways, sabotage })
    }

    /// How many there are.
    #[must_use]
    pub fn cases(&self) -> u64 {
        self.scripts.iter().map(|(_, _, operations)| operations * self.ways.len() as u64).sum()
    }

    /// Runs a case.
    ///
    /// # Errors
    /// The first broken promise, with the fault.
    ///
    /// # Panics
    /// When there is no such case.
    pub fn run(&self, number: u64) -> Checked<Tally> {
        let mut rest = number;
        for (place, (setup, script, operations)) in self.scripts.iter().enumerate() {
            let cases = operations * self.ways.len() as u64;
            if rest < cases {
                let (way, k) = (&self.ways[(rest / operations) as usize], rest % operations + 1);
                return with_fault_at((*setup, script), k, way, self.sabotage).map_err(|violation| {
                    let seen = format!("{} ({setup:?}, script {place}, operation {k}, {way:?})", violation.seen);
                    Violation { seen, ..violation }
                });
            }
            rest -= cases;
        }
        panic!("there is no case {number}");
    }
}

/// Runs the script with the fault at the k-th operation; then without faults: all promises hold and every log goes on.
fn with_fault_at((setup, script): (Setup, &[Step]), k: u64, way: &Way, sabotage: Option<Sabotage>) -> Checked<Tally> {
    let mut machine = begin(k, setup, sabotage)?;
    machine.tolerant = true;
    machine.world.inject(Fault { when: When::KthOperation(k), what: way.what.clone(), times: way.times });
    machine.run(script)?;
    let faults = machine.world.faults_fired();
    machine.world.clear_faults();
    machine.tolerant = false;
    let loss = [Loss::DropAll, Loss::KeepAll, Loss::Random][(k % 3) as usize];
    machine.apply(Step::PowerFailure { loss, again_after: None })?;
    let unfence = |log| Step::Verb { log, ask: Ask::Unfence };
    machine.run(&[Step::OpenLog(1), Step::Answer, unfence(0), unfence(1), Step::Answer])?;
    machine.run(&[append(0, 2, 900), append(1, 1, 900), Step::Answer, Step::Reopen, Step::Idle])?;
    Ok(Tally { crashes: 1, dropped: machine.world.lost_changes(), faults })
}
