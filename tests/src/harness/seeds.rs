//! Which seeds a test runs: fixed ones, so that a run can be compared with the last, and fresh ones, so that each run tries
//! something new. `STRANDLINE_SEED` runs that one alone; `STRANDLINE_SEEDS` says how many of each kind.

use super::violation::{Checked, broken};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the simulated disk ends a run for.
pub const NO_OVERLAP: &str = "no block is written twice at once, also not beside what a dead process had in flight";

/// The seeds of a test that runs `count` fixed and a quarter as many fresh ones unless the environment says otherwise.
///
/// # Panics
/// When a variable is set and is no number.
#[must_use]
pub fn seeds(count: u64) -> Vec<u64> {
    if let Some(seed) = number("STRANDLINE_SEED") {
        return vec![seed];
    }
    let asked = number("STRANDLINE_SEEDS");
    let (fixed, fresh) = (asked.unwrap_or(count), asked.unwrap_or(count / 4));
    let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let start = start / 1_000 % 1_000_000_000_000;
    eprintln!("seeds 0..{fixed} and {start}..{}", start + fresh);
    (0..fixed).chain(start..start + fresh).collect()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} = {text} is no number")))
}

/// Runs a test for every seed and fails with the seed of the first that breaks a promise.
///
/// # Panics
/// With the seed and the broken promise.
pub fn for_each_seed(count: u64, mut run: impl FnMut(u64) -> Checked) {
    for seed in seeds(count) {
        if let Err(violation) = outcome(|| run(seed)) {
            panic!("STRANDLINE_SEED={seed}: {violation}");
        }
    }
}

/// What a run came to; a panic counts as a broken promise, since nothing may panic.
///
/// # Errors
/// What was broken.
pub fn outcome<T>(run: impl FnOnce() -> Checked<T>) -> Checked<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(checked) => checked,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let text = text.unwrap_or_else(|| "no message".to_owned());
            // The simulated disk looks for this itself: what then is on the medium nobody can say.
            let overlap = text.starts_with("two writes in flight touch the same block");
            broken(if overlap { NO_OVERLAP } else { "nothing panics" }, text)
        }
    }
}
