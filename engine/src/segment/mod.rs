//! Segments: one directory, one file. What is written to them, what is found in them, and how they end.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod active;
mod chain;
pub mod closed;
pub mod cut;
pub mod mend;
pub mod resting;
pub mod rewrite;
pub mod scrub;
pub mod seal;
pub mod shrink;
pub mod survey;
pub mod tail;
pub mod time;
pub mod unopened;
