//! `strandline-campaign`: the tiers of the tests, at any size, on every core. It goes on where the last run ended, adds what it did to a
//! record, and prints a table with a date. A broken promise ends it with exit code 1, the number that broke it and the command that
//! repeats it.
#![forbid(unsafe_code)]

mod work;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use strandline_tests::record::{self, Host, Run};
use strandline_tests::tiers::controls::{self, By};
use strandline_tests::tiers::kills;
use work::{Ended, Tier};

/// Proves the store by crashes, failing operations and damage.
#[derive(Debug, Parser)]
#[command(name = "strandline-campaign", version)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// T1: random histories of 1,000 operations and 5 crashes, a seed each.
    T1(Size),
    /// T1b: every sequence of up to 3 operations, a crash at every moment, every subset of what was not flushed.
    T1b(Size),
    /// T2: kill -9 on real files in the directory for temporary files.
    T2(Size),
    /// T5: every operation of two scripts fails, in every way, once and for ever.
    T5(Size),
    /// T6: every flipped bit and every cut of every file of a small store.
    T6(Size),
    /// T6 behind the open: passes of the sweeper over damaged stores, on files in memory or in the directory for temporary files.
    T6Sweep(Size),
    /// The negative controls: each defect must be noticed by the tier that the table names.
    Controls,
    /// Prints the table of a record.
    Table {
        /// The record.
        record: PathBuf,
    },
    /// What T2 kills.
    #[command(hide = true)]
    KillChild,
}

/// How much is run.
#[derive(Clone, Debug, Args)]
struct Size {
    /// The first case. Default: where the record's last run of this tier ended, else 0.
    #[arg(long)]
    from: Option<u64>,
    /// How many cases (seeds, cycles). Default: all that there are, or no end.
    #[arg(long, visible_aliases = ["cycles", "cases"])]
    seeds: Option<u64>,
    /// Ends after so many minutes.
    #[arg(long)]
    minutes: Option<f64>,
    /// How many run at once. Default: one for each core.
    #[arg(long)]
    threads: Option<usize>,
    /// A file to which a line of JSON is added for the run. The table is that of the whole file.
    #[arg(long)]
    record: Option<PathBuf>,
}

fn kill_child() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("kill-child");
    command
}

fn main() -> ExitCode {
    match Cli::parse().what {
        What::T1(size) => run(Tier::T1, &size),
        What::T1b(size) => run(Tier::T1b, &size),
        What::T2(size) => run(Tier::T2, &size),
        What::T5(size) => run(Tier::T5, &size),
        What::T6(size) => run(Tier::T6, &size),
        What::T6Sweep(size) => run(Tier::T6Sweep, &size),
        What::Controls => run_controls(),
        What::Table { record } => {
            print!("{}", record::table(&record::read(&record)));
            ExitCode::SUCCESS
        }
        What::KillChild => {
            kills::child();
            ExitCode::SUCCESS
        }
    }
}

fn run(tier: Tier, size: &Size) -> ExitCode {
    let mut runs = size.record.as_deref().map(record::read).unwrap_or_default();
    let on = match tier {
        Tier::T2 => record::of_temporary_files(),
        Tier::T6Sweep => "tmpfs".to_owned(),
        _ => record::SIMULATED.to_owned(),
    };
    let from = size.from.unwrap_or_else(|| record::next(&runs, tier.name(), &on));
    let cases = tier.cases().map(|cases| cases.saturating_sub(from));
    let Some(count) = size.seeds.into_iter().chain(cases).min().or(size.minutes.map(|_| u64::MAX - from)) else {
        eprintln!("{} has no end: say --seeds or --minutes", tier.name());
        return ExitCode::from(2);
    };
    let threads = size.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let limit = size.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    eprintln!("{}: from {from}, {threads} threads", tier.name());
    let host = Host::look(on); // What is committed meanwhile is not what runs.
    let ended = work::run(tier, from..from + count, threads, limit);
    for (number, text) in &ended.violations {
        println!("{} {number}: {text}", tier.name());
        println!("repeat it with: strandline-campaign {} --from {number} --seeds 1", tier.name());
    }
    let failed = !ended.violations.is_empty();
    let done = run_of(tier, from, &ended, host);
    if let Some(path) = &size.record {
        record::add(path, &done);
    }
    runs.push(done);
    print!("{}", record::table(&runs));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run_of(tier: Tier, from: u64, ended: &Ended, host: Host) -> Run {
    Run {
        runs: ended.runs,
        of: tier.cases(),
        tally: ended.tally,
        seconds: ended.seconds,
        violations: ended.violations.len() as u64,
        ..Run::ended(tier.name(), (from, ended.to), host)
    }
}

fn run_controls() -> ExitCode {
    let mut failed = controls::missing();
    failed.iter().for_each(|missing| println!("{missing}"));
    for control in controls::table() {
        let tier = control.tier().map_or("none".to_owned(), |tier| format!("{tier:?}"));
        let started = std::time::Instant::now();
        let (verdict, text) = match controls::run(&control, kill_child) {
            Ok(text) if control.is_run_elsewhere() => ("elsewhere", text),
            Ok(text) if matches!(control.by, By::Aid(_)) => ("no defect", text),
            Ok(text) => ("noticed", text),
            Err(text) => {
                failed.push(control.defect.to_string());
                ("MISSED", text)
            }
        };
        let text: String = text.chars().take(160).collect();
        println!("| {} | {tier} | {verdict} | {:.1} s | {text} |", control.defect, started.elapsed().as_secs_f64());
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
