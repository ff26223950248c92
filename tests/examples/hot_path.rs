//! Appends on the simulated disk, with one thread and no clock but its own: what `.ci/instructions` counts the instructions of.

use clap::Parser;
use std::collections::VecDeque;
use strandline::batch::{BatchBuilder, BatchLimits, Record};
use strandline::pending::pair;
use strandline::shard::command::Command;
use strandline::{Config, Level};
use strandline_tests::harness::machine::small;
use strandline_tests::harness::{Machine, Step};

/// What is appended.
#[derive(Parser)]
struct Options {
    /// How many records, a batch each.
    #[arg(long, default_value_t = 1_000)]
    records: u64,
    /// How many are asked for at once.
    #[arg(long, default_value_t = 64)]
    outstanding: usize,
    /// How large each is, in bytes.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
}

fn main() {
    let Options { records, outstanding, bytes } = Options::parse();
    // One segment, of which nothing is made ahead: no roll is counted among the appends.
    let config = Config {
        segment_bytes: 64 << 20,
        arena_bytes: 8 << 20,
        outstanding_max: 1_024,
        idle_close_after: None,
        ..small()
    };
    let config = Config { batch_bytes_max: 64 << 10, commit_bytes_max: 2 << 20, read_bytes_max: 2 << 20, ..config };
    let mut machine = Machine::new(1, config);
    let log = 0;
    machine.start(None).and_then(|_| machine.run(&[Step::OpenLog(log), Step::Answer])).expect("a store");
    let running = machine.running();
    let (queue, number) = (running.queues[0].clone(), running.opened[&log].1.number);
    let shard = running.shards[0].as_mut().expect("it is open");
    let (value, limits) = (vec![7; bytes], BatchLimits { bytes_max: 64 << 10, records_max: 1_024 });
    let before = queue.counters.commits.load(std::sync::atomic::Ordering::Relaxed);
    let (mut asked, mut flying) = (0, VecDeque::with_capacity(outstanding));
    while asked < records || !flying.is_empty() {
        while asked < records && flying.len() < outstanding {
            let mut batch = BatchBuilder::with_buffer(limits, queue.payload());
            batch.push(&Record { value: Some(&value), ..Record::default() }).expect("room");
            let batch = batch.build().expect("a record");
            let admitted = queue.admit(batch.payload().len()).expect("room");
            let (answer, pending) = pair();
            let level = Level::Durable;
            queue.push(Command::Append { log: number, batch, level, expected: None, answer, admitted });
            flying.push_back(pending);
            asked += 1;
        }
        // As callers who are answered together come back together.
        while let Some(mut pending) = flying.pop_front() {
            match pending.try_take() {
                Some(answer) => drop(answer.expect("durable")),
                None => {
                    flying.push_front(pending);
                    shard.turn().expect("a turn");
                }
            }
        }
    }
    let commits = queue.counters.commits.load(std::sync::atomic::Ordering::Relaxed) - before;
    println!("{records} {commits}");
}
