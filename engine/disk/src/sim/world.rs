//! The world: the machine under the simulated processes. It owns all state that is not one process's own.
//!
//! It lives in one thread. Nothing in here may depend on addresses, on the host's clock or on the order of a hash map.

use super::clock::Clock;
use super::crash::Loss;
use super::fault::{Fault, Faults};
use super::file::File;
use super::flight::Flights;
use super::lie::{Lie, Lies};
use super::names::{Inode, Names, ROOT};
use super::random::Random;
use super::sim_disk::SimDisk;
use super::trace::Trace;
use crate::buffer::BLOCK;
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A simulated machine: medium, page cache, names, clocks. Clones share it; [`SimWorld::snapshot`] copies it.
#[derive(Clone, Debug)]
pub struct SimWorld(pub(super) Rc<RefCell<World>>);

/// What a handle of a living process stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub(super) disk: u32,
    pub(super) inode: Inode,
}

/// What a test can set.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) capacity: u64,
    pub(super) copy_on_write: bool,
    pub(super) direct: bool,
    pub(super) barrier_works: bool,
    pub(super) write_zeroes: bool,
    pub(super) allow_overlap: bool,
    pub(super) pool_bytes: usize,
    pub(super) descriptors: usize,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) random: Random,
    pub(super) clock: Clock,
    pub(super) names: Rc<Names>,
    pub(super) files: BTreeMap<Inode, Rc<File>>,
    /// When each directory changed last, wall ms. A crash takes none of it back: names that it loses are a change, too.
    pub(super) changed_ms: BTreeMap<Inode, u64>,
    pub(super) handles: BTreeMap<u32, Handle>,
    pub(super) flights: Flights,
    pub(super) faults: Faults,
    pub(super) lies: Lies,
    pub(super) options: Options,
    pub(super) trace: Trace,
    /// Counts changes of the medium: every landing that changes something has its own number.
    pub(super) sequence: u64,
    pub(super) operations: u64,
    /// Counts changes that power failures have lost.
    pub(super) lost: u64,
    /// Counts processes: a disk of an earlier life is dead.
    pub(super) life: u32,
    /// Whether each turn leaves a copy of the machine as it stood before anything landed.
    pub(super) keep_moments: bool,
    pub(super) moment: Option<SimWorld>,
    started: u64,
    disks: u32,
    inodes: u32,
    numbers: u32,
}

impl SimWorld {
    /// An empty machine. All that it will choose follows from `seed` and from what it is asked to do.
    #[must_use]
    pub fn new(seed: u64) -> SimWorld {
        let options = Options {
            capacity: u64::MAX,
            copy_on_write: false,
            write_zeroes: false,
            direct: true,
            barrier_works: true,
            allow_overlap: false,
            pool_bytes: 4 << 20,
            descriptors: usize::MAX,
        };
        SimWorld(Rc::new(RefCell::new(World {
            random: Random::new(seed),
            clock: Clock::new(),
            names: Rc::new(Names::new()),
            files: BTreeMap::new(),
            changed_ms: BTreeMap::new(),
            handles: BTreeMap::new(),
            flights: Flights::default(),
            faults: Faults::default(),
            lies: Lies::default(),
            options,
            trace: Trace::default(),
            sequence: 0,
            operations: 0,
            lost: 0,
            life: 0,
            keep_moments: false,
            moment: None,
            started: 0,
            disks: 0,
            inodes: ROOT.0,
            numbers: 0,
        })))
    }

    /// Opens a disk: one ring of the process that lives now. A process may have several (a shard's, the sweeper's); they
    /// die together. After a crash the first `open` begins a new process, without any handle.
    ///
    /// Writes of a dead process may still land while the new one runs. An engine that holds its lock until they have landed
    /// is modelled by [`SimWorld::land_strays`] before its first read.
    #[must_use]
    pub fn open(&self) -> SimDisk {
        let mut world = self.0.borrow_mut();
        world.disks += 1;
        let (disk, life, options) = (world.disks, world.life, world.options.clone());
        let random = world.random.fork();
        let number = world.handle(disk, ROOT);
        drop(world);
        SimDisk::new(self.clone(), disk, life, number, random, &options)
    }

    /// The process dies, the system lives. What was written stays written, though not durable. Of the operations in flight
    /// some land now, some during later turns of whoever runs next, and some never, as the seed chooses.
    pub fn kill(&self) {
        self.0.borrow_mut().kill();
    }

    /// Lands what dead processes left in flight, in seeded order: the moment at which their lock is free.
    pub fn land_strays(&self) {
        self.0.borrow_mut().land_strays(true);
    }

    /// The machine loses power and boots again. What was durable stays; of the rest, `loss` says what stays.
    pub fn power_failure(&self, loss: Loss) {
        self.0.borrow_mut().power_failure(loss);
    }

    /// How many single changes a power failure now would keep or lose: undurable sectors, lengths and name changes, those
    /// of the operations in flight included. [`Loss::Subset`] and its like number them from 0, oldest first.
    #[must_use]
    pub fn loose_changes(&self) -> usize {
        self.0.borrow().clone().loosen(false).len()
    }

    /// A copy of the machine as it stands, sharing bytes until either changes them. Disks stay with the original; to the
    /// copy their operations in flight are those of a process that nobody drives any more.
    #[must_use]
    pub fn snapshot(&self) -> SimWorld {
        SimWorld(Rc::new(RefCell::new(self.0.borrow().clone())))
    }

    /// A copy as it is after a power failure with the given seed: for many crash images of one moment.
    #[must_use]
    pub fn crash_image(&self, seed: u64, loss: Loss) -> SimWorld {
        let image = self.snapshot();
        image.reseed(seed);
        image.power_failure(loss);
        image
    }

    /// From now on each turn leaves a copy of the machine as it stood when the turn began: all that had been started is in flight and
    /// nothing of it has landed. Most operations land in the turn that follows their start, so these are the moments to crash at.
    pub fn keep_moments(&self, keep: bool) {
        let mut world = self.0.borrow_mut();
        (world.keep_moments, world.moment) = (keep, None);
    }

    /// The copy that the last turn left.
    #[must_use]
    pub fn take_moment(&self) -> Option<SimWorld> {
        self.0.borrow_mut().moment.take()
    }

    /// Draws all further choices from another seed.
    pub fn reseed(&self, seed: u64) {
        self.0.borrow_mut().random = Random::new(seed);
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.0.borrow_mut().faults.inject(fault);
    }

    /// Ends all faults. Operations that one has struck already still suffer it.
    pub fn clear_faults(&self) {
        self.0.borrow_mut().faults.clear();
    }

    /// How many operations a fault has struck.
    #[must_use]
    pub fn faults_fired(&self) -> u64 {
        self.0.borrow().faults.fired()
    }

    /// Makes the disk lie from now on.
    pub fn sabotage(&self, lie: Lie) {
        self.0.borrow_mut().lies.add(lie);
    }

    /// Makes the disk honest again.
    pub fn end_sabotage(&self) {
        self.0.borrow_mut().lies.clear();
    }

    /// Limits the bytes of allocated blocks, all files together. What would pass it gets ENOSPC.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.borrow_mut().options.capacity = bytes;
    }

    /// Makes overwriting need room too, as on btrfs: on a full disk it may get ENOSPC, as the seed chooses.
    pub fn set_copy_on_write(&self, on: bool) {
        self.0.borrow_mut().options.copy_on_write = on;
    }

    /// Whether direct I/O works, for disks opened from now on. It does unless this says otherwise.
    pub fn set_direct(&self, works: bool) {
        self.0.borrow_mut().options.direct = works;
    }

    /// Whether files can be preallocated as written zeros, for disks opened from now on. They cannot by default.
    pub fn set_write_zeroes(&self, works: bool) {
        self.0.borrow_mut().options.write_zeroes = works;
    }

    /// Whether a barrier covers other files than its own, which it does unless this says otherwise. Disks opened from now on
    /// report it; those that are open have reported what was true then.
    pub fn set_barrier_works(&self, works: bool) {
        self.0.borrow_mut().options.barrier_works = works;
    }

    /// Allows two writes in flight to touch the same block, which otherwise panics, being against the contract.
    pub fn allow_overlap(&self, allow: bool) {
        self.0.borrow_mut().options.allow_overlap = allow;
    }

    /// The bytes of the buffer pool of disks opened from now on; 4 MiB unless set.
    pub fn set_pool_bytes(&self, bytes: usize) {
        self.0.borrow_mut().options.pool_bytes = bytes;
    }

    /// How many files and directories all disks of the process may have open together. What would pass it gets EMFILE.
    pub fn set_descriptors(&self, limit: usize) {
        self.0.borrow_mut().options.descriptors = limit;
    }

    /// How many files and directories the process has open, the root of each disk included.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.0.borrow().handles.len()
    }

    /// Moves the wall clock. The time since boot does not jump.
    pub fn jump_clock(&self, delta_ms: i64) {
        self.0.borrow_mut().clock.jump_wall(delta_ms);
    }

    /// Lets so many milliseconds go by on both clocks.
    pub fn let_pass(&self, ms: u64) {
        self.0.borrow_mut().clock.advance(ms * 1_000_000);
    }

    /// Keeps the trace as text too, from now on.
    pub fn keep_trace(&self, keep: bool) {
        self.0.borrow_mut().trace.keep_text(keep);
    }
}

impl World {
    /// Leaves a copy of the machine, where copies are wanted.
    pub(super) fn note_moment(&mut self) {
        if self.keep_moments {
            self.moment = None;
            let mut copy = self.clone();
            copy.keep_moments = false;
            self.moment = Some(SimWorld(Rc::new(RefCell::new(copy))));
        }
    }

    /// The number of the next change.
    pub(super) fn tick(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The number of the next operation.
    pub(super) fn next_flight(&mut self) -> u64 {
        self.started += 1;
        self.started
    }

    /// Something about this changed now.
    pub(super) fn touch(&mut self, inode: Inode) {
        let now_ms = self.clock.now().wall_ms;
        self.changed_ms.insert(inode, now_ms);
    }

    pub(super) fn next_inode(&mut self) -> Inode {
        self.inodes += 1;
        Inode(self.inodes)
    }

    /// A handle on an inode. Numbers are never used again, so a handle of another disk or a former life is noticed.
    pub(super) fn handle(&mut self, disk: u32, inode: Inode) -> u32 {
        self.numbers += 1;
        self.handles.insert(self.numbers, Handle { disk, inode });
        self.numbers
    }

    /// Whether the process may open one more.
    pub(super) fn has_a_descriptor(&self) -> Result<(), Errno> {
        if self.handles.len() < self.options.descriptors { Ok(()) } else { Err(Errno::MFILE) }
    }

    pub(super) fn names(&mut self) -> &mut Names {
        Rc::make_mut(&mut self.names)
    }

    pub(super) fn file(&mut self, inode: Inode) -> &mut File {
        Rc::make_mut(self.files.get_mut(&inode).expect("what is open, named or in flight keeps its file"))
    }

    /// Bytes that may still be allocated. A file without a name counts while it is open, as on Linux.
    pub(super) fn free_bytes(&self) -> u64 {
        if self.options.capacity == u64::MAX {
            return u64::MAX;
        }
        let named = self.names.files().into_iter().map(|(_, inode)| inode);
        let live: BTreeSet<Inode> = named.chain(self.handles.values().map(|handle| handle.inode)).collect();
        let files = live.iter().filter_map(|inode| self.files.get(inode));
        let used: usize = files.map(|file| file.allocated_blocks() * BLOCK).sum();
        self.options.capacity.saturating_sub(used as u64)
    }

    /// Forgets the files that no name, no handle and no operation in flight can reach any more.
    pub(super) fn forget_unreachable(&mut self) {
        let mut kept = self.names.named();
        kept.extend(self.handles.values().map(|handle| handle.inode));
        kept.extend(self.flights.iter().filter_map(|flight| flight.effect.file()));
        self.files.retain(|inode, _| kept.contains(inode));
    }
}
