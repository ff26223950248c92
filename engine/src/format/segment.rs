//! The first and the last block of a data file: the header that says whose file it is, and the footer that says what it holds.

use super::block::{self, BLOCK_BYTES, BlockError, Magic, nothing_left};
use super::field::{Reader, counted, counted_generation, segment_of};
use super::index::{INDEX_ENTRY_BYTES, entries_max};
use crate::id::{Epoch, Generation, Offset, SegmentId, StoreId, Uid};
use strandline_disk::Position;

/// Where the first batch of a data file stands.
pub const DATA_START: Position = Position(BLOCK_BYTES as u64);

/// What a data file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentState {
    /// It belongs to no segment.
    Spare,
    /// It was made ahead for its segment and holds nothing.
    Prepared,
    /// It holds its segment's batches.
    Live,
}

impl SegmentState {
    fn number(self) -> u8 {
        match self {
            SegmentState::Spare => 1,
            SegmentState::Prepared => 2,
            SegmentState::Live => 3,
        }
    }

    fn of(number: u8) -> Option<SegmentState> {
        [SegmentState::Spare, SegmentState::Prepared, SegmentState::Live]
            .into_iter()
            .find(|state| state.number() == number)
    }
}

/// The first block of a data file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Which file it is.
    pub uid: Uid,
    /// The store that it belongs to.
    pub store: StoreId,
    /// What it is for.
    pub state: SegmentState,
    /// The segment that it belongs to; without meaning in state spare.
    pub segment: SegmentId,
    /// Which data file of the segment it is.
    pub generation: Generation,
    /// The offset of the segment's first record; 0 unless live.
    pub base: Offset,
    /// When the segment took its first batch, wall ms; 0 unless live.
    pub opened_at_ms: u64,
    /// The epoch of the log when the header was written.
    pub epoch: Epoch,
    /// The size of the file in bytes, a multiple of 4,096.
    pub size: u64,
    /// The most bytes that may have been in flight past any durable end.
    pub look_ahead: u64,
}

impl SegmentHeader {
    /// The block.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        debug_assert_eq!(self.check(), Ok(()), "{self:?}");
        let topic = self.segment.log.topic.as_bytes();
        block::encode(Magic::SegmentHeader, |writer| {
            writer.u128(self.uid.0);
            writer.u128(self.store.0);
            writer.u32(u32::from(self.state.number()));
            writer.u32(self.segment.log.range.get());
            writer.u32(self.segment.seq.get());
            writer.u32(self.generation.0);
            writer.u64(self.base.0);
            writer.u64(self.opened_at_ms);
            writer.u64(self.epoch.0);
            writer.u64(self.size);
            writer.u64(self.look_ahead);
            writer.u16(topic.len() as u16);
            writer.bytes(topic);
        })
    }

    /// Reads the block at the front of `bytes`.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, BlockError> {
        let mut reader = block::decode(Magic::SegmentHeader, bytes)?;
        let uid = Uid(reader.u128().ok_or(BlockError::Field("uid"))?);
        let store = StoreId(reader.u128().ok_or(BlockError::Field("store"))?);
        let state = reader.u32().and_then(|state| u8::try_from(state).ok());
        let state = state.and_then(SegmentState::of).ok_or(BlockError::Field("state"))?;
        let range = reader.u32().ok_or(BlockError::Field("range"))?;
        let seq = reader.u32().ok_or(BlockError::Field("seq"))?;
        let generation = reader.u32().and_then(counted_generation).ok_or(BlockError::Field("generation"))?;
        let base = Offset(reader.u64().ok_or(BlockError::Field("base offset"))?);
        let opened_at_ms = reader.u64().ok_or(BlockError::Field("opened_at"))?;
        let epoch = Epoch(reader.u64().and_then(counted).ok_or(BlockError::Field("epoch"))?);
        let size = reader.u64().ok_or(BlockError::Field("size"))?;
        let look_ahead = reader.u64().ok_or(BlockError::Field("look-ahead"))?;
        let topic = reader.short_bytes().ok_or(BlockError::Field("topic"))?;
        nothing_left(reader)?;
        let segment = segment_of(range, seq, topic).map_err(BlockError::Field)?;
        let header =
            SegmentHeader { uid, store, state, segment, generation, base, opened_at_ms, epoch, size, look_ahead };
        header.check().map_err(BlockError::Field)?;
        Ok(header)
    }

    fn check(&self) -> Result<(), &'static str> {
        let is_live = self.state == SegmentState::Live;
        if !is_live && self.base != Offset(0) {
            return Err("base offset");
        }
        if !is_live && self.opened_at_ms != 0 {
            return Err("opened_at");
        }
        if !self.size.is_multiple_of(BLOCK_BYTES as u64) {
            return Err("size");
        }
        Ok(())
    }
}

/// The last block of a sealed data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFooter {
    /// Which file it is.
    pub uid: Uid,
    /// The offset of the segment's first record.
    pub base: Offset,
    /// One past the segment's last offset.
    pub end: Offset,
    /// The position after the last batch.
    pub data_end: Position,
    /// When the store took the first batch, wall ms; 0 when there is no batch.
    pub first_store_time_ms: u64,
    /// When the store took the last batch, wall ms; 0 when there is no batch.
    pub last_store_time_ms: u64,
    /// The largest client timestamp in the segment, ms.
    pub client_time_max_ms: Option<i64>,
    /// When the segment was sealed, wall ms.
    pub sealed_at_ms: u64,
    /// Where the index stands.
    pub index_at: Position,
    /// How many entries the index has.
    pub index_entries: u32,
    /// The CRC32C of the index entries.
    pub index_crc: u32,
}

impl SegmentFooter {
    /// The bytes of the segment that count: without header block, preallocation or padding to a block.
    #[must_use]
    pub fn logical_bytes(&self) -> u64 {
        self.data_end.since(DATA_START)
    }

    /// The length of the index in bytes.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        (self.index_entries as usize).saturating_mul(INDEX_ENTRY_BYTES)
    }

    /// The block.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        debug_assert_eq!(self.check(), Ok(()), "{self:?}");
        block::encode(Magic::SegmentFooter, |writer| {
            writer.u128(self.uid.0);
            writer.u64(self.base.0);
            writer.u64(self.end.0);
            writer.u64(self.data_end.0);
            writer.u64(self.logical_bytes());
            writer.u64(self.first_store_time_ms);
            writer.u64(self.last_store_time_ms);
            writer.time(self.client_time_max_ms);
            writer.u64(self.sealed_at_ms);
            writer.u64(self.index_at.0);
            writer.u32(self.index_entries);
            writer.u32(self.index_crc);
        })
    }

    /// Reads the block at the front of `bytes`.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn decode(bytes: &[u8]) -> Result<SegmentFooter, BlockError> {
        let reader = block::decode(Magic::SegmentFooter, bytes)?;
        let (footer, logical_bytes) = SegmentFooter::read(reader).ok_or(BlockError::Field("rest"))?;
        footer.check().map_err(BlockError::Field)?;
        if logical_bytes != footer.logical_bytes() {
            return Err(BlockError::Field("logical bytes"));
        }
        Ok(footer)
    }

    /// The fields, and the logical bytes that were written with them; nothing when something stands behind them.
    fn read(mut reader: Reader<'_>) -> Option<(SegmentFooter, u64)> {
        let uid = Uid(reader.u128()?);
        let base = Offset(reader.u64()?);
        let end = Offset(reader.u64()?);
        let data_end = Position(reader.u64()?);
        let logical_bytes = reader.u64()?;
        let footer = SegmentFooter {
            uid,
            base,
            end,
            data_end,
            first_store_time_ms: reader.u64()?,
            last_store_time_ms: reader.u64()?,
            client_time_max_ms: reader.time()?,
            sealed_at_ms: reader.u64()?,
            index_at: Position(reader.u64()?),
            index_entries: reader.u32()?,
            index_crc: reader.u32()?,
        };
        reader.is_zero().then_some((footer, logical_bytes))
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.end < self.base {
            return Err("end offset");
        }
        if self.data_end < DATA_START || !self.data_end.0.is_multiple_of(super::batch::ALIGN as u64) {
            return Err("data end");
        }
        if self.last_store_time_ms < self.first_store_time_ms {
            return Err("last store time");
        }
        if self.index_at < self.data_end || !self.index_at.0.is_multiple_of(BLOCK_BYTES as u64) {
            return Err("position of the index");
        }
        if u64::from(self.index_entries) > entries_max(self.index_at.0.saturating_add(BLOCK_BYTES as u64)) {
            return Err("number of index entries");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::any::{self, for_every_flip, put, sign_block};
    use super::*;
    use proptest::prelude::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            uid: Uid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            store: StoreId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20),
            state: SegmentState::Live,
            segment: segment_of(0x2122_2324, 0x3132_3334, b"orders").expect("a valid id"),
            generation: Generation(0x4142_4344),
            base: Offset(0x5152_5354_5556_5758),
            opened_at_ms: 0x6162_6364_6566_6768,
            epoch: Epoch(0x7172_7374_7576_7778),
            size: 0x0081_8283_8485_8000,
            look_ahead: 0x9192_9394_9596_9798,
        }
    }

    /// The example, laid out by the table of FORMAT.md.
    fn header_by_the_table() -> [u8; 4096] {
        let mut block = [0; 4096];
        put(&mut block, 0, b"STRSEGMT");
        put(&mut block, 12, 1_u32.to_le_bytes());
        put(&mut block, 16, 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10_u128.to_le_bytes());
        put(&mut block, 32, 0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20_u128.to_le_bytes());
        put(&mut block, 48, [3]);
        put(&mut block, 52, 0x2122_2324_u32.to_le_bytes());
        put(&mut block, 56, 0x3132_3334_u32.to_le_bytes());
        put(&mut block, 60, 0x4142_4344_u32.to_le_bytes());
        put(&mut block, 64, 0x5152_5354_5556_5758_u64.to_le_bytes());
        put(&mut block, 72, 0x6162_6364_6566_6768_u64.to_le_bytes());
        put(&mut block, 80, 0x7172_7374_7576_7778_u64.to_le_bytes());
        put(&mut block, 88, 0x0081_8283_8485_8000_u64.to_le_bytes());
        put(&mut block, 96, 0x9192_9394_9596_9798_u64.to_le_bytes());
        put(&mut block, 104, 6_u16.to_le_bytes());
        put(&mut block, 106, b"orders");
        sign_block(&mut block);
        block
    }

    fn footer() -> SegmentFooter {
        SegmentFooter {
            uid: Uid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            base: Offset(0x1112_1314_1516_1718),
            end: Offset(0x2122_2324_2526_2728),
            data_end: Position(0x3132_3334_3536_3738),
            first_store_time_ms: 0x4142_4344_4546_4748,
            last_store_time_ms: 0x5152_5354_5556_5758,
            client_time_max_ms: Some(-2),
            sealed_at_ms: 0x6162_6364_6566_6768,
            index_at: Position(0x3132_3334_3536_4000),
            index_entries: 0x7172_7374,
            index_crc: 0x8182_8384,
        }
    }

    /// The example, laid out by the table of FORMAT.md.
    fn footer_by_the_table() -> [u8; 4096] {
        let mut block = [0; 4096];
        put(&mut block, 0, b"STRFOOTR");
        put(&mut block, 12, 1_u32.to_le_bytes());
        put(&mut block, 16, 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10_u128.to_le_bytes());
        put(&mut block, 32, 0x1112_1314_1516_1718_u64.to_le_bytes());
        put(&mut block, 40, 0x2122_2324_2526_2728_u64.to_le_bytes());
        put(&mut block, 48, 0x3132_3334_3536_3738_u64.to_le_bytes());
        put(&mut block, 56, 0x3132_3334_3536_2738_u64.to_le_bytes());
        put(&mut block, 64, 0x4142_4344_4546_4748_u64.to_le_bytes());
        put(&mut block, 72, 0x5152_5354_5556_5758_u64.to_le_bytes());
        put(&mut block, 80, (-2_i64).to_le_bytes());
        put(&mut block, 88, 0x6162_6364_6566_6768_u64.to_le_bytes());
        put(&mut block, 96, 0x3132_3334_3536_4000_u64.to_le_bytes());
        put(&mut block, 104, 0x7172_7374_u32.to_le_bytes());
        put(&mut block, 108, 0x8182_8384_u32.to_le_bytes());
        sign_block(&mut block);
        block
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        assert_eq!(header().encode(), header_by_the_table());
        assert_eq!(SegmentHeader::decode(&header_by_the_table()), Ok(header()));
        assert_eq!(footer().encode(), footer_by_the_table());
        assert_eq!(SegmentFooter::decode(&footer_by_the_table()), Ok(footer()));
    }

    #[test]
    fn no_flipped_bit_passes() {
        for_every_flip(&header().encode(), 0..4096, |bit, block| {
            assert!(SegmentHeader::decode(block).is_err(), "bit {bit}");
        });
        for_every_flip(&footer().encode(), 0..4096, |bit, block| {
            assert!(SegmentFooter::decode(block).is_err(), "bit {bit}");
        });
    }

    #[test]
    fn blocks_that_are_cut_short_are_refused_at_every_byte() {
        for length in 0..4096 {
            let short = BlockError::Short(length);
            assert_eq!(SegmentHeader::decode(&header().encode()[..length]), Err(short));
            assert_eq!(SegmentFooter::decode(&footer().encode()[..length]), Err(short));
        }
    }

    /// The field that is to be refused, and what is put where to that end.
    type Damage = (&'static str, &'static [(usize, &'static [u8])]);

    #[test]
    fn fields_of_a_header_that_never_may_be_are_refused_by_name() {
        let damages: [Damage; 12] = [
            ("state", &[(48, &[0])]),
            ("state", &[(48, &[4])]),
            ("state", &[(49, &[1])]),
            ("state", &[(51, &[1])]),
            ("base offset", &[(48, &[2])]),
            ("opened_at", &[(48, &[1]), (64, &[0; 8])]),
            ("range", &[(55, &[0x80])]),
            ("seq", &[(59, &[0x80])]),
            ("size", &[(88, &[1])]),
            ("rest", &[(104, &[5])]),
            ("topic", &[(104, &[0xff, 0xff])]),
            ("topic", &[(104, &[172]), (106, &[0xff; 172])]),
        ];
        for (field, damage) in damages {
            let mut block = header_by_the_table();
            for (at, value) in damage {
                put(&mut block, *at, value);
            }
            sign_block(&mut block);
            assert_eq!(SegmentHeader::decode(&block), Err(BlockError::Field(field)), "{damage:?}");
        }
    }

    #[test]
    fn fields_of_a_footer_that_never_may_be_are_refused_by_name() {
        let damages: [Damage; 9] = [
            ("end offset", &[(40, &[0; 8])]),
            ("data end", &[(48, &[0; 8])]),
            ("data end", &[(48, &[0x39])]),
            ("logical bytes", &[(56, &[0])]),
            ("last store time", &[(72, &[0; 8])]),
            ("position of the index", &[(96, &[0; 8])]),
            ("position of the index", &[(96, &[1])]),
            ("number of index entries", &[(48, &[0, 16, 0, 0, 0, 0, 0, 0]), (96, &[0, 16, 0, 0, 0, 0, 0, 0])]),
            ("rest", &[(112, &[1])]),
        ];
        for (field, damage) in damages {
            let mut block = footer_by_the_table();
            for (at, value) in damage {
                put(&mut block, *at, value);
            }
            sign_block(&mut block);
            assert_eq!(SegmentFooter::decode(&block), Err(BlockError::Field(field)), "{damage:?}");
        }
    }

    #[test]
    fn an_index_has_an_entry_for_each_stretch_of_data_and_not_one_more() {
        let data_end = Position(DATA_START.0 + 4096 + 8);
        let index_at = data_end.block_ceiling(4096);
        let full = SegmentFooter { data_end, index_at, index_entries: 2, ..footer() };
        assert_eq!(full.check(), Ok(()));
        let over = SegmentFooter { index_entries: 3, ..full };
        assert_eq!(over.check(), Err("number of index entries"));
    }

    #[test]
    fn the_footer_of_a_segment_without_batches_is_good() {
        let empty = SegmentFooter {
            end: footer().base,
            data_end: DATA_START,
            first_store_time_ms: 0,
            last_store_time_ms: 0,
            client_time_max_ms: None,
            index_at: DATA_START,
            index_entries: 0,
            index_crc: 0,
            ..footer()
        };
        assert_eq!(SegmentFooter::decode(&empty.encode()), Ok(empty));
    }

    prop_compose! {
        fn any_header()(
            (uid, store, segment) in (any::<u128>(), any::<u128>(), any::segment_id()),
            state in prop::sample::select(vec![SegmentState::Spare, SegmentState::Prepared, SegmentState::Live]),
            generation in any::<u32>(),
            (base, opened_at_ms, epoch, blocks, look_ahead) in
                (any::number(), any::number(), any::number(), 0..1_u64 << 52, any::number()),
        ) -> SegmentHeader {
            let is_live = state == SegmentState::Live;
            SegmentHeader {
                uid: Uid(uid),
                store: StoreId(store),
                state,
                segment,
                generation: Generation(generation / 2),
                base: Offset(if is_live { base } else { 0 }),
                opened_at_ms: if is_live { opened_at_ms } else { 0 },
                epoch: Epoch(epoch / 2),
                size: blocks * 4096,
                look_ahead,
            }
        }
    }

    prop_compose! {
        fn any_footer()(
            uid in any::uid(),
            offsets in (any::number(), any::number()),
            times in (any::number(), any::number()),
            data_words in 512..1_u64 << 40,
            client_time_max_ms in any::time(),
            (sealed_at_ms, entries, index_crc) in (any::number(), any::<u32>(), any::<u32>()),
        ) -> SegmentFooter {
            let data_end = Position(data_words * 8);
            let index_at = data_end.block_ceiling(4096);
            SegmentFooter {
                uid,
                base: Offset(offsets.0.min(offsets.1)),
                end: Offset(offsets.0.max(offsets.1)),
                data_end,
                first_store_time_ms: times.0.min(times.1),
                last_store_time_ms: times.0.max(times.1),
                client_time_max_ms,
                sealed_at_ms,
                index_at,
                index_entries: (u64::from(entries) % (index_at.0 / 4096)) as u32,
                index_crc,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(header in any_header(), footer in any_footer()) {
            prop_assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
            prop_assert_eq!(SegmentFooter::decode(&footer.encode()), Ok(footer));
        }

        #[test]
        fn any_signed_fields_are_refused_or_read_back(fields in prop::collection::vec(any::<u8>(), 0..400), state in 0..5_u8) {
            for magic in [b"STRSEGMT", b"STRFOOTR"] {
                let mut block = [0; 4096];
                put(&mut block, 0, magic);
                put(&mut block, 12, 1_u32.to_le_bytes());
                put(&mut block, 16, &fields);
                put(&mut block, 48, [state, 0, 0, 0]);
                sign_block(&mut block);
                if let Ok(header) = SegmentHeader::decode(&block) {
                    prop_assert_eq!(header.encode(), block);
                }
                if let Ok(footer) = SegmentFooter::decode(&block) {
                    prop_assert_eq!(footer.encode(), block);
                }
            }
        }
    }
}
