//! Removal: what becomes of files that nobody needs any more, and where files for new segments come from.

pub mod recycle;
pub mod release;
pub mod reuse;
pub mod spares;
