//! The project's load test: what the store does on this machine, beside what a bare ring does in the same run, and
//! whether that meets `bench/targets.toml`.
#![forbid(unsafe_code)]

mod ceiling;
mod error;
mod host;
mod interrupt;
mod load;
mod metrics;
mod noise;
mod options;
mod place;
mod progress;
mod report;
mod scenario;
mod subject;
mod table;
mod targets;
mod window;

use clap::Parser;
use error::{BenchError, io};
use host::Host;
use interrupt::Interrupt;
use load::Load;
use metrics::Measurement;
use options::Options;
use place::Place;
use progress::Progress;
use report::Report;
use scenario::{Context, Scenario};
use std::path::Path;
use std::process::ExitCode;
use subject::Subject;
use targets::Targets;

/// A target was missed and `--enforce` was given.
const EXIT_MISSED: u8 = 1;
/// There is no report.
const EXIT_FAILED: u8 = 2;
/// Cores that others may use before the figures are in doubt.
const COOL: f64 = 0.1;

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
        println!("{:<16}{}\n{:16}cases: {}", scenario.name(), scenario.about(), "", scenario.cases().join(", "));
    }
}

fn run(options: &Options) -> Result<ExitCode, BenchError> {
    let targets = Targets::load(&Scenario::ALL.map(Scenario::name))?;
    let interrupt = Interrupt::listen()?;
    let place = Place::make(options.dir.as_deref(), options.allow_tmpfs)?;
    let mut host = Host::look(place.path(), probe(place.path())?);
    println!("{}", host.summary());
    let load = Load::watch();
    let measured = measure(options, place.path(), &interrupt);
    host.cores_of_others = load.cores_of_others();
    let removed = place.remove();
    let measured = measured?;
    let ran: Vec<_> = options.scenarios().into_iter().map(Scenario::name).collect();
    targets.all_produced(&ran, &measured)?;
    let report = Report::new(host, host::commit(), measured, &targets);
    print!("{}", table::render(&report));
    if let Some(file) = &options.json {
        std::fs::write(file, report.to_json()?).map_err(io(format!("writing {}", file.display())))?;
    }
    removed?;
    Ok(verdict(&report, options.enforce))
}

/// Opens a store only to hear what it found out about the host.
fn probe(directory: &Path) -> Result<serde_json::Value, BenchError> {
    let subject = Subject::open(subject::config(&directory.join("probe")))?;
    let capabilities = subject.capabilities();
    subject.close()?;
    Ok(capabilities)
}

fn measure(options: &Options, directory: &Path, interrupt: &Interrupt) -> Result<Vec<Measurement>, BenchError> {
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
    if report.host.cores_of_others > COOL {
        println!("\nwarning: other processes kept {:.1} cores busy meanwhile", report.host.cores_of_others);
    }
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
