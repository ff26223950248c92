//! What the disks of a host have in common, whoever carries their operations out: the root and its lock, what the host, its file
//! system and its drive allow, how files are opened, and a way to look at names. Knows neither ring nor threads.

mod backend;
mod base;
mod control_group;
mod counters;
pub(crate) mod direct;
mod drive;
mod file_size;
mod filesystem;
pub(crate) mod limits;
pub(crate) mod look;
mod mounts;
pub(crate) mod numbers;
mod on_host;
mod options;
pub(crate) mod probe;
mod root;
mod setup_error;
pub(crate) mod ways;

pub use backend::{BACKEND_VARIABLE, Backend};
pub use control_group::memory_limit;
pub use counters::DiskCounters;
pub use file_size::check_file_size;
pub use limits::open_files;
pub use look::Look;
pub use options::{DirectMode, DiskOptions};
pub use root::{LOCK_NAME, RootLock};
pub use setup_error::SetupError;

pub(crate) use base::{Base, DRAIN_MAX_NS, Opened};
pub(crate) use direct::PROBE_BYTES;
pub(crate) use on_host::OnHost;
