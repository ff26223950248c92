//! What the tests share: a disk in a temporary directory, and a loop that turns it.

use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use strandline_disk::host::{Backend, DiskOptions};
use strandline_disk::real::RealDisk;
use strandline_disk::{
    Access, Buffer, Directory, Disk, DiskError, File, InFlight, Name, OpenFile, Outcome, Wait, transfer,
};
use tempfile::TempDir;

pub fn options() -> DiskOptions {
    DiskOptions { arena_bytes: 8 << 20, entries: 32, lock_wait: Duration::ZERO, ..DiskOptions::default() }
}

pub fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub fn open_at(root: &Path, options: &DiskOptions) -> RealDisk {
    RealDisk::open(root, options).expect("a disk")
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Whether it is a ring that serves. What only a ring can show, as its kernel workers, is not looked for without one.
pub fn on_ring(disk: &RealDisk) -> bool {
    disk.backend() == Backend::Uring
}

/// Turns the disk until `future` is ready.
pub fn run<F: Future>(disk: &RealDisk, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        disk.turn(Wait::Event).expect("a turn");
    }
}

pub fn ready(in_flight: &mut InFlight) -> Option<Outcome> {
    match Pin::new(in_flight).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

pub fn make_file(disk: &RealDisk, directory: &Directory, text: &str) -> Result<File, DiskError> {
    run(disk, transfer::open(disk, directory, &name(text), OpenFile::New, Access::Auto))
}

pub fn open_file(disk: &RealDisk, directory: &Directory, text: &str) -> Result<File, DiskError> {
    run(disk, transfer::open(disk, directory, &name(text), OpenFile::Existing, Access::Auto))
}

/// A buffer of bytes that depend on `seed`.
pub fn filled(disk: &RealDisk, length: usize, seed: u8) -> Buffer {
    let mut buffer = disk.pool().take(length).expect("room in the pool");
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index as u8).wrapping_mul(31).wrapping_add(seed);
    }
    buffer
}

/// Descriptors of this process on `path` and below it.
pub fn descriptors_below(path: &Path) -> usize {
    let path = std::fs::canonicalize(path).expect("there");
    let entries = std::fs::read_dir("/proc/self/fd").expect("listed");
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.starts_with(&path)).count()
}
