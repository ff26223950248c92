//! What the host allows, found out once for each root: the part of the capability report that no ring changes.

use super::options::DirectMode;
use super::{Backend, direct, drive, filesystem, limits};
use crate::barrier;
use crate::capabilities::{Capabilities, Direct, Drive, Filesystem, Journal};
use rustix::fd::BorrowedFd;

/// Below this, a locked-memory limit is worth a warning, in bytes.
const MEMLOCK_COMFORTABLE: u64 = 16 << 20;

/// The host, as found.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    kernel: String,
    filesystem: Filesystem,
    drive: Drive,
    direct: Direct,
    fallocate: Vec<String>,
    memlock_bytes: Option<u64>,
}

impl Host {
    /// Looks at everything. Blocks, and warns once where direct I/O does not work.
    pub(crate) fn probe(root: BorrowedFd<'_>) -> Host {
        let (mut filesystem, device) = filesystem::inspect(root);
        let trial = direct::run(root);
        filesystem.reflink = trial.reflink;
        filesystem.copies_on_write = trial.nocow.filter(|_| filesystem.kind == "btrfs").map(|nocow| !nocow);
        if !trial.direct.effective {
            tracing::warn!(reason = %trial.direct.reason, "files are opened buffered, not for direct I/O");
        }
        Host {
            kernel: kernel_release(),
            filesystem,
            drive: drive::inspect(device),
            direct: trial.direct,
            fallocate: trial.fallocate,
            memlock_bytes: limits::memlock_bytes(),
        }
    }

    /// The report, without what a ring was given.
    pub(crate) fn report(&self, backend: Backend, access: DirectMode) -> Capabilities {
        let direct = match access {
            DirectMode::Auto => self.direct.clone(),
            DirectMode::Off => direct::buffered(self.direct.reported, "switched off by the options".into()),
        };
        // Plain calls lock no memory.
        let memlock_bytes = self.memlock_bytes.filter(|_| backend == Backend::Uring);
        Capabilities {
            backend: backend.to_string(),
            kernel: self.kernel.clone(),
            filesystem: self.filesystem.clone(),
            drive: self.drive.clone(),
            barrier: barrier::decide(&self.filesystem, &self.drive, &direct),
            direct,
            fallocate: self.fallocate.clone(),
            memlock_bytes: self.memlock_bytes,
            warnings: warnings(&self.filesystem, memlock_bytes),
            ..Capabilities::default()
        }
    }
}

/// What `uname -r` prints.
pub(crate) fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn warnings(filesystem: &Filesystem, memlock_bytes: Option<u64>) -> Vec<String> {
    let mut warnings = Vec::new();
    if filesystem.discard {
        warnings.push(
            "The file system is mounted with `discard`: freed blocks stall the drive, so deletion is paced.".into(),
        );
    }
    if filesystem.fast_commit == Some(true) {
        warnings.push("ext4 `fast_commit` is on: one barrier for many files is not sound, each file is synced.".into());
    }
    if filesystem.journal == Some(Journal::Absent) {
        warnings.push("The ext4 file system has no journal: a power cut can damage its metadata.".into());
    }
    if filesystem.copies_on_write == Some(true) {
        warnings.push(
            "btrfs copies on write here. Direct I/O is requested, and from Linux 6.14 on not effective for writes: they go through the page \
             cache. An overwrite needs free blocks, so a full disk or quota stops more than appends. Mount with `nodatacow`, or make the \
             root with `chattr +C` before its first store."
                .into(),
        );
    }
    if memlock_bytes.is_some_and(|bytes| bytes < MEMLOCK_COMFORTABLE) {
        let bytes = memlock_bytes.unwrap_or_default();
        warnings
            .push(format!("The locked-memory limit is {bytes} bytes: raise it (LimitMEMLOCK=) for a larger arena."));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_should_know_is_said() {
        let mut filesystem = Filesystem { kind: "ext4".into(), discard: true, ..Filesystem::default() };
        filesystem.fast_commit = Some(true);
        assert_eq!(warnings(&filesystem, Some(8 << 20)).len(), 3, "a journal that is not known is not missing");
        filesystem.journal = Some(Journal::Absent);
        assert_eq!(warnings(&filesystem, Some(8 << 20)).len(), 4);
        let btrfs = |copies_on_write| Filesystem { kind: "btrfs".into(), copies_on_write, ..Filesystem::default() };
        assert_eq!([None, Some(false), Some(true)].map(|copies| warnings(&btrfs(copies), None).len()), [0, 0, 1]);
        assert_eq!(warnings(&Filesystem { kind: "xfs".into(), ..Filesystem::default() }, None), Vec::<String>::new());
    }
}
