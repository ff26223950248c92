//! What opening a store found: counted for each log by itself, then added up.

use std::time::Duration;

/// What opening a store found.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// Logs in the store.
    pub logs: usize,
    /// Logs of which no file had to be looked at: the manifest says where they end.
    pub logs_clean: usize,
    /// Logs whose last segment was read to find out where they end.
    pub logs_recovered: usize,
    /// Bytes that were scanned because their segments had no footer.
    pub scanned_bytes: u64,
    /// Bytes past a durable end that were cleared: they had never been acknowledged.
    pub torn_bytes: u64,
    /// How long recovery took.
    pub took: Duration,
    /// What is damaged, a sentence each. It is kept as it is.
    pub damaged: Vec<String>,
    /// Directories that belong to no segment that the manifest knows. They are left alone.
    pub strays: Vec<String>,
    /// The soft limit on open files of this process, as it was when the store was opened; absent when there is none.
    pub open_files_limit: Option<u64>,
    /// How many descriptors the store may hold for segments, by that and by the configuration. Absent of a part of a store.
    pub descriptors_max: Option<usize>,
    /// Where plain system calls serve in place of a ring, because there is none to be had: why, and what to change.
    pub fallback: Option<String>,
    /// Everything else that an operator should know, a sentence each.
    pub warnings: Vec<String>,
}

impl OpenReport {
    /// Adds what another part of the store found. The parts were opened side by side: the longest tells how long it took.
    pub fn absorb(&mut self, part: OpenReport) {
        self.logs += part.logs;
        self.logs_clean += part.logs_clean;
        self.logs_recovered += part.logs_recovered;
        self.scanned_bytes += part.scanned_bytes;
        self.torn_bytes += part.torn_bytes;
        self.took = self.took.max(part.took);
        self.damaged.extend(part.damaged);
        self.strays.extend(part.strays);
        self.fallback = self.fallback.take().or(part.fallback);
        self.warnings.extend(part.warnings);
    }
}
