//! The index of a segment: entries that a footer speaks of, and where they say to start.

use super::{choices, cut};
use strandline::format::checksum::crc32c;
use strandline::format::index::{INDEX_ENTRY_BYTES, Index, entries_max, reserve_bytes};
use strandline::format::segment::DATA_START;
use strandline::id::Offset;

/// The number of entries and their checksum, then the entries.
pub fn check(bytes: &[u8]) {
    let (number, rest) = choices::<4>(cut(bytes));
    let (checksum, entries) = choices::<4>(rest);
    let number = u32::from_le_bytes(number);
    read(entries, number, u32::from_le_bytes(checksum));
    let whole = (entries.len() / INDEX_ENTRY_BYTES) as u32;
    for number in [number, number % whole.saturating_add(2), whole] {
        let covered = entries.get(..(number as usize).saturating_mul(INDEX_ENTRY_BYTES)).unwrap_or_default();
        read(entries, number, crc32c(covered));
    }
    let size = u64::from(number) << (checksum[0] % 40);
    assert!(entries_max(size).saturating_mul(INDEX_ENTRY_BYTES as u64) <= reserve_bytes(size));
}

fn read(bytes: &[u8], number: u32, checksum: u32) {
    let Ok(index) = Index::decode(bytes, number, checksum) else { return };
    assert_eq!(index.entries().len(), number as usize);
    assert_eq!(index.encode(), bytes[..number as usize * INDEX_ENTRY_BYTES], "an index is written as it was read");
    assert_eq!(index.locate(Offset(0)).max(DATA_START), index.locate(Offset(0)));
    for (entry, from) in index.entries().iter().enumerate() {
        let before = |found: bool| if found { from.position } else { DATA_START };
        // One of several equal entries is as good as another, as long as nothing that is looked for stands before it.
        assert!(index.locate(from.first_offset) >= before(true), "entry {entry}");
        assert!(index.locate_time(from.store_time_ms) <= from.position, "entry {entry}");
        if let Some(time) = from.client_time_max_ms {
            assert!(index.locate_client_time(time) <= from.position, "entry {entry}");
        }
        assert!(from.position >= before(false));
    }
}
