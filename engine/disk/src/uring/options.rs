//! What a caller may choose about a ring. Holds values only; what was obtained is in the capability report.

use crate::host_clock::HostClock;
use std::time::Duration;

/// Whether files may be opened for direct I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectMode {
    /// Where the probe finds that it works.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// How a ring is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UringOptions {
    /// Bytes of the arena that buffers are dealt from. Made smaller where a limit asks for it.
    pub arena_bytes: usize,
    /// The least that the arena may shrink to, in bytes. Where not even that may be registered, it keeps its full size unregistered.
    pub arena_bytes_min: usize,
    /// Submission entries; the completion queue gets four times as many.
    pub entries: u32,
    /// Direct or buffered.
    pub access: DirectMode,
    /// How long to wait for the lock on the root.
    pub lock_wait: Duration,
    /// Kernel workers that may block for this thread at once. They serve syncs, opens and removals, not plain writes.
    pub io_wq_workers: u32,
    /// Slots of the ring's file table. Files beyond it work too, a little slower.
    pub files_max: u32,
    /// The clocks that it reads.
    pub clock: HostClock,
}

impl Default for UringOptions {
    fn default() -> UringOptions {
        UringOptions {
            arena_bytes: 64 << 20,
            arena_bytes_min: 1 << 20,
            entries: 256,
            access: DirectMode::Auto,
            lock_wait: Duration::from_secs(30),
            io_wq_workers: 2,
            files_max: 4096,
            clock: HostClock::default(),
        }
    }
}
