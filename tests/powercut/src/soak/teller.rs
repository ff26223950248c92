//! Teller: says what happens, a line at a time, from any thread. What was told before a kill has been told.

use super::told::{Counted, Told};
use crate::server::lock;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use strandline::VerbError;
use strandline_tests::tiers::promise::{Broken, Promise};

/// Speaks to the run.
#[derive(Debug, Default)]
pub struct Teller {
    line: Mutex<Vec<u8>>,
    /// Changes of policies, topics that were made, batches that readers took.
    pub policies: AtomicU64,
    /// As above.
    pub topics: AtomicU64,
    /// As above.
    pub read: AtomicU64,
}

/// Wall time in milliseconds.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl Teller {
    /// Says it. A process that nobody hears any more ends.
    pub fn tell(&self, told: &Told) {
        let mut line = lock(&self.line);
        line.clear();
        let written = serde_json::to_writer(&mut *line, told).map_err(std::io::Error::from).and_then(|()| {
            line.push(b'\n');
            std::io::stdout().lock().write_all(&line)
        });
        if written.is_err() {
            std::process::exit(3);
        }
        line.shrink_to(64 << 10);
    }

    /// Says that something was refused.
    pub fn refused(&self, doing: &str, error: impl std::fmt::Display) {
        self.tell(&Told::Refused(doing.to_owned(), error.to_string()));
    }

    /// Says that a verb was refused, unless what it was asked of has gone by itself meanwhile.
    pub fn refused_unless_gone<T>(&self, doing: &str, answer: Result<T, VerbError>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(
                VerbError::NoSuchLog { .. }
                | VerbError::NoSuchSegment { .. }
                | VerbError::NotOldest { .. }
                | VerbError::NotSealed { .. }
                | VerbError::OutOfRange { .. },
            ) => None,
            Err(error) => {
                self.refused(doing, error);
                None
            }
        }
    }

    /// Says that a promise was broken.
    pub fn broke(&self, promise: Promise, seen: impl Into<String>) {
        self.tell(&Told::Broke(Broken::new(promise, seen)));
    }

    /// What was counted here.
    pub fn counted(&self) -> Counted {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counted {
            policies: get(&self.policies),
            topics: get(&self.topics),
            read: get(&self.read),
            ..Counted::default()
        }
    }
}
