//! Turnover: which files and directories of segments a store makes and gives back, by the file system's account and not the store's.
//!
//! A file that goes round keeps its inode, whatever it is called; one that was unlinked does not come back. Whoever looks once while
//! a file exists has seen it, so looks that are closer together than a file lives miss none.

use crate::error::{BenchError, io};
use std::collections::HashSet;
use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use strandline::layout::{AUDIT_DIRECTORY, MANIFEST_DIRECTORY, SPARE_DIRECTORY, TRASH_DIRECTORY};

/// A file or directory. Its inode alone does not tell: numbers are given out again at once.
type Identity = (u64, Option<SystemTime>);

/// What was seen since the beginning.
pub struct Turnover {
    root: PathBuf,
    files: Seen,
    directories: Seen,
}

#[derive(Default)]
struct Seen {
    before: usize,
    ever: HashSet<Identity>,
    now: HashSet<Identity>,
}

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Data files that were made.
    pub files_made: usize,
    /// Data files that are gone.
    pub files_gone: usize,
    /// Directories of segments that are gone.
    pub directories_gone: usize,
}

impl Turnover {
    /// Begins with what a store has now.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn begin(root: &Path) -> Result<Turnover, BenchError> {
        let mut turnover = Turnover { root: root.to_owned(), files: Seen::default(), directories: Seen::default() };
        turnover.look()?;
        for seen in [&mut turnover.files, &mut turnover.directories] {
            seen.before = seen.ever.len();
        }
        Ok(turnover)
    }

    /// Looks what is there. What moves meanwhile may be missed: it is not taken to be gone until the end.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn look(&mut self) -> Result<(), BenchError> {
        self.files.now.clear();
        self.directories.now.clear();
        let root = self.root.clone();
        self.look_below(&root)
    }

    /// Looks for the last time, while nothing moves.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn end(mut self) -> Result<Turned, BenchError> {
        self.look()?;
        let (files, directories) = (self.files, self.directories);
        Ok(Turned { files_made: files.made(), files_gone: files.gone(), directories_gone: directories.gone() })
    }

    fn look_below(&mut self, parent: &Path) -> Result<(), BenchError> {
        let listing = std::fs::read_dir(parent).map_err(io(format!("listing {}", parent.display())))?;
        for entry in listing.flatten() {
            let name = entry.file_name();
            match name.to_str() {
                Some(MANIFEST_DIRECTORY | AUDIT_DIRECTORY) => {}
                Some(SPARE_DIRECTORY | TRASH_DIRECTORY) => self.look_below(&entry.path())?,
                _ => self.look_into(&entry),
            }
        }
        Ok(())
    }

    /// What is gone before it was looked at is not seen.
    fn look_into(&mut self, segment: &DirEntry) {
        let Some(found) = segment.metadata().ok().filter(Metadata::is_dir) else { return };
        self.directories.see(identity(&found));
        for file in std::fs::read_dir(segment.path()).into_iter().flatten().flatten() {
            if let Ok(found) = file.metadata() {
                self.files.see(identity(&found));
            }
        }
    }
}

fn identity(found: &Metadata) -> Identity {
    (found.ino(), found.created().ok())
}

impl Seen {
    fn see(&mut self, identity: Identity) {
        self.ever.insert(identity);
        self.now.insert(identity);
    }

    fn made(&self) -> usize {
        self.ever.len() - self.before
    }

    fn gone(&self) -> usize {
        self.ever.len() - self.now.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_is_neither_made_nor_gone() {
        let root = tempfile::tempdir().expect("a directory");
        let path = |name: &str| root.path().join(name);
        let make = |name: &str| {
            std::fs::create_dir_all(path(name)).expect("made");
            std::fs::write(path(name).join("data.0"), "x").expect("written");
        };
        ["t-r0-s0", "spare/0f", "manifest"].into_iter().for_each(make);
        let mut turnover = Turnover::begin(root.path()).expect("a look");
        std::fs::rename(path("t-r0-s0"), path("spare/0e")).expect("renamed");
        std::fs::rename(path("spare/0f"), path("t-r0-s1")).expect("renamed");
        turnover.look().expect("a look");
        make("t-r0-s2");
        turnover.look().expect("a look");
        std::fs::remove_dir_all(path("t-r0-s2")).expect("removed");
        let turned = turnover.end().expect("a look");
        assert_eq!(turned, Turned { files_made: 1, files_gone: 1, directories_gone: 1 });
    }

    #[test]
    fn an_inode_that_was_given_out_again_is_another_file() {
        let root = tempfile::tempdir().expect("a directory");
        let born = |name: &str| {
            std::fs::write(root.path().join(name), "x").expect("written");
            identity(&root.path().join(name).metadata().expect("its metadata")).1
        };
        let first = born("first");
        if first.is_none() {
            eprintln!("skipped: this file system does not say when a file was made");
            return;
        }
        // The clock of a file system ticks every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut seen = Seen::default();
        seen.see((7, first));
        seen.before = 1;
        seen.now.clear();
        seen.see((7, born("second")));
        assert_eq!((seen.made(), seen.gone()), (1, 1));
    }
}
