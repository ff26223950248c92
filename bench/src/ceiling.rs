//! The ceiling: a bare ring on a file of its own, measured between the windows of the store, in the same run.
//!
//! What the machine does in one second it may not do in the next; only figures taken in turn can be compared.

use crate::interrupt::Interrupt;
use crate::window::Window;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strandline_disk::bare::{BareRing, Shape};
use strandline_disk::{BLOCK, DiskError};

/// The file that durable writes go round in: as large as a segment by default.
pub const APPEND_FILE_BYTES: u64 = 64 << 20;

/// No write of a ceiling is larger than the largest commit.
const APPEND_BLOCK_BYTES_MAX: usize = 4 << 20;

/// Each of many files that are written in rounds: small, for there are many, and gone round in.
const ROUND_FILE_BYTES: u64 = 256 << 10;

/// Durable sequential writes over a file that was written whole before.
pub struct AppendCeiling {
    ring: BareRing,
    path: PathBuf,
    length: u64,
    shape: Shape,
    payload: Payload,
    next: u64,
}

/// What each write of a ceiling counts for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Payload {
    /// Payload bytes.
    pub bytes: f64,
    /// Records.
    pub records: f64,
}

impl AppendCeiling {
    /// Writes the file whole, all `length` bytes, for one record per write, one write at a time. A record takes whole blocks.
    ///
    /// # Errors
    /// What the ring or the file system answered.
    pub fn create(path: &Path, length: u64, record_bytes: usize) -> Result<AppendCeiling, DiskError> {
        let shape = Shape { block: record_bytes.next_multiple_of(BLOCK), depth: 1 };
        let ring = BareRing::create(path, length, shape)?;
        let payload = Payload { bytes: record_bytes as f64, records: 1.0 };
        Ok(AppendCeiling { ring, path: path.to_owned(), length, shape, payload, next: 0 })
    }

    /// From now on each write is as large as `payload` in whole blocks, and `depth` of them are in flight.
    ///
    /// # Errors
    /// What the ring answered.
    pub fn reshape(&mut self, payload: Payload, depth: usize) -> Result<(), DiskError> {
        let bytes = (payload.bytes.max(1.0).ceil() as usize).next_multiple_of(BLOCK);
        let shape = Shape { block: bytes.min(APPEND_BLOCK_BYTES_MAX), depth };
        if shape != self.shape {
            self.ring = BareRing::reopen(&self.path, shape)?;
        }
        (self.shape, self.payload, self.next) = (shape, payload, 0);
        Ok(())
    }

    /// Writes for so long.
    ///
    /// # Errors
    /// What the ring answered.
    pub fn window(&mut self, time: Duration, interrupt: &Interrupt) -> Result<Window, DiskError> {
        let mut window = Window::new();
        let AppendCeiling { ring, length, shape, payload, next, .. } = self;
        let block = shape.block as u64;
        window.timed(|window| {
            let end = Instant::now() + time;
            let positions = std::iter::from_fn(|| {
                let position = *next;
                *next = if position + 2 * block > *length { 0 } else { position + block };
                (Instant::now() < end && !interrupt.asked()).then_some(position)
            });
            let tally = ring.write_loop(positions, |latency| window.took(latency))?;
            let of_all = |of_one: f64| (tally.transfers as f64 * of_one).round() as u64;
            (window.records, window.bytes) = (of_all(payload.records), of_all(payload.bytes));
            (window.commits, window.enters) = (tally.transfers, tally.enters);
            Ok(())
        })?;
        Ok(window)
    }
}

/// A block of every one of many files a round, as a store with so many logs writes them.
pub struct ManyFilesCeiling {
    ring: BareRing,
    files: u64,
    next: u64,
}

impl ManyFilesCeiling {
    /// Makes the files in `directory` and writes them whole.
    ///
    /// # Errors
    /// What the ring or the file system answered.
    pub fn create(directory: &Path, files: usize) -> Result<ManyFilesCeiling, DiskError> {
        let paths: Vec<PathBuf> = (0..files).map(|file| directory.join(format!("ceiling-{file}"))).collect();
        let ring = BareRing::create_many(&paths, ROUND_FILE_BYTES, Shape { block: BLOCK, depth: files })?;
        Ok(ManyFilesCeiling { ring, files: files as u64, next: 0 })
    }

    /// Does rounds for so long: with each write on stable storage by itself if `durable`, else without any sync.
    ///
    /// # Errors
    /// What the ring answered.
    pub fn window(&mut self, time: Duration, durable: bool, interrupt: &Interrupt) -> Result<Window, DiskError> {
        let mut window = Window::new();
        window.timed(|window| {
            let end = Instant::now() + time;
            loop {
                let started = Instant::now();
                if started >= end || interrupt.asked() {
                    return Ok(());
                }
                self.ring.write_round(self.next, durable)?;
                window.took(started.elapsed());
                window.records += self.files;
                window.bytes += self.files * BLOCK as u64;
                self.next = (self.next + BLOCK as u64) % ROUND_FILE_BYTES;
            }
        })?;
        Ok(window)
    }
}

/// Reads of one size, a fixed number of them in flight.
pub struct ReadCeiling {
    ring: BareRing,
    shape: Shape,
    record_bytes: u64,
}

impl ReadCeiling {
    /// Writes a file of its own, of `length` bytes, to read from.
    ///
    /// # Errors
    /// What the ring or the file system answered.
    pub fn create(path: &Path, length: u64, shape: Shape, record_bytes: u64) -> Result<ReadCeiling, DiskError> {
        // A file that was just written through this ring is opened again for reading only, as the store opens its own.
        drop(BareRing::create(path, length, shape)?);
        ReadCeiling::open(path, shape, record_bytes)
    }

    /// Reads a file that is there. `record_bytes` is what counts as one record.
    ///
    /// # Errors
    /// What the ring or the file system answered.
    pub fn open(path: &Path, shape: Shape, record_bytes: u64) -> Result<ReadCeiling, DiskError> {
        Ok(ReadCeiling { ring: BareRing::open(path, shape)?, shape, record_bytes })
    }

    /// Reads a block at each of `positions` and adds them to `window`.
    ///
    /// # Errors
    /// What the ring answered.
    pub fn stretch(&mut self, window: &mut Window, positions: impl Iterator<Item = u64>) -> Result<(), DiskError> {
        let ReadCeiling { ring, shape, record_bytes } = self;
        window.timed(|window| {
            let tally = ring.read_loop(positions, |latency| window.took(latency))?;
            let bytes = tally.transfers * shape.block as u64;
            window.bytes += bytes;
            window.records += bytes / *record_bytes;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn a_ceiling_writes_for_its_time_and_counts_one_call_per_write() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ceiling = AppendCeiling::create(&directory.path().join("file"), 8 << 20, 1 << 10).expect("a ceiling");
        let window = ceiling.window(Duration::from_millis(20), &Interrupt::default()).expect("writes");
        assert!(window.records > 0);
        assert_eq!(window.bytes, window.records << 10);
        assert_eq!(window.figures()[&Metric::SyscallsPerCommit], 1.0);
    }

    #[test]
    fn a_ceiling_of_many_records_per_write_counts_them_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ceiling = AppendCeiling::create(&directory.path().join("file"), 8 << 20, 1 << 10).expect("a ceiling");
        ceiling.reshape(Payload { bytes: 51_200.0, records: 50.0 }, 2).expect("a shape");
        assert_eq!(ceiling.shape, Shape { block: 52 << 10, depth: 2 });
        let window = ceiling.window(Duration::from_millis(20), &Interrupt::default()).expect("writes");
        assert!(window.commits > 1);
        assert_eq!((window.records, window.bytes), (50 * window.commits, 51_200 * window.commits));
    }

    #[test]
    fn a_round_counts_a_write_per_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ceiling = ManyFilesCeiling::create(directory.path(), 3).expect("a ceiling");
        for durable in [false, true] {
            let window = ceiling.window(Duration::from_millis(20), durable, &Interrupt::default()).expect("rounds");
            assert_eq!(window.records, 3 * window.latency().len());
        }
    }

    #[test]
    fn a_read_ceiling_counts_what_it_reads() {
        let directory = tempfile::tempdir().expect("a directory");
        let shape = Shape { block: 1 << 20, depth: 2 };
        let mut ceiling = ReadCeiling::create(&directory.path().join("file"), 4 << 20, shape, 16 << 10).expect("one");
        let mut window = Window::new();
        for half in [0..2, 2..4] {
            ceiling.stretch(&mut window, half.map(|block| block << 20)).expect("reads");
        }
        assert_eq!((window.bytes, window.records), (4 << 20, 256));
    }
}
