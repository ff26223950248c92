//! One append that a test asks for by itself and waits for, beside what its machine does.

use strandline::Level;
use strandline::pending::Pending;
use strandline::shard::command::AppendAnswer;
use strandline_tests::harness::Machine;
use strandline_tests::harness::machine::batch_of;

/// Asks for the append of one record, durably.
pub fn ask(machine: &mut Machine, log: usize, serial: u64, bytes: usize) -> Pending<AppendAnswer> {
    let model = machine.model.clone();
    let batch = batch_of(serial, 1, bytes);
    assert!(machine.running().append((log, serial), batch, Level::Durable, &model), "room in the queue");
    machine.running().appends.pop().expect("the append that was just asked").answer
}

/// Turns the machine until the append is answered.
pub fn answer(machine: &mut Machine, mut pending: Pending<AppendAnswer>) -> AppendAnswer {
    for _ in 0..100_000 {
        if let Some(answer) = pending.try_take() {
            return answer;
        }
        machine.turn().expect("a turn");
    }
    panic!("an append is never answered");
}
