//! The manifest: which segments there are and what state they are in, durably, in two copies.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(test)]
mod any;
pub mod copies;
mod edits;
pub mod identity;
pub mod load;
pub mod page;
pub mod policies;
mod runtime;
mod snapshot;
pub mod state;
mod times;

pub use crate::error::ManifestError;
pub use edits::Edits;
pub use policies::PublishedPolicies;
pub use runtime::{Manifest, ManifestCommit};
