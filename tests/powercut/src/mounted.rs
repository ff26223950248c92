//! Mounted: a file system on a loop device on a served disk. Dropping it unmounts; the device goes with the mount.

use crate::error::Trouble;
use clap::ValueEnum;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FileSystem {
    /// With its defaults.
    Ext4,
    /// With its defaults.
    Xfs,
    /// With its defaults.
    Btrfs,
}

impl FileSystem {
    /// The size of the disk it is tried on, in bytes: about the smallest on which it can be made and the workload has room.
    pub fn disk_bytes(self) -> u64 {
        match self {
            FileSystem::Ext4 => 32 << 20,
            FileSystem::Xfs => 320 << 20,
            FileSystem::Btrfs => 256 << 20,
        }
    }

    /// Its name for `mount`.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// Discarding is left out: it would be one request per disk that says nothing.
    fn mkfs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            FileSystem::Ext4 => ("mkfs.ext4", &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]),
            FileSystem::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"]),
            FileSystem::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-K"]),
        }
    }

    fn options(self) -> &'static str {
        match self {
            // Each is a copy of one disk: without `nouuid` a second one is refused.
            FileSystem::Xfs => "rw,nouuid",
            _ => "rw",
        }
    }
}

/// A loop device that was attached here.
#[derive(Debug)]
pub struct Device {
    name: String,
    file: String,
    /// It was told to go with its mount, and must not be told again: by then it may be somebody else's.
    goes: bool,
}

impl Device {
    /// Attaches one to this file, past the page cache.
    ///
    /// # Errors
    /// There is none to be had.
    pub fn attach(file: &Path) -> Result<Device, Trouble> {
        let file = file.to_string_lossy().into_owned();
        let name = run("losetup", &["--find", "--show", "--direct-io=on", &file])?;
        Ok(Device { name: name.trim().to_owned(), file, goes: false })
    }

    /// Makes a file system on it.
    ///
    /// # Errors
    /// What the program says.
    pub fn format(&self, kind: FileSystem) -> Result<(), Trouble> {
        let (program, arguments) = kind.mkfs();
        let arguments: Vec<&str> = arguments.iter().copied().chain([self.name.as_str()]).collect();
        run(program, &arguments).map(drop)
    }

    /// Mounts it at this directory.
    ///
    /// # Errors
    /// What `mount` says: after a cut that is a violation by the file system itself.
    pub fn mount(self, kind: FileSystem, point: &Path) -> Result<Mounted, Trouble> {
        run("mount", &["-t", kind.name(), "-o", kind.options(), &self.name, &point.to_string_lossy()])?;
        let mut mounted = Mounted { point: point.to_owned(), device: self };
        // While it is in use this only says that it goes with its last user, also when this process is killed.
        run("losetup", &["--detach", &mounted.device.name])?;
        mounted.device.goes = true;
        Ok(mounted)
    }

    fn is_attached(&self) -> bool {
        let name = self.name.trim_start_matches("/dev/");
        let file = Path::new("/sys/block").join(name).join("loop/backing_file");
        std::fs::read_to_string(file).is_ok_and(|file| file.trim() == self.file)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if !self.goes {
            let _ = Command::new("losetup").args(["--detach", &self.name]).output();
        }
        let since = Instant::now();
        while self.is_attached() && since.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.is_attached() {
            eprintln!("{} stays attached: somebody still uses it", self.name);
        }
    }
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    /// Let go of after the mount is gone.
    device: Device,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A closed ring lets go of its files a little later than its owner is told.
        let since = Instant::now();
        loop {
            match rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::empty()) {
                Ok(()) => return,
                Err(error) if since.elapsed() > Duration::from_secs(10) => {
                    eprintln!("{}: {error}: it is taken down when nobody uses it any more", self.point.display());
                    let _ = rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::DETACH);
                    return;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

/// Runs a program and gives what it prints.
pub fn run(program: &'static str, arguments: &[&str]) -> Result<String, Trouble> {
    let output =
        Command::new(program).args(arguments).output().map_err(|source| Trouble::Program { program, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments = arguments.join(" ");
    Err(Trouble::Failed { program, arguments, told: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}
