//! The project's load test: what the store does on this machine, beside what a bare ring does in the same run, and
//! whether that meets `bench/targets.toml`.
#![forbid(unsafe_code)]

mod ceiling;
mod error;
mod host;
mod html;
mod interrupt;
mod load;
mod metrics;
mod noise;
mod options;
mod place;
mod progress;
mod report;
mod rounds;
mod scenario;
mod series;
mod subject;
mod table;
mod targets;
mod trace;
mod turnover;
mod window;

use clap::Parser;
use error::{BenchError, io};
use host::Host;
use interrupt::Interrupt;
use load::Load;
use options::Options;
use place::Place;
use progress::Progress;
use report::Report;
use rounds::Outcome;
use scenario::{Context, Scenario};
use std::path::Path;
use std::process::ExitCode;
use subject::Subject;
use targets::Targets;

/// A target was missed and `--enforce` was given.
const EXIT_MISSED: u8 = 1;
/// There is no report.
const EXIT_FAILED: u8 = 2;

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.part {
        Some(part) => scenario::run_part(part).map(|()| ExitCode::SUCCESS),
        None if options.list => {
            list();
            Ok(ExitCode::SUCCESS)
        }
        None => run(&options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("strandline-bench: {error}");
        ExitCode::from(EXIT_FAILED)
    })
}

fn list() {
    for scenario in Scenario::ALL {
        let cases = scenario.cases(false).into_iter().map(|case| match scenario.is_core() {
            true if scenario.cases(true).contains(&case) => format!("{case} *"),
            _ => case.to_owned(),
        });
        let cases: Vec<String> = cases.collect();
        println!("{:<20}{}\n{:20}cases: {}", scenario.name(), scenario.about(), "", cases.join(", "));
    }
    println!("\n* runs without an argument: the core set");
}

fn run(options: &Options) -> Result<ExitCode, BenchError> {
    let targets = Targets::load(&Scenario::ALL.map(Scenario::name))?;
    let interrupt = Interrupt::listen()?;
    host::raise_descriptor_limit();
    let place = Place::make(options.dir.as_deref(), options.allow_tmpfs)?;
    let mut host = Host::look(place.path(), probe(place.path())?);
    println!("{}", host.summary());
    let load = Load::watch();
    let measured = measure(options, place.path(), &interrupt);
    host.cores_of_others = load.cores_of_others();
    let removed = place.remove();
    let measured = measured?;
    let ran: Vec<_> = options.scenarios().into_iter().map(Scenario::name).collect();
    targets.all_produced(&ran, measured.iter().flat_map(|outcome| &outcome.measurements))?;
    let report = Report::new(host, host::commit(), measured, &targets);
    print!("{}", table::render(&report));
    if let Some(file) = &options.json {
        write(file, &report.to_json()?)?;
    }
    write(&options.html, &html::page(&report))?;
    removed?;
    let verdict = verdict(&report, options.enforce);
    println!("{}", options.html.display());
    Ok(verdict)
}

/// Writes a report, and makes its directory.
fn write(file: &Path, text: &str) -> Result<(), BenchError> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    let made = directory.map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(file, text)).map_err(io(format!("writing {}", file.display())))
}

/// Opens a store only to hear what it found out about the host.
fn probe(directory: &Path) -> Result<serde_json::Value, BenchError> {
    let subject = Subject::open(subject::config(&directory.join("probe")))?;
    let capabilities = subject.capabilities();
    subject.close()?;
    Ok(capabilities)
}

fn measure(options: &Options, directory: &Path, interrupt: &Interrupt) -> Result<Vec<Outcome>, BenchError> {
    let (plan, scenarios) = (options.plan(), options.scenarios());
    let progress = Progress::over(scenarios.iter().map(|scenario| scenario.steps(plan)).sum());
    let context = Context { directory, plan, progress: &progress, interrupt };
    let mut measured = Vec::new();
    for scenario in scenarios {
        measured.extend(scenario.run(&context)?);
    }
    progress.end();
    Ok(measured)
}

/// Says how many targets were met; the exit code tells it too when that is asked for.
fn verdict(report: &Report, enforce: bool) -> ExitCode {
    let (aimed, missed) = (report.aimed(), report.missed().count());
    // The rest was said before the run.
    report
        .host
        .warnings()
        .iter()
        .filter(|_| report.host.optimised)
        .for_each(|warning| println!("\nwarning: {warning}"));
    println!("\n{} of {aimed} targets met", aimed - missed);
    if enforce && missed > 0 { ExitCode::from(EXIT_MISSED) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_ends_with_1_only_when_enforced() {
        let report = report::tests::example();
        assert_eq!(verdict(&report, true), ExitCode::from(1));
        assert_eq!(verdict(&report, false), ExitCode::SUCCESS);
        let mut met = report;
        met.results.retain(|row| row.met != Some(false));
        assert_eq!(verdict(&met, true), ExitCode::SUCCESS);
    }
}
