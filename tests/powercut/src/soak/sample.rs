//! Sample: what the process of a store and its directory take up at a moment.

use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// One look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the part began.
    pub at_s: f64,
    /// Which process of the part.
    pub life: u64,
    /// Seconds since that process was started.
    pub age_s: f64,
    /// How often the store had been opened in this part.
    pub opening: u64,
    /// Seconds since it was opened last.
    pub open_s: f64,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Of it what no file stands behind.
    pub anonymous: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads; those that the kernel has for its ring among them.
    pub threads: u64,
    /// Bytes of the store's directory.
    pub bytes: u64,
    /// Files and directories in it.
    pub files: u64,
}

impl Sample {
    /// Looks at a process. `None` when it is gone.
    pub fn of_process(pid: u32) -> Option<Sample> {
        let process = Path::new("/proc").join(pid.to_string());
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let descriptors = std::fs::read_dir(process.join("fd")).ok()?.count() as u64;
        Some(Sample {
            resident: number(&status, "VmRSS:")? << 10,
            anonymous: number(&status, "RssAnon:")? << 10,
            threads: number(&status, "Threads:")?,
            descriptors,
            ..Sample::default()
        })
    }
}

/// The number behind a name in `/proc/PID/status`.
fn number(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// How many files and directories lie below a directory, and the bytes that are allocated for them. What goes meanwhile is not counted.
pub fn extent(directory: &Path) -> (u64, u64) {
    let (mut count, mut bytes) = (0, 0);
    let Ok(entries) = std::fs::read_dir(directory) else { return (0, 0) };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        count += 1;
        if metadata.is_dir() {
            let (inner, more) = extent(&entry.path());
            (count, bytes) = (count + inner, bytes + more);
        } else {
            bytes += metadata.blocks() * 512;
        }
    }
    (count, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_takes_something_and_one_that_is_gone_nothing() {
        let sample = Sample::of_process(std::process::id()).expect("it is there");
        assert!(sample.resident > sample.anonymous && sample.anonymous > 0, "{sample:?}");
        assert!(sample.descriptors >= 3 && sample.threads >= 1, "{sample:?}");
        assert_eq!(Sample::of_process(u32::MAX), None);
    }

    #[test]
    fn a_directory_is_counted_with_all_that_is_below_it() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(place.path().join("inner")).expect("made");
        std::fs::write(place.path().join("inner/file"), vec![1; 8_192]).expect("written");
        let (count, bytes) = extent(place.path());
        assert_eq!(count, 2);
        assert!(bytes >= 8_192, "{bytes}");
    }
}
