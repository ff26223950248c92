//! Leak: what a control lets grow, so that it is seen whether the rule of slopes notices.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;

/// How much memory, or how many bytes of a file, a round leaks.
const BYTES: usize = 64 << 10;

/// A deliberate leak of the process under load, once a second. The engine itself has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Leak {
    /// 64 KiB that nobody frees.
    Memory,
    /// A descriptor that nobody closes.
    Descriptor,
    /// A file of 64 KiB in the store's directory.
    Disk,
}

impl Leak {
    /// Leaks once. `round` is a number that did not come before in this directory.
    ///
    /// # Errors
    /// What the system answered.
    pub fn leak(self, root: &Path, round: u64) -> std::io::Result<()> {
        match self {
            // Memory that nobody can have looked at would not be allocated at all.
            Leak::Memory => std::mem::forget(std::hint::black_box(vec![round as u8 | 1; BYTES])),
            Leak::Descriptor => std::mem::forget(File::open("/dev/null")?),
            Leak::Disk => std::fs::write(root.join(format!("leaked-{round}")), vec![1; BYTES])?,
        }
        Ok(())
    }
}
