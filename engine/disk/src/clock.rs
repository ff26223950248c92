//! The two clocks that decisions use. Read at the edge, passed in everywhere else.

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall-clock time in milliseconds since 1970. May jump; stamps records.
    pub wall_ms: u64,
    /// Time since boot in nanoseconds, suspended time included. Never jumps; times waits.
    pub boot_ns: u64,
}
