//! What file system holds the root, and with which of the options that matter to durability. Reads only.

use super::mounts::{self, Mount};
use crate::capabilities::{Filesystem, Journal};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, StatxFlags};
use std::path::Path;

/// A block device's number.
pub(super) type Device = (u32, u32);

/// The offset of ext4's superblock on its device, of its feature words in there, and the bit of fast commits.
const EXT4_SUPERBLOCK: u64 = 1024;
const EXT4_FEATURE_COMPAT: u64 = EXT4_SUPERBLOCK + 0x5c;
const EXT4_FAST_COMMIT: u32 = 0x400;

/// The file system of an open directory, and its block device where it has one.
pub(super) fn inspect(root: BorrowedFd<'_>) -> (Filesystem, Option<Device>) {
    let Some((mount, device)) = mount_of(root) else { return (Filesystem::default(), None) };
    let mut filesystem = Filesystem {
        kind: mount.kind.clone(),
        discard: mount.options.iter().any(|option| option == "discard"),
        options: mount.options.clone(),
        ..Filesystem::default()
    };
    let device = block_device(&mount, device);
    match (mount.kind.as_str(), device) {
        ("ext4", Some(device)) => describe_ext4(&mut filesystem, device),
        ("xfs", Some(device)) => filesystem.zoned = is_zoned_xfs(Path::new(SYS_XFS), device_name(device)),
        _ => {}
    }
    (filesystem, device)
}

fn mount_of(root: BorrowedFd<'_>) -> Option<(Mount, Device)> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let stat = rustix::fs::statx(root, "", AtFlags::EMPTY_PATH, wanted).ok()?;
    let id = (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id);
    let device = (stat.stx_dev_major, stat.stx_dev_minor);
    let mounts = mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").ok()?);
    mounts::find(&mounts, id, device).map(|mount| (mount.clone(), device))
}

/// File systems such as btrfs give their files a device number of their own; the mount's source then leads to the drive.
fn block_device(mount: &Mount, device: Device) -> Option<Device> {
    if device.0 != 0 {
        return Some(device);
    }
    let stat = rustix::fs::stat(mount.source.as_str()).ok().filter(|_| mount.source.starts_with('/'))?;
    Some((rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)))
}

/// Where the kernel describes the xfs file systems that are mounted, each by the name of its device.
const SYS_XFS: &str = "/sys/fs/xfs";

/// A zoned xfs has a directory for its zones, since the first kernel that can mount one (6.15).
fn is_zoned_xfs(described: &Path, device: Option<String>) -> Option<bool> {
    let described = described.join(device?);
    described.is_dir().then(|| described.join("zoned").exists())
}

fn describe_ext4(filesystem: &mut Filesystem, device: Device) {
    let Some(name) = device_name(device) else { return };
    let options = std::fs::read_to_string(format!("/proc/fs/ext4/{name}/options")).unwrap_or_default();
    let journals = std::fs::read_dir("/proc/fs/jbd2").ok().map(|journals| {
        journals.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect::<Vec<String>>()
    });
    filesystem.journal = journal(&options, journals.as_deref(), &name);
    filesystem.fast_commit = fast_commit(&options, || {
        let commits = std::fs::read_to_string(format!("/proc/fs/ext4/{name}/fc_info")).unwrap_or_default();
        if has_fast_commits(&commits) { Some(true) } else { fast_commit_of_superblock(device) }
    });
    // What the mount does not list, as the defaults of the file system, matters just as much.
    for option in options.lines().skip(1).filter(|option| *option == "barrier" || *option == "nobarrier") {
        filesystem.options.push(option.to_owned());
    }
}

/// The device's name in /sys, which may hold a `!` where /dev has a directory.
pub(super) fn device_name((major, minor): Device) -> Option<String> {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(Path::new(&link).file_name()?.to_string_lossy().into_owned())
}

/// jbd2 names an internal journal by device and inode (`vda-8`), an external one by its own device alone.
fn is_journal_of(journal: &str, device: &str) -> bool {
    let inode = journal.strip_prefix(device).and_then(|rest| rest.strip_prefix('-'));
    inode.is_some_and(|inode| !inode.is_empty() && inode.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The journal, from ext4's list of options and the journals that jbd2 lists. Absent when either cannot be read.
///
/// ext4 lists all options that are in force, the defaults too, and a mode exactly when there is a journal. That the list is
/// such a one shows by the barrier, which is always in it, on or off.
fn journal(options: &str, journals: Option<&[String]>, device: &str) -> Option<Journal> {
    let internal = journals?.iter().any(|journal| is_journal_of(journal, device));
    let mode = options.lines().find_map(|option| option.strip_prefix("data=")).map(str::to_owned);
    match mode {
        Some(mode) if internal => Some(Journal::Internal { mode }),
        Some(mode) => Some(Journal::External { mode }),
        None if is_whole_list(options) && !internal => Some(Journal::Absent),
        None => None,
    }
}

fn is_whole_list(options: &str) -> bool {
    options.lines().any(|option| option == "barrier" || option == "nobarrier")
}

/// ext4 lists fast commits, as `fc_debug_force`, only on some kernels. Being listed proves it on; not being listed proves
/// nothing, so `otherwise` is asked. Without a journal there are none.
fn fast_commit(options: &str, otherwise: impl FnOnce() -> Option<bool>) -> Option<bool> {
    if !is_whole_list(options) {
        return None;
    }
    if !options.lines().any(|option| option.starts_with("data=")) {
        return Some(false);
    }
    let listed = options.lines().any(|option| option == "fc_debug_force" || option == "fast_commit");
    if listed { Some(true) } else { otherwise() }
}

/// Whether ext4's fc_info tells of fast commits that were made.
fn has_fast_commits(info: &str) -> bool {
    let count = |line: &str| line.strip_suffix(" commits")?.trim().parse::<u64>().ok();
    info.lines().find_map(count).is_some_and(|commits| commits > 0)
}

/// Needs the right to read the device: root, or group `disk`.
fn fast_commit_of_superblock((major, minor): Device) -> Option<bool> {
    use std::os::unix::fs::FileExt;
    let by_number = format!("/dev/block/{major}:{minor}");
    let by_name = device_name((major, minor)).map(|name| format!("/dev/{}", name.replace('!', "/")));
    let device = std::fs::File::open(by_number).or_else(|_| std::fs::File::open(by_name.unwrap_or_default())).ok()?;
    let mut word = [0; 4];
    device.read_exact_at(&mut word, EXT4_FEATURE_COMPAT).ok()?;
    Some(u32::from_le_bytes(word) & EXT4_FAST_COMMIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_internal_external_or_absent_and_never_guessed() {
        let (with, without) = ("rw\nbarrier\ndata=ordered\n", "rw\nnobarrier\n");
        let (ours, others) = (vec!["sda1-8".to_owned()], vec!["sda10-8".to_owned()]);
        let mode = || "ordered".to_owned();
        assert_eq!(journal(with, Some(&ours), "sda1"), Some(Journal::Internal { mode: mode() }));
        assert_eq!(journal(with, Some(&others), "sda1"), Some(Journal::External { mode: mode() }));
        assert_eq!(journal(without, Some(&others), "sda1"), Some(Journal::Absent));
        assert_eq!(journal(without, Some(&ours), "sda1"), None, "the two contradict each other");
        assert_eq!(journal(with, None, "sda1"), None);
        for cut in ["", "rw\n"] {
            assert_eq!(journal(cut, Some(&others), "sda1"), None, "{cut:?}");
        }
    }

    #[test]
    fn an_internal_journal_is_known_by_device_and_inode() {
        assert!(is_journal_of("sda1-8", "sda1"));
        for journal in ["sda10-8", "sda1", "sda1-", "sda1-x"] {
            assert!(!is_journal_of(journal, "sda1"), "{journal}");
        }
    }

    #[test]
    fn fast_commit_is_known_or_absent_never_guessed() {
        assert_eq!(fast_commit("rw\nbarrier\ndata=ordered\nfc_debug_force\n", || None), Some(true));
        assert_eq!(fast_commit("rw\nbarrier\ndata=ordered\n", || None), None);
        assert_eq!(fast_commit("rw\nbarrier\ndata=ordered\n", || Some(true)), Some(true));
        assert_eq!(fast_commit("rw\nbarrier\n", || None), Some(false), "there is no journal");
        assert_eq!(fast_commit("", || Some(false)), None);
        assert_eq!(fast_commit("rw\n", || Some(false)), None, "the list is cut short");
        assert!(has_fast_commits("fc stats:\n12 commits\n0 ineligible\n"));
        assert!(!has_fast_commits("fc stats:\n0 commits\n7 ineligible\n"));
    }

    #[test]
    fn whether_xfs_is_zoned_is_known_only_where_it_is_described() {
        let place = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(place.path().join("sda1")).expect("made");
        std::fs::create_dir_all(place.path().join("sdb/zoned")).expect("made");
        let zoned = |device: &str| is_zoned_xfs(place.path(), Some(device.to_owned()));
        assert_eq!((zoned("sda1"), zoned("sdb"), zoned("sdc")), (Some(false), Some(true), None));
    }
}
