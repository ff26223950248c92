//! Open descriptors by the numbers that handles carry, and which of them stand in the ring's file table.
//!
//! Numbers below the table's size are slots of the table; slot 0 is the lock's. Directories and what does not fit get higher
//! numbers and are used as plain descriptors.

use super::ring::Ring;
use crate::host::numbers::Numbers;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How an entry names its file to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A slot of the ring's file table.
    Slot(u32),
    /// A descriptor of the process.
    Plain(i32),
}

/// The table.
#[derive(Debug)]
pub(super) struct Descriptors {
    slots: Numbers<OwnedFd>,
    plain: Numbers<OwnedFd>,
}

impl Descriptors {
    /// A table beside a ring's file table of `slots` slots (0 for none).
    pub(super) fn new(slots: u32) -> Descriptors {
        Descriptors { slots: Numbers::new(1, slots), plain: Numbers::new(slots.max(1), u32::MAX) }
    }

    /// Takes in an open file, into the ring's file table while that has room; gives its number.
    pub(super) fn insert_file(&mut self, descriptor: OwnedFd, ring: &Ring) -> u32 {
        let Some(number) = self.slots.free() else { return self.insert_plain(descriptor) };
        if ring.update_file(number, Some(descriptor.as_fd())).is_err() {
            return self.insert_plain(descriptor);
        }
        self.slots.put(number, descriptor);
        number
    }

    /// Takes in a descriptor that is used as it is; gives its number.
    pub(super) fn insert_plain(&mut self, descriptor: OwnedFd) -> u32 {
        self.plain.insert(descriptor)
    }

    /// How to name `number` to the kernel, where a slot will do.
    pub(super) fn target(&self, number: u32) -> Option<Target> {
        if self.slots.get(number).is_some() {
            return Some(Target::Slot(number));
        }
        self.plain.get(number).map(|descriptor| Target::Plain(descriptor.as_raw_fd()))
    }

    /// The descriptor behind `number`, where only a descriptor will do.
    pub(super) fn descriptor(&self, number: u32) -> Option<BorrowedFd<'_>> {
        self.slots.get(number).or_else(|| self.plain.get(number)).map(AsFd::as_fd)
    }

    /// Closes `number`. Its last handle is gone, so no operation in flight uses it: each would hold a handle.
    pub(super) fn close(&mut self, number: u32, ring: &Ring) {
        if let Some(descriptor) = self.slots.take(number) {
            // On failure the slot keeps the file open until it is used again; the number is free all the same.
            let _ = ring.update_file(number, None);
            drop(descriptor);
        } else {
            drop(self.plain.take(number));
        }
    }
}
