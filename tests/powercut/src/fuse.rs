//! Fuse: a file system of ours at a directory. Dropping it unmounts.

use fuser::{BackgroundSession, Config, Filesystem, MountOption};
use rustix::mount::{UnmountFlags, unmount};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Answers that are held back keep a thread each.
const THREADS: usize = 8;

/// A temporary directory for a run: in memory where there is some.
///
/// # Errors
/// It cannot be made.
pub fn place() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }
}

/// What is mounted. Whoever uses it must be gone before it is.
#[derive(Debug)]
pub struct Fuse {
    point: PathBuf,
    session: Option<BackgroundSession>,
}

impl Fuse {
    /// Serves at this directory, by threads of this process.
    ///
    /// # Errors
    /// The kernel has no FUSE, or mounting is not for us.
    pub fn start(served: impl Filesystem, point: &Path) -> io::Result<Fuse> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("strandline-powercut".to_owned())];
        config.n_threads = Some(THREADS);
        // These threads must not wait for memory that only they can free by taking writes. The attribute goes to the threads they start.
        let flusher = rustix::process::configure_io_flusher_behavior(true).is_ok();
        let session = fuser::spawn_mount(served, point, &config);
        if flusher {
            rustix::process::configure_io_flusher_behavior(false)?;
        }
        Ok(Fuse { point: point.to_owned(), session: Some(session?) })
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // The last loop device, or ring, lets go of its files a little after it is gone.
        for _ in 0..50 {
            if unmount(&self.point, UnmountFlags::empty()).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        if let Some(session) = self.session.take() {
            drop(session);
        }
    }
}
