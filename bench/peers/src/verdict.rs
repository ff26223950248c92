//! Verdicts: ours against the best of the peers whose durability was seen, for each target. Pure.

use crate::rounds::Row;
use serde::Serialize;

/// What a target compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Figure {
    /// Records per second: ours has to be at least so many times the peer's.
    Rate,
    /// The 99th percentile: ours has to be at most such a part of the peer's.
    P99,
}

/// What was asked for.
struct Target {
    workload: &'static str,
    /// Ours with many in flight, or with as many threads as the peers.
    is_outstanding: bool,
    figure: Figure,
    bound: f64,
}

/// What became of a target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The workload.
    pub workload: &'static str,
    /// Who appended to ours.
    pub ours: String,
    /// What is compared.
    pub figure: Figure,
    /// The peer that it is compared with: the fastest of all in records per second.
    pub peer: &'static str,
    /// Ours divided by the peer's.
    pub ratio: f64,
    /// What the ratio has to be at least (rate) or at most (p99).
    pub bound: f64,
    /// Whether it is.
    pub is_met: bool,
}

const TARGETS: [Target; 7] = [
    Target { workload: "64 producers, 1 KiB", is_outstanding: true, figure: Figure::Rate, bound: 3.0 },
    Target { workload: "64 producers, 1 KiB", is_outstanding: true, figure: Figure::P99, bound: 1.0 / 3.0 },
    Target { workload: "64 producers, 1 KiB", is_outstanding: false, figure: Figure::Rate, bound: 1.5 },
    Target { workload: "64 producers, 1 KiB", is_outstanding: false, figure: Figure::P99, bound: 0.5 },
    Target { workload: "1 producer, 1 KiB", is_outstanding: false, figure: Figure::P99, bound: 1.0 },
    // Held against both: peers have threads only.
    Target { workload: "16 producers, 16 KiB", is_outstanding: false, figure: Figure::Rate, bound: 2.0 },
    Target { workload: "16 producers, 16 KiB", is_outstanding: true, figure: Figure::Rate, bound: 2.0 },
];

/// Judges all targets for which there are figures. Engines in `struck` were not found durable: they are no peers. `among` says which of the
/// others are.
pub fn judge(rows: &[Row], struck: &[&str], among: impl Fn(&str) -> bool) -> Vec<Verdict> {
    let is_peer = |row: &&Row| !row.is_ours && !struck.contains(&row.engine) && among(row.engine);
    let verdict = |target: &Target| {
        let of_workload = || rows.iter().filter(|row| row.workload == target.workload);
        let ours = of_workload().find(|row| row.is_ours && row.is_outstanding == target.is_outstanding)?;
        let peers = of_workload().filter(is_peer);
        let value = |row: &Row| match target.figure {
            Figure::Rate => row.median.records_per_second,
            Figure::P99 => row.median.p99_us,
        };
        // With one producer nobody has more than one record at a time: the best there is whose p99 is the lowest.
        let best = match target.workload {
            "1 producer, 1 KiB" => peers.min_by(|a, b| a.median.p99_us.total_cmp(&b.median.p99_us)),
            _ => peers.max_by(|a, b| a.median.records_per_second.total_cmp(&b.median.records_per_second)),
        }?;
        let ratio = value(ours) / value(best);
        let is_met = match target.figure {
            Figure::Rate => ratio >= target.bound,
            Figure::P99 => ratio <= target.bound,
        };
        let (workload, peer, bound) = (target.workload, best.engine, target.bound);
        Some(Verdict { workload, ours: ours.producers.clone(), figure: target.figure, peer, ratio, bound, is_met })
    };
    TARGETS.iter().filter_map(verdict).collect()
}

/// Where a peer has a better figure than ours with as many threads: workload, peer, what, and the ratio of ours to theirs.
pub fn wins_of_peers(rows: &[Row], struck: &[&str]) -> Vec<(&'static str, &'static str, &'static str, f64)> {
    let mut wins = Vec::new();
    for theirs in rows.iter().filter(|row| !row.is_ours && !struck.contains(&row.engine)) {
        let same = |row: &&Row| row.is_ours && !row.is_outstanding && row.workload == theirs.workload;
        let Some(ours) = rows.iter().find(same) else { continue };
        let (ours, median) = (ours.median, theirs.median);
        if median.records_per_second > ours.records_per_second {
            let ratio = ours.records_per_second / median.records_per_second;
            wins.push((theirs.workload, theirs.engine, "records/s", ratio));
        }
        for (what, ours, theirs_us) in [
            ("p50", ours.p50_us, median.p50_us),
            ("p99", ours.p99_us, median.p99_us),
            ("max", ours.max_us, median.max_us),
            ("CPU per record", ours.cpu_us_per_record, median.cpu_us_per_record),
        ] {
            if theirs_us < ours {
                wins.push((theirs.workload, theirs.engine, what, ours / theirs_us));
            }
        }
    }
    wins
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::window::Figures;

    /// A row whose figures are plain.
    pub fn row(engine: &'static str, is_outstanding: bool, rate: f64, p99_us: f64) -> Row {
        let median =
            Figures { records_per_second: rate, p50_us: p99_us / 2.0, p99_us, max_us: 9e3, cpu_us_per_record: 2.0 };
        Row {
            workload: "64 producers, 1 KiB",
            engine,
            is_ours: engine == "strandline",
            producers: if is_outstanding { "64 outstanding" } else { "64 threads" }.to_owned(),
            is_outstanding,
            median,
            rounds: vec![median],
        }
    }

    #[test]
    fn ours_is_held_against_the_fastest_durable_peer() {
        let rows = [
            row("strandline", false, 150.0, 50.0),
            row("strandline", true, 290.0, 30.0),
            row("okaywal", false, 100.0, 100.0),
            row("raft-engine", false, 50.0, 20.0),
            row("walrus", false, 900.0, 1.0),
        ];
        let verdicts = judge(&rows, &["walrus"], |_| true);
        assert!(verdicts.iter().all(|verdict| verdict.peer == "okaywal"));
        let met: Vec<_> = verdicts.iter().map(|verdict| (verdict.bound, verdict.is_met)).collect();
        assert_eq!(met, [(3.0, false), (1.0 / 3.0, true), (1.5, true), (0.5, true)]);
        assert_eq!(judge(&rows, &[], |_| true)[0].peer, "walrus");
        assert_eq!(judge(&rows, &["walrus"], |engine| engine == "raft-engine")[0].peer, "raft-engine");
        assert!(judge(&rows, &["walrus", "okaywal", "raft-engine"], |_| true).is_empty());
    }

    #[test]
    fn where_a_peer_wins_is_said() {
        let rows = [
            row("strandline", false, 150.0, 50.0),
            row("raft-engine", false, 50.0, 20.0),
            row("walrus", false, 900.0, 1.0),
        ];
        let wins = wins_of_peers(&rows, &["walrus"]);
        assert_eq!(
            wins,
            [("64 producers, 1 KiB", "raft-engine", "p50", 2.5), ("64 producers, 1 KiB", "raft-engine", "p99", 2.5)]
        );
    }
}
