//! A shard: one thread's worth of logs on one disk. Each turn it stages, commits and settles.

mod adopt;
mod ahead;
pub mod command;
mod commit;
mod failures;
mod flush;
pub mod open;
mod prepare;
mod read;
mod recover;
pub mod release;
mod report;
mod roll;
pub mod rouse;
mod settle;
#[expect(clippy::module_inception, reason = "the noun of this file is the shard")]
mod shard;
mod stage;
mod tail_budget;
mod timers;

pub use crate::log::clean_edit;
pub use failures::Failures;
pub use open::{Opened, Share, open, open_logs, open_manifest};
pub use recover::at_rest;
pub use report::OpenReport;
pub use shard::{Shard, Turned, Woken};
