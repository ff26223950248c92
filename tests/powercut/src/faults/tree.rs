//! Tree: files and directories in memory, each as it is and as it would be after the power went away. Pure.

use crate::random::Random;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// What may be lost by itself, in bytes.
const BLOCK: usize = 4096;

/// The number of the root.
pub const ROOT: u64 = 0;

type Names = BTreeMap<OsString, u64>;

/// All of it. The numbers of nodes are never used twice.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<u64, Node>,
    next: u64,
}

/// A file or a directory.
#[derive(Clone, Debug)]
pub enum Node {
    /// A file.
    File(Content),
    /// A directory.
    Directory {
        /// What it holds.
        now: Names,
        /// What it holds after a power cut.
        durable: Names,
        /// The directory that it lies in.
        parent: u64,
    },
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// For whoever reads it.
    pub now: Vec<u8>,
    /// After a power cut.
    pub durable: Vec<u8>,
}

/// What a power cut takes of what is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    All,
    /// As chance has it: names all or none, of files each block by itself.
    Some,
}

/// What an operation came to.
pub type Done<T> = Result<T, Errno>;

impl Default for Tree {
    fn default() -> Tree {
        let root = Node::Directory { now: Names::new(), durable: Names::new(), parent: ROOT };
        Tree { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1 }
    }
}

impl Content {
    fn write(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if into.len() < end {
            into.resize(end, 0);
        }
        into[offset..end].copy_from_slice(bytes);
    }

    fn lose(&mut self, loss: Loss, random: &mut Random) {
        if loss == Loss::Some {
            let length = if random.one_in(2) { self.now.len() } else { self.durable.len() };
            self.durable.resize(length, 0);
            for (now, durable) in self.now.chunks(BLOCK).zip(self.durable.chunks_mut(BLOCK)) {
                let both = now.len().min(durable.len());
                if now[..both] != durable[..both] && random.one_in(2) {
                    durable[..both].copy_from_slice(&now[..both]);
                }
            }
        }
        self.now.clone_from(&self.durable);
    }
}

impl Tree {
    /// The node of this number.
    ///
    /// # Errors
    /// There is none.
    pub fn node(&self, number: u64) -> Done<&Node> {
        self.nodes.get(&number).ok_or(Errno::NOENT)
    }

    fn file(&mut self, number: u64) -> Done<&mut Content> {
        match self.nodes.get_mut(&number) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Directory { .. }) => Err(Errno::ISDIR),
            None => Err(Errno::NOENT),
        }
    }

    fn names(&self, number: u64) -> Done<&Names> {
        match self.node(number)? {
            Node::Directory { now, .. } => Ok(now),
            Node::File(_) => Err(Errno::NOTDIR),
        }
    }

    fn names_mut(&mut self, number: u64) -> Done<&mut Names> {
        match self.nodes.get_mut(&number) {
            Some(Node::Directory { now, .. }) => Ok(now),
            Some(Node::File(_)) => Err(Errno::NOTDIR),
            None => Err(Errno::NOENT),
        }
    }

    /// The number that a name stands for.
    ///
    /// # Errors
    /// There is no such name.
    pub fn find(&self, directory: u64, name: &OsStr) -> Done<u64> {
        self.names(directory)?.get(name).copied().ok_or(Errno::NOENT)
    }

    /// The entries of a directory, in name order.
    ///
    /// # Errors
    /// It is none.
    pub fn list(&self, directory: u64) -> Done<Vec<(OsString, u64)>> {
        Ok(self.names(directory)?.iter().map(|(name, number)| (name.clone(), *number)).collect())
    }

    /// Where a node lies, for people: from the root down, without it.
    pub fn path(&self, number: u64) -> String {
        let name_in = |parent: u64| {
            let names = self.names(parent).ok()?;
            names.iter().find_map(|(name, of)| (*of == number).then(|| name.to_string_lossy().into_owned()))
        };
        let parent = match self.nodes.get(&number) {
            Some(Node::Directory { parent, .. }) => Some(*parent),
            _ => self.nodes.keys().copied().find(|parent| name_in(*parent).is_some()),
        };
        match parent.filter(|_| number != ROOT) {
            None => String::new(),
            Some(parent) => format!("{}/{}", self.path(parent), name_in(parent).unwrap_or_else(|| "?".to_owned())),
        }
    }

    /// Makes a file, empty.
    ///
    /// # Errors
    /// The name is taken.
    pub fn create(&mut self, directory: u64, name: &OsStr) -> Done<u64> {
        self.add(directory, name, Node::File(Content::default()))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// The name is taken.
    pub fn make_directory(&mut self, directory: u64, name: &OsStr) -> Done<u64> {
        self.add(directory, name, Node::Directory { now: Names::new(), durable: Names::new(), parent: directory })
    }

    fn add(&mut self, directory: u64, name: &OsStr, node: Node) -> Done<u64> {
        let number = self.next;
        let names = self.names_mut(directory)?;
        if names.contains_key(name) {
            return Err(Errno::EXIST);
        }
        names.insert(name.to_owned(), number);
        self.nodes.insert(number, node);
        self.next += 1;
        Ok(number)
    }

    /// Removes a file's name. Who has it open goes on with it.
    ///
    /// # Errors
    /// There is no such file.
    pub fn unlink(&mut self, directory: u64, name: &OsStr) -> Done<()> {
        self.file(self.find(directory, name)?)?;
        self.names_mut(directory)?.remove(name);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// There is none, or it is not empty.
    pub fn remove_directory(&mut self, directory: u64, name: &OsStr) -> Done<()> {
        if !self.names(self.find(directory, name)?)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.names_mut(directory)?.remove(name);
        Ok(())
    }

    /// Renames. What had the new name loses it; `exclusive` refuses that.
    ///
    /// # Errors
    /// There is no such name, or the new one is not free for it.
    pub fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), exclusive: bool) -> Done<()> {
        let number = self.find(from.0, from.1)?;
        match self.find(to.0, to.1) {
            Ok(_) if exclusive => return Err(Errno::EXIST),
            Ok(there) => match self.node(there)? {
                Node::Directory { now, .. } if !now.is_empty() => return Err(Errno::NOTEMPTY),
                _ => {}
            },
            Err(_) => drop(self.names(to.0)?),
        }
        self.names_mut(from.0)?.remove(from.1);
        self.names_mut(to.0)?.insert(to.1.to_owned(), number);
        if let Some(Node::Directory { parent, .. }) = self.nodes.get_mut(&number) {
            *parent = to.0;
        }
        Ok(())
    }

    /// Reads. Short at the end of the file.
    ///
    /// # Errors
    /// It is no file.
    pub fn read(&mut self, number: u64, offset: u64, length: usize) -> Done<Vec<u8>> {
        let now = &self.file(number)?.now;
        let from = (offset as usize).min(now.len());
        Ok(now[from..now.len().min(from + length)].to_vec())
    }

    /// Writes; durably, when that was asked for.
    ///
    /// # Errors
    /// It is no file.
    pub fn write(&mut self, number: u64, offset: u64, bytes: &[u8], durable: bool) -> Done<()> {
        let content = self.file(number)?;
        Content::write(&mut content.now, offset as usize, bytes);
        if durable {
            Content::write(&mut content.durable, offset as usize, bytes);
        }
        Ok(())
    }

    /// Sets a file's length.
    ///
    /// # Errors
    /// It is no file.
    pub fn resize(&mut self, number: u64, length: u64) -> Done<()> {
        self.file(number)?.now.resize(length as usize, 0);
        Ok(())
    }

    /// Makes sure that a file reaches as far as this, and fills with zeros what was asked.
    ///
    /// # Errors
    /// It is no file.
    pub fn allocate(&mut self, number: u64, (offset, length): (u64, u64), zeroes: bool, grows: bool) -> Done<()> {
        let now = &mut self.file(number)?.now;
        let end = (offset + length) as usize;
        if grows && now.len() < end {
            now.resize(end, 0);
        }
        if zeroes {
            let end = end.min(now.len());
            now[(offset as usize).min(end)..end].fill(0);
        }
        Ok(())
    }

    /// Makes a file durable.
    ///
    /// # Errors
    /// It is no file.
    pub fn sync(&mut self, number: u64) -> Done<()> {
        let content = self.file(number)?;
        content.durable.clone_from(&content.now);
        Ok(())
    }

    /// Makes names durable: all there are, as a journal does that writes changes of names in their order.
    pub fn sync_names(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::Directory { now, durable, .. } = node {
                durable.clone_from(now);
            }
        }
    }

    /// A file goes back to what of it is durable: a sync has failed, and what was dirty is gone.
    ///
    /// # Errors
    /// It is no file.
    pub fn drop_dirty(&mut self, number: u64) -> Done<()> {
        let content = self.file(number)?;
        content.now.clone_from(&content.durable);
        Ok(())
    }

    /// The same for every file: the drive has lost its cache.
    pub fn drop_all_dirty(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::File(content) = node {
                content.now.clone_from(&content.durable);
            }
        }
    }

    /// The power goes away and comes back. What was open is not any more, so nodes without a name go.
    pub fn cut(&mut self, loss: Loss, random: &mut Random) {
        if loss == Loss::Some && random.one_in(2) {
            self.sync_names();
        }
        for node in self.nodes.values_mut() {
            match node {
                Node::File(content) => content.lose(loss, random),
                Node::Directory { now, durable, .. } => now.clone_from(durable),
            }
        }
        self.forget_unnamed();
    }

    /// Forgets what has no name, neither now nor after a power cut. Nobody must have any of it open.
    pub fn forget_nameless(&mut self) {
        let (mut found, mut at) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(number) = at.pop() {
            let Some(Node::Directory { now, durable, .. }) = self.nodes.get(&number) else { continue };
            at.extend(now.values().chain(durable.values()).copied().filter(|inner| found.insert(*inner)));
        }
        self.nodes.retain(|number, _| found.contains(number));
    }

    /// How many files and directories have a name, and the bytes of these files.
    pub fn extent(&self) -> (u64, u64) {
        let (mut count, mut bytes, mut at) = (0, 0, vec![ROOT]);
        while let Some(number) = at.pop() {
            match self.nodes.get(&number) {
                Some(Node::Directory { now, .. }) => {
                    count += now.len() as u64;
                    at.extend(now.values());
                }
                Some(Node::File(content)) => bytes += content.now.len() as u64,
                None => {}
            }
        }
        (count, bytes)
    }

    fn forget_unnamed(&mut self) {
        let mut found = vec![ROOT];
        let mut at = 0;
        while let Some(number) = found.get(at).copied() {
            let inside = self.names(number).map(|names| names.values().copied().collect::<Vec<_>>());
            for inner in inside.unwrap_or_default() {
                found.push(inner);
                if let Some(Node::Directory { parent, .. }) = self.nodes.get_mut(&inner) {
                    *parent = number;
                }
            }
            at += 1;
        }
        found.sort_unstable();
        self.nodes.retain(|number, _| found.binary_search(number).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> &OsStr {
        OsStr::new(name)
    }

    fn file(tree: &mut Tree) -> u64 {
        let file = tree.create(ROOT, name("file")).expect("made");
        tree.sync_names();
        file
    }

    fn after(tree: &Tree, loss: Loss, seed: u64) -> Tree {
        let mut tree = tree.clone();
        tree.cut(loss, &mut Random::new(seed, 0));
        tree
    }

    #[test]
    fn what_was_synced_outlives_a_cut_and_what_was_not_does_not() {
        let mut tree = Tree::default();
        let file = file(&mut tree);
        tree.write(file, 0, b"first", false).expect("written");
        tree.sync(file).expect("synced");
        tree.write(file, 0, b"later", false).expect("written");
        tree.write(file, 5, b"durable", true).expect("written");
        tree.create(ROOT, name("other")).expect("made");
        assert_eq!(tree.read(file, 0, 99).expect("read"), b"laterdurable");
        let mut after = after(&tree, Loss::All, 1);
        assert_eq!(after.read(file, 0, 99).expect("read"), b"firstdurable");
        assert_eq!(after.find(ROOT, name("other")), Err(Errno::NOENT));
    }

    #[test]
    fn chance_loses_whole_blocks_of_what_was_not_synced() {
        let mut tree = Tree::default();
        let file = file(&mut tree);
        tree.allocate(file, (0, 2 * BLOCK as u64), false, true).expect("allocated");
        tree.sync(file).expect("synced");
        tree.write(file, 0, &[7; 2 * BLOCK], false).expect("written");
        let seen: std::collections::BTreeSet<_> = (0..32)
            .map(|seed| {
                let bytes = after(&tree, Loss::Some, seed).read(file, 0, 2 * BLOCK).expect("read");
                assert!(bytes.chunks(BLOCK).all(|block| block.iter().all(|byte| *byte == block[0])));
                (bytes[0], bytes[BLOCK])
            })
            .collect();
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn a_failed_sync_takes_a_file_back() {
        let mut tree = Tree::default();
        let file = file(&mut tree);
        tree.write(file, 0, b"good", true).expect("written");
        tree.write(file, 0, b"lost", false).expect("written");
        tree.drop_dirty(file).expect("dropped");
        assert_eq!(tree.read(file, 0, 9).expect("read"), b"good");
        tree.write(file, 4, b"lost", false).expect("written");
        tree.drop_all_dirty();
        assert_eq!(tree.read(file, 0, 9).expect("read"), b"good");
    }

    #[test]
    fn a_name_that_was_not_durably_removed_comes_back_with_all_that_was_behind_it() {
        let mut tree = Tree::default();
        let inner = tree.make_directory(ROOT, name("inner")).expect("made");
        let file = tree.create(inner, name("file")).expect("made");
        tree.write(file, 0, b"kept", true).expect("written");
        tree.sync_names();
        tree.unlink(inner, name("file")).expect("removed");
        tree.remove_directory(ROOT, name("inner")).expect("removed");
        let mut after = after(&tree, Loss::All, 1);
        assert_eq!(after.find(ROOT, name("inner")), Ok(inner));
        assert_eq!(after.read(file, 0, 9).expect("read"), b"kept");
    }

    #[test]
    fn names_come_and_go_as_a_directory_tells() {
        let mut tree = Tree::default();
        let inner = tree.make_directory(ROOT, name("inner")).expect("made");
        let file = tree.create(inner, name("file")).expect("made");
        assert_eq!(tree.path(file), "/inner/file");
        assert_eq!(tree.create(inner, name("file")), Err(Errno::EXIST));
        assert_eq!(tree.remove_directory(ROOT, name("inner")), Err(Errno::NOTEMPTY));
        assert_eq!(tree.unlink(ROOT, name("inner")), Err(Errno::ISDIR));
        tree.sync_names();
        tree.rename((inner, name("file")), (ROOT, name("moved")), false).expect("renamed");
        assert_eq!(tree.find(ROOT, name("moved")), Ok(file));
        assert_eq!(after(&tree, Loss::All, 1).find(inner, name("file")), Ok(file));
        tree.create(ROOT, name("other")).expect("made");
        let taken = tree.rename((ROOT, name("other")), (ROOT, name("moved")), true);
        assert_eq!(taken, Err(Errno::EXIST));
        tree.remove_directory(ROOT, name("inner")).expect("removed");
        tree.unlink(ROOT, name("moved")).expect("removed");
        tree.write(file, 0, b"open", false).expect("who has it open goes on");
        tree.sync_names();
        tree.cut(Loss::All, &mut Random::new(1, 0));
        assert_eq!(tree.node(file).err(), Some(Errno::NOENT));
    }

    #[test]
    fn what_has_no_name_is_forgotten_unless_a_power_cut_would_bring_it_back() {
        let mut tree = Tree::default();
        let inner = tree.make_directory(ROOT, name("inner")).expect("made");
        let (kept, gone) = (tree.create(inner, name("kept")), tree.create(inner, name("gone")));
        let (kept, gone) = (kept.expect("made"), gone.expect("made"));
        tree.write(kept, 0, b"seven b", false).expect("written");
        assert_eq!(tree.extent(), (3, 7));
        tree.unlink(inner, name("gone")).expect("removed");
        tree.forget_nameless();
        assert!(tree.node(gone).is_err() && tree.node(kept).is_ok());
        tree.sync_names();
        tree.unlink(inner, name("kept")).expect("removed");
        tree.forget_nameless();
        assert!(tree.node(kept).is_ok() && tree.extent() == (1, 0));
        assert_eq!(after(&tree, Loss::All, 1).find(inner, name("kept")), Ok(kept));
    }

    #[test]
    fn allocation_grows_and_clears_as_it_was_asked() {
        let mut tree = Tree::default();
        let file = file(&mut tree);
        tree.write(file, 0, b"abcdef", false).expect("written");
        tree.allocate(file, (2, 2), true, false).expect("a hole");
        tree.allocate(file, (0, 8), false, true).expect("longer");
        assert_eq!(tree.read(file, 0, 9).expect("read"), b"ab\0\0ef\0\0");
        tree.resize(file, 1).expect("shorter");
        assert_eq!(tree.read(file, 0, 9).expect("read"), b"a");
        assert_eq!(tree.read(file, 5, 9).expect("read"), b"");
    }
}
