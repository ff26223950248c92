//! Ours: one log of a store with its defaults, which has been in use: files of segments wait to be used again, and a short retention gives
//! up others.

use super::{Engine, Setting};
use crate::error::{PeersError, failed};
use crate::noise::noise;
use crate::producing::Until;
use crate::window::Window;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use strandline::{Backend, Config, Level, Log, LogOptions, Offset, RangeNumber, Record, Store, Topic};

const NAME: &str = "strandline";

/// Segments that retention keeps, and those that are written and given up before anything is measured.
const SEGMENTS_KEPT: u64 = 3;
const SEGMENTS_AHEAD: u64 = 6;
const SEGMENT_BYTES_OF_TRIAL: u64 = 8 << 20;

/// How long files that were given up may take to become ready.
const WARM_WAIT: Duration = Duration::from_secs(20);

/// Appends of which one looks at how long the log is.
const LOOKS_EVERY: u64 = 1_024;

/// The store and its log.
pub struct Ours {
    store: Store,
    log: Log,
    level: Level,
    segment_bytes: u64,
    /// From where on records are kept.
    start: Mutex<u64>,
}

impl Ours {
    /// Opens it, and has some segments written and given up.
    ///
    /// # Errors
    /// What it answered, or that the files did not come.
    pub fn open(directory: &Path, setting: Setting, backend: Backend) -> Result<Ours, PeersError> {
        let mut config = Config::new(directory.join(NAME));
        config.backend = backend;
        if setting.small {
            config.segment_bytes = SEGMENT_BYTES_OF_TRIAL;
        }
        let segment_bytes = config.segment_bytes;
        let store = Store::open(config).map_err(failed(NAME, "opening it"))?;
        let log = log(&store, "peers")?;
        let level = if setting.synced { Level::Durable } else { Level::Accepted };
        let ours = Ours { store, log, level, segment_bytes, start: Mutex::new(0) };
        ours.warm()?;
        Ok(ours)
    }

    fn warm(&self) -> Result<(), PeersError> {
        const VALUE_BYTES: u64 = 256 << 10;
        let (topic, value) = (Topic::new("warm").map_err(failed(NAME, "naming a topic"))?, noise(VALUE_BYTES as usize));
        let log = log(&self.store, "warm")?;
        for _ in 0..SEGMENTS_AHEAD * self.segment_bytes / VALUE_BYTES {
            start(&log, &value, Level::Durable)?.wait().map_err(failed(NAME, "appending"))?;
        }
        drop(log);
        self.store.delete_topic(&topic).map_err(failed(NAME, "deleting a topic"))?;
        let end = Instant::now() + WARM_WAIT;
        while self.store.counters().spare_files < SEGMENTS_AHEAD - 1 {
            if Instant::now() > end {
                let reason = format!("{} files wait to be used", self.store.counters().spare_files);
                return Err(PeersError::Engine { engine: NAME, doing: "warming up", reason });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The log ends here: gives up what is older than some segments, and does not wait for that.
    fn grown_to(&self, end: u64, record_bytes: usize) {
        if !end.is_multiple_of(LOOKS_EVERY) {
            return;
        }
        let of_segment = (self.segment_bytes / record_bytes as u64).max(1);
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        if end.saturating_sub(*start) >= (SEGMENTS_KEPT + 1) * of_segment {
            *start = end - SEGMENTS_KEPT * of_segment;
            drop(self.log.trim(Offset(*start)));
        }
    }
}

impl Engine for Ours {
    fn append(&self, _producer: usize, value: &[u8]) -> Result<(), PeersError> {
        let receipt = start(&self.log, value, self.level)?.wait().map_err(failed(NAME, "appending"))?;
        self.grown_to(receipt.end.0, value.len());
        Ok(())
    }

    fn outstanding(&self, depth: usize, value: &[u8], until: Until<'_>, window: &mut Window) -> Result<(), PeersError> {
        let mut flying = VecDeque::with_capacity(depth);
        let (mut now, mut left) = (Instant::now(), until.bytes / value.len().max(1) as u64);
        let end = now + until.time;
        loop {
            while now < end && left > 0 && flying.len() < depth && !until.interrupt.asked() {
                flying.push_back((now, start(&self.log, value, self.level)?));
                left -= 1;
            }
            let Some((started, oldest)) = flying.pop_front() else { return Ok(()) };
            let receipt = oldest.wait().map_err(failed(NAME, "appending"))?;
            // The end of this one is the start of its successor: one look at the clock a record.
            now = Instant::now();
            window.took(now - started);
            self.grown_to(receipt.end.0, value.len());
        }
    }

    fn commits(&self) -> Option<u64> {
        Some(self.store.counters().commits)
    }

    fn close(self: Box<Self>) -> Result<(), PeersError> {
        drop(self.log);
        self.store.close().map_err(failed(NAME, "closing it"))
    }
}

/// The one log of a topic.
fn log(store: &Store, topic: &str) -> Result<Log, PeersError> {
    let topic = Topic::new(topic).map_err(failed(NAME, "naming a topic"))?;
    let range = RangeNumber::new(0).ok_or("no range 0").map_err(failed(NAME, "naming a range"))?;
    store.log_with(&topic, range, LogOptions::default()).map_err(failed(NAME, "opening a log"))
}

/// Asks for one record, in a batch of its own.
fn start(
    log: &Log,
    value: &[u8],
    level: Level,
) -> Result<strandline::Pending<Result<strandline::Receipt, strandline::AppendError>>, PeersError> {
    let mut batch = log.batch();
    batch.push(&Record { value: Some(value), ..Record::default() }).map_err(failed(NAME, "building a batch"))?;
    let batch = batch.build().map_err(failed(NAME, "building a batch"))?;
    log.append_with(batch, level).map_err(failed(NAME, "appending"))
}
