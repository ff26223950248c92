//! Entries: what the store saw below its root, looked into where a decision will depend on it.

use crate::decide::{Candidate, DirectoryName, Entry, Evidence, Kind, Now};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use strandline::id::SegmentId;
use strandline::layout::candidate_ids;
use strandline::{EntryKind, RootEntry, Sighted, Store};

/// Who looks, and what needs no look.
pub(crate) struct Seen<'a> {
    pub(crate) store: &'a Store,
    pub(crate) now: &'a Now,
    pub(crate) age_min_ms: u64,
    /// Segments whose directories are known to be theirs.
    pub(crate) known: Option<&'a HashSet<SegmentId>>,
}

/// The entries, each looked into where the decisions will ask what is in it: not one that is known, too young or nothing of a store's.
pub(crate) fn of(seen: &Seen<'_>, root: impl Iterator<Item = RootEntry>) -> Vec<Entry> {
    root.filter_map(|entry| one(seen, entry)).collect()
}

fn one(seen: &Seen<'_>, RootEntry { name, kind, ctime_ms }: RootEntry) -> Option<Entry> {
    let readings = candidate_ids(name.as_bytes());
    let is_known = seen.known.is_some_and(|known| readings.iter().any(|id| known.contains(id)));
    let is_old = seen.now.age_ms(ctime_ms).is_some_and(|age| age >= seen.age_min_ms);
    let evidence = match kind {
        EntryKind::Directory if !readings.is_empty() && !is_known && is_old => seen.store.evidence_in(&name)?,
        _ => Evidence::Unread,
    };
    let kind = match kind {
        EntryKind::Directory => Kind::Directory,
        EntryKind::Symlink => Kind::Symlink,
        EntryKind::File | EntryKind::Other => Kind::Other,
    };
    Some(Entry { name: DirectoryName::new(name.as_bytes()), kind, evidence, ctime_ms })
}

/// What was seen of a candidate, for the store to compare with what is there when it goes.
pub(crate) fn sighted(candidate: &Candidate) -> Sighted {
    Sighted { evidence: candidate.evidence.clone(), ctime_ms: candidate.ctime_ms }
}
