//! A shard: one thread's worth of logs on one disk. Each turn it stages, commits and settles.

mod ahead;
pub mod command;
pub mod open;
mod prepare;
mod read;
mod recover;
mod settle;
#[expect(clippy::module_inception, reason = "the noun of this file is the shard")]
mod shard;
mod stage;

pub use open::{OpenReport, open};
pub use shard::{Shard, Turned, Woken};
