//! Course: what a part of a run has come to, plain data that can be kept and judged again.

use super::sample::Sample;
use super::told::Counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strandline_tests::tiers::promise::Broken;

/// One part.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Course {
    /// What the store stood on.
    pub on: String,
    /// Seconds that it took.
    pub took_s: f64,
    /// A sample each second in which the store was open.
    pub samples: Vec<Sample>,
    /// When each process ended, in seconds.
    pub ends: Vec<f64>,
    /// What happened, and how often.
    pub faults: BTreeMap<String, u64>,
    /// Kills and power cuts among them.
    pub crashes: u64,
    /// Operations that went wrong below the store.
    pub struck: u64,
    /// What the store has done.
    pub counted: Counted,
    /// Batches that had been acknowledged as durable, and were looked for.
    pub checked: u64,
    /// Calls that were refused while something failed.
    pub refused: u64,
    /// The first of them.
    pub refusals: Vec<String>,
    /// What is wrong.
    pub broken: Vec<Broken>,
}

/// All of a run, as it is kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Its seed.
    pub seed: u64,
    /// The host's kernel.
    pub kernel: String,
    /// What ran.
    pub commit: String,
    /// When it ended, UTC.
    pub date: String,
    /// Its parts.
    pub courses: Vec<Course>,
}
