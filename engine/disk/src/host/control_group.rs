//! The memory limit of our control groups, of version 1 and 2. The reading of the two texts is pure.

use super::mounts::{self, Mount};
use std::path::{Path, PathBuf};

/// The smallest memory limit that applies to this process, in bytes; absent when there is none.
///
/// Going past it is an OOM kill, not an error, so it is looked at before memory is pinned.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").ok()?);
    let limits = limit_files(&groups, &mounts);
    limits.iter().filter_map(|file| parse_limit(&std::fs::read_to_string(file).ok()?)).min()
}

/// The files that may hold a limit for the groups in `groups` (the text of /proc/self/cgroup): a group's own and those of
/// all groups above it, which bind it too.
fn limit_files(groups: &str, mounts: &[Mount]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let of_memory = |mount: &&Mount| {
            if controllers.is_empty() {
                mount.kind == "cgroup2"
            } else {
                mount.kind == "cgroup" && mount.options.iter().any(|option| option == "memory")
            }
        };
        let file = match controllers {
            "" => "memory.max",
            _ if controllers.split(',').any(|controller| controller == "memory") => "memory.limit_in_bytes",
            _ => continue,
        };
        if let Some(mount) = mounts.iter().find(of_memory) {
            files.extend(directories(mount, group).into_iter().map(|directory| directory.join(file)));
        }
    }
    files
}

/// The directories of `group` and of the groups above it, as far as `mount` shows them.
fn directories(mount: &Mount, group: &str) -> Vec<PathBuf> {
    // A container often sees its own group as the root of the mount, while the group's path is told from the host's root.
    let below = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let point = Path::new(&mount.point);
    let own = if below.components().any(|part| part.as_os_str() == "..") { point.into() } else { point.join(below) };
    own.ancestors().take_while(|directory| directory.starts_with(point)).map(Path::to_owned).collect()
}

/// `max`, or bytes. Version 1 says "no limit" with a number near 2^63.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&limit: &u64| limit < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
35 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
36 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn the_limits_of_a_group_and_of_all_above_it_are_looked_at() {
        let files = limit_files("4:memory:/a/b\n1:cpu:/\n0::/c\n", &mounts::parse(MOUNTS));
        let expected = [
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/unified/c/memory.max",
            "/sys/fs/cgroup/unified/memory.max",
        ];
        assert_eq!(files, expected.map(PathBuf::from));
    }

    #[test]
    fn a_container_that_sees_its_own_group_as_root_finds_it() {
        let mounts = mounts::parse("35 31 0:31 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        let files = limit_files("4:memory:/docker/1\n", &mounts);
        assert_eq!(files, [PathBuf::from("/sys/fs/cgroup/memory/memory.limit_in_bytes")]);
    }

    #[test]
    fn no_limit_is_no_limit() {
        assert_eq!(parse_limit("max\n"), None);
        assert_eq!(parse_limit("9223372036854771712\n"), None);
        assert_eq!(parse_limit("1048576\n"), Some(1 << 20));
    }
}
