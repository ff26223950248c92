//! The record: a line of JSON for each run, and the table that is made of it.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use strandline_tests::tiers::Tally;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// When it ended, UTC.
    pub date: String,
    /// Which tier.
    pub tier: String,
    /// The first case.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// How many were run.
    pub runs: u64,
    /// How many there are, where they have an end.
    pub of: Option<u64>,
    /// What was done.
    pub tally: Tally,
    /// Of the host.
    pub kernel: String,
    /// That the files were on; "simulated" for the simulated disk.
    pub file_system: String,
    /// What was built.
    pub commit: String,
    /// How long it took.
    pub seconds: f64,
    /// Cases that broke a promise.
    pub violations: u64,
}

/// Where it runs.
#[derive(Debug)]
pub struct Host {
    /// Its kernel.
    pub kernel: String,
    /// That real files are on.
    pub file_system: String,
    /// What was built: `STRANDLINE_COMMIT`, else what git says of the directory.
    pub commit: String,
}

impl Host {
    /// Looks at the host; `real` when real files are used.
    pub fn look(real: bool) -> Host {
        let described = || {
            let output = Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
            (output.status.success() && !text.is_empty()).then_some(text)
        };
        let commit = std::env::var("STRANDLINE_COMMIT").ok().or_else(described);
        Host {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            file_system: if real { file_system() } else { "simulated".to_owned() },
            commit: commit.unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

/// What the directory for temporary files is on.
fn file_system() -> String {
    match rustix::fs::statfs(std::env::temp_dir()).map(|stat| stat.f_type as u64) {
        Ok(0xef53) => "ext4".to_owned(),
        Ok(0x5846_5342) => "xfs".to_owned(),
        Ok(0x9123_683e) => "btrfs".to_owned(),
        Ok(0x0102_1994) => "tmpfs".to_owned(),
        Ok(0x794c_7630) => "overlayfs".to_owned(),
        Ok(other) => format!("{other:#x}"),
        Err(error) => error.to_string(),
    }
}

/// The runs of a record; none when there is no such file.
///
/// # Panics
/// When a line is no run.
pub fn read(path: &Path) -> Vec<Run> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).collect()
}

/// Adds a run.
///
/// # Panics
/// When it cannot be written.
pub fn add(path: &Path, run: &Run) {
    let line = serde_json::to_string(run).expect("plain data");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The case at which a tier goes on: behind what was run in one piece from 0.
pub fn next(runs: &[Run], tier: &str) -> u64 {
    let of_tier = runs.iter().filter(|run| run.tier == tier && run.violations == 0);
    let mut pieces: Vec<(u64, u64)> = of_tier.map(|run| (run.from, run.to)).collect();
    pieces.sort_unstable();
    pieces.into_iter().fold(0, |end, (from, to)| if from <= end { end.max(to) } else { end })
}

/// A table of all runs, and the sums of each tier.
pub fn table(runs: &[Run]) -> String {
    let mut text = String::from(
        "| date | tier | cases | runs | crashes | dropped changes | faults | kernel | file system | commit | seconds | violations |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for run in runs {
        let Tally { crashes, dropped, faults } = run.tally;
        let of = run.of.map_or(String::new(), |of| format!(" of {of}"));
        let _ = writeln!(
            text,
            "| {} | {} | {}..{}{of} | {} | {crashes} | {dropped} | {faults} | {} | {} | {} | {:.0} | {} |",
            run.date,
            run.tier,
            run.from,
            run.to,
            run.runs,
            run.kernel,
            run.file_system,
            run.commit,
            run.seconds,
            run.violations
        );
    }
    let mut tiers: Vec<&str> = runs.iter().map(|run| &*run.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    for tier in tiers {
        let of_tier = runs.iter().filter(|run| run.tier == tier);
        let (mut sum, mut count, mut violations, mut seconds) = (Tally::default(), 0, 0, 0.0);
        for run in of_tier {
            sum += run.tally;
            count += run.runs;
            violations += run.violations;
            seconds += run.seconds;
        }
        let Tally { crashes, dropped, faults } = sum;
        let _ = writeln!(
            text,
            "{tier}: {count} runs, {crashes} crashes, {dropped} dropped changes, {faults} faults, {seconds:.0} s, {violations} \
             violations in all"
        );
    }
    text
}
