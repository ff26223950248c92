//! The place: the directory that a run makes for itself and removes at its end, however it ends.

use crate::error::{BenchError, io};
use rustix::fs::Advice;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// `f_type` of tmpfs and of ramfs, from `linux/magic.h`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A directory of our own. Removed when dropped.
#[derive(Debug)]
pub struct Place(TempDir);

impl Place {
    /// Makes a directory inside `parent`, or inside `target/` of the current directory.
    ///
    /// # Errors
    /// [`BenchError::Tmpfs`] for a directory in memory, unless that is allowed; else what the file system answered.
    pub fn make(parent: Option<&Path>, allow_tmpfs: bool) -> Result<Place, BenchError> {
        let parent = parent.map_or_else(|| PathBuf::from("target"), Path::to_path_buf);
        std::fs::create_dir_all(&parent).map_err(io(format!("making {}", parent.display())))?;
        let parent = parent.canonicalize().map_err(io(format!("looking for {}", parent.display())))?;
        if !allow_tmpfs && is_in_memory(&parent)? {
            return Err(BenchError::Tmpfs(parent));
        }
        let made = tempfile::Builder::new().prefix("strandline-bench-").tempdir_in(&parent);
        made.map(Place).map_err(io(format!("making a directory in {}", parent.display())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Removes it and says when that failed.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn remove(self) -> Result<(), BenchError> {
        let doing = format!("removing {}", self.path().display());
        self.0.close().map_err(io(doing))
    }
}

fn is_in_memory(path: &Path) -> Result<bool, BenchError> {
    let found =
        rustix::fs::statfs(path).map_err(|errno| io(format!("asking about {}", path.display()))(errno.into()))?;
    Ok(IN_MEMORY.contains(&(found.f_type as u64)))
}

/// Drops what the page cache holds of a file, or of all files below a directory. What is read and written directly is not
/// in it anyway.
///
/// # Errors
/// What the file system answered.
pub fn drop_cached(path: &Path) -> Result<(), BenchError> {
    let doing = || format!("dropping the page cache of {}", path.display());
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(io(doing()))? {
            drop_cached(&entry.map_err(io(doing()))?.path())?;
        }
        return Ok(());
    }
    let file = std::fs::File::open(path).map_err(io(doing()))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|errno| io(doing())(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_memory_is_refused_unless_told() {
        let memory = Path::new("/dev/shm");
        if !memory.is_dir() || !is_in_memory(memory).expect("statfs") {
            eprintln!("skipped: no tmpfs at /dev/shm");
            return;
        }
        let error = Place::make(Some(memory), false).expect_err("a refusal");
        assert!(matches!(error, BenchError::Tmpfs(_)), "{error}");
        assert!(error.to_string().contains("--allow-tmpfs"));
        Place::make(Some(memory), true).expect("allowed").remove().expect("removed");
    }

    #[test]
    fn a_place_is_removed_with_all_that_is_in_it() {
        let parent = tempfile::tempdir().expect("a directory");
        for orderly in [true, false] {
            let place = Place::make(Some(parent.path()), true).expect("a place");
            std::fs::create_dir(place.path().join("deep")).expect("a directory");
            std::fs::write(place.path().join("deep/file"), "x").expect("a file");
            drop_cached(place.path()).expect("advice");
            if orderly {
                place.remove().expect("removed")
            } else {
                drop(place)
            }
            assert_eq!(std::fs::read_dir(parent.path()).expect("the parent").count(), 0);
        }
    }
}
