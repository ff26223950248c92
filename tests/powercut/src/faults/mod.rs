//! Faults: operations of a file system fail below a store on the real ring. A directory that FUSE serves from memory is the file system: it counts
//! what it is asked to do and makes the k-th operation of a kind go wrong. A store runs a script on it; then the fault ends, the store opens in
//! another process, and everything that had been acknowledged must be there.

mod fault;
mod job;
mod load;
mod look;
mod model;
mod options;
mod plan;
mod report;
mod run;
mod served;
mod session;
mod tree;

pub use options::Options;

use crate::error::{Trouble, system};
use crate::interrupt::Interrupt;
use std::path::Path;

/// Runs the cases. True when it came out as it should.
///
/// # Errors
/// What keeps the run from going on.
pub fn run(options: &Options) -> Result<bool, Trouble> {
    let report = run::Run::new(options, Interrupt::listen()?)?.run()?;
    print!("{report}");
    println!("{}", serde_json::to_string(&report).map_err(|error| system("the report")(error.into()))?);
    match report.verdict(options.expect_violation) {
        Ok(()) => Ok(true),
        Err(why) => {
            eprintln!("strandline-powercut: {why}");
            Ok(false)
        }
    }
}

/// Does one job for a run.
///
/// # Errors
/// The job cannot be read, or its answer not be written.
pub fn do_job(file: &Path) -> Result<(), Trouble> {
    job::do_job(file)
}
