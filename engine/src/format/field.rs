//! Fields: little-endian numbers one after the other, read from bytes that may lie and written into room that is known.
//!
//! A reader answers nothing when its bytes run out. A writer panics when its room does: that is a fault of ours, never of a disk.

use crate::id::{GENERATION_MAX, Generation, LogId, RangeNumber, SegmentId, Seq, Topic};
use std::mem;

/// Reads fields from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What has not been read yet.
    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(field)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// A client timestamp: the smallest number says that there is none.
    pub(super) fn time(&mut self) -> Option<Option<i64>> {
        self.array().map(i64::from_le_bytes).map(|time| (time != i64::MIN).then_some(time))
    }

    /// A length in 32 bits, as a length.
    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    /// A length in 16 bits, then that many bytes.
    pub(super) fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.u16()?);
        self.bytes(length)
    }

    /// True when nothing but zeros is left.
    pub(super) fn is_zero(self) -> bool {
        self.rest.iter().all(|&byte| byte == 0)
    }
}

/// A number that a store counts up by one and that was read from a disk: nothing in the upper half of its range, which no store reaches, so
/// that each one that is believed has a next.
pub(super) fn counted(number: u64) -> Option<u64> {
    (number <= u64::MAX / 2).then_some(number)
}

/// As [`counted`], of a generation.
pub(super) fn counted_generation(number: u32) -> Option<Generation> {
    (number <= GENERATION_MAX).then_some(Generation(number))
}

/// Writes fields into the front of a slice.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        Writer { rest: bytes }
    }

    pub(super) fn bytes(&mut self, field: &[u8]) {
        let (room, rest) = mem::take(&mut self.rest).split_at_mut(field.len());
        room.copy_from_slice(field);
        self.rest = rest;
    }

    pub(super) fn u8(&mut self, field: u8) {
        self.bytes(&field.to_le_bytes());
    }

    pub(super) fn u16(&mut self, field: u16) {
        self.bytes(&field.to_le_bytes());
    }

    pub(super) fn u32(&mut self, field: u32) {
        self.bytes(&field.to_le_bytes());
    }

    pub(super) fn u64(&mut self, field: u64) {
        self.bytes(&field.to_le_bytes());
    }

    pub(super) fn u128(&mut self, field: u128) {
        self.bytes(&field.to_le_bytes());
    }

    pub(super) fn time(&mut self, field: Option<i64>) {
        self.bytes(&field.unwrap_or(i64::MIN).to_le_bytes());
    }
}

/// Makes a segment's id of what its fields say.
///
/// # Errors
/// The name of the field that cannot be.
pub(super) fn segment_of(range: u32, seq: u32, topic: &[u8]) -> Result<SegmentId, &'static str> {
    let log = log_of(range, topic)?;
    Ok(SegmentId { log, seq: Seq::new(seq).ok_or("seq")? })
}

/// Makes a log's id of what its fields say.
///
/// # Errors
/// The name of the field that cannot be.
pub(super) fn log_of(range: u32, topic: &[u8]) -> Result<LogId, &'static str> {
    let range = RangeNumber::new(range).ok_or("range")?;
    Ok(LogId { topic: Topic::new(topic).map_err(|_| "topic")?, range })
}
