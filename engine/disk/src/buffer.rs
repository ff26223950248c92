//! Buffers: block-aligned pieces of one arena, dealt out in powers of two and given back when dropped.
//!
//! Invariant 3, cited by the unsafe code: **one owner.** The pool deals every byte of the arena to at most one live
//! [`Buffer`]. One that is shared becomes a [`SharedBuffer`], which many may read and nobody writes, and its piece is dealt
//! again only after that was dropped. The memory lives as long as any of them.

use crate::memory::Memory;
use crate::returns::Piece;
use crate::shared_buffer::SharedBuffer;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

/// The block: what direct I/O is aligned to, in bytes. The disk refuses a device that needs more.
pub const BLOCK: usize = 4096;

/// The arena and what is free of it. Clones share it.
#[derive(Clone)]
pub struct Pool(Rc<Inner>);

struct Inner {
    start: NonNull<u8>,
    length: usize,
    largest: usize,
    free: RefCell<Free>,
    /// Bytes of the pieces that are shared, or were given back and not yet taken.
    lent: Cell<usize>,
    memory: Arc<Memory>,
}

/// Free pieces by size class: `pieces[k]` holds the starts of free pieces of `BLOCK << k` bytes.
struct Free {
    pieces: Vec<BTreeSet<usize>>,
    bytes: usize,
}

impl Pool {
    /// Maps an arena of `length` bytes (rounded down to a power of two of blocks), with huge pages where they are to be
    /// had, and kept out of forked children.
    ///
    /// # Errors
    /// What `mmap` answered.
    pub fn new(length: usize) -> std::io::Result<Pool> {
        let blocks = (length / BLOCK).max(1);
        let class = blocks.ilog2() as usize;
        let length = BLOCK << class;
        let memory = Arc::new(Memory::map(length)?);
        let mut pieces = vec![BTreeSet::new(); class + 1];
        pieces[class].insert(0);
        let free = RefCell::new(Free { pieces, bytes: length });
        let (start, lent) = (memory.start(), Cell::new(0));
        Ok(Pool(Rc::new(Inner { start, length, largest: length, free, lent, memory })))
    }

    /// Deals a buffer of `length` bytes (not zeroed), or `None` while too much is in use.
    #[must_use]
    pub fn take(&self, length: usize) -> Option<Buffer> {
        self.take_returned();
        let class = class_of(length);
        let mut free = self.0.free.borrow_mut();
        let from = (class..free.pieces.len()).find(|&class| !free.pieces[class].is_empty())?;
        let start = free.pieces[from].pop_first()?;
        Some(self.cut(&mut free, from, start, class, length))
    }

    /// As [`Pool::take`], from the upper half of the arena only: for what may be held long. However much of that is held, in whatever
    /// places, the lower half stays for what comes back soon, and any buffer of up to half of the arena is dealt again.
    #[must_use]
    pub fn take_upper(&self, length: usize) -> Option<Buffer> {
        self.take_returned();
        let (class, half) = (class_of(length), self.0.length / 2);
        let mut free = self.0.free.borrow_mut();
        let all = free.pieces.len() - 1;
        let highest = |from: usize| Some((from, *free.pieces[from].last()?));
        let upper = (class..all).filter_map(highest).find(|(_, start)| *start >= half);
        let (from, start) = match upper {
            Some((from, start)) => {
                free.pieces[from].remove(&start);
                (from, start)
            }
            None if class < all && free.pieces[all].remove(&0) => {
                free.pieces[all - 1].insert(0);
                (all - 1, half)
            }
            None => return None,
        };
        Some(self.cut(&mut free, from, start, class, length))
    }

    /// Cuts a piece of class `from` down to one of `class`.
    fn cut(&self, free: &mut Free, from: usize, start: usize, class: usize, length: usize) -> Buffer {
        for split in (class..from).rev() {
            free.pieces[split].insert(start + (BLOCK << split));
        }
        free.bytes -= BLOCK << class;
        Buffer { pool: self.clone(), start, length, class: class as u32, shared: false }
    }

    /// The largest buffer that could be dealt were nothing in use.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.0.largest
    }

    /// Bytes not dealt out.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.take_returned();
        self.0.free.borrow().bytes
    }

    /// Bytes that the holders of [`SharedBuffer`]s keep from the arena: whole pieces, so more than they can read.
    #[must_use]
    pub fn lent_bytes(&self) -> usize {
        self.take_returned();
        self.0.lent.get()
    }

    /// Takes what the holders of shared buffers have given back. While nothing is lent this is one look at a number.
    #[inline]
    fn take_returned(&self) {
        if self.0.lent.get() > 0 {
            self.take_all_returned();
        }
    }

    /// Apart, so that an append that meets no shared buffer does not pay for it.
    #[cold]
    fn take_all_returned(&self) {
        self.0.memory.returns().take_all(|piece| {
            self.0.lent.set(self.0.lent.get() - piece.bytes());
            self.give_back(piece.start, piece.class);
        });
    }

    /// Start and length of the arena, for registering it with a ring.
    #[must_use]
    pub fn arena(&self) -> (NonNull<u8>, usize) {
        (self.0.start, self.0.length)
    }

    fn give_back(&self, mut start: usize, mut class: usize) {
        let mut free = self.0.free.borrow_mut();
        free.bytes += BLOCK << class;
        while class + 1 < free.pieces.len() {
            let buddy = start ^ (BLOCK << class);
            if !free.pieces[class].remove(&buddy) {
                break;
            }
            start = start.min(buddy);
            class += 1;
        }
        free.pieces[class].insert(start);
    }
}

/// The smallest class whose pieces hold `length` bytes.
fn class_of(length: usize) -> usize {
    length.div_ceil(BLOCK).max(1).next_power_of_two().ilog2() as usize
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} of {} bytes free)", self.free_bytes(), self.0.length)
    }
}

/// A block-aligned piece of the arena. Its bytes are whatever its last owner left: fill it, or zero it.
pub struct Buffer {
    pool: Pool,
    start: usize,
    length: usize,
    /// Narrow, so that the flag beside it makes no buffer larger: operations carry them about.
    class: u32,
    /// Its piece went to a [`SharedBuffer`].
    shared: bool,
}

impl Buffer {
    /// Makes it readable for everybody, on any thread, and writable for nobody. Costs no copy and no allocation. All of its
    /// length can then be read, so first set that to what was filled: the rest is what the last owner left.
    #[must_use]
    pub fn share(mut self) -> SharedBuffer {
        let inner = &self.pool.0;
        let piece = Piece { start: self.start, class: self.class as usize };
        // Made by the thread of the pool, once, so that no reader ever allocates.
        inner.memory.returns().prepare();
        inner.lent.set(inner.lent.get() + piece.bytes());
        let shared = SharedBuffer::new(inner.memory.clone(), piece, self.length);
        self.shared = true;
        shared
    }

    /// Changes its length, within what its piece holds.
    ///
    /// # Panics
    /// When `length` is more than [`Buffer::capacity`].
    pub fn set_length(&mut self, length: usize) {
        assert!(length <= self.capacity(), "a buffer of {} bytes cannot hold {length}", self.capacity());
        self.length = length;
    }

    /// The bytes that its piece holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        BLOCK << self.class
    }

    fn pointer(&self) -> NonNull<u8> {
        // SAFETY: `start` lies inside the arena, by invariant 3.
        unsafe { self.pool.0.start.add(self.start) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: invariant 3: this buffer alone owns `length` initialised bytes (an anonymous map is born zeroed) from here.
        // The kernel writes to them only while an operation owns the buffer (invariant 1), when no reference can exist.
        unsafe { std::slice::from_raw_parts(self.pointer().as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the reference the only one.
        unsafe { std::slice::from_raw_parts_mut(self.pointer().as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.shared {
            self.pool.give_back(self.start, self.class as usize);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {})", self.length, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_given_back_can_be_dealt_again_as_one_piece() {
        let pool = Pool::new(64 * BLOCK).expect("a small map");
        let buffers: Vec<_> = (0..64).map(|_| pool.take(BLOCK).expect("room")).collect();
        assert!(pool.take(1).is_none());
        drop(buffers);
        assert_eq!(pool.take(64 * BLOCK).expect("all of it").len(), 64 * BLOCK);
    }

    #[test]
    fn what_is_held_long_never_takes_the_lower_half() {
        let pool = Pool::new(64 * BLOCK).expect("a small map");
        assert!(pool.take_upper(64 * BLOCK).is_none() && pool.take_upper(33 * BLOCK).is_none());
        let held: Vec<_> = std::iter::from_fn(|| pool.take_upper(3 * BLOCK)).collect();
        assert_eq!(held.len(), 8);
        let lower = pool.take(32 * BLOCK).expect("half of the arena");
        assert!(pool.take_upper(1).is_none() && pool.take(1).is_none());
        drop((held, lower));
        assert_eq!(pool.take(64 * BLOCK).expect("all of it").len(), 64 * BLOCK);
    }

    proptest! {
        #[test]
        fn however_the_upper_half_is_held_the_lower_one_is_dealt_again(
            sizes in proptest::collection::vec((1usize..20_000, any::<u8>(), any::<bool>()), 1..80),
        ) {
            let pool = Pool::new(64 * BLOCK).expect("a small map");
            let (mut long, mut short): (Vec<Buffer>, Vec<Buffer>) = Default::default();
            for (size, which, is_long) in sizes {
                let (held, buffer) =
                    if is_long { (&mut long, pool.take_upper(size)) } else { (&mut short, pool.take(size)) };
                held.extend(buffer);
                if which % 3 == 0 && !held.is_empty() {
                    held.swap_remove(usize::from(which) % held.len());
                }
            }
            short.clear();
            prop_assert!(pool.take(32 * BLOCK).is_some());
            long.clear();
            prop_assert_eq!(pool.free_bytes(), 64 * BLOCK);
            prop_assert!(pool.take(64 * BLOCK).is_some());
        }

        #[test]
        fn no_two_buffers_share_a_byte(sizes in proptest::collection::vec((1usize..40_000, any::<bool>()), 1..60)) {
            let pool = Pool::new(64 * BLOCK).expect("a small map");
            let mut held: Vec<(u8, Buffer)> = Vec::new();
            for (mark, (size, drop_one)) in sizes.into_iter().enumerate() {
                if drop_one && !held.is_empty() {
                    held.swap_remove(mark % held.len());
                }
                if let Some(mut buffer) = pool.take(size) {
                    buffer.fill(mark as u8);
                    held.push((mark as u8, buffer));
                }
            }
            for (mark, buffer) in &held {
                prop_assert!(buffer.iter().all(|byte| byte == mark));
                prop_assert_eq!(buffer.as_ptr() as usize % BLOCK, 0);
            }
            held.clear();
            prop_assert_eq!(pool.free_bytes(), 64 * BLOCK);
        }
    }
}
