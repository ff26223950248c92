//! Role: the logs of the load, and what each of them is there for.

use crate::content::LONG;
use std::time::Duration;

/// What is given up of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// What is over the bytes that its policy allows.
    Bytes,
    /// What is older than its policy allows.
    Age,
    /// What it is told to, by trims, truncations and deletions of segments.
    Told,
    /// All of it: the topic is deleted, and another one made, again and again.
    Guest,
}

/// One log.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// Its topic; of a guest the beginning of it.
    pub topic: &'static str,
    /// What the bytes of its batches follow from.
    pub of: usize,
    /// What is given up of it.
    pub keep: Keep,
    /// How long its writer rests between two bursts, at most.
    pub rest: Duration,
}

const fn role(topic: &'static str, of: usize, keep: Keep, rest_ms: u64) -> Role {
    Role { topic, of, keep, rest: Duration::from_millis(rest_ms) }
}

/// All of them.
pub const ROLES: [Role; 8] = [
    role("orders", 0, Keep::Bytes, 20),
    role("frames", LONG + 1, Keep::Bytes, 60),
    role("clicks", 2, Keep::Age, 20),
    role("metrics", LONG + 3, Keep::Age, 100),
    role("replica", 4, Keep::Told, 30),
    role("archive", LONG + 5, Keep::Told, 100),
    // It comes to rest between bursts: marked, clean, roused again.
    role("seldom", 6, Keep::Bytes, 3_000),
    role("guest", LONG + 7, Keep::Guest, 60),
];

/// What the policies allow, one or the other.
pub const BYTES_KEPT: [u64; 2] = [256 << 10, 512 << 10];
/// What the policies allow, one or the other, in milliseconds.
pub const AGES_KEPT_MS: [u64; 2] = [3_000, 6_000];

/// The name of the policy.
pub fn policy(keep: Keep) -> Option<&'static str> {
    match keep {
        Keep::Bytes => Some("by-bytes"),
        Keep::Age => Some("by-age"),
        Keep::Guest => Some("of-guests"),
        Keep::Told => None,
    }
}
