//! Syncs of the directories into which a shard moves others, each shared by all of its tasks that wait for one.

use strandline_disk::together::Together;

/// The directories of one shard's disk that many tasks sync.
#[derive(Clone, Debug, Default)]
pub struct Syncs {
    /// The root.
    pub root: Together,
    /// The pool.
    pub pool: Together,
    /// The trash.
    pub trash: Together,
}
