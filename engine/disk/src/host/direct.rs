//! Tries direct I/O, the fallocate modes and shared extents on a file of its own in the root. Leaves nothing behind.

use super::root::LOCK_NAME;
use crate::buffer::{BLOCK, Buffer, Pool};
use crate::capabilities::{self, Direct};
use memmap2::MmapOptions;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, IFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// The files it uses. Found at the start, they are what a killed probe left, and are removed.
const PROBE_NAME: &str = "strandline.probe";
const CLONE_NAME: &str = "strandline.probe.clone";

/// Its largest size, in bytes.
pub(crate) const PROBE_BYTES: u64 = 4 * BLOCK as u64;

/// FALLOC_FL_WRITE_ZEROES, since Linux 6.17.
pub(crate) const WRITE_ZEROES: u32 = 0x80;

/// The types of file systems that live in memory (linux/magic.h).
const TMPFS_MAGIC: u32 = 0x0102_1994;
const RAMFS_MAGIC: u32 = 0x8584_58f6;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trial {
    pub direct: Direct,
    pub fallocate: Vec<String>,
    pub reflink: Option<bool>,
    /// Whether blocks of files are overwritten where they are; absent where file systems do not tell.
    pub nocow: Option<bool>,
}

/// Tries everything in `root`.
pub(super) fn run(root: BorrowedFd<'_>) -> Trial {
    let mut trial = Trial { direct: buffered(None, String::new()), ..Trial::default() };
    match ProbeFile::new(root, PROBE_NAME) {
        Ok(file) => {
            trial.direct = try_direct(root, &file);
            trial.fallocate = try_fallocate(&file);
            trial.reflink = try_clone(root, &file);
            trial.nocow = rustix::fs::ioctl_getflags(&file.file).ok().map(|flags| flags.contains(IFlags::NOCOW));
        }
        Err(errno) if is_full(errno) => trial.direct = on_a_full_disk(lock_alignment(root)),
        Err(errno) => trial.direct.reason = format!("the probe file could not be made: {errno}"),
    }
    trial
}

fn is_full(errno: Errno) -> bool {
    [Errno::NOSPC, Errno::DQUOT].contains(&errno)
}

/// Where there is no room for a trial, what the file system says of direct I/O has to do: a store that was written directly must not go through
/// the page cache only because its disk is full.
fn on_a_full_disk(reported: Option<u32>) -> Direct {
    match reported {
        Some(bytes) if (1..=BLOCK as u32).contains(&bytes) => Direct {
            effective: true,
            alignment: BLOCK as u32,
            reported,
            reason: "the disk is full, so it was not tried; the file system says that it works".into(),
        },
        _ => buffered(reported, "the disk is full, so direct I/O could not be tried".into()),
    }
}

/// What the file system says of the lock file, which is there already.
fn lock_alignment(root: BorrowedFd<'_>) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::openat(root, LOCK_NAME, flags, Mode::empty()).ok()?;
    reported_alignment(lock.as_fd())
}

/// The verdict "buffered".
pub(super) fn buffered(reported: Option<u32>, reason: String) -> Direct {
    Direct { effective: false, alignment: BLOCK as u32, reported, reason }
}

/// A file that is removed when it goes out of scope, however that comes about.
struct ProbeFile<'root> {
    root: BorrowedFd<'root>,
    name: &'static str,
    file: OwnedFd,
}

impl ProbeFile<'_> {
    fn new<'root>(root: BorrowedFd<'root>, name: &'static str) -> Result<ProbeFile<'root>, Errno> {
        match rustix::fs::unlinkat(root, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(ProbeFile { root, name, file })
    }
}

impl Drop for ProbeFile<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.root, self.name, AtFlags::empty());
    }
}

fn try_direct(root: BorrowedFd<'_>, probe: &ProbeFile<'_>) -> Direct {
    // These take O_DIRECT too, and mean nothing by it.
    if rustix::fs::fstatfs(root).is_ok_and(|found| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(found.f_type as u32))) {
        return buffered(None, "the file system lives in memory".into());
    }
    let reported = reported_alignment(probe.file.as_fd());
    match reported {
        Some(0) => return buffered(reported, "the file system says that it does not support direct I/O".into()),
        Some(bytes) if bytes as usize > BLOCK => {
            let reason =
                format!("direct I/O would need an alignment of {bytes} bytes, and {BLOCK} is the most we serve");
            return buffered(reported, reason);
        }
        _ => {}
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::DIRECT;
    let direct = match rustix::fs::openat(root, probe.name, flags, Mode::empty()) {
        Ok(direct) => direct,
        Err(errno) => return buffered(reported, format!("opening a file with O_DIRECT fails: {errno}")),
    };
    match write_and_read(&direct, &probe.file) {
        Ok(reason) => Direct { effective: true, alignment: BLOCK as u32, reported, reason: reason.into() },
        Err(Trouble::Full) => on_a_full_disk(reported),
        Err(Trouble::Other(reason)) => buffered(reported, reason),
    }
}

/// Why a trial brought nothing.
enum Trouble {
    /// There is no room for it.
    Full,
    /// Direct I/O does not work, for this reason.
    Other(String),
}

/// The alignment that statx tells (since Linux 6.1): 0 where direct I/O is not supported, absent where it does not know.
fn reported_alignment(file: BorrowedFd<'_>) -> Option<u32> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then(|| stat.stx_dio_offset_align.max(stat.stx_dio_mem_align))
}

/// Writes two blocks directly, looks whether they went past the page cache, and reads them back.
fn write_and_read(direct: &OwnedFd, cached: &OwnedFd) -> Result<&'static str, Trouble> {
    let other = |reason: &str| Trouble::Other(reason.to_owned());
    let told = |doing: &'static str| {
        move |errno: Errno| match is_full(errno) {
            true => Trouble::Full,
            false => Trouble::Other(format!("{doing} with O_DIRECT fails: {errno}")),
        }
    };
    let (mut written, mut read) = buffers().ok_or_else(|| other("no memory for the trial"))?;
    for (index, byte) in written.iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    read.fill(0);
    let moved = rustix::io::pwrite(direct, &written, 0).map_err(told("writing"))?;
    if moved != written.len() {
        // A disk with room for a part takes that part, and says that it is full only when asked for the rest.
        let rest = rustix::io::pwrite(direct, &written[moved..], moved as u64);
        let full = rest.is_err_and(is_full);
        let reason = format!("writing with O_DIRECT moved {moved} of {} bytes", written.len());
        return Err(if full { Trouble::Full } else { Trouble::Other(reason) });
    }
    let verdict = match is_cached(cached) {
        Some(true) => return Err(other("the file system takes O_DIRECT but serves it from the page cache")),
        Some(false) => "a write and a read went past the page cache",
        None => "a write and a read worked; whether they went past the page cache cannot be told here",
    };
    let moved = rustix::io::pread(direct, &mut *read, 0).map_err(told("reading"))?;
    if moved != read.len() || *read != *written {
        return Err(other("what was written with O_DIRECT was not read back"));
    }
    Ok(verdict)
}

/// Two blocks each, from a throw-away arena since those are aligned.
fn buffers() -> Option<(Buffer, Buffer)> {
    let pool = Pool::new(4 * BLOCK).ok()?;
    Some((pool.take(2 * BLOCK)?, pool.take(2 * BLOCK)?))
}

/// Whether the first block is in the page cache. Absent where the file cannot be mapped.
///
/// A read that must not wait (RWF_NOWAIT) would not tell: the kernel starts to read ahead for it, and a quick drive answers before
/// the kernel looks, about once in 25 times on a virtio disk.
fn is_cached(file: &OwnedFd) -> Option<bool> {
    // SAFETY: nobody reads or writes through the map; it only names pages to the kernel. The file is longer than it.
    let map = unsafe { MmapOptions::new().len(BLOCK).map(file) }.ok()?;
    // A page is never smaller than a block, so there is one to tell of.
    let mut resident = 0_u8;
    // SAFETY: the range is that of `map`, which is alive, and the kernel writes one byte, to `resident`.
    let answer = unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), BLOCK, &raw mut resident) };
    (answer == 0).then_some(resident & 1 != 0)
}

fn try_fallocate(probe: &ProbeFile<'_>) -> Vec<String> {
    let modes = [
        ("allocate", FallocateFlags::empty()),
        ("keep_size", FallocateFlags::KEEP_SIZE),
        ("zero_range", FallocateFlags::ZERO_RANGE),
        ("punch_hole", FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
        (capabilities::WRITE_ZEROES, FallocateFlags::from_bits_retain(WRITE_ZEROES)),
    ];
    let works = |mode| rustix::fs::fallocate(&probe.file, mode, 0, PROBE_BYTES).is_ok();
    modes.into_iter().filter(|&(_, mode)| works(mode)).map(|(name, _)| name.to_owned()).collect()
}

/// Whether files can share extents: a clone of the probe file works or is refused as impossible.
fn try_clone(root: BorrowedFd<'_>, probe: &ProbeFile<'_>) -> Option<bool> {
    let copy = ProbeFile::new(root, CLONE_NAME).ok()?;
    match rustix::fs::ioctl_ficlone(&copy.file, &probe.file) {
        Ok(()) => Some(true),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .expect("a directory")
    }

    #[test]
    fn the_trial_leaves_nothing_behind_and_clears_what_a_killed_one_left() {
        let place = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(place.path().join(PROBE_NAME), "stale").expect("written");
        let trial = run(open(place.path()).as_fd());
        assert!(trial.fallocate.contains(&"allocate".to_owned()), "{trial:?}");
        assert!(trial.reflink.is_some(), "{trial:?}");
        assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0);
    }

    #[test]
    fn the_verdict_is_the_same_each_time() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let root = open(place.path());
        let first = run(root.as_fd()).direct;
        for number in 0..200 {
            assert_eq!(run(root.as_fd()).direct, first, "trial {number}");
        }
    }

    #[test]
    fn what_was_written_through_the_page_cache_is_found_there() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let root = open(place.path());
        let probe = ProbeFile::new(root.as_fd(), PROBE_NAME).expect("a file");
        rustix::io::write(&probe.file, &[1; 2 * BLOCK]).expect("written");
        assert_eq!(is_cached(&probe.file), Some(true));
        rustix::fs::fsync(&probe.file).expect("synced");
        rustix::fs::fadvise(&probe.file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
        // A file system in memory keeps it.
        let is_cached = is_cached(&probe.file);
        drop(probe);
        assert!(!run(root.as_fd()).direct.effective || is_cached == Some(false));
    }

    #[test]
    fn on_a_full_disk_what_the_file_system_says_counts() {
        let effective = |reported| on_a_full_disk(reported).effective;
        let said = [None, Some(0), Some(512), Some(BLOCK as u32), Some(2 * BLOCK as u32)].map(effective);
        assert_eq!(said, [false, false, true, true, false]);
    }

    #[test]
    fn memory_is_not_taken_for_a_drive() {
        let Ok(place) = tempfile::tempdir_in("/dev/shm") else { return };
        let trial = run(open(place.path()).as_fd());
        assert!(!trial.direct.effective, "{trial:?}");
        assert!(!trial.direct.reason.is_empty());
    }

    #[test]
    fn a_root_that_cannot_be_written_to_is_buffered_for_a_reason() {
        let trial = run(open(Path::new("/proc")).as_fd());
        assert!(!trial.direct.effective);
        assert!(trial.direct.reason.contains("probe file"), "{trial:?}");
    }
}
