//! Power cuts under a store on a real file system. A file that FUSE serves is the disk: it keeps a record of every write and every flush. A loop
//! device, a file system and a store stand on it. Then disks are built as a power cut at some moment would have left them, the kernel mounts
//! them, the store opens, and everything that was acknowledged before that moment must be there. `faults` serves the store's directory itself,
//! and makes its operations fail.
#![forbid(unsafe_code)]

mod check;
mod child;
mod clock;
mod content;
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
mod work;

use clap::Parser;
use error::{Trouble, system};
use interrupt::Interrupt;
use options::{Options, Other};
use report::Report;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Says that this process has a mount namespace of its own.
const INSIDE: &str = "STRANDLINE_POWERCUT_INSIDE";

fn main() -> ExitCode {
    let options = Options::parse();
    let job = match &options.other {
        Some(Other::Faults(faults)) => &faults.job,
        None => &options.job,
    };
    let ended = match (job, &options.other) {
        (Some(job), other) => do_job(job, other.as_ref()).map(|()| true),
        (None, _) if std::env::var_os(INSIDE).is_none() => Err(enter_namespace()),
        (None, Some(Other::Faults(options))) => faults::run(options),
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
    let report = run::Run::new(options, Interrupt::listen()?)?.run()?;
    print!("{report}");
    println!("{}", serde_json::to_string(&report).map_err(|error| system("the report")(error.into()))?);
    Ok(verdict(options, &report))
}

/// A run that dropped nothing has shown nothing.
fn verdict(options: &Options, report: &Report) -> bool {
    let found = !report.violations.is_empty();
    match (options.expect_violation, found) {
        (true, true) => true,
        (true, false) => {
            eprintln!("strandline-powercut: no violation was found, and one was expected");
            false
        }
        (false, true) => false,
        (false, false) => {
            let shows = report.total.dropped > 0 || options.mode == Some(cut::Mode::Prefix);
            if !shows {
                eprintln!("strandline-powercut: no write was dropped: this run shows nothing");
            }
            shows
        }
    }
}

/// Does one job for a run.
fn do_job(file: &Path, other: Option<&Other>) -> Result<(), Trouble> {
    // When the run is gone nobody serves this disk any more.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if matches!(other, Some(Other::Faults(_))) {
        return faults::do_job(file);
    }
    let job: job::Job = job::load(file).map_err(system("reading a job"))?;
    let saved = match job.task {
        job::Task::Work { .. } => job::save(&job.answer, &work::work(&job)),
        job::Task::Check { .. } => job::save(&job.answer, &check::check(&job)),
    };
    saved.map_err(system("saving an answer"))
}
