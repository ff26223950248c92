//! Served: a tree as the kernel sees it, with one operation that goes wrong. What is served can be put in another's place at any moment: whoever
//! still holds something of the old one is told that it is gone.

use super::fault::{Counts, DELAY, Fault, Faults, Fired, Kind, Way};
use super::tree::{Done, Node, ROOT, Tree};
use crate::clock::{Clock, Time};
use crate::fuse::Fuse;
use crate::server::lock;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno as System;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest write that is taken in one piece, in bytes.
const WRITE_MAX: u32 = 1 << 20;

/// Nothing is kept by the kernel: each look at a name comes here.
const KEPT: Duration = Duration::ZERO;

/// The size of the file system in blocks of 4,096 bytes.
const BLOCKS: u64 = 1 << 20;

/// Halves of transfers end at a multiple of this.
const BLOCK: usize = 4096;

/// The directory. Dropping it unmounts it.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Mutex<Shared>>,
    // Held for its end.
    _fuse: Fuse,
}

#[derive(Debug)]
struct Shared {
    tree: Tree,
    faults: Faults,
    /// Counts up with every tree: what was opened on an earlier one is gone.
    era: u64,
    /// Shows how often the fault has struck.
    clock: Option<Clock>,
}

impl Server {
    /// Serves at this directory.
    ///
    /// # Errors
    /// The kernel has no FUSE, or mounting is not for us.
    pub fn start(point: &Path) -> io::Result<Server> {
        let shared = Shared { tree: Tree::default(), faults: Faults::default(), era: 0, clock: None };
        let shared = Arc::new(Mutex::new(shared));
        let fuse = Fuse::start(Served(shared.clone()), point)?;
        Ok(Server { shared, _fuse: fuse })
    }

    /// Puts a tree up, with a fault in waiting. The clock shows in its events how often it has struck.
    pub fn put_up(&self, tree: Tree, fault: Option<Fault>, clock: Option<Clock>) {
        let mut shared = lock(&self.shared);
        shared.faults.arm(fault);
        (shared.tree, shared.clock) = (tree, clock);
        shared.era += 1;
    }

    /// Ends the fault.
    pub fn lift(&self) {
        lock(&self.shared).faults.lift();
    }

    /// Puts a fault in waiting, below what uses the tree now, in place of one that is there.
    pub fn arm(&self, fault: Fault) {
        lock(&self.shared).faults.arm(Some(fault));
    }

    /// How often the fault that was put in waiting last has struck.
    pub fn struck(&self) -> u64 {
        lock(&self.shared).faults.fired().times
    }

    /// How many files and directories there are, and the bytes of the files.
    pub fn extent(&self) -> (u64, u64) {
        lock(&self.shared).tree.extent()
    }

    /// Takes the tree down. Writes that are still on their way are lost.
    pub fn take_down(&self) -> (Tree, Counts, Fired) {
        let mut shared = lock(&self.shared);
        shared.era += 1;
        let tree = std::mem::take(&mut shared.tree);
        (tree, shared.faults.counts(), shared.faults.fired().clone())
    }
}

struct Served(Arc<Mutex<Shared>>);

/// What an operation that changes something is to do.
type Change<'a, T> = &'a mut dyn FnMut(&mut Tree) -> Done<T>;

impl Shared {
    /// The node that the kernel means.
    fn inside(&self, number: INodeNo) -> Done<u64> {
        match number.0 {
            1 => Ok(ROOT),
            number if number >> 32 == self.era => Ok(number & u64::from(u32::MAX)),
            _ => Err(System::STALE),
        }
    }

    fn outside(&self, number: u64) -> INodeNo {
        INodeNo(if number == ROOT { 1 } else { self.era << 32 | number })
    }

    fn attributes(&self, number: u64) -> Done<FileAttr> {
        let (kind, size, perm) = match self.tree.node(number)? {
            Node::Directory { .. } => (FileType::Directory, 0, 0o700),
            Node::File(content) => (FileType::RegularFile, content.now.len() as u64, 0o600),
        };
        Ok(FileAttr {
            ino: self.outside(number),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        })
    }

    /// Whether the operation that begins goes wrong. Before anybody hears of it, the clock shows it.
    fn strike(&mut self, kind: Kind, at: (u64, Option<&OsStr>)) -> Option<Way> {
        let tree = &self.tree;
        let path = || {
            let name = at.1.map(|name| format!("/{}", name.to_string_lossy()));
            tree.path(at.0) + &name.unwrap_or_default()
        };
        let way = self.faults.next(kind, path)?;
        if let Some(clock) = &self.clock {
            // It cannot fail: a few bytes of a file in memory.
            let _ = clock.set(Time { events: self.faults.fired().times, bytes: 0 });
        }
        Some(way)
    }
}

fn errno(errno: System) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

/// Half of a transfer: whole blocks where there are several, else whole sectors.
fn half(length: usize) -> usize {
    let unit = if length > BLOCK { BLOCK } else { 512 };
    length / 2 / unit * unit
}

impl Served {
    /// Does an operation on a name or a file, as far as the fault lets it.
    fn change<T>(&self, kind: Kind, at: (INodeNo, Option<&OsStr>), change: Change<'_, T>) -> Result<T, Errno> {
        let mut shared = lock(&self.0);
        let number = shared.inside(at.0).map_err(errno)?;
        let way = shared.strike(kind, (number, at.1));
        match way {
            None | Some(Way::Short | Way::Torn) => change(&mut shared.tree),
            Some(Way::Delay) => {
                drop(shared);
                std::thread::sleep(DELAY);
                let mut shared = lock(&self.0);
                shared.inside(at.0).map_err(errno)?;
                change(&mut shared.tree)
            }
            Some(Way::Errno(errno)) => Err(errno),
            Some(Way::Late) => change(&mut shared.tree).and(Err(System::IO)),
            Some(Way::DropsFile) => shared.tree.drop_dirty(number).and(Err(System::IO)),
            Some(Way::DropsAll) => {
                shared.tree.drop_all_dirty();
                Err(System::IO)
            }
        }
        .map_err(errno)
    }

    /// A node, after whatever changed it.
    fn entry(&self, number: u64) -> Result<FileAttr, Errno> {
        lock(&self.0).attributes(number).map_err(errno)
    }

    fn look(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let shared = lock(&self.0);
        shared.inside(number).and_then(|number| shared.attributes(number)).map_err(errno)
    }

    /// Writes as much as the fault lets it, and gives how much that is.
    fn write_to(&self, ino: INodeNo, offset: u64, data: &[u8], durable: bool) -> Result<u32, Errno> {
        let kind = if durable { Kind::DurableWrite } else { Kind::Write };
        let mut shared = lock(&self.0);
        let number = shared.inside(ino).map_err(errno)?;
        let way = shared.strike(kind, (number, None));
        let written = if matches!(way, Some(Way::Short | Way::Torn)) { half(data.len()) } else { data.len() };
        let write = |tree: &mut Tree, durable| tree.write(number, offset, &data[..written], durable);
        match way {
            Some(Way::Errno(refusal)) => Err(refusal),
            Some(Way::DropsFile) => shared.tree.drop_dirty(number).and(Err(System::IO)),
            Some(Way::DropsAll) => {
                shared.tree.drop_all_dirty();
                Err(System::IO)
            }
            Some(Way::Late | Way::Torn) => write(&mut shared.tree, false).and(Err(System::IO)),
            Some(Way::Delay) => {
                drop(shared);
                std::thread::sleep(DELAY);
                let mut shared = lock(&self.0);
                shared.inside(ino).and_then(|_| write(&mut shared.tree, durable))
            }
            Some(Way::Short) | None => write(&mut shared.tree, durable),
        }
        .map(|()| written as u32)
        .map_err(errno)
    }

    fn read_from(&self, ino: INodeNo, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let mut shared = lock(&self.0);
        let number = shared.inside(ino).map_err(errno)?;
        let way = shared.strike(Kind::Read, (number, None));
        let mut bytes = shared.tree.read(number, offset, size as usize).map_err(errno)?;
        drop(shared);
        match way {
            Some(Way::Errno(refusal)) => return Err(errno(refusal)),
            // Nothing would be the end of the file.
            Some(Way::Short) if half(bytes.len()) > 0 => bytes.truncate(half(bytes.len())),
            Some(Way::Delay) => std::thread::sleep(DELAY),
            _ => {}
        }
        Ok(bytes)
    }
}

/// Everything comes here at once. Files that are opened past the page cache need no flag for that, and must not have it: the kernel would then finish
/// a short transfer by itself, at the place where it began.
fn opened(flags: i32) -> FopenFlags {
    let direct = flags & rustix::fs::OFlags::DIRECT.bits() as i32 != 0;
    if direct { FopenFlags::empty() } else { FopenFlags::FOPEN_DIRECT_IO }
}

fn empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn attributes(reply: ReplyAttr, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.attr(&KEPT, &attributes),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel does not know of is done without.
        // Not FUSE_ASYNC_DIO: with it the kernel itself makes EIO of a short write.
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let shared = lock(&self.0);
        let found = shared.inside(parent).and_then(|parent| shared.tree.find(parent, name));
        entry(reply, found.and_then(|number| shared.attributes(number)).map_err(errno));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.look(ino));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let Some(size) = size else { return attributes(reply, self.look(ino)) };
        let number = ino.0 & u64::from(u32::MAX);
        let done = self.change(Kind::Truncate, (ino, None), &mut |tree| tree.resize(number, size));
        attributes(reply, done.and_then(|()| self.look(ino)));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let at = lock(&self.0).inside(parent).unwrap_or(u64::MAX);
        let made = self.change(Kind::MakeDirectory, (parent, Some(name)), &mut |tree| tree.make_directory(at, name));
        entry(reply, made.and_then(|number| self.entry(number)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let at = lock(&self.0).inside(parent).unwrap_or(u64::MAX);
        empty(reply, self.change(Kind::Unlink, (parent, Some(name)), &mut |tree| tree.unlink(at, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let at = lock(&self.0).inside(parent).unwrap_or(u64::MAX);
        let removed = &mut |tree: &mut Tree| tree.remove_directory(at, name);
        empty(reply, self.change(Kind::RemoveDirectory, (parent, Some(name)), removed));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let exclusive = flags.contains(RenameFlags::RENAME_NOREPLACE);
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            return reply.error(Errno::EINVAL);
        }
        let inside = |number| lock(&self.0).inside(number).unwrap_or(u64::MAX);
        let (from, to) = (inside(parent), inside(newparent));
        let renamed = &mut |tree: &mut Tree| tree.rename((from, name), (to, newname), exclusive);
        empty(reply, self.change(Kind::Rename, (parent, Some(name)), renamed));
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, flags: i32, reply: ReplyCreate) {
        let at = lock(&self.0).inside(parent).unwrap_or(u64::MAX);
        let made = self.change(Kind::Create, (parent, Some(name)), &mut |tree| tree.create(at, name));
        match made.and_then(|number| self.entry(number)) {
            Ok(attributes) => reply.created(&KEPT, &attributes, Generation(0), FileHandle(0), opened(flags)),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.change(Kind::Open, (ino, None), &mut |_| Ok(())) {
            Ok(()) => reply.opened(FileHandle(0), opened(flags.0)),
            Err(errno) => reply.error(errno),
        }
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
        match self.read_from(ino, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel hands RWF_DSYNC on as a flag of the open file.
        let durable = flags.0 & rustix::fs::OFlags::DSYNC.bits() as i32 != 0;
        match self.write_to(ino, offset, data, durable) {
            Ok(written) => reply.written(written),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The close of a descriptor, which makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let number = ino.0 & u64::from(u32::MAX);
        empty(reply, self.change(Kind::Sync, (ino, None), &mut |tree| tree.sync(number)));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let at = lock(&self.0).inside(ino).unwrap_or(u64::MAX);
        // Only its first part counts as a listing.
        let listed = match offset {
            0 => self.change(Kind::List, (ino, None), &mut |tree| tree.list(at)),
            _ => lock(&self.0).tree.list(at).map_err(errno),
        };
        let entries = match listed {
            Ok(entries) => entries,
            Err(errno) => return reply.error(errno),
        };
        let shared = lock(&self.0);
        for (place, (name, number)) in entries.iter().enumerate().skip(offset as usize) {
            let Ok(found) = shared.attributes(*number) else { continue };
            if reply.add(found.ino, place as u64 + 1, found.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = &mut |tree: &mut Tree| {
            tree.sync_names();
            Ok(())
        };
        empty(reply, self.change(Kind::SyncDirectory, (ino, None), synced));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS / 2, BLOCKS / 2, 1 << 20, 1 << 19, BLOCK as u32, 255, BLOCK as u32);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let known = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !known.contains(mode) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let zeroes = mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE);
        let grows = !mode.contains(FallocateFlags::KEEP_SIZE);
        let number = ino.0 & u64::from(u32::MAX);
        let allocate = &mut |tree: &mut Tree| tree.allocate(number, (offset, length), zeroes, grows);
        empty(reply, self.change(Kind::Allocate, (ino, None), allocate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_transfer_is_whole_blocks_or_sectors_and_less_than_all() {
        assert_eq!((half(65_536), half(12_288), half(8_192)), (32_768, 4_096, 4_096));
        assert_eq!((half(4_096), half(1_024), half(512), half(0)), (2_048, 512, 0, 0));
    }
}
