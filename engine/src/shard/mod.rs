//! A shard: one thread's worth of logs on one disk. Each turn it stages, commits and settles.

mod ahead;
pub mod command;
mod commit;
mod failures;
mod flush;
pub mod open;
mod prepare;
mod read;
mod recover;
mod roll;
mod settle;
#[expect(clippy::module_inception, reason = "the noun of this file is the shard")]
mod shard;
mod stage;
mod tail_budget;
mod timers;

pub use failures::Failures;
pub use open::{OpenReport, open};
pub use shard::{Shard, Turned, Woken};
