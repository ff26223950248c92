//! Metrics: every name that a report may carry. They are read by other people's scripts: add, never rename.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Metric {
    /// Half of all operations took at most this long.
    P50,
    /// 99 of 100 took at most this long.
    P99,
    /// 999 of 1,000 took at most this long.
    P999,
    /// The slowest of all rounds.
    Max,
    /// Records per second of wall time.
    RecordsPerSecond,
    /// Payload bytes per second of wall time.
    MibPerSecond,
    /// CPU time of the whole process, per record.
    CpuPerRecord,
    /// Wall time of a round over all logs, divided by its writes.
    UsPerWrite,
    /// The same; its ceiling is a bare ring that syncs each file by itself.
    PerFileUsPerWrite,
    /// Calls of `io_uring_enter` on the shard's thread, per commit.
    SyscallsPerCommit,
    /// Records that one commit made durable together.
    RecordsPerCommit,
    /// Records per second that were asked for.
    Offered,
    /// Of what was asked for, the part that found the backlog full and was given up.
    Unserved,
    /// Bytes of removed files per second, from the deletion until they were gone.
    RemovedMibPerSecond,
    /// Bytes of sealed segments that were read again, per second.
    ScrubbedMibPerSecond,
    /// From the moment when many segments are due until none is.
    Backlog,
    /// Passes of the sweeper for that.
    Passes,
    /// Segments that expired in that time, per second.
    SegmentsPerSecond,
    /// Directories that were emptied and removed, per second; its ceiling removes one after the other.
    DirectoriesPerSecond,
    /// The same; its ceiling is `rm -rf` of all.
    RmDirectoriesPerSecond,
    /// Of the time in which directories are given up and removed, only that of the removal.
    TrashDirectoriesPerSecond,
    /// Files that were unlinked, for each 1,000 segments turned over.
    Unlinks,
    /// Directories that were removed, for each 1,000 segments turned over.
    Rmdirs,
    /// Files that were made and allocated, for each 1,000 segments turned over.
    Fallocates,
    /// What the process read from the disk while records were read.
    DiskRead,
    /// CPU time of the whole process, as a part of one core.
    CpuPercent,
    /// From the call that opens a store to the store.
    Open,
    /// The same of a store that was closed in order.
    OpenClean,
    /// From the call that closes a store until it is closed.
    Close,
    /// The first append to a log since the store was opened, on the average.
    FirstAppend,
    /// Resident memory of the process.
    Rss,
    /// Registered memory of it.
    Arena,
    /// What more resident memory there is than with one log, divided by the logs.
    BytesPerLog,
    /// Open descriptors of the process.
    Descriptors,
}

/// How the rounds of one case become one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// The median of the rounds.
    Median,
    /// The largest of the rounds.
    Largest,
}

impl Metric {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Metric; 34] = [
        Metric::P50,
        Metric::P99,
        Metric::P999,
        Metric::Max,
        Metric::RecordsPerSecond,
        Metric::MibPerSecond,
        Metric::CpuPerRecord,
        Metric::UsPerWrite,
        Metric::PerFileUsPerWrite,
        Metric::SyscallsPerCommit,
        Metric::RecordsPerCommit,
        Metric::Offered,
        Metric::Unserved,
        Metric::RemovedMibPerSecond,
        Metric::ScrubbedMibPerSecond,
        Metric::Backlog,
        Metric::Passes,
        Metric::SegmentsPerSecond,
        Metric::DirectoriesPerSecond,
        Metric::RmDirectoriesPerSecond,
        Metric::TrashDirectoriesPerSecond,
        Metric::Unlinks,
        Metric::Rmdirs,
        Metric::Fallocates,
        Metric::DiskRead,
        Metric::CpuPercent,
        Metric::Open,
        Metric::OpenClean,
        Metric::Close,
        Metric::FirstAppend,
        Metric::Rss,
        Metric::Arena,
        Metric::BytesPerLog,
        Metric::Descriptors,
    ];

    /// Its name in reports and in `targets.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Metric::P50 => "p50_us",
            Metric::P99 => "p99_us",
            Metric::P999 => "p999_us",
            Metric::Max => "max_us",
            Metric::RecordsPerSecond => "records_per_second",
            Metric::MibPerSecond => "mib_per_second",
            Metric::CpuPerRecord => "cpu_us_per_record",
            Metric::UsPerWrite => "us_per_write",
            Metric::PerFileUsPerWrite => "per_file_us_per_write",
            Metric::SyscallsPerCommit => "syscalls_per_commit",
            Metric::RecordsPerCommit => "records_per_commit",
            Metric::Offered => "offered_per_second",
            Metric::Unserved => "unserved_percent",
            Metric::RemovedMibPerSecond => "removed_mib_per_second",
            Metric::ScrubbedMibPerSecond => "scrubbed_mib_per_second",
            Metric::Backlog => "backlog_ms",
            Metric::Passes => "passes",
            Metric::SegmentsPerSecond => "segments_per_second",
            Metric::DirectoriesPerSecond => "directories_per_second",
            Metric::RmDirectoriesPerSecond => "rm_directories_per_second",
            Metric::TrashDirectoriesPerSecond => "trash_directories_per_second",
            Metric::Unlinks => "unlinks_per_1000",
            Metric::Rmdirs => "rmdirs_per_1000",
            Metric::Fallocates => "fallocates_per_1000",
            Metric::DiskRead => "disk_read_kib",
            Metric::CpuPercent => "cpu_percent",
            Metric::Open => "open_ms",
            Metric::OpenClean => "open_clean_ms",
            Metric::Close => "close_ms",
            Metric::FirstAppend => "first_append_us",
            Metric::Rss => "rss_mib",
            Metric::Arena => "arena_mib",
            Metric::BytesPerLog => "bytes_per_log",
            Metric::Descriptors => "descriptors",
        }
    }

    /// How its rounds become one figure. A worst case is never smoothed.
    pub fn summary(self) -> Summary {
        match self {
            Metric::Max | Metric::Unserved | Metric::DiskRead | Metric::Backlog => Summary::Largest,
            Metric::Unlinks | Metric::Rmdirs | Metric::Fallocates => Summary::Largest,
            _ => Summary::Median,
        }
    }
}

impl Summary {
    /// The figure of these rounds; `None` when there were none.
    pub fn of(self, rounds: impl Iterator<Item = f64>) -> Option<f64> {
        let mut rounds: Vec<f64> = rounds.collect();
        rounds.sort_by(f64::total_cmp);
        let (last, middle) = (rounds.len().checked_sub(1)?, rounds.len() / 2);
        Some(match self {
            Summary::Largest => rounds[last],
            Summary::Median if rounds.len().is_multiple_of(2) => f64::midpoint(rounds[middle - 1], rounds[middle]),
            Summary::Median => rounds[middle],
        })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Metric> for &'static str {
    fn from(metric: Metric) -> &'static str {
        metric.name()
    }
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(name: String) -> Result<Metric, String> {
        let known = || Metric::ALL.map(Metric::name).join(", ");
        Metric::ALL.into_iter().find(|m| m.name() == name).ok_or_else(|| format!("no metric {name:?}: use {}", known()))
    }
}

/// One figure and its ceiling, as a scenario measured them.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The scenario.
    pub scenario: &'static str,
    /// The case.
    pub case: String,
    /// What was measured.
    pub metric: Metric,
    /// What the store did.
    pub value: f64,
    /// What the bare ring did in the same run; absent where it has no such figure.
    pub ceiling: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_metric_both_ways() {
        for metric in Metric::ALL {
            assert_eq!(Metric::try_from(metric.name().to_owned()), Ok(metric));
        }
        assert!(Metric::try_from("p98_us".to_owned()).expect_err("unknown").contains("p99_us"));
    }

    #[test]
    fn rounds_become_their_median_and_a_worst_case_stays_the_worst() {
        let of = |summary: Summary, rounds: &[f64]| summary.of(rounds.iter().copied());
        assert_eq!(of(Metric::P99.summary(), &[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(of(Metric::P99.summary(), &[9.0, 1.0, 5.0, 6.0]), Some(5.5));
        assert_eq!(of(Metric::P99.summary(), &[7.0]), Some(7.0));
        assert_eq!(of(Metric::Max.summary(), &[9.0, 1.0, 5.0]), Some(9.0));
        assert_eq!(of(Summary::Median, &[]), None);
    }
}
