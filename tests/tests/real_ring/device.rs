//! A whole device that these tests may do anything to, below the device mapper: one that fails from some moment on, and one that notes what
//! reaches it. Run where there is such a device, as `.ci/vm` does in a machine of its own:
//! `STRANDLINE_DEVICE=/dev/... STRANDLINE_LOG_DEVICE=/dev/... cargo test -p strandline-tests --test real_ring -- --ignored t4`.

use crate::common::{append, bytes_of, log_of, one, open, read_from, small};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use strandline::{AppendError, Log, Offset, ReadError, StoredBatch};
use tempfile::TempDir;

/// A device with a target of the device mapper before it and ext4 on it. Dropping it takes both away.
struct Mapped {
    name: String,
    place: TempDir,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("the program is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}: {said}", output.status);
}

fn device(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} has to name a device that may be written over"))
}

/// How many sectors of 512 bytes a device has.
fn sectors(device: &str) -> u64 {
    let output = Command::new("blockdev").args(["--getsz", device]).output().expect("blockdev is there");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

impl Mapped {
    fn new(name: &str, table: &str) -> Mapped {
        let name = format!("strandline-{name}-{}", std::process::id());
        run("dmsetup", &["create", &name, "--table", table]);
        let mapped = Mapped { name, place: tempfile::tempdir().expect("a directory") };
        run("mkfs.ext4", &["-q", "-F", &mapped.device()]);
        mapped.mount();
        mapped
    }

    fn device(&self) -> String {
        format!("/dev/mapper/{}", self.name)
    }

    fn point(&self) -> String {
        self.place.path().to_string_lossy().into_owned()
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("store")
    }

    fn mount(&self) {
        run("mount", &[&self.device(), &self.point()]);
    }

    /// Gives the device another table, with what it has in flight brought to its end first.
    fn turn_into(&self, table: &str) {
        run("dmsetup", &["suspend", "--noflush", "--nolockfs", &self.name]);
        run("dmsetup", &["load", &self.name, "--table", table]);
        run("dmsetup", &["resume", &self.name]);
    }

    fn mark(&self, text: &str) {
        run("dmsetup", &["message", &self.name, "0", "mark", text]);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.point()).status();
        let _ = Command::new("dmsetup").args(["remove", "--retry", &self.name]).status();
    }
}

fn value(number: u64) -> Vec<u8> {
    bytes_of(number, 3_000)
}

/// The batches of a log that one call each appended, from 0 on.
fn check(batches: &[StoredBatch], acknowledged: u64) {
    assert!(batches.len() as u64 >= acknowledged, "{} of {acknowledged}", batches.len());
    for (number, batch) in batches.iter().enumerate() {
        let record = batch.records().next().expect("a record").expect("it verifies");
        assert!(record.value == Some(&value(number as u64)[..]), "batch-{number}");
    }
}

/// Appends until one fails; gives how many were acknowledged, and the error.
fn append_until_it_fails(log: &Log, from: u64) -> (u64, AppendError) {
    let until = Instant::now() + Duration::from_secs(120);
    for number in from.. {
        assert!(Instant::now() < until, "nothing fails on a device that fails every write");
        let Ok(pending) = log.append(one(log, &value(number))) else { panic!("there is room") };
        if let Err(error) = pending.wait() {
            return (number, error);
        }
    }
    unreachable!("numbers end later")
}

#[test]
#[ignore = "needs a device of its own and the device mapper"]
fn t4_a_device_that_fails_every_write_loses_nothing_that_was_acknowledged() {
    let below = device("STRANDLINE_DEVICE");
    let size = sectors(&below);
    let (good, failing) =
        (format!("0 {size} linear {below} 0"), format!("0 {size} flakey {below} 0 0 3600 1 error_writes"));
    let mapped = Mapped::new("failing", &good);
    let store = open(small(&mapped.root()));
    let log = log_of(&store, "kept");
    for number in 0..200 {
        append(&log, &value(number));
    }
    mapped.turn_into(&failing);
    let (acknowledged, error) = append_until_it_fails(&log, 200);
    eprintln!("{acknowledged} were acknowledged, then: {error}");
    // What is there can be read, unless the file system has given up its journal: then it opens no file, and that is said.
    match read_from(&log, Offset(0)) {
        Ok(batches) => check(&batches, 200),
        Err(error) => assert!(matches!(error, ReadError::Disk { .. }), "{error}"),
    }
    // Whoever asks again is told at once.
    let again = log.append(one(&log, &value(0))).map(|pending| pending.wait());
    assert!(!matches!(again, Ok(Ok(_))), "{again:?}");
    drop((log, store));
    run("umount", &[&mapped.point()]);
    mapped.turn_into(&good);
    run("sh", &["-c", &format!("e2fsck -fy {} >/dev/null; [ $? -le 1 ]", mapped.device())]);
    mapped.mount();
    let store = open(small(&mapped.root()));
    let log = log_of(&store, "kept");
    let batches = read_from(&log, Offset(0)).expect("all of it verifies");
    check(&batches, acknowledged);
    append(&log, &value(batches.len() as u64));
    check(&read_from(&log, Offset(0)).expect("all of it verifies"), acknowledged + 1);
}

/// What reached a device, as dm-log-writes notes it.
struct Entry {
    flushes: bool,
    is_durable: bool,
    mark: Option<String>,
    data: Vec<u8>,
}

const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const LOG_MAGIC: u64 = 0x006a_7366_7773_6872;

fn entries(log: &Path) -> Vec<Entry> {
    let mut file = File::open(log).expect("the log's device");
    let mut take = |bytes: u64| {
        let mut piece = vec![0; bytes as usize];
        file.read_exact(&mut piece).expect("the log goes on");
        piece
    };
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let head = take(512);
    assert_eq!((number(&head, 0), number(&head, 8)), (LOG_MAGIC, 1), "no log of dm-log-writes");
    let sector = u64::from(u32::from_le_bytes(head[24..28].try_into().expect("4 bytes")));
    take(sector - 512);
    let entry = |_| {
        let head = take(sector);
        let (sectors, flags, length) = (number(&head, 8), number(&head, 16), number(&head, 24) as usize);
        let text = || String::from_utf8_lossy(&head[32..32 + length]).into_owned();
        let data = if flags & DISCARD == 0 { take(sectors * sector) } else { Vec::new() };
        let mark = (flags & MARK != 0).then(text);
        Entry { flushes: flags & FLUSH != 0, is_durable: flags & FUA != 0, mark, data }
    };
    (0..number(&head, 16)).map(entry).collect()
}

/// Whether what stands in `entries` made `value` durable: a write that holds it and is durable by itself, or has a flush behind it.
fn is_durable(entries: &[Entry], value: &[u8]) -> bool {
    let holds = |entry: &Entry| entry.data.windows(64).any(|window| window == &value[..64]);
    let at = entries.iter().position(holds);
    at.is_some_and(|at| entries[at].is_durable || entries[at + 1..].iter().any(|entry| entry.flushes))
}

#[test]
#[ignore = "needs two devices of its own and the device mapper"]
fn t4_what_is_acknowledged_has_reached_the_device_with_fua_or_a_flush_behind_it() {
    const BATCHES: u64 = 60;
    let (below, noted) = (device("STRANDLINE_DEVICE"), device("STRANDLINE_LOG_DEVICE"));
    let mapped = Mapped::new("noted", &format!("0 {} log-writes {below} {noted}", sectors(&below)));
    let store = open(small(&mapped.root()));
    let log = log_of(&store, "noted");
    for number in 0..BATCHES {
        append(&log, &value(number));
        mapped.mark(&format!("batch-{number}"));
    }
    store.close().expect("a clean close");
    drop(log);
    drop(mapped);
    let entries = entries(Path::new(&noted));
    let (mut marks, mut from) = (0, 0);
    for number in 0..BATCHES {
        let mark = format!("batch-{number}");
        let at = entries.iter().position(|entry| entry.mark.as_deref() == Some(&mark)).expect("each mark is there");
        assert!(is_durable(&entries[from..at], &value(number)), "batch {number} was answered before it was durable");
        (marks, from) = (marks + 1, at);
    }
    let count = |what: fn(&Entry) -> bool| entries.iter().filter(|entry| what(entry)).count();
    let (durable, flushes) = (count(|entry| entry.is_durable), count(|entry| entry.flushes));
    eprintln!("{marks} batches, {} entries, {durable} with FUA, {flushes} with a flush", entries.len());
    // One that is looked for before it was appended is not there: the check can fail.
    let first = entries.iter().position(|entry| entry.mark.as_deref() == Some("batch-0")).expect("there");
    assert!(!is_durable(&entries[..first], &value(1)));
}
