//! The record: a line of JSON for each run of a tier, and the table that is made of it. `strandline-campaign` and `strandline-powercut` write
//! into the same one.

use crate::tiers::Tally;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// When it ended, UTC.
    pub date: String,
    /// Which tier.
    pub tier: String,
    /// The first case; where a seed decides many cases, the first seed.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// How many cases were run.
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
    /// That files are on.
    pub file_system: String,
    /// What was built: `STRANDLINE_COMMIT`, else what git says of the directory.
    pub commit: String,
}

impl Host {
    /// Looks at the host. The files are on `file_system`.
    #[must_use]
    pub fn look(file_system: impl Into<String>) -> Host {
        let described = || {
            let output = Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
            (output.status.success() && !text.is_empty()).then_some(text)
        };
        let commit = std::env::var("STRANDLINE_COMMIT").ok().or_else(described);
        Host {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            file_system: file_system.into(),
            commit: commit.unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

/// What stands for the file system where the disk is simulated.
pub const SIMULATED: &str = "simulated";

/// What the directory for temporary files is on.
#[must_use]
pub fn of_temporary_files() -> String {
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
#[must_use]
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

impl Run {
    /// A run that ends now, of cases `from..to`.
    #[must_use]
    pub fn ended(tier: &str, (from, to): (u64, u64), host: Host) -> Run {
        Run {
            date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            tier: tier.to_owned(),
            from,
            to,
            runs: 0,
            of: None,
            tally: Tally::default(),
            kernel: host.kernel,
            file_system: host.file_system,
            commit: host.commit,
            seconds: 0.0,
            violations: 0,
        }
    }
}

/// The case at which a tier goes on with files on this file system: behind what was run in one piece from 0.
#[must_use]
pub fn next(runs: &[Run], tier: &str, file_system: &str) -> u64 {
    let is_wanted = |run: &&Run| run.tier == tier && run.file_system == file_system && run.violations == 0;
    let of_tier = runs.iter().filter(is_wanted);
    let mut pieces: Vec<(u64, u64)> = of_tier.map(|run| (run.from, run.to)).collect();
    pieces.sort_unstable();
    pieces.into_iter().fold(0, |end, (from, to)| if from <= end { end.max(to) } else { end })
}

/// A table of all runs, and the sums of each tier.
#[must_use]
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
    let mut tiers: Vec<(&str, &str)> = runs.iter().map(|run| (&*run.tier, &*run.file_system)).collect();
    tiers.sort_unstable();
    tiers.dedup();
    for (tier, file_system) in tiers {
        let of_tier = runs.iter().filter(|run| run.tier == tier && run.file_system == file_system);
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
            "{tier}, {file_system}: {count} runs, {crashes} crashes, {dropped} dropped changes, {faults} faults, {seconds:.0} s, {violations} \
             violations in all"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tier: &str, file_system: &str, cases: (u64, u64), violations: u64) -> Run {
        Run { violations, ..Run::ended(tier, cases, Host::look(file_system)) }
    }

    #[test]
    fn a_tier_goes_on_behind_what_it_ran_in_one_piece_on_that_file_system() {
        let runs = [
            run("t3", "ext4", (0, 8), 0),
            run("t3", "xfs", (0, 3), 0),
            run("t3", "ext4", (8, 12), 0),
            run("t3", "ext4", (20, 30), 0),
            run("t3", "ext4", (12, 19), 1),
        ];
        assert_eq!((next(&runs, "t3", "ext4"), next(&runs, "t3", "xfs"), next(&runs, "t1", SIMULATED)), (12, 3, 0));
    }

    #[test]
    fn a_record_holds_what_was_added_and_the_table_has_a_sum_for_each_tier_and_file_system() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("record");
        assert!(read(&path).is_empty());
        for file_system in ["ext4", "xfs", "ext4"] {
            let tally = Tally { crashes: 40, dropped: 1_000, faults: 0 };
            add(&path, &Run { runs: 40, tally, ..run("t3", file_system, (0, 1), 0) });
        }
        let table = table(&read(&path));
        assert_eq!(table.lines().filter(|line| line.contains("| t3 | 0..1 | 40 |")).count(), 3);
        assert!(table.contains("t3, ext4: 80 runs, 80 crashes, 2000 dropped changes"), "{table}");
        assert!(table.contains("t3, xfs: 40 runs"), "{table}");
    }
}
