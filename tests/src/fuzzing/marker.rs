//! The blocks that say what a store and its manifest are: the format, the identity, and the header of a region.

use super::{cut, sign};
use strandline::format::block::{RELEASE_BYTES_MAX, StoreFormat, StoreIdentity};
use strandline::format::manifest::RegionHeader;
use strandline_disk::BLOCK;

/// The bytes are each of these blocks.
pub fn check(bytes: &[u8]) {
    let bytes = cut(bytes);
    read(bytes);
    for magic in [*b"STRFORMT", *b"STRIDENT", *b"STRMANIF"] {
        read(&sign::block(magic, bytes));
    }
}

fn read(bytes: &[u8]) {
    if let Ok(format) = StoreFormat::decode(bytes) {
        assert!(format.release.len() <= RELEASE_BYTES_MAX);
        assert_eq!(format.encode(), bytes[..BLOCK], "a format is written as it was read: {format:?}");
    }
    if let Ok(identity) = StoreIdentity::decode(bytes) {
        assert_eq!(identity.encode(), bytes[..BLOCK], "an identity is written as it was read: {identity:?}");
    }
    if let Ok(region) = RegionHeader::decode(bytes) {
        assert_eq!(region.encode(), bytes[..BLOCK], "a region is written as it was read: {region:?}");
    }
}
