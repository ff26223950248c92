//! The subject: the store under test, through the few verbs that scenarios need. Nothing else knows its API.

mod expiry;
mod orphans;
mod scrub;
mod victim;

use crate::error::{BenchError, store};
use crate::interrupt::Interrupt;
use crate::noise::noise;
use crate::window::Window;
pub use expiry::Expiry;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
pub use strandline::config::{Preallocate, Removal};
use strandline::{
    AppendError, Asked, Batch, Counters, Log, LogOptions, Offset, Pending, RangeNumber, Receipt, Record, Sealed, Store,
    Topic,
};
pub use strandline::{Config, Level};
pub use victim::Victim;

/// Appends between two looks of retention at the end of its log.
const LOOKS_EVERY: u64 = 1_024;

/// Segments that retention keeps.
const SEGMENTS_KEPT: u64 = 3;

/// How long files that were given up may take to become ready.
const WARM_WAIT: Duration = Duration::from_secs(20);

/// Appends in flight while a store is filled.
const FILL_DEPTH: usize = 64;

/// Where logs are many, their segments are small: each is written whole when it is made.
const SMALL_SEGMENT_BYTES: u64 = 1 << 20;
/// The largest batch of a store with small segments.
const SMALL_BATCH_BYTES_MAX: u32 = 64 << 10;

/// A store with its logs.
pub struct Subject {
    store: Store,
    root: PathBuf,
    segment_bytes: u64,
    lanes: Vec<Lane>,
}

/// One log of it. Every thread may have its own.
#[derive(Clone)]
pub struct Lane(Log);

/// Retention as a broker has it: gives up what is older than some segments, a segment at a time, while the log grows.
pub struct Retention {
    lane: Lane,
    keep_records: u64,
    start: u64,
    asked: u64,
}

impl Retention {
    /// Keeps a few segments of records of so many bytes.
    pub fn new(subject: &Subject, record_bytes: usize) -> Retention {
        let of_segment = (subject.segment_bytes / record_bytes as u64).max(1);
        Retention { lane: subject.lane().clone(), keep_records: SEGMENTS_KEPT * of_segment, start: 0, asked: 0 }
    }

    /// One more append was asked for. Looks now and then where the log ends.
    pub fn asked(&mut self) {
        self.asked += 1;
        if self.asked.is_multiple_of(LOOKS_EVERY) {
            self.grown_to(self.lane.0.bounds().end.0);
        }
    }

    /// The log ends here. Asks for a trim when enough is too old, and does not wait for it.
    pub fn grown_to(&mut self, end: u64) {
        if end - self.start.min(end) >= self.keep_records + self.keep_records / SEGMENTS_KEPT {
            self.start = end - self.keep_records;
            drop(self.lane.0.trim(Offset(self.start)));
        }
    }
}

/// An append that has been asked for.
pub struct Appending(Pending<Result<Receipt, AppendError>>);

/// A seal that has been asked for.
pub struct Sealing(Asked<Sealed>);

/// What a read gave.
#[derive(Clone, Copy, Debug)]
pub struct ReadBack {
    /// Payload bytes of whole, verified batches.
    pub bytes: u64,
    /// Their records.
    pub records: u64,
    /// Where to read on.
    pub next: u64,
}

/// The store's defaults: what an embedder gets who sets nothing.
pub fn config(root: &Path) -> Config {
    Config::new(root)
}

/// A store for many logs: small segments, and as many logs allowed.
pub fn config_of_many(root: &Path, logs: usize) -> Config {
    let mut config = config(root);
    config.segment_bytes = SMALL_SEGMENT_BYTES;
    config.batch_bytes_max = SMALL_BATCH_BYTES_MAX;
    config.logs_max = config.logs_max.max(logs);
    config
}

/// The same with segments of another size.
pub fn with_segments_of(mut config: Config, bytes: u64) -> Config {
    config.segment_bytes = bytes;
    config
}

/// The defaults with so many shards.
pub fn config_of_shards(root: &Path, shards: usize) -> Config {
    let mut config = config(root);
    config.shards = shards;
    config
}

impl Subject {
    /// Opens the store and one log.
    ///
    /// # Errors
    /// What the store answered.
    pub fn open(config: Config) -> Result<Subject, BenchError> {
        Subject::open_many(config, 1)
    }

    /// Opens the store and so many logs.
    ///
    /// # Errors
    /// What the store answered.
    pub fn open_many(config: Config, logs: usize) -> Result<Subject, BenchError> {
        let (root, segment_bytes) = (config.root.clone(), config.segment_bytes);
        let opened = Store::open(config).map_err(store("opening it"))?;
        let direct = &opened.capabilities().direct;
        if !direct.effective {
            // Said of each store: one that is buffered and one that is not cannot be compared.
            eprintln!("warning: this store reads and writes through the page cache: {}", direct.reason);
        }
        let mut subject = Subject { store: opened, root, segment_bytes, lanes: Vec::new() };
        subject.lanes = subject.logs_of("bench", logs, segment_bytes)?;
        Ok(subject)
    }

    /// Opens so many logs of another topic, with segments of so many bytes.
    ///
    /// # Errors
    /// What the store answered.
    pub fn logs_of(&self, topic: &str, logs: usize, segment_bytes: u64) -> Result<Vec<Lane>, BenchError> {
        let topic = Topic::new(topic).map_err(store("naming a topic"))?;
        let options = LogOptions { segment_bytes: Some(segment_bytes), ..LogOptions::default() };
        let lane = |number: usize| {
            let range = RangeNumber::new(number as u32).expect("a range number");
            self.store.log_with(&topic, range, options).map(Lane).map_err(store("opening a log"))
        };
        (0..logs).map(lane).collect()
    }

    /// Has so many segments of the default size written and given up, so that their files wait to be used again: what is measured then
    /// is a store that has been in use.
    ///
    /// # Errors
    /// What the store answered, or that the files did not come.
    pub fn warm(&self, segments: u64, interrupt: &Interrupt) -> Result<(), BenchError> {
        const VALUE_BYTES: u64 = 256 << 10;
        let topic = Topic::new("warm").map_err(store("naming a topic"))?;
        let records = segments * self.segment_bytes / VALUE_BYTES;
        self.logs_of("warm", 1, self.segment_bytes)?[0].fill(&noise(VALUE_BYTES as usize), records, interrupt)?;
        self.store.delete_topic(&topic).map_err(store("deleting a topic"))?;
        let end = Instant::now() + WARM_WAIT;
        while self.store.counters().spare_files < segments - 1 {
            interrupt.check()?;
            if Instant::now() > end {
                let reason = format!("{} files of {segments} wait to be used", self.store.counters().spare_files);
                return Err(BenchError::Store { doing: "warming up", reason });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Closes it in order.
    ///
    /// # Errors
    /// What the store answered.
    pub fn close(self) -> Result<(), BenchError> {
        drop(self.lanes);
        self.store.close().map_err(store("closing it"))
    }

    /// The size of its segments, in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Its first log.
    pub fn lane(&self) -> &Lane {
        &self.lanes[0]
    }

    /// All its logs.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Does `work` with the clocks of `window` running, and counts what the store counted meanwhile.
    ///
    /// # Errors
    /// What `work` answered.
    pub fn timed(
        &self,
        window: &mut Window,
        work: impl FnOnce(&mut Window) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let before = self.store.counters();
        window.timed(work)?;
        let Counters { commits, enters, .. } = self.store.counters();
        window.commits += commits - before.commits;
        window.enters += enters - before.enters;
        Ok(())
    }

    /// Registered memory of its shard, in bytes.
    pub fn arena_bytes(&self) -> u64 {
        self.store.capabilities().ring.arena_bytes
    }

    /// What the store found out about its host.
    pub fn capabilities(&self) -> serde_json::Value {
        serde_json::to_value(self.store.capabilities()).unwrap_or_default()
    }
}

impl Lane {
    /// Asks for one record, in a batch of its own, to be appended durably.
    ///
    /// # Errors
    /// What the store answered at once, that it has too much in hand already included.
    pub fn start(&self, value: &[u8]) -> Result<Appending, BenchError> {
        self.0.append(self.batch(value)?).map(Appending).map_err(store("appending"))
    }

    /// Asks for one record, in a batch of its own, to be appended and answered at `level`. `None` when the store has too much
    /// in hand already.
    ///
    /// # Errors
    /// What kept the batch from being built.
    pub fn try_start(&self, value: &[u8], level: Level) -> Result<Option<Appending>, BenchError> {
        Ok(self.0.append_with(self.batch(value)?, level).ok().map(Appending))
    }

    fn batch(&self, value: &[u8]) -> Result<Batch, BenchError> {
        let mut batch = self.0.batch();
        batch.push(&Record { value: Some(value), ..Record::default() }).map_err(store("building a batch"))?;
        batch.build().map_err(store("building a batch"))
    }

    /// Asks for the write head to be sealed: the next append begins another segment.
    pub fn seal(&self) -> Sealing {
        Sealing(self.0.seal())
    }

    /// Waits until it is.
    ///
    /// # Errors
    /// What the store answered.
    pub fn sealed(sealing: Sealing) -> Result<(), BenchError> {
        sealing.0.wait().map(drop).map_err(store("sealing"))
    }

    /// Appends one record in a batch of its own and waits until it is durable.
    ///
    /// # Errors
    /// What the store answered.
    pub fn append(&self, value: &[u8]) -> Result<u64, BenchError> {
        self.start(value)?.wait()
    }

    /// Appends so many records, a batch each, many of them in flight, and waits until all are durable.
    ///
    /// # Errors
    /// What the store answered, or that the user asked to stop.
    pub fn fill(&self, value: &[u8], records: u64, interrupt: &Interrupt) -> Result<(), BenchError> {
        let mut flying = VecDeque::with_capacity(FILL_DEPTH);
        for _ in 0..records {
            interrupt.check()?;
            if flying.len() == FILL_DEPTH
                && let Some(oldest) = flying.pop_front()
            {
                Appending::wait(oldest)?;
            }
            flying.push_back(self.start(value)?);
        }
        flying.into_iter().try_for_each(|left| left.wait().map(drop))
    }

    /// Reads whole batches from `offset` on, at most `bytes`.
    ///
    /// # Errors
    /// What the store answered, or that nothing is there.
    pub fn read(&self, offset: u64, bytes: usize) -> Result<ReadBack, BenchError> {
        let read = self.0.read(Offset(offset), bytes).wait().map_err(store("reading"))?;
        if read.batches.is_empty() {
            return Err(BenchError::Store { doing: "reading", reason: format!("nothing at offset {offset}") });
        }
        let bytes = read.batches.iter().map(|batch| batch.payload().len() as u64).sum();
        let records = read.batches.iter().map(|batch| u64::from(batch.record_count())).sum();
        Ok(ReadBack { bytes, records, next: read.next.0 })
    }
}

impl Appending {
    /// Waits for its answer: where its log ends then.
    ///
    /// # Errors
    /// What the store answered.
    pub fn wait(self) -> Result<u64, BenchError> {
        self.0.wait().map(|receipt| receipt.end.0).map_err(store("appending"))
    }

    /// Where its log ends with it, if it was answered already.
    ///
    /// # Errors
    /// What the store answered.
    pub fn take(&mut self) -> Result<Option<u64>, BenchError> {
        self.0.try_take().transpose().map(|taken| taken.map(|receipt| receipt.end.0)).map_err(store("appending"))
    }
}
