//! What /sys says about the drive below a file system. Reads only.

use super::filesystem::Device;
use crate::capabilities::Drive;
use std::path::{Path, PathBuf};

/// The drive of a block device.
pub(super) fn inspect(device: Option<Device>) -> Drive {
    let found = device.and_then(|(major, minor)| std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok());
    found.map(|directory| describe(&directory)).unwrap_or_default()
}

fn describe(directory: &Path) -> Drive {
    let disk = whole_disk(directory);
    let read = |file: &str| {
        let text = std::fs::read_to_string(disk.join("queue").join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    Drive {
        name: disk.file_name().map(|name| name.to_string_lossy().into_owned()),
        write_cache: read("write_cache"),
        fua: read("fua").map(|text| text != "0"),
        logical_block: read("logical_block_size").and_then(|text| text.parse().ok()),
    }
}

/// A partition's queue is that of the disk, in whose directory the partition's own stands.
fn whole_disk(directory: &Path) -> PathBuf {
    let parent = directory.parent().filter(|_| directory.join("partition").exists());
    parent.unwrap_or(directory).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_described_by_its_disk() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let disk = place.path().join("sda");
        std::fs::create_dir_all(disk.join("queue")).expect("made");
        std::fs::create_dir_all(disk.join("sda1")).expect("made");
        for (file, text) in [("write_cache", "write back\n"), ("fua", "0\n"), ("logical_block_size", "512\n")] {
            std::fs::write(disk.join("queue").join(file), text).expect("written");
        }
        std::fs::write(disk.join("sda1/partition"), "1\n").expect("written");
        let expected = Drive {
            name: Some("sda".into()),
            write_cache: Some("write back".into()),
            fua: Some(false),
            logical_block: Some(512),
        };
        assert_eq!(describe(&disk.join("sda1")), expected);
        assert_eq!(describe(&disk), expected);
    }
}
