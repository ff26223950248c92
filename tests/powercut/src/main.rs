//! Power cuts under a store on a real file system. A file that FUSE serves is the disk: it keeps a record of every write and every flush. A loop
//! device, a file system and a store stand on it. Then disks are built as a power cut at some moment would have left them, the kernel mounts
//! them, the store opens, and everything that was acknowledged before that moment must be there. `faults` serves the store's directory itself,
//! and makes its operations fail; `soak` runs a store for long, and looks whether anything grows.
#![forbid(unsafe_code)]

mod check;
mod child;
mod clock;
mod content;
mod controls;
mod cut;
mod disk;
mod error;
mod faults;
mod fuse;
mod history;
mod image;
mod interrupt;
mod job;
mod mounted;
mod options;
mod random;
mod report;
mod run;
mod server;
mod shape;
mod soak;
mod verb;
mod watch;
mod work;

use clap::Parser;
use controls::{judge, noticed_as};
use error::{Trouble, system};
use interrupt::Interrupt;
use options::{Options, Other};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use strandline_tests::record;
use strandline_tests::tiers::controls::Tier;

/// Says that this process has a mount namespace of its own.
const INSIDE: &str = "STRANDLINE_POWERCUT_INSIDE";

fn main() -> ExitCode {
    let options = Options::parse();
    let job = match &options.other {
        Some(Other::Faults(faults)) => &faults.job,
        Some(Other::Soak(soak)) => &soak.job,
        Some(Other::Controls(_)) => &None,
        None => &options.job,
    };
    let ended = match (job, &options.other) {
        (Some(job), other) => do_job(job, other.as_ref()).map(|()| true),
        (None, _) if std::env::var_os(INSIDE).is_none() => Err(enter_namespace()),
        (None, Some(Other::Faults(options))) => faults::run(options),
        (None, Some(Other::Soak(options))) => soak::run(options),
        (None, Some(Other::Controls(options))) => controls::run(options),
        (None, None) => run(&options),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(trouble) => {
            eprintln!("strandline-powercut: {trouble}");
            ExitCode::from(2)
        }
    }
}

/// Starts again in a mount namespace of its own: what is mounted there is gone when the last process in it is, however that ends. Comes back
/// only when that fails.
fn enter_namespace() -> Trouble {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(source) => return Trouble::System { doing: "the path of this program", source },
    };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]).arg(program).args(std::env::args_os().skip(1));
    Trouble::Program { program: "unshare", source: command.env(INSIDE, "1").exec() }
}

/// Makes the cuts. True when it came out as it should.
fn run(options: &Options) -> Result<bool, Trouble> {
    let seed = options.seed.unwrap_or_else(|| next_seed(options.record.as_deref(), report::TIER, options.fs.name()));
    let options = &Options { seed: Some(seed), ..options.clone() };
    let report = run::Run::new(options, Interrupt::listen()?)?.run()?;
    print!("{report}");
    println!("{}", serde_json::to_string(&report).map_err(|error| system("the report")(error.into()))?);
    keep_record(options.record.as_deref(), &report.run());
    let verdict = match options.expect_violation {
        true => noticed_as(options.sabotage, Tier::T3).and_then(|noticed_as| judge(noticed_as, &report.broken)),
        false => report.verdict(options.mode != Some(cut::Mode::Prefix)),
    };
    Ok(says(verdict))
}

/// Tells why a run did not come out as it should. True when it did.
fn says(verdict: Result<(), String>) -> bool {
    if let Err(why) = &verdict {
        eprintln!("strandline-powercut: {why}");
    }
    verdict.is_ok()
}

/// The seed behind those that a record has of this tier; 1 where there are none.
fn next_seed(record: Option<&Path>, tier: &str, file_system: &str) -> u64 {
    let runs = record.map(record::read).unwrap_or_default();
    let of_tier = runs.iter().filter(|run| run.tier == tier && run.file_system == file_system);
    of_tier.map(|run| run.to).max().unwrap_or(1)
}

/// Adds a run to a record, and prints the table of all of it.
fn keep_record(path: Option<&Path>, run: &record::Run) {
    if let Some(path) = path {
        record::add(path, run);
        print!("{}", record::table(&record::read(path)));
    }
}

/// Does one job for a run.
fn do_job(file: &Path, other: Option<&Other>) -> Result<(), Trouble> {
    // When the run is gone nobody serves this disk any more.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match other {
        Some(Other::Faults(_)) => return faults::do_job(file),
        Some(Other::Soak(_)) => return soak::do_job(file),
        Some(Other::Controls(_)) | None => {}
    }
    let job: job::Job = job::load(file).map_err(system("reading a job"))?;
    let saved = match job.task {
        job::Task::Work { .. } => job::save(&job.answer, &work::work(&job)),
        job::Task::Check { .. } => job::save(&job.answer, &check::check(&job)),
    };
    saved.map_err(system("saving an answer"))
}
