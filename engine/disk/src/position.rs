//! A position: where a byte stands in a file.

use std::fmt;

/// A byte position in a file. Never an offset: offsets count records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The position `bytes` further on, saturating at the end of the number range.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Position {
        Position(self.0.saturating_add(bytes as u64))
    }

    /// The bytes from `earlier` to here; 0 when `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Position) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The start of the block of `block` bytes (a power of two) that holds this position.
    #[must_use]
    pub fn block_floor(self, block: usize) -> Position {
        Position(self.0 & !(block as u64 - 1))
    }

    /// The first block boundary at or after this position.
    #[must_use]
    pub fn block_ceiling(self, block: usize) -> Position {
        Position(self.0.saturating_add(block as u64 - 1)).block_floor(block)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.0)
    }
}
