//! The tail: the partly filled last block of a file that is appended to in whole blocks.
//!
//! Direct writes go in blocks of 4,096 bytes, appends do not. Each append writes the tail's block again, its kept bytes
//! identical, with the new bytes behind them. That is sound because a 512-byte sector is old or new, never a mixture:
//! with 1,000 bytes kept, sector 0 (bytes 0..512) is written with the same bytes, and sector 1 with its first 488 the same.
#![cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "what it lays is its own, and no bytes from a disk"))]

use crate::format::checksum::crc32c;
use strandline_disk::{BLOCK, Buffer, Pool, Position};

/// The end of what a file holds, and the bytes of the block that it falls in.
#[derive(Debug)]
pub struct Tail {
    end: Position,
    block: Box<[u8; BLOCK]>,
}

/// A buffer that starts with the kept bytes of a tail.
#[derive(Debug)]
pub struct Laid {
    /// The buffer: kept bytes, then room, then zeros up to the block boundary.
    pub buffer: Buffer,
    /// Where its first byte stands in the file: a block boundary.
    pub at: Position,
    /// How many of its bytes are kept ones; new bytes go behind them.
    pub kept: usize,
}

impl Tail {
    /// A tail that ends on a block boundary and so keeps nothing.
    ///
    /// # Panics
    /// When `end` is not on a block boundary.
    #[must_use]
    pub fn at_boundary(end: Position) -> Tail {
        assert_eq!(end, end.block_floor(BLOCK), "a tail that keeps bytes must be given them");
        Tail { end, block: Box::new([0; BLOCK]) }
    }

    /// A tail that ends at `end`; `block` holds the file's bytes from the block boundary before `end`.
    #[must_use]
    pub fn from_block(end: Position, block: &[u8]) -> Tail {
        let mut tail = Tail { end, block: Box::new([0; BLOCK]) };
        let kept = tail.kept();
        tail.block[..kept].copy_from_slice(&block[..kept]);
        tail
    }

    /// The position after the last byte.
    #[must_use]
    pub fn end(&self) -> Position {
        self.end
    }

    /// A checksum of the bytes that it keeps.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        crc32c(&self.block[..self.kept()])
    }

    fn kept(&self) -> usize {
        self.end.since(self.end.block_floor(BLOCK)) as usize
    }

    /// How large a buffer an append of `length` bytes takes.
    #[must_use]
    pub fn buffer_bytes(&self, length: usize) -> usize {
        (self.kept() + length).next_multiple_of(BLOCK)
    }

    /// Takes a buffer for an append of `length` bytes; `None` while the pool has none.
    #[must_use]
    pub fn lay(&self, pool: &Pool, length: usize) -> Option<Laid> {
        let kept = self.kept();
        let mut buffer = pool.take(self.buffer_bytes(length))?;
        buffer[..kept].copy_from_slice(&self.block[..kept]);
        // No stale bytes of a former user of this memory reach the disk.
        buffer[kept + length..].fill(0);
        Some(Laid { buffer, at: self.end.block_floor(BLOCK), kept })
    }

    /// Takes over the end of a buffer that was written at `at`, whose last new byte stands before `end`.
    pub fn advance(&mut self, buffer: &[u8], at: Position, end: Position) {
        let block = end.block_floor(BLOCK);
        self.end = end;
        let kept = self.kept();
        if kept > 0 {
            let from = block.since(at) as usize;
            self.block[..kept].copy_from_slice(&buffer[from..from + kept]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is written block by block equals what was appended, and a kept byte never changes.
        #[test]
        fn appends_of_any_length_make_one_unbroken_file(lengths in proptest::collection::vec(1usize..9_000, 1..40)) {
            let pool = Pool::new(1 << 20).expect("a small map");
            let mut tail = Tail::at_boundary(Position(4096));
            let (mut file, mut wanted) = (vec![0u8; 4096], vec![0u8; 4096]);
            for (mark, length) in lengths.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..length).map(|i| (i + mark) as u8 | 1).collect();
                let mut laid = tail.lay(&pool, length).expect("room");
                prop_assert_eq!(laid.at.0 % BLOCK as u64, 0);
                laid.buffer[laid.kept..laid.kept + length].copy_from_slice(&bytes);
                let at = laid.at.0 as usize;
                prop_assert_eq!(&laid.buffer[..laid.kept], &file[at..at + laid.kept]);
                file.truncate(at);
                file.extend_from_slice(&laid.buffer);
                wanted.extend_from_slice(&bytes);
                let end = tail.end().plus(length);
                tail.advance(&laid.buffer, laid.at, end);
                prop_assert_eq!(&file[..wanted.len()], &wanted[..]);
                prop_assert!(file[wanted.len()..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
