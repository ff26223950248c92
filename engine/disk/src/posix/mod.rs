//! The disk of plain system calls, for where there is no ring.
//!
//! [`PosixDisk`] serves [`crate::Disk`] by a few threads of its own, which carry one call out after the other: some only read and
//! write, the others do all that may block for long, so that an append never waits behind a preallocation or a removal. What crosses
//! threads is a [`call::Call`]: descriptors that are counted, names that are counted, and the address of memory that the operation's
//! slot keeps (invariant 1 of [`crate::slot`]). Slots, handles, buffers and futures stay on the thread that opened the disk, and only
//! that thread looks at an answer.
//!
//! Fork: a child has none of the threads. A turn in it fails, and dropping the inherited disk does nothing.

mod answers;
mod call;
mod crew;
mod drain;
mod loan;
mod posix_disk;
mod prepare;
mod shared;
mod sleeps;
mod wait;

pub(crate) use posix_disk::PosixDisk;
