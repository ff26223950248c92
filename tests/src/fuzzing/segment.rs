//! The first and the last block of a data file.

use super::{cut, sign};
use strandline::format::index::entries_max;
use strandline::format::segment::{DATA_START, SegmentFooter, SegmentHeader};
use strandline_disk::BLOCK;

/// The bytes are a header, and a footer.
pub fn check(bytes: &[u8]) {
    let bytes = cut(bytes);
    header(bytes);
    header(&sign::block(*b"STRSEGMT", bytes));
    footer(bytes);
    footer(&sign::block(*b"STRFOOTR", bytes));
}

fn header(bytes: &[u8]) {
    let Ok(header) = SegmentHeader::decode(bytes) else { return };
    assert_eq!(header.encode(), bytes[..BLOCK], "a header is written as it was read: {header:?}");
    assert!(header.size.is_multiple_of(BLOCK as u64));
    assert!(!header.segment.to_string().is_empty(), "its segment has a directory");
}

fn footer(bytes: &[u8]) {
    let Ok(footer) = SegmentFooter::decode(bytes) else { return };
    assert_eq!(footer.encode(), bytes[..BLOCK], "a footer is written as it was read: {footer:?}");
    assert!(footer.end >= footer.base && footer.data_end >= DATA_START && footer.index_at >= footer.data_end);
    assert!(u64::from(footer.index_entries) <= entries_max(footer.index_at.0.saturating_add(BLOCK as u64)));
    assert_eq!(DATA_START.0 + footer.logical_bytes(), footer.data_end.0);
    assert_eq!(footer.index_bytes() / 32, footer.index_entries as usize);
}
