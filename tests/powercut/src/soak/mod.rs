//! Soak: a store in a process of its own under a mixed load, as a broker has it, for minutes or hours, while things fail and it is stopped, killed
//! and opened again. Memory, descriptors, threads and disk are sampled each second and must not grow; what was acknowledged must be there. One
//! half of the time the store stands on the disk, the other one on a directory that FUSE serves from memory, where operations can be made to
//! fail.

mod books;
mod child;
mod course;
mod ground;
mod leak;
mod life;
mod options;
mod part;
mod plan;
mod plot;
mod reader;
mod report;
mod role;
mod sample;
mod slope;
mod teller;
mod told;
mod upkeep;
mod writer;

pub use options::Options;

use crate::error::{Trouble, system};
use crate::interrupt::Interrupt;
use crate::job::{load, save};
use crate::{keep_record, next_seed, says};
use course::Kept;
use ground::Ground;
use options::On;
use part::Part;
use report::Report;
use std::path::Path;
use std::time::Duration;
use strandline_tests::record::{Host, Run};

/// Runs it. True when it came out as it should.
///
/// # Errors
/// What keeps the run from going on.
pub fn run(options: &Options) -> Result<bool, Trouble> {
    let report = Report::new(match &options.again {
        Some(samples) => load(samples).map_err(system("reading samples"))?,
        None => courses(options)?,
    });
    print!("{report}");
    if let Some(samples) = &options.samples {
        save(samples, report.kept()).map_err(system("keeping samples"))?;
    }
    if let Some(plot) = &options.plot {
        std::fs::write(plot, plot::draw(report.kept())).map_err(system("the plot"))?;
    }
    for run in report.runs() {
        keep_record(options.record.as_deref(), &run);
    }
    Ok(says(match options.sabotage.filter(|_| options.expect_violation) {
        Some(leak) => report.notices(leak),
        None => report.verdict(),
    }))
}

/// Runs the parts, one after the other, up to a broken promise.
fn courses(options: &Options) -> Result<Kept, Trouble> {
    let seed = options.seed.unwrap_or_else(|| next_seed(options.record.as_deref(), report::TIER, "fuse"));
    let grounds: &[fn() -> Result<Ground, Trouble>] = match options.on {
        On::Disk => &[Ground::disk],
        On::Fuse => &[Ground::fuse],
        On::Both => &[Ground::disk, Ground::fuse],
    };
    let (interrupt, takes) = (Interrupt::listen()?, Duration::from_secs_f64(options.minutes.max(0.0) * 60.0));
    let mut kept = Kept { seed, ..Kept::default() };
    for ground in grounds {
        let takes = takes / grounds.len() as u32;
        let part = Part::new(ground()?, (seed, takes), options, interrupt.clone());
        kept.courses.push(part.run()?);
        if kept.courses.iter().any(|course| !course.broken.is_empty()) {
            break;
        }
    }
    let Run { date, kernel, commit, .. } = Run::ended(report::TIER, (seed, seed + 1), Host::look("fuse"));
    Ok(Kept { kernel, commit, date, ..kept })
}

/// Does one job for a run.
///
/// # Errors
/// The job cannot be read.
pub fn do_job(file: &Path) -> Result<(), Trouble> {
    child::run(file)
}
