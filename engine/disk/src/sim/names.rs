//! The names: which directory holds which name for which inode, as written and as durable. It holds no file's bytes.
//!
//! Every change keeps the directories whose sync it still waits for. Worked example: `rename spare/7 -> topic` changes two
//! directories. A sync of the root alone leaves it open; a power failure then keeps both halves or neither, so the thing
//! is found under exactly one of its names.

use crate::disk::EntryKind;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a file or a directory for good; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inode(pub(super) u32);

/// The inode of the root directory.
pub(super) const ROOT: Inode = Inode(0);

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) inode: Inode,
    pub(super) kind: EntryKind,
}

type Tree = BTreeMap<Inode, BTreeMap<Arc<str>, Link>>;

/// One name of one directory, and what it stands for after the change.
#[derive(Clone, Debug)]
struct Part {
    directory: Inode,
    name: Arc<str>,
    link: Option<Link>,
    synced: bool,
}

/// An atomic change of names that is not durable.
#[derive(Clone, Debug)]
struct Change {
    sequence: u64,
    parts: Vec<Part>,
    /// The directory that it removes: the change comes after all that was done in there.
    removed: Option<Inode>,
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    written: Tree,
    durable: Tree,
    changes: Vec<Change>,
}

impl Names {
    pub(super) fn new() -> Names {
        let root = Tree::from([(ROOT, BTreeMap::new())]);
        Names { written: root.clone(), durable: root, changes: Vec::new() }
    }

    pub(super) fn get(&self, directory: Inode, name: &str) -> Result<Link, Errno> {
        self.entries(directory)?.get(name).copied().ok_or(Errno::NOENT)
    }

    pub(super) fn entries(&self, directory: Inode) -> Result<&BTreeMap<Arc<str>, Link>, Errno> {
        self.written.get(&directory).ok_or(Errno::NOENT)
    }

    /// Follows a path from the root, in the written names or in the durable ones.
    pub(super) fn find(&self, path: &str, durable: bool) -> Option<Link> {
        let tree = if durable { &self.durable } else { &self.written };
        let mut at = Link { inode: ROOT, kind: EntryKind::Directory };
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            at = *tree.get(&at.inode)?.get(name)?;
        }
        Some(at)
    }

    /// Adds a name for something new.
    pub(super) fn add(&mut self, sequence: u64, directory: Inode, name: &str, link: Link) -> Result<(), Errno> {
        if self.entries(directory)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        if link.kind == EntryKind::Directory {
            self.written.insert(link.inode, BTreeMap::new());
        }
        self.change(sequence, &[(directory, name, Some(link))], None);
        Ok(())
    }

    /// Removes a file's name; answers what it stood for.
    pub(super) fn unlink(&mut self, sequence: u64, directory: Inode, name: &str) -> Result<Link, Errno> {
        let link = self.get(directory, name)?;
        if link.kind == EntryKind::Directory {
            return Err(Errno::ISDIR);
        }
        self.change(sequence, &[(directory, name, None)], None);
        Ok(link)
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&mut self, sequence: u64, directory: Inode, name: &str) -> Result<(), Errno> {
        let link = self.get(directory, name)?;
        if link.kind != EntryKind::Directory {
            return Err(Errno::NOTDIR);
        }
        if !self.entries(link.inode)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.written.remove(&link.inode);
        self.change(sequence, &[(directory, name, None)], Some(link.inode));
        Ok(())
    }

    /// Renames, replacing a file or an empty directory that has the new name.
    pub(super) fn rename(&mut self, sequence: u64, from: (Inode, &str), to: (Inode, &str)) -> Result<(), Errno> {
        let link = self.get(from.0, from.1)?;
        let replaced = self.entries(to.0)?.get(to.1).copied();
        if link.kind == EntryKind::Directory && self.is_below(to.0, link.inode) {
            return Err(Errno::INVAL);
        }
        let mut removed = None;
        if let Some(replaced) = replaced {
            match (link.kind, replaced.kind) {
                _ if replaced.inode == link.inode => return Ok(()),
                (EntryKind::Directory, EntryKind::Directory) if !self.entries(replaced.inode)?.is_empty() => {
                    return Err(Errno::NOTEMPTY);
                }
                (EntryKind::Directory, EntryKind::Directory) => removed = Some(replaced.inode),
                (EntryKind::Directory, _) => return Err(Errno::NOTDIR),
                (_, EntryKind::Directory) => return Err(Errno::ISDIR),
                _ => {}
            }
        }
        removed.iter().for_each(|inode| drop(self.written.remove(inode)));
        self.change(sequence, &[(from.0, from.1, None), (to.0, to.1, Some(link))], removed);
        Ok(())
    }

    /// True when `inode` is `above` or lies in it.
    fn is_below(&self, inode: Inode, above: Inode) -> bool {
        let Some(entries) = self.written.get(&above) else { return false };
        inode == above || entries.values().any(|link| self.is_below(inode, link.inode))
    }

    fn change(&mut self, sequence: u64, parts: &[(Inode, &str, Option<Link>)], removed: Option<Inode>) {
        let part = |&(directory, name, link): &(Inode, &str, Option<Link>)| {
            let name: Arc<str> = Arc::from(name);
            Part { directory, name, link, synced: false }
        };
        let change = Change { sequence, parts: parts.iter().map(part).collect(), removed };
        apply(&mut self.written, &change);
        self.changes.push(change);
    }

    /// Makes durable the changes in one directory up to and with `through`, with all that they build on.
    pub(super) fn sync(&mut self, directory: Inode, through: u64) {
        let mut settled: Vec<bool> = Vec::with_capacity(self.changes.len());
        for change in &mut self.changes {
            let covered = change.sequence <= through;
            let parts = change.parts.iter_mut().filter(|part| covered && part.directory == directory);
            parts.for_each(|part| part.synced = true);
            settled.push(change.parts.iter().all(|part| part.synced));
        }
        self.close(&mut settled);
        self.settle(&settled);
    }

    /// Adds to `kept` the earlier changes that a kept one builds on: those of the same name, and those inside a directory
    /// that was removed. Without it a crash could find a directory under two parents (`a -> b` lost, `b -> c` kept: it is
    /// under `a` and `c`), or lose a file that was moved out of a directory before that was removed.
    pub(super) fn close(&self, kept: &mut [bool]) {
        let mut names: BTreeSet<(Inode, &str)> = BTreeSet::new();
        let mut removed: BTreeSet<Inode> = BTreeSet::new();
        for (change, kept) in self.changes.iter().zip(kept).rev() {
            let name_is_needed = change.parts.iter().any(|part| names.contains(&(part.directory, &*part.name)));
            let was_inside = change.parts.iter().any(|part| removed.contains(&part.directory));
            *kept |= name_is_needed || was_inside;
            if *kept {
                names.extend(change.parts.iter().map(|part| (part.directory, &*part.name)));
                removed.extend(change.removed);
            }
        }
    }

    fn settle(&mut self, settled: &[bool]) {
        let mut settled = settled.iter();
        let changes = std::mem::take(&mut self.changes);
        for change in changes {
            if settled.next() == Some(&true) {
                apply(&mut self.durable, &change);
            } else {
                self.changes.push(change);
            }
        }
    }

    /// The sequence of every undurable change, in order.
    pub(super) fn loose(&self) -> impl Iterator<Item = u64> {
        self.changes.iter().map(|change| change.sequence)
    }

    /// The power fails: of the undurable changes those of `kept` are durable, the others never were. Closed by the caller.
    pub(super) fn collapse(&mut self, kept: &[bool]) {
        self.settle(kept);
        self.changes.clear();
        let mut reached = Tree::new();
        collect(&self.durable, ROOT, &mut reached);
        self.written = reached.clone();
        self.durable = reached;
    }

    /// Makes one change durable with all that it builds on, as surgery on the medium does.
    pub(super) fn settle_one(&mut self, sequence: u64) {
        let mut settled: Vec<bool> = self.changes.iter().map(|change| change.sequence == sequence).collect();
        self.close(&mut settled);
        self.settle(&settled);
    }

    /// Every inode that some name, written or durable or between, stands for.
    pub(super) fn named(&self) -> BTreeSet<Inode> {
        let trees = self.written.values().chain(self.durable.values()).flat_map(BTreeMap::values);
        let between = self.changes.iter().flat_map(|change| change.parts.iter().filter_map(|part| part.link.as_ref()));
        trees.chain(between).map(|link| link.inode).collect()
    }

    /// Every file, with its path, in path order.
    pub(super) fn files(&self) -> Vec<(String, Inode)> {
        let mut files = Vec::new();
        self.walk(ROOT, "", &mut files);
        files.sort();
        files
    }

    fn walk(&self, directory: Inode, prefix: &str, files: &mut Vec<(String, Inode)>) {
        for (name, link) in self.written.get(&directory).into_iter().flatten() {
            match link.kind {
                EntryKind::Directory => self.walk(link.inode, &format!("{prefix}{name}/"), files),
                EntryKind::File => files.push((format!("{prefix}{name}"), link.inode)),
                EntryKind::Symlink | EntryKind::Other => {}
            }
        }
    }
}

fn apply(tree: &mut Tree, change: &Change) {
    for part in &change.parts {
        let entries = tree.entry(part.directory).or_default();
        match part.link {
            Some(link) => drop(entries.insert(part.name.clone(), link)),
            None => drop(entries.remove(&part.name)),
        }
    }
    if let Some(removed) = change.removed {
        tree.remove(&removed);
    }
}

/// Copies what can be reached from `directory`; what cannot is lost, as a directory is whose own name never got durable.
fn collect(tree: &Tree, directory: Inode, reached: &mut Tree) {
    let entries = tree.get(&directory).cloned().unwrap_or_default();
    let below: Vec<Inode> =
        entries.values().filter(|link| link.kind == EntryKind::Directory).map(|link| link.inode).collect();
    reached.insert(directory, entries);
    below.into_iter().for_each(|inode| collect(tree, inode, reached));
}
