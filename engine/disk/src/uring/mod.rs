//! The disk on a real ring.
//!
//! [`UringDisk`] serves [`crate::Disk`] through one io_uring that belongs to the thread that made it. [`RootLock`] keeps
//! other processes out of the root; several rings of one store share it.
//!
//! Fork: a child must not use a disk that it inherited. The ring and the arena are not copied into it (MADV_DONTFORK), the
//! kernel refuses what it submits where the ring has a single issuer, its completions could not be mistaken for ours
//! (invariant 2 of [`crate::slot`]), and dropping the inherited disk in it does nothing. A child that lives on without
//! `exec` does keep the lock's descriptor open, though: until it ends, the lock is free only after an orderly close of the
//! parent. So fork before opening a store, or `exec` right after.

mod arena;
mod control_group;
mod counters;
mod descriptors;
mod direct;
mod drain;
mod drive;
mod filesystem;
mod limits;
mod look;
mod mounts;
mod operation;
mod options;
mod probe;
mod ring;
mod root;
mod setup;
mod setup_error;
mod shared;
mod uring_disk;

pub use counters::RingCounters;
pub use look::Look;
pub use options::{DirectMode, UringOptions};
pub use root::{LOCK_NAME, RootLock};
pub use setup_error::SetupError;
pub use uring_disk::UringDisk;
