//! Whether one barrier may stand for a sync of each file: decided from what was found out about the host, and from nothing else.
//!
//! Why each condition is here, and what breaks without it, is told in `docs/decisions/0006-one-barrier-for-many-files.md`.

use crate::capabilities::{Barrier, Direct, Drive, Filesystem, Journal};

/// Decides. What is not known counts as a refusal: a barrier that covers less than is believed loses acknowledged bytes, and
/// a sync of each file only takes longer.
#[must_use]
pub fn decide(filesystem: &Filesystem, drive: &Drive, direct: &Direct) -> Barrier {
    match refusal(filesystem, direct) {
        Some(reason) => Barrier { allowed: false, reason },
        None => {
            let drive = drive.name.as_deref().unwrap_or("the drive");
            let reason = format!("On this {} a sync of any file flushes {drive}.", filesystem.kind);
            Barrier { allowed: true, reason }
        }
    }
}

/// The first condition that fails.
fn refusal(filesystem: &Filesystem, direct: &Direct) -> Option<String> {
    if !direct.effective {
        let why = &direct.reason;
        return Some(format!("Writes wait in the page cache until their own file is synced ({why})."));
    }
    match filesystem.kind.as_str() {
        "ext4" => refusal_of_ext4(filesystem),
        "xfs" => refusal_of_xfs(filesystem),
        "" => Some("The file system is not known.".into()),
        kind => Some(format!("Nothing is proven about {kind}.")),
    }
}

fn refusal_of_ext4(filesystem: &Filesystem) -> Option<String> {
    if is_without_barriers(filesystem) {
        return Some("ext4 is mounted without barriers: no sync flushes the drive.".into());
    }
    // ext4 lists it where it tells all of its options. A superblock may turn barriers off and no mount option show it.
    if !has_option(filesystem, "barrier") {
        return Some("It is not known whether ext4 flushes the drive: its list of options cannot be read.".into());
    }
    match &filesystem.journal {
        None => return Some("It is not known whether ext4 has a journal, and where.".into()),
        Some(Journal::Absent) => return None,
        Some(Journal::External { .. }) => {
            return Some("The journal of ext4 is on another device: a commit may flush that one only.".into());
        }
        Some(Journal::Internal { mode }) if mode != "ordered" => {
            return Some(format!("The journal mode of ext4 is `{mode}`, not `ordered`."));
        }
        Some(Journal::Internal { .. }) => {}
    }
    match filesystem.fast_commit {
        Some(false) => None,
        Some(true) => Some("ext4 has `fast_commit` on: a sync may be served by a flush that began before it.".into()),
        None => {
            let reason = "It is not known whether ext4 has `fast_commit` on: only who may read the device can tell.";
            Some(reason.into())
        }
    }
}

fn refusal_of_xfs(filesystem: &Filesystem) -> Option<String> {
    if is_without_barriers(filesystem) {
        return Some("xfs is mounted without barriers: no sync flushes the drive.".into());
    }
    let another = |option: &&String| option.starts_with("logdev=") || option.starts_with("rtdev=");
    if let Some(option) = filesystem.options.iter().find(another) {
        return Some(format!("xfs uses several devices ({option}): a sync may flush the wrong one."));
    }
    match filesystem.reflink {
        Some(false) => {}
        Some(true) => {
            let reason = "xfs has reflink on: an overwrite may move extents, which only its own file's sync commits.";
            return Some(reason.into());
        }
        None => return Some("It is not known whether xfs has reflink on.".into()),
    }
    match filesystem.zoned {
        Some(false) => None,
        Some(true) => Some("xfs is zoned: every overwrite moves extents.".into()),
        None => Some("It is not known whether xfs is zoned.".into()),
    }
}

fn is_without_barriers(filesystem: &Filesystem) -> bool {
    has_option(filesystem, "nobarrier") || has_option(filesystem, "barrier=0")
}

fn has_option(filesystem: &Filesystem, wanted: &str) -> bool {
    filesystem.options.iter().any(|option| option == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(mode: &str) -> Option<Journal> {
        Some(Journal::Internal { mode: mode.into() })
    }

    fn ext4() -> Filesystem {
        Filesystem {
            kind: "ext4".into(),
            options: vec!["rw".into(), "barrier".into()],
            fast_commit: Some(false),
            journal: journal("ordered"),
            ..Filesystem::default()
        }
    }

    fn xfs() -> Filesystem {
        Filesystem { kind: "xfs".into(), reflink: Some(false), zoned: Some(false), ..Filesystem::default() }
    }

    fn options(options: &[&str]) -> Vec<String> {
        options.iter().map(|option| (*option).to_owned()).collect()
    }

    fn verdict(filesystem: &Filesystem) -> Barrier {
        decide(filesystem, &Drive::default(), &Direct { effective: true, ..Direct::default() })
    }

    #[test]
    fn a_barrier_is_allowed_where_it_is_proven() {
        let without = Filesystem { journal: Some(Journal::Absent), ..ext4() };
        let shared_elsewhere = Filesystem { reflink: Some(true), ..ext4() };
        for filesystem in [ext4(), without, shared_elsewhere, xfs()] {
            let Barrier { allowed, reason } = verdict(&filesystem);
            assert!(allowed && reason.contains(&filesystem.kind), "{filesystem:?}: {reason}");
        }
        let drive = Drive { name: Some("vda".into()), ..Drive::default() };
        let direct = Direct { effective: true, ..Direct::default() };
        assert!(decide(&ext4(), &drive, &direct).reason.contains("vda"));
    }

    #[test]
    fn each_condition_that_fails_or_is_not_known_refuses_and_is_named() {
        let external = Some(Journal::External { mode: "ordered".into() });
        let table = [
            (Filesystem { options: options(&["rw", "barrier", "nobarrier"]), ..ext4() }, "without barriers"),
            (Filesystem { options: options(&["rw", "barrier=0"]), ..ext4() }, "without barriers"),
            (Filesystem { options: options(&["rw"]), ..ext4() }, "not known whether ext4 flushes"),
            (Filesystem { journal: None, ..ext4() }, "not known whether ext4 has a journal"),
            (Filesystem { journal: external, ..ext4() }, "another device"),
            (Filesystem { journal: journal("writeback"), ..ext4() }, "`writeback`"),
            (Filesystem { journal: journal("journal"), ..ext4() }, "`journal`"),
            (Filesystem { fast_commit: Some(true), ..ext4() }, "has `fast_commit` on"),
            (Filesystem { fast_commit: None, ..ext4() }, "not known whether ext4 has `fast_commit`"),
            (
                Filesystem { journal: Some(Journal::Absent), options: options(&["nobarrier"]), ..ext4() },
                "without barriers",
            ),
            (Filesystem { options: options(&["nobarrier"]), ..xfs() }, "without barriers"),
            (Filesystem { options: options(&["logdev=/dev/sdb"]), ..xfs() }, "logdev=/dev/sdb"),
            (Filesystem { options: options(&["rtdev=/dev/sdb"]), ..xfs() }, "rtdev=/dev/sdb"),
            (Filesystem { reflink: Some(true), ..xfs() }, "has reflink on"),
            (Filesystem { reflink: None, ..xfs() }, "not known whether xfs has reflink"),
            (Filesystem { zoned: Some(true), ..xfs() }, "zoned"),
            (Filesystem { zoned: None, ..xfs() }, "not known whether xfs is zoned"),
            (Filesystem { kind: "btrfs".into(), ..ext4() }, "btrfs"),
            (Filesystem { kind: "ext3".into(), ..ext4() }, "ext3"),
            (Filesystem::default(), "not known"),
        ];
        for (filesystem, named) in table {
            let Barrier { allowed, reason } = verdict(&filesystem);
            assert!(!allowed && reason.contains(named), "{filesystem:?}: {reason}");
        }
    }

    #[test]
    fn without_direct_writes_no_file_system_is_good_enough() {
        let direct = Direct { reason: "switched off by the options".into(), ..Direct::default() };
        for filesystem in [ext4(), xfs()] {
            let Barrier { allowed, reason } = decide(&filesystem, &Drive::default(), &direct);
            assert!(!allowed && reason.contains("switched off by the options"), "{reason}");
        }
    }
}
