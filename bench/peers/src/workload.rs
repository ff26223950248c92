//! Workloads: who appends, and records of which size.

use serde::{Deserialize, Serialize};

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Producers {
    /// So many threads, each waiting until its record is durable.
    Threads(usize),
    /// One thread with so many appends in flight, for engines that have a verb for it.
    Outstanding(usize),
}

/// A workload. All records are durable before they are acknowledged.
#[derive(Debug)]
pub struct Workload {
    /// Its name in reports.
    pub name: &'static str,
    /// Bytes of its records.
    pub record_bytes: usize,
    /// Who appends to every engine.
    pub threads: usize,
    /// How many one thread has in flight, where an engine can do that as well.
    pub outstanding: Option<usize>,
}

/// All of them, in the order in which they run.
pub const WORKLOADS: [Workload; 3] = [
    Workload { name: "1 producer, 1 KiB", record_bytes: 1 << 10, threads: 1, outstanding: None },
    Workload { name: "64 producers, 1 KiB", record_bytes: 1 << 10, threads: 64, outstanding: Some(64) },
    Workload { name: "16 producers, 16 KiB", record_bytes: 16 << 10, threads: 16, outstanding: Some(16) },
];

impl Producers {
    /// How it is called in reports.
    pub fn name(self) -> String {
        match self {
            Producers::Threads(1) => "1 thread".to_owned(),
            Producers::Threads(threads) => format!("{threads} threads"),
            Producers::Outstanding(depth) => format!("{depth} outstanding"),
        }
    }
}
