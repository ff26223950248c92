//! What a disk answers when an operation fails: the verb, the file and the errno, kept to the end.

use rustix::io::Errno;
use std::sync::Arc;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// A write that is not durable by itself.
    Write,
    /// A durable write: a write and a flush in one.
    DurableWrite,
    /// A read.
    Read,
    /// A sync of one file.
    Sync,
    /// A flush that stands for a sync of many files.
    Barrier,
    /// A sync of a directory.
    SyncDirectory,
    /// A preallocation.
    Allocate,
    /// Preallocating as written zeros.
    WriteZeroes,
    /// A change of a file's length.
    Truncate,
    /// Opening a file.
    Open,
    /// Opening a directory.
    OpenDirectory,
    /// Making a directory.
    CreateDirectory,
    /// Listing a directory.
    List,
    /// Looking at a name.
    Stat,
    /// Asking how much room there is.
    Space,
    /// A rename.
    Rename,
    /// Removing a file's name.
    Unlink,
    /// Removing a directory.
    RemoveDirectory,
    /// A wait.
    Sleep,
    /// Turning the ring itself.
    Turn,
    /// Setting the disk up.
    Setup,
    /// Taking the store's lock.
    Lock,
}

impl Verb {
    /// The verb of a write.
    #[must_use]
    pub fn of_write(durable: bool) -> Verb {
        if durable { Verb::DurableWrite } else { Verb::Write }
    }

    /// Whether this is what `wanted` names: a durable write is a write as well.
    #[must_use]
    pub fn is_a(self, wanted: Verb) -> bool {
        self == wanted || (self, wanted) == (Verb::DurableWrite, Verb::Write)
    }

    fn doing(self) -> &'static str {
        match self {
            Verb::Write => "writing",
            Verb::DurableWrite => "writing durably",
            Verb::Read => "reading",
            Verb::Sync => "syncing",
            Verb::Barrier => "flushing the drive through",
            Verb::SyncDirectory => "syncing directory",
            Verb::Allocate => "preallocating",
            Verb::WriteZeroes => "preallocating as written zeros",
            Verb::Truncate => "changing the length of",
            Verb::Open => "opening",
            Verb::OpenDirectory => "opening directory",
            Verb::CreateDirectory => "making directory",
            Verb::List => "listing",
            Verb::Stat => "looking at",
            Verb::Space => "asking for the room of",
            Verb::Rename => "renaming",
            Verb::Unlink => "unlinking",
            Verb::RemoveDirectory => "removing directory",
            Verb::Sleep => "waiting in",
            Verb::Turn => "turning the ring of",
            Verb::Setup => "setting up",
            Verb::Lock => "locking",
        }
    }
}

/// A failed disk operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {path}: {errno} (errno {})", verb.doing(), errno.raw_os_error())]
pub struct DiskError {
    /// What was being done.
    pub verb: Verb,
    /// The file or directory, relative to the store's root.
    pub path: Arc<str>,
    /// What the kernel answered.
    pub errno: Errno,
}

impl DiskError {
    /// Builds an error.
    pub fn new(verb: Verb, path: impl Into<Arc<str>>, errno: Errno) -> DiskError {
        DiskError { verb, path: path.into(), errno }
    }

    /// True when the file system has no room (or no quota) left.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.errno == Errno::NOSPC || self.errno == Errno::DQUOT
    }

    /// True when a file would become larger than a file of this process, or of this file system, may be.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.errno == Errno::FBIG
    }

    /// True when there is no room for what was to be written, whoever says so: it came to no flush, takes nothing along that was written
    /// before, and may go later.
    #[must_use]
    pub fn is_without_room(&self) -> bool {
        self.is_full() || self.is_too_large()
    }

    /// What to change before it can go.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self.errno {
            Errno::NOSPC => "free space",
            Errno::DQUOT => "free space or raise the quota",
            Errno::FBIG => "raise the limit on the size of files (RLIMIT_FSIZE: `ulimit -f`, LimitFSIZE=)",
            Errno::MFILE => "raise the limit on open files (RLIMIT_NOFILE: `ulimit -n`, LimitNOFILE=)",
            Errno::ROFS => "find out in the kernel's log why the file system is read-only, and mount it writable",
            _ => "look into the kernel's log",
        }
    }

    /// True when it was a flush that failed: what else it would have covered may be lost with it, and it is never tried again. A durable
    /// write that found no room did not come to its flush.
    #[must_use]
    pub fn is_failed_flush(&self) -> bool {
        match self.verb {
            Verb::Sync | Verb::SyncDirectory | Verb::Barrier => true,
            Verb::DurableWrite => !self.is_without_room(),
            _ => false,
        }
    }

    /// True when a transfer is not over with this error: what makes it tries again.
    #[must_use]
    pub fn is_tried_again(&self) -> bool {
        matches!(self.verb, Verb::Read | Verb::Write | Verb::DurableWrite) && self.is_passing()
    }

    /// True when this process, or the system, has no descriptor left for what was to be opened. Nothing was done then, and it may be tried again.
    #[must_use]
    pub fn is_out_of_descriptors(&self) -> bool {
        let opens = matches!(self.verb, Verb::Open | Verb::OpenDirectory);
        opens && (self.errno == Errno::MFILE || self.errno == Errno::NFILE)
    }

    /// True when what was named does not exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.errno == Errno::NOENT
    }

    /// True when the kernel only asks to be called again.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.errno == Errno::INTR || self.errno == Errno::AGAIN
    }
}
