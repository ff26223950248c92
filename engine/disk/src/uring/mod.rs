//! The disk on a real ring.
//!
//! [`UringDisk`] serves [`crate::Disk`] through one io_uring that belongs to the thread that made it. [`crate::host::RootLock`]
//! keeps other processes out of the root; several rings of one store share it.
//!
//! Fork: a child must not use a disk that it inherited. The ring and the arena are not copied into it (MADV_DONTFORK), the
//! kernel refuses what it submits where the ring has a single issuer, its completions could not be mistaken for ours
//! (invariant 2 of [`crate::slot`]), and dropping the inherited disk in it does nothing. A child that lives on without
//! `exec` does keep the lock's descriptor open, though: until it ends, the lock is free only after an orderly close of the
//! parent. So fork before opening a store, or `exec` right after.

mod arena;
mod descriptors;
mod drain;
mod operation;
mod ring;
mod setup;
mod shared;
mod uring_disk;

pub(crate) use uring_disk::UringDisk;
