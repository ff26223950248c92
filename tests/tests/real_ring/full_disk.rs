//! A full disk, on real file systems: images of their own on loop devices, filled to the last byte.

use crate::common::{self, append, log_of, one, read_from, topic};
use crate::mounted::Mounted;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strandline::{AppendError, Config, Log, Offset, RangeNumber, Stage, Store};

/// What other programs have on the disk.
struct Ballast(PathBuf);

impl Ballast {
    /// Takes all room but so many bytes; with 0, every block.
    fn fill(root: &Path, leave: u64) -> Ballast {
        let path = root.parent().expect("a mount point").join("ballast");
        let mut file = File::options().append(true).create(true).open(&path).expect("a file");
        let mut piece = vec![1; 1 << 20];
        while free(root) > leave && !piece.is_empty() {
            let most = (free(root) - leave).clamp(1, piece.len() as u64) as usize;
            match file.write(&piece[..most]) {
                Ok(_) => {}
                Err(_) if leave == 0 => piece.truncate(piece.len() / 2),
                Err(error) => panic!("{error}"),
            }
        }
        file.sync_all().expect("synced");
        Ballast(path)
    }

    fn remove(self) {
        std::fs::remove_file(self.0).expect("removed");
    }
}

fn free(root: &Path) -> u64 {
    let found = rustix::fs::statvfs(root).expect("a file system");
    found.f_bavail * found.f_frsize
}

/// Images to fill: the reserved part of ext4 is off, since tests run as root, who may use it.
fn images() -> Vec<Mounted> {
    let ext4: &[&str] = &["mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0"];
    let xfs: &[&str] = &["mkfs.xfs", "-q", "-f"];
    [(96, ext4), (400, xfs)].into_iter().filter_map(|(size, mkfs)| Mounted::new(size, mkfs, &[], "defaults")).collect()
}

fn config(root: &Path) -> Config {
    Config { segment_bytes: 1 << 20, ..common::small(root) }
}

static VALUE: [u8; 30_000] = [7; 30_000];

/// A log of so many segments and a bit.
fn filled(store: &Store, name: &str, segments: usize) -> Log {
    let log = log_of(store, name);
    for _ in 0..segments * 34 + 5 {
        append(&log, &VALUE);
    }
    log
}

fn attempt(log: &Log) -> Result<(), AppendError> {
    log.append(one(log, &VALUE)).expect("room in the queue").wait().map(drop)
}

/// Waits until it is so; false when it never is.
fn within(seconds: u64, mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Whether a refusal comes that names the mark.
fn is_refused(log: &Log) -> bool {
    match attempt(log) {
        Ok(()) | Err(AppendError::DiskFull { .. }) => false,
        Err(AppendError::DiskAlmostFull { free, mark, .. }) => free < mark + mark / 4,
        Err(other) => panic!("{other}"),
    }
}

fn directories(root: &Path, start: &str) -> usize {
    let entries = std::fs::read_dir(root).expect("listed");
    entries.filter(|entry| entry.as_ref().expect("an entry").file_name().to_string_lossy().starts_with(start)).count()
}

#[test]
fn df_02_a_store_on_a_disk_without_a_free_byte_opens_reads_trims_deletes_and_comes_back_by_itself() {
    for image in images() {
        let root = image.root();
        let store = Store::open(Config { spare_bytes_max: 0, ..config(&root) }).expect("a store");
        let (log, other) = (filled(&store, "log", 4), filled(&store, "other", 2));
        let kind = store.capabilities().filesystem.kind.clone();
        let direct = store.capabilities().direct.effective;
        assert!(within(10, || free(&root) > 0 && root.join("strandline.reserve").exists()), "{kind}");
        let ballast = Ballast::fill(&root, 0);
        assert!(within(30, || is_refused(&log)), "{kind}: {:?}", store.pressure());
        assert_eq!(store.pressure().stage, Stage::Hard, "{kind}");
        let end = log.latest();
        assert!(!read_from(&log, Offset(0)).expect("a full disk can be read").is_empty(), "{kind}");
        drop((log, other));
        store.close().expect("a clean close");

        let ballast = {
            std::mem::forget(ballast);
            Ballast::fill(&root, 0)
        };
        eprintln!("{kind}: {} bytes are free", free(&root));
        let store = Store::open(Config { spare_bytes_max: 0, ..config(&root) }).expect("a full disk stops no open");
        assert_eq!(store.capabilities().direct.effective, direct, "{kind}: {:?}", store.capabilities().direct);
        assert_eq!(store.pressure().stage, Stage::Hard, "{kind}: {:?}", store.pressure());
        let log = log_of(&store, "log");
        assert_eq!(log.latest(), end, "{kind}");
        assert!(is_refused(&log), "{kind}");
        assert!(!read_from(&log, Offset(0)).expect("a full disk can be read").is_empty(), "{kind}");
        let before = directories(&root, "log-");
        log.trim(Offset(end.0 - 1)).wait().expect("a trim needs no room");
        assert!(within(10, || directories(&root, "log-") < before), "{kind}: files are removed");
        assert_eq!(log.earliest(), Offset(end.0 - 1));
        store.delete_log(&topic("other"), RangeNumber::default()).expect("a delete needs no room");
        assert!(within(10, || directories(&root, "other-") == 0), "{kind}: a log is removed");

        ballast.remove();
        assert!(within(20, || attempt(&log).is_ok()), "{kind}: {:?}", store.pressure());
        assert!(within(5, || store.pressure().stage == Stage::Calm), "{kind}");
        store.close().expect("a clean close");
    }
}

#[test]
fn df_07_the_pool_is_given_back_before_anything_else_when_a_disk_fills() {
    for image in images() {
        let root = image.root();
        let config = Config { free_soft_bytes: Some(12 << 20), free_hard_bytes: Some(1 << 20), ..config(&root) };
        let store = Store::open(config).expect("a store");
        let log = filled(&store, "log", 8);
        log.trim(Offset(log.latest().0 - 1)).wait().expect("a trim");
        let kind = store.capabilities().filesystem.kind.clone();
        assert!(within(60, || store.counters().spare_files >= 2), "{kind}: {:?}", store.counters());
        let ballast = Ballast::fill(&root, 6 << 20);
        // What is written has the room looked at.
        let gone = within(20, || attempt(&log).is_ok() && store.counters().spare_files == 0);
        assert!(gone, "{kind}: {:?} {:?}", store.pressure(), store.counters());
        // With the pool back it may be calm again by now.
        assert!(store.pressure().risen > 0, "{kind}: {:?}", store.pressure());
        // The last of them, and one that was being made, are still on their way when the pool has none any more.
        let left = || -> Vec<PathBuf> {
            let entries =
                |at: PathBuf| std::fs::read_dir(at).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
            entries(root.join("spare")).flat_map(|spare| entries(spare.clone()).chain([spare])).collect()
        };
        let is_empty = within(60, || left().is_empty());
        assert!(is_empty, "{kind}: {:?}, {:?}, {:?}", left(), store.pressure(), store.counters());
        ballast.remove();
        assert!(within(10, || store.pressure().stage == Stage::Calm), "{kind}: {:?}", store.pressure());
        store.close().expect("a clean close");
    }
}

#[test]
fn dl_12_the_capability_report_warns_of_a_file_system_that_discards() {
    let ext4 = ["mkfs.ext4", "-q", "-F", "-b", "4096"];
    for (options, warns) in [("discard", true), ("nodiscard", false)] {
        let Some(image) = Mounted::new(64, &ext4, &[], options) else { return };
        let store = Store::open(config(&image.root())).expect("a store");
        let warned = store.capabilities().warnings.iter().any(|warning| warning.contains("`discard`"));
        assert_eq!(warned, warns, "{options}: {:?}", store.capabilities().warnings);
        store.close().expect("a clean close");
    }
}
