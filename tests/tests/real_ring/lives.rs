//! A whole life of a store on whatever file system it is put: open, append, roll, seal, read, open again, trim, remove.

use crate::common::{append, bytes_of, log_of, one, open, read_from, topic, values};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use strandline::{AppendError, Config, Log, Offset, RangeNumber};
use strandline_disk::Capabilities;

/// After this long a store hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Does something on a thread of its own, and fails when it takes for ever.
pub fn bounded<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || tell.send(what()).is_ok());
    match told.recv_timeout(PATIENCE) {
        Ok(done) => done,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().expect_err("it panicked")),
    }
}

/// Waits until it is so; false when it never is.
pub fn within(seconds: u64, mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Directories below a root whose names begin so.
pub fn directories(root: &Path, start: &str) -> usize {
    let entries = std::fs::read_dir(root).expect("listed");
    entries.filter(|entry| entry.as_ref().expect("an entry").file_name().to_string_lossy().starts_with(start)).count()
}

/// Tries one append, and gives its refusal.
pub fn attempt(log: &Log, value: &[u8]) -> Result<(), AppendError> {
    log.append(one(log, value)).expect("room in the queue").wait().map(drop)
}

/// The whole of it, with segments of the configuration's size, which is to be small. Gives what was found of the host.
pub fn whole_life(config: Config) -> Capabilities {
    bounded(move || live(&config))
}

fn live(config: &Config) -> Capabilities {
    let most = u64::from(config.batch_bytes_max) - 100;
    let fresh = |life: u64| (0..24).map(move |number| bytes_of(life * 100 + number, (number * 7_919 % most) as usize));
    let mut wanted: Vec<Vec<u8>> = Vec::new();
    let mut found = Capabilities::default();
    for life in 0..3 {
        let store = open(config.clone());
        found = store.capabilities().clone();
        let log = log_of(&store, "life");
        assert_eq!(store.report().damaged.len(), 0, "{:?}", store.report());
        assert!(values(&log) == wanted, "life {life}: {} of {} records", values(&log).len(), wanted.len());
        append(&log_of(&store, "other"), b"v");
        for value in fresh(life) {
            append(&log, &value);
            wanted.push(value);
        }
        log.seal().wait().expect("sealed");
        append(&log, b"behind it");
        wanted.push(b"behind it".to_vec());
        assert!(values(&log) == wanted, "life {life}");
        assert!(store.counters().rolls >= 3, "{:?}", store.counters());
        assert!(log.verify(None).wait().expect("looked at").rot.is_empty(), "life {life}");
        // Once in three it goes without a word.
        if life == 1 { drop(store) } else { store.close().expect("a clean close") }
    }
    let store = open(config.clone());
    let log = log_of(&store, "life");
    let (from, before) = (Offset(wanted.len() as u64 - 3), directories(&config.root, "life-"));
    log.trim(from).wait().expect("trimmed");
    store.delete_log(&topic("other"), RangeNumber::default()).expect("deleted");
    let gone = || directories(&config.root, "life-") < before && directories(&config.root, "other-") == 0;
    assert!(within(20, gone), "{before} directories, and now {}", directories(&config.root, "life-"));
    assert_eq!(read_from(&log, from).expect("readable").len(), 3);
    store.close().expect("a clean close");
    found
}
