//! The disk: what the engine asks of storage, as operations that own what they touch.

use crate::buffer::{Buffer, Pool};
use crate::capabilities::Capabilities;
use crate::clock::Now;
use crate::doorbell::Doorbell;
use crate::error::{DiskError, Verb};
use crate::handle::{Directory, File, Handles};
use crate::name::Name;
use crate::position::Position;
use crate::slot::InFlight;
use std::ffi::OsString;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFile {
    /// It must exist.
    Existing,
    /// It must not exist; it is made, empty, mode 0600.
    New,
}

/// Whether reads and writes of a file may go past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Direct where the disk's probe found that it works, else buffered. For data and manifest files.
    Auto,
    /// Through the page cache.
    Buffered,
}

/// One operation. It owns its buffer, its handles and its names until its completion has been seen.
#[derive(Debug)]
pub enum Operation {
    /// Writes `buffer[span]` at `position`; with `durable`, answers after it is on stable storage (RWF_DSYNC).
    Write {
        /// The file.
        file: File,
        /// The bytes. Comes back in the outcome.
        buffer: Buffer,
        /// The part of the buffer to write. Block-aligned on a direct file.
        span: Range<usize>,
        /// Where it goes. Block-aligned on a direct file.
        position: Position,
        /// Whether the answer waits for stable storage.
        durable: bool,
    },
    /// Reads into `buffer[span]` from `position`. A short answer at the end of the file is normal.
    Read {
        /// The file.
        file: File,
        /// Where the bytes go. Comes back in the outcome.
        buffer: Buffer,
        /// The part of the buffer to fill. Block-aligned on a direct file.
        span: Range<usize>,
        /// Where to read. Block-aligned on a direct file.
        position: Position,
    },
    /// Makes all completed writes of one file durable (fdatasync).
    Sync {
        /// The file.
        file: File,
    },
    /// As `Sync` of this file and, where the capability report allows it ([`crate::capabilities::Barrier`]), one flush for
    /// all files of the root. It then makes durable, in every other file that has no change of its length or allocation
    /// pending, the direct writes that had completed when it started and that overwrote blocks which had been written, and
    /// then made durable by a sync or a durable write of that other file. It covers nothing else of them.
    Barrier {
        /// The file that is synced.
        file: File,
    },
    /// Preallocates `0..length` and sets the file's length, as unwritten extents (fallocate mode 0).
    Allocate {
        /// The file.
        file: File,
        /// The bytes from the start of the file.
        length: u64,
    },
    /// Preallocates a part of a file, as extents that count as written and read as zeros (FALLOC_FL_WRITE_ZEROES), which a drive does by
    /// itself; the file is at least as long as its end then. Only where the capability report lists `write_zeroes`.
    WriteZeroes {
        /// The file.
        file: File,
        /// Where the part begins, in bytes.
        from: Position,
        /// How long it is, in bytes.
        length: u64,
    },
    /// Sets the file's length.
    Truncate {
        /// The file.
        file: File,
        /// The new length in bytes.
        length: u64,
    },
    /// Opens a regular file: one link, our owner, no symlink, same mount.
    Open {
        /// The directory it is in.
        directory: Directory,
        /// Its name there.
        name: Name,
        /// Whether it must exist or must not.
        how: OpenFile,
        /// Direct or buffered.
        access: Access,
    },
    /// Opens a directory, which is no symlink and on the same mount.
    OpenDirectory {
        /// The directory it is in.
        directory: Directory,
        /// Its name there.
        name: Name,
    },
    /// Makes a directory, mode 0700.
    CreateDirectory {
        /// The directory it goes in.
        directory: Directory,
        /// Its name there.
        name: Name,
    },
    /// Makes the names in a directory durable.
    SyncDirectory {
        /// The directory.
        directory: Directory,
    },
    /// Renames, replacing a file that has the new name.
    Rename {
        /// The directory it is in.
        from: Directory,
        /// Its name there.
        from_name: Name,
        /// The directory it goes to.
        to: Directory,
        /// Its name there.
        to_name: Name,
    },
    /// Removes a file's name.
    Unlink {
        /// The directory it is in.
        directory: Directory,
        /// Its name there.
        name: Name,
    },
    /// Removes an empty directory.
    RemoveDirectory {
        /// The directory it is in.
        directory: Directory,
        /// Its name there.
        name: Name,
    },
    /// Answers after a time.
    Sleep {
        /// How long.
        duration: Duration,
    },
}

impl Operation {
    /// The verb, for errors and traces.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match self {
            Operation::Write { durable, .. } => Verb::of_write(*durable),
            Operation::Read { .. } => Verb::Read,
            Operation::Sync { .. } => Verb::Sync,
            Operation::Barrier { .. } => Verb::Barrier,
            Operation::Allocate { .. } => Verb::Allocate,
            Operation::WriteZeroes { .. } => Verb::WriteZeroes,
            Operation::Truncate { .. } => Verb::Truncate,
            Operation::Open { .. } => Verb::Open,
            Operation::OpenDirectory { .. } => Verb::OpenDirectory,
            Operation::CreateDirectory { .. } => Verb::CreateDirectory,
            Operation::SyncDirectory { .. } => Verb::SyncDirectory,
            Operation::Rename { .. } => Verb::Rename,
            Operation::Unlink { .. } => Verb::Unlink,
            Operation::RemoveDirectory { .. } => Verb::RemoveDirectory,
            Operation::Sleep { .. } => Verb::Sleep,
        }
    }

    /// The path it is about, relative to the root, for errors and traces.
    #[must_use]
    pub fn path(&self) -> std::sync::Arc<str> {
        match self {
            Operation::Write { file, .. }
            | Operation::Read { file, .. }
            | Operation::Sync { file }
            | Operation::Barrier { file }
            | Operation::Allocate { file, .. }
            | Operation::WriteZeroes { file, .. }
            | Operation::Truncate { file, .. } => file.path().clone(),
            Operation::Open { directory, name, .. }
            | Operation::OpenDirectory { directory, name }
            | Operation::CreateDirectory { directory, name }
            | Operation::Unlink { directory, name }
            | Operation::RemoveDirectory { directory, name } => directory.path_of(name.as_str()),
            Operation::SyncDirectory { directory } => directory.path().clone(),
            Operation::Rename { from, from_name, .. } => from.path_of(from_name.as_str()),
            Operation::Sleep { .. } => ".".into(),
        }
    }

    /// The buffer, to be given back.
    pub(crate) fn into_buffer(self) -> Option<Buffer> {
        match self {
            Operation::Write { buffer, .. } | Operation::Read { buffer, .. } => Some(buffer),
            _ => None,
        }
    }
}

/// What a successful operation answers.
#[derive(Debug)]
pub enum Success {
    /// It is done.
    Done,
    /// So many bytes were moved: from 0 to the length of the span.
    Moved(usize),
    /// The opened file.
    File(File),
    /// The opened directory.
    Directory(Directory),
}

/// What comes back of an operation.
#[derive(Debug)]
pub struct Outcome {
    /// The answer.
    pub result: Result<Success, DiskError>,
    /// The buffer of a read or a write.
    pub buffer: Option<Buffer>,
}

/// How long a turn may wait when nothing has completed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until something completes or the doorbell rings.
    Event,
    /// As `Event`, but at most until this time since boot, in nanoseconds.
    Until(u64),
}

/// What an entry of a directory is. Symbolic links are never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Symlink,
    /// Anything else.
    Other,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, which may be any bytes.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

/// What a stat says of a name. Symbolic links are never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: EntryKind,
    /// When it last changed, wall ms: for a directory, when a name in it came or went, or it was moved itself. 0 is unknown.
    pub ctime_ms: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Room on the file system below the root, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What may still be allocated; what is kept for the superuser does not count.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// Storage below one root directory, owned by one thread. Clones share it.
///
/// `start` never blocks and never fails at once: failures arrive as outcomes, in [`Disk::turn`].
/// Completions may arrive in any order. Two writes in flight must not touch the same block.
pub trait Disk: Clone + 'static {
    /// Starts one operation; it is submitted at the next turn at the latest.
    fn start(&self, operation: Operation) -> InFlight;

    /// Submits what was started, waits as told, and completes what has finished, waking its futures.
    ///
    /// # Errors
    /// The ring itself failed; nothing further will complete.
    fn turn(&self, wait: Wait) -> Result<(), DiskError>;

    /// The last flush that failed since this was asked before, in the turns so far. Whoever turns the disk asks behind each turn: of several
    /// answers that came together a good flush may be taken up first, and what it covered may have gone with the one that failed.
    fn take_failed_flush(&self) -> Option<DiskError>;

    /// The root directory.
    fn root(&self) -> Directory;

    /// Lists a directory in name order. Blocks: for opening and sweeping only.
    ///
    /// # Errors
    /// What the file system answered.
    fn list(&self, directory: &Directory) -> Result<Vec<Entry>, DiskError>;

    /// What a name in a directory stands for, and since when. Blocks, for one look at an inode.
    ///
    /// # Errors
    /// What the file system answered.
    fn stat(&self, directory: &Directory, name: &Name) -> Result<Stat, DiskError>;

    /// Room on the file system. Blocks for a moment: for opening, and for the thread that removes files.
    ///
    /// # Errors
    /// What the file system answered.
    fn space(&self) -> Result<Space, DiskError>;

    /// How many files and directories it has open.
    fn handles(&self) -> Handles;

    /// The buffers of this disk.
    fn pool(&self) -> &Pool;

    /// Reads both clocks.
    fn now(&self) -> Now;

    /// 128 random bits, for uids.
    fn random(&self) -> u128;

    /// The doorbell that wakes a waiting turn.
    fn doorbell(&self) -> Doorbell;

    /// What this disk found out about its host.
    fn capabilities(&self) -> Rc<Capabilities>;

    /// Operations started and not yet completed (waits included).
    fn in_flight(&self) -> usize;
}
