//! steady-state: appends and expiry in balance over segments of 4 MiB, and what the file system has to do for it.
//!
//! Store: one producer with many in flight, while the sweeper keeps the log at a few segments. Files that are made or unlinked are
//! counted by the file system's account. Ceiling: a bare ring that writes as many bytes at once as the store's commits had.

use super::append_throughput::{bytes_max, per_commit};
use super::produce::{Until, keep_in_flight};
use super::{Context, Scenario};
use crate::error::BenchError;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Expiry, Subject, config, with_segments_of};
use crate::turnover::{Turned, Turnover};
use crate::window::{Figures, Window};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const ABOUT: &str = "appends and expiry in balance, 4 MiB segments: files made and unlinked";

/// Whether files may be kept for new segments.
pub struct Case {
    pub name: &'static str,
    pool: bool,
}

pub const CASES: [Case; 2] = [Case { name: "pool", pool: true }, Case { name: "no pool", pool: false }];

const SEGMENT_BYTES: u64 = 4 << 20;
/// The policy of the log.
const SEGMENTS_KEPT: u64 = 8;
/// Until it holds so many, nothing is measured.
const SEGMENTS_GROWN: u64 = 2 * SEGMENTS_KEPT;
/// Segments that wait to be used again before anything expires: what the log comes to hold, and what it grows by when a pass is late.
const SEGMENTS_SPARE: u64 = 4 * SEGMENTS_KEPT;
const RECORD_BYTES: usize = 64 << 10;
const IN_FLIGHT: usize = 16;
/// A segment lasts a little longer than this, so that each is seen several times before it goes.
const PASS_EVERY: Duration = Duration::from_millis(10);
/// Long enough for anything that is bounded by bytes.
const UNBOUNDED: Duration = Duration::from_secs(600);

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    CASES.iter().map(|case| run_case(context, case)).collect()
}

fn run_case(context: &Context<'_>, case: &Case) -> Result<Outcome, BenchError> {
    let scenario = Scenario::SteadyState;
    context.preparing(scenario, case.name);
    let directory = context.subdirectory(format!("steady-state-{}", case.name.replace(' ', "-")))?;
    let mut ceiling = context.append_ceiling(&directory, RECORD_BYTES)?;
    let root = directory.join("store");
    let subject = open(context, case, &root)?;
    let (window, mut rounds) = (context.plan.window(), Rounds::default());
    for round in 0..context.plan.rounds {
        context.next_round(scenario, case.name, round);
        let until = Until::new(window, bytes_max(context.plan), context.interrupt);
        let (store, figures) = turn_over(context, &subject, &root, until)?;
        ceiling.reshape(per_commit(&store, RECORD_BYTES), 1)?;
        context.settle()?;
        rounds.store(&store, figures);
        rounds.ceiling(&ceiling.window(window, context.interrupt)?, Figures::new());
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(rounds.outcome(scenario.name(), case.name))
}

/// A store whose log is at its size.
fn open(context: &Context<'_>, case: &Case, root: &Path) -> Result<Subject, BenchError> {
    let mut config = with_segments_of(config(root), SEGMENT_BYTES);
    if !case.pool {
        config.spare_bytes_max = 0;
    }
    let subject = Subject::open(config)?;
    if case.pool {
        subject.warm(SEGMENTS_SPARE, context.interrupt)?;
    }
    subject.keep_bytes("bench", SEGMENTS_KEPT * SEGMENT_BYTES)?;
    let grown = SEGMENTS_GROWN * SEGMENT_BYTES;
    turn_over(context, &subject, root, Until::new(UNBOUNDED, grown, context.interrupt))?;
    Ok(subject)
}

/// Appends while another thread makes passes and looks what files there are.
fn turn_over(
    context: &Context<'_>,
    subject: &Subject,
    root: &Path,
    until: Until<'_>,
) -> Result<(Window, Figures), BenchError> {
    let (value, mut window, over) = (noise(RECORD_BYTES), Window::new(), AtomicBool::new(false));
    context.settle()?;
    let mut turnover = Turnover::begin(root)?;
    let mut expired = 0;
    subject.timed(&mut window, |window| {
        std::thread::scope(|scope| {
            let sweeper = scope.spawn(|| -> Result<(), BenchError> {
                let mut expiry = Expiry::of(subject);
                while !over.load(Ordering::Acquire) {
                    expired += expiry.pass()?.expired;
                    turnover.look()?;
                    std::thread::sleep(PASS_EVERY);
                }
                Ok(())
            });
            let appended = keep_in_flight(subject.lanes(), &value, IN_FLIGHT, until, window, |_| {});
            over.store(true, Ordering::Release);
            sweeper.join().expect("a sweeper does not panic").and(appended)
        })
    })?;
    // What expired last is on its way.
    context.settle()?;
    // The ring was entered for the sweeper as well.
    window.enters = 0;
    Ok((window.without_cpu(), per_thousand(turnover.end()?, expired)))
}

/// What it took to turn over 1,000 segments.
fn per_thousand(turned: Turned, expired: u64) -> Figures {
    let of_thousand = |count: usize| count as f64 * 1_000.0 / expired as f64;
    Figures::from([
        (Metric::Unlinks, of_thousand(turned.files_gone)),
        (Metric::Rmdirs, of_thousand(turned.directories_gone)),
        (Metric::Fallocates, of_thousand(turned.files_made)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::progress::Progress;
    use crate::scenario::{Plan, RemovalPlan, Scale};

    #[test]
    fn a_store_with_a_pool_makes_and_unlinks_nothing_and_one_without_unlinks_what_expires() {
        let directory = tempfile::tempdir().expect("a directory");
        let plan = Plan {
            scale: Scale::Smoke,
            time: Duration::ZERO,
            rounds: 1,
            core: false,
            removal: RemovalPlan::default(),
            directories: None,
        };
        let (progress, interrupt) = (Progress::over(0), Interrupt::default());
        let context = Context { directory: directory.path(), plan, progress: &progress, interrupt: &interrupt };
        let figures = |case: &Case| {
            let root = directory.path().join(case.name);
            let subject = open(&context, case, &root).expect("a store");
            let until = Until::new(UNBOUNDED, 60 * SEGMENT_BYTES, &interrupt);
            let (_, figures) = turn_over(&context, &subject, &root, until).expect("turned over");
            subject.close().expect("closed");
            figures
        };
        let [pool, no_pool] = CASES.each_ref().map(figures);
        assert!(pool.values().all(|figure| *figure == 0.0), "{pool:?}");
        // What expired last may still be there: removal begins with a look at the appends, for which 20 segments were over too soon.
        assert!((100.0..1_500.0).contains(&no_pool[&Metric::Unlinks]), "{no_pool:?}");
    }

    #[test]
    fn figures_are_for_a_thousand_segments_and_no_numbers_where_nothing_expired() {
        let turned = Turned { files_made: 3, files_gone: 2, directories_gone: 1 };
        let figures = per_thousand(turned, 500);
        assert_eq!(figures[&Metric::Unlinks], 4.0);
        assert_eq!((figures[&Metric::Rmdirs], figures[&Metric::Fallocates]), (2.0, 6.0));
        let nothing = Turned { files_made: 0, files_gone: 0, directories_gone: 0 };
        assert!(per_thousand(nothing, 0).values().all(|figure| figure.is_nan()));
    }
}
