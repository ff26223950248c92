//! A log: one range of a topic, its segments, and where it stands. Plain state and plain decisions.

mod dormant;
pub mod flight;
pub mod locate;
mod logs;
pub mod pins;
pub mod shared;
mod state;
pub mod tail_cache;

pub use dormant::{Dormant, clean_edit, fall_asleep, forget_much, is_idle, is_marked, is_quiet};
pub use flight::{Flight, Level, Queued, Receipt, Staged, Waiting};
pub use logs::Logs;
pub use shared::Shared;
pub use state::{Asked, Log, Making, STAMP_AHEAD_MAX_MS, Successor, Unprepared};
