//! A disk in memory that a seed drives: every order of completion, every crash and every fault, without a thread or a wait.
//!
//! [`SimWorld`] is the machine: the medium, the page cache, the names, the clocks. It survives crashes. [`SimDisk`] is one
//! ring of the process that runs on it; [`SimWorld::kill`] and [`SimWorld::power_failure`] end all of them at once.
//! The same seed and the same calls give the same trace.
//!
//! What it promises to its callers is the least that Linux promises, not what one file system happens to do:
//! - a `Sync` covers the writes that had completed when it **started**, of that file only;
//! - a `Barrier` is a `Sync` of its file, and covers of other files the direct overwrites of anchored blocks that had
//!   completed when it started, where nothing else of that file is pending;
//! - a durable write covers its own sectors, their extents and the length that they need, nothing else;
//! - a name is durable after a `SyncDirectory` of its directory that started after the name was made; a rename between
//!   two directories after one of each; no order holds between different names;
//! - of all the rest, a power failure keeps any subset, sector by sector.

mod block;
mod clock;
mod crash;
mod damage;
mod drive;
mod effect;
mod fault;
mod file;
mod flight;
mod inspect;
mod land;
mod lie;
mod names;
mod random;
mod schedule;
mod sim_disk;
mod trace;
mod world;

pub use block::SECTOR;
pub use crash::Loss;
pub use drive::{Driven, drive, drive_steps};
pub use fault::{Fault, Times, What, When};
pub use lie::Lie;
pub use sim_disk::SimDisk;
pub use world::SimWorld;
