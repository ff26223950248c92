//! How each operation is put to the kernel, and how the kernel's answer is read. Submits nothing itself.

use super::arena::Arena;
use super::descriptors::{Descriptors, Target};
use crate::buffer::Buffer;
use crate::disk::{Access, OpenFile, Operation, Success};
use crate::handle::{Directory, File};
use crate::host::direct::WRITE_ZEROES;
use crate::host::ways::{self, BENEATH, DIRECTORY_MODE, FILE_MODE};
use crate::name::Name;
use crate::position::Position;
use crate::slot::Token;
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags, OpenHow, TimeoutFlags, Timespec};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ops::Range;

/// Completions with these numbers are the ring's own. No token has generation 0, so none has such a number.
pub(super) const DOORBELL: u64 = 1;
pub(super) const CANCEL: u64 = 2;

/// The kernel moves at most this many bytes at once.
const TRANSFER_MAX: usize = 0x7fff_f000;

/// RWF_DSYNC: the write answers when it is on stable storage.
const DURABLE: i32 = libc::RWF_DSYNC;

/// Times of the sleeps in flight, each at an address of its own until its completion was seen.
pub(super) type Sleeps = HashMap<Token, Box<Timespec>>;

/// What an operation is put together from.
pub(super) struct Parts<'disk> {
    pub descriptors: &'disk Descriptors,
    pub arena: &'disk Arena,
    pub truncates: bool,
    pub direct: bool,
    pub sleeps: &'disk mut Sleeps,
}

/// An operation, ready.
pub(super) enum Prepared {
    /// To be submitted. What it points to belongs to the operation, to [`Sleeps`] or to the program (invariant 1).
    Submit(Entry),
    /// Answered without the ring.
    Answer(Result<Success, Errno>),
}

/// Puts an operation to the kernel's terms.
pub(super) fn prepare(operation: &mut Operation, token: Token, parts: Parts<'_>) -> Prepared {
    if let Operation::Truncate { file, length } = operation
        && !parts.truncates
    {
        return Prepared::Answer(truncate(parts.descriptors, file, *length));
    }
    match entry(operation, token, parts) {
        Ok(entry) => Prepared::Submit(entry.user_data(token.to_bits())),
        Err(errno) => Prepared::Answer(Err(errno)),
    }
}

fn truncate(descriptors: &Descriptors, file: &File, length: u64) -> Result<Success, Errno> {
    let descriptor = descriptors.descriptor(file.number()).ok_or(Errno::BADF)?;
    rustix::fs::ftruncate(descriptor, length).map(|()| Success::Done)
}

fn entry(operation: &mut Operation, token: Token, parts: Parts<'_>) -> Result<Entry, Errno> {
    let at = parts.descriptors;
    Ok(match operation {
        Operation::Write { file, buffer, span, position, durable } => {
            let part = transfer(buffer, span, *position, parts.arena)?;
            let flags = if *durable { DURABLE } else { 0 };
            on_file(at, file, |fd| part.write(fd, flags))?
        }
        Operation::Read { file, buffer, span, position } => {
            let part = transfer(buffer, span, *position, parts.arena)?;
            on_file(at, file, |fd| part.read(fd))?
        }
        // What else a barrier covers is the file system's doing; where it does none of it, the report forbids barriers.
        Operation::Sync { file } | Operation::Barrier { file } => {
            on_file(at, file, |fd| opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build())?
        }
        Operation::Allocate { file, length } => on_file(at, file, |fd| opcode::Fallocate::new(fd, *length).build())?,
        Operation::WriteZeroes { file, from, length } => on_file(at, file, |fd| {
            opcode::Fallocate::new(fd, *length).offset(from.0).mode(WRITE_ZEROES as i32).build()
        })?,
        Operation::Truncate { file, length } => on_file(at, file, |fd| opcode::Ftruncate::new(fd, *length).build())?,
        Operation::Open { directory, name, how, access } => {
            let how = open_how(*how, *access == Access::Auto && parts.direct);
            opcode::OpenAt2::new(in_directory(at, directory)?, pointer(name), how).build()
        }
        Operation::OpenDirectory { directory, name } => {
            opcode::OpenAt2::new(in_directory(at, directory)?, pointer(name), &OPEN_DIRECTORY).build()
        }
        Operation::CreateDirectory { directory, name } => {
            opcode::MkDirAt::new(in_directory(at, directory)?, pointer(name)).mode(DIRECTORY_MODE).build()
        }
        // A full sync: a directory's names are all that it has, and data-only may leave some of them out.
        Operation::SyncDirectory { directory } => opcode::Fsync::new(in_directory(at, directory)?).build(),
        Operation::Rename { from, from_name, to, to_name } => {
            let (from, to) = (in_directory(at, from)?, in_directory(at, to)?);
            opcode::RenameAt::new(from, pointer(from_name), to, pointer(to_name)).build()
        }
        Operation::Unlink { directory, name } => {
            opcode::UnlinkAt::new(in_directory(at, directory)?, pointer(name)).build()
        }
        Operation::RemoveDirectory { directory, name } => {
            let flags = AtFlags::REMOVEDIR.bits() as i32;
            opcode::UnlinkAt::new(in_directory(at, directory)?, pointer(name)).flags(flags).build()
        }
        Operation::Sleep { duration } => {
            let time = parts.sleeps.entry(token).insert_entry(Box::new(Timespec::from(*duration))).into_mut();
            opcode::Timeout::new(&raw const **time).flags(TimeoutFlags::BOOTTIME).build()
        }
    })
}

/// Builds an entry on a file, by its slot in the ring's file table where it has one.
fn on_file(descriptors: &Descriptors, file: &File, build: impl FnOnce(Fd) -> Entry) -> Result<Entry, Errno> {
    match descriptors.target(file.number()) {
        Some(Target::Slot(slot)) => Ok(build(Fd(slot as i32)).flags(Flags::FIXED_FILE)),
        Some(Target::Plain(descriptor)) => Ok(build(Fd(descriptor))),
        None => Err(Errno::BADF),
    }
}

fn in_directory(descriptors: &Descriptors, directory: &Directory) -> Result<Fd, Errno> {
    let descriptor = descriptors.descriptor(directory.number()).ok_or(Errno::BADF)?;
    Ok(Fd(descriptor.as_raw_fd()))
}

/// A name as the kernel reads it: on the heap, where it stays while the operation lives (invariant 1).
fn pointer(name: &Name) -> *const libc::c_char {
    name.as_c_str().as_ptr()
}

/// The part of a buffer that is moved, and the registered buffer that it lies in.
struct Part {
    pointer: *mut u8,
    length: u32,
    registered: Option<u16>,
    position: u64,
}

/// Checks a transfer. What the kernel would refuse to move at once is cut off: a short transfer is legal.
fn transfer(buffer: &mut Buffer, span: &Range<usize>, position: Position, arena: &Arena) -> Result<Part, Errno> {
    let bytes = ways::part(buffer, span, position)?;
    let piece = arena.piece_of(bytes.as_ptr() as usize);
    let length = bytes.len().min(TRANSFER_MAX).min(piece.map_or(usize::MAX, |(_, left)| left));
    let registered = piece.map(|(index, _)| index);
    Ok(Part { pointer: bytes.as_mut_ptr(), length: length as u32, registered, position: position.0 })
}

impl Part {
    fn write(&self, fd: Fd, flags: i32) -> Entry {
        let Part { pointer, length, registered, position } = *self;
        match registered {
            Some(index) => {
                let entry = opcode::WriteFixed::new(fd, pointer, length, index);
                entry.offset(position).rw_flags(flags).build()
            }
            None => opcode::Write::new(fd, pointer, length).offset(position).rw_flags(flags).build(),
        }
    }

    fn read(&self, fd: Fd) -> Entry {
        let Part { pointer, length, registered, position } = *self;
        match registered {
            Some(index) => opcode::ReadFixed::new(fd, pointer, length, index).offset(position).build(),
            None => opcode::Read::new(fd, pointer, length).offset(position).build(),
        }
    }
}

static OPEN_EXISTING: OpenHow = how(ways::file(OpenFile::Existing, false), 0);
static OPEN_EXISTING_DIRECT: OpenHow = how(ways::file(OpenFile::Existing, true), 0);
static OPEN_NEW: OpenHow = how(ways::file(OpenFile::New, false), FILE_MODE);
static OPEN_NEW_DIRECT: OpenHow = how(ways::file(OpenFile::New, true), FILE_MODE);
static OPEN_DIRECTORY: OpenHow = how(ways::DIRECTORY, 0);

const fn how(flags: OFlags, mode: u32) -> OpenHow {
    OpenHow::new().flags(flags.bits() as u64).mode(mode as u64).resolve(BENEATH.bits())
}

/// The few ways in which files are opened are statics, so their addresses are good for ever.
fn open_how(how: OpenFile, direct: bool) -> &'static OpenHow {
    match (how, direct) {
        (OpenFile::Existing, false) => &OPEN_EXISTING,
        (OpenFile::Existing, true) => &OPEN_EXISTING_DIRECT,
        (OpenFile::New, false) => &OPEN_NEW,
        (OpenFile::New, true) => &OPEN_NEW_DIRECT,
    }
}

/// What the kernel answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is done.
    Done,
    /// So many bytes were moved.
    Moved(usize),
    /// A file was opened; it is still to be looked at.
    File(OwnedFd, Access),
    /// A directory was opened.
    Directory(OwnedFd),
}

/// Reads the kernel's answer to `operation`. To be called once for each completion, since it takes the opened descriptor.
pub(super) fn answer(operation: &Operation, result: i32) -> Result<Answer, Errno> {
    let timed_out = -Errno::TIME.raw_os_error();
    if matches!(operation, Operation::Sleep { .. }) && result == timed_out {
        return Ok(Answer::Done);
    }
    if result < 0 {
        return Err(Errno::from_raw_os_error(-result));
    }
    Ok(match operation {
        Operation::Write { .. } | Operation::Read { .. } => Answer::Moved(result as usize),
        Operation::Open { access, .. } => Answer::File(opened(result), *access),
        Operation::OpenDirectory { .. } => Answer::Directory(opened(result)),
        _ => Answer::Done,
    })
}

fn opened(result: i32) -> OwnedFd {
    // SAFETY: the kernel made this descriptor for this completion, which is read once (invariant 2): nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(result) }
}
