//! A control group of memory of one's own, below the one that this process is in, and gone however the test ends.

use crate::skipped::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Tells a child which group it is to enter.
const GROUP: &str = "STRANDLINE_TEST_GROUP";

/// A group without processes, with a limit.
pub struct MemoryGroup(Option<PathBuf>);

impl MemoryGroup {
    /// In the parent: a new group with a limit of so many bytes, or nothing, which is said. In a child: nothing new.
    pub fn for_child(limit_bytes: u64) -> Option<MemoryGroup> {
        if std::env::var_os(GROUP).is_some() {
            return Some(MemoryGroup(None));
        }
        make(limit_bytes).map_err(|why| skipped(format_args!("no control group of memory is to be had: {why}"))).ok()
    }

    /// Has a child know of it.
    pub fn told_to<'child>(&self, child: &'child mut Command) -> &'child mut Command {
        child.env(GROUP, self.0.as_deref().expect("it is the parent that starts children"))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        for _ in 0..50 {
            // What died in it leaves a little later.
            if std::fs::remove_dir(path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("{} stays: somebody is still in it", path.display());
    }
}

/// In the child: enters the group that it was told of.
pub fn enter() {
    let group = std::env::var_os(GROUP).expect("a child is told");
    std::fs::write(Path::new(&group).join("cgroup.procs"), "0").expect("entered");
}

fn make(limit_bytes: u64) -> Result<MemoryGroup, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (above, file) = place_for_groups()?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = above.join(format!("strandline-test-{}-{number}", std::process::id()));
    std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let group = MemoryGroup(Some(path.clone()));
    std::fs::write(path.join(file), limit_bytes.to_string()).map_err(|error| format!("{file}: {error}"))?;
    // Where there is no swap there is no such file.
    let _ = std::fs::write(path.join("memory.swap.max"), "0");
    Ok(group)
}

/// Where groups of ours may be made, and the file that holds their limit: version 1 below our own group. In version 2 a group with processes
/// has none below it, so there it is beside ours, under the same limits.
fn place_for_groups() -> Result<(PathBuf, &'static str), String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let own = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, group) = (fields.next()?, fields.next()?);
            controllers
                .split(',')
                .any(|controller| controller == wanted)
                .then(|| group.trim_start_matches('/').to_owned())
        })
    };
    let mounted = |is_it: &dyn Fn(&str) -> bool| {
        mounts.lines().find_map(|line| {
            let (mount, system) = line.split_once(" - ")?;
            is_it(system).then(|| PathBuf::from(mount.split(' ').nth(4).unwrap_or("/")))
        })
    };
    let first =
        |system: &str| system.starts_with("cgroup ") && system.rsplit([' ', ',']).any(|option| option == "memory");
    if let (Some(mount), Some(group)) = (mounted(&first), own("memory")) {
        let own = [mount.join(group), mount].into_iter().find(|path| path.join("memory.limit_in_bytes").exists());
        return own.map(|own| (own, "memory.limit_in_bytes")).ok_or_else(|| "our own group is not shown".to_owned());
    }
    let (mount, group) = mounted(&|system| system.starts_with("cgroup2 ")).zip(own("")).ok_or("no such file system")?;
    let own = mount.join(group);
    let beside = own.parent().filter(|above| above.starts_with(&mount) && own.join("memory.max").exists());
    beside.map(|above| (above.to_owned(), "memory.max")).ok_or_else(|| "nobody may make a group beside ours".to_owned())
}
