//! A log: one range of a topic, its segments, and where it stands. Plain state and plain decisions.

mod dormant;
pub mod flight;
pub mod locate;
pub mod pins;
pub mod shared;
mod state;
pub mod tail_cache;

pub use dormant::{Dormant, clean_edit};
pub use flight::{Flight, Level, Queued, Receipt, Staged, Waiting};
pub use shared::Shared;
pub use state::{Log, Making, STAMP_AHEAD_MAX_MS, Successor, Unprepared};
