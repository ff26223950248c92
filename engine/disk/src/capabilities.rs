//! The capability report: what this host, file system, drive and ring were found to allow, and why not more.

use serde::Serialize;

/// What a disk found out when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Capabilities {
    /// Which disk serves: `uring`, `posix` or `sim`.
    pub backend: String,
    /// Where plain system calls serve for want of a ring: why there is none, and what to change.
    pub fallback: Option<String>,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// The ring. Of plain system calls it tells the arena alone.
    pub ring: Ring,
    /// The file system that holds the root.
    pub filesystem: Filesystem,
    /// The drive below it.
    pub drive: Drive,
    /// Direct I/O.
    pub direct: Direct,
    /// Whether one barrier may stand for a sync of each file.
    pub barrier: Barrier,
    /// Which fallocate modes work: `allocate`, `keep_size`, `zero_range`, `punch_hole`, `write_zeroes`.
    pub fallocate: Vec<String>,
    /// Locked-memory limit in bytes (soft); absent when unlimited or when the process may pass it.
    pub memlock_bytes: Option<u64>,
    /// What an operator should know, a sentence each.
    pub warnings: Vec<String>,
}

impl Capabilities {
    /// Whether a file can be preallocated as written zeros.
    #[must_use]
    pub fn can_write_zeroes(&self) -> bool {
        self.fallocate.iter().any(|mode| mode == WRITE_ZEROES)
    }
}

/// The name of that mode in the report.
pub const WRITE_ZEROES: &str = "write_zeroes";

/// What the ring was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ring {
    /// Setup flags obtained, by name.
    pub flags: Vec<String>,
    /// Submission entries.
    pub entries: u32,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Whether the arena is registered.
    pub buffers_registered: bool,
    /// Whether files are registered.
    pub files_registered: bool,
    /// Whether the ring refuses opcodes that the store does not use.
    pub restricted: bool,
    /// Why something above was not obtained, a sentence each.
    pub reasons: Vec<String>,
}

/// The file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Filesystem {
    /// Its type: `ext4`, `xfs`, `btrfs`, `tmpfs` and so on.
    pub kind: String,
    /// Mount options, as the kernel lists them.
    pub options: Vec<String>,
    /// Mounted with `discard`.
    pub discard: bool,
    /// ext4 `fast_commit` is on; absent when not known.
    pub fast_commit: Option<bool>,
    /// The journal of ext4; absent when not known, and on other file systems.
    pub journal: Option<Journal>,
    /// Files can share extents; absent when not known.
    pub reflink: Option<bool>,
    /// btrfs writes each block of a file to a new place; absent when not known, and on other file systems.
    pub copies_on_write: Option<bool>,
    /// xfs writes to zones, so that an overwrite never stays in place; absent when not known, and on other file systems.
    pub zoned: Option<bool>,
}

/// The journal of an ext4 file system. Its mode is `ordered`, `writeback` or `journal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "place", rename_all = "snake_case")]
pub enum Journal {
    /// There is none.
    Absent,
    /// It is on the device that holds the data.
    Internal {
        /// The mode.
        mode: String,
    },
    /// It is on a device of its own.
    External {
        /// The mode.
        mode: String,
    },
}

/// The drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Drive {
    /// Device name, as `vda` or `nvme0n1`; absent when there is none.
    pub name: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// The drive takes forced unit access writes.
    pub fua: Option<bool>,
    /// Logical block size in bytes.
    pub logical_block: Option<u32>,
}

/// Direct I/O, as probed by a real write and read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Direct {
    /// Files are opened for direct I/O.
    pub effective: bool,
    /// Alignment of positions and lengths, in bytes: at least 4096.
    pub alignment: u32,
    /// What statx reported for the alignment of positions, in bytes.
    pub reported: Option<u32>,
    /// Why it is as it is.
    pub reason: String,
}

/// Whether [`crate::Operation::Barrier`] covers other files than its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Barrier {
    /// It does.
    pub allowed: bool,
    /// Why, or which condition fails, as a sentence.
    pub reason: String,
}
