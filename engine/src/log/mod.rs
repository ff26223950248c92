//! A log: one range of a topic, its segments, and where it stands. Plain state and plain decisions.

pub mod locate;
mod state;

pub use state::{Log, Making, Queued, Receipt, Successor};
