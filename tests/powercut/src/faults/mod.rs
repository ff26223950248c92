//! Faults: operations of a file system fail below a store on the real ring. A directory that FUSE serves from memory is the file system: it counts
//! what it is asked to do and makes the k-th operation of a kind go wrong. A store runs a script on it; then the fault ends, the store opens in
//! another process, and everything that had been acknowledged must be there.

pub mod fault;
mod job;
mod load;
mod look;
pub mod model;
mod options;
mod plan;
mod report;
mod run;
pub mod served;
mod session;
pub mod tree;

pub use options::Options;

use crate::controls::{judge, noticed_as};
use crate::error::{Trouble, system};
use crate::interrupt::Interrupt;
use crate::{keep_record, next_seed, says};
use std::collections::BTreeSet;
use std::path::Path;
use strandline_tests::tiers::controls::Tier;
use strandline_tests::tiers::promise::Promise;

/// Runs the cases. True when it came out as it should.
///
/// # Errors
/// What keeps the run from going on.
pub fn run(options: &Options) -> Result<bool, Trouble> {
    let seed = options.seed.unwrap_or_else(|| next_seed(options.record.as_deref(), report::TIER, report::FILE_SYSTEM));
    let options = &Options { seed: Some(seed), ..options.clone() };
    let report = run::Run::new(options, Interrupt::listen()?)?.run()?;
    print!("{report}");
    println!("{}", serde_json::to_string(&report).map_err(|error| system("the report")(error.into()))?);
    keep_record(options.record.as_deref(), &report.run());
    let verdict = match options.expect_violation {
        true => noticed_as(options.sabotage, Tier::T5Below).and_then(|noticed_as| judge(noticed_as, &report.broken)),
        false => report.verdict(),
    };
    Ok(says(verdict))
}

/// Runs the cases of a control. Gives the promises that were broken, and how many cases it took.
///
/// # Errors
/// What keeps the run from going on.
pub fn broken(options: &Options, interrupt: Interrupt) -> Result<(BTreeSet<Promise>, u64), Trouble> {
    let report = run::Run::new(options, interrupt)?.run()?;
    let cases = report.cases();
    Ok((report.broken, cases))
}

/// Does one job for a run.
///
/// # Errors
/// The job cannot be read, or its answer not be written.
pub fn do_job(file: &Path) -> Result<(), Trouble> {
    job::do_job(file)
}
