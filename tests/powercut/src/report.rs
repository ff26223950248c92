//! Report: what was cut and found, as a table and as a line of JSON.

use crate::cut::Mode;
use crate::mounted::FileSystem;
use crate::shape::{Defect, Io, Sync};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

/// What is counted for each way to cut.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Cuts that were checked.
    pub cuts: u64,
    /// Writes that were not there at all.
    pub dropped: u64,
    /// Writes that were there in part.
    pub torn: u64,
    /// Batches that were read and compared.
    pub batches: u64,
    /// Bytes that opening cleared.
    pub cleared: u64,
    /// Torn disks that the kernel does not mount: the file system's own limit, and nothing of the store was checked.
    pub refused: u64,
    /// Cuts after which something was wrong.
    pub violations: u64,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which file system.
    pub file_system: FileSystem,
    /// The first seed.
    pub seed: u64,
    /// The deliberate defect, if any.
    pub sabotage: Option<Defect>,
    /// The kernel.
    pub kernel: String,
    /// The commit of the source, with `+` where it was changed since.
    pub commit: String,
    /// Workloads that were cut.
    pub workloads: u64,
    /// Segments that they began.
    pub rolls: u64,
    /// Files that they used again.
    pub reused: u64,
    /// Barriers that stood for several logs.
    pub barriers: u64,
    /// Cuts that stand in the recovery after another one.
    pub again: u64,
    /// Milliseconds that the run took.
    pub took_ms: u64,
    /// All ways together.
    pub total: Counts,
    /// Each way by itself.
    #[serde(skip)]
    pub ways: BTreeMap<(Io, Sync, &'static str), Counts>,
    /// What was found to be wrong, with how to see it again.
    pub violations: Vec<String>,
}

/// The name of a mode.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Prefix => "prefix",
        Mode::Subset => "subset",
        Mode::Torn => "torn",
        Mode::Drop => "drop",
        Mode::Strict => "strict",
    }
}

impl Counts {
    /// Adds what one cut came to.
    pub fn add(&mut self, other: Counts) {
        self.cuts += other.cuts;
        self.dropped += other.dropped;
        self.torn += other.torn;
        self.batches += other.batches;
        self.cleared += other.cleared;
        self.refused += other.refused;
        self.violations += other.violations;
    }
}

impl Report {
    /// Of a run that begins.
    pub fn new(file_system: FileSystem, seed: u64, sabotage: Option<Defect>) -> Report {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Report {
            file_system,
            seed,
            sabotage,
            kernel,
            commit: commit(),
            workloads: 0,
            rolls: 0,
            reused: 0,
            barriers: 0,
            again: 0,
            took_ms: 0,
            total: Counts::default(),
            ways: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    /// Adds what one cut came to.
    pub fn add(&mut self, io: Io, sync: Sync, mode: Mode, counts: Counts) {
        self.total.add(counts);
        self.ways.entry((io, sync, mode_name(mode))).or_default().add(counts);
    }
}

/// The commit: `STRANDLINE_COMMIT` where that is set, else that of the directory, with a plus where something was changed since.
pub fn commit() -> String {
    if let Ok(commit) = std::env::var("STRANDLINE_COMMIT") {
        return commit;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short", "HEAD"]), git(&["status", "--porcelain", "--untracked-files=no"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => commit + "+",
        _ => "unknown".to_owned(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| io | sync | mode | cuts | dropped | torn | batches read | bytes cleared | not mounted | violations |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        let line = |f: &mut fmt::Formatter<'_>, way: &str, of: &Counts| {
            let Counts { cuts, dropped, torn, batches, cleared, refused, violations } = of;
            writeln!(f, "| {way} | {cuts} | {dropped} | {torn} | {batches} | {cleared} | {refused} | {violations} |")
        };
        for ((io, sync, mode), counts) in &self.ways {
            line(f, &format!("{io:?} | {sync:?} | {mode}").to_lowercase(), counts)?;
        }
        line(f, "all | | ", &self.total)?;
        let Report { file_system, seed, kernel, commit, workloads, rolls, reused, barriers, again, took_ms, .. } = self;
        let name = file_system.name();
        write!(f, "{name}, seed {seed}, kernel {kernel}, commit {commit}: {workloads} workloads with {rolls} rolls, ")?;
        writeln!(
            f,
            "{reused} files used again, {barriers} barriers; {again} of the cuts during a recovery; {:.1} s",
            *took_ms as f64 / 1e3
        )
    }
}
