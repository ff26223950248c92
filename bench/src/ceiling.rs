//! The ceiling: a bare ring on a file of its own, measured between the windows of the store, in the same run.
//!
//! What the machine does in one second it may not do in the next; only figures taken in turn can be compared.

use crate::interrupt::Interrupt;
use crate::window::Window;
use std::path::Path;
use std::time::{Duration, Instant};
use strandline_disk::bare::{BareRing, Shape};
use strandline_disk::{BLOCK, DiskError};

/// The file that durable writes go round in: as large as a segment by default.
const APPEND_FILE_BYTES: u64 = 64 << 20;

/// Durable sequential writes, one at a time, over a file that was written whole before.
pub struct AppendCeiling {
    ring: BareRing,
    record_bytes: u64,
    block: u64,
    next: u64,
}

impl AppendCeiling {
    /// Writes the file whole. A record takes whole blocks.
    ///
    /// # Errors
    /// What the ring or the file system answered.
    pub fn create(path: &Path, record_bytes: usize) -> Result<AppendCeiling, DiskError> {
        let block = record_bytes.next_multiple_of(BLOCK);
        let ring = BareRing::create(path, APPEND_FILE_BYTES, Shape { block, depth: 1 })?;
        Ok(AppendCeiling { ring, record_bytes: record_bytes as u64, block: block as u64, next: 0 })
    }

    /// Writes for so long.
    ///
    /// # Errors
    /// What the ring answered.
    pub fn window(&mut self, time: Duration, interrupt: &Interrupt) -> Result<Window, DiskError> {
        let mut window = Window::new();
        let AppendCeiling { ring, record_bytes, block, next } = self;
        window.timed(|window| {
            let end = Instant::now() + time;
            let positions = std::iter::from_fn(|| {
                let position = *next;
                *next = if position + 2 * *block > APPEND_FILE_BYTES { 0 } else { position + *block };
                (Instant::now() < end && !interrupt.asked()).then_some(position)
            });
            let tally = ring.write_loop(positions, |latency| window.took(latency))?;
            (window.records, window.bytes) = (tally.transfers, tally.transfers * *record_bytes);
            (window.commits, window.enters) = (tally.transfers, tally.enters);
            Ok(())
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
        let mut ceiling = AppendCeiling::create(&directory.path().join("file"), 1 << 10).expect("a ceiling");
        let window = ceiling.window(Duration::from_millis(20), &Interrupt::default()).expect("writes");
        assert!(window.records > 0);
        assert_eq!(window.bytes, window.records << 10);
        assert_eq!(window.figures()[&Metric::SyscallsPerCommit], 1.0);
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
