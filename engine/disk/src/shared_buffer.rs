//! A buffer that callers may hold: read only, on any thread, for as long as they like. It knows no pool, only the memory.
//!
//! Until it is dropped, its piece is missing from the arena: [`crate::Pool::lent_bytes`] tells how much is, so that whoever
//! hands such buffers out can stop in time.

use crate::memory::Memory;
use crate::returns::Piece;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a [`crate::Buffer`] that was shared. They never change. Dropping it on any thread gives its piece back, without a
/// lock and without waiting; neither the pool nor its ring need be there any more.
///
/// In a forked child the memory is not mapped: there it must not be read.
pub struct SharedBuffer {
    memory: Arc<Memory>,
    piece: Piece,
    length: usize,
}

impl SharedBuffer {
    /// Takes over a piece that a buffer owned.
    pub(crate) fn new(memory: Arc<Memory>, piece: Piece, length: usize) -> SharedBuffer {
        debug_assert!(length <= piece.bytes() && piece.start + piece.bytes() <= memory.length());
        SharedBuffer { memory, piece, length }
    }

    /// The bytes that it keeps from the arena: its capacity, not its length.
    #[must_use]
    pub fn lent_bytes(&self) -> usize {
        self.piece.bytes()
    }
}

impl Deref for SharedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: invariant 3: the piece lies inside of the memory, which `self.memory` keeps mapped whatever became of pool and
        // ring; its bytes are initialised, and nobody writes them before `drop` has given the piece back, when no reference is
        // left. The kernel does not either: a buffer that is shared is in no operation (invariant 1), and there is no way back
        // from here to one that could be.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(self.piece.start).as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for SharedBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // What this thread has read comes before whatever the next owner writes: `give` releases, `take_all` acquires.
        self.memory.returns().give(self.piece);
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuffer({} of {} bytes at {})", self.length, self.piece.bytes(), self.piece.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{BLOCK, Buffer, Pool};
    use proptest::prelude::*;
    use std::sync::mpsc;

    fn filled(pool: &Pool, length: usize, byte: u8) -> Option<Buffer> {
        let mut buffer = pool.take(length)?;
        buffer.fill(byte);
        Some(buffer)
    }

    #[test]
    fn a_shared_buffer_may_go_to_any_thread() {
        fn on_any_thread<T: Send + Sync + 'static>() {}
        on_any_thread::<SharedBuffer>();
    }

    #[test]
    fn what_is_shared_is_missing_from_the_pool_until_it_is_dropped() {
        let pool = Pool::new(16 * BLOCK).expect("a small map");
        let shared = filled(&pool, 3 * BLOCK - 1, 7).expect("room").share();
        assert_eq!((shared.len(), shared.lent_bytes()), (3 * BLOCK - 1, 4 * BLOCK));
        assert!(shared.iter().all(|byte| *byte == 7));
        assert_eq!((pool.lent_bytes(), pool.free_bytes()), (4 * BLOCK, 12 * BLOCK));
        assert!(pool.take(16 * BLOCK).is_none());
        std::thread::spawn(move || drop(shared)).join().expect("no panic");
        assert_eq!(pool.take(16 * BLOCK).expect("all of it").len(), 16 * BLOCK, "a take finds it by itself");
        assert_eq!((pool.lent_bytes(), pool.free_bytes()), (0, 16 * BLOCK));
    }

    #[test]
    fn a_shared_buffer_outlives_its_pool() {
        let pool = Pool::new(16 * BLOCK).expect("a small map");
        let [one, two] = [1, 2].map(|byte| filled(&pool, BLOCK, byte).expect("room").share());
        drop(one);
        drop(pool);
        std::thread::spawn(move || assert_eq!(two[..], [2; BLOCK])).join().expect("no panic");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(usize),
        Share(usize),
        Drop(usize),
        DropShared(usize),
        Look,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1usize..40_000).prop_map(Step::Take),
            2 => any::<usize>().prop_map(Step::Share),
            1 => any::<usize>().prop_map(Step::Drop),
            2 => any::<usize>().prop_map(Step::DropShared),
            1 => Just(Step::Look),
        ]
    }

    proptest! {
        #[test]
        fn no_byte_of_a_shared_buffer_changes_and_every_piece_comes_back(steps in prop::collection::vec(step(), 1..120)) {
            let pool = Pool::new(64 * BLOCK).expect("a small map");
            let mut owned: Vec<(u8, Buffer)> = Vec::new();
            let mut shared: Vec<(u8, SharedBuffer)> = Vec::new();
            for (mark, step) in steps.into_iter().enumerate() {
                let mark = mark as u8;
                match step {
                    Step::Take(size) => owned.extend(filled(&pool, size, mark).map(|buffer| (mark, buffer))),
                    Step::Share(which) if !owned.is_empty() => {
                        let (mark, buffer) = owned.swap_remove(which % owned.len());
                        shared.push((mark, buffer.share()));
                    }
                    Step::Drop(which) if !owned.is_empty() => drop(owned.swap_remove(which % owned.len())),
                    Step::DropShared(which) if !shared.is_empty() => drop(shared.swap_remove(which % shared.len())),
                    Step::Look => {
                        let lent: usize = shared.iter().map(|(_, buffer)| buffer.lent_bytes()).sum();
                        let held: usize = owned.iter().map(|(_, buffer)| buffer.capacity()).sum();
                        prop_assert_eq!((pool.lent_bytes(), pool.free_bytes()), (lent, 64 * BLOCK - lent - held));
                    }
                    _ => {}
                }
            }
            prop_assert!(owned.iter().all(|(mark, buffer)| buffer.iter().all(|byte| byte == mark)));
            prop_assert!(shared.iter().all(|(mark, buffer)| buffer.iter().all(|byte| byte == mark)));
            owned.clear();
            shared.clear();
            prop_assert_eq!((pool.lent_bytes(), pool.free_bytes()), (0, 64 * BLOCK));
            prop_assert!(pool.take(64 * BLOCK).is_some(), "it is one piece again");
        }
    }

    /// Readers look twice at what they hold, with time between: a piece that were dealt again too early would show.
    #[test]
    fn threads_drop_buffers_while_the_owner_takes_them() {
        const READERS: usize = 3;
        const ROUNDS: usize = 6_000;
        let pool = Pool::new(64 * BLOCK).expect("a small map");
        std::thread::scope(|scope| {
            let readers: Vec<mpsc::Sender<(u8, SharedBuffer)>> = (0..READERS)
                .map(|_| {
                    let (sender, receiver) = mpsc::channel::<(u8, SharedBuffer)>();
                    scope.spawn(move || {
                        for (mark, buffer) in receiver {
                            assert!(buffer.iter().all(|byte| *byte == mark));
                            std::thread::yield_now();
                            assert!(buffer.iter().all(|byte| *byte == mark));
                        }
                    });
                    sender
                })
                .collect();
            let mut kept = Vec::new();
            for round in 0..ROUNDS {
                let (mark, length) = (round as u8, 1 + round * 977 % (4 * BLOCK));
                let Some(buffer) = filled(&pool, length, mark) else {
                    std::thread::yield_now();
                    continue;
                };
                match round % 5 {
                    0 if kept.len() < 8 => kept.push(buffer),
                    0 => kept.clear(),
                    _ => readers[round % READERS].send((mark, buffer.share())).expect("it reads"),
                }
                assert!(pool.lent_bytes() + pool.free_bytes() <= 64 * BLOCK);
            }
        });
        assert_eq!((pool.lent_bytes(), pool.free_bytes()), (0, 64 * BLOCK));
        assert!(pool.take(64 * BLOCK).is_some(), "it is one piece again");
    }
}
