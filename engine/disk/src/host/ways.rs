//! Ways: how files and directories are opened and what may be moved, the same over a ring and over plain calls.

use crate::buffer::Buffer;
use crate::disk::OpenFile;
use crate::position::Position;
use rustix::fs::{FileType, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ops::Range;

/// Nothing on the way may lead elsewhere.
pub(crate) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Never O_NONBLOCK: on some file systems the ring would then answer EAGAIN where a transfer has to wait.
const FILE: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The mode of a new file, and of a new directory.
pub(crate) const FILE_MODE: u32 = 0o600;
pub(crate) const DIRECTORY_MODE: u32 = 0o700;

/// How a directory is opened.
pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How a file is opened.
pub(crate) const fn file(how: OpenFile, direct: bool) -> OFlags {
    let flags = match how {
        OpenFile::Existing => FILE,
        OpenFile::New => FILE.union(OFlags::CREATE).union(OFlags::EXCL),
    };
    if direct { flags.union(OFlags::DIRECT) } else { flags }
}

/// How an existing file is opened where its file system has become read-only: what is in it can be read all the same.
pub(crate) const fn file_to_read(direct: bool) -> OFlags {
    let flags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
    if direct { flags.union(OFlags::DIRECT) } else { flags }
}

/// A file of ours that nobody can reach under another name, nor have swapped for something else than a file.
pub(crate) fn check_file(stat: &Stat) -> Result<(), Errno> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::PERM);
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    if stat.st_nlink != 1 {
        return Err(Errno::MLINK);
    }
    Ok(())
}

/// The part of a buffer that is to be moved to or from `position`.
pub(crate) fn part<'buffer>(
    buffer: &'buffer mut Buffer,
    span: &Range<usize>,
    position: Position,
) -> Result<&'buffer mut [u8], Errno> {
    // The largest numbers are not positions: the kernel would take them for "where the file stands".
    if i64::try_from(position.0).is_err() {
        return Err(Errno::INVAL);
    }
    buffer.get_mut(span.clone()).ok_or(Errno::INVAL)
}
