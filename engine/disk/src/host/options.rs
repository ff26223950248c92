//! What a caller may choose about a disk. Holds values only; what was obtained is in the capability report.

use super::backend::Backend;
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

/// How a disk is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Who carries its operations out.
    pub backend: Backend,
    /// Bytes of the arena that buffers are dealt from. Made smaller where a limit asks for it.
    pub arena_bytes: usize,
    /// The least that the arena may shrink to, in bytes. Where a ring may not register even that, it keeps its full size unregistered.
    pub arena_bytes_min: usize,
    /// Direct or buffered.
    pub access: DirectMode,
    /// How long to wait for the lock on the root.
    pub lock_wait: Duration,
    /// How many may block for this disk at once in what is no plain transfer: syncs, opens, removals. A ring's are kernel workers,
    /// those of plain calls are threads.
    pub workers: u32,
    /// Threads that read and write where there is no ring.
    pub transfer_threads: u32,
    /// Submission entries of a ring; the completion queue gets four times as many.
    pub entries: u32,
    /// Slots of a ring's file table. Files beyond it work too, a little slower.
    pub files_max: u32,
    /// The clocks that it reads.
    pub clock: HostClock,
}

impl Default for DiskOptions {
    fn default() -> DiskOptions {
        DiskOptions {
            backend: Backend::Auto,
            arena_bytes: 64 << 20,
            arena_bytes_min: 1 << 20,
            access: DirectMode::Auto,
            lock_wait: Duration::from_secs(30),
            workers: 2,
            transfer_threads: 4,
            entries: 256,
            files_max: 4096,
            clock: HostClock::default(),
        }
    }
}
