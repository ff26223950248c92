//! Strandline: a segment store for broker authors, on io_uring.
//!
//! [`Store::open`] opens a directory, [`Store::log`] a log in it. [`Log::append`] answers when a batch is durable,
//! [`Log::read`] gives whole verified batches back. No async runtime is needed, and every one works.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod audit;
pub mod batch;
pub mod config;
pub mod error;
pub mod format;
pub mod host;
pub mod id;
pub mod layout;
mod log;
#[doc(hidden)]
pub mod manifest;
pub mod pending;
pub mod policy;
#[doc(hidden)]
pub mod removal;
#[doc(hidden)]
pub mod segment;
#[doc(hidden)]
pub mod shard;
mod store;
mod sync;

pub use batch::{Batch, BatchBuilder, BatchError, Codec, ForeignBatch, Header, Record, StoredBatch, StoredRecord};
pub use config::{Config, DirectIo, LogOptions, Preallocate, Removal, SmallCommits, SyncMode};
pub use error::{
    AppendError, CloseError, Latch, LogError, OpenError, OrphanError, Overloaded, PolicyError, ReadError, VerbError,
};
pub use format::manifest::{ScrubAt, ScrubCursor};
pub use host::{
    BindingsUnavailable, ForgetFailed, Forgotten, Host, HostBindings, HostForgotten, HostStandings, LookupFailed,
    Refusal, SharedHost, Standing,
};
pub use id::{LogId, Offset, RangeNumber, Topic};
pub use log::shared::Bounds;
pub use log::{Level, Receipt};
pub use pending::{Pending, Unfinished};
pub use policy::{Bound, Fields, Gate, Policies, Policy, PolicyName, TopicPolicy};
pub use removal::evidence::{Evidence, FileHeader};
pub use removal::exchange::Removed;
pub use removal::pressure::{Marks, Pressure, Stage};
pub use removal::scrubber::ScrubCounters;
pub use segment::time::Time;
pub use shard::OpenReport;
pub use shard::clock::{
    CLOCK_TOLERANCE_MS, ClockAnchor, ClockReading, Hold, RESTART_GAP_MS, RESTART_GRACE_MS, StoreClock,
};
pub use shard::command::ReadAnswer;
pub use shard::orphan::{GivenUp, LetGo, Sighted};
pub use shard::policies::{Changed, PolicyChange};
pub use shard::verb::{LogInfo, Restamped, Rot, Scrubbed, Sealed, SegmentInfo, SegmentState, Truncated, Verified};
pub use store::{
    Appending, Asked, Counters, Follower, Inventory, ListedSegments, Log, Pin, PolicyDesk, ReadOptions, Reading,
    RootEntry, Seeking, Store, WaitingOrphan,
};
pub use strandline_disk::host::Backend;
pub use strandline_disk::{Capabilities, DiskError, EntryKind, HostClock, Now};
