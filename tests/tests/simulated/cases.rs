//! What the cases share: a store with some logs, and what it starts on its disks, read from the trace of the simulated ones.

use strandline::config::Config;
use strandline::pending::{Answer, Pending, Unanswered, pair};
use strandline::shard::command::{Admitted, Command, LogNumber};
use strandline::shard::verb::Verb as Asked;
use strandline_disk::Verb;
use strandline_tests::harness::{Machine, Step};

/// Verbs that make files.
pub const MAKING: [Verb; 4] = [Verb::CreateDirectory, Verb::Allocate, Verb::WriteZeroes, Verb::SyncDirectory];

pub const fn append(log: usize) -> Step {
    Step::Append { log, batches: 1, records: 1, bytes: 300 }
}

/// A store with so many logs, at rest.
pub fn opened(seed: u64, config: Config, logs: usize) -> Machine {
    let mut machine = Machine::new(seed, config);
    machine.open().expect("an open");
    let steps: Vec<Step> = (0..logs).map(Step::OpenLog).chain([Step::Idle]).collect();
    machine.run(&steps).expect("logs");
    machine
}

/// Seals the head of a log, past the model: what it says of a seal looks at the whole disk.
pub fn seal(machine: &mut Machine, log: usize) {
    let (answer, pending) = pair();
    assert!(machine.running().verb(log, Asked::Seal { at: None, answer }), "room");
    drop(answer_of(machine, pending).expect("sealed"));
}

/// Turns until it is answered.
pub fn answer_of<T>(machine: &mut Machine, mut pending: Pending<T>) -> T {
    for _ in 0..10_000 {
        if let Some(answer) = pending.try_take() {
            return answer;
        }
        machine.turn().expect("a turn");
    }
    panic!("never answered")
}

/// Hands a command to the shard of a log, or to the first one, past the model.
pub fn send<T: Unanswered>(
    machine: &mut Machine,
    log: usize,
    command: impl FnOnce(LogNumber, Answer<T>, Admitted) -> Command,
) -> Pending<T> {
    let running = machine.running();
    let (shard, number) = running.opened.get(&log).map_or((0, LogNumber(0)), |(shard, log)| (*shard, log.number));
    let (answer, pending) = pair();
    let admitted = running.queues[shard].admit(0).expect("room");
    running.queues[shard].push(command(number, answer, admitted));
    pending
}

/// An operation, and on whose ring.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Whose ring it is on.
    pub disk: u32,
    line: String,
}

impl Operation {
    /// Of a line that says what is in flight, or what was started.
    pub fn of(line: &str) -> Operation {
        let (line, disk) = line.rsplit_once(" of disk ").expect("every operation is a disk's");
        let disk = disk.split(':').next().expect("a number").parse().expect("a number");
        Operation { disk, line: line.to_owned() }
    }

    pub fn word(&self, place: usize) -> &str {
        self.line.split(' ').nth(place).expect("a number, a verb and a path")
    }

    pub fn is(&self, verb: Verb) -> bool {
        self.word(1) == format!("{verb:?}") || (verb == Verb::Write && self.word(1) == "DurableWrite")
    }

    pub fn is_any(&self, verbs: &[Verb]) -> bool {
        verbs.iter().any(|verb| self.is(*verb))
    }

    /// The path that it is about.
    pub fn path(&self) -> &str {
        self.word(2)
    }
}

/// Forgets what happened so far, and listens from now on.
pub fn listen(machine: &Machine) {
    machine.world.keep_trace(false);
    machine.world.keep_trace(true);
}

/// What was started since somebody began to listen.
pub fn started(machine: &Machine) -> Vec<Operation> {
    machine.world.trace().iter().filter_map(|line| line.strip_prefix("start ")).map(Operation::of).collect()
}

/// Calls `seen` for each operation that was started, with those that were in flight then.
pub fn each_start(machine: &Machine, mut seen: impl FnMut(&Operation, &[Operation])) {
    let mut flying: Vec<Operation> = Vec::new();
    for line in machine.world.trace() {
        if let Some(line) = line.strip_prefix("start ") {
            let operation = Operation::of(line);
            seen(&operation, &flying);
            flying.push(operation);
        } else if let Some(line) = line.strip_prefix("land  ") {
            let landed = Operation::of(line);
            flying.retain(|one| one.word(0) != landed.word(0));
        }
    }
}

/// The rings of the shard and of the remover.
pub fn rings(machine: &mut Machine) -> (u32, u32) {
    let disks = &machine.running().disks;
    (disks[0].number(), disks[1].number())
}

/// Turns until all is answered, and how many that were.
pub fn answered(machine: &mut Machine) -> usize {
    let mut turns = 0;
    while machine.running().asked() > 0 {
        machine.turn().expect("a turn");
        turns += 1;
        assert!(turns < 10_000, "it is never answered");
    }
    turns
}

/// Appends to a log, and gives how many turns that took.
pub fn turns_of_an_append(machine: &mut Machine, log: usize) -> usize {
    machine.apply(append(log)).expect("room");
    answered(machine)
}
