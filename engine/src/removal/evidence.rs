//! Evidence: what the files of a directory say of themselves, whatever its name says. One judgement for whoever looks: a shard through
//! its ring, or another thread past it. Bytes from the disk are not trusted.

use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{Generation, SegmentId, StoreId, Uid};
use crate::layout;
use crate::segment::survey;
use std::ffi::OsStr;
use std::fmt;
use strandline_disk::{Access, BLOCK, Directory, Disk, DiskError, Entry, EntryKind, Name, OpenFile, transfer};

/// A directory with more data files than this was not made by a store.
const DATA_FILES_MAX: usize = 16;

/// What a valid header block says of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The store that it belongs to.
    pub store: StoreId,
    /// Which file it is.
    pub uid: Uid,
    /// The segment that it belongs to; of a spare file the one that it once belonged to.
    pub segment: SegmentId,
    /// Which file of that segment.
    pub generation: Generation,
}

/// What the files of a directory say of themselves. Of several the one counts that may hold the most: one that cannot be read, or without
/// a valid header, before a live one, then prepared, spare, all zero; of two that say the same, the newer generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// There is no file.
    #[default]
    Empty,
    /// The header block was never written.
    AllZero,
    /// A file that belongs to no segment.
    Spare(FileHeader),
    /// A file that was made ahead and holds nothing.
    Prepared(FileHeader),
    /// A file that holds batches.
    Live {
        /// What its header says.
        header: FileHeader,
        /// When it took its first batch, wall ms; 0 is unknown.
        opened_at_ms: u64,
    },
    /// There is something without a valid header block, or that a segment never has.
    NoHeader,
    /// It could not be read.
    Unread,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Empty => f.write_str("empty"),
            Evidence::AllZero => f.write_str("header block all zero"),
            Evidence::Spare(_) => f.write_str("spare"),
            Evidence::Prepared(header) => write!(f, "prepared for {}", header.segment),
            Evidence::Live { header, .. } => write!(f, "data of {}", header.segment),
            Evidence::NoHeader => f.write_str("data without a valid header block"),
            Evidence::Unread => f.write_str("not readable"),
        }
    }
}

impl Evidence {
    /// The header that counts, where there is a valid one.
    #[must_use]
    pub fn header(&self) -> Option<&FileHeader> {
        match self {
            Evidence::Spare(header) | Evidence::Prepared(header) | Evidence::Live { header, .. } => Some(header),
            Evidence::Empty | Evidence::AllZero | Evidence::NoHeader | Evidence::Unread => None,
        }
    }

    /// How much it may hold.
    fn weight(&self) -> (u8, Generation) {
        let weight = match self {
            Evidence::Empty => 0,
            Evidence::AllZero => 1,
            Evidence::Spare(_) => 2,
            Evidence::Prepared(_) => 3,
            Evidence::Live { .. } => 4,
            Evidence::NoHeader => 5,
            Evidence::Unread => 6,
        };
        (weight, self.header().map(|header| header.generation).unwrap_or_default())
    }

    /// What a first block says.
    fn of_block(block: &[u8]) -> Evidence {
        if block.iter().all(|byte| *byte == 0) {
            return Evidence::AllZero;
        }
        let Ok(header) = SegmentHeader::decode(block) else { return Evidence::NoHeader };
        let SegmentHeader { store, uid, segment, generation, state, opened_at_ms, .. } = header;
        let header = FileHeader { store, uid, segment, generation };
        match state {
            SegmentState::Spare => Evidence::Spare(header),
            SegmentState::Prepared => Evidence::Prepared(header),
            SegmentState::Live => Evidence::Live { header, opened_at_ms },
        }
    }
}

/// A directory that was looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// What its files say.
    pub evidence: Evidence,
    /// The uids of all its files that say theirs.
    pub uids: Vec<Uid>,
    /// The names of its data files, in which nothing else than data stands.
    pub data: Vec<Name>,
    /// The names of what recovery had set aside.
    pub torn: Vec<Name>,
    /// The first thing that no segment has.
    pub foreign: Option<String>,
}

/// What is to be read of an entry.
enum Wanted {
    FirstBlock(Name),
    Nothing,
}

impl Contents {
    /// Takes an entry in, and says what else must be read of it.
    fn entry(&mut self, name: &OsStr, kind: EntryKind) -> Wanted {
        let plain = name.to_str().filter(|_| kind == EntryKind::File).and_then(|text| Name::new(text).ok());
        match plain {
            Some(plain) if layout::torn_file_life(plain.as_str()).is_some() => self.torn.push(plain),
            Some(plain)
                if layout::data_file_generation(plain.as_str()).is_some() && self.data.len() < DATA_FILES_MAX =>
            {
                self.data.push(plain.clone());
                return Wanted::FirstBlock(plain);
            }
            _ => {
                self.foreign.get_or_insert_with(|| name.to_string_lossy().into_owned());
                self.weigh(Evidence::NoHeader);
            }
        }
        Wanted::Nothing
    }

    fn weigh(&mut self, evidence: Evidence) {
        self.uids.extend(evidence.header().map(|header| header.uid));
        if evidence.weight() > self.evidence.weight() {
            self.evidence = evidence;
        }
    }

    /// What was set aside, and nothing that it was set aside from, is data whose owner nobody knows.
    fn done(mut self) -> Contents {
        if self.data.is_empty() && !self.torn.is_empty() {
            self.weigh(Evidence::NoHeader);
        }
        self
    }
}

/// Looks into a directory on a disk. What was looked at just now past the ring is in the page cache, where `access` may find it.
///
/// # Errors
/// The directory could not be listed. A file that cannot be read is [`Evidence::Unread`].
pub(crate) async fn read<D: Disk>(disk: &D, directory: &Directory, access: Access) -> Result<Contents, DiskError> {
    let mut contents = Contents::default();
    for entry in disk.list(directory)? {
        let Wanted::FirstBlock(name) = contents.entry(&entry.name, entry.kind) else { continue };
        let read = async {
            let file = transfer::open(disk, directory, &name, OpenFile::Existing, access).await?;
            survey::read_first_block(disk, &file).await
        };
        contents.weigh(read.await.map_or(Evidence::Unread, |block| Evidence::of_block(&block)));
    }
    Ok(contents.done())
}

/// Judges a directory by what it was listed to hold. `first_block` reads the first block of a file in it; `None` when it cannot be read.
pub(crate) fn judge(entries: Vec<Entry>, mut first_block: impl FnMut(&Name) -> Option<Box<[u8; BLOCK]>>) -> Contents {
    let mut contents = Contents::default();
    for Entry { name, kind } in entries {
        let Wanted::FirstBlock(name) = contents.entry(&name, kind) else { continue };
        contents.weigh(first_block(&name).map_or(Evidence::Unread, |block| Evidence::of_block(&*block)));
    }
    contents.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Epoch, LogId, Offset, RangeNumber, Seq, Topic};
    use proptest::prelude::*;

    fn header(state: SegmentState, uid: u128, generation: u32) -> [u8; 4096] {
        let log = LogId { topic: Topic::new("t").expect("a name"), range: RangeNumber::default() };
        let is_live = state == SegmentState::Live;
        let header = SegmentHeader {
            uid: Uid(uid),
            store: StoreId(7),
            state,
            segment: SegmentId { log, seq: Seq::default() },
            generation: Generation(generation),
            base: Offset(0),
            opened_at_ms: if is_live { 5 } else { 0 },
            epoch: Epoch::default(),
            size: 65_536,
            look_ahead: 4_096,
        };
        header.encode()
    }

    fn of(blocks: &[&[u8]]) -> Contents {
        let mut contents = Contents::default();
        blocks.iter().for_each(|block| contents.weigh(Evidence::of_block(block)));
        contents
    }

    #[test]
    fn of_several_files_the_one_counts_that_may_hold_the_most_and_all_say_their_uids() {
        let (zero, broken) = ([0; 4096], [1; 4096]);
        let spare = header(SegmentState::Spare, 1, 0);
        let prepared = header(SegmentState::Prepared, 2, 0);
        let (live, newer) = (header(SegmentState::Live, 3, 0), header(SegmentState::Live, 4, 1));
        let uid = |contents: &Contents| contents.evidence.header().map(|header| header.uid.0);
        assert_eq!(of(&[]).evidence, Evidence::Empty);
        assert_eq!(of(&[&zero]).evidence, Evidence::AllZero);
        assert_eq!(uid(&of(&[&spare, &zero])), Some(1));
        assert_eq!(uid(&of(&[&prepared, &spare])), Some(2));
        assert_eq!(uid(&of(&[&live, &prepared])), Some(3));
        for both in [of(&[&live, &newer]), of(&[&newer, &live])] {
            assert_eq!((uid(&both), both.uids.len()), (Some(4), 2));
        }
        assert_eq!(of(&[&live, &broken]).evidence, Evidence::NoHeader);
        assert_eq!(of(&[&live, &broken]).uids, [Uid(3)]);
    }

    #[test]
    fn what_no_segment_has_is_named_and_counts_as_data_without_a_header() {
        let entries = [
            ("data.0", EntryKind::Directory),
            ("data.0", EntryKind::Symlink),
            ("data.00", EntryKind::File),
            ("notes", EntryKind::File),
        ];
        for (name, kind) in entries {
            let mut contents = Contents::default();
            assert!(matches!(contents.entry(OsStr::new(name), kind), Wanted::Nothing));
            assert_eq!((contents.evidence, contents.foreign.as_deref()), (Evidence::NoHeader, Some(name)));
        }
        let mut torn = Contents::default();
        assert!(matches!(torn.entry(OsStr::new("torn.3"), EntryKind::File), Wanted::Nothing));
        assert_eq!(torn.done().evidence, Evidence::NoHeader, "nobody knows what it was set aside from");
        let mut many = Contents::default();
        let wanted = |number| OsStr::new(Box::leak(format!("data.{number}").into_boxed_str()));
        let read =
            (0..40).filter(|number| matches!(many.entry(wanted(*number), EntryKind::File), Wanted::FirstBlock(_)));
        assert_eq!(read.count(), DATA_FILES_MAX);
        assert!(many.foreign.is_some());
    }

    proptest! {
        #[test]
        fn any_block_is_judged_without_panic(block in prop::collection::vec(any::<u8>(), 0..5_000)) {
            let evidence = Evidence::of_block(&block);
            let zero = block.iter().all(|byte| *byte == 0);
            prop_assert_eq!(evidence, if zero { Evidence::AllZero } else { Evidence::NoHeader });
        }

        #[test]
        fn a_header_with_a_flipped_bit_is_no_header(at in 0..4096_usize, bit in 0..8_u32) {
            let mut block = header(SegmentState::Live, 3, 0);
            block[at] ^= 1 << bit;
            prop_assert_eq!(Evidence::of_block(&block), Evidence::NoHeader);
        }
    }
}
