//! Damage: what happens to a medium without any operation. It strikes the durable bytes and every later state alike, so a
//! crash does not heal it.

use super::file::File;
use super::names::{Inode, Link, ROOT};
use super::world::{SimWorld, World};
use crate::disk::EntryKind;
use std::ops::Range;
use std::rc::Rc;

impl SimWorld {
    /// Flips the bits `xor` of the byte at `position`.
    ///
    /// # Panics
    /// Here and below: when there is no such file.
    pub fn rot(&self, path: &str, position: u64, xor: u8) {
        self.with_file(path, |file| {
            file.damage(position, 1, |_, bytes| bytes.iter_mut().for_each(|byte| *byte ^= xor))
        });
    }

    /// Puts back bytes of a former life.
    pub fn stale(&self, path: &str, position: u64, former: &[u8]) {
        let copy = |at: u64, bytes: &mut [u8]| {
            let from = (at - position) as usize;
            bytes.copy_from_slice(&former[from..from + bytes.len()]);
        };
        self.with_file(path, |file| file.damage(position, former.len(), copy));
    }

    /// Zeroes a range.
    pub fn zero(&self, path: &str, range: Range<u64>) {
        let length = range.end.saturating_sub(range.start) as usize;
        self.with_file(path, |file| file.damage(range.start, length, |_, bytes| bytes.fill(0)));
    }

    /// Sets the length of a file, durably. What else of it was not durable becomes so.
    pub fn truncate_file(&self, path: &str, length: u64) {
        self.with_file(path, |file| file.damage_length(length));
    }

    /// Removes a file's name, durably.
    pub fn remove_file(&self, path: &str) {
        let mut world = self.0.borrow_mut();
        let (directory, name) = world.parent(path);
        let sequence = world.tick();
        let removed = world.names().unlink(sequence, directory, name);
        world.touch(directory);
        assert!(removed.is_ok(), "there is no file {path}");
        world.names().settle_one(sequence);
        world.forget_unreachable();
    }

    /// Copies a file as it now reads, durably, replacing what has the new name.
    pub fn copy_file(&self, from: &str, to: &str) {
        let bytes = self.read_file(from).unwrap_or_else(|| panic!("there is no file {from}"));
        self.put_file(to, &bytes);
    }

    /// Puts a file there, durably, with the directories that it needs, replacing what has its name.
    pub fn put_file(&self, path: &str, bytes: &[u8]) {
        if self.read_file(path).is_some() {
            self.remove_file(path);
        }
        let mut world = self.0.borrow_mut();
        let (directory, name) = world.parent(path);
        let inode = world.place(directory, name, EntryKind::File);
        world.files.insert(inode, Rc::new(File::durable_of(bytes)));
    }

    /// Puts an empty directory there, durably, with those that it needs.
    pub fn put_directory(&self, path: &str) {
        self.put_other(path, EntryKind::Directory);
    }

    /// Puts a symbolic link there, durably. It leads nowhere: nothing here follows one.
    pub fn put_symlink(&self, path: &str) {
        self.put_other(path, EntryKind::Symlink);
    }

    fn put_other(&self, path: &str, kind: EntryKind) {
        let mut world = self.0.borrow_mut();
        let (directory, name) = world.parent(path);
        let _ = world.place(directory, name, kind);
    }

    /// Evicts every clean page from the page cache. Pages that a failed sync left clean lose the bytes that only they had.
    pub fn drop_caches(&self) {
        let mut world = self.0.borrow_mut();
        world.files.values_mut().for_each(|file| Rc::make_mut(file).evict());
    }

    fn with_file(&self, path: &str, change: impl FnOnce(&mut File)) {
        let mut world = self.0.borrow_mut();
        match world.names.find(path, false) {
            Some(link) if link.kind == EntryKind::File => change(world.file(link.inode)),
            _ => panic!("there is no file {path}"),
        }
    }
}

impl World {
    /// The directory of a path, made where it is missing, and the last name of the path.
    fn parent<'a>(&mut self, path: &'a str) -> (Inode, &'a str) {
        let mut at = ROOT;
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        for directory in directories.split('/').filter(|name| !name.is_empty()) {
            at = match self.names.get(at, directory) {
                Ok(link) => link.inode,
                Err(_) => self.place(at, directory, EntryKind::Directory),
            };
        }
        (at, name)
    }

    fn place(&mut self, directory: Inode, name: &str, kind: EntryKind) -> Inode {
        let (inode, sequence) = (self.next_inode(), self.tick());
        let placed = self.names().add(sequence, directory, name, Link { inode, kind });
        assert!(placed.is_ok(), "{name} cannot be put there: {placed:?}");
        self.names().settle_one(sequence);
        self.touch(inode);
        self.touch(directory);
        inode
    }
}
