//! The store: opening, its logs, closing. Its threads live in `serve`.

use super::descriptors::{self, Decided};
use super::fit;
use super::log::Log;
use super::removing::Removing;
use super::serve::{self, Served, Started, shard_of};
use crate::config::{CheckedConfig, Config, LogOptions};
use crate::error::{CloseError, LogError, OpenError};
use crate::host::SharedHost;
use crate::id::{LogId, RangeNumber, Topic};
use crate::manifest::PublishedPolicies;
use crate::pending::pair;
use crate::removal::exchange::Removed;
use crate::removal::pressure::Pressure;
use crate::removal::scrubber::ScrubCounters;
use crate::shard::command::{Command, Queue, Refused};
use crate::shard::{OpenReport, Siblings};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use strandline_disk::Capabilities;
use strandline_disk::host::{Backend, Look, RootLock, check_file_size, memory_limit};

/// An open store. Dropping it closes it; [`Store::close`] says how that went.
#[derive(Debug)]
pub struct Store {
    config: CheckedConfig,
    shards: Vec<Served>,
    capabilities: Capabilities,
    report: OpenReport,
    siblings: Arc<Siblings>,
    removing: Option<Removing>,
    lock: Arc<RootLock>,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits: writes of batches or marks, each of one log.
    pub commits: u64,
    /// Flushes beside durable writes: barriers and syncs of single files.
    pub flushes: u64,
    /// Barriers among them: one for all logs that had been written.
    pub barriers: u64,
    /// Records acknowledged.
    pub records: u64,
    /// Payload bytes acknowledged.
    pub bytes: u64,
    /// Segments rolled.
    pub rolls: u64,
    /// Rolls that had to wait for their successor.
    pub rolls_waited: u64,
    /// Reads that went to the disk.
    pub reads: u64,
    /// Batches that had been accepted and could not be written.
    pub lost: u64,
    /// Descriptors that the shards hold now.
    pub descriptors: u64,
    /// Descriptors that they may hold.
    pub descriptors_max: u64,
    /// Heads of logs that were let go of to stay within that.
    pub heads_let_go: u64,
    /// Times that the host had no descriptor left for a shard that was within it.
    pub descriptors_refused: u64,
    /// Files of segments that were given up and wait to become others'.
    pub spared: u64,
    /// Files that were made ahead to become segments'.
    pub made: u64,
    /// Spare files that became a segment's.
    pub reused: u64,
    /// Files that wait now.
    pub spare_files: u64,
    /// Their bytes.
    pub spare_bytes: u64,
    /// What became of files that were given up and that the pool did not take.
    pub removal: Removed,
    /// What was read again of sealed segments.
    pub scrub: ScrubCounters,
    /// System calls by which the shards' threads handed operations on and waited for them.
    pub enters: u64,
    /// Operations given to the rings, or to the threads that serve in their place.
    pub submitted: u64,
    /// Threads (shards, and the one that removes files) that plain system calls serve in place of a ring: 0 where all have one.
    pub without_ring: u64,
}

impl Store {
    /// Opens the store at `config.root`; makes it when the directory is absent or empty. Blocks until every log is recovered.
    ///
    /// # Errors
    /// [`OpenError`]. Damage in a segment is no error: [`Store::report`] names it.
    pub fn open(config: Config) -> Result<Store, OpenError> {
        let config = config.check()?;
        let (what, bytes) = fit::largest_file(&config);
        check_file_size(what, bytes).map_err(|error| OpenError::Setup(Arc::new(error)))?;
        let (config, less_memory) = fit::within_memory(config, memory_limit())?;
        if let Some(told) = &less_memory {
            tracing::warn!("{told}");
        }
        let Decided { config, limit, warning } = descriptors::decide(&config)?;
        let Started { shards, mut capabilities, mut report, siblings, removing, lock } = serve::start(&config)?;
        capabilities.warnings.extend(less_memory);
        (report.open_files_limit, report.descriptors_max) = (limit, config.descriptors_max);
        report.warnings.extend(warning);
        Ok(Store { config, shards, capabilities, report, siblings, removing: Some(removing), lock })
    }

    /// Opens a log; makes it, durably, when it does not exist.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn log(&self, topic: &Topic, range: RangeNumber) -> Result<Log, LogError> {
        self.log_with(topic, range, LogOptions::default())
    }

    /// As [`Store::log`], with options of its own.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn log_with(&self, topic: &Topic, range: RangeNumber, options: LogOptions) -> Result<Log, LogError> {
        let id = LogId { topic: topic.clone(), range };
        let (answer, pending) = pair();
        let queue = self.queue_of(&id);
        match queue.admit(0) {
            Ok(admitted) => queue.push(Command::OpenLog { log: id.clone(), options, answer, admitted }),
            Err(Refused::Closed) => return Err(LogError::Closed),
            Err(Refused::Overloaded(outstanding, _)) => {
                return Err(LogError::Overloaded { outstanding, limit: queue.limits().0 });
            }
        }
        let opened = pending.wait()?;
        Ok(Log::new(id, opened, &self.config, queue.clone()))
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.shards.iter().map(|shard| &shard.queue)
    }

    /// The queue of the shard that keeps the manifest.
    pub(super) fn manifest_queue(&self) -> &Arc<Queue> {
        &self.shards[0].queue
    }

    /// Where the policies that are durable now are read.
    pub(super) fn published_policies(&self) -> Option<&PublishedPolicies> {
        self.shards.iter().find_map(|shard| shard.policies.as_ref())
    }

    pub(super) fn config(&self) -> &CheckedConfig {
        &self.config
    }

    /// What the shards share.
    pub(super) fn siblings(&self) -> &Siblings {
        &self.siblings
    }

    pub(super) fn host(&self) -> Option<&SharedHost> {
        self.config.host.as_ref()
    }

    /// A way to look at the root past the shards.
    pub(super) fn look(&self) -> Look {
        Look::new(self.lock.clone())
    }

    pub(super) fn queue_of(&self, log: &LogId) -> &Arc<Queue> {
        &self.shards[shard_of(log, self.shards.len())].queue
    }

    /// What the host, the file system, the drive and the ring were found to allow.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Age in milliseconds at which the configuration has segments rolled; `None` is off.
    #[must_use]
    pub fn segment_max_age_ms(&self) -> Option<u64> {
        self.config.segment_max_age.map(|age| age.as_millis().try_into().unwrap_or(u64::MAX))
    }

    /// What opening found.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// How short of room the disk is, as the last look found it: while segments are made and while there is little room it is looked
    /// at about once a second.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        self.siblings.removal.gauge.read()
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        let removal = &self.siblings.removal;
        (sum.spared, sum.reused) = removal.spares.turnover();
        sum.made = removal.spares.made();
        let (files, bytes) = removal.spares.count();
        (sum.spare_files, sum.spare_bytes) = (files as u64, bytes);
        sum.removal = removal.done.removed();
        sum.scrub = removal.scrubbed.counters();
        let removing = self.removing.iter().map(Removing::backend);
        let backends = self.shards.iter().map(|shard| shard.backend).chain(removing);
        sum.without_ring = backends.filter(|backend| *backend == Backend::Posix).count() as u64;
        for Served { queue, disk, .. } in &self.shards {
            let shard = &queue.counters;
            let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            sum.commits += get(&shard.commits);
            sum.flushes += get(&shard.flushes);
            sum.barriers += get(&shard.barriers);
            sum.records += get(&shard.records);
            sum.bytes += get(&shard.bytes);
            sum.rolls += get(&shard.rolls);
            sum.rolls_waited += get(&shard.rolls_waited);
            sum.reads += get(&shard.reads);
            sum.lost += get(&shard.lost);
            sum.descriptors += get(&shard.descriptors);
            sum.descriptors_max += self.config.descriptors_of_a_shard() as u64;
            sum.heads_let_go += get(&shard.heads_let_go);
            sum.descriptors_refused += get(&shard.descriptors_refused);
            sum.enters += disk.enters();
            sum.submitted += disk.submitted();
        }
        sum
    }

    /// Removal first: what it has done in its last step is for the manifest to hear.
    fn stop(&mut self) -> Result<(), CloseError> {
        drop(self.removing.take());
        summed_up(serve::stop(&mut self.shards))
    }

    /// Finishes everything that was asked for, marks what is durable, and stops.
    ///
    /// # Errors
    /// [`CloseError`]. Everything that was acknowledged is safe all the same.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.stop()
    }
}

/// How all shards closed, in one answer.
fn summed_up(answers: Vec<Result<(), CloseError>>) -> Result<(), CloseError> {
    let (mut unclean, mut first_failure, mut gone) = (0, None, false);
    for answer in answers {
        match answer {
            Ok(()) => {}
            Err(CloseError::Unclean { logs, first }) => {
                unclean += logs;
                first_failure.get_or_insert(first);
            }
            Err(CloseError::ShardGone) => gone = true,
        }
    }
    match first_failure {
        _ if gone => Err(CloseError::ShardGone),
        Some(first) => Err(CloseError::Unclean { logs: unclean, first }),
        None => Ok(()),
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "the store was dropped and did not close cleanly");
        }
    }
}
