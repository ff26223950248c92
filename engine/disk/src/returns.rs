//! Returns: the pieces of an arena that other threads have given back, until the thread of the pool takes them.
//!
//! It deals nothing and touches no byte of the arena. It is a stack whose links stand in a table beside the arena, one for
//! each block: giving back allocates nothing, and nobody ever waits. In a queue of slots, a reader that is put off the
//! processor between claiming its slot and filling it would hold up the thread of the pool, which serves the appends.
//!
//! Worked example. The pieces at blocks 3 and 8 are given back in this order: `links[3]` = nothing, `links[8]` = 3, `last` = 8.
//! Whoever takes all puts nothing into `last` and follows the links. Only the whole stack is ever taken, so a `last` that
//! was seen before may well have been taken and given back since: its link is right either way.

use crate::buffer::BLOCK;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A piece of an arena: `BLOCK << class` bytes from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) class: usize,
}

impl Piece {
    pub(crate) fn bytes(self) -> usize {
        BLOCK << self.class
    }

    /// A class is the logarithm of a number of blocks, so it fits into 8 bits, and a block's number into the rest.
    fn to_bits(self) -> u64 {
        ((self.start / BLOCK) as u64) << 8 | self.class as u64
    }

    fn from_bits(bits: u64) -> Option<Piece> {
        (bits != NOTHING).then(|| Piece { start: (bits >> 8) as usize * BLOCK, class: (bits & 0xff) as usize })
    }
}

/// The end of the stack. No piece has so large a class.
const NOTHING: u64 = u64::MAX;

/// What was given back to an arena and not yet taken.
#[derive(Debug)]
pub(crate) struct Returns {
    last: AtomicU64,
    blocks: usize,
    /// For the block that a piece starts with, the piece that was given back before it. An arena of which nothing is ever
    /// shared has none.
    links: OnceLock<Box<[AtomicU64]>>,
}

impl Returns {
    /// For an arena of so many bytes.
    pub(crate) fn new(bytes: usize) -> Returns {
        Returns { last: AtomicU64::new(NOTHING), blocks: bytes / BLOCK, links: OnceLock::new() }
    }

    /// Makes the table of links now, so that no later giver has to.
    pub(crate) fn prepare(&self) -> &[AtomicU64] {
        self.links.get_or_init(|| (0..self.blocks).map(|_| AtomicU64::new(NOTHING)).collect())
    }

    /// Gives a piece back. The caller owned it, and reads it no more.
    pub(crate) fn give(&self, piece: Piece) {
        let link = &self.prepare()[piece.start / BLOCK];
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            link.store(last, Ordering::Relaxed);
            // Release: what the caller read of the piece, and the link, come before whoever takes it. The givers of one stack
            // follow each other with read-modify-writes, so taking the last of them takes all of them.
            match self.last.compare_exchange_weak(last, piece.to_bits(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    /// Takes all that was given back. One thread at a time only: that of the pool.
    pub(crate) fn take_all(&self, mut take: impl FnMut(Piece)) {
        // Looked at first, since a plain load costs next to nothing and there is nothing to take most of the time.
        if self.last.load(Ordering::Relaxed) == NOTHING {
            return;
        }
        let links = self.prepare();
        let mut next = Piece::from_bits(self.last.swap(NOTHING, Ordering::Acquire));
        while let Some(piece) = next {
            // Before the piece is taken: it may be dealt, shared and given back again at once.
            next = Piece::from_bits(links[piece.start / BLOCK].load(Ordering::Relaxed));
            take(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    fn taken(returns: &Returns) -> Vec<usize> {
        let mut taken = Vec::new();
        returns.take_all(|piece| taken.push(piece.start / BLOCK));
        taken
    }

    #[test]
    fn what_is_given_is_taken_once_the_last_first() {
        let returns = Returns::new(16 * BLOCK);
        assert_eq!(taken(&returns), []);
        for block in [3, 8, 0, 15] {
            returns.give(Piece { start: block * BLOCK, class: 0 });
        }
        assert_eq!(taken(&returns), [15, 0, 8, 3]);
        assert_eq!(taken(&returns), []);
    }

    #[test]
    fn a_piece_keeps_its_place_and_class() {
        for piece in
            [Piece { start: 0, class: 0 }, Piece { start: BLOCK, class: 22 }, Piece { start: 1 << 40, class: 7 }]
        {
            assert_eq!(Piece::from_bits(piece.to_bits()), Some(piece));
        }
        assert_eq!(Piece::from_bits(NOTHING), None);
    }

    #[test]
    fn a_piece_may_be_given_back_while_the_others_are_being_taken() {
        let returns = Returns::new(4 * BLOCK);
        for block in 0..3 {
            returns.give(Piece { start: block * BLOCK, class: 0 });
        }
        let mut seen = Vec::new();
        returns.take_all(|piece| {
            seen.push(piece.start / BLOCK);
            returns.give(piece);
        });
        assert_eq!((seen, taken(&returns)), (vec![2, 1, 0], vec![0, 1, 2]));
    }

    /// Stops the givers also when the taker panics, which would otherwise wait for them.
    struct End<'a>(&'a AtomicBool);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn of_what_many_threads_give_back_nothing_is_lost_or_taken_twice() {
        const THREADS: usize = 4;
        const PIECES: usize = 8;
        const ROUNDS: usize = 2_000;
        let returns = Returns::new(THREADS * PIECES * BLOCK);
        // Whether a piece is with its giver: handing it over orders what was done before, as handing over a buffer does.
        let held: Vec<AtomicBool> = (0..THREADS * PIECES).map(|_| AtomicBool::new(true)).collect();
        let over = AtomicBool::new(false);
        let give = &|thread: usize| {
            for block in (0..ROUNDS).flat_map(|_| thread * PIECES..(thread + 1) * PIECES) {
                while !held[block].swap(false, Ordering::Acquire) {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::yield_now();
                }
                returns.give(Piece { start: block * BLOCK, class: 0 });
            }
        };
        let mut all = 0;
        std::thread::scope(|scope| {
            let _end = End(&over);
            (0..THREADS).for_each(|thread| drop(scope.spawn(move || give(thread))));
            let started = Instant::now();
            while all < THREADS * PIECES * ROUNDS && started.elapsed() < Duration::from_secs(60) {
                returns.take_all(|piece| {
                    all += 1;
                    assert!(!held[piece.start / BLOCK].swap(true, Ordering::Release), "taken twice");
                });
                std::thread::yield_now();
            }
        });
        assert_eq!((all, taken(&returns)), (THREADS * PIECES * ROUNDS, Vec::new()));
    }
}
