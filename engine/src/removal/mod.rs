//! Removal: what becomes of files that nobody needs any more, and where files for new segments come from.

pub mod evidence;
pub mod exchange;
mod filling;
pub mod going;
pub mod governor;
pub mod inbox;
pub mod latencies;
pub mod recycle;
pub mod release;
pub mod remover;
pub mod reuse;
pub mod spares;
pub mod syncs;
pub mod trash;
