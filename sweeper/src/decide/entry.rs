//! What stands below the root of a store, as the orphan sweep sees it: a name, a kind, and what the header in it says.

use std::fmt;
use strandline::id::{SegmentId, StoreId, Uid};
use strandline::layout::{RESERVED, candidate_ids};

/// A name below the root: any bytes that the file system takes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryName(Box<[u8]>);

impl DirectoryName {
    /// The name with these bytes.
    #[must_use]
    pub fn new(name: impl AsRef<[u8]>) -> DirectoryName {
        DirectoryName(name.as_ref().into())
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for DirectoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for DirectoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// What kind of entry it is, not following links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Symlink,
    /// Anything else.
    Other,
}

/// What a valid header block says, whatever state it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The store that it belongs to.
    pub store: StoreId,
    /// Which file it is.
    pub uid: Uid,
    /// The segment that it belongs to.
    pub segment: SegmentId,
}

/// What the data file of a directory says of itself. Of several files the one counts that may hold the most: one without a valid
/// header before a live one, then prepared, spare, all zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// There is no file.
    Empty,
    /// The header block was never written.
    AllZero,
    /// A file that belongs to no segment. The segment in its header means nothing.
    Spare(Header),
    /// A file that was made ahead and holds nothing.
    Prepared(Header),
    /// A file that holds batches.
    Live {
        /// What its header says.
        header: Header,
        /// When it took its first batch, wall ms; 0 is unknown.
        opened_at_ms: u64,
    },
    /// There is something without a valid header block: nobody knows what it is.
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

/// An entry below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: DirectoryName,
    /// Its kind.
    pub kind: Kind,
    /// What its data file says.
    pub evidence: Evidence,
    /// Its ctime, wall ms; 0 is unknown.
    pub ctime_ms: u64,
}

/// Whether a directory of this name can be a segment's: not one of the store's own names, and one that the layout could have written.
///
/// Everything else below a root that an operator chose is not ours to touch: a `lost+found`, a copy taken by hand, another program.
#[must_use]
pub fn is_segment_directory(name: &DirectoryName) -> bool {
    !readings(name).is_empty()
}

/// Every segment whose directory has this name.
pub(super) fn readings(name: &DirectoryName) -> Vec<SegmentId> {
    let is_reserved = RESERVED.iter().any(|reserved| reserved.as_bytes() == name.as_bytes());
    if is_reserved { Vec::new() } else { candidate_ids(name.as_bytes()) }
}
