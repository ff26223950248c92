//! A broken promise: which one, and what was seen.

use std::fmt;

/// A promise that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, as a sentence.
    pub promise: &'static str,
    /// What was seen instead.
    pub seen: String,
}

/// A value, or the promise that was broken on the way to it.
pub type Checked<T = ()> = Result<T, Violation>;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken promise: {}: {}", self.promise, self.seen)
    }
}

/// Says that a promise was broken.
///
/// # Errors
/// Always.
pub fn broken<T>(promise: &'static str, seen: impl Into<String>) -> Checked<T> {
    Err(Violation { promise, seen: seen.into() })
}

/// Checks that a promise holds; `seen` is asked only when it does not.
///
/// # Errors
/// The violation.
pub fn ensure(holds: bool, promise: &'static str, seen: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { broken(promise, seen()) }
}
