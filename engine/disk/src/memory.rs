//! Memory: the mapping that a pool deals from. It outlives the pool while other threads read pieces of it.

use crate::returns::Returns;
use memmap2::{Advice, MmapMut, MmapOptions};
use std::ptr::NonNull;

/// An anonymous mapping, and what of it was given back by other threads.
pub(crate) struct Memory {
    start: NonNull<u8>,
    length: usize,
    returns: Returns,
    /// Kept so that the memory outlives every buffer; never touched through this field.
    _map: MmapMut,
}

// SAFETY: the address by itself gives access to nothing. The bytes behind it are reached through a `Buffer`, which stays on the
// thread of its pool, or a `SharedBuffer`, which only reads; invariant 3 keeps the two apart. The rest is `Send`.
unsafe impl Send for Memory {}

// SAFETY: as for `Send`: no method of it reads or writes the mapping, and `Returns` is `Sync`.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `length` bytes, zeroed, with huge pages where they are to be had, and kept out of forked children.
    pub(crate) fn map(length: usize) -> std::io::Result<Memory> {
        let mut map = MmapOptions::new().len(length).map_anon()?;
        // Advice only: an arena on small pages, or copied into a child that never touches it, works as well.
        let _ = map.advise(Advice::HugePage);
        let _ = map.advise(Advice::DontFork);
        let start = NonNull::new(map.as_mut_ptr()).expect("a mapping is never at address 0");
        Ok(Memory { start, length, returns: Returns::new(length), _map: map })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn returns(&self) -> &Returns {
        &self.returns
    }
}
