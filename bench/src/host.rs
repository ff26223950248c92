//! The host: the facts without which figures mean nothing.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// Cores that others may use before the figures are in doubt.
const COOL: f64 = 0.1;

/// Where a run took place. What cannot be found out says `unknown`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Host {
    /// When it began, UTC.
    pub date: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_mib: u64,
    /// File system of the directory.
    pub filesystem: String,
    /// Its mount options, and those of the file system itself.
    pub mount_options: Vec<String>,
    /// The device below it.
    pub device: String,
    /// Whether this program was built with optimisation.
    pub optimised: bool,
    /// Cores that other processes kept busy while the run measured, on average.
    pub cores_of_others: f64,
    /// What the store found out when it opened.
    pub capabilities: serde_json::Value,
}

impl Host {
    /// Looks around, for a run in `directory`.
    pub fn look(directory: &Path, capabilities: serde_json::Value) -> Host {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let mount = Mount::of(directory, &read("/proc/self/mountinfo"));
        Host {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal").and_then(|text| kib(&text)).unwrap_or(0) / 1024,
            filesystem: mount.filesystem,
            mount_options: mount.options,
            device: mount.device,
            optimised: !cfg!(debug_assertions),
            cores_of_others: 0.0,
            capabilities,
        }
    }

    /// A few lines above the table, warnings included.
    pub fn summary(&self) -> String {
        let gib = self.memory_mib.div_ceil(1024);
        let mut text = format!(
            "{}: Linux {}, {}, {} cores, {gib} GiB\n{} on {} ({})",
            self.date,
            self.kernel,
            self.cpu,
            self.cores,
            self.filesystem,
            self.device,
            self.mount_options.join(",")
        );
        for warning in self.warnings() {
            text += &format!("\nwarning: {warning}");
        }
        text
    }

    /// What a reader has to know before believing a figure.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.optimised {
            warnings.push("not optimised, these figures mean nothing: build with --release".to_owned());
        }
        if self.cores_of_others > COOL {
            warnings.push(format!("other processes kept {:.1} cores busy meanwhile", self.cores_of_others));
        }
        warnings
    }

    /// Everything that is known of it, by name.
    pub fn facts(&self) -> [(&'static str, String); 9] {
        [
            ("kernel", self.kernel.clone()),
            ("processor", self.cpu.clone()),
            ("cores", self.cores.to_string()),
            ("memory", format!("{} MiB", self.memory_mib)),
            ("file system", self.filesystem.clone()),
            ("mounted with", self.mount_options.join(", ")),
            ("device", self.device.clone()),
            ("built with optimisation", if self.optimised { "yes" } else { "no" }.to_owned()),
            ("cores kept busy by others", format!("{:.2}", self.cores_of_others)),
        ]
    }
}

/// The git commit of the sources, with `-dirty` when they have changes.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "HEAD"]) else { return unknown() };
    match git(&["status", "--porcelain"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "-dirty",
    }
}

/// Resident memory of this process in bytes; 0 when unknown.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmRSS").and_then(|text| kib(&text)).unwrap_or(0) * 1024
}

/// Bytes that this process has had read from a device so far, by the kernel's count; not a number when unknown.
pub fn disk_read_bytes() -> f64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    field(&io, "read_bytes").and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// Open descriptors of this process; 0 when unknown.
pub fn descriptors() -> u64 {
    // One of them is the listing itself.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1) as u64)
}

/// Raises the limit on open files as far as this process may: a thousand logs have more files than shells allow by default.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // What is refused here is told by whoever then cannot open a file.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut values = text.lines().filter_map(|line| line.split_once(':'));
    values.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// A number that ends in `kB`.
fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse().ok()
}

#[derive(Debug, PartialEq)]
struct Mount {
    filesystem: String,
    options: Vec<String>,
    device: String,
}

impl Mount {
    /// The mount that holds `path`, which is absolute: the deepest one above it, and of those the last, which hides the
    /// others.
    fn of(path: &Path, mountinfo: &str) -> Mount {
        let mounts = mountinfo.lines().filter_map(Mount::parse).filter(|(point, _)| path.starts_with(point));
        let deepest = mounts.max_by_key(|(point, _)| point.len());
        deepest
            .map_or_else(|| Mount { filesystem: unknown(), options: Vec::new(), device: unknown() }, |(_, mount)| mount)
    }

    /// `36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc_pid_mountinfo(5)).
    fn parse(line: &str) -> Option<(String, Mount)> {
        let (left, right) = line.split_once(" - ")?;
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let mut options: Vec<String> = Vec::new();
        for option in left.get(5)?.split(',').chain(right.get(2)?.split(',')) {
            if !options.iter().any(|known| known == option) {
                options.push(option.to_owned());
            }
        }
        let (filesystem, device) = ((*right.first()?).to_owned(), (*right.get(1)?).to_owned());
        Some((left.get(4)?.replace("\\040", " "), Mount { filesystem, options, device }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                          23 22 0:24 / /data\\040one rw shared:3 - xfs /dev/vdb rw,inode64\n";

    #[test]
    fn a_path_is_on_its_deepest_mount() {
        let of = |path: &str| Mount::of(Path::new(path), MOUNTS);
        assert_eq!((of("/var/x").filesystem.as_str(), of("/var/x").device.as_str()), ("ext4", "/dev/vda"));
        assert_eq!(of("/var/x").options, ["rw", "relatime", "discard"]);
        assert_eq!(of("/data one/x").filesystem, "xfs");
        assert_eq!(of("/data onetwo").filesystem, "ext4");
        assert_eq!(Mount::of(Path::new("/"), "").filesystem, "unknown");
    }

    #[test]
    fn this_host_is_known() {
        let directory = std::env::temp_dir().canonicalize().expect("a temporary directory");
        let host = Host::look(&directory, serde_json::Value::Null);
        assert!(host.cores > 0 && host.memory_mib > 0 && !host.kernel.is_empty(), "{host:?}");
        assert_ne!(host.filesystem, "unknown");
        assert!(resident_bytes() > 0 && descriptors() >= 3);
    }
}
