//! A file of the medium: its blocks and its length, written and durable. It knows no name and no process.

use super::block::{Block, SECTORS, mask_of};
use crate::buffer::BLOCK;
use std::collections::BTreeSet;
use std::ops::Range;

/// The largest file that the simulation keeps, in bytes; past it a write answers EFBIG.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

/// One undurable change that a power failure keeps or loses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// A sector of a write.
    Sector { block: usize, sector: usize },
    /// A new length, with what a truncation cut off.
    Length,
}

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    blocks: Vec<Block>,
    /// The blocks that are not wholly durable.
    loose: BTreeSet<usize>,
    length: u64,
    durable_length: u64,
    /// Lengths since the durable one, with the sequence of the change that made each.
    lengths: Vec<(u64, u64)>,
}

/// A piece of a transfer that lies in one block.
struct Piece {
    block: usize,
    within: usize,
    of: Range<usize>,
}

impl File {
    /// A file whose bytes are all durable.
    pub(super) fn durable_of(bytes: &[u8]) -> File {
        let mut file = File::default();
        file.write(0, 0, bytes, false, &[]);
        file.sync(0);
        file
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn allocated_blocks(&self) -> usize {
        self.blocks.iter().filter(|block| block.is_allocated()).count()
    }

    /// True when every block of the span is written and durably so, by syncs of this file.
    pub(super) fn is_anchored(&self, position: u64, length: usize) -> bool {
        pieces(position, length).all(|piece| self.blocks.get(piece.block).is_some_and(Block::is_anchored))
    }

    /// What a read of up to `length` bytes gives; short at the end of the file.
    pub(super) fn read(&self, position: u64, length: usize, buffered: bool) -> Vec<u8> {
        self.gather(position, clip(position, length, self.length), |block| block.read(buffered))
    }

    /// The durable bytes, up to the durable length.
    pub(super) fn durable(&self) -> Vec<u8> {
        self.gather(0, self.durable_length as usize, Block::durable)
    }

    fn gather<'a>(&'a self, position: u64, length: usize, view: impl Fn(&'a Block) -> Option<&'a [u8]>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length);
        for Piece { block, within, of } in pieces(position, length) {
            match self.blocks.get(block).and_then(&view) {
                Some(content) => bytes.extend_from_slice(&content[within..within + of.len()]),
                None => bytes.resize(of.end, 0),
            }
        }
        bytes
    }

    /// Writes. `landed` holds, per block of the span, the sectors that have landed before.
    pub(super) fn write(&mut self, sequence: u64, position: u64, bytes: &[u8], buffered: bool, landed: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        for (index, Piece { block, within, of }) in pieces(position, bytes.len()).enumerate() {
            let only = !landed.get(index).copied().unwrap_or(0);
            self.block(block).write(sequence, within, &bytes[of], buffered, only);
            self.loose.insert(block);
        }
        self.grow(sequence, position + bytes.len() as u64);
    }

    /// Lands single sectors of a write in flight, where `choose` says so: only inside the file and in written extents,
    /// because a new length or a converted extent is seen at the completion and not before.
    pub(super) fn scatter(
        &mut self,
        sequence: u64,
        (position, bytes, buffered): (u64, &[u8], bool),
        landed: &mut Vec<u8>,
        mut choose: impl FnMut(usize, usize) -> bool,
    ) {
        let inside = clip(position, bytes.len(), self.length);
        landed.resize(pieces(position, bytes.len()).count(), 0);
        for (index, Piece { block, within, of }) in pieces(position, inside).enumerate() {
            let sectors = mask_of(within, of.len()) & !landed[index];
            if !self.blocks.get(block).is_some_and(Block::is_written) {
                continue;
            }
            let chosen = (0..SECTORS).filter(|sector| sectors >> sector & 1 == 1 && choose(block, *sector));
            let only = chosen.fold(0u8, |mask, sector| mask | 1 << sector);
            if only != 0 {
                self.block(block).write(sequence, within, &bytes[of], buffered, only);
                self.loose.insert(block);
                landed[index] |= only;
            }
        }
    }

    /// Blocks that a write or an allocation of this span would have to allocate.
    pub(super) fn holes(&self, position: u64, length: usize) -> usize {
        pieces(position, length).filter(|piece| !self.blocks.get(piece.block).is_some_and(Block::is_allocated)).count()
    }

    /// Preallocates `0..length` and makes the file at least so long.
    pub(super) fn allocate(&mut self, sequence: u64, length: u64) {
        for block in 0..length.div_ceil(BLOCK as u64) as usize {
            self.block(block).allocate(sequence);
            self.note(block);
        }
        self.grow(sequence, length);
    }

    /// Sets the length; what is cut off is gone, what is added is a hole.
    pub(super) fn truncate(&mut self, sequence: u64, length: u64) {
        if length == self.length {
            return;
        }
        let first = (length / BLOCK as u64) as usize;
        for block in first..self.blocks.len() {
            let within = if block == first { (length % BLOCK as u64) as usize } else { 0 };
            self.blocks[block].cut(sequence, within);
            self.note(block);
        }
        self.length = length;
        self.lengths.push((sequence, length));
    }

    fn grow(&mut self, sequence: u64, length: u64) {
        if length > self.length {
            self.length = length;
            self.lengths.push((sequence, length));
        }
    }

    /// Makes durable what had completed up to and with `through`: bytes, extents and length.
    pub(super) fn sync(&mut self, through: u64) {
        for block in std::mem::take(&mut self.loose) {
            self.blocks[block].settle(through);
            self.note(block);
        }
        self.settle_length(through);
    }

    /// A barrier of another file: makes the direct overwrites durable that had landed up to and with `through`, unless a
    /// change of the length or of an extent is pending.
    pub(super) fn settle_overwrites(&mut self, through: u64) {
        if self.has_pending_change() {
            return;
        }
        for block in self.loose.clone() {
            self.blocks[block].settle_overwrites(through);
            self.note(block);
        }
    }

    fn has_pending_change(&self) -> bool {
        !self.lengths.is_empty() || self.loose.iter().any(|block| self.blocks[*block].has_pending_extent())
    }

    /// True when something waits for a sync, of this file or another.
    pub(super) fn has_loose_blocks(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Ends a durable write that started when `through` was the last change: its bytes, their extents and the length.
    pub(super) fn harden(&mut self, through: u64, position: u64, length: usize) {
        for Piece { block, within, of } in pieces(position, length) {
            self.blocks[block].harden(within, of.len());
            self.note(block);
        }
        self.settle_length(through);
        self.durable_length = self.durable_length.max(self.length.min(position + length as u64));
        let settled = self.lengths.iter().take_while(|(_, length)| *length == self.durable_length).count();
        self.lengths.drain(..settled);
    }

    fn settle_length(&mut self, through: u64) {
        let settled = self.lengths.partition_point(|(sequence, _)| *sequence <= through);
        if let Some((_, length)) = self.lengths.drain(..settled).next_back() {
            self.durable_length = length;
        }
    }

    /// A failed sync drops the bytes that are not durable; new lengths and extents stay pending.
    pub(super) fn drop_dirty(&mut self, buffered: bool) {
        for block in std::mem::take(&mut self.loose) {
            self.blocks[block].drop_dirty(buffered);
            self.note(block);
        }
    }

    /// Evicts clean pages from the page cache.
    pub(super) fn evict(&mut self) {
        self.blocks.iter_mut().for_each(Block::evict);
    }

    /// Calls `see(sequence, change)` for every change that is not durable.
    pub(super) fn each_loose(&self, mut see: impl FnMut(u64, Change)) {
        for block in &self.loose {
            self.blocks[*block].each_loose(|sequence, sector| see(sequence, Change::Sector { block: *block, sector }));
        }
        self.lengths.iter().for_each(|(sequence, _)| see(*sequence, Change::Length));
    }

    /// Loses some sectors of the write `sequence` in one block.
    pub(super) fn lose_sectors(&mut self, sequence: u64, block: usize, mask: u8) {
        self.blocks[block].lose(sequence, mask);
    }

    /// Loses the length that the change `sequence` set, with what a truncation cut off.
    pub(super) fn lose_length(&mut self, sequence: u64) {
        self.lengths.retain(|(other, _)| *other != sequence);
        self.loose.iter().for_each(|block| self.blocks[*block].lose_cut(sequence));
    }

    pub(super) fn is_loose(&self) -> bool {
        !self.loose.is_empty() || !self.lengths.is_empty() || self.blocks.iter().any(Block::has_cache)
    }

    /// The power fails: what has not been lost by now is durable.
    pub(super) fn collapse(&mut self, keep_allocation: bool) {
        self.settle_length(u64::MAX);
        self.length = self.durable_length;
        for block in std::mem::take(&mut self.loose) {
            self.blocks[block].collapse(keep_allocation);
        }
        self.evict();
        self.cut_to_length();
    }

    /// Frees what stands past the end, as mounting does after a crash: otherwise it would show when the file grows again.
    fn cut_to_length(&mut self) {
        let whole = self.length.div_ceil(BLOCK as u64) as usize;
        self.blocks.truncate(whole);
        let within = (self.length % BLOCK as u64) as usize;
        if let (true, Some(last)) = (within != 0, self.blocks.get_mut(whole.wrapping_sub(1)))
            && last.durable().is_some_and(|bytes| bytes[within..].iter().any(|byte| *byte != 0))
        {
            last.damage(|page| page[within..].fill(0));
        }
    }

    /// Changes bytes in every state alike. `change` gets the position of the bytes that it is given.
    pub(super) fn damage(&mut self, position: u64, length: usize, change: impl Fn(u64, &mut [u8])) {
        for Piece { block, within, of } in pieces(position, length) {
            let at = position + of.start as u64;
            self.block(block).damage(|page| change(at, &mut page[within..within + of.len()]));
        }
    }

    /// Sets the durable and the written length alike.
    pub(super) fn damage_length(&mut self, length: u64) {
        self.truncate(u64::MAX, length);
        self.sync(u64::MAX);
    }

    fn block(&mut self, block: usize) -> &mut Block {
        if block >= self.blocks.len() {
            self.blocks.resize_with(block + 1, Block::default);
        }
        &mut self.blocks[block]
    }

    fn note(&mut self, block: usize) {
        if self.blocks[block].is_loose() {
            self.loose.insert(block);
        } else {
            self.loose.remove(&block);
        }
    }
}

/// How many of `length` bytes at `position` lie before `end`.
fn clip(position: u64, length: usize, end: u64) -> usize {
    end.saturating_sub(position).min(length as u64) as usize
}

/// Cuts a span at block boundaries.
fn pieces(position: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = position + done as u64;
        let within = (at % BLOCK as u64) as usize;
        let piece = (BLOCK - within).min(length - done);
        let of = done..done + piece;
        done += piece;
        (piece > 0).then_some(Piece { block: (at / BLOCK as u64) as usize, within, of })
    })
}
