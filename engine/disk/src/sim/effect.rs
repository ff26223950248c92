//! An effect: an operation as plain data, so that it outlives the process that started it and can be copied with the world.

use super::names::Inode;
use crate::disk::{Access, OpenFile};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A name in a directory.
pub(super) type Place = (Inode, Arc<str>);

/// What an operation will do to the world when it lands.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Write(Write),
    Read { file: Inode, position: u64, length: usize, direct: bool },
    Sync { file: Inode, direct: bool },
    Barrier { file: Inode, direct: bool },
    Allocate { file: Inode, length: u64 },
    WriteZeroes { file: Inode, from: u64, length: u64 },
    Truncate { file: Inode, length: u64 },
    Open { at: Place, how: OpenFile, access: Access },
    OpenDirectory { at: Place },
    CreateDirectory { at: Place },
    SyncDirectory { directory: Inode },
    Rename { from: Place, to: Place },
    Unlink { at: Place },
    RemoveDirectory { at: Place },
    Sleep { due_ns: u64 },
}

/// A write. It holds a copy of its bytes: the buffer dies with the process, the write need not.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) file: Inode,
    pub(super) position: u64,
    pub(super) bytes: Rc<[u8]>,
    pub(super) durable: bool,
    pub(super) direct: bool,
}

impl Write {
    pub(super) fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}

impl Effect {
    /// True for what changes the world and may therefore land after its process has died.
    pub(super) fn may_outlive_its_process(&self) -> bool {
        !matches!(self, Effect::Read { .. } | Effect::OpenDirectory { .. } | Effect::Sleep { .. })
            && !matches!(self, Effect::Open { how: OpenFile::Existing, .. })
    }

    /// The file whose bytes it needs.
    pub(super) fn file(&self) -> Option<Inode> {
        match self {
            Effect::Write(Write { file, .. })
            | Effect::Read { file, .. }
            | Effect::Sync { file, .. }
            | Effect::Barrier { file, .. }
            | Effect::Allocate { file, .. }
            | Effect::WriteZeroes { file, .. }
            | Effect::Truncate { file, .. } => Some(*file),
            _ => None,
        }
    }

    /// The numbers that tell it from another of the same verb, for the trace.
    pub(super) fn numbers(&self) -> (u64, u64) {
        match self {
            Effect::Write(write) => (write.position, super::trace::digest(&write.bytes) ^ u64::from(write.durable)),
            Effect::Read { position, length, .. } => (*position, *length as u64),
            Effect::Allocate { length, .. } | Effect::Truncate { length, .. } => (*length, 0),
            Effect::WriteZeroes { from, length, .. } => (*length, *from),
            Effect::Rename { to: (directory, name), .. } => {
                (u64::from(directory.0), super::trace::digest(name.as_bytes()))
            }
            Effect::Sleep { due_ns } => (*due_ns, 0),
            _ => (0, 0),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Write(write) => {
                let how = if write.durable { " durably" } else { "" };
                write!(f, " at {}..{}{how}", write.position, write.end())
            }
            Effect::Read { position, length, .. } => write!(f, " at {position}..{}", position + *length as u64),
            Effect::Allocate { length, .. } | Effect::Truncate { length, .. } => write!(f, " to {length}"),
            Effect::WriteZeroes { from, length, .. } => write!(f, " at {from}..{}", from + length),
            Effect::Rename { to: (directory, name), .. } => write!(f, " to {name} in directory {}", directory.0),
            Effect::Sleep { due_ns } => write!(f, " until {due_ns}"),
            _ => Ok(()),
        }
    }
}
