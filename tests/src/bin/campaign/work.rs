//! Runs the cases of a tier on several threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strandline_tests::harness::Checked;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::tiers::corruption::Stores;
use strandline_tests::tiers::faults::{Plan, SETUPS, ways};
use strandline_tests::tiers::kills::Kills;
use strandline_tests::tiers::sweeps::Sweeps;
use strandline_tests::tiers::{Tally, exhaustive, histories};

/// One seed in so many is run twice: both must go the same way.
const TWICE_ONE_IN: u64 = 64;

/// A tier with cases that have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Random histories.
    T1,
    /// Every short sequence.
    T1b,
    /// Kill -9.
    T2,
    /// Failing operations.
    T5,
    /// Damage.
    T6,
    /// The sweeper over what is damaged.
    T6Sweep,
}

type Case = Box<dyn FnMut(u64) -> Checked<Tally>>;

impl Tier {
    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Tier::T1 => "t1",
            Tier::T1b => "t1b",
            Tier::T2 => "t2",
            Tier::T5 => "t5",
            Tier::T6 => "t6",
            Tier::T6Sweep => "t6-sweep",
        }
    }

    /// How many cases there are, where they have an end.
    pub fn cases(self) -> Option<u64> {
        match self {
            Tier::T1 | Tier::T2 => None,
            Tier::T1b => Some(exhaustive::cases()),
            Tier::T5 => Some(Plan::new(ways(), &SETUPS, None).expect("an honest history").cases()),
            Tier::T6Sweep => Some(Sweeps::new().expect("an honest history").cases()),
            Tier::T6 => Some(Stores::new(None).expect("an honest history").cases()),
        }
    }

    /// What runs a case, made by the thread that runs it.
    fn worker(self, seed: u64) -> Case {
        match self {
            Tier::T1 => Box::new(|seed| {
                let twist = histories::twist_of(seed);
                let twice = seed % TWICE_ONE_IN == 0;
                let run = if twice { histories::run_twice } else { histories::run };
                run(seed, histories::WHOLE, &twist).map(|history| history.tally)
            }),
            Tier::T1b => Box::new(|number| exhaustive::run(number, exhaustive::WHOLE, None)),
            Tier::T2 => {
                let mut kills = Kills::new(seed, super::kill_child);
                Box::new(move |_| kills.cycle())
            }
            Tier::T5 => {
                let plan = Plan::new(ways(), &SETUPS, None).expect("an honest history");
                Box::new(move |number| plan.run(number))
            }
            Tier::T6Sweep => {
                let sweeps = Sweeps::new().expect("an honest history");
                Box::new(move |number| sweeps.run(number))
            }
            Tier::T6 => {
                let stores = Stores::new(None).expect("an honest history");
                Box::new(move |number| stores.run(number))
            }
        }
    }
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Ended {
    /// One past the last case that was run.
    pub to: u64,
    /// How many were run.
    pub runs: u64,
    /// What was done in them.
    pub tally: Tally,
    /// The cases that broke a promise, and how.
    pub violations: Vec<(u64, String)>,
    /// How long it took.
    pub seconds: f64,
}

/// Runs cases, in order as threads become free, until they end, the time is over, or one breaks a promise.
pub fn run(tier: Tier, cases: Range<u64>, threads: usize, limit: Option<Duration>) -> Ended {
    let (next, stop, started) = (AtomicU64::new(cases.start), AtomicBool::new(false), Instant::now());
    let ended = Mutex::new(Ended::default());
    let work = |thread: u64| {
        let mut run = tier.worker(cases.start + thread);
        while !stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| started.elapsed() < limit) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= cases.end {
                break;
            }
            let mut tally = Tally::default();
            let text = outcome(|| run(number).map(|done| tally = done)).err().map(|violation| violation.to_string());
            let mut ended = ended.lock().expect("no thread panics with it");
            ended.runs += 1;
            ended.to = ended.to.max(number + 1);
            ended.tally += tally;
            if ended.runs.is_multiple_of(20_000) {
                eprintln!("{}: {} runs in {:.0} s", tier.name(), ended.runs, started.elapsed().as_secs_f64());
            }
            if let Some(text) = text {
                ended.violations.push((number, text));
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    let mut ended = ended.into_inner().expect("no thread panics with it");
    ended.seconds = started.elapsed().as_secs_f64();
    ended.to = ended.to.max(cases.start);
    ended
}
