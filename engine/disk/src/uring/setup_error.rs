//! Why a disk could not be set up. Each message says what to change.

use crate::error::{DiskError, Verb};
use rustix::io::Errno;
use std::path::PathBuf;
use std::time::Duration;

/// Why [`super::UringDisk::open`] failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Something between us and the kernel refuses io_uring.
    #[error(
        "io_uring is blocked by policy: {call} answered {errno} although kernel.io_uring_disabled is 0; allow the system \
         calls 425, 426 and 427 (io_uring_setup, _enter, _register) in the seccomp profile of the container or service, \
         or in the security module"
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
    #[error(
        "the kernel ({release}) lacks {missing}: 5.15 or newer is needed, built with CONFIG_IO_URING; where it is newer, \
         look for a seccomp profile that answers ENOSYS"
    )]
    KernelTooOld {
        /// What `uname -r` prints.
        release: String,
        /// What is missing.
        missing: String,
    },
    /// The ring's own memory was refused.
    #[error(
        "the kernel refused the memory of the ring (ENOMEM): raise the locked-memory limit (`ulimit -l`, LimitMEMLOCK=) \
         or the memory limit of the control group, or ask for fewer entries"
    )]
    NoMemory,
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
    /// Anything else.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Where the kernel says whether io_uring is switched off (since 6.6).
const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

impl SetupError {
    /// What a failed call of the io_uring family means.
    pub(super) fn from_ring_call(call: &'static str, errno: Errno) -> SetupError {
        let disabled = std::fs::read_to_string(SYSCTL).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        SetupError::classify(call, errno, disabled)
    }

    fn classify(call: &'static str, errno: Errno, disabled: u32) -> SetupError {
        match errno {
            Errno::PERM if disabled != 0 => SetupError::BlockedBySysctl { value: disabled },
            Errno::PERM | Errno::ACCESS => SetupError::BlockedByPolicy { call, errno },
            Errno::NOSYS => SetupError::KernelTooOld { release: super::probe::kernel_release(), missing: call.into() },
            Errno::NOMEM => SetupError::NoMemory,
            errno => SetupError::Disk(DiskError::new(Verb::Setup, call, errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_who_refuses() {
        let classify = |errno, disabled| SetupError::classify("io_uring_setup", errno, disabled);
        assert_eq!(classify(Errno::PERM, 2), SetupError::BlockedBySysctl { value: 2 });
        assert!(matches!(classify(Errno::PERM, 0), SetupError::BlockedByPolicy { .. }));
        assert!(matches!(classify(Errno::NOSYS, 0), SetupError::KernelTooOld { .. }));
        assert_eq!(classify(Errno::NOMEM, 0), SetupError::NoMemory);
        assert!(matches!(classify(Errno::MFILE, 0), SetupError::Disk(_)));
    }
}
