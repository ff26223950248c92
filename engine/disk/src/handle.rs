//! Handles: an open file, an open directory. Cheap to clone; the last clone to go gives the number back to its disk.
//!
//! An operation in flight holds a clone, so nothing is closed before its last completion has been seen.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The handles of one disk: how many there are, and the numbers whose last handle is gone, for the disk to close at its next turn.
///
/// Each handle stands for one descriptor of the process. One whose last clone is gone is closed before anything else is opened.
#[derive(Clone, Debug, Default)]
pub struct Handles(Rc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    released: RefCell<Vec<u32>>,
    open: Cell<usize>,
    shortages: Cell<u64>,
}

impl Handles {
    /// Takes one number to close.
    #[must_use]
    pub fn take(&self) -> Option<u32> {
        self.0.released.borrow_mut().pop()
    }

    /// How many files and directories are open, the root included.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.open.get()
    }

    /// How often an open was refused for want of a descriptor so far.
    #[must_use]
    pub fn shortages(&self) -> u64 {
        self.0.shortages.get()
    }

    /// An open was refused for want of a descriptor.
    pub fn note_shortage(&self) {
        self.0.shortages.set(self.0.shortages.get() + 1);
    }
}

#[derive(Debug)]
struct Held {
    number: u32,
    path: Arc<str>,
    handles: Handles,
}

impl Held {
    fn new(number: u32, path: Arc<str>, handles: &Handles) -> Rc<Held> {
        handles.0.open.set(handles.0.open.get() + 1);
        Rc::new(Held { number, path, handles: handles.clone() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Handles(counted) = &self.handles;
        counted.open.set(counted.open.get() - 1);
        counted.released.borrow_mut().push(self.number);
    }
}

/// An open regular file.
#[derive(Clone)]
pub struct File {
    held: Rc<Held>,
    length: u64,
    direct: bool,
    read_only: bool,
}

impl File {
    /// Makes a handle. `number` is the disk's own; it comes back through `handles`.
    #[must_use]
    pub fn new(number: u32, path: Arc<str>, length: u64, direct: bool, handles: &Handles) -> File {
        File { held: Held::new(number, path, handles), length, direct, read_only: false }
    }

    /// The same, of a file that could be opened for reading only.
    #[must_use]
    pub fn only_to_read(self) -> File {
        File { read_only: true, ..self }
    }

    /// The disk's number for it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.held.number
    }

    /// Its path, relative to the root.
    #[must_use]
    pub fn path(&self) -> &Arc<str> {
        &self.held.path
    }

    /// Its length in bytes when it was opened.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many clones of this handle there are, those in operations in flight included.
    #[must_use]
    pub fn holders(&self) -> usize {
        Rc::strong_count(&self.held)
    }

    /// True when it may only be read: its file system had become read-only when it was opened.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// True when it was opened for direct I/O.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({} #{})", self.path(), self.number())
    }
}

/// An open directory.
#[derive(Clone)]
pub struct Directory {
    held: Rc<Held>,
}

impl Directory {
    /// Makes a handle. `number` is the disk's own; it comes back through `handles`.
    #[must_use]
    pub fn new(number: u32, path: Arc<str>, handles: &Handles) -> Directory {
        Directory { held: Held::new(number, path, handles) }
    }

    /// The disk's number for it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.held.number
    }

    /// Its path, relative to the root (`.` for the root itself).
    #[must_use]
    pub fn path(&self) -> &Arc<str> {
        &self.held.path
    }

    /// The path of an entry in this directory, for messages.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Arc<str> {
        if &**self.path() == "." { name.into() } else { format!("{}/{name}", self.path()).into() }
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({} #{})", self.path(), self.number())
    }
}
