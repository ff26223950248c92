//! The manifest: which segments there are and what state they are in, durably, in two copies.

pub mod copies;
pub mod identity;
pub mod load;
pub mod page;
mod runtime;
pub mod state;

pub use runtime::{Edits, Manifest, ManifestCommit, ManifestError};
