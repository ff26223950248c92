//! The bare ring: the least code that moves blocks of files through io_uring. It is the ceiling that the benchmark
//! holds the store against, in the same run and on the same file system.
//!
//! It owns its files (mostly one), one buffer and one ring, and knows one block size and one depth. It is no
//! [`crate::Disk`], and the engine never uses it: a transfer that comes back short is an error here.
//!
//! Invariants, cited by the unsafe code:
//! 1. **Outlived.** Buffer and files belong to the ring's owner, and a loop ends only when nothing is in flight. Should the
//!    ring itself fail, the kernel still holds the registered pages and files until the last transfer has ended.
//! 2. **One operation per slot.** A slot's part of the buffer is given to the next operation only after the completion
//!    of the one before it has been seen.

use crate::buffer::{BLOCK, Buffer, Pool};
use crate::error::{DiskError, Verb};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How a file is written whole before it is measured: in large pieces, two at a time.
const FILL: Shape = Shape { block: 1 << 20, depth: 2 };

/// The arena is at least this large, so that the kernel backs it by huge pages as it does the store's: a transfer from
/// small pages has a segment per page, which costs the drive a multiple.
const ARENA_BYTES_MIN: usize = 4 << 20;

/// What a bare ring moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of each transfer: a multiple of [`BLOCK`].
    pub block: usize,
    /// Transfers in flight.
    pub depth: usize,
}

/// What a loop did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transfers that completed.
    pub transfers: u64,
    /// Calls of `io_uring_enter`.
    pub enters: u64,
}

/// A block of one of the files.
#[derive(Clone, Copy)]
struct Spot {
    file: u32,
    position: u64,
}

/// When the thread looks at what has completed.
#[derive(Clone, Copy)]
enum Wake {
    /// As soon as one transfer has.
    First,
    /// When all have: a round over many files pays for one wait.
    All,
}

/// A ring, its files and a buffer, all registered. It is driven by the thread that made it.
pub struct BareRing {
    // Dropped first, so that nothing is in flight when files and buffer go.
    ring: IoUring,
    files: Vec<OwnedFd>,
    buffer: Buffer,
    shape: Shape,
    path: String,
    direct: bool,
    flying: usize,
    started: Vec<Instant>,
}

impl BareRing {
    /// Makes the file at `path`, allocates it, writes all `length` bytes of it (rounded up to 1 MiB) and syncs it: only
    /// then do durable writes cost what they cost in steady state. Then opens it as [`BareRing::open`] does.
    ///
    /// # Errors
    /// What the ring or the file system answered. The file must not exist.
    pub fn create(path: &Path, length: u64, shape: Shape) -> Result<BareRing, DiskError> {
        BareRing::create_many(&[path.to_owned()], length.next_multiple_of(FILL.block as u64), shape)
    }

    /// Makes a file at each of `paths` as [`BareRing::create`] makes one; `length` is a multiple of [`BLOCK`].
    ///
    /// # Errors
    /// What the ring or the file system answered. None of the files may exist.
    pub fn create_many(paths: &[PathBuf], length: u64, shape: Shape) -> Result<BareRing, DiskError> {
        // In pieces as large as fit the length: a piece must not reach past the end.
        let piece = (FILL.block as u64).min(1 << length.trailing_zeros());
        let access = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mut fill = BareRing::over(paths, access, Shape { block: piece as usize, ..FILL })?;
        let at = |file: usize, verb| move |errno| DiskError::new(verb, paths[file].display().to_string(), errno);
        for file in 0..paths.len() {
            let allocated = rustix::fs::fallocate(&fill.files[file], FallocateFlags::empty(), 0, length);
            allocated.map_err(at(file, Verb::Allocate))?;
            let spots = (0..length).step_by(piece as usize).map(|position| Spot { file: file as u32, position });
            fill.turn(Kind::Write { durable: false }, Wake::First, spots, |_| {})?;
        }
        // Without it, the first durable write would pay for everything that was written here.
        for (file, written) in fill.files.iter().enumerate() {
            rustix::fs::fsync(written).map_err(at(file, Verb::Sync))?;
        }
        drop(fill);
        BareRing::over(paths, OFlags::RDWR, shape)
    }

    /// Opens the file at `path`, which was written whole before, for reading and writing.
    ///
    /// # Errors
    /// What the ring or the file system answered.
    pub fn reopen(path: &Path, shape: Shape) -> Result<BareRing, DiskError> {
        BareRing::over(&[path.to_owned()], OFlags::RDWR, shape)
    }

    /// Opens the file at `path` for reading, past the page cache where the file system allows it.
    ///
    /// # Errors
    /// What the ring or the file system answered.
    pub fn open(path: &Path, shape: Shape) -> Result<BareRing, DiskError> {
        BareRing::over(&[path.to_owned()], OFlags::RDONLY, shape)
    }

    /// Whether the files are read and written past the page cache.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// Writes a block at each of `positions`, each on stable storage (RWF_DSYNC) before it counts as done, and calls
    /// `seen` with the time each took. `positions` is asked for the next when a transfer is done; the loop ends after
    /// its last, when all are done.
    ///
    /// # Errors
    /// The first transfer that failed or came back short, after all others have ended.
    pub fn write_loop(
        &mut self,
        positions: impl Iterator<Item = u64>,
        seen: impl FnMut(Duration),
    ) -> Result<Tally, DiskError> {
        self.turn(Kind::Write { durable: true }, Wake::First, of_one_file(positions), seen)
    }

    /// Writes the block at `position` of every file, as many at once as the depth allows; each on stable storage
    /// (RWF_DSYNC) if `durable`, else only written.
    ///
    /// # Errors
    /// The first transfer that failed or came back short, after all others have ended.
    pub fn write_round(&mut self, position: u64, durable: bool) -> Result<Tally, DiskError> {
        let files = self.files.len() as u32;
        let spots = (0..files).map(|file| Spot { file, position });
        self.turn(Kind::Write { durable }, Wake::All, spots, |_| {})
    }

    /// Reads a block at each of `positions`, as [`BareRing::write_loop`] writes them.
    ///
    /// # Errors
    /// The first transfer that failed or came back short, after all others have ended.
    pub fn read_loop(
        &mut self,
        positions: impl Iterator<Item = u64>,
        seen: impl FnMut(Duration),
    ) -> Result<Tally, DiskError> {
        self.turn(Kind::Read, Wake::First, of_one_file(positions), seen)
    }

    fn over(paths: &[PathBuf], access: OFlags, shape: Shape) -> Result<BareRing, DiskError> {
        assert!(shape.depth > 0 && shape.block > 0 && shape.block.is_multiple_of(BLOCK), "{shape:?} moves no blocks");
        assert!(!paths.is_empty(), "a ring over no file");
        let name = paths[0].display().to_string();
        let setup = |error: std::io::Error| DiskError::new(Verb::Setup, name.clone(), errno_of(&error));
        let (mut files, mut direct) = (Vec::with_capacity(paths.len()), true);
        for path in paths {
            let (file, is_direct) = open_file(path, access)?;
            files.push(file);
            direct &= is_direct;
        }
        let bytes = shape.block * shape.depth;
        let pool = Pool::new(bytes.next_power_of_two().max(ARENA_BYTES_MIN)).map_err(setup)?;
        let mut buffer = pool.take(bytes).expect("a new pool has room for all of it");
        fill_with_noise(&mut buffer);
        let ring = ring(shape.depth.next_power_of_two() as u32).map_err(setup)?;
        let whole = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: invariant 1: the memory is mapped, stays mapped while the ring lives, and nobody but the kernel's
        // operations and this owner reaches it.
        unsafe { ring.submitter().register_buffers(&[whole]) }.map_err(setup)?;
        let descriptors: Vec<_> = files.iter().map(|file| file.as_fd().as_raw_fd()).collect();
        ring.submitter().register_files(&descriptors).map_err(setup)?;
        // A saving of one lookup per call; kernels before 5.18 lack it.
        let _ = ring.submitter().register_ring_fd();
        let started = vec![Instant::now(); shape.depth];
        Ok(BareRing { ring, files, buffer, shape, path: name, direct, flying: 0, started })
    }

    fn turn(
        &mut self,
        kind: Kind,
        wake: Wake,
        mut spots: impl Iterator<Item = Spot>,
        mut seen: impl FnMut(Duration),
    ) -> Result<Tally, DiskError> {
        assert_eq!(self.flying, 0, "a loop that panicked left transfers in flight");
        let mut tally = Tally::default();
        let mut failed = None;
        for slot in 0..self.shape.depth {
            let Some(spot) = spots.next() else { break };
            self.start(kind, slot, spot);
        }
        while self.flying > 0 {
            tally.enters += 1;
            let awaited = match wake {
                Wake::First => 1,
                Wake::All => self.flying,
            };
            match self.ring.submit_and_wait(awaited) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => continue,
                Err(error) => return Err(DiskError::new(Verb::Turn, self.path.as_str(), errno_of(&error))),
            }
            while let Some(entry) = self.completed() {
                let slot = entry.user_data() as usize;
                self.flying -= 1;
                tally.transfers += 1;
                seen(self.started[slot].elapsed());
                if entry.result() != self.shape.block as i32 {
                    failed.get_or_insert(DiskError::new(kind.verb(), self.path.as_str(), errno_in(entry.result())));
                }
                if failed.is_none()
                    && let Some(spot) = spots.next()
                {
                    self.start(kind, slot, spot);
                }
            }
        }
        failed.map_or(Ok(tally), Err)
    }

    fn completed(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    fn start(&mut self, kind: Kind, slot: usize, spot: Spot) {
        let entry = self.entry(kind, slot, spot).user_data(slot as u64);
        self.started[slot] = Instant::now();
        // SAFETY: invariants 1 and 2: what the entry points to outlives it, and no other operation has this slot.
        unsafe { self.ring.submission().push(&entry) }.expect("the ring holds an entry per slot");
        self.flying += 1;
    }

    fn entry(&mut self, kind: Kind, slot: usize, spot: Spot) -> squeue::Entry {
        let part = self.buffer[slot * self.shape.block..].as_mut_ptr();
        let (file, position, length) = (types::Fixed(spot.file), spot.position, self.shape.block as u32);
        match kind {
            Kind::Read => opcode::ReadFixed::new(file, part, length, 0).offset(position).build(),
            Kind::Write { durable } => {
                let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                opcode::WriteFixed::new(file, part, length, 0).offset(position).rw_flags(flags.bits() as i32).build()
            }
        }
    }
}

fn of_one_file(positions: impl Iterator<Item = u64>) -> impl Iterator<Item = Spot> {
    positions.map(|position| Spot { file: 0, position })
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write { durable: bool },
}

impl Kind {
    fn verb(self) -> Verb {
        match self {
            Kind::Read => Verb::Read,
            Kind::Write { durable } => Verb::of_write(durable),
        }
    }
}

/// The best ring that this kernel gives.
fn ring(entries: u32) -> std::io::Result<IoUring> {
    let best = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    best.or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries)).or_else(|_| IoUring::new(entries))
}

/// Opens past the page cache; through it where the file system refuses that.
fn open_file(path: &Path, access: OFlags) -> Result<(OwnedFd, bool), DiskError> {
    let access = access | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match rustix::fs::open(path, access | OFlags::DIRECT, mode) {
        Ok(file) => Ok((file, true)),
        // A refused open for direct I/O may have made the file.
        Err(Errno::INVAL) => rustix::fs::open(path, access - OFlags::EXCL, mode).map(|file| (file, false)),
        Err(errno) => Err(errno),
    };
    opened.map_err(|errno| DiskError::new(Verb::Open, path.display().to_string(), errno))
}

/// Bytes that neither a drive nor a host can compress or share, from a fixed seed.
fn fill_with_noise(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

/// What a completion says that did not move a whole block: an errno, or, when it was short, that this file is no ceiling.
fn errno_in(result: i32) -> Errno {
    if result < 0 { Errno::from_raw_os_error(-result) } else { Errno::IO }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { block: 2 * BLOCK, depth: 2 };

    #[test]
    fn every_position_is_moved_once_and_seen_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let mut ring = BareRing::create(&path, 3 << 20, SHAPE).expect("a ring");
        assert_eq!(path.metadata().expect("the file").len(), 3 << 20);
        let mut seen = 0;
        let tally = ring.write_loop((0..5).map(|block| block * 8192), |_| seen += 1).expect("writes");
        assert_eq!((tally.transfers, seen), (5, 5));
        drop(ring);
        let mut ring = BareRing::open(&path, SHAPE).expect("a ring");
        assert_eq!(ring.read_loop((0..3 << 20).step_by(8192), |_| {}).expect("reads").transfers, 384);
    }

    #[test]
    fn a_round_writes_the_same_block_of_every_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let paths: Vec<PathBuf> = (0..3).map(|file| directory.path().join(format!("file-{file}"))).collect();
        // Fewer in flight than there are files.
        let mut ring = BareRing::create_many(&paths, 96 << 10, SHAPE).expect("a ring");
        for (at, durable) in [(0, false), (8192, true)] {
            assert_eq!(ring.write_round(at, durable).expect("a round").transfers, 3);
        }
        assert!(paths.iter().all(|path| path.metadata().expect("the file").len() == 96 << 10));
        drop(ring);
        let mut ring = BareRing::reopen(&paths[2], SHAPE).expect("a ring");
        assert_eq!(ring.write_loop([0].into_iter(), |_| {}).expect("a write").transfers, 1);
        assert_eq!(ring.read_loop([0].into_iter(), |_| {}).expect("a read").transfers, 1);
    }

    #[test]
    fn a_short_transfer_is_an_error_and_the_ring_serves_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let mut ring = BareRing::create(&path, 1 << 20, SHAPE).expect("a ring");
        let error = ring.read_loop([0, 1 << 20, 8192].into_iter(), |_| {}).expect_err("a read past the end");
        assert_eq!((error.verb, error.errno), (Verb::Read, Errno::IO));
        assert_eq!(ring.read_loop([0, 8192].into_iter(), |_| {}).expect("reads").transfers, 2);
    }

    #[test]
    fn a_file_that_exists_is_never_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "precious").expect("a file");
        let error = BareRing::create(&path, 1 << 20, SHAPE).err().expect("a refusal");
        assert_eq!((error.verb, error.errno), (Verb::Open, Errno::EXIST));
        assert_eq!(std::fs::read(&path).expect("the file"), b"precious");
    }
}
