//! Fit: what a configuration may take, beside what the host's limits allow. Decides, and reads nothing.

use super::removing;
use crate::config::{CheckedConfig, grade};
use crate::error::OpenError;

/// The least limit on memory under which a store opens, in bytes. Threads, rings, what is known of logs and the program itself take most of it.
const MEMORY_BYTES_MIN: u64 = 48 << 20;

/// What the sizes of memory are rounded down to, in bytes.
const PIECE: u64 = 64 << 10;

/// The field that decides how large the largest file of a store is, and that size in bytes.
pub(super) fn largest_file(config: &CheckedConfig) -> (&'static str, u64) {
    let mut largest = ("segment_bytes", grade(config.segment_bytes));
    let others = [
        ("manifest_bytes", config.manifest_bytes),
        ("audit_bytes", config.audit_bytes),
        ("reserve_bytes", config.reserve_bytes),
    ];
    for other in others {
        if other.1 > largest.1 {
            largest = other;
        }
    }
    largest
}

/// The configuration with as much memory as the limit of the control group allows, and what to tell of that. Going past that limit is an OOM
/// kill and no error, so a quarter of it is for the arenas of all threads, an eighth for their tail caches, an eighth for payloads that wait,
/// and half for everything else: what readers hold, the heap of the host and what it leaves unused, the page cache. Nothing is raised.
pub(super) fn within_memory(
    config: CheckedConfig,
    limit_bytes: Option<u64>,
) -> Result<(CheckedConfig, Option<String>), OpenError> {
    let Some(limit_bytes) = limit_bytes else { return Ok((config, None)) };
    let (shards, removing) = (config.shards as u64, removing::ARENA_BYTES as u64);
    let pinned = shards * config.arena_bytes_min() as u64 + removing;
    let needed_bytes = MEMORY_BYTES_MIN.max(4 * pinned).max(8 * u64::from(config.batch_bytes_max));
    if limit_bytes < needed_bytes {
        return Err(OpenError::MemoryLimit { needed_bytes, limit_bytes });
    }
    let (quarter, eighth) = (limit_bytes / 4, limit_bytes / 8);
    let less = |wanted: usize, share: u64| wanted.min(usize::try_from(share / PIECE * PIECE).unwrap_or(usize::MAX));
    let arena = less(config.arena_bytes, (quarter - removing) / shards).max(config.arena_bytes_min());
    let tail = less(config.tail_cache_bytes, eighth / shards);
    let outstanding = less(config.outstanding_bytes_max, eighth).max(config.batch_bytes_max as usize);
    let mut told = Vec::new();
    for (field, wanted, given) in [
        ("arena_bytes", config.arena_bytes, arena),
        ("tail_cache_bytes", config.tail_cache_bytes, tail),
        ("outstanding_bytes_max", config.outstanding_bytes_max, outstanding),
    ] {
        if given < wanted {
            told.push(format!("{field} is {given} instead of {wanted}"));
        }
    }
    let told = (!told.is_empty())
        .then(|| format!("The memory limit of the control group is {limit_bytes} bytes: {}.", told.join(", ")));
    Ok((config.with_memory(arena, tail, outstanding), told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn checked(config: Config) -> CheckedConfig {
        config.check().expect("it can work")
    }

    #[test]
    fn the_largest_file_is_known_by_the_field_that_decides_about_it() {
        let of = |config: Config| largest_file(&checked(config));
        assert_eq!(of(Config::new("store")), ("segment_bytes", 64 << 20));
        assert_eq!(of(Config { segment_bytes: 5 << 20, ..Config::new("store") }), ("segment_bytes", 8 << 20));
        assert_eq!(of(Config { manifest_bytes: 1 << 30, ..Config::new("store") }), ("manifest_bytes", 1 << 30));
        assert_eq!(of(Config { reserve_bytes: 1 << 31, ..Config::new("store") }), ("reserve_bytes", 1 << 31));
    }

    #[test]
    fn without_a_limit_or_with_enough_memory_nothing_changes_and_nothing_is_said() {
        for limit in [None, Some(1 << 30)] {
            let (config, told) = within_memory(checked(Config::new("store")), limit).expect("enough");
            assert_eq!((&*config, told), (&Config::new("store"), None));
        }
    }

    #[test]
    fn all_threads_share_half_of_the_limit_and_it_is_said_what_became_smaller() {
        for shards in [1, 2, 4] {
            let wanted = Config { shards, ..Config::new("store") };
            for limit in [48_u64 << 20, 64 << 20, 100 << 20, 256 << 20] {
                let Ok((config, told)) = within_memory(checked(wanted.clone()), Some(limit)) else {
                    assert!(limit < 4 * (shards as u64 * (4 << 20) + (4 << 20)), "{shards} shards in {limit} bytes");
                    continue;
                };
                let arenas = shards * config.arena_bytes + removing::ARENA_BYTES;
                assert!(arenas as u64 <= limit / 4, "{shards} shards in {limit} bytes");
                assert!((shards * config.tail_cache_bytes) as u64 <= limit / 8);
                assert!(config.outstanding_bytes_max as u64 <= limit / 8);
                assert_eq!(told.is_some(), *config != wanted);
                (*config).clone().check().expect("what is left can work");
            }
        }
        let (_, told) = within_memory(checked(Config::new("store")), Some(64 << 20)).expect("enough");
        let told = told.expect("said");
        assert!(told.contains("is 67108864 bytes: arena_bytes is 12582912 instead of 33554432, tail_cache"), "{told}");
    }

    #[test]
    fn a_limit_that_the_least_does_not_fit_is_refused_with_what_is_needed() {
        let refused = |config: Config, limit| within_memory(checked(config), Some(limit)).expect_err("too small");
        let small = refused(Config::new("store"), (48 << 20) - 4096);
        assert!(matches!(small, OpenError::MemoryLimit { needed_bytes: 50_331_648, limit_bytes: 50_327_552 }));
        let many = refused(Config { shards: 8, ..Config::new("store") }, 128 << 20);
        assert!(matches!(many, OpenError::MemoryLimit { needed_bytes: 150_994_944, .. }), "{many}");
        within_memory(checked(Config { shards: 8, ..Config::new("store") }), Some(150_994_944)).expect("just enough");
    }
}
