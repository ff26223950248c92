//! The batch header: 128 bytes in front of a payload, bound to their file and to their place in it.
//!
//! Whether a batch fits behind the one before it (offsets, times, life, epoch) is decided by who reads the file, not here.

use super::checksum::{Checksum, crc32c};
use super::field::{Reader, Writer, counted};
use crate::id::{Epoch, Life, Offset, Uid};
use strandline_disk::Position;

pub use super::codec::Codec;

/// The length of a batch header.
pub const HEADER_BYTES: usize = 128;

/// Batches stand at multiples of this.
pub const ALIGN: usize = 8;

/// The length of the host's own part of a header.
pub const HOST_BYTES: usize = 32;

/// The largest payload that a batch may ever have had, in bytes, whatever is configured now.
pub const PAYLOAD_BYTES_MAX: u32 = 64 << 20;

/// The most zeros that a mark may pad with, in bytes.
pub const PAD_BYTES_MAX: u32 = 64 << 10;

/// How long a batch with a payload of `payload` bytes is in the file: header, payload and padding.
#[must_use]
pub fn total_length(payload: usize) -> usize {
    HEADER_BYTES.saturating_add(payload).next_multiple_of(ALIGN)
}

/// What a batch starts with.
const MAGIC: [u8; 4] = *b"SLB1";

/// What is known about the records of a batch without looking at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Some record has no value.
    pub has_tombstones: bool,
    /// Some record has no key.
    pub has_keyless: bool,
    /// The payload's layout is the host's own: the store carries it and reads no records out of it.
    pub is_foreign: bool,
}

impl Flags {
    fn number(self) -> u8 {
        u8::from(self.has_tombstones) | u8::from(self.has_keyless) << 1 | u8::from(self.is_foreign) << 2
    }

    fn of(number: u8) -> Option<Flags> {
        let [has_tombstones, has_keyless, is_foreign] = [1, 2, 4].map(|bit| number & bit != 0);
        let flags = Flags { has_tombstones, has_keyless, is_foreign };
        (flags.number() == number).then_some(flags)
    }
}

/// The header of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHeader {
    /// The length of the payload, without what pads it.
    pub payload_bytes: u32,
    /// The CRC32C of the payload.
    pub payload_crc: u32,
    /// The offset that the records' offsets count from.
    pub first: Offset,
    /// One past the last offset; equal to `first` in a mark.
    pub end: Offset,
    /// When the store took the batch, wall ms, never smaller than in the batch before it.
    pub store_time_ms: u64,
    /// The largest client timestamp among the records, ms.
    pub client_time_max_ms: Option<i64>,
    /// The log's durable end when the batch was staged.
    pub durable_to: Offset,
    /// When compaction first found the tombstones of the batch, wall ms; 0 for never.
    pub tombstone_horizon_ms: u64,
    /// The log's epoch, raised by truncation.
    pub epoch: Epoch,
    /// How often the store had been opened.
    pub life: Life,
    /// How many records the payload holds; 0 in a mark.
    pub records: u32,
    /// How the payload is compressed.
    pub codec: Codec,
    /// What is known about the records.
    pub flags: Flags,
    /// The host's own bytes; the store only carries them.
    pub host: [u8; HOST_BYTES],
    /// The length of the payload before it was compressed; 0 in a foreign batch when the host does not say.
    pub uncompressed_bytes: u32,
}

/// Why bytes are not the header of a batch at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotABatch {
    /// All 128 bytes are zero: nothing was written here.
    #[error("there are only zeros")]
    Empty,
    /// The bytes end within the batch.
    #[error("the bytes end within the batch")]
    Short,
    /// The bytes do not start with the magic of a batch.
    #[error("no batch starts here")]
    Magic,
    /// The bytes are not those that were written to this place of this file.
    #[error("the batch header's checksum does not match its bytes, its file and its position")]
    Checksum,
    /// The bytes are those that were written, but a field holds what it never may.
    #[error("the batch header's field {0} holds what it never may")]
    Field(&'static str),
}

impl BatchHeader {
    /// A batch without records: it carries `durable_to`, and zeros when it pads.
    #[must_use]
    pub fn is_mark(&self) -> bool {
        self.records == 0
    }

    /// This mark with as many zeros behind it as it takes for the next batch to stand on a boundary of `block` bytes (a power of
    /// two, at most half of [`PAD_BYTES_MAX`]), when the mark itself stands at `at`. It always takes some: from a boundary, or from
    /// nearer to the next one than a header is long, it goes on to the one behind.
    #[must_use]
    pub fn padded(self, at: Position, block: usize) -> BatchHeader {
        debug_assert!(self.is_mark() && at.0.is_multiple_of(ALIGN as u64), "{self:?} at {at}");
        let zeros_from = at.plus(HEADER_BYTES);
        let payload_bytes = zeros_from.block_ceiling(block).since(zeros_from) as u32;
        let (payload_crc, uncompressed_bytes) = (zeros_crc(payload_bytes), payload_bytes);
        BatchHeader { payload_bytes, payload_crc, uncompressed_bytes, ..self }
    }

    /// The length of header, payload and padding: the next batch stands this much further on.
    #[must_use]
    pub fn total_length(&self) -> usize {
        total_length(self.payload_bytes as usize)
    }

    /// How many zeros follow the payload.
    #[must_use]
    pub fn padding(&self) -> usize {
        (self.payload_bytes as usize).wrapping_neg() % ALIGN
    }

    /// The header's bytes for this place of this file.
    #[must_use]
    pub fn encode(&self, uid: Uid, at: Position) -> [u8; HEADER_BYTES] {
        debug_assert_eq!(self.check(self.payload_bytes), Ok(()), "{self:?}");
        let mut bytes = [0; HEADER_BYTES];
        let mut writer = Writer::new(&mut bytes);
        writer.bytes(&MAGIC);
        writer.u32(0);
        writer.u32(self.payload_bytes);
        writer.u32(self.payload_crc);
        writer.u64(self.first.0);
        writer.u64(self.end.0);
        writer.u64(self.store_time_ms);
        writer.time(self.client_time_max_ms);
        writer.u64(self.durable_to.0);
        writer.u64(self.tombstone_horizon_ms);
        writer.u64(self.epoch.0);
        writer.u64(self.life.0);
        writer.u32(self.records);
        writer.u8(self.codec.number());
        writer.u8(self.flags.number());
        writer.u16(0);
        writer.bytes(&self.host);
        writer.u32(self.uncompressed_bytes);

        let checksum = checksum_of(&bytes, uid, at);
        if let Some((_, rest)) = bytes.split_first_chunk_mut::<4>() {
            Writer::new(rest).u32(checksum);
        }
        bytes
    }

    /// Reads the header at the front of `bytes`, which stand at this place of this file.
    ///
    /// # Errors
    /// [`NotABatch`]; a payload longer than `payload_max` is refused.
    pub fn decode(bytes: &[u8], uid: Uid, at: Position, payload_max: u32) -> Result<BatchHeader, NotABatch> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(NotABatch::Short);
        };
        let mut reader = Reader::new(bytes);
        if reader.array() != Some(MAGIC) {
            return Err(if Reader::new(bytes).is_zero() { NotABatch::Empty } else { NotABatch::Magic });
        }
        if reader.u32() != Some(checksum_of(bytes, uid, at)) {
            return Err(NotABatch::Checksum);
        }
        let header = BatchHeader::read(reader)?;
        header.check(payload_max).map_err(NotABatch::Field)?;
        Ok(header)
    }

    /// Reads the header at the front of `bytes` when there is one: the same as [`BatchHeader::decode`], for places where mostly there
    /// is none and nobody asks why.
    pub(super) fn decode_if_magic(bytes: &[u8], uid: Uid, at: Position, payload_max: u32) -> Option<BatchHeader> {
        if bytes.first_chunk() == Some(&MAGIC) { BatchHeader::decode(bytes, uid, at, payload_max).ok() } else { None }
    }

    /// Reads the fields behind the checksum.
    fn read(mut reader: Reader<'_>) -> Result<BatchHeader, NotABatch> {
        let short = NotABatch::Short;
        let header = BatchHeader {
            payload_bytes: reader.u32().ok_or(short)?,
            payload_crc: reader.u32().ok_or(short)?,
            first: Offset(reader.u64().ok_or(short)?),
            end: Offset(reader.u64().ok_or(short)?),
            store_time_ms: reader.u64().ok_or(short)?,
            client_time_max_ms: reader.time().ok_or(short)?,
            durable_to: Offset(reader.u64().ok_or(short)?),
            tombstone_horizon_ms: reader.u64().ok_or(short)?,
            epoch: Epoch(counted(reader.u64().ok_or(short)?).ok_or(NotABatch::Field("epoch"))?),
            life: Life(counted(reader.u64().ok_or(short)?).ok_or(NotABatch::Field("life"))?),
            records: reader.u32().ok_or(short)?,
            codec: reader.u8().and_then(Codec::of).ok_or(NotABatch::Field("codec"))?,
            flags: reader.u8().and_then(Flags::of).ok_or(NotABatch::Field("flags"))?,
            host: {
                reader.u16().filter(|&zero| zero == 0).ok_or(NotABatch::Field("reserved"))?;
                reader.array().ok_or(short)?
            },
            uncompressed_bytes: reader.u32().ok_or(short)?,
        };
        if reader.is_zero() { Ok(header) } else { Err(NotABatch::Field("reserved")) }
    }

    /// Checks the fields against each other.
    ///
    /// # Errors
    /// The name of the field that holds what it never may.
    fn check(&self, payload_max: u32) -> Result<(), &'static str> {
        if self.end < self.first {
            return Err("end offset");
        }
        if self.payload_bytes > payload_max {
            return Err("payload length");
        }
        let span = self.end.since(self.first);
        self.check_codec()?;
        match self.is_mark() {
            true if span != 0 => Err("records"),
            true if self.payload_bytes > PAD_BYTES_MAX => Err("payload length"),
            true if self.payload_crc != zeros_crc(self.payload_bytes) => Err("payload checksum"),
            true if self.codec != Codec::None => Err("codec"),
            true if self.flags != Flags::default() => Err("flags"),
            false if self.payload_bytes == 0 || u64::from(self.records) > span => Err("records"),
            _ => Ok(()),
        }
    }

    /// Checks what is said about the payload's compression.
    fn check_codec(&self) -> Result<(), &'static str> {
        let is_foreign = self.flags.is_foreign;
        if !self.codec.is_ours() && !is_foreign {
            return Err("codec");
        }
        let (stated, is_unknown) = (self.uncompressed_bytes, self.uncompressed_bytes == 0);
        let may_be = match self.codec {
            _ if is_foreign && is_unknown => true,
            Codec::None => stated == self.payload_bytes,
            _ => !is_unknown && stated <= PAYLOAD_BYTES_MAX,
        };
        if may_be { Ok(()) } else { Err("uncompressed length") }
    }
}

/// True when `payload` is what the header was written for.
#[must_use]
pub fn verify_payload(header: &BatchHeader, payload: &[u8]) -> bool {
    payload.len() == header.payload_bytes as usize && crc32c(payload) == header.payload_crc
}

/// The CRC32C of so many zeros: what a mark that pads must say. Nothing else ever stands behind one.
fn zeros_crc(bytes: u32) -> u32 {
    const ZEROS: [u8; 4096] = [0; 4096];
    let (mut sum, mut left) = (Checksum::new(), bytes as usize);
    while left > 0 {
        let piece = ZEROS.get(..left).unwrap_or(&ZEROS);
        sum = sum.with(piece);
        left = left.saturating_sub(piece.len());
    }
    sum.get()
}

/// The checksum covers the file and the place, so that bytes of a file's former life, of another file or of another place never pass.
fn checksum_of(bytes: &[u8; HEADER_BYTES], uid: Uid, at: Position) -> u32 {
    let mut covered = [0; HEADER_BYTES + 16];
    let mut writer = Writer::new(&mut covered);
    writer.bytes(Reader::new(bytes).rest().get(8..).unwrap_or_default());
    writer.u128(uid.0);
    writer.u64(at.0);
    Checksum::new().with(&covered).get()
}

#[cfg(test)]
mod tests {
    use super::super::any::{self, for_every_flip, put};
    use super::*;
    use proptest::prelude::*;

    const UID: Uid = Uid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
    const AT: Position = Position(0x1_0000_1008);

    fn example() -> BatchHeader {
        BatchHeader {
            payload_bytes: 0x0a0b_0c0d,
            payload_crc: 0x1122_3344,
            first: Offset(0x2122_2324_2526_2728),
            end: Offset(0x3132_3334_3536_3738),
            store_time_ms: 0x4142_4344_4546_4748,
            client_time_max_ms: Some(-2),
            durable_to: Offset(0x5152_5354_5556_5758),
            tombstone_horizon_ms: 0x6162_6364_6566_6768,
            epoch: Epoch(0x7172_7374_7576_7778),
            life: Life(0x7922_2324_2526_2728),
            records: 0x0001_0203,
            codec: Codec::Zstd,
            flags: Flags { has_tombstones: true, ..Flags::default() },
            host: std::array::from_fn(|byte| 0xc0 | byte as u8),
            uncompressed_bytes: 0x0102_0304,
        }
    }

    /// The example, laid out by the table of FORMAT.md.
    fn example_by_the_table() -> [u8; 128] {
        let mut bytes = [0; 128];
        put(&mut bytes, 0, b"SLB1");
        put(&mut bytes, 8, 0x0a0b_0c0d_u32.to_le_bytes());
        put(&mut bytes, 12, 0x1122_3344_u32.to_le_bytes());
        put(&mut bytes, 16, 0x2122_2324_2526_2728_u64.to_le_bytes());
        put(&mut bytes, 24, 0x3132_3334_3536_3738_u64.to_le_bytes());
        put(&mut bytes, 32, 0x4142_4344_4546_4748_u64.to_le_bytes());
        put(&mut bytes, 40, (-2_i64).to_le_bytes());
        put(&mut bytes, 48, 0x5152_5354_5556_5758_u64.to_le_bytes());
        put(&mut bytes, 56, 0x6162_6364_6566_6768_u64.to_le_bytes());
        put(&mut bytes, 64, 0x7172_7374_7576_7778_u64.to_le_bytes());
        put(&mut bytes, 72, 0x7922_2324_2526_2728_u64.to_le_bytes());
        put(&mut bytes, 80, 0x0001_0203_u32.to_le_bytes());
        put(&mut bytes, 84, [2, 1]);
        put(&mut bytes, 88, std::array::from_fn::<u8, 32, _>(|byte| 0xc0 | byte as u8));
        put(&mut bytes, 120, 0x0102_0304_u32.to_le_bytes());
        sign(&mut bytes);
        bytes
    }

    /// Makes the checksum right again, by the table of FORMAT.md.
    fn sign(bytes: &mut [u8; 128]) {
        let covered = [&bytes[8..128], &UID.0.to_le_bytes(), &AT.0.to_le_bytes()].concat();
        put(bytes, 4, crc32c(&covered).to_le_bytes());
    }

    /// The field that is to be refused, and what is put where to that end.
    type Damage = (&'static str, Vec<(usize, Vec<u8>)>);

    fn decode(bytes: &[u8]) -> Result<BatchHeader, NotABatch> {
        BatchHeader::decode(bytes, UID, AT, u32::MAX)
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        assert_eq!(example().encode(UID, AT), example_by_the_table());
        assert_eq!(decode(&example_by_the_table()), Ok(example()));
    }

    #[test]
    fn no_flipped_bit_passes() {
        for_every_flip(&example().encode(UID, AT), 0..128, |bit, bytes| {
            assert!(decode(bytes).is_err(), "bit {bit}");
        });
    }

    #[test]
    fn a_batch_of_another_file_or_another_place_never_passes() {
        let bytes = example().encode(UID, AT);
        for bit in 0..128 {
            let other = Uid(UID.0 ^ 1 << bit);
            assert_eq!(BatchHeader::decode(&bytes, other, AT, u32::MAX), Err(NotABatch::Checksum), "uid, bit {bit}");
        }
        for bit in 0..64 {
            let other = Position(AT.0 ^ 1 << bit);
            assert_eq!(
                BatchHeader::decode(&bytes, UID, other, u32::MAX),
                Err(NotABatch::Checksum),
                "position, bit {bit}"
            );
        }
    }

    #[test]
    fn a_header_that_is_cut_short_is_refused_at_every_byte() {
        let bytes = example().encode(UID, AT);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(NotABatch::Short), "{length} bytes");
        }
    }

    #[test]
    fn zeros_are_told_from_anything_else_without_magic() {
        assert_eq!(decode(&[0; 128]), Err(NotABatch::Empty));
        let mut bytes = [0; 128];
        bytes[127] = 1;
        assert_eq!(decode(&bytes), Err(NotABatch::Magic));
    }

    #[test]
    fn fields_that_never_may_be_are_refused_by_name() {
        let at_8 = |field: u32| (8, field.to_le_bytes().to_vec());
        let unpacked = |field: u32| (120, field.to_le_bytes().to_vec());
        let mark_of = |bytes: u32, crc: u32, codec: u8, flags: u8| {
            let end = (24, 0x2122_2324_2526_2728_u64.to_le_bytes().to_vec());
            let crc = (12, crc.to_le_bytes().to_vec());
            vec![(80, vec![0, 0, 0, 0, codec, flags]), end, crc, at_8(bytes), unpacked(bytes)]
        };
        let damages: [Damage; 21] = [
            ("codec", vec![(84, vec![5])]),
            ("flags", vec![(85, vec![8])]),
            ("reserved", vec![(86, vec![0, 1])]),
            ("reserved", vec![(127, vec![1])]),
            ("reserved", vec![(124, vec![1])]),
            // Gzip that is not foreign, no length or one past the limit, and one that is not the payload's without a codec.
            ("codec", vec![(84, vec![3])]),
            ("uncompressed length", vec![unpacked(0)]),
            ("uncompressed length", vec![unpacked(PAYLOAD_BYTES_MAX + 1)]),
            ("uncompressed length", vec![(85, vec![5]), unpacked(PAYLOAD_BYTES_MAX + 1)]),
            ("uncompressed length", vec![(84, vec![0])]),
            ("uncompressed length", vec![(84, vec![0, 5])]),
            ("end offset", vec![(24, vec![0; 8])]),
            ("records", vec![(80, vec![0; 4])]),
            ("records", vec![at_8(0)]),
            ("records", vec![at_8(0), (80, vec![0; 4])]),
            // One record more than there are offsets.
            ("records", vec![(24, 0x2122_2324_2527_292a_u64.to_le_bytes().to_vec())]),
            // Marks: too long, and with the checksum of something else than zeros.
            ("payload length", mark_of(PAD_BYTES_MAX + 1, zeros_crc(PAD_BYTES_MAX + 1), 0, 0)),
            ("payload checksum", mark_of(PAD_BYTES_MAX, 1, 0, 0)),
            ("payload checksum", mark_of(0, 1, 0, 0)),
            // A mark that is packed or flagged.
            ("codec", mark_of(8, zeros_crc(8), 1, 0)),
            ("flags", mark_of(8, zeros_crc(8), 0, 4)),
        ];
        for (field, damage) in damages {
            let mut bytes = example_by_the_table();
            for (at, value) in &damage {
                put(&mut bytes, *at, value);
            }
            sign(&mut bytes);
            assert_eq!(decode(&bytes), Err(NotABatch::Field(field)), "{damage:?}");
        }
    }

    #[test]
    fn a_payload_is_taken_at_its_limit_and_refused_one_past_it() {
        let bytes = example().encode(UID, AT);
        let length = example().payload_bytes;
        assert_eq!(BatchHeader::decode(&bytes, UID, AT, length), Ok(example()));
        let refused = Err(NotABatch::Field("payload length"));
        assert_eq!(BatchHeader::decode(&bytes, UID, AT, length - 1), refused);
    }

    #[test]
    fn the_next_batch_stands_at_a_multiple_of_8() {
        for (payload_bytes, total, padding) in [(0, 128, 0), (1, 136, 7), (7, 136, 1), (8, 136, 0), (9, 144, 7)] {
            let header = BatchHeader { payload_bytes, ..BatchHeader::default() };
            assert_eq!((header.total_length(), header.padding()), (total, padding), "{payload_bytes} bytes");
        }
    }

    #[test]
    fn a_mark_pads_with_zeros_up_to_a_boundary_from_wherever_it_stands() {
        let mark = BatchHeader { first: Offset(7), end: Offset(7), ..BatchHeader::default() };
        for (at, next) in [(4096, 8192), (4104, 8192), (8064, 8192), (8072, 12_288), (8184, 12_288)] {
            let at = Position(at);
            let padded = mark.padded(at, 4096);
            assert_eq!(at.plus(padded.total_length()), Position(next), "from {at}");
            let decoded = BatchHeader::decode(&padded.encode(UID, at), UID, at, PAYLOAD_BYTES_MAX);
            assert_eq!(decoded, Ok(padded));
            assert!(padded.is_mark() && padded.padding() == 0);
            let mut zeros = vec![0; padded.payload_bytes as usize];
            assert!(verify_payload(&padded, &zeros));
            if let Some(last) = zeros.last_mut() {
                *last = 1;
                assert!(!verify_payload(&padded, &zeros));
            }
        }
    }

    #[test]
    fn the_checksum_of_zeros_is_that_of_any_number_of_them() {
        for bytes in [0, 1, 8, 4095, 4096, 4097, PAD_BYTES_MAX] {
            assert_eq!(zeros_crc(bytes), crc32c(&vec![0; bytes as usize]), "{bytes} zeros");
        }
    }

    #[test]
    fn a_payload_verifies_only_as_it_was() {
        let header = BatchHeader { payload_bytes: 3, payload_crc: crc32c(b"abc"), ..BatchHeader::default() };
        assert!(verify_payload(&header, b"abc"));
        assert!(!verify_payload(&header, b"abd"));
        assert!(!verify_payload(&header, b"abcd"));
        assert!(!verify_payload(&BatchHeader { payload_bytes: 4, ..header }, b"abc"));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(header in any::batch_header(), uid in any::uid(), at in any::number()) {
            let at = Position(at);
            prop_assert_eq!(BatchHeader::decode(&header.encode(uid, at), uid, at, u32::MAX), Ok(header));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
            let mut bytes = bytes;
            if magic && bytes.len() >= 4 {
                put(&mut bytes, 0, MAGIC);
            }
            let _ = decode(&bytes);
        }

        /// Behind a right checksum any fields can stand: what is taken must be what would be written.
        #[test]
        fn any_signed_fields_are_refused_or_read_back(fields in prop::collection::vec(any::<u8>(), 120), mild in any::<bool>()) {
            let mut bytes = [0; 128];
            put(&mut bytes, 0, MAGIC);
            put(&mut bytes, 8, fields);
            if mild {
                put(&mut bytes, 31, [0xff]);
                put(&mut bytes, 84, [1, 3, 0, 0]);
                put(&mut bytes, 123, [0; 5]);
            }
            sign(&mut bytes);
            match decode(&bytes) {
                Ok(header) => prop_assert_eq!(header.encode(UID, AT), bytes),
                Err(why) => prop_assert!(matches!(why, NotABatch::Field(_))),
            }
        }
    }
}
