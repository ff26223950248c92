//! Disks of the Strandline store.
//!
//! [`Disk`] is what the engine writes to. [`real`] serves it on real files: `uring` over a ring, `posix` over plain system calls where
//! there is none. [`sim`] serves it in memory, from a seed.
//! An operation owns everything that it touches until its completion has been seen: that is invariant 1
//! of [`slot`], and the reason why no caller of this crate needs `unsafe`.

pub mod bare;
pub mod barrier;
pub mod buffer;
pub mod capabilities;
pub mod clock;
pub mod disk;
pub mod doorbell;
pub mod error;
pub mod handle;
pub mod host;
mod host_clock;
mod memory;
pub mod name;
pub mod position;
mod posix;
pub mod real;
mod returns;
pub mod shared_buffer;
pub mod sim;
pub mod slot;
pub mod together;
pub mod transfer;
mod uring;

pub use buffer::{BLOCK, Buffer, Pool};
pub use capabilities::Capabilities;
pub use clock::Now;
pub use disk::{Access, Disk, Entry, EntryKind, OpenFile, Operation, Outcome, Space, Stat, Success, Wait};
pub use doorbell::Doorbell;
pub use error::{DiskError, Verb};
pub use handle::{Directory, File, Handles};
pub use host_clock::HostClock;
pub use name::Name;
pub use position::Position;
pub use rustix::io::Errno;
pub use shared_buffer::SharedBuffer;
pub use slot::{InFlight, Slots, Token};
