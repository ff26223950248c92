//! What each verb may answer instead of doing it: one enum per verb, the cause kept, a sentence that says what to change.

mod manifest;
mod orphan;
mod policy;
mod verb;

pub use manifest::ManifestError;
pub use orphan::OrphanError;
pub use policy::PolicyError;
pub use verb::VerbError;

use crate::batch::Batch;
use crate::id::{LogId, Offset, SegmentId, StoreId};
use crate::pending::Unanswered;
use std::path::PathBuf;
use strandline_disk::host::SetupError;
use strandline_disk::{DiskError, Position};

/// Opening a store was refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration cannot work.
    #[error("the configuration was refused: {0}")]
    Config(#[from] crate::config::ConfigError),
    /// The ring or the root could not be set up.
    #[error(transparent)]
    Setup(#[from] std::sync::Arc<SetupError>),
    /// The directory holds other things, and no store.
    #[error("{} holds {entry:?} and no strandline.format: it is not a store. Use an empty directory", root.display())]
    NotAStore {
        /// The directory.
        root: PathBuf,
        /// The first entry that does not belong to a store that is being made.
        entry: String,
    },
    /// Directories hold data, and the manifest knows none of them: it is a new one beside old data, or that of another store.
    #[error(
        "{} holds {directory:?}, data of store {of}, and the manifest of store {store} knows none of the directories there: restore manifest/ and strandline.id of that data, or set adopt_unknown to open all the same and leave them as they are; nothing was changed", root.display()
    )]
    UnknownData {
        /// The store's directory.
        root: PathBuf,
        /// One that holds data.
        directory: String,
        /// The store that its header names.
        of: StoreId,
        /// The store whose manifest was read.
        store: StoreId,
    },
    /// A file that says what this store is does not verify.
    #[error("{file} does not verify ({reason}): restore it from a copy of the store; nothing was changed")]
    Identity {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The manifest is damaged in both copies at the same place.
    #[error(
        "both copies of the manifest are damaged at {position}, and edits after it verify: nothing was changed; restore one copy"
    )]
    ManifestDamaged {
        /// Where, in the region in force.
        position: Position,
    },
    /// Both copies of the manifest have lost the header of their newest page.
    #[error(
        "both copies of the manifest have lost the header of page {sequence}, whose edits verify and are newer than all others: nothing was changed; restore one copy"
    )]
    ManifestHeadersDamaged {
        /// The sequence of the page.
        sequence: u64,
    },
    /// The manifest says two things that cannot both be true.
    #[error("the manifest contradicts itself: {0}; nothing was changed")]
    ManifestContradiction(String),
    /// No copy of the manifest can be read, but the store was made completely.
    #[error(
        "neither copy of the manifest has a region that verifies: restore manifest/a or manifest/b; nothing was changed"
    )]
    ManifestLost,
    /// The manifest does not fit its files any more.
    #[error(
        "the manifest needs {needed} bytes and a region has {room}: the size was set by manifest_bytes when the store was made"
    )]
    ManifestFull {
        /// Bytes of the snapshot.
        needed: u64,
        /// Bytes of a region.
        room: u64,
    },
    /// The limit on open files leaves too few descriptors for the store.
    #[error(
        "this process may open {limit} files (RLIMIT_NOFILE), and the store needs that it may open {least}: raise the soft limit to that or more (ulimit -n, LimitNOFILE=), or lower shards; with fewer than a few for each log that is written it opens and closes files all the time"
    )]
    TooFewDescriptors {
        /// The soft limit.
        limit: u64,
        /// The least that would do.
        least: u64,
    },
    /// A log could not be looked at since no descriptor was to be had: it was there, and is.
    #[error(
        "no descriptor is to be had ({source}): a shard of the store holds {held} and counts on {budget}, this process may open {limit} files (RLIMIT_NOFILE); raise the soft limit (ulimit -n, LimitNOFILE=), lower descriptors_max, or close what else is open, and open the store again: nothing was lost",
        limit = limit.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string())
    )]
    TooManyOpen {
        /// How many the shard held.
        held: usize,
        /// How many it may hold.
        budget: usize,
        /// The soft limit of this process; none when there is none.
        limit: Option<u64>,
        /// What the disk answered.
        source: DiskError,
    },
    /// `sync = barrier` was asked for where one flush does not stand for several files.
    #[error("sync = barrier cannot be used here ({reason}): set sync = auto, which uses it where it may")]
    NoBarrier {
        /// The condition that does not hold.
        reason: String,
    },
    /// The control group has less memory than the store needs at least. Going past its limit would be an OOM kill.
    #[error(
        "the memory limit of the control group is {limit_bytes} bytes, and this configuration needs {needed_bytes}: raise it (memory.max, MemoryMax=, the container's limit), or lower shards, commit_bytes_max or batch_bytes_max; nothing was changed"
    )]
    MemoryLimit {
        /// What the configuration needs at least.
        needed_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The disk failed.
    #[error("opening the store failed: {0}; {remedy}", remedy = .0.remedy())]
    Disk(#[from] DiskError),
    /// The shard's thread could not be started.
    #[error("the shard's thread could not be started: {0}")]
    Thread(String),
    /// The shard's thread ended while it was opening, by a panic.
    #[error("the shard's thread ended while opening: {0}")]
    ShardGone(String),
}

/// Why a log takes no appends any more, until the store is opened again; where a write found no room, until there is some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latch {
    /// The segment whose write or sync failed.
    pub segment: SegmentId,
    /// Where in it.
    pub position: Position,
    /// What the disk answered.
    pub source: DiskError,
}

impl Latch {
    /// What ends it.
    fn ends_when(&self) -> String {
        let until = match self.source.is_without_room() {
            true => "the log goes on when there is room, or when the store is opened again",
            false => "the log takes no appends until the store is opened again",
        };
        format!("{}; {until}", self.source.remedy())
    }
}

/// The store has too much in hand: nothing was queued, the batch comes back.
#[derive(Debug, thiserror::Error)]
#[error(
    "{outstanding} operations ({bytes} bytes) are waiting or in work, the limits are outstanding_max = {limit} and outstanding_bytes_max = {bytes_limit}: try again, or await `append_when_room`"
)]
pub struct Overloaded {
    /// The batch, unchanged.
    pub batch: Batch,
    /// Operations outstanding.
    pub outstanding: usize,
    /// The limit of operations.
    pub limit: usize,
    /// Payload bytes outstanding.
    pub bytes: usize,
    /// The limit of bytes.
    pub bytes_limit: usize,
}

/// An append was not done. What was not acknowledged may or may not be found after a crash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The batch is larger than the store takes.
    #[error("a batch of {bytes} bytes is over batch_bytes_max = {limit}: make smaller batches or raise it")]
    BatchTooLarge {
        /// Bytes of its payload.
        bytes: usize,
        /// The limit.
        limit: u32,
    },
    /// The batch has more records than the store takes.
    #[error("a batch of {records} records is over batch_records_max = {limit}: make smaller batches or raise it")]
    TooManyRecords {
        /// Its records.
        records: u32,
        /// The limit.
        limit: u32,
    },
    /// This write failed, and may or may not be on disk. The log takes no appends until the store is opened again.
    #[error("log {log}: writing segment {} at {} failed: {}; {}", latch.segment, latch.position, latch.source, latch.ends_when())]
    Failed {
        /// The log.
        log: LogId,
        /// What failed, and where.
        latch: Box<Latch>,
    },
    /// An earlier write failed; this append did not touch the disk.
    #[error("log {log} takes no appends since segment {} failed at {} ({}): {}", latch.segment, latch.position, latch.source, latch.ends_when())]
    Latched {
        /// The log.
        log: LogId,
        /// What had failed, and where.
        latch: Box<Latch>,
    },
    /// There is no room for the next segment. The log goes on by itself when there is.
    #[error("log {log}: no room to prepare the next segment ({source}): {}; appends go on by themselves", source.remedy())]
    DiskFull {
        /// The log.
        log: LogId,
        /// What the disk answered.
        source: DiskError,
    },
    /// The disk has less room than it should have: nothing was tried. Appends go on by themselves when there is more.
    #[error(
        "log {log}: {free} bytes of the disk are free, fewer than free_hard_bytes = {mark}: free space, let the log's records expire or trim it, or lower free_hard_bytes; appends go on by themselves"
    )]
    DiskAlmostFull {
        /// The log.
        log: LogId,
        /// Bytes that are free.
        free: u64,
        /// The mark.
        mark: u64,
    },
    /// The next segment could not be prepared.
    #[error("log {log}: preparing the next segment failed: {source}: {}; it is tried again at the next append", source.remedy())]
    Prepare {
        /// The log.
        log: LogId,
        /// What the disk answered.
        source: DiskError,
    },
    /// Too much is outstanding.
    #[error("{outstanding} operations are waiting or in work, the limit is outstanding_max = {limit}: try again")]
    Overloaded {
        /// Operations outstanding.
        outstanding: usize,
        /// The limit.
        limit: usize,
    },
    /// The host fenced the log.
    #[error("log {log} is fenced: only repairs up to {until} are taken; end the fence, or append elsewhere")]
    Fenced {
        /// The log.
        log: LogId,
        /// How far it may be repaired.
        until: Offset,
    },
    /// A replicated batch does not start where the log ends.
    #[error("log {log} ends at {end}, and the batch starts at {expected}: {}", if expected < end { "truncate the log first" } else { "send what is between first" })]
    OutOfSync {
        /// The log.
        log: LogId,
        /// Where the batch is to start.
        expected: Offset,
        /// Where the log ends.
        end: Offset,
    },
    /// The log is being truncated: offsets are not given meanwhile.
    #[error("log {log} is being truncated: try again when that was answered")]
    Truncating {
        /// The log.
        log: LogId,
    },
    /// The log was deleted.
    #[error("log {log} was deleted")]
    Deleted {
        /// The log.
        log: LogId,
    },
    /// The host does not let the next segment be made.
    #[error("log {log}: the host refused to register the next segment: {reason}")]
    Host {
        /// The log.
        log: LogId,
        /// What it said.
        reason: String,
    },
    /// It was accepted, and could not be written: what came after it was refused too.
    #[error("log {log}: the append at offset {first} was accepted and then lost, with all behind it: append it again")]
    Lost {
        /// The log.
        log: LogId,
        /// Its first offset, which another append has by now.
        first: Offset,
    },
    /// The log rested, and its last segment or the manifest could not be made ready for a write.
    #[error("log {log} rested and could not be roused: {source}; it is tried again at the next append")]
    Rouse {
        /// The log.
        log: LogId,
        /// What the disk answered.
        source: DiskError,
    },
    /// No descriptor was to be had for the log's segment, and none could be let go of.
    #[error(
        "log {log}: no descriptor is to be had for its segment ({source}; the shard holds {held} and may hold {budget}): raise the limit on open files (RLIMIT_NOFILE) or descriptors_max; it is tried again at the next append"
    )]
    TooManyOpen {
        /// The log.
        log: LogId,
        /// How many descriptors its shard holds.
        held: usize,
        /// How many it may hold.
        budget: usize,
        /// What the disk answered, or would have.
        source: DiskError,
    },
    /// The log has used up its offsets or segment numbers.
    #[error("log {log} has no {what} left: use another range")]
    Exhausted {
        /// The log.
        log: LogId,
        /// What is used up.
        what: &'static str,
    },
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
    /// The shard's thread died; open the store again.
    #[error("the shard's thread ended (a panic, or its ring failed): open the store again")]
    ShardGone,
}

/// A read gave nothing, and says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The offset is not in the log.
    #[error("log {log} holds offsets {earliest} to {end}, not {requested}: read from {earliest}")]
    OutOfRange {
        /// The log.
        log: LogId,
        /// What was asked for.
        requested: Offset,
        /// The earliest live offset.
        earliest: Offset,
        /// One past the last readable offset.
        end: Offset,
    },
    /// What stands there does not verify. It is kept as it is.
    #[error(
        "segment {segment} is damaged at {position} ({reason}): offsets {from} to {to} cannot be read; go on at {to}"
    )]
    Corrupt {
        /// The segment.
        segment: SegmentId,
        /// Where the damage starts.
        position: Position,
        /// The first offset that cannot be read.
        from: Offset,
        /// The first offset after the damage.
        to: Offset,
        /// What does not verify.
        reason: String,
    },
    /// The disk failed.
    #[error("reading segment {segment} at {position} failed: {source}")]
    Disk {
        /// The segment.
        segment: SegmentId,
        /// Where.
        position: Position,
        /// What the disk answered.
        source: DiskError,
    },
    /// No descriptor was to be had for the segment, and none could be let go of.
    #[error(
        "segment {segment}: no descriptor is to be had ({source}; the shard holds {held} and may hold {budget}): raise the limit on open files (RLIMIT_NOFILE) or descriptors_max, and read again"
    )]
    TooManyOpen {
        /// The segment.
        segment: SegmentId,
        /// How many descriptors its shard holds.
        held: usize,
        /// How many it may hold.
        budget: usize,
        /// What the disk answered, or would have.
        source: DiskError,
    },
    /// The log was deleted.
    #[error("log {log} was deleted")]
    Deleted {
        /// The log.
        log: LogId,
    },
    /// Too much is outstanding.
    #[error("{outstanding} operations are waiting or in work, the limit is outstanding_max = {limit}: try again")]
    Overloaded {
        /// Operations outstanding.
        outstanding: usize,
        /// The limit.
        limit: usize,
    },
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
    /// The shard's thread died; open the store again.
    #[error("the shard's thread ended (a panic, or its ring failed): open the store again")]
    ShardGone,
}

/// A log could not be opened or made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The store holds as many logs as it may.
    #[error("the store holds {limit} logs, as many as logs_max allows: raise logs_max")]
    TooManyLogs {
        /// The limit.
        limit: usize,
    },
    /// What the log was to be opened with cannot work.
    #[error("the options of the log were refused: {0}")]
    Options(crate::config::ConfigError),
    /// A topic has no range of such a number.
    #[error("a topic has at most 2^31 ranges, not {ranges}")]
    TooManyRanges {
        /// How many were asked for.
        ranges: u32,
    },
    /// The manifest could not be written.
    #[error("the manifest could not be written: {0}; open the store again")]
    Manifest(DiskError),
    /// The manifest does not fit its files any more.
    #[error(
        "the manifest needs {needed} bytes and a region has {room}: the size was set by manifest_bytes when the store was made"
    )]
    ManifestFull {
        /// Bytes of the snapshot.
        needed: u64,
        /// Bytes of a region.
        room: u64,
    },
    /// Too much is outstanding.
    #[error("{outstanding} operations are waiting or in work, the limit is outstanding_max = {limit}: try again")]
    Overloaded {
        /// Operations outstanding.
        outstanding: usize,
        /// The limit.
        limit: usize,
    },
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
    /// The shard's thread died; open the store again.
    #[error("the shard's thread ended (a panic, or its ring failed): open the store again")]
    ShardGone,
}

/// Closing did not end well. Everything that was acknowledged is safe all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// Some logs could not be marked or sealed.
    #[error("{logs} logs could not be closed cleanly, the first of them: {first}; they are recovered at the next open")]
    Unclean {
        /// How many.
        logs: usize,
        /// What the first one met.
        first: DiskError,
    },
    /// The shard's thread died.
    #[error("the shard's thread ended by a panic")]
    ShardGone,
}

impl<T> Unanswered for Result<T, AppendError> {
    fn unanswered() -> Self {
        Err(AppendError::ShardGone)
    }
}

impl<T> Unanswered for Result<T, ReadError> {
    fn unanswered() -> Self {
        Err(ReadError::ShardGone)
    }
}

impl<T> Unanswered for Result<T, LogError> {
    fn unanswered() -> Self {
        Err(LogError::ShardGone)
    }
}

impl Unanswered for Result<(), CloseError> {
    fn unanswered() -> Self {
        Err(CloseError::ShardGone)
    }
}
