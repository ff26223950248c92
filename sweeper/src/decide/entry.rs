//! What stands below the root of a store, as the orphan sweep sees it: a name, a kind, and what the header in it says.

use std::fmt;
use strandline::id::SegmentId;
use strandline::layout::{RESERVED, candidate_ids};
pub use strandline::{Evidence, FileHeader as Header};

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
