//! The manifest's bytes: the header of a region, and the frames behind it.
//!
//! Which copy is believed, and where the frames end, is decided by who reads the files.

use super::block::{self, BLOCK_BYTES, BlockError, Magic, nothing_left};
use super::checksum::{Checksum, Sums};
use super::field::{Reader, Writer, counted};
use crate::id::StoreId;
use strandline_disk::Position;

pub use super::edit::{Edit, EditError, ReleaseReason, ScrubAt, ScrubCursor};
pub use super::edit_bytes::EDIT_HEADER_BYTES;
pub use super::policy_edit::PolicyEdit;

/// The most bytes of edits in one frame.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// The length of a frame in front of its edits.
pub const FRAME_HEADER_BYTES: usize = 32;

/// Frames stand at multiples of this.
pub const FRAME_ALIGN: usize = 8;

/// Where the first frame of a region stands.
pub const FRAMES_START: Position = Position(BLOCK_BYTES as u64);

/// What a frame begins with.
pub const FRAME_MAGIC: [u8; 4] = *b"SLMF";

/// The header of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionHeader {
    /// The store.
    pub store: StoreId,
    /// Of the two regions of a copy, the one with the larger sequence is in force.
    pub sequence: u64,
    /// How long each region of this manifest is, in bytes: what the file's length says only while the file is whole.
    pub region_bytes: u64,
}

impl RegionHeader {
    /// The block.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        block::encode(Magic::ManifestRegion, |writer| {
            writer.u128(self.store.0);
            writer.u64(self.sequence);
            writer.u64(self.region_bytes);
        })
    }

    /// Reads the block at the front of `bytes`.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn decode(bytes: &[u8]) -> Result<RegionHeader, BlockError> {
        let mut reader = block::decode(Magic::ManifestRegion, bytes)?;
        let store = StoreId(reader.u128().ok_or(BlockError::Field("store"))?);
        let sequence = reader.u64().and_then(counted).ok_or(BlockError::Field("sequence"))?;
        let region_bytes = reader.u64().ok_or(BlockError::Field("region bytes"))?;
        nothing_left(reader)?;
        Ok(RegionHeader { store, sequence, region_bytes })
    }
}

/// One commit: all of its edits or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// One more than that of the frame before it in the region; the first is 0.
    pub number: u64,
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

/// Where a frame stands, which its checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// The store.
    pub store: StoreId,
    /// The sequence of the region.
    pub sequence: u64,
    /// The frame's position in the region.
    pub position: Position,
}

/// Why bytes are not the frame that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAFrame {
    /// The frame's 32 bytes are zero: nothing was written here.
    #[error("there are only zeros")]
    Empty,
    /// The bytes end within the frame.
    #[error("the bytes end within the frame")]
    Short,
    /// The bytes do not start with the magic of a frame.
    #[error("no frame starts here")]
    Magic,
    /// The frame says that it is longer than any frame.
    #[error("the frame says that it has {0} bytes of edits, more than any frame")]
    Length(u32),
    /// The bytes are not those that were written to this place of this region of this store.
    #[error("the frame's checksum does not match its bytes and its place")]
    Checksum,
    /// The frame is good but another one was to stand here.
    #[error("frame {found} stands where frame {expected} was to stand")]
    Number {
        /// The number that was looked for.
        expected: u64,
        /// The number that the frame has.
        found: u64,
    },
    /// The bytes are those that were written, but a field of the frame holds what it never may.
    #[error("the frame's field {0} holds what it never may")]
    Field(&'static str),
    /// The bytes are those that were written, but an edit cannot be read.
    #[error("edit {index} of the frame: {error}")]
    Edit {
        /// Which edit of the frame, from 0.
        index: u32,
        /// What is wrong with it.
        error: EditError,
    },
}

/// How many of the first of these edits go into one frame. At least one does when there is any.
#[must_use]
pub fn edits_that_fit(edits: &[Edit]) -> usize {
    let mut bytes = 0_usize;
    let fits = |edit: &&Edit| {
        bytes = bytes.saturating_add(edit.encoded_bytes());
        bytes <= FRAME_BYTES_MAX
    };
    edits.iter().take_while(fits).count()
}

/// The bytes of a frame for this place, padded to a multiple of 8.
///
/// # Panics
/// When the edits take more than [`FRAME_BYTES_MAX`] bytes; [`edits_that_fit`] tells beforehand.
#[must_use]
pub fn encode_frame(edits: &[Edit], number: u64, place: FramePlace) -> Vec<u8> {
    let payload_bytes = edits.iter().map(Edit::encoded_bytes).sum::<usize>();
    assert!(payload_bytes <= FRAME_BYTES_MAX, "a frame with {payload_bytes} bytes of edits");
    let mut bytes = vec![0; frame_bytes(payload_bytes)];
    let mut writer = Writer::new(&mut bytes);
    writer.bytes(&FRAME_MAGIC);
    writer.u32(0);
    writer.u32(payload_bytes as u32);
    writer.u32(edits.len() as u32);
    writer.u64(number);
    writer.u64(0);
    for edit in edits {
        edit.write(&mut writer);
    }
    if let Some((head, covered)) = bytes.split_first_chunk_mut::<8>() {
        let covered = covered.get(..covered_bytes(payload_bytes)).unwrap_or_default();
        let mut writer = Writer::new(head);
        writer.bytes(&FRAME_MAGIC);
        writer.u32(checksum_of(covered, place));
    }
    bytes
}

/// Reads the frame at the front of `bytes`, which is to have number `expected`. Answers it with its length, padding included.
///
/// # Errors
/// [`NotAFrame`].
pub fn decode_frame(bytes: &[u8], expected: u64, place: FramePlace) -> Result<(Frame, usize), NotAFrame> {
    let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Err(NotAFrame::Short);
    };
    let mut reader = Reader::new(bytes);
    if reader.array() != Some(FRAME_MAGIC) {
        return Err(if Reader::new(header).is_zero() { NotAFrame::Empty } else { NotAFrame::Magic });
    }
    let checksum = reader.u32().ok_or(NotAFrame::Short)?;
    let covered = reader.rest();
    let payload_length = reader.u32().ok_or(NotAFrame::Short)?;
    let payload_bytes = payload_length as usize;
    if payload_bytes > FRAME_BYTES_MAX {
        return Err(NotAFrame::Length(payload_length));
    }
    let covered = covered.get(..covered_bytes(payload_bytes)).ok_or(NotAFrame::Short)?;
    if checksum_of(covered, place) != checksum {
        return Err(NotAFrame::Checksum);
    }
    let count = reader.u32().ok_or(NotAFrame::Short)?;
    let number = reader.u64().ok_or(NotAFrame::Short)?;
    if reader.u64() != Some(0) {
        return Err(NotAFrame::Field("reserved"));
    }
    if number != expected {
        return Err(NotAFrame::Number { expected, found: number });
    }
    let edits = read_edits(reader.bytes(payload_bytes).ok_or(NotAFrame::Short)?, count)?;
    Ok((Frame { number, edits }, frame_bytes(payload_bytes)))
}

/// The length of a frame with so many bytes of edits, which [`FRAME_BYTES_MAX`] bounds.
fn frame_bytes(payload_bytes: usize) -> usize {
    payload_bytes.saturating_add(FRAME_HEADER_BYTES).next_multiple_of(FRAME_ALIGN)
}

/// How many of its bytes a frame's checksum covers: those behind it.
fn covered_bytes(payload_bytes: usize) -> usize {
    payload_bytes.saturating_add(FRAME_HEADER_BYTES - 8)
}

/// The number of the frame that stands at `place` among the bytes of a region, if one does whose checksum is right. Of its edits nothing is
/// read, and its bytes are not looked at again.
#[must_use]
pub fn frame_number(bytes: &[u8], sums: &Sums<'_>, place: FramePlace) -> Option<u64> {
    let start = usize::try_from(place.position.0).ok()?;
    let mut reader = Reader::new(bytes.get(start..)?);
    if reader.array() != Some(FRAME_MAGIC) {
        return None;
    }
    let checksum = reader.u32()?;
    let payload_bytes = reader.u32().filter(|bytes| *bytes as usize <= FRAME_BYTES_MAX)? as usize;
    reader.u32()?;
    let number = reader.u64()?;
    let covered = sums.part(start.checked_add(8)?, covered_bytes(payload_bytes))?;
    (reader.u64() == Some(0) && with_place(covered, place) == checksum).then_some(number)
}

fn read_edits(payload: &[u8], count: u32) -> Result<Vec<Edit>, NotAFrame> {
    // The count is believed only as far as the payload can hold so many edits.
    if count as usize > payload.len() / EDIT_HEADER_BYTES {
        return Err(NotAFrame::Field("number of edits"));
    }
    let mut reader = Reader::new(payload);
    let mut edits = Vec::with_capacity(count as usize);
    for index in 0..count {
        edits.push(Edit::read(&mut reader).map_err(|error| NotAFrame::Edit { index, error })?);
    }
    if reader.rest().is_empty() { Ok(edits) } else { Err(NotAFrame::Field("number of edits")) }
}

/// The checksum covers the store, the region and the place, so that a frame of another one never passes.
fn checksum_of(covered: &[u8], place: FramePlace) -> u32 {
    with_place(Checksum::new().with(covered), place)
}

fn with_place(covered: Checksum, place: FramePlace) -> u32 {
    let mut tail = [0; 32];
    let mut writer = Writer::new(&mut tail);
    writer.u128(place.store.0);
    writer.u64(place.sequence);
    writer.u64(place.position.0);
    covered.with(&tail).get()
}

#[cfg(test)]
mod tests {
    use super::super::any::{for_every_flip, put, sign_block};
    use super::super::checksum::crc32c;
    use super::super::edit_bytes::tests::any_edit;
    use super::*;
    use crate::id::{Life, LogId, RangeNumber, Topic, Uid};
    use proptest::prelude::*;

    const PLACE: FramePlace = FramePlace {
        store: StoreId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        sequence: 0x2122,
        position: Position(4096),
    };

    fn edits() -> Vec<Edit> {
        vec![Edit::Opened { life: Life(7) }, Edit::Gone { uid: Uid(8) }]
    }

    fn frame() -> Vec<u8> {
        encode_frame(&edits(), 5, PLACE)
    }

    fn decode(bytes: &[u8]) -> Result<(Frame, usize), NotAFrame> {
        decode_frame(bytes, 5, PLACE)
    }

    /// Makes the checksum right again, by the table of FORMAT.md.
    fn sign(bytes: &mut [u8]) {
        let length = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes")) as usize;
        let place = [&PLACE.store.0.to_le_bytes()[..], &PLACE.sequence.to_le_bytes(), &PLACE.position.0.to_le_bytes()];
        let covered = [&bytes[8..32 + length], &place.concat()].concat();
        put(bytes, 4, crc32c(&covered).to_le_bytes());
    }

    /// The example, laid out by the tables of FORMAT.md.
    fn frame_by_the_table() -> Vec<u8> {
        let mut bytes = vec![0; 72];
        put(&mut bytes, 0, b"SLMF");
        put(&mut bytes, 8, 34_u32.to_le_bytes());
        put(&mut bytes, 12, 2_u32.to_le_bytes());
        put(&mut bytes, 16, 5_u64.to_le_bytes());
        put(&mut bytes, 32, [1, 8, 0, 0, 0, 7]);
        put(&mut bytes, 45, [9, 16, 0, 0, 0, 8]);
        sign(&mut bytes);
        bytes
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        assert_eq!(frame(), frame_by_the_table());
        assert_eq!(decode(&frame_by_the_table()), Ok((Frame { number: 5, edits: edits() }, 72)));

        let mut block = [0; 4096];
        put(&mut block, 0, b"STRMANIF");
        put(&mut block, 12, 1_u32.to_le_bytes());
        put(&mut block, 16, PLACE.store.0.to_le_bytes());
        put(&mut block, 32, PLACE.sequence.to_le_bytes());
        put(&mut block, 40, 8192_u64.to_le_bytes());
        sign_block(&mut block);
        let header = RegionHeader { store: PLACE.store, sequence: PLACE.sequence, region_bytes: 8192 };
        assert_eq!(header.encode(), block);
        assert_eq!(RegionHeader::decode(&block), Ok(header));
        for_every_flip(&block, 0..4096, |bit, block| assert!(RegionHeader::decode(block).is_err(), "bit {bit}"));
        for length in 0..4096 {
            assert_eq!(RegionHeader::decode(&block[..length]), Err(BlockError::Short(length)));
        }
    }

    /// The zeros that pad a frame are under no checksum, and are not read.
    #[test]
    fn no_flipped_bit_passes() {
        for_every_flip(&frame(), 0..32 + 34, |bit, bytes| assert!(decode(bytes).is_err(), "bit {bit}"));
    }

    #[test]
    fn a_frame_of_another_store_region_or_place_never_passes() {
        let mut places = Vec::new();
        places.extend((0..128).map(|bit| FramePlace { store: StoreId(PLACE.store.0 ^ 1 << bit), ..PLACE }));
        places.extend((0..64).map(|bit| FramePlace { sequence: PLACE.sequence ^ 1 << bit, ..PLACE }));
        places.extend((0..64).map(|bit| FramePlace { position: Position(PLACE.position.0 ^ 1 << bit), ..PLACE }));
        for place in places {
            assert_eq!(decode_frame(&frame(), 5, place), Err(NotAFrame::Checksum), "{place:?}");
        }
        assert_eq!(decode_frame(&frame(), 4, PLACE), Err(NotAFrame::Number { expected: 4, found: 5 }));
    }

    #[test]
    fn a_frame_that_is_cut_short_is_refused_at_every_byte() {
        for length in 0..32 + 34 {
            assert_eq!(decode(&frame()[..length]), Err(NotAFrame::Short), "{length} bytes");
        }
    }

    #[test]
    fn zeros_are_told_from_anything_else_without_magic() {
        assert_eq!(decode(&[0; 64]), Err(NotAFrame::Empty));
        let mut bytes = [0; 64];
        bytes[31] = 1;
        assert_eq!(decode(&bytes), Err(NotAFrame::Magic));
    }

    #[test]
    fn fields_that_never_may_be_are_refused_by_name() {
        let count = NotAFrame::Field("number of edits");
        let damages = [
            (24, 1, NotAFrame::Field("reserved")),
            (12, 0, count),
            (12, 1, count),
            (12, 3, NotAFrame::Edit { index: 2, error: EditError::Short }),
            (15, 0xff, count),
            (32, 77, NotAFrame::Edit { index: 0, error: EditError::Kind(77) }),
            (45, 2, NotAFrame::Edit { index: 1, error: EditError::Long }),
        ];
        for (at, value, error) in damages {
            let mut bytes = frame();
            bytes[at] = value;
            sign(&mut bytes);
            assert_eq!(decode(&bytes), Err(error), "byte {at}");
        }
    }

    fn large_edit() -> Edit {
        let topic = Topic::new("x".repeat(231)).expect("at its limit");
        Edit::LogCreated { log: LogId { topic, range: RangeNumber::default() } }
    }

    #[test]
    fn a_frame_is_taken_at_its_limit_and_one_past_it_is_another_frame() {
        let edits = vec![large_edit(); 5000];
        let fit = edits_that_fit(&edits);
        assert_eq!(fit, FRAME_BYTES_MAX / large_edit().encoded_bytes());
        let bytes = encode_frame(&edits[..fit], 5, PLACE);
        assert_eq!(decode(&bytes).expect("a good frame").0.edits.len(), fit);
        assert_eq!(edits_that_fit(&edits[..3]), 3);
        assert_eq!(edits_that_fit(&[]), 0);

        let mut longer = vec![0; 32 + FRAME_BYTES_MAX + 1];
        put(&mut longer, 0, b"SLMF");
        put(&mut longer, 8, (FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
        sign(&mut longer);
        assert_eq!(decode(&longer), Err(NotAFrame::Length(FRAME_BYTES_MAX as u32 + 1)));
    }

    #[test]
    #[should_panic(expected = "bytes of edits")]
    fn a_frame_past_its_limit_is_not_written() {
        let _ = encode_frame(&vec![large_edit(); 5000], 5, PLACE);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(edits in prop::collection::vec(any_edit(), 0..8), number in any::<u64>(), behind in 0..20_usize) {
            let mut bytes = encode_frame(&edits, number, PLACE);
            let length = bytes.len();
            prop_assert!(length.is_multiple_of(8));
            bytes.resize(length + behind, 0xaa);
            prop_assert_eq!(decode_frame(&bytes, number, PLACE), Ok((Frame { number, edits }, length)));
        }

        #[test]
        fn any_signed_payload_is_refused_or_read_back(payload in prop::collection::vec(0..12_u8, 0..60), count in 0..4_u32) {
            let mut bytes = vec![0; (32 + payload.len()).next_multiple_of(8)];
            put(&mut bytes, 0, b"SLMF");
            put(&mut bytes, 8, (payload.len() as u32).to_le_bytes());
            put(&mut bytes, 12, count.to_le_bytes());
            put(&mut bytes, 16, 5_u64.to_le_bytes());
            put(&mut bytes, 32, payload);
            sign(&mut bytes);
            if let Ok((frame, _)) = decode(&bytes) {
                prop_assert_eq!(encode_frame(&frame.edits, 5, PLACE), bytes);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), magic in any::<bool>()) {
            let mut bytes = bytes;
            if magic && bytes.len() >= 4 {
                put(&mut bytes, 0, FRAME_MAGIC);
            }
            let _ = decode(&bytes);
            let _ = RegionHeader::decode(&bytes);
        }
    }
}
