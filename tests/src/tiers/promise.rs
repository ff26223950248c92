//! The promises that power cuts and faults below a file system hold a store to. The rest of the harness names its promises where it checks
//! them; these pass between processes, and have to be one of a list.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A promise. One that stands further up outweighs those below it where several are broken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Nothing that was answered as durable, or shown, is lost.
    Kept,
    /// Nothing else than what was appended is there, and nothing that was given up.
    Right,
    /// What is there can be read, and is not called damaged.
    Readable,
    /// Directories and the manifest tell the same.
    Placed,
    /// Nothing is refused where nothing fails.
    GoesOn,
    /// One log's failure is not another's.
    Apart,
    /// No process dies, panics or hangs.
    Lives,
    /// What is below the store comes up again.
    Mounts,
}

impl Promise {
    /// As a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Promise::Kept => "what was acknowledged or shown is there",
            Promise::Right => "only what was appended is there, in its order",
            Promise::Readable => "what is there can be read",
            Promise::Placed => "every directory is accounted for",
            Promise::GoesOn => "nothing is refused where nothing fails",
            Promise::Apart => "one log's failure is not another's",
            Promise::Lives => "no process dies, panics or hangs",
            Promise::Mounts => "the file system comes up",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// Which one.
    pub promise: Promise,
    /// What was seen instead.
    pub seen: String,
}

impl Broken {
    /// Of this promise.
    pub fn new(promise: Promise, seen: impl Into<String>) -> Broken {
        Broken { promise, seen: seen.into() }
    }

    /// The same, seen there.
    #[must_use]
    pub fn of(self, place: impl fmt::Display) -> Broken {
        Broken { seen: format!("{place}: {}", self.seen), ..self }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.seen)
    }
}
