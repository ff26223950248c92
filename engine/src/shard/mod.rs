//! A shard: one thread's worth of logs on one disk. Each turn it stages, commits and settles.

mod adopt;
mod ahead;
mod answer;
pub mod clock;
pub mod command;
mod commit;
mod descriptors;
mod disown;
mod flush;
mod give_away;
mod give_up;
mod heal;
mod inspect;
mod leave;
mod let_go;
#[cfg(all(test, loom))]
mod loom_models;
pub mod open;
pub mod orphan;
pub mod policies;
mod prepare;
mod read;
mod receive;
mod recover;
mod report;
mod rest;
mod restamp;
mod roll;
pub mod rouse;
pub mod scrub;
mod seal;
mod seek;
mod settle;
#[expect(clippy::module_inception, reason = "the noun of this file is the shard")]
mod shard;
mod shrink;
#[cfg(all(test, shuttle))]
mod shuttle_models;
mod siblings;
mod stage;
mod stray;
mod tail_budget;
mod timers;
mod truncate;
pub mod verb;
mod verbs;
mod window;
mod woken;

pub use crate::log::clean_edit;
pub use open::{Opened, Share, open, open_logs, open_manifest};
pub use recover::at_rest;
pub use report::OpenReport;
pub use shard::{Shard, Turned};
pub use siblings::Siblings;
pub use woken::Woken;
