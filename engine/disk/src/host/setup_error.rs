//! Why a disk could not be set up. Each message says what to change.

use super::limits;
use super::probe::kernel_release;
use crate::error::{DiskError, Verb};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::path::PathBuf;
use std::time::Duration;

/// Why a disk could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Something between us and the kernel refuses io_uring.
    #[error(
        "io_uring is blocked by policy: {call} answered {errno}, and neither the kernel nor kernel.io_uring_disabled is \
         why; allow the system calls 425, 426 and 427 (io_uring_setup, _enter, _register) in the seccomp profile of the \
         container or service, or in the security module"
    )]
    BlockedByPolicy {
        /// The system call that was refused.
        call: &'static str,
        /// What it answered.
        errno: Errno,
    },
    /// The host's sysctl refuses io_uring.
    #[error(
        "io_uring is switched off on this host: kernel.io_uring_disabled is {value}; set it to 0, or where it is 1 add \
         this process to the group in kernel.io_uring_group"
    )]
    BlockedBySysctl {
        /// The value of kernel.io_uring_disabled.
        value: u32,
    },
    /// The kernel lacks io_uring, or a part of it that has no substitute.
    #[error("the kernel ({release}) lacks {missing}: 5.15 or newer is needed, built with CONFIG_IO_URING")]
    KernelTooOld {
        /// What `uname -r` prints.
        release: String,
        /// What is missing.
        missing: String,
    },
    /// The ring's own memory was refused.
    #[error(
        "the kernel refused the memory of the ring (ENOMEM): it needs about {needed_bytes} bytes, and locked memory is {}, \
         which all processes of this user share; raise that limit (`ulimit -l`, LimitMEMLOCK=) or the memory limit of the \
         control group",
        limits::say(*limit_bytes)
    )]
    NoMemory {
        /// What the ring takes, without its arena.
        needed_bytes: u64,
        /// The limit on locked memory; absent where there is none.
        limit_bytes: Option<u64>,
    },
    /// The environment names a backend that does not exist.
    #[error("STRANDLINE_BACKEND = {value:?} names no backend: set it to auto, uring or posix, or do not set it")]
    UnknownBackend {
        /// What it says.
        value: String,
    },
    /// Another process, or the writes in flight of a dead one, holds the store.
    #[error(
        "{} is locked by another process, waited {waited:?}: stop the other process; if none runs, the last one's writes \
         are still in flight: wait for them or raise lock_wait",
        path.display()
    )]
    LockHeld {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The root, or what stands in its place, is not a directory of its own.
    #[error("{} is not a directory (symbolic links are not followed): name a directory, or a path that is free", path.display())]
    NotADirectory {
        /// The root.
        path: PathBuf,
    },
    /// The root belongs to someone else.
    #[error("{} belongs to user {owner}, this process runs as {us}: run as its owner, or `chown` it", path.display())]
    NotOurs {
        /// The root, or the lock file in it.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our effective user.
        us: u32,
    },
    /// Everybody may write to the root.
    #[error("{} is world-writable (mode {mode:o}): `chmod o-w` it; anybody could swap files below the store", path.display())]
    WorldWritable {
        /// The root.
        path: PathBuf,
        /// Its mode bits.
        mode: u32,
    },
    /// The lock file is something else than a plain file of ours.
    #[error("{} is not a regular file with one link: move it away", path.display())]
    OddLockFile {
        /// The lock file.
        path: PathBuf,
    },
    /// Files of this process may not be as large as some have to be.
    #[error(
        "files of this process may have {limit_bytes} bytes (RLIMIT_FSIZE), and {what} takes {needed_bytes}: raise the limit \
         (`ulimit -f`, LimitFSIZE=) or make {what} smaller; nothing was changed"
    )]
    FileSizeLimit {
        /// What decides how large they have to be.
        what: &'static str,
        /// Bytes of the largest.
        needed_bytes: u64,
        /// The limit, which is the soft one.
        limit_bytes: u64,
    },
    /// The file system of the root is mounted read-only.
    #[error(
        "{} is on a file system that is read-only: mount it writable (`mount -o remount,rw`), after a look at the kernel's log \
         and an fsck where an error made it so; nothing was changed",
        path.display()
    )]
    ReadOnly {
        /// The root.
        path: PathBuf,
    },
    /// Anything else.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Where the kernel says whether io_uring is switched off (since 6.6).
const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

/// Where it says whether a filter looks at this thread's system calls.
const STATUS: &str = "/proc/thread-self/status";

/// The oldest kernel that has all that a ring needs.
const KERNEL_MIN: (u32, u32) = (5, 15);

/// What tells who it was that refused a call.
#[derive(Clone, Debug, Default)]
struct Evidence {
    /// kernel.io_uring_disabled; absent before Linux 6.6, and where the kernel was built without io_uring.
    disabled: Option<u32>,
    /// Nothing but 2 binds this process: it may administrate the system (CAP_SYS_ADMIN).
    privileged: bool,
    /// A seccomp filter looks at the calls of this thread.
    filtered: bool,
    /// What `uname -r` prints.
    release: String,
}

impl Evidence {
    fn gather() -> Evidence {
        let status = std::fs::read_to_string(STATUS).unwrap_or_default();
        let sets = rustix::thread::capabilities(None);
        Evidence {
            disabled: std::fs::read_to_string(SYSCTL).ok().and_then(|text| text.trim().parse().ok()),
            privileged: sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN)),
            filtered: is_filtered(&status),
            release: kernel_release(),
        }
    }

    /// Whether it is for want of io_uring in the kernel that there is no such call.
    fn kernel_lacks_it(&self) -> bool {
        let has_it = self.disabled.is_some() || self.filtered && version(&self.release) >= Some(KERNEL_MIN);
        !has_it
    }
}

fn is_filtered(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl SetupError {
    /// What a failed call of the io_uring family means, for a ring that takes so many bytes.
    pub(crate) fn from_ring_call(call: &'static str, errno: Errno, needed_bytes: u64) -> SetupError {
        match errno {
            Errno::NOMEM => SetupError::NoMemory { needed_bytes, limit_bytes: limits::memlock_bytes() },
            errno => SetupError::classify(call, errno, Evidence::gather()),
        }
    }

    fn classify(call: &'static str, errno: Errno, evidence: Evidence) -> SetupError {
        let binds = |value: &u32| *value >= 2 || *value == 1 && !evidence.privileged;
        match (errno, evidence.disabled.filter(binds)) {
            (Errno::PERM, Some(value)) => SetupError::BlockedBySysctl { value },
            (Errno::NOSYS, _) if evidence.kernel_lacks_it() => {
                SetupError::KernelTooOld { release: evidence.release, missing: call.into() }
            }
            (Errno::PERM | Errno::ACCESS | Errno::NOSYS, _) => SetupError::BlockedByPolicy { call, errno },
            _ => SetupError::Disk(DiskError::new(Verb::Setup, call, errno)),
        }
    }

    /// True when it is only the ring that is not to be had: plain system calls would do.
    #[must_use]
    pub fn is_of_the_ring(&self) -> bool {
        matches!(
            self,
            SetupError::BlockedByPolicy { .. }
                | SetupError::BlockedBySysctl { .. }
                | SetupError::KernelTooOld { .. }
                | SetupError::NoMemory { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(errno: Errno, evidence: &Evidence) -> SetupError {
        SetupError::classify("io_uring_setup", errno, evidence.clone())
    }

    fn of_release(release: &str) -> Evidence {
        Evidence { release: release.into(), ..Evidence::default() }
    }

    #[test]
    fn ur_02_ur_04_a_refusal_names_who_refuses() {
        let modern = Evidence { disabled: Some(0), ..of_release("6.18.5") };
        let policy = |error: SetupError| matches!(error, SetupError::BlockedByPolicy { call: "io_uring_setup", .. });
        for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS] {
            assert!(policy(classify(errno, &modern)), "{errno}: nothing else forbids it, and the kernel has it");
        }
        for value in [1, 2, 3] {
            let disabled = Evidence { disabled: Some(value), ..modern.clone() };
            assert_eq!(classify(Errno::PERM, &disabled), SetupError::BlockedBySysctl { value });
            let privileged = Evidence { privileged: true, ..disabled };
            assert_eq!(policy(classify(Errno::PERM, &privileged)), value == 1, "1 does not bind who is privileged");
        }
        let too_old = |error: SetupError| matches!(error, SetupError::KernelTooOld { .. });
        assert!(too_old(classify(Errno::NOSYS, &of_release("4.19.0"))));
        assert!(too_old(classify(Errno::NOSYS, &Evidence { filtered: true, ..of_release("5.10.0-8-amd64") })));
        assert!(too_old(classify(Errno::NOSYS, &of_release("6.1.0"))), "built without it, since nobody filters");
        assert!(policy(classify(Errno::NOSYS, &Evidence { filtered: true, ..of_release("5.15.0") })));
        assert!(matches!(classify(Errno::MFILE, &modern), SetupError::Disk(_)));
    }

    #[test]
    fn ur_02_each_message_says_what_to_change() {
        let telling = [
            (classify(Errno::PERM, &of_release("6.1.0")), "425, 426 and 427"),
            (SetupError::BlockedBySysctl { value: 2 }, "kernel.io_uring_disabled is 2; set it to 0"),
            (classify(Errno::NOSYS, &of_release("4.19.0")), "4.19.0) lacks io_uring_setup: 5.15 or newer"),
            (SetupError::NoMemory { needed_bytes: 9_000, limit_bytes: Some(4_096) }, "9000 bytes"),
            (SetupError::NoMemory { needed_bytes: 9_000, limit_bytes: Some(4_096) }, "limited to 4096 bytes"),
            (SetupError::NoMemory { needed_bytes: 9_000, limit_bytes: None }, "not limited"),
        ];
        for (error, telling) in telling {
            assert!(error.is_of_the_ring() && error.to_string().contains(telling), "{telling}: {error}");
        }
        assert!(!SetupError::UnknownBackend { value: "x".into() }.is_of_the_ring());
    }

    #[test]
    fn releases_and_filters_are_read() {
        assert_eq!(version("6.18.5-fc-v21"), Some((6, 18)));
        assert_eq!(version("5.15"), Some((5, 15)));
        assert_eq!(version("odd"), None);
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
    }
}
