//! How much this process may pin and open. Reads limits, changes none.

use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

/// The locked-memory limit in bytes; absent when unlimited, or when we may pass it (CAP_IPC_LOCK).
pub(super) fn memlock_bytes() -> Option<u64> {
    let may_pass =
        rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if may_pass { None } else { getrlimit(Resource::Memlock).current }
}

/// How many files the ring's table may have: the kernel bounds it by the limit on open files.
pub(super) fn table_size(wanted: u32) -> u32 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(u32::try_from(limit).unwrap_or(u32::MAX))
}

/// The arena that the control group allows: a quarter of its limit at most, since registered memory is never reclaimed and
/// the page cache of buffered files, the host and its heap live under the same limit.
pub(super) fn arena_within(wanted: usize, group_limit: Option<u64>) -> usize {
    let quarter = group_limit.map_or(u64::MAX, |limit| limit / 4);
    wanted.min(usize::try_from(quarter).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arena_takes_at_most_a_quarter_of_a_memory_group() {
        assert_eq!(arena_within(64 << 20, None), 64 << 20);
        assert_eq!(arena_within(64 << 20, Some(1 << 30)), 64 << 20);
        assert_eq!(arena_within(64 << 20, Some(128 << 20)), 32 << 20);
    }
}
