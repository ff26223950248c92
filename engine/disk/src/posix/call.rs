//! A call: an operation as it crosses to another thread, and how it is put to the kernel there. Blocks, and touches nothing that
//! belongs to the thread of the disk.

use super::loan::Loan;
use crate::disk::OpenFile;
use crate::host::ways;
use crate::name::Name;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSlice;
use std::sync::Arc;

/// A file or directory that is open at least until the call is over.
pub(super) type Held = Arc<OwnedFd>;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Call {
    Write {
        file: Held,
        part: Loan,
        position: u64,
        durable: bool,
    },
    Read {
        file: Held,
        part: Loan,
        position: u64,
    },
    /// fdatasync.
    SyncData {
        file: Held,
    },
    /// fsync: a directory's names are all that it has, and data-only may leave some of them out.
    SyncAll {
        directory: Held,
    },
    Allocate {
        file: Held,
        mode: FallocateFlags,
        from: u64,
        length: u64,
    },
    Truncate {
        file: Held,
        length: u64,
    },
    Open {
        directory: Held,
        name: Name,
        how: OpenFile,
        direct: bool,
    },
    OpenDirectory {
        directory: Held,
        name: Name,
    },
    CreateDirectory {
        directory: Held,
        name: Name,
    },
    Rename {
        from: Held,
        from_name: Name,
        to: Held,
        to_name: Name,
    },
    Unlink {
        directory: Held,
        name: Name,
        flags: AtFlags,
    },
    /// Something else, to see what becomes of it.
    #[cfg(test)]
    Try(fn() -> Result<Reply, Errno>),
}

/// What the kernel answered.
#[derive(Debug)]
pub(super) enum Reply {
    /// It is done.
    Done,
    /// So many bytes were moved.
    Moved(usize),
    /// A file of ours, as it should be, its length in bytes, and whether it may only be read.
    File(OwnedFd, u64, bool),
    /// A directory.
    Directory(OwnedFd),
}

impl Call {
    /// Whether it only reads or writes, and so may not wait behind what blocks for long.
    pub(super) fn is_transfer(&self) -> bool {
        matches!(self, Call::Write { .. } | Call::Read { .. })
    }

    /// Does it. Nothing of the call is left when this returns: neither a loan nor a descriptor.
    pub(super) fn carry_out(self) -> Result<Reply, Errno> {
        match self {
            Call::Write { file, part, position, durable: true } => {
                let parts = [IoSlice::new(part.bytes())];
                rustix::io::pwritev2(&file, &parts, position, ReadWriteFlags::DSYNC).map(Reply::Moved)
            }
            Call::Write { file, part, position, durable: false } => {
                rustix::io::pwrite(&file, part.bytes(), position).map(Reply::Moved)
            }
            Call::Read { file, mut part, position } => {
                rustix::io::pread(&file, part.bytes_mut(), position).map(Reply::Moved)
            }
            Call::SyncData { file } => done(rustix::fs::fdatasync(&file)),
            Call::SyncAll { directory } => done(rustix::fs::fsync(&directory)),
            Call::Allocate { file, mode, from, length } => done(rustix::fs::fallocate(&file, mode, from, length)),
            Call::Truncate { file, length } => done(rustix::fs::ftruncate(&file, length)),
            Call::Open { directory, name, how, direct } => open(&directory, &name, how, direct),
            Call::OpenDirectory { directory, name } => {
                open_beneath(&directory, &name, ways::DIRECTORY, 0).map(Reply::Directory)
            }
            Call::CreateDirectory { directory, name } => {
                let mode = Mode::from_raw_mode(ways::DIRECTORY_MODE);
                done(rustix::fs::mkdirat(&directory, name.as_c_str(), mode))
            }
            Call::Rename { from, from_name, to, to_name } => {
                done(rustix::fs::renameat(&from, from_name.as_c_str(), &to, to_name.as_c_str()))
            }
            Call::Unlink { directory, name, flags } => done(rustix::fs::unlinkat(&directory, name.as_c_str(), flags)),
            #[cfg(test)]
            Call::Try(tried) => tried(),
        }
    }
}

fn done(answered: Result<(), Errno>) -> Result<Reply, Errno> {
    answered.map(|()| Reply::Done)
}

fn open(directory: &OwnedFd, name: &Name, how: OpenFile, direct: bool) -> Result<Reply, Errno> {
    let mode = if how == OpenFile::New { ways::FILE_MODE } else { 0 };
    let (file, read_only) = match open_beneath(directory, name, ways::file(how, direct), mode) {
        Err(Errno::ROFS) if how == OpenFile::Existing => {
            (open_beneath(directory, name, ways::file_to_read(direct), 0)?, true)
        }
        opened => (opened?, false),
    };
    let stat = rustix::fs::fstat(&file)?;
    ways::check_file(&stat)?;
    Ok(Reply::File(file, stat.st_size as u64, read_only))
}

fn open_beneath(directory: &OwnedFd, name: &Name, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(directory, name.as_c_str(), flags, Mode::from_raw_mode(mode), ways::BENEATH)
}
