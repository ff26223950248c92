//! How much this process may pin and open. Reads limits, changes none.

use super::control_group;
use super::options::DiskOptions;
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

/// The locked-memory limit in bytes; absent when unlimited, or when we may pass it (CAP_IPC_LOCK).
pub(crate) fn memlock_bytes() -> Option<u64> {
    let may_pass =
        rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if may_pass { None } else { getrlimit(Resource::Memlock).current }
}

/// A limit as a message has it.
pub(crate) fn say(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "not limited".to_owned(), |bytes| format!("limited to {bytes} bytes"))
}

/// How many descriptors this process may have: the soft limit on open files; absent when unlimited.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// How many files the ring's table may have: the kernel bounds it by the limit on open files.
pub(crate) fn table_size(wanted: u32) -> u32 {
    let limit = open_files().unwrap_or(u64::MAX);
    wanted.min(u32::try_from(limit).unwrap_or(u32::MAX))
}

/// The arena that the options ask for and the control group allows.
pub(crate) fn arena_bytes(options: &DiskOptions) -> usize {
    let bytes = arena_within(options.arena_bytes, control_group::memory_limit());
    bytes.max(options.arena_bytes_min.min(options.arena_bytes))
}

/// Why an arena is smaller than it was to be, where it is.
pub(crate) fn explain_arena(wanted: usize, allowed: usize) -> Option<String> {
    let reason = || format!("The arena is {allowed} of {wanted} bytes: a quarter of the control group's memory limit.");
    (allowed < wanted).then(reason)
}

/// The arena that the control group allows: a quarter of its limit at most, since registered memory is never reclaimed and
/// the page cache of buffered files, the host and its heap live under the same limit.
fn arena_within(wanted: usize, group_limit: Option<u64>) -> usize {
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
