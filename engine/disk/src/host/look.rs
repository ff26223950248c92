//! Looking at names past whoever carries operations out: what a directory holds, what kind each thing is, since when, and how a file begins.
//!
//! Nothing here writes, and no link is followed. A [`Look`] goes to any thread, so that who looks at ten thousand directories keeps no
//! shard from its work.

use super::root::RootLock;
use super::ways::{BENEATH, check_file};
use crate::buffer::BLOCK;
use crate::disk::{Entry, EntryKind, Stat};
use crate::error::{DiskError, Verb};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// A way to look at the root, from any thread.
#[derive(Clone, Debug)]
pub struct Look(Arc<RootLock>);

/// How much of a directory is listed by one system call.
const LISTED_BYTES: usize = 16 << 10;

impl Look {
    /// A look at the root that is locked.
    #[must_use]
    pub fn new(lock: Arc<RootLock>) -> Look {
        Look(lock)
    }

    /// What the root holds, in name order, with what a stat says of each. A name that vanishes meanwhile is left out.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn entries(&self) -> Result<Vec<(OsString, Stat)>, DiskError> {
        let root = self.0.directory();
        let listed = list(root).map_err(|errno| DiskError::new(Verb::List, ".", errno))?;
        let mut entries = Vec::with_capacity(listed.len());
        for Entry { name, .. } in listed {
            match stat(root, &*name) {
                Ok(stat) => entries.push((name, stat)),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(DiskError::new(Verb::Stat, name.to_string_lossy(), errno)),
            }
        }
        Ok(entries)
    }

    /// What stands at a path of plain names below the root.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn stat(&self, path: &[&OsStr]) -> Result<Stat, DiskError> {
        let Some((name, above)) = path.split_last() else { return Err(failed(Verb::Stat, path, Errno::INVAL)) };
        let looked = self.open(above).and_then(|directory| match &directory {
            Some(directory) => stat(directory.as_fd(), *name),
            None => stat(self.0.directory(), *name),
        });
        looked.map_err(|errno| failed(Verb::Stat, path, errno))
    }

    /// What a directory holds, at a path of plain names below the root.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn list(&self, path: &[&OsStr]) -> Result<Vec<Entry>, DiskError> {
        let listed = self.open(path).and_then(|directory| match &directory {
            Some(directory) => list_own(directory.as_fd()),
            None => list(self.0.directory()),
        });
        listed.map_err(|errno| failed(Verb::List, path, errno))
    }

    /// The first block of a regular file, at a path of plain names below the root; what a shorter file lacks is zero.
    ///
    /// # Errors
    /// What the file system answered; EPERM or EMLINK for what is no file of ours with one name.
    pub fn first_block(&self, path: &[&OsStr]) -> Result<Box<[u8; BLOCK]>, DiskError> {
        let read = || {
            // A pipe or a device is not waited for.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            let file = self.open_beneath(path, flags)?;
            check_file(&rustix::fs::fstat(&file)?)?;
            let (mut block, mut done) = (Box::new([0; BLOCK]), 0);
            while done < BLOCK {
                match rustix::io::pread(&file, &mut block[done..], done as u64) {
                    Ok(0) => break,
                    Ok(read) => done += read,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(block)
        };
        read().map_err(|errno| failed(Verb::Read, path, errno))
    }

    /// A directory below the root; none is the root itself.
    fn open(&self, path: &[&OsStr]) -> Result<Option<OwnedFd>, Errno> {
        match path {
            [] => Ok(None),
            path => self.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY).map(Some),
        }
    }

    fn open_beneath(&self, path: &[&OsStr], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = path.join(OsStr::new("/"));
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(self.0.directory(), path, flags, Mode::empty(), BENEATH)
    }
}

fn failed(verb: Verb, path: &[&OsStr], errno: Errno) -> DiskError {
    DiskError::new(verb, path.join(OsStr::new("/")).to_string_lossy(), errno)
}

/// The entries of a directory in name order, without `.` and `..`. Somebody else may list it at the same time.
pub(crate) fn list(directory: BorrowedFd<'_>) -> Result<Vec<Entry>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    list_own(own.as_fd())
}

/// The same of a directory that nobody else lists through this descriptor: it need not be opened once more.
pub(crate) fn list_own(directory: BorrowedFd<'_>) -> Result<Vec<Entry>, Errno> {
    // It may have been listed before.
    rustix::fs::seek(directory, SeekFrom::Start(0))?;
    let (mut entries, mut buffer) = (Vec::new(), [MaybeUninit::uninit(); LISTED_BYTES]);
    let mut listing = RawDir::new(directory, &mut buffer);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // A name that vanished meanwhile is left out.
        let Some(kind) = kind_of(directory, name, entry.file_type())? else { continue };
        entries.push(Entry { name: OsStr::from_bytes(name.to_bytes()).to_owned(), kind });
    }
    entries.sort();
    Ok(entries)
}

/// Some file systems leave the kind of an entry open; then it is asked for.
fn kind_of(directory: BorrowedFd<'_>, name: &CStr, told: FileType) -> Result<Option<EntryKind>, Errno> {
    match told {
        FileType::Unknown => match stat(directory, name) {
            Ok(stat) => Ok(Some(stat.kind)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        },
        told => Ok(Some(kind(told))),
    }
}

fn kind(told: FileType) -> EntryKind {
    match told {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

/// What a name stands for.
pub(crate) fn stat(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<Stat, Errno> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    // Before 1970, or past the end of time, is as good as unknown.
    let seconds = u64::try_from(stat.st_ctime).unwrap_or_default();
    let ctime_ms = seconds.checked_mul(1_000).unwrap_or_default().saturating_add(stat.st_ctime_nsec as u64 / 1_000_000);
    let bytes = u64::try_from(stat.st_size).unwrap_or_default();
    Ok(Stat { kind: kind(FileType::from_raw_mode(stat.st_mode)), ctime_ms, bytes })
}
