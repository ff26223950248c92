//! A victim: written segments in a topic of their own, which a scenario has removed while it measures something else.

use super::Subject;
use crate::error::{BenchError, io, store};
use crate::interrupt::Interrupt;
use crate::noise::noise;
use std::path::Path;
use std::time::{Duration, Instant};
use strandline::{Counters, Topic};

const TOPIC: &str = "victim";
const VALUE_BYTES: u64 = 256 << 10;

/// How often the store is asked how many files it has done with, which costs next to nothing.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// How often it is looked at least whether bytes are still there: seldom enough that looking does not show.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Segments that are there to be removed.
pub struct Victim<'a> {
    subject: &'a Subject,
    bytes: u64,
}

/// What became of a victim.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    /// Bytes of files that are gone, into the pool or back to the file system.
    pub bytes: u64,
    /// From the deletion until they were, or until nobody waited any longer.
    pub time: Duration,
}

impl Victim<'_> {
    /// Writes segments of so many bytes together.
    ///
    /// # Errors
    /// What the store answered.
    pub fn write<'a>(subject: &'a Subject, bytes: u64, interrupt: &Interrupt) -> Result<Victim<'a>, BenchError> {
        let lanes = subject.logs_of(TOPIC, 1, subject.segment_bytes)?;
        lanes[0].fill(&noise(VALUE_BYTES as usize), bytes / VALUE_BYTES, interrupt)?;
        Ok(Victim { subject, bytes: bytes_below(&subject.root)? })
    }

    /// Deletes the topic and waits until the last byte is gone, or for so long.
    ///
    /// # Errors
    /// What the store answered.
    pub fn remove(self, patience: Duration) -> Result<Removed, BenchError> {
        let (topic, started) = (Topic::new(TOPIC).map_err(store("naming a topic"))?, Instant::now());
        self.subject.store.delete_topic(&topic).map_err(store("deleting a topic"))?;
        loop {
            let done = self.files_done();
            let (left, looked) = (bytes_below(&self.subject.root)?, Instant::now());
            let time = looked - started;
            if left == 0 || time > patience {
                return Ok(Removed { bytes: self.bytes.saturating_sub(left), time });
            }
            while self.files_done() == done && looked.elapsed() < LOOK_EVERY {
                std::thread::sleep(ASK_EVERY);
            }
        }
    }

    /// How many files the store has given to its pool or unlinked so far, by its own account.
    fn files_done(&self) -> u64 {
        let Counters { spared, removal, .. } = self.subject.store.counters();
        spared + removal.files
    }
}

/// Bytes of files in directories of the victim, by the file system's own account. What goes while it is looked at is gone.
fn bytes_below(root: &Path) -> Result<u64, BenchError> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(root).map_err(io(format!("listing {}", root.display())))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(TOPIC) {
            let files = std::fs::read_dir(entry.path()).into_iter().flatten().flatten();
            bytes += files.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum::<u64>();
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{config, with_segments_of};

    #[test]
    fn a_victim_is_as_large_as_its_files_and_is_gone_when_it_was_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = with_segments_of(config(&directory.path().join("store")), 2 << 20);
        config.spare_bytes_max = 0;
        let subject = Subject::open(config).expect("a store");
        let victim = Victim::write(&subject, 5 << 20, &Interrupt::default()).expect("written");
        let bytes = victim.bytes;
        assert!(bytes >= 6 << 20, "{bytes}");
        let removed = victim.remove(Duration::from_secs(20)).expect("removed");
        assert_eq!((removed.bytes, bytes_below(&subject.root).expect("listed")), (bytes, 0));
        subject.close().expect("closed");
    }
}
