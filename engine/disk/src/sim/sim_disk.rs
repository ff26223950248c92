//! The simulated disk: one ring of a simulated process. It owns slots, buffers and handles, and no byte of the medium.

use super::SimWorld;
use super::effect::{Effect, Place, Write};
use super::fault::What;
use super::land::Answer;
use super::names::Inode;
use super::random::Random;
use super::schedule::Landed;
use super::world::{Options, World};
use crate::buffer::{BLOCK, Pool};
use crate::capabilities::{Barrier, Capabilities, Direct, Drive, Filesystem, Ring, WRITE_ZEROES};
use crate::clock::Now;
use crate::disk::{Disk, Entry, EntryKind, Operation, Space, Stat, Success, Wait};
use crate::doorbell::Doorbell;
use crate::error::{DiskError, Verb};
use crate::handle::{Directory, File, Handles};
use crate::name::Name;
use crate::slot::{InFlight, Slots, Token};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Pools kept for the next process of this thread: mapping an arena costs more than a small crash test.
const SPARE_POOLS_MAX: usize = 8;

thread_local! {
    static SPARE_POOLS: RefCell<Vec<Pool>> = const { RefCell::new(Vec::new()) };
}

/// One ring on a [`SimWorld`]. Clones share it. Once its process has died, nothing that it starts ever completes or
/// changes the world, and [`Disk::turn`] fails.
#[derive(Clone)]
pub struct SimDisk(Rc<Inner>);

struct Inner {
    world: SimWorld,
    disk: u32,
    life: u32,
    slots: Slots,
    pool: Pool,
    handles: Handles,
    root: Directory,
    uids: RefCell<Random>,
    capabilities: Rc<Capabilities>,
    doorbell: Doorbell,
}

impl SimDisk {
    pub(super) fn new(world: SimWorld, disk: u32, life: u32, root: u32, random: Random, options: &Options) -> SimDisk {
        let handles = Handles::default();
        let root = Directory::new(root, ".".into(), &handles);
        let pool = pool_of(options.pool_bytes);
        let capabilities = Rc::new(report(pool.largest(), options));
        SimDisk(Rc::new(Inner {
            world,
            disk,
            life,
            slots: Slots::default(),
            pool,
            handles,
            root,
            uids: RefCell::new(random),
            capabilities,
            doorbell: Doorbell::silent(),
        }))
    }

    /// The machine that it runs on.
    #[must_use]
    pub fn world(&self) -> &SimWorld {
        &self.0.world
    }

    /// Its number among the disks of its machine: operations in flight and lines of the trace end with it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.disk
    }

    /// False once its process has died.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.world.0.borrow().life == self.0.life
    }

    /// Closes what has no handle left.
    fn close_released(&self) {
        let mut world = self.0.world.0.borrow_mut();
        while let Some(number) = self.0.handles.take() {
            world.handles.remove(&number);
        }
    }

    fn finish(&self, landed: Landed) {
        let Landed { token, verb, path, result } = landed;
        let success = match result {
            Ok(answer) => Ok(self.success(token, &path, answer)),
            Err(errno) => Err(DiskError { verb, path, errno }),
        };
        let was_in_flight = self.0.slots.finish(token, success);
        assert!(was_in_flight, "every operation completes once");
    }

    fn success(&self, token: Token, path: &Arc<str>, answer: Answer) -> Success {
        let handles = &self.0.handles;
        match answer {
            Answer::Done => Success::Done,
            Answer::Moved(moved) => Success::Moved(moved),
            Answer::Bytes(bytes) => {
                self.0.slots.with(token, |operation| fill(operation, &bytes));
                Success::Moved(bytes.len())
            }
            Answer::File { number, length, direct } => {
                Success::File(File::new(number, path.clone(), length, direct, handles))
            }
            Answer::Directory { number } => Success::Directory(Directory::new(number, path.clone(), handles)),
        }
    }
}

impl Disk for SimDisk {
    fn start(&self, operation: Operation) -> InFlight {
        if !self.is_alive() {
            return self.0.slots.begin(operation).1;
        }
        self.close_released();
        let mut world = self.0.world.0.borrow_mut();
        let (verb, path) = (operation.verb(), operation.path());
        let effect = effect_of(&operation, &world, self.0.disk);
        let (token, future) = self.0.slots.begin(operation);
        let early = world.start(self.0.disk, token, verb, path, effect);
        drop(world);
        early.into_iter().for_each(|landed| self.finish(landed));
        future
    }

    /// One turn; see [`SimWorld`] for what it may do. It never waits for real: time is virtual. With [`Wait::Event`] and
    /// nothing in flight it returns at once.
    fn turn(&self, wait: Wait) -> Result<(), DiskError> {
        if !self.is_alive() {
            return Err(DiskError::new(Verb::Turn, ".", Errno::SHUTDOWN));
        }
        self.close_released();
        let landed = self.0.world.0.borrow_mut().turn(self.0.disk, wait);
        landed.into_iter().for_each(|landed| self.finish(landed));
        Ok(())
    }

    fn take_failed_flush(&self) -> Option<DiskError> {
        self.0.slots.take_failed_flush()
    }

    fn root(&self) -> Directory {
        self.0.root.clone()
    }

    fn list(&self, directory: &Directory) -> Result<Vec<Entry>, DiskError> {
        let refuse = |errno| DiskError::new(Verb::List, directory.path().clone(), errno);
        if !self.is_alive() {
            return Err(refuse(Errno::SHUTDOWN));
        }
        let mut world = self.0.world.0.borrow_mut();
        world.operations += 1;
        if let Some(What::Errno(errno)) = world.faults.strike(Verb::List, false, directory.path()) {
            return Err(refuse(errno));
        }
        let inode = inode_of(&world, self.0.disk, directory.number(), directory.path());
        let entries = world.names.entries(inode).map_err(refuse)?;
        Ok(entries.iter().map(|(name, link)| Entry { name: (&**name).into(), kind: link.kind }).collect())
    }

    fn space(&self) -> Result<Space, DiskError> {
        let refuse = |errno| DiskError::new(Verb::Space, ".", errno);
        if !self.is_alive() {
            return Err(refuse(Errno::SHUTDOWN));
        }
        let mut world = self.0.world.0.borrow_mut();
        if let Some(What::Errno(errno)) = world.faults.strike(Verb::Space, false, ".") {
            return Err(refuse(errno));
        }
        Ok(Space { free: world.free_bytes(), total: world.options.capacity })
    }

    fn stat(&self, directory: &Directory, name: &Name) -> Result<Stat, DiskError> {
        let refuse = |errno| DiskError::new(Verb::Stat, directory.path_of(name.as_str()), errno);
        if !self.is_alive() {
            return Err(refuse(Errno::SHUTDOWN));
        }
        let mut world = self.0.world.0.borrow_mut();
        world.operations += 1;
        if let Some(What::Errno(errno)) = world.faults.strike(Verb::Stat, false, &directory.path_of(name.as_str())) {
            return Err(refuse(errno));
        }
        let inode = inode_of(&world, self.0.disk, directory.number(), directory.path());
        let link = world.names.get(inode, name.as_str()).map_err(refuse)?;
        let ctime_ms = world.changed_ms.get(&link.inode).copied().unwrap_or_default();
        let file = world.files.get(&link.inode).filter(|_| link.kind == EntryKind::File);
        Ok(Stat { kind: link.kind, ctime_ms, bytes: file.map_or(0, |file| file.length()) })
    }

    fn handles(&self) -> Handles {
        self.0.handles.clone()
    }

    fn pool(&self) -> &Pool {
        &self.0.pool
    }

    fn now(&self) -> Now {
        self.0.world.now()
    }

    fn random(&self) -> u128 {
        let mut uids = self.0.uids.borrow_mut();
        u128::from(uids.next()) << 64 | u128::from(uids.next())
    }

    fn doorbell(&self) -> Doorbell {
        self.0.doorbell.clone()
    }

    fn capabilities(&self) -> Rc<Capabilities> {
        self.0.capabilities.clone()
    }

    fn in_flight(&self) -> usize {
        self.0.slots.flying()
    }
}

impl Drop for Inner {
    /// Closes the ring: its handles are closed, and what it has in flight lands at later turns of others.
    fn drop(&mut self) {
        // The world is borrowed only where a panic unwinds out of it; then nobody looks at it again.
        if let Ok(mut world) = self.world.0.try_borrow_mut()
            && world.life == self.life
        {
            world.handles.retain(|_, handle| handle.disk != self.disk);
            world.flights.abandon(self.disk);
        }
        // A pool of which something is still dealt out would make the next process see less room than the seed says.
        if self.pool.free_bytes() == self.pool.largest() {
            SPARE_POOLS.with_borrow_mut(|spare| {
                if spare.len() < SPARE_POOLS_MAX {
                    spare.push(self.pool.clone());
                }
            });
        }
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDisk({} of life {})", self.0.disk, self.0.life)
    }
}

fn pool_of(bytes: usize) -> Pool {
    let fits =
        |pool: &Pool| pool.largest() <= bytes && bytes < 2 * pool.largest() && pool.free_bytes() == pool.largest();
    let spare = SPARE_POOLS.with_borrow_mut(|spare| spare.iter().position(fits).map(|index| spare.swap_remove(index)));
    spare.unwrap_or_else(|| Pool::new(bytes).expect("the host has room for the pool of a simulated disk"))
}

fn report(arena_bytes: usize, options: &Options) -> Capabilities {
    let direct = options.direct;
    let reason = if direct { "the simulation allows it" } else { "the test forbids it" };
    let mut fallocate = vec!["allocate".into()];
    fallocate.extend(options.write_zeroes.then(|| WRITE_ZEROES.to_owned()));
    Capabilities {
        backend: "sim".into(),
        fallback: None,
        kernel: "sim".into(),
        ring: Ring { entries: 256, arena_bytes: arena_bytes as u64, ..Ring::default() },
        filesystem: Filesystem { kind: "sim".into(), ..Filesystem::default() },
        drive: Drive {
            name: Some("sim".into()),
            write_cache: Some("write back".into()),
            fua: Some(true),
            logical_block: Some(super::SECTOR as u32),
        },
        direct: Direct {
            effective: direct,
            alignment: BLOCK as u32,
            reported: Some(BLOCK as u32),
            reason: reason.into(),
        },
        barrier: barrier(options),
        fallocate,
        memlock_bytes: None,
        warnings: Vec::new(),
    }
}

/// The rules for real file systems know nothing of this one; what it does is an option.
fn barrier(options: &Options) -> Barrier {
    let (allowed, reason) = match (options.direct, options.barrier_works) {
        (true, true) => (true, "In the simulation a barrier covers the direct overwrites of all files."),
        (true, false) => (false, "The test forbids that a barrier covers other files than its own."),
        (false, _) => (false, "Writes wait in the page cache until their own file is synced."),
    };
    Barrier { allowed, reason: reason.into() }
}

/// Copies what was read into the operation's buffer.
fn fill(operation: &mut Operation, bytes: &[u8]) {
    let Operation::Read { buffer, span, .. } = operation else { unreachable!("only a read answers bytes") };
    buffer[span.start..span.start + bytes.len()].copy_from_slice(bytes);
}

fn inode_of(world: &World, disk: u32, number: u32, path: &str) -> Inode {
    match world.handles.get(&number) {
        Some(handle) if handle.disk == disk => handle.inode,
        _ => panic!("the handle of {path} belongs to another disk or to a process that died"),
    }
}

/// The operation as plain data. Panics where the caller breaks the rules of direct I/O, which a real disk may let pass.
fn effect_of(operation: &Operation, world: &World, disk: u32) -> Effect {
    let file = |file: &File| inode_of(world, disk, file.number(), file.path());
    let directory = |directory: &Directory| inode_of(world, disk, directory.number(), directory.path());
    let at = |parent: &Directory, name: &Name| -> Place { (directory(parent), name.as_str().into()) };
    match operation {
        Operation::Write { file: handle, buffer, span, position, durable } => {
            check_alignment("write", handle, span, position.0);
            let (bytes, direct) = (buffer[span.clone()].into(), handle.is_direct());
            Effect::Write(Write { file: file(handle), position: position.0, bytes, durable: *durable, direct })
        }
        Operation::Read { file: handle, buffer, span, position } => {
            check_alignment("read", handle, span, position.0);
            assert!(span.end <= buffer.len(), "a read of {} ends past its buffer", handle.path());
            Effect::Read { file: file(handle), position: position.0, length: span.len(), direct: handle.is_direct() }
        }
        Operation::Sync { file: handle } => Effect::Sync { file: file(handle), direct: handle.is_direct() },
        Operation::Barrier { file: handle } => Effect::Barrier { file: file(handle), direct: handle.is_direct() },
        Operation::Allocate { file: handle, length } => Effect::Allocate { file: file(handle), length: *length },
        Operation::WriteZeroes { file: handle, from, length } => {
            Effect::WriteZeroes { file: file(handle), from: from.0, length: *length }
        }
        Operation::Truncate { file: handle, length } => Effect::Truncate { file: file(handle), length: *length },
        Operation::Open { directory, name, how, access } => {
            Effect::Open { at: at(directory, name), how: *how, access: *access }
        }
        Operation::OpenDirectory { directory, name } => Effect::OpenDirectory { at: at(directory, name) },
        Operation::CreateDirectory { directory, name } => Effect::CreateDirectory { at: at(directory, name) },
        Operation::SyncDirectory { directory: handle } => Effect::SyncDirectory { directory: directory(handle) },
        Operation::Rename { from, from_name, to, to_name } => {
            Effect::Rename { from: at(from, from_name), to: at(to, to_name) }
        }
        Operation::Unlink { directory, name } => Effect::Unlink { at: at(directory, name) },
        Operation::RemoveDirectory { directory, name } => Effect::RemoveDirectory { at: at(directory, name) },
        Operation::Sleep { duration } => {
            let due_ns = world.clock.now().boot_ns.saturating_add(duration.as_nanos().min(u128::from(u64::MAX)) as u64);
            Effect::Sleep { due_ns }
        }
    }
}

fn check_alignment(what: &str, file: &File, span: &Range<usize>, position: u64) {
    if !file.is_direct() {
        return;
    }
    for (part, value) in [("position", position), ("span start", span.start as u64), ("span length", span.len() as u64)]
    {
        let aligned = value.is_multiple_of(BLOCK as u64);
        assert!(aligned, "a direct {what} of {} has {part} {value}, which is not block-aligned", file.path());
    }
}
