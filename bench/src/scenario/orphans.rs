//! orphans: ten thousand directories that no log knows, of one to three files each, are emptied.
//!
//! Store: the sweeper's way for orphans, caps lifted and nothing held. Ceiling: `std::fs::remove_dir_all` of each of as many
//! directories; for the figure whose name begins with `rm`, one `rm -rf` of as many. None of these syncs anything; the store does.

use super::{Context, Plan, Scale, Scenario};
use crate::error::{BenchError, io};
use crate::metrics::Metric;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Subject, config};
use crate::window::{Figures, Window};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use strandline_disk::BLOCK;

pub const ABOUT: &str = "10,000 directories of 1 to 3 files emptied; the ceilings are remove_dir_all and rm -rf";
pub const CASE: &str = "10000 directories";

/// What a directory may hold beside its data: another generation, and what recovery had set aside.
const FILES: [&str; 3] = ["data.0", "data.1", "torn.1"];

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let (scenario, count) = (Scenario::Orphans, directories(context.plan));
    context.preparing(scenario, CASE);
    let directory = context.subdirectory("orphans".to_owned())?;
    let root = directory.join("store");
    let subject = Subject::open(context.config(config(&root)))?;
    // A store that lists no segment at all takes nothing for an orphan.
    subject.lane().append(&[7])?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE, round);
        let of_store = per_second(context, &root, count, || subject.empty_orphans(count))?;
        let lot = context.subdirectory("orphans-of-others".to_owned())?;
        let of_std = per_second(context, &lot, count, || remove_each(&lot))?;
        let of_rm = per_second(context, &lot, count, || rm(&lot))?;
        let figures = |each, whole| {
            Figures::from([(Metric::DirectoriesPerSecond, each), (Metric::RmDirectoriesPerSecond, whole)])
        };
        // One emptying a round is no distribution: there are figures, and nothing to draw.
        rounds.store(&Window::new(), figures(of_store, of_store));
        rounds.ceiling(&Window::new(), figures(of_std, of_rm));
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(vec![rounds.outcome(scenario.name(), CASE)])
}

fn directories(plan: Plan) -> u64 {
    if plan.scale == Scale::Smoke { 200 } else { 10_000 }
}

/// Makes the directories, has them emptied, and says how fast that went.
fn per_second(
    context: &Context<'_>,
    root: &Path,
    count: u64,
    empty: impl FnOnce() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    make_orphans(root, count)?;
    context.settle()?;
    let started = Instant::now();
    empty()?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// Makes directories as a store has them whose segments nobody knows any more. Their header blocks were never written.
fn make_orphans(root: &Path, count: u64) -> Result<(), BenchError> {
    let block = [0; BLOCK];
    for number in 0..count {
        let directory = root.join(format!("orphan-r0-s{number}"));
        std::fs::create_dir(&directory).map_err(io(format!("making {}", directory.display())))?;
        for name in FILES.iter().take(1 + number as usize % FILES.len()) {
            std::fs::write(directory.join(name), block)
                .map_err(io(format!("writing below {}", directory.display())))?;
        }
    }
    // What is removed was on the disk.
    let opened = std::fs::File::open(root).map_err(io(format!("opening {}", root.display())))?;
    rustix::fs::syncfs(opened).map_err(|errno| io("writing orphans out")(errno.into()))
}

/// Removes each directory below this one.
fn remove_each(lot: &Path) -> Result<(), BenchError> {
    let listed = std::fs::read_dir(lot).map_err(io(format!("listing {}", lot.display())))?;
    listed.flatten().try_for_each(|entry| {
        std::fs::remove_dir_all(entry.path()).map_err(io(format!("removing {}", entry.path().display())))
    })
}

/// Removes this directory and all below it.
fn rm(lot: &Path) -> Result<(), BenchError> {
    let status = Command::new("rm").arg("-rf").arg(lot).status().map_err(io("starting rm"))?;
    if status.success() { Ok(()) } else { Err(BenchError::Child(format!("rm -rf ended with {status}"))) }
}
