//! orphans: ten thousand directories that no log knows, of one to three files each, are emptied.
//!
//! Store: the sweeper's way for orphans with all that holds it back lifted: caps, hold and the pace of removal. Ceiling:
//! `std::fs::remove_dir_all` of each of as many directories; for the figure whose name begins with `rm`, one `rm -rf` of as many. None of
//! these syncs anything; the store does. Under load removal keeps its pace, and a producer appends; its ceiling is the producer alone, in the
//! same round.

use super::beside::{append_alone, append_beside};
use super::{Context, Plan, Scale, Scenario};
use crate::error::{BenchError, io};
use crate::metrics::Metric;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Removal, Subject, config};
use crate::window::{Figures, Window};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use strandline_disk::BLOCK;

pub const ABOUT: &str = "10,000 directories of 1 to 3 files emptied; the ceilings are remove_dir_all and rm -rf";
pub const CASE: &str = "10000 directories";
pub const CASE_UNDER_LOAD: &str = "10000 directories under load";

/// What a directory may hold beside its data: another generation, and what recovery had set aside.
const FILES: [&str; 3] = ["data.0", "data.1", "torn.1"];

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let alone = emptied(context)?.outcome(Scenario::Orphans.name(), CASE);
    Ok(vec![alone, emptied_under_load(context)?.outcome(Scenario::Orphans.name(), CASE_UNDER_LOAD)])
}

/// As fast as it goes, beside what others do.
fn emptied(context: &Context<'_>) -> Result<Rounds, BenchError> {
    let (scenario, count) = (Scenario::Orphans, directories(context.plan));
    context.preparing(scenario, CASE);
    let directory = context.subdirectory("orphans".to_owned())?;
    let root = directory.join("store");
    let mut config = context.config(config(&root));
    config.removal = Removal::Unpaced;
    let subject = Subject::open(config)?;
    // A store that lists no segment at all takes nothing for an orphan.
    subject.lane().append(&[7])?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE, round);
        let mut of_trash = Duration::ZERO;
        let of_store = per_second(context, &root, count, || {
            of_trash = subject.empty_orphans(count)?;
            Ok(())
        })?;
        let lot = context.subdirectory("orphans-of-others".to_owned())?;
        let of_std = per_second(context, &lot, count, || remove_each(&lot))?;
        let of_rm = per_second(context, &lot, count, || rm(&lot))?;
        let figures = |each, of_trash, whole| {
            Figures::from([
                (Metric::DirectoriesPerSecond, each),
                (Metric::TrashDirectoriesPerSecond, of_trash),
                (Metric::RmDirectoriesPerSecond, whole),
            ])
        };
        // One emptying a round is no distribution: there are figures, and nothing to draw.
        rounds.store(&Window::new(), figures(of_store, count as f64 / of_trash.as_secs_f64(), of_store));
        rounds.ceiling(&Window::new(), figures(of_std, of_std, of_rm));
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(rounds)
}

/// As a store does that sets nothing, beside a producer.
fn emptied_under_load(context: &Context<'_>) -> Result<Rounds, BenchError> {
    let (scenario, count) = (Scenario::Orphans, directories(context.plan));
    context.preparing(scenario, CASE_UNDER_LOAD);
    let directory = context.subdirectory("orphans-under-load".to_owned())?;
    let root = directory.join("store");
    let subject = Subject::open(context.config(config(&root)))?;
    // Unmeasured: the first segment is made, buffers are touched for the first time.
    append_alone(context, &subject, Duration::ZERO)?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE_UNDER_LOAD, round);
        context.settle()?;
        let idle = append_alone(context, &subject, context.plan.window())?;
        make_orphans(&root, count)?;
        context.settle()?;
        let (window, time) = append_beside(context, &subject, || {
            let started = Instant::now();
            subject.empty_orphans(count)?;
            Ok(started.elapsed())
        })?;
        let emptied = count as f64 / time.as_secs_f64();
        rounds.store(&window, Figures::from([(Metric::DirectoriesPerSecond, emptied)]));
        rounds.ceiling(&idle, Figures::new());
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(rounds)
}

fn directories(plan: Plan) -> u64 {
    plan.directories.unwrap_or(if plan.scale == Scale::Smoke { 200 } else { 10_000 })
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
