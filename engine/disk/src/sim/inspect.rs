//! Looking at the world from outside, past all processes. Nothing here changes it or draws from its seed.

use super::file::File;
use super::world::{SimWorld, World};
use crate::clock::Now;
use crate::disk::EntryKind;

impl SimWorld {
    /// Every file that has a name, as (path, length), in path order.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let world = self.0.borrow();
        let files = world.names.files().into_iter();
        files.map(|(path, inode)| (path, world.files.get(&inode).map_or(0, |file| file.length()))).collect()
    }

    /// The bytes of a file as a process would read them through the page cache; `None` when there is no such file.
    #[must_use]
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        self.0.borrow().look(path, false, |file| file.read(0, file.length() as usize, true))
    }

    /// The bytes of a file that are durable under a durable name: what is left when a power failure loses all it may.
    #[must_use]
    pub fn durable_file(&self, path: &str) -> Option<Vec<u8>> {
        self.0.borrow().look(path, true, File::durable)
    }

    /// True when all blocks of the span are written and were made durable by syncs of this very file: what one barrier for
    /// many files may rely on.
    #[must_use]
    pub fn is_anchored(&self, path: &str, position: u64, length: usize) -> bool {
        self.0.borrow().look(path, false, |file| file.is_anchored(position, length)).unwrap_or(false)
    }

    /// The blocks of a file that are allocated; 0 when there is no such file.
    #[must_use]
    pub fn allocated_blocks(&self, path: &str) -> usize {
        self.0.borrow().look(path, false, File::allocated_blocks).unwrap_or(0)
    }

    /// The numbers of the disks on which a file or a directory is open; none when there is no such name.
    #[must_use]
    pub fn holders(&self, path: &str) -> Vec<u32> {
        let world = self.0.borrow();
        let Some(link) = world.names.find(path, false) else { return Vec::new() };
        let mut holders: Vec<u32> =
            world.handles.values().filter(|handle| handle.inode == link.inode).map(|handle| handle.disk).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// Bytes that may still be allocated.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.0.borrow().free_bytes()
    }

    /// What is in flight, a line each, in the order in which it was started; strays of dead processes included.
    #[must_use]
    pub fn pending(&self) -> Vec<String> {
        self.0.borrow().flights.iter().map(ToString::to_string).collect()
    }

    /// Operations started so far, listings included and sleeps not.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    /// Changes of files and names so far: equal numbers mean that nothing was written meanwhile, nor named.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.0.borrow().sequence
    }

    /// Changes that power failures have lost so far, as [`SimWorld::loose_changes`] counts them. A copy counts on from its original.
    #[must_use]
    pub fn lost_changes(&self) -> u64 {
        self.0.borrow().lost
    }

    /// A hash of all that has happened so far. Equal seeds and equal calls give equal hashes.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.0.borrow().trace.hash()
    }

    /// The trace as text, a line an event, since [`SimWorld::keep_trace`].
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.0.borrow().trace.lines()
    }

    /// Both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0.borrow().clock.now()
    }
}

impl World {
    fn look<R>(&self, path: &str, durable: bool, view: impl FnOnce(&File) -> R) -> Option<R> {
        let link = self.names.find(path, durable).filter(|link| link.kind == EntryKind::File)?;
        self.files.get(&link.inode).map(|file| view(file))
    }
}
