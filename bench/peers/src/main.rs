//! The same durable appends on this store and on other embeddable engines, in turn, in one run.
//!
//! Compiled only when asked for: no member of the workspace. See docs/PEERS.md.
#![forbid(unsafe_code)]

mod child;
mod engine;
mod error;
mod host;
mod interrupt;
// As strandline-bench has them, which is a program and no library: the same record, and the same measure of a busy machine.
#[path = "../../src/load.rs"]
mod load;
#[path = "../../src/noise.rs"]
mod noise;
mod options;
mod part;
mod plot;
mod producing;
mod report;
mod rounds;
mod strace;
mod syncs;
mod verdict;
mod window;
mod workload;

use clap::Parser;
use engine::Kind;
use error::{PeersError, io};
use host::Host;
use interrupt::Interrupt;
use load::Load;
use options::{Instead, Options};
use report::Report;
use std::path::Path;
use std::process::ExitCode;
use workload::WORKLOADS;

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.instead {
        Some(Instead::Part { part }) => part::run(part),
        Some(Instead::Syncs { appends, unsynced }) => count_syncs(&options, *appends, *unsynced),
        None => run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("strandline-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn count_syncs(options: &Options, appends: u64, unsynced: bool) -> Result<(), PeersError> {
    let interrupt = Interrupt::listen()?;
    let place = host::place(options.dir.as_deref())?;
    let kinds = options.engines();
    let found = match unsynced {
        false => syncs::check(place.path(), &kinds, appends, &interrupt),
        true => {
            let told = kinds.into_iter().filter(|kind| kind.can_be_unsynced());
            told.map(|kind| syncs::look(place.path(), kind, appends, false)).collect()
        }
    };
    place.close().map_err(io("removing the directory of the run"))?;
    let found = found?;
    print!("{}", report::seen(&found));
    match found.iter().find(|found| unsynced && found.is_durable) {
        Some(found) => Err(PeersError::Blind(found.engine)),
        None => Ok(()),
    }
}

fn run(options: &Options) -> Result<(), PeersError> {
    let interrupt = Interrupt::listen()?;
    let place = host::place(options.dir.as_deref())?;
    let mut host = Host::look(place.path());
    let load = Load::watch();
    let measured = measure(options, place.path(), &interrupt);
    host.cores_of_others = load.cores_of_others();
    place.close().map_err(io("removing the directory of the run"))?;
    let (syncs, rows) = measured?;
    let plan = options.plan();
    let report = Report::new(host, command(), (plan.window.as_secs_f64(), plan.rounds), syncs, rows);
    let markdown = report.markdown();
    print!("{markdown}");
    write(options.markdown.as_deref(), &markdown)?;
    write(options.json.as_deref(), &serde_json::to_string_pretty(&report)?)?;
    write(options.svg.as_deref(), &plot::draw(&report))
}

type Measured = (Option<Vec<syncs::Found>>, Vec<rounds::Row>);

fn measure(options: &Options, place: &Path, interrupt: &Interrupt) -> Result<Measured, PeersError> {
    let kinds: Vec<Kind> = options.engines();
    let syncs = match options.unchecked {
        true => None,
        false => Some(syncs::check(place, &kinds, options.appends(), interrupt)?),
    };
    let mut rows = Vec::new();
    for workload in WORKLOADS.iter().filter(|workload| workload.name.contains(&options.workload)) {
        rows.extend(rounds::run(workload, &kinds, options.plan(), place, interrupt)?);
    }
    Ok((syncs, rows))
}

/// The command that this is, without the machine's paths.
fn command() -> String {
    let mut arguments = std::env::args().skip(1);
    let mut told = vec!["strandline-peers".to_owned()];
    while let Some(argument) = arguments.next() {
        // Where it runs and what it writes is nobody's matter.
        if ["--dir", "--json", "--svg", "--markdown"].contains(&argument.as_str()) {
            arguments.next();
        } else {
            told.push(argument);
        }
    }
    told.join(" ")
}

fn write(file: Option<&Path>, text: &str) -> Result<(), PeersError> {
    file.map_or(Ok(()), |file| std::fs::write(file, text).map_err(io(format!("writing {}", file.display()))))
}
