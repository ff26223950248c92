//! Configuration: what an embedder may set, checked as a whole before anything is opened.

use crate::format::batch::HEADER_BYTES;
use crate::format::index;
use crate::host::SharedHost;
use crate::policy::{HOST_FIELD_BYTES_MAX, HOST_FIELDS_MAX, is_own_field};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use strandline_disk::host::Backend;
use strandline_disk::{BLOCK, HostClock};

/// How a segment's blocks are prepared before it takes its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preallocate {
    /// Allocated whole and zero-filled in the background. Durable writes then cost half (no extent conversion).
    Written,
    /// Allocated whole, left unwritten. Cheap to prepare; each durable write converts extents.
    Allocated,
    /// Not allocated: the file grows as it is written.
    Off,
}

/// The least number of descriptors with which a shard gets on: a head and its successor, and room to open another segment.
pub const DESCRIPTORS_MIN: usize = 8;
/// What every shard has open beside its segments: the root, and in the one that keeps the manifest its directory and copies, and the audit log.
pub const DESCRIPTORS_OF_ITS_OWN: usize = 8;

/// The smallest arena, in bytes: four of the pieces in which the store moves what is no commit.
const ARENA_BYTES_MIN: usize = 1 << 20;

/// The arena that commits of up to `commit_bytes` need: one in flight, one being laid.
fn arena_bytes_for(commit_bytes: u64) -> u64 {
    2 * commit_bytes.next_power_of_two()
}

/// Whether data goes past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectIo {
    /// Where a real write and read at open shows that it works; else buffered, with one warning.
    Auto,
    /// Always buffered.
    Off,
}

/// How what was written is made durable. Which way is taken, and why, stands in the capability report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    /// One log in a commit: a durable write. Several: one barrier for all of them where every condition for it holds, else a durable
    /// write each.
    Auto,
    /// A durable write (RWF_DSYNC) for each log.
    Dsync,
    /// As `Auto`, and a barrier for one log too. Refused where the conditions do not hold.
    Barrier,
    /// A write, and then a sync of the file, for each log.
    PerFile,
}

/// What a small commit does with the partly filled last block of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SmallCommits {
    /// The next commit writes the block again, its first bytes unchanged. Saves space; one commit of the log at a time.
    Rewrite,
    /// The rest of the block is filled, and the next commit starts in a block of its own. Costs up to 4 KiB a commit.
    Pad,
}

/// How the bytes of files that were given up go back to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// In steps, as fast as appends allow.
    Governed,
    /// At once, whatever it does to appends.
    Unpaced,
}

/// Every knob, with its default in [`Config::new`]. [`Config::check`] refuses what cannot work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    /// The store's directory. Made when absent; its parent must exist.
    pub root: PathBuf,
    /// Size of a segment's file in bytes, from 64 KiB to 4 GiB, rounded up to a power of two: a grade. Default 64 MiB. A log may have
    /// another one (`LogOptions`).
    pub segment_bytes: u64,
    /// How segments are prepared. Default `Written`.
    pub preallocate: Preallocate,
    /// Whether data goes past the page cache. Default `Auto`.
    pub direct: DirectIo,
    /// Who carries the store's operations out: a ring, or plain system calls. The variable `STRANDLINE_BACKEND` of the environment
    /// (`auto`, `uring` or `posix`) overrules it. Default `Auto`.
    pub backend: Backend,
    /// Largest payload of one batch in bytes. Default 1 MiB.
    pub batch_bytes_max: u32,
    /// Most records in one batch. Default 65,536.
    pub batch_records_max: u32,
    /// Largest commit (one write) in bytes; holds at least one batch of the largest size. Default 2 MiB.
    pub commit_bytes_max: u32,
    /// Most appends and reads waiting or in work; one more is answered `Overloaded`. Default 4,096.
    pub outstanding_max: usize,
    /// Most payload bytes waiting or in work; more is answered `Overloaded`. Default 64 MiB.
    pub outstanding_bytes_max: usize,
    /// Most bytes that one read returns, and its default. Default 1 MiB.
    pub read_bytes_max: u32,
    /// Registered memory of a shard in bytes, halved until the host's limits allow it. Default 32 MiB.
    pub arena_bytes: usize,
    /// Size of each manifest copy in bytes: a multiple of 8,192, at least 64 KiB. Default 8 MiB.
    pub manifest_bytes: u64,
    /// Most logs. Default 1,024.
    pub logs_max: usize,
    /// Threads, with a ring and an arena each; a log belongs to one of them by the hash of its name. May change between opens.
    /// Default 1.
    pub shards: usize,
    /// How what was written is made durable. Default `Auto`.
    pub sync: SyncMode,
    /// Most commits of a log in flight. A further one starts only when enough waits for it to be worth it. Default 4.
    pub commit_depth: usize,
    /// How long a commit waits for more appends. Default 0: what arrives during a commit is the next one.
    pub linger: Duration,
    /// After several appends were answered at once, how long a shard gives their callers to come back with more before it commits
    /// again: without that, the first one back would get a commit of his own. Default 30 us; 0 is off.
    pub gather: Duration,
    /// What small commits do with the last block. Default `Rewrite`.
    pub small_commits: SmallCommits,
    /// After how long what was only accepted or written is made durable. Default 100 ms.
    pub flush_interval: Duration,
    /// After how many bytes of a log that is done at once. Default 1 MiB.
    pub flush_bytes: u32,
    /// How long a shard looks for work before it sleeps, while it is busy. Off where there are not more cores than shards and one
    /// more. Default 20 us.
    pub spin: Duration,
    /// Memory of a shard for what was appended last, from which readers at the end are served. Default 32 MiB; 0 is off.
    pub tail_cache_bytes: usize,
    /// Age at which a segment is rolled, whether or not anything is appended: from 60 s on; `None` is off. Default 7 days.
    pub segment_max_age: Option<Duration>,
    /// How long a log rests before a mark tells recovery that all of it was durable. Default 100 ms.
    pub idle_mark_after: Duration,
    /// Most bytes of files that belong to no segment and wait to become one, 0 is none. A file that is given up goes there when there is
    /// room: appends then need no allocation and no filling. Default 1 GiB.
    pub spare_bytes_max: u64,
    /// Files of each size that are made ahead when segments need more than come back, 0 is none. Default 2.
    pub spare_files_min: usize,
    /// Free bytes of the disk below which the pool of spare files is given back and removal goes faster. `None` is a twentieth of the disk, no
    /// less than two segments and no more than 4 GiB or an eighth of the disk; 0 is off. Default `None`.
    pub free_soft_bytes: Option<u64>,
    /// Free bytes of the disk below which appends are refused and files are removed as fast as possible. `None` is a hundredth of the disk, no
    /// less than one segment and no more than 1 GiB or a sixteenth of the disk; 0 is off. Default `None`.
    pub free_hard_bytes: Option<u64>,
    /// Bytes that are allocated and kept for removal, for when even that is refused for want of room; 0 is none. Default 1 MiB.
    pub reserve_bytes: u64,
    /// How the bytes of files that were given up, and that the pool does not take, are freed. Default `Governed`.
    pub removal: Removal,
    /// Most files that are unlinked at once, from 1 to 128. Default 64.
    pub removal_batch: usize,
    /// Kernel threads that may work at removal at once, from 1 to 8. Default 1.
    pub removal_workers: u32,
    /// The p99 that commits may have beside removal even where they have less without; else twice as much as without. Default 1 ms.
    pub removal_budget: Duration,
    /// Bytes a second that are freed even when that takes commits over the budget. Default 32 MiB.
    pub removal_bytes_per_second_min: u64,
    /// Bytes a second of sealed segments that are read again at most, when a sweeper or [`crate::Store::scrub`] asks for it, from 64 KiB to 1 TiB. Default 8 MiB.
    pub scrub_bytes_per_second: u64,
    /// Most bytes of files that a pin holds back from being removed. Default 16 GiB.
    pub pin_bytes_max: u64,
    /// How long a log rests before the manifest knows it as clean: opening the store then looks at none of its files, and the first
    /// append after that costs a commit of the manifest. Default 60 s.
    pub idle_clean_after: Duration,
    /// How long a log is quiet before it keeps no file open; they are opened again when they are needed. `None` is off. Default 30 s.
    pub idle_close_after: Option<Duration>,
    /// Most descriptors that all shards together hold for segments, at least 8 each. `None` goes by the limit on open files. Default `None`.
    pub descriptors_max: Option<usize>,
    /// How long opening waits for another process to let go of the store. Default 30 s.
    pub lock_wait: Duration,
    /// The fields of policies that the host gives a meaning, at most 16 names of at most 64 bytes; any other is refused. Default
    /// `spread_by`.
    pub host_fields: Vec<String>,
    /// Size of the audit log in bytes: a multiple of 16,384 from 64 KiB to 64 MiB. It is made at its first line, and its oldest
    /// quarter makes room for the newest. Default 4 MiB.
    pub audit_bytes: u64,
    /// The host that decides which segments exist: it is asked before one is made. None by default: the store decides by itself.
    #[serde(skip)]
    pub host: Option<SharedHost>,
    /// Opens the store although directories below its root hold data and its manifest knows none of them. They stay where they are, as
    /// strays. Default false: a lost manifest, or another store's root, looks like that.
    pub adopt_unknown: bool,
    /// A deliberate defect, for tests that prove that they would notice it.
    #[cfg(feature = "simulation")]
    pub sabotage: Option<Sabotage>,
    /// The clocks that the store reads, for tests that set the wall clock wrong.
    #[cfg(feature = "simulation")]
    #[serde(skip)]
    pub clock: HostClock,
}

/// A deliberate defect of the engine. The disk's own lies live in `strandline_disk::sim`.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Sabotage {
    /// A segment takes records before the manifest durably knows it.
    RecordBeforeEdit,
    /// Recovery leaves what lies past the end where it is.
    KeepDeadTail,
    /// No log is ever known as clean: each is looked at when the store opens.
    NeverClean,
    /// Commits are not flushed: plain writes, and answers without a sync or a barrier.
    SkipFlush,
    /// The directories of a new segment's file are not synced.
    SkipDirectorySync,
    /// Callers are answered when a commit is started.
    AnswerBeforeCompletion,
    /// One barrier stands for every file, also for those whose blocks were never written or go through the page cache.
    BarrierForAll,
    /// A roll does not wait for what the segment before it has not flushed.
    RollBeforeFlush,
    /// A truncation is answered, and what it dropped is cleared, before the manifest durably knows of it.
    CutBeforeEdit,
    /// A log that rests is written before the manifest durably knows that it is dirty.
    WriteBeforeDirty,
    /// A change of a policy is answered before the manifest durably knows it.
    AnswerPolicyBeforeEdit,
    /// The bytes of a segment go before the manifest durably knows that it was given up.
    ReleaseBeforeEdit,
    /// An orphan is moved into the trash before the manifest durably knows that it was given up.
    MoveBeforeEdit,
    /// Recovery shows what the page cache or the drive's cache gave it, without making that durable first.
    TrustPageCache,
    /// Recovery takes the first batch that does not verify for the end of its log, whatever stands behind it.
    TruncateOnBadChecksum,
    /// The shard's thread panics when it takes a read.
    PanicOnRead,
    /// The shard's thread panics while it opens the store.
    PanicOnOpen,
}

/// A configuration that cannot work: which fields, which values, what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value is outside its range.
    #[error("{field} = {value} is out of range: set it from {low} to {high}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The smallest legal value.
        low: u64,
        /// The largest legal value.
        high: u64,
    },
    /// A value is not a multiple of what it must be.
    #[error("{field} = {value} must be a multiple of {unit}")]
    NotAMultiple {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The unit.
        unit: u64,
    },
    /// A field of policies would have two meanings.
    #[error("host_fields names {name:?}, which has a meaning already: give the host's field a name of its own")]
    FieldTaken {
        /// The name.
        name: String,
    },
    /// Two fields contradict each other.
    #[error(
        "{larger} = {larger_value} must be at least {needed} for {smaller} = {smaller_value}: raise {larger} or lower {smaller}"
    )]
    TooSmallFor {
        /// The field that is too small.
        larger: &'static str,
        /// Its value.
        larger_value: u64,
        /// What it must be at least.
        needed: u64,
        /// The field that needs it.
        smaller: &'static str,
        /// Its value.
        smaller_value: u64,
    },
}

/// A configuration that has been checked. Only this reaches the floors below.
#[derive(Clone, Debug)]
pub struct CheckedConfig(Config);

impl std::ops::Deref for CheckedConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.0
    }
}

impl Config {
    /// The defaults, for a store at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Config {
        Config {
            root: root.into(),
            segment_bytes: 64 << 20,
            preallocate: Preallocate::Written,
            direct: DirectIo::Auto,
            backend: Backend::Auto,
            batch_bytes_max: 1 << 20,
            batch_records_max: 65_536,
            commit_bytes_max: 2 << 20,
            outstanding_max: 4_096,
            outstanding_bytes_max: 64 << 20,
            read_bytes_max: 1 << 20,
            arena_bytes: 32 << 20,
            manifest_bytes: 8 << 20,
            logs_max: 1_024,
            shards: 1,
            sync: SyncMode::Auto,
            commit_depth: 4,
            linger: Duration::ZERO,
            gather: Duration::from_micros(30),
            small_commits: SmallCommits::Rewrite,
            flush_interval: Duration::from_millis(100),
            flush_bytes: 1 << 20,
            spin: Duration::from_micros(20),
            tail_cache_bytes: 32 << 20,
            segment_max_age: Some(Duration::from_secs(7 * 24 * 3600)),
            idle_mark_after: Duration::from_millis(100),
            spare_bytes_max: 1 << 30,
            spare_files_min: 2,
            free_soft_bytes: None,
            free_hard_bytes: None,
            reserve_bytes: 1 << 20,
            removal: Removal::Governed,
            removal_batch: 64,
            removal_workers: 1,
            removal_budget: Duration::from_millis(1),
            removal_bytes_per_second_min: 32 << 20,
            scrub_bytes_per_second: 8 << 20,
            pin_bytes_max: 16 << 30,
            idle_clean_after: Duration::from_secs(60),
            idle_close_after: Some(Duration::from_secs(30)),
            descriptors_max: None,
            lock_wait: Duration::from_secs(30),
            host_fields: vec!["spread_by".to_owned()],
            audit_bytes: 4 << 20,
            host: None,
            adopt_unknown: false,
            #[cfg(feature = "simulation")]
            sabotage: None,
            #[cfg(feature = "simulation")]
            clock: HostClock::default(),
        }
    }

    /// Checks every field and every relation between fields.
    ///
    /// # Errors
    /// The first thing that cannot work, naming the field, its value and what to change.
    pub fn check(self) -> Result<CheckedConfig, ConfigError> {
        let block = BLOCK as u64;
        in_range("segment_bytes", self.segment_bytes, 64 << 10, 4 << 30)?;
        in_range("batch_bytes_max", u64::from(self.batch_bytes_max), 1, 64 << 20)?;
        in_range("batch_records_max", u64::from(self.batch_records_max), 1, 1 << 24)?;
        in_range("commit_bytes_max", u64::from(self.commit_bytes_max), block, 128 << 20)?;
        in_range("outstanding_max", self.outstanding_max as u64, 1, 1 << 20)?;
        in_range("outstanding_bytes_max", self.outstanding_bytes_max as u64, 1, 1 << 40)?;
        in_range("read_bytes_max", u64::from(self.read_bytes_max), 1, 64 << 20)?;
        in_range("arena_bytes", self.arena_bytes as u64, ARENA_BYTES_MIN as u64, 1 << 34)?;
        in_range("manifest_bytes", self.manifest_bytes, 64 << 10, 1 << 30)?;
        multiple_of("manifest_bytes", self.manifest_bytes, 2 * block)?;
        in_range("audit_bytes", self.audit_bytes, 64 << 10, 64 << 20)?;
        multiple_of("audit_bytes", self.audit_bytes, 4 * block)?;
        in_range("host_fields (count)", self.host_fields.len() as u64, 0, HOST_FIELDS_MAX as u64)?;
        for name in &self.host_fields {
            in_range("host_fields (bytes of a name)", name.len() as u64, 1, HOST_FIELD_BYTES_MAX as u64)?;
            if is_own_field(name) || self.host_fields.iter().filter(|other| *other == name).count() > 1 {
                return Err(ConfigError::FieldTaken { name: name.clone() });
            }
        }
        in_range("logs_max", self.logs_max as u64, 1, 1 << 20)?;
        in_range("shards", self.shards as u64, 1, 64)?;
        in_range("commit_depth", self.commit_depth as u64, 1, 32)?;
        in_range("linger (us)", self.linger.as_micros() as u64, 0, 1_000_000)?;
        in_range("gather (us)", self.gather.as_micros() as u64, 0, 10_000)?;
        in_range("flush_interval (us)", self.flush_interval.as_micros() as u64, 100, 3_600_000_000)?;
        in_range("flush_bytes", u64::from(self.flush_bytes), block, 64 << 20)?;
        in_range("spin (us)", self.spin.as_micros() as u64, 0, 10_000)?;
        in_range("tail_cache_bytes", self.tail_cache_bytes as u64, 0, 1 << 36)?;
        in_range("spare_bytes_max", self.spare_bytes_max, 0, 1 << 50)?;
        in_range("spare_files_min", self.spare_files_min as u64, 0, 1_000)?;
        for (field, bytes) in [("free_soft_bytes", self.free_soft_bytes), ("free_hard_bytes", self.free_hard_bytes)] {
            in_range(field, bytes.unwrap_or(0), 0, 1 << 50)?;
        }
        in_range("reserve_bytes", self.reserve_bytes, 0, 1 << 40)?;
        in_range("removal_batch", self.removal_batch as u64, 1, 128)?;
        in_range("removal_workers", u64::from(self.removal_workers), 1, 8)?;
        in_range("removal_budget (us)", self.removal_budget.as_micros() as u64, 50, 1_000_000)?;
        in_range("removal_bytes_per_second_min", self.removal_bytes_per_second_min, 1 << 20, 1 << 40)?;
        in_range("scrub_bytes_per_second", self.scrub_bytes_per_second, 64 << 10, 1 << 40)?;
        if let Some(age) = self.segment_max_age {
            in_range(
                "segment_max_age (ms)",
                age.as_millis().try_into().unwrap_or(u64::MAX),
                60_000,
                u64::MAX / 1_000_000,
            )?;
        }
        self.check_descriptors()?;
        let batch = ("batch_bytes_max", u64::from(self.batch_bytes_max));
        let batch_on_disk = (batch.1 + HEADER_BYTES as u64).next_multiple_of(8);
        // The header block of a new segment and the kept part of the tail block go into the same write.
        let commit = ("commit_bytes_max", u64::from(self.commit_bytes_max));
        large_enough(commit, batch_on_disk.next_multiple_of(block) + 2 * block, batch)?;
        large_enough(("segment_bytes", self.segment_bytes), segment_bytes_for(batch_on_disk), batch)?;
        large_enough(("outstanding_bytes_max", self.outstanding_bytes_max as u64), batch.1, batch)?;
        if let (Some(soft), Some(hard)) = (self.free_soft_bytes.filter(|soft| *soft > 0), self.free_hard_bytes) {
            large_enough(("free_soft_bytes", soft), hard, ("free_hard_bytes", hard))?;
        }
        large_enough(("arena_bytes", self.arena_bytes as u64), arena_bytes_for(commit.1), commit)?;
        Ok(CheckedConfig(self))
    }

    fn check_descriptors(&self) -> Result<(), ConfigError> {
        let idle_ms = self.idle_close_after.map_or(1, |after| after.as_millis().try_into().unwrap_or(u64::MAX));
        in_range("idle_close_after (ms)", idle_ms, 1, u64::MAX / 1_000_000)?;
        let Some(most) = self.descriptors_max.map(|most| most as u64) else { return Ok(()) };
        in_range("descriptors_max", most, DESCRIPTORS_MIN as u64, 1 << 20)?;
        large_enough(("descriptors_max", most), (self.shards * DESCRIPTORS_MIN) as u64, ("shards", self.shards as u64))
    }
}

/// What a log is opened with; what is left out is as the store has it. Kept while the store is open: who wants it again says so again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of its segments in bytes, rounded up to a power of two. Segments that are there keep theirs.
    pub segment_bytes: Option<u64>,
    /// Age at which its segments are rolled, from 60 s on; `Some(None)` is off. A sweep knows policies only: its next pass sets what the
    /// topic's policy says, or the global values.
    pub segment_max_age: Option<Option<Duration>>,
}

/// The grade of a segment of so many bytes: files of one grade are alike, and can take each other's place.
#[must_use]
pub fn grade(segment_bytes: u64) -> u64 {
    segment_bytes.next_power_of_two()
}

impl CheckedConfig {
    /// Checks what a log is to be opened with.
    ///
    /// # Errors
    /// As [`Config::check`].
    pub fn check_log(&self, options: &LogOptions) -> Result<(), ConfigError> {
        let segment_bytes = options.segment_bytes.unwrap_or(self.segment_bytes);
        let segment_max_age = options.segment_max_age.unwrap_or(self.segment_max_age);
        Config { segment_bytes, segment_max_age, ..self.0.clone() }.check().map(drop)
    }

    /// The smallest segment that takes the largest batch, in bytes.
    #[must_use]
    pub fn segment_bytes_min(&self) -> u64 {
        let batch = (u64::from(self.batch_bytes_max) + HEADER_BYTES as u64).next_multiple_of(8);
        segment_bytes_for(batch)
    }

    /// The most that may stand past the durable end of a log at a crash, in bytes: two of the largest commits, what was written and
    /// not flushed yet, and the block that they share with what stood before them. Commits in flight are bounded by this too,
    /// however many `commit_depth` allows.
    #[must_use]
    pub fn look_ahead(&self) -> u64 {
        let in_flight = 2 * u64::from(self.commit_bytes_max) + u64::from(self.flush_bytes);
        in_flight.next_multiple_of(BLOCK as u64) + BLOCK as u64
    }

    /// The least that the arena may shrink to where the host's limits are tight, in bytes.
    #[must_use]
    pub fn arena_bytes_min(&self) -> usize {
        (arena_bytes_for(u64::from(self.commit_bytes_max)) as usize).max(ARENA_BYTES_MIN)
    }

    /// With other amounts of memory, where the host's limit asks for less.
    pub(crate) fn with_memory(
        self,
        arena_bytes: usize,
        tail_cache_bytes: usize,
        outstanding_bytes_max: usize,
    ) -> CheckedConfig {
        CheckedConfig(Config { arena_bytes, tail_cache_bytes, outstanding_bytes_max, ..self.0 })
    }

    /// How many descriptors one shard may hold.
    #[must_use]
    pub fn descriptors_of_a_shard(&self) -> usize {
        self.descriptors_max.map_or(usize::MAX, |most| (most / self.shards).saturating_add(DESCRIPTORS_OF_ITS_OWN))
    }

    /// The same with another number of descriptors, as it was decided when the store was opened.
    pub(crate) fn with_descriptors(&self, most: usize) -> CheckedConfig {
        CheckedConfig(Config { descriptors_max: Some(most), ..self.0.clone() })
    }

    /// The clocks that the store reads.
    pub(crate) fn host_clock(&self) -> HostClock {
        #[cfg(feature = "simulation")]
        return self.clock.clone();
        #[cfg(not(feature = "simulation"))]
        HostClock::default()
    }

    /// Whether this deliberate defect is wanted.
    #[cfg(feature = "simulation")]
    pub(crate) fn sabotaged(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }
}

/// True when the named deliberate defect is switched on; always false, at no cost, outside tests.
macro_rules! sabotaged {
    ($config:expr, $which:ident) => {{
        #[cfg(feature = "simulation")]
        let on = $config.sabotaged($crate::config::Sabotage::$which);
        #[cfg(not(feature = "simulation"))]
        let on = {
            let _ = &$config;
            false
        };
        on
    }};
}
pub(crate) use sabotaged;

/// The smallest segment for a batch of so many bytes on disk: its header, the batch, a mark, and the largest index with the footer,
/// whose room grows with the segment.
fn segment_bytes_for(batch_on_disk: u64) -> u64 {
    let mut bytes = 0;
    loop {
        let content = BLOCK as u64 + batch_on_disk + HEADER_BYTES as u64 + index::reserve_bytes(bytes);
        let needed = content.next_multiple_of(BLOCK as u64);
        if needed <= bytes {
            return bytes;
        }
        bytes = needed;
    }
}

fn in_range(field: &'static str, value: u64, low: u64, high: u64) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(ConfigError::OutOfRange { field, value, low, high }) }
}

fn multiple_of(field: &'static str, value: u64, unit: u64) -> Result<(), ConfigError> {
    if value.is_multiple_of(unit) { Ok(()) } else { Err(ConfigError::NotAMultiple { field, value, unit }) }
}

fn large_enough(larger: (&'static str, u64), needed: u64, smaller: (&'static str, u64)) -> Result<(), ConfigError> {
    if larger.1 >= needed {
        return Ok(());
    }
    Err(ConfigError::TooSmallFor {
        larger: larger.0,
        larger_value: larger.1,
        needed,
        smaller: smaller.0,
        smaller_value: smaller.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_work() {
        Config::new("x").check().expect("defaults");
    }

    #[test]
    fn a_refusal_names_the_field_and_the_value() {
        let refuse = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::new("x");
            change(&mut config);
            config.check().expect_err("a refusal").to_string()
        };
        assert_eq!(
            refuse(&|c| c.segment_bytes = 4096),
            "segment_bytes = 4096 is out of range: set it from 65536 to 4294967296"
        );
        assert_eq!(refuse(&|c| c.manifest_bytes += 1), "manifest_bytes = 8388609 must be a multiple of 8192");
        assert!(refuse(&|c| c.commit_bytes_max = 1 << 20).contains("for batch_bytes_max = 1048576"));
        assert!(refuse(&|c| c.segment_bytes = 1 << 20).contains("for batch_bytes_max"));
        assert!(refuse(&|c| c.arena_bytes = 1 << 20).contains("for commit_bytes_max"));
        assert!(
            refuse(&|c| (c.free_soft_bytes, c.free_hard_bytes) = (Some(5), Some(6)))
                .contains("free_soft_bytes = 5 must be at least 6 for free_hard_bytes = 6")
        );
        assert!(refuse(&|c| c.outstanding_max = 0).contains("outstanding_max = 0"));
    }
}
