//! Descriptors: how many of this process's the store may hold, decided once when it is opened. The limit is read and never changed.

use crate::config::{CheckedConfig, DESCRIPTORS_MIN, DESCRIPTORS_OF_ITS_OWN};
use crate::error::OpenError;
use strandline_disk::host::open_files;

/// What is left to the host: so much of the limit, within bounds. What else the process opens must not meet its limit because of the store.
const HOST_PART: u64 = 4;
const HOST_MIN: u64 = 16;
const HOST_MAX: u64 = 1_024;

/// The root and the lock on it.
const ROOT: u64 = 2;
/// A disk: its ring, or the two events that serve in its place; its doorbell; the root once more.
const DISK: u64 = 4;
/// The thread that removes files: the pool, the trash and the reserve, two segments that are filled or read again, and one that it removes.
const REMOVAL: u64 = 10;
/// Looks at names past the shards, and what is open for a moment only while the store is opened.
const LOOKS: u64 = 6;
/// What is opened beside the segments of a shard, one at a time: a directory that is deleted, an orphan that is moved.
const SHORT_LIVED: u64 = 4;

/// More are of no use by default: a ring's table has so many slots, and files beyond it are slower.
const DEFAULT_MAX: u64 = 4_096;

/// What was decided.
pub(super) struct Decided {
    /// The configuration, with the number of descriptors that this process's limit allows.
    pub(super) config: CheckedConfig,
    /// That limit; absent when there is none.
    pub(super) limit: Option<u64>,
    /// Why it is another number than was asked for.
    pub(super) warning: Option<String>,
}

/// Decides by the limit of this process.
pub(super) fn decide(config: &CheckedConfig) -> Result<Decided, OpenError> {
    let limit = open_files();
    let share = share(limit, config.descriptors_max, config.shards)?;
    let warning = config.descriptors_max.filter(|wanted| share < *wanted).map(|wanted| {
        format!(
            "The store holds {share} descriptors and not descriptors_max = {wanted}: raise the limit on open files."
        )
    });
    Ok(Decided { config: config.with_descriptors(share), limit, warning })
}

/// How many descriptors the segments of `shards` shards may have together, where the process may have `limit` and `wanted` were asked for.
fn share(limit: Option<u64>, wanted: Option<usize>, shards: usize) -> Result<usize, OpenError> {
    let shards = shards as u64;
    let fixed = ROOT + DISK * (shards + 1) + REMOVAL + LOOKS + (DESCRIPTORS_OF_ITS_OWN as u64 + SHORT_LIVED) * shards;
    let min = DESCRIPTORS_MIN as u64 * shards;
    let limit = limit.unwrap_or(u64::MAX);
    let host = limit.div_ceil(HOST_PART).clamp(HOST_MIN, HOST_MAX);
    let left = limit.saturating_sub(host).saturating_sub(fixed);
    if left < min {
        // With the least limit that would do, the host's part is a quarter of that.
        let least = (fixed + min).saturating_add(HOST_MIN).max(((fixed + min) * HOST_PART).div_ceil(HOST_PART - 1));
        return Err(OpenError::TooFewDescriptors { limit, least });
    }
    let most = wanted.map_or(DEFAULT_MAX.max(min), |wanted| wanted as u64);
    Ok(usize::try_from(left.min(most)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_keeps_its_part_and_the_store_gets_the_rest() {
        assert_eq!(share(Some(1_024), None, 1).ok(), Some(1_024 - 256 - 38));
        assert_eq!(share(Some(128), None, 1).ok(), Some(128 - 32 - 38));
        assert_eq!(share(Some(1 << 20), None, 1).ok(), Some(4_096));
        assert_eq!(share(None, None, 1).ok(), Some(4_096));
        assert_eq!(share(None, Some(9_000), 1).ok(), Some(9_000));
        assert_eq!(share(Some(1_024), Some(64), 2).ok(), Some(64));
        assert_eq!(share(Some(128), Some(9_000), 1).ok(), Some(58), "what was asked for is not there");
    }

    #[test]
    fn sc_04_a_limit_that_is_too_small_names_the_least_that_would_do() {
        for shards in [1, 2, 7, 64] {
            let Err(OpenError::TooFewDescriptors { limit: 20, least }) = share(Some(20), None, shards) else {
                panic!("20 are too few for {shards} shards");
            };
            assert!(share(Some(least), None, shards).is_ok(), "{shards} shards do with {least}");
            assert!(share(Some(least - 1), None, shards).is_err(), "{shards} shards do with fewer than {least}");
        }
    }
}
