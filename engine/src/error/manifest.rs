//! What the manifest answers when it does not take an edit.

use strandline_disk::DiskError;

/// An edit did not become durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The disk failed; the manifest takes no edits until the store is opened again.
    #[error("the manifest could not be written: {0}")]
    Disk(DiskError),
    /// An earlier write had failed; this edit did not touch the disk.
    #[error("the manifest takes no edits since it could not be written: {0}")]
    Latched(DiskError),
    /// The snapshot does not fit a region any more.
    #[error(
        "the manifest needs {needed} bytes and a region has {room}: the size was set by manifest_bytes when the store was made"
    )]
    Full {
        /// Bytes of the snapshot.
        needed: u64,
        /// Bytes of a region.
        room: u64,
    },
    /// Nobody is left to write it. The edit may or may not have become durable.
    #[error("the shard that keeps the manifest has ended: open the store again")]
    Gone,
}
