//! Removal: what becomes of files that nobody needs any more, and where files for new segments come from.

pub mod evidence;
pub mod exchange;
mod filler;
mod filling;
pub mod gauge;
pub mod going;
pub mod governor;
pub mod inbox;
pub mod latencies;
pub mod pressure;
pub mod recycle;
pub mod release;
pub mod remover;
mod reserve;
pub mod reuse;
pub mod scrubber;
pub mod spares;
pub mod syncs;
pub mod trash;
mod watch;
