//! The host: the facts without which figures mean nothing, and which versions were compared.

use crate::engine::Kind;
use crate::error::{PeersError, io};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use tempfile::TempDir;

/// `f_type` of tmpfs and of ramfs, from `linux/magic.h`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What was built.
const LOCK: &str = include_str!("../Cargo.lock");

/// Where a run took place. What cannot be found out says `unknown`.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// When it began, UTC.
    pub date: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// File system of the directory, with its mount options.
    pub filesystem: String,
    /// The device below it.
    pub device: String,
    /// Whether this program was built with optimisation.
    pub optimised: bool,
    /// Cores that other processes kept busy while the run measured, on average.
    pub cores_of_others: f64,
    /// The git commit of the sources, with `-dirty` when they had changes.
    pub commit: String,
    /// The version of each engine.
    pub versions: BTreeMap<&'static str, String>,
}

impl Host {
    /// Looks around, for a run in `directory`.
    pub fn look(directory: &Path) -> Host {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (filesystem, device) = mount(directory, &read("/proc/self/mountinfo"));
        let version = |kind: Kind| Some((kind.name(), version(LOCK, kind.package()?)));
        Host {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: cpu(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            filesystem,
            device,
            optimised: !cfg!(debug_assertions),
            cores_of_others: 0.0,
            commit: commit(),
            versions: Kind::MEASURED.into_iter().filter_map(version).collect(),
        }
    }

    /// A line for people.
    pub fn summary(&self) -> String {
        let Host { kernel, cpu, cores, filesystem, device, cores_of_others, .. } = self;
        format!(
            "Linux {kernel}, {cpu}, {cores} cores; {filesystem} on {device}; {cores_of_others:.2} cores busy with other work"
        )
    }

    /// The engines and their versions.
    pub fn versions(&self) -> String {
        let each = self.versions.iter().map(|(engine, version)| format!("{engine} {version}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Makes a directory of our own inside `parent`, or inside `target/` of the current directory. It is removed when dropped.
///
/// # Errors
/// [`PeersError::Tmpfs`] for a directory in memory, where nothing is durable; else what the file system answered.
pub fn place(parent: Option<&Path>) -> Result<TempDir, PeersError> {
    let parent = parent.map_or_else(|| PathBuf::from("target"), Path::to_path_buf);
    std::fs::create_dir_all(&parent).map_err(io(format!("making {}", parent.display())))?;
    let parent = parent.canonicalize().map_err(io(format!("looking for {}", parent.display())))?;
    let found = rustix::fs::statfs(&parent).map_err(|errno| io("asking for the file system")(errno.into()))?;
    if IN_MEMORY.contains(&(found.f_type as u64)) {
        return Err(PeersError::Tmpfs(parent));
    }
    let made = tempfile::Builder::new().prefix("strandline-peers-").tempdir_in(&parent);
    made.map_err(io(format!("making a directory in {}", parent.display())))
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn cpu(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    model.map_or_else(unknown, |(_, model)| model.trim().to_owned())
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return unknown() };
    match git(&["status", "--porcelain"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "-dirty",
    }
}

/// The version of a package in a lock file.
fn version(lock: &str, package: &str) -> String {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = \""));
    version.map_or_else(unknown, |version| version.trim_end_matches('"').to_owned())
}

/// File system with its options, and device, of the deepest mount above a path (proc_pid_mountinfo(5)).
fn mount(path: &Path, mountinfo: &str) -> (String, String) {
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let point = left.get(4)?.replace("\\040", " ");
        let filesystem = format!("{} ({}; {})", right.first()?, left.get(5)?, right.get(2)?);
        Some((point, filesystem, (*right.get(1)?).to_owned()))
    };
    let mounts = mountinfo.lines().filter_map(parse).filter(|(point, ..)| path.starts_with(point));
    let deepest = mounts.max_by_key(|(point, ..)| point.len());
    deepest.map_or_else(|| (unknown(), unknown()), |(_, filesystem, device)| (filesystem, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_every_engine_is_known() {
        let host = Host::look(Path::new("/"));
        assert_eq!(host.versions.len(), 5, "{:?}", host.versions);
        assert!(host.versions.values().all(|version| version != "unknown"), "{:?}", host.versions);
        assert_eq!(version("[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n", "a"), "1.2.3");
        assert_eq!(version("", "a"), "unknown");
    }

    #[test]
    fn a_path_is_on_its_deepest_mount() {
        let mounts = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n23 22 0:24 / /data rw - xfs /dev/vdb rw\n";
        assert_eq!(mount(Path::new("/data/x"), mounts), ("xfs (rw; rw)".to_owned(), "/dev/vdb".to_owned()));
        assert_eq!(mount(Path::new("/datax"), mounts).1, "/dev/vda");
        assert_eq!(mount(Path::new("/"), "").0, "unknown");
    }
}
