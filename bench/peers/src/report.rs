//! The report: what was measured and what was seen of durability, as markdown for people and as JSON for scripts.

use crate::engine::Kind;
use crate::host::Host;
use crate::rounds::Row;
use crate::syncs::Found;
use crate::verdict::{Figure, Verdict, judge, wins_of_peers};
use crate::workload::WORKLOADS;
use serde::Serialize;
use std::fmt::Write;

/// Cores that others may use before the figures are in doubt.
const COOL: f64 = 0.1;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran, and with which versions.
    pub host: Host,
    /// The command that it was.
    pub command: String,
    /// Seconds of a window, and how many rounds.
    pub window_s: f64,
    /// How many windows each engine had.
    pub rounds: u32,
    /// What was seen of durability. `None` when nobody looked.
    pub syncs: Option<Vec<Found>>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// Ours against the best peer.
    pub verdicts: Vec<Verdict>,
    /// The same against naive-grouped alone, which is no engine.
    pub against_grouped: Vec<Verdict>,
}

impl Report {
    /// Engines that were not seen to be durable. They are not compared.
    pub fn struck(syncs: Option<&[Found]>) -> Vec<&'static str> {
        let not_durable = syncs.unwrap_or_default().iter().filter(|found| !found.is_durable);
        not_durable.map(|found| found.engine).collect()
    }

    /// Judges what was measured.
    pub fn new(
        host: Host,
        command: String,
        (window_s, rounds): (f64, u32),
        syncs: Option<Vec<Found>>,
        rows: Vec<Row>,
    ) -> Report {
        let struck = Report::struck(syncs.as_deref());
        let grouped = Kind::NaiveGrouped.name();
        let verdicts = judge(&rows, &struck, |engine| engine != grouped);
        let against_grouped = judge(&rows, &struck, |engine| engine == grouped);
        Report { host, command, window_s, rounds, syncs, rows, verdicts, against_grouped }
    }

    /// For people.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "{}, commit {}. {}.\n{}.\nMedians of {} rounds of {} s. `{}`\n",
            self.host.date,
            self.host.commit,
            self.host.summary(),
            self.host.versions(),
            self.rounds,
            self.window_s,
            self.command
        );
        if !self.host.optimised {
            text += "\nNot optimised: these figures mean nothing.\n";
        }
        if self.host.cores_of_others > COOL {
            text += "\nOther processes were busy meanwhile: these figures say little.\n";
        }
        text += &self.table();
        text += &self.judged();
        text += &self.won();
        text += &self.seen();
        text
    }

    fn table(&self) -> String {
        let mut text = String::new();
        let struck = Report::struck(self.syncs.as_deref());
        for workload in &WORKLOADS {
            let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.workload == workload.name).collect();
            if rows.is_empty() {
                continue;
            }
            rows.sort_by(|a, b| b.median.records_per_second.total_cmp(&a.median.records_per_second));
            let _ = writeln!(text, "\n### {}\n", workload.name);
            text += "| engine | producers | records/s | p50 ms | p99 ms | max ms | CPU us/record |\n";
            text += "|---|---|--:|--:|--:|--:|--:|\n";
            for row in rows {
                let median = row.median;
                let engine = match struck.contains(&row.engine) {
                    true => format!("~~{}~~ not durable", row.engine),
                    false if row.is_ours => format!("**{}**", row.engine),
                    false => row.engine.to_owned(),
                };
                let _ = writeln!(
                    text,
                    "| {engine} | {} | {} | {:.3} | {:.3} | {:.1} | {:.1} |",
                    row.producers,
                    thousands(median.records_per_second),
                    median.p50_us / 1e3,
                    median.p99_us / 1e3,
                    median.max_us / 1e3,
                    median.cpu_us_per_record
                );
            }
        }
        text
    }

    fn judged(&self) -> String {
        let mut text =
            "\n### Targets\n\n| workload | ours | figure | best peer | ours / peer | target | |\n".to_owned();
        text += "|---|---|---|---|--:|--:|---|\n";
        for verdict in self.verdicts.iter().chain(&self.against_grouped) {
            let (figure, sign) = match verdict.figure {
                Figure::Rate => ("records/s", "&ge;"),
                Figure::P99 => ("p99", "&le;"),
            };
            // It is no engine: what is asked for is asked for beside engines.
            let outcome = match (verdict.peer == Kind::NaiveGrouped.name(), verdict.is_met) {
                (true, _) => "no target",
                (_, true) => "met",
                (_, false) => "**missed**",
            };
            let Verdict { workload, ours, peer, ratio, bound, .. } = verdict;
            let _ = writeln!(
                text,
                "| {workload} | {ours} | {figure} | {peer} | {ratio:.2} | {sign} {bound:.2} | {outcome} |"
            );
        }
        text
    }

    fn won(&self) -> String {
        let wins = wins_of_peers(&self.rows, &Report::struck(self.syncs.as_deref()));
        let mut text = "\n### Where a peer wins, threads against threads\n\n".to_owned();
        if wins.is_empty() {
            text += "Nowhere in this run.\n";
        }
        for (workload, peer, what, ratio) in wins {
            let _ = writeln!(text, "- {workload}: {peer}, {what} (ours is {ratio:.2} times theirs)");
        }
        text
    }

    fn seen(&self) -> String {
        match &self.syncs {
            Some(found) => format!("\n### Durability, as strace saw it\n\n{}", seen(found)),
            None => "\nNobody looked whether the engines are durable: nothing here may be compared.\n".to_owned(),
        }
    }
}

/// A table of what was seen of durability.
pub fn seen(found: &[Found]) -> String {
    let mut text =
        "| engine | appends | durable before acknowledged | seen between the first and the last | |\n".to_owned();
    text += "|---|--:|--:|---|---|\n";
    for Found { engine, syncs, commits, is_durable } in found {
        let mut calls: Vec<String> = syncs.calls.iter().map(|(call, count)| format!("{count} {call}")).collect();
        if let Some(commits) = commits {
            calls.push(format!("{commits} commits by its own count"));
        }
        let durable = commits.map_or(syncs.durable, |commits| commits.min(syncs.appends));
        let verdict = if *is_durable { "durable" } else { "**not durable, struck**" };
        let _ = writeln!(text, "| {engine} | {} | {durable} | {} | {verdict} |", syncs.appends, calls.join(", "));
    }
    text
}

/// 12345.6 as `12,346`.
fn thousands(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::strace::Syncs;
    use crate::verdict::tests::row;
    use std::path::Path;

    /// A run in which a peer was not durable.
    pub fn example() -> Report {
        let found = |engine, durable| {
            let syncs = Syncs { appends: 200, durable, ..Syncs::default() };
            Found { engine, is_durable: durable == 200, syncs, commits: None }
        };
        let syncs = vec![found("okaywal", 200), found("walrus", 0)];
        let rows = vec![
            row("strandline", false, 1_500_000.0, 50.0),
            row("walrus", false, 9_000_000.0, 1.0),
            row("okaywal", false, 1_000_000.0, 40.0),
        ];
        Report::new(Host::look(Path::new("/")), "strandline-peers".to_owned(), (4.0, 5), Some(syncs), rows)
    }

    #[test]
    fn a_peer_that_is_not_durable_is_shown_and_not_compared() {
        let text = example().markdown();
        assert!(text.contains("~~walrus~~ not durable") && text.contains("**not durable, struck**"), "{text}");
        assert!(text.contains("| okaywal | 1.50 | &ge; 1.50 | met |"), "{text}");
        assert!(text.contains("| okaywal | 1.25 | &le; 0.50 | **missed** |"), "{text}");
        assert!(text.contains("- 64 producers, 1 KiB: okaywal, p99 (ours is 1.25 times theirs)"), "{text}");
        assert!(!text.contains("walrus, p99"), "{text}");
    }

    #[test]
    fn figures_have_their_thousands_apart() {
        assert_eq!([1.4, 999.6, 12_345.6, 1_234_567.0].map(thousands), ["1", "1,000", "12,346", "1,234,567"]);
    }
}
