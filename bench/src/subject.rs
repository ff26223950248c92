//! The subject: the store under test, through the few verbs that scenarios need.

use crate::error::{BenchError, store};
use crate::interrupt::Interrupt;
use std::collections::VecDeque;
use std::path::Path;
use strandline::{AppendError, Config, Counters, Log, Offset, Pending, RangeNumber, Receipt, Record, Store, Topic};

/// Appends in flight while a store is filled.
const FILL_DEPTH: usize = 64;

type Appending = Pending<Result<Receipt, AppendError>>;

/// A store with one log.
pub struct Subject {
    store: Store,
    log: Log,
}

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

impl Subject {
    /// Opens the store and its log.
    ///
    /// # Errors
    /// What the store answered.
    pub fn open(config: Config) -> Result<Subject, BenchError> {
        let opened = Store::open(config).map_err(store("opening it"))?;
        let direct = &opened.capabilities().direct;
        if !direct.effective {
            // Said of each store: one that is buffered and one that is not cannot be compared.
            eprintln!("warning: this store reads and writes through the page cache: {}", direct.reason);
        }
        let topic = Topic::new("bench").map_err(store("naming the topic"))?;
        let range = RangeNumber::new(0).expect("0 is a range number");
        let log = opened.log(&topic, range).map_err(store("opening the log"))?;
        Ok(Subject { store: opened, log })
    }

    /// Closes it in order.
    ///
    /// # Errors
    /// What the store answered.
    pub fn close(self) -> Result<(), BenchError> {
        drop(self.log);
        self.store.close().map_err(store("closing it"))
    }

    /// What the store counted.
    pub fn counters(&self) -> Counters {
        self.store.counters()
    }

    /// What the store found out about its host.
    pub fn capabilities(&self) -> serde_json::Value {
        serde_json::to_value(self.store.capabilities()).unwrap_or_default()
    }

    /// Appends one record in a batch of its own and waits until it is durable.
    ///
    /// # Errors
    /// What the store answered.
    pub fn append(&self, value: &[u8]) -> Result<(), BenchError> {
        self.start(value)?.wait().map_err(store("appending"))?;
        Ok(())
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
                settled(oldest)?;
            }
            flying.push_back(self.start(value)?);
        }
        flying.into_iter().try_for_each(settled)
    }

    /// Reads whole batches from `offset` on, at most `bytes`.
    ///
    /// # Errors
    /// What the store answered, or that nothing is there.
    pub fn read(&self, offset: u64, bytes: usize) -> Result<ReadBack, BenchError> {
        let read = self.log.read(Offset(offset), bytes).wait().map_err(store("reading"))?;
        if read.batches.is_empty() {
            return Err(BenchError::Store { doing: "reading", reason: format!("nothing at offset {offset}") });
        }
        let bytes = read.batches.iter().map(|batch| batch.payload().len() as u64).sum();
        let records = read.batches.iter().map(|batch| u64::from(batch.record_count())).sum();
        Ok(ReadBack { bytes, records, next: read.next.0 })
    }

    fn start(&self, value: &[u8]) -> Result<Appending, BenchError> {
        let mut batch = self.log.batch();
        batch.push(&Record { value: Some(value), ..Record::default() }).map_err(store("building a batch"))?;
        let batch = batch.build().map_err(store("building a batch"))?;
        self.log.append(batch).map_err(store("appending"))
    }
}

fn settled(pending: Appending) -> Result<(), BenchError> {
    pending.wait().map_err(store("appending"))?;
    Ok(())
}
