//! Server: the disks as files of a directory, served to the kernel by threads that touch no file system themselves but the clock's, in memory.

use crate::disk::Disk;
use crate::fuse::Fuse;
use crate::random::Random;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// The largest write that is taken in one piece, in bytes.
const WRITE_MAX: u32 = 1 << 20;

/// The longest for which an answer is held back, in microseconds.
const DELAY_US_MAX: u64 = 400;

/// A disk that is served, as both sides hold it.
pub type SharedDisk = Arc<Mutex<Disk>>;

/// What is served, by file number.
#[derive(Debug, Default)]
struct Shelf {
    disks: Mutex<BTreeMap<u64, SharedDisk>>,
    /// One answer in so many is held back; 0 is none.
    delayed_one_in: AtomicU64,
    requests: AtomicU64,
}

/// The directory of disks. Dropping it unmounts it: every loop device on it must be gone.
#[derive(Debug)]
pub struct Server {
    shelf: Arc<Shelf>,
    next: u64,
    fuse: Fuse,
}

/// Takes a lock whatever happened to a thread that held it: what it guards is plain bytes.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Serves at this directory.
    ///
    /// # Errors
    /// The kernel has no FUSE, or mounting is not for us.
    pub fn start(point: &Path) -> io::Result<Server> {
        let shelf = Arc::new(Shelf::default());
        let fuse = Fuse::start(Served(shelf.clone()), point)?;
        Ok(Server { shelf, next: 2, fuse })
    }

    /// Puts a disk up, and says where its file is.
    pub fn put_up(&mut self, disk: Disk) -> (u64, PathBuf, SharedDisk) {
        let (number, disk) = (self.next, Arc::new(Mutex::new(disk)));
        self.next += 1;
        lock(&self.shelf.disks).insert(number, disk.clone());
        (number, self.fuse.point().join(number.to_string()), disk)
    }

    /// Takes a disk down.
    pub fn take_down(&self, number: u64) {
        lock(&self.shelf.disks).remove(&number);
    }

    /// Holds one answer to a write in so many back for a moment, so that flushes overtake it; 0 is none.
    pub fn delay_one_in(&self, times: u64) {
        self.shelf.delayed_one_in.store(times, Ordering::Relaxed);
    }
}

struct Served(Arc<Shelf>);

impl Served {
    fn disk(&self, number: u64) -> Option<SharedDisk> {
        lock(&self.0.disks).get(&number).cloned()
    }

    fn attributes(&self, number: u64) -> Option<FileAttr> {
        let (kind, size) = match number {
            1 => (FileType::Directory, 0),
            _ => (FileType::RegularFile, lock(&*self.disk(number)?).image().len()),
        };
        Some(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Holds this answer back, when its turn has come.
    fn delay(&self) {
        let one_in = self.0.delayed_one_in.load(Ordering::Relaxed);
        if one_in == 0 {
            return;
        }
        let mut random = Random::new(self.0.requests.fetch_add(1, Ordering::Relaxed), 7);
        if random.one_in(one_in) {
            std::thread::sleep(Duration::from_micros(random.below(DELAY_US_MAX)));
        }
    }

    fn write_to(&self, number: u64, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let disk = self.disk(number).ok_or(Errno::ENOENT)?;
        let (written, event) = lock(&disk).write(offset, data).map_err(|_| Errno::EIO)?;
        if let Some(event) = event {
            self.delay();
            // Before the answer: whoever hears it knows that every later flush covers this write.
            lock(&disk).done(event).map_err(|_| Errno::EIO)?;
        }
        Ok(written as u32)
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel does not know of is done without.
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.parse().ok()).filter(|number| *number > 1);
        match number.and_then(|number| self.attributes(number)) {
            Some(attributes) => reply.entry(&Duration::ZERO, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.0) {
            Some(attributes) => reply.attr(&Duration::ZERO, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(disk) = self.disk(ino.0) else { return reply.error(Errno::ENOENT) };
        let bytes = lock(&disk).image().read(offset, size as usize);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_to(ino.0, offset, data) {
            Ok(written) => reply.written(written),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The close of a descriptor, which makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let Some(disk) = self.disk(ino.0) else { return reply.error(Errno::ENOENT) };
        let flushed = lock(&disk).flush();
        match flushed {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}
