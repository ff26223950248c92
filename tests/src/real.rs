//! What the tests on the real ring share: small stores in temporary directories, batches that tell what they are, and the
//! reading of a whole log. What goes wrong in here is a failed test: everything panics.
#![allow(clippy::missing_panics_doc, clippy::must_use_candidate, reason = "these are parts of tests")]

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use strandline::{Batch, Config, Log, Offset, RangeNumber, ReadError, Receipt, Record, Store, StoredBatch, Topic};
use tempfile::TempDir;

/// A directory that is gone after the test, also after one that failed.
pub fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A store of small segments: 128 KiB, batches up to 32 KiB.
pub fn small(root: &Path) -> Config {
    Config {
        segment_bytes: 128 << 10,
        batch_bytes_max: 32 << 10,
        commit_bytes_max: 64 << 10,
        arena_bytes: 1 << 20,
        manifest_bytes: 512 << 10,
        lock_wait: Duration::from_secs(10),
        tail_cache_bytes: 0, // Reads are to reach the disk.
        ..Config::new(root)
    }
}

/// A store that opens.
pub fn open(config: Config) -> Store {
    Store::open(config).expect("an open store")
}

/// A topic of this name.
pub fn topic(name: impl AsRef<[u8]>) -> Topic {
    Topic::new(name).expect("a topic within the limits")
}

/// The log of this topic, and range 0.
pub fn log_of(store: &Store, name: impl AsRef<[u8]>) -> Log {
    store.log(&topic(name), RangeNumber::default()).expect("a log")
}

/// A batch of one record with this value.
pub fn one(log: &Log, value: &[u8]) -> Batch {
    batch_of(log, &[value])
}

/// A batch of records with these values.
pub fn batch_of(log: &Log, values: &[&[u8]]) -> Batch {
    let mut builder = log.batch();
    for value in values {
        builder.push(&Record { key: Some(b"k"), value: Some(value), ..Record::default() }).expect("room in the batch");
    }
    builder.build().expect("at least one record")
}

/// Appends one record and waits until it is durable.
pub fn append(log: &Log, value: &[u8]) -> Receipt {
    log.append(one(log, value)).expect("room in the queue").wait().expect("an append")
}

/// `length` bytes that `seed` decides.
pub fn bytes_of(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Reads batches from `from` to the end; the first error ends it.
///
/// # Errors
/// The first error of a read.
pub fn read_from(log: &Log, from: Offset) -> Result<Vec<StoredBatch>, ReadError> {
    let (mut batches, mut next) = (Vec::new(), from);
    loop {
        let read = log.read(next, 256 << 10).wait()?;
        if read.batches.is_empty() {
            return Ok(batches);
        }
        next = read.next;
        batches.extend(read.batches);
    }
}

/// The values of a whole log, whose offsets must be contiguous from 0.
pub fn values(log: &Log) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for batch in read_from(log, Offset(0)).expect("readable from front to end") {
        for record in batch.records() {
            let record = record.expect("a record");
            assert_eq!(record.offset, Offset(values.len() as u64), "offsets are contiguous");
            values.push(record.value.expect("a value").to_vec());
        }
    }
    values
}

/// Polls a future on this thread, which sleeps between.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// Tries until `done`; after 20 seconds it is an error.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "20 seconds passed and not yet: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Numbers from a seed (SplitMix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "numbers have no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The seed of this run: `STRANDLINE_SEED`, else the clock. It is printed, so that a failure can be repeated.
pub fn seed(of: &str) -> u64 {
    let given = std::env::var("STRANDLINE_SEED").ok().and_then(|text| text.parse().ok());
    let clock = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
    let seed = given.unwrap_or_else(clock);
    println!("{of}: STRANDLINE_SEED={seed}");
    seed
}
