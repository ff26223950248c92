//! The store: what an embedder holds. It starts the shard's thread and hands commands to it.

mod clock;
mod descriptors;
mod fit;
mod follower;
mod log;
mod orphans;
mod policies;
mod removing;
mod scrub;
mod serve;
#[expect(clippy::module_inception, reason = "the noun of this file is the store")]
mod store;
mod topic;
mod verbs;

pub use follower::Follower;
pub use log::{Appending, Log, ReadOptions, Reading, Seeking};
pub use orphans::{ListedSegments, RootEntry, WaitingOrphan};
pub use policies::PolicyDesk;
pub use store::{Counters, Store};
pub use topic::Inventory;
pub use verbs::{Asked, Pin};
