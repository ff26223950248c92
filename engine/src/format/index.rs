//! The index of a segment: where to start reading for an offset or a time.
//!
//! A hint only: it says where to start, never what stands there, and is made again from the data when it is missing or wrong.

use super::batch::{ALIGN, BatchHeader};
use super::block::BLOCK_BYTES;
use super::checksum::crc32c;
use super::field::Reader;
use super::segment::DATA_START;
use crate::id::Offset;
use strandline_disk::Position;

/// The length of an entry.
pub const INDEX_ENTRY_BYTES: usize = 32;

/// Each stretch of this many bytes in which a batch starts has one entry, for the first of them.
pub const STRETCH_BYTES: u64 = 4096;

/// One entry of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Where the batch stands.
    pub position: Position,
    /// The batch's first offset.
    pub first_offset: Offset,
    /// When the store took the batch, wall ms.
    pub store_time_ms: u64,
    /// The largest client timestamp in the segment up to and including the batch, ms.
    pub client_time_max_ms: Option<i64>,
}

/// Why bytes are not the index that the footer speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// There are fewer bytes than the entries take.
    #[error("{entries} index entries take more than the {bytes} bytes that are there")]
    Short {
        /// How many entries were asked for.
        entries: u32,
        /// How many bytes there are.
        bytes: usize,
    },
    /// The bytes are not those that were written.
    #[error("the index's checksum does not match its bytes")]
    Checksum,
    /// The bytes are those that were written, but an entry cannot follow the one before it.
    #[error("the {field} of index entry {entry} cannot follow the one before it")]
    Order {
        /// Which entry, from 0.
        entry: u32,
        /// Which of its fields.
        field: &'static str,
    },
}

/// The index of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    entries: Vec<IndexEntry>,
    /// The largest client timestamp of all batches so far, those without an entry included.
    client_time_max_ms: Option<i64>,
}

impl Index {
    /// The index of no batches.
    #[must_use]
    pub fn new() -> Index {
        Index::default()
    }

    /// The entries, in the order of the file.
    #[must_use]
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// The largest client timestamp of all batches that were noted, ms.
    ///
    /// An index that was read knows only what its entries say; the segment's footer knows the whole.
    #[must_use]
    pub fn client_time_max_ms(&self) -> Option<i64> {
        self.client_time_max_ms
    }

    /// Takes note of the next batch of the file: it gets an entry when it is the first that starts in its stretch.
    pub fn note(&mut self, position: Position, header: &BatchHeader) {
        self.client_time_max_ms = self.client_time_max_ms.max(header.client_time_max_ms);
        let stretch = position.0 / STRETCH_BYTES;
        if self.entries.last().is_some_and(|last| last.position.0 / STRETCH_BYTES >= stretch) {
            return;
        }
        self.entries.push(IndexEntry {
            position,
            first_offset: header.first,
            store_time_ms: header.store_time_ms,
            client_time_max_ms: self.client_time_max_ms,
        });
    }

    /// Gives back the memory that no entry uses.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Where to start reading for `offset`: its batch starts here or later.
    #[must_use]
    pub fn locate(&self, offset: Offset) -> Position {
        self.last_where(|entry| entry.first_offset <= offset)
    }

    /// Where to start reading for the first batch that the store took at this time (wall ms) or after it.
    #[must_use]
    pub fn locate_time(&self, store_time_ms: u64) -> Position {
        self.last_where(|entry| entry.store_time_ms < store_time_ms)
    }

    /// Where to start reading for the first batch with a client timestamp (ms) as large as this.
    #[must_use]
    pub fn locate_client_time(&self, timestamp_ms: i64) -> Position {
        self.last_where(|entry| entry.client_time_max_ms < Some(timestamp_ms))
    }

    /// The position of the last entry that is `before`, which holds for all entries up to some point and for none after it.
    fn last_where(&self, before: impl Fn(&IndexEntry) -> bool) -> Position {
        let after = self.entries.partition_point(before);
        let entry = self.entries.get(after.saturating_sub(1));
        entry.map_or(DATA_START, |entry| entry.position)
    }

    /// The entries' bytes; their CRC32C goes into the footer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len().saturating_mul(INDEX_ENTRY_BYTES));
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.position.0.to_le_bytes());
            bytes.extend_from_slice(&entry.first_offset.0.to_le_bytes());
            bytes.extend_from_slice(&entry.store_time_ms.to_le_bytes());
            bytes.extend_from_slice(&entry.client_time_max_ms.unwrap_or(i64::MIN).to_le_bytes());
        }
        bytes
    }

    /// Reads `count` entries with the checksum `crc` from the front of `bytes`.
    ///
    /// # Errors
    /// [`IndexError`]; the index is then to be made again from the data.
    pub fn decode(bytes: &[u8], count: u32, crc: u32) -> Result<Index, IndexError> {
        let length = (count as usize).saturating_mul(INDEX_ENTRY_BYTES);
        let short = IndexError::Short { entries: count, bytes: bytes.len() };
        let bytes = bytes.get(..length).ok_or(short)?;
        if crc32c(bytes) != crc {
            return Err(IndexError::Checksum);
        }
        let mut reader = Reader::new(bytes);
        let mut index = Index { entries: Vec::with_capacity(count as usize), client_time_max_ms: None };
        for entry in 0..count {
            let next = read_entry(&mut reader).ok_or(short)?;
            index.check_next(&next).map_err(|field| IndexError::Order { entry, field })?;
            index.client_time_max_ms = next.client_time_max_ms;
            index.entries.push(next);
        }
        Ok(index)
    }

    /// Checks what a search relies on: that every field grows from entry to entry.
    fn check_next(&self, next: &IndexEntry) -> Result<(), &'static str> {
        if next.position < DATA_START || !next.position.0.is_multiple_of(ALIGN as u64) {
            return Err("position");
        }
        let Some(last) = self.entries.last() else { return Ok(()) };
        if next.position.0 / STRETCH_BYTES <= last.position.0 / STRETCH_BYTES {
            return Err("position");
        }
        if next.first_offset < last.first_offset {
            return Err("first offset");
        }
        if next.store_time_ms < last.store_time_ms {
            return Err("store time");
        }
        if next.client_time_max_ms < last.client_time_max_ms {
            return Err("client timestamp");
        }
        Ok(())
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Option<IndexEntry> {
    Some(IndexEntry {
        position: Position(reader.u64()?),
        first_offset: Offset(reader.u64()?),
        store_time_ms: reader.u64()?,
        client_time_max_ms: reader.time()?,
    })
}

/// The most entries that the index of a file of this size can have: one per stretch without the header block and the footer block.
#[must_use]
pub fn entries_max(segment_bytes: u64) -> u64 {
    (segment_bytes / STRETCH_BYTES).saturating_sub(2)
}

/// The bytes at the end of a file of this size that are kept free for its largest index and its footer, a multiple of 4,096.
#[must_use]
pub fn reserve_bytes(segment_bytes: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    let index = entries_max(segment_bytes).saturating_mul(INDEX_ENTRY_BYTES as u64);
    index.div_ceil(block).saturating_add(1).saturating_mul(block)
}

#[cfg(test)]
mod tests {
    use super::super::any::{self, file_of, for_every_flip};
    use super::*;
    use crate::id::Uid;
    use proptest::prelude::*;

    fn noted(batches: &[(Position, BatchHeader)]) -> Index {
        let mut index = Index::new();
        for (position, header) in batches {
            index.note(*position, header);
        }
        index
    }

    /// Batches one after the other, with these lengths (in words of 8 bytes), offset spans and steps in time.
    fn batches_of(shapes: &[(u16, u8, u8, Option<i64>)]) -> Vec<(Position, BatchHeader)> {
        let (mut at, mut next, mut now) = (DATA_START, Offset(1000), 50);
        let place = |&(words, span, step, client_time_max_ms): &(u16, u8, u8, Option<i64>)| {
            now += u64::from(step);
            let (payload_bytes, end) = (u32::from(words) * 8, next.plus(u64::from(span)));
            let header = BatchHeader {
                payload_bytes,
                first: next,
                end,
                store_time_ms: now,
                client_time_max_ms,
                ..Default::default()
            };
            let placed = (at, header);
            at = at.plus(header.total_length());
            next = end;
            placed
        };
        shapes.iter().map(place).collect()
    }

    fn shapes() -> impl Strategy<Value = Vec<(u16, u8, u8, Option<i64>)>> {
        let words = prop_oneof![Just(0), 1..40_u16, 300..1500_u16];
        let client_time = prop::option::of(-100..100_i64);
        prop::collection::vec((words, 0..4_u8, 0..3_u8, client_time), 0..60)
    }

    fn example() -> Index {
        noted(&batches_of(&[(600, 1, 1, None), (600, 2, 1, Some(-7)), (10, 1, 1, Some(9)), (600, 1, 0, None)]))
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        let bytes = example().encode();
        assert_eq!(bytes.len(), 3 * 32);
        let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        assert_eq!([0, 8, 16].map(field), [4096, 1000, 51]);
        assert_eq!(field(24) as i64, i64::MIN);
        assert_eq!([32, 40, 48].map(field), [4096 + 4928, 1001, 52]);
        assert_eq!(field(56) as i64, -7);
        // The third batch starts in the next stretch and raises the largest client timestamp.
        assert_eq!([64, 72, 80].map(field), [4096 + 2 * 4928, 1003, 53]);
        assert_eq!(field(88) as i64, 9);
    }

    #[test]
    fn no_flipped_bit_and_no_other_count_passes() {
        let bytes = example().encode();
        let crc = crc32c(&bytes);
        for_every_flip(&bytes, 0..bytes.len(), |bit, bytes| {
            assert_eq!(Index::decode(bytes, 3, crc), Err(IndexError::Checksum), "bit {bit}");
        });
        for length in 0..bytes.len() {
            let short = Err(IndexError::Short { entries: 3, bytes: length });
            assert_eq!(Index::decode(&bytes[..length], 3, crc), short);
        }
        assert_eq!(Index::decode(&bytes, 2, crc), Err(IndexError::Checksum));
        assert_eq!(Index::decode(&bytes, u32::MAX, crc), Err(IndexError::Short { entries: u32::MAX, bytes: 96 }));
    }

    #[test]
    fn an_index_whose_entries_do_not_grow_is_refused() {
        let damages = [
            ("position", 0, 4104_u64),
            ("first offset", 1, 5),
            ("store time", 2, 5),
            ("client timestamp", 3, i64::MIN as u64),
        ];
        for (field, column, value) in damages {
            let mut bytes = example().encode();
            let entry = if column == 3 { 2 } else { 1 };
            any::put(&mut bytes, entry * 32 + column * 8, value.to_le_bytes());
            let refused = Err(IndexError::Order { entry: entry as u32, field });
            assert_eq!(Index::decode(&bytes, 3, crc32c(&bytes)), refused);
        }
        for first in [4088_u64, 4097] {
            let mut bytes = example().encode();
            any::put(&mut bytes, 0, first.to_le_bytes());
            let refused = Err(IndexError::Order { entry: 0, field: "position" });
            assert_eq!(Index::decode(&bytes, 3, crc32c(&bytes)), refused);
        }
    }

    #[test]
    fn an_empty_index_points_at_the_start_of_the_data() {
        let index = Index::new();
        assert_eq!(index.locate(Offset(5)), DATA_START);
        assert_eq!(index.locate_time(5), DATA_START);
        assert_eq!(Index::decode(&[], 0, 0), Ok(index));
    }

    #[test]
    fn the_room_that_is_kept_holds_the_largest_index_and_the_footer() {
        for blocks in 2..1000_u64 {
            let size = blocks * 4096;
            let reserve = reserve_bytes(size);
            assert!(reserve.is_multiple_of(4096));
            assert_eq!(reserve, (entries_max(size) * 32).next_multiple_of(4096) + 4096, "{blocks} blocks");
            // As many batches as there can be: marks without anything between them, up to the room that is kept.
            let data_end = size.saturating_sub(reserve);
            let stretches = (4096..data_end).step_by(4096).count() as u64;
            assert!(stretches <= entries_max(size));
        }
        assert_eq!((entries_max(0), entries_max(3 * 4096)), (0, 1));
        assert_eq!(reserve_bytes(64 << 20), 129 * 4096);
    }

    #[test]
    fn a_real_file_can_be_read_from_every_place_that_the_index_names() {
        let wanted: Vec<_> = (0..200).map(|length| any::Wanted { payload: vec![1; length * 3] }).collect();
        let (bytes, placed) = file_of(&wanted, Uid(1), DATA_START);
        let index = noted(&placed);
        assert!(index.entries().len() > 10);
        for entry in index.entries() {
            let at = entry.position.since(DATA_START) as usize;
            let header = BatchHeader::decode(&bytes[at..], Uid(1), entry.position, u32::MAX).expect("a batch");
            assert_eq!(header.first, entry.first_offset);
        }
    }

    proptest! {
        #[test]
        fn an_index_holds_the_first_batch_of_every_stretch(shapes in shapes()) {
            let batches = batches_of(&shapes);
            let index = noted(&batches);
            let mut expected = Vec::new();
            for (number, (position, header)) in batches.iter().enumerate() {
                let stretch = position.0 / 4096;
                if number == 0 || batches[number - 1].0.0 / 4096 != stretch {
                    let client_time_max_ms = batches[..=number].iter().filter_map(|(_, header)| header.client_time_max_ms).max();
                    let (first_offset, store_time_ms) = (header.first, header.store_time_ms);
                    expected.push(IndexEntry { position: *position, first_offset, store_time_ms, client_time_max_ms });
                }
            }
            prop_assert_eq!(index.entries(), expected);
        }

        #[test]
        fn what_is_looked_for_stands_where_reading_is_to_start_or_later(shapes in shapes(), probe in 0..300_u64) {
            let batches = batches_of(&shapes);
            let index = noted(&batches);
            let first = |wanted: &dyn Fn(&BatchHeader) -> bool| batches.iter().find(|(_, header)| wanted(header)).map(|(at, _)| *at);
            let near = |start: Position, found: Option<Position>| {
                // Never behind it; and without an entry between the start and what is found, other than its own.
                let between = index.entries().iter().filter(|entry| entry.position > start);
                found.is_none_or(|found| start <= found && between.clone().filter(|entry| entry.position < found).count() == 0)
            };

            let offset = Offset(990 + probe);
            prop_assert!(near(index.locate(offset), first(&|header| header.end > offset)));
            let time = 40 + probe;
            prop_assert!(near(index.locate_time(time), first(&|header| header.store_time_ms >= time)));
            let time = probe as i64 - 120;
            let client_time = first(&|header| header.client_time_max_ms >= Some(time));
            prop_assert!(near(index.locate_client_time(time), client_time));
        }

        #[test]
        fn what_is_written_reads_back(shapes in shapes()) {
            let index = noted(&batches_of(&shapes));
            let bytes = index.encode();
            let read = Index::decode(&bytes, index.entries().len() as u32, crc32c(&bytes)).expect("a good index");
            prop_assert_eq!(read.entries(), index.entries());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0..8_u32) {
            let length = (count as usize * 32).min(bytes.len());
            let _ = Index::decode(&bytes, count, crc32c(&bytes[..length]));
        }
    }
}
