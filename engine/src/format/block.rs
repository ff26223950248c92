//! The checksummed block: the frame that the store's small files and the headers and footers of segments share.
//!
//! Also the two blocks that say nothing else: the store's format and the store's identity.

use super::checksum::crc32c;
use super::field::{Reader, Writer};
use crate::id::StoreId;

/// The length of a checksummed block.
pub const BLOCK_BYTES: usize = 4096;

/// The level of the format that this release reads and writes.
pub const LEVEL: u32 = 1;

/// The longest release text in `strandline.format`, in bytes.
pub const RELEASE_BYTES_MAX: usize = 255;

/// What the checksum covers starts here, behind magic and checksum.
const COVERED_FROM: usize = 12;

/// Which structure a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// `strandline.format`.
    Format,
    /// `strandline.id`.
    Identity,
    /// The header of a data file.
    SegmentHeader,
    /// The footer of a sealed data file.
    SegmentFooter,
    /// The header of a manifest region.
    ManifestRegion,
}

impl Magic {
    fn bytes(self) -> &'static [u8; 8] {
        match self {
            Magic::Format => b"STRFORMT",
            Magic::Identity => b"STRIDENT",
            Magic::SegmentHeader => b"STRSEGMT",
            Magic::SegmentFooter => b"STRFOOTR",
            Magic::ManifestRegion => b"STRMANIF",
        }
    }
}

/// Why bytes are not the block that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// There are fewer bytes than a block has.
    #[error("only {0} of the 4096 bytes of a block are there")]
    Short(usize),
    /// All bytes are zero: nothing was ever written here, or it was destroyed on purpose.
    #[error("the block is all zero")]
    Empty,
    /// It does not start with the magic of the structure.
    #[error("the block does not start with its magic")]
    Magic,
    /// Its bytes are not those that were written.
    #[error("the block's checksum does not match its bytes")]
    Checksum,
    /// It was written by a release with another format level.
    #[error("the block has format level {0}; this release reads level 1")]
    Level(u32),
    /// Its bytes are those that were written, but a field holds what it never may.
    #[error("the block's field {0} holds what it never may")]
    Field(&'static str),
}

/// Frames `fields`, which stand at byte 16, as a block.
///
/// # Panics
/// When the fields do not fit into a block.
pub(super) fn encode(magic: Magic, fields: impl FnOnce(&mut Writer<'_>)) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let mut writer = Writer::new(&mut block);
    writer.bytes(magic.bytes());
    writer.u32(0);
    writer.u32(LEVEL);
    fields(&mut writer);

    let (head, covered) = block.split_at_mut(COVERED_FROM);
    let mut writer = Writer::new(head);
    writer.bytes(magic.bytes());
    writer.u32(crc32c(covered));
    block
}

/// Checks the frame of the block at the front of `bytes` and answers its fields.
pub(super) fn decode(magic: Magic, bytes: &[u8]) -> Result<Reader<'_>, BlockError> {
    let Some(block) = bytes.first_chunk::<BLOCK_BYTES>() else {
        return Err(BlockError::Short(bytes.len()));
    };
    let mut reader = Reader::new(block);
    let found = reader.array::<8>();
    let checksum = reader.u32();
    let covered = reader.rest();
    let level = reader.u32();
    if found.as_ref() != Some(magic.bytes()) {
        return Err(if Reader::new(block).is_zero() { BlockError::Empty } else { BlockError::Magic });
    }
    if checksum != Some(crc32c(covered)) {
        return Err(BlockError::Checksum);
    }
    match level {
        Some(LEVEL) => Ok(reader),
        other => Err(BlockError::Level(other.unwrap_or_default())),
    }
}

/// What `strandline.format` says: which store was made completely here, and by which release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFormat {
    /// The store.
    pub store: StoreId,
    /// The release that made it, at most [`RELEASE_BYTES_MAX`] bytes.
    pub release: String,
}

impl StoreFormat {
    /// The block.
    ///
    /// # Panics
    /// When the release is longer than [`RELEASE_BYTES_MAX`] bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        assert!(self.release.len() <= RELEASE_BYTES_MAX, "the release text has {} bytes", self.release.len());
        encode(Magic::Format, |writer| {
            writer.u128(self.store.0);
            writer.u16(self.release.len() as u16);
            writer.bytes(self.release.as_bytes());
        })
    }

    /// Reads the block at the front of `bytes`.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn decode(bytes: &[u8]) -> Result<StoreFormat, BlockError> {
        let mut reader = decode(Magic::Format, bytes)?;
        let store = StoreId(reader.u128().ok_or(BlockError::Field("store"))?);
        let release = reader.short_bytes().filter(|text| text.len() <= RELEASE_BYTES_MAX);
        let release = release.and_then(|text| std::str::from_utf8(text).ok()).ok_or(BlockError::Field("release"))?;
        nothing_left(reader)?;
        Ok(StoreFormat { store, release: release.to_owned() })
    }
}

/// What `strandline.id` says: which store this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// The store.
    pub store: StoreId,
}

impl StoreIdentity {
    /// The block.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        encode(Magic::Identity, |writer| writer.u128(self.store.0))
    }

    /// Reads the block at the front of `bytes`.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn decode(bytes: &[u8]) -> Result<StoreIdentity, BlockError> {
        let mut reader = decode(Magic::Identity, bytes)?;
        let store = StoreId(reader.u128().ok_or(BlockError::Field("store"))?);
        nothing_left(reader)?;
        Ok(StoreIdentity { store })
    }
}

/// Checks that what is left of a block is zero.
pub(super) fn nothing_left(reader: Reader<'_>) -> Result<(), BlockError> {
    if reader.is_zero() { Ok(()) } else { Err(BlockError::Field("rest")) }
}

#[cfg(test)]
mod tests {
    use super::super::any::{for_every_flip, put, sign_block};
    use super::*;
    use proptest::prelude::*;

    const STORE: StoreId = StoreId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

    fn format() -> StoreFormat {
        StoreFormat { store: STORE, release: "strandline 0.1.0".to_owned() }
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        let mut block = [0; 4096];
        put(&mut block, 0, b"STRFORMT");
        put(&mut block, 12, 1_u32.to_le_bytes());
        put(&mut block, 16, STORE.0.to_le_bytes());
        put(&mut block, 32, 16_u16.to_le_bytes());
        put(&mut block, 34, b"strandline 0.1.0");
        sign_block(&mut block);
        assert_eq!(format().encode(), block);
        assert_eq!(StoreFormat::decode(&block), Ok(format()));

        let mut block = [0; 4096];
        put(&mut block, 0, b"STRIDENT");
        put(&mut block, 12, 1_u32.to_le_bytes());
        put(&mut block, 16, STORE.0.to_le_bytes());
        sign_block(&mut block);
        assert_eq!(StoreIdentity { store: STORE }.encode(), block);
        assert_eq!(StoreIdentity::decode(&block), Ok(StoreIdentity { store: STORE }));
    }

    #[test]
    fn no_flipped_bit_passes() {
        for_every_flip(&format().encode(), 0..4096, |bit, block| {
            let why = if bit < 64 { BlockError::Magic } else { BlockError::Checksum };
            assert_eq!(StoreFormat::decode(block), Err(why), "bit {bit}");
        });
    }

    #[test]
    fn a_block_that_is_cut_short_is_refused_at_every_byte() {
        let block = format().encode();
        for length in 0..block.len() {
            assert_eq!(StoreFormat::decode(&block[..length]), Err(BlockError::Short(length)));
        }
        assert_eq!(StoreFormat::decode(&[block.as_slice(), b"more"].concat()), Ok(format()));
    }

    #[test]
    fn an_empty_block_a_block_of_another_kind_and_one_of_another_level_are_told_apart() {
        assert_eq!(StoreFormat::decode(&[0; 4096]), Err(BlockError::Empty));
        assert_eq!(StoreIdentity::decode(&format().encode()), Err(BlockError::Magic));
        let mut block = format().encode();
        put(&mut block, 12, 2_u32.to_le_bytes());
        assert_eq!(StoreFormat::decode(&block), Err(BlockError::Checksum));
        sign_block(&mut block);
        assert_eq!(StoreFormat::decode(&block), Err(BlockError::Level(2)));
    }

    #[test]
    fn fields_that_never_may_be_are_refused_by_name() {
        for (field, at, value) in [("release", 32, vec![0, 1]), ("release", 34, vec![0xff]), ("rest", 4095, vec![1])] {
            let mut block = format().encode();
            put(&mut block, at, value);
            sign_block(&mut block);
            assert_eq!(StoreFormat::decode(&block), Err(BlockError::Field(field)), "byte {at}");
        }
    }

    #[test]
    fn a_release_text_is_taken_at_its_limit() {
        let longest = StoreFormat { store: STORE, release: "x".repeat(RELEASE_BYTES_MAX) };
        assert_eq!(StoreFormat::decode(&longest.encode()), Ok(longest));
    }

    proptest! {
        #[test]
        fn any_signed_fields_are_read_without_panic(fields in prop::collection::vec(any::<u8>(), 0..400), length in 0..300_u16) {
            let mut block = [0; 4096];
            put(&mut block, 0, b"STRFORMT");
            put(&mut block, 12, 1_u32.to_le_bytes());
            put(&mut block, 16, fields);
            put(&mut block, 32, length.to_le_bytes());
            sign_block(&mut block);
            if let Ok(format) = StoreFormat::decode(&block) {
                prop_assert_eq!(format.encode(), block);
            }
        }
    }
}
