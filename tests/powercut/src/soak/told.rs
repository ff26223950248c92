//! Told: what the process of a store and the run that started it say to each other, a line of JSON each.

use super::leak::Leak;
use crate::history::Found;
use crate::shape::Shape;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign};
use std::path::PathBuf;
use strandline::Level;
use strandline_tests::tiers::promise::Broken;

/// What a process is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The store's directory.
    pub root: PathBuf,
    /// The store's configuration.
    pub shape: Shape,
    /// How many processes there were before it.
    pub life: u64,
    /// What it leaks, as a control.
    pub leak: Option<Leak>,
    /// Whether it leaves directories behind that belong to no segment, for the sweep of orphans.
    pub plants: bool,
}

/// What a process is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Each log is read and told whole.
    Look,
    /// The store is closed and opened again.
    Reopen,
    /// The store is closed, and the process ends.
    Close,
}

/// What a process tells. What is about to be asked of the store is told before, what it answered after.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Told {
    /// The store is open; opening calls these damaged.
    Opened(Vec<String>),
    /// A log is about to be read whole: what others have told to have read of it before, will be there.
    Looking(usize),
    /// A log, whole, at this wall time in ms. `None` when it is not there. The first look after an opening comes before anything else of the log.
    Found {
        /// Which log.
        log: usize,
        /// When the look had ended.
        at_ms: u64,
        /// What was found.
        found: Option<Found>,
    },
    /// No more is asked of the log until the next opening: a verb of it was refused, and may come to light then.
    Halted(usize),
    /// A log is about to be made.
    Making(usize),
    /// It was made.
    Made(usize),
    /// A batch is handed over.
    Begin {
        /// To which log.
        log: usize,
        /// Its number.
        number: u64,
        /// Wall time in ms.
        at_ms: u64,
        /// Bytes of its payload.
        bytes: u64,
    },
    /// A batch was answered.
    Answered {
        /// By which log.
        log: usize,
        /// Its number.
        number: u64,
        /// Its first offset.
        first: u64,
        /// What it has reached.
        level: Reached,
    },
    /// A batch was refused before anything was done with it.
    Untried {
        /// By which log.
        log: usize,
        /// Its number.
        number: u64,
    },
    /// A truncation, a trim, the deletion of a log is about to be asked for.
    Ask(usize, Verb),
    /// It was answered: done, or refused.
    Done(usize, Verb, bool),
    /// A reader has read up to there.
    Read(usize, u64),
    /// A reader was told that there is damage from this offset on.
    Damaged(usize, u64, String),
    /// Something was refused: what was asked for, and the answer.
    Refused(String, String),
    /// A promise was broken whatever fails.
    Broke(Broken),
    /// What the process has done so far.
    Counted(Counted),
    /// The store was closed; false when that was refused.
    Closed(bool),
}

/// What a batch has reached: a [`Level`] that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reached {
    /// It is in memory.
    Accepted,
    /// It is written.
    Written,
    /// It is durable.
    Durable,
}

impl From<Level> for Reached {
    fn from(level: Level) -> Reached {
        match level {
            Level::Accepted => Reached::Accepted,
            Level::Written => Reached::Written,
            Level::Durable => Reached::Durable,
        }
    }
}

impl From<Reached> for Level {
    fn from(reached: Reached) -> Level {
        match reached {
            Reached::Accepted => Level::Accepted,
            Reached::Written => Level::Written,
            Reached::Durable => Level::Durable,
        }
    }
}

/// What gives records up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Everything from this offset on.
    Truncate(u64),
    /// Everything before this offset.
    Trim(u64),
    /// The log.
    Delete,
}

/// What was done, as far as it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Records that were acknowledged.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Commits.
    pub commits: u64,
    /// Segments rolled.
    pub rolls: u64,
    /// Files used again.
    pub reused: u64,
    /// Files removed.
    pub removed: u64,
    /// Segments that expired.
    pub expired: u64,
    /// Orphans given up.
    pub orphans: u64,
    /// Segments scrubbed.
    pub scrubbed: u64,
    /// Changes of policies.
    pub policies: u64,
    /// Topics that were made.
    pub topics: u64,
    /// Batches that readers took and compared.
    pub read: u64,
}

impl Add for Counted {
    type Output = Counted;

    fn add(self, other: Counted) -> Counted {
        Counted {
            records: self.records + other.records,
            bytes: self.bytes + other.bytes,
            commits: self.commits + other.commits,
            rolls: self.rolls + other.rolls,
            reused: self.reused + other.reused,
            removed: self.removed + other.removed,
            expired: self.expired + other.expired,
            orphans: self.orphans + other.orphans,
            scrubbed: self.scrubbed + other.scrubbed,
            policies: self.policies + other.policies,
            topics: self.topics + other.topics,
            read: self.read + other.read,
        }
    }
}

impl AddAssign for Counted {
    fn add_assign(&mut self, other: Counted) {
        *self = *self + other;
    }
}
