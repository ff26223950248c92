//! ten-thousand: stores of one log up to ten thousand, of ten segments of 256 KiB each. What opening and closing them costs, what they take of
//! memory and descriptors, and what an append to one of them costs.
//!
//! All but the last segment of a log were sealed after one record: their number counts here, not their bytes. Each step is a process of its own, so
//! that memory is that of a store and nothing else. The ceiling of an append is the same one in the store of one log.

use super::child::{Child, tell, tell_and_wait};
use super::{Context, Plan, Scale, Scenario};
use crate::error::BenchError;
use crate::host;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::place::drop_cached;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Appending, Config, Lane, Preallocate, Subject, config_of_many, with_segments_of};
use crate::window::{Figures, Window, mib};
use clap::Args;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const ABOUT: &str = "opening, using and closing stores of 1 to 10,000 logs of ten segments each";

/// So many logs.
pub struct Case {
    pub name: &'static str,
    pub logs: usize,
    /// How many of them are dirty when the process is killed.
    dirty: usize,
    /// The store of the case before it is opened once more.
    again: bool,
}

pub const CASES: [Case; 6] = [
    Case { name: "1 log", logs: 1, dirty: 1, again: false },
    Case { name: "10 logs", logs: 10, dirty: 10, again: false },
    Case { name: "100 logs", logs: 100, dirty: 100, again: false },
    Case { name: "1000 logs", logs: 1_000, dirty: 1_000, again: false },
    Case { name: "10000 logs", logs: 10_000, dirty: 1_000, again: false },
    Case { name: "10000 logs, all dirty", logs: 10_000, dirty: 10_000, again: true },
];

const SEGMENT_BYTES: u64 = 256 << 10;
const SEGMENTS: usize = 10;
const VALUE_BYTES: usize = 4 << 10;
/// What a manifest takes for a segment at most, with its share of the edits that have not been summed up yet.
const MANIFEST_BYTES_PER_SEGMENT: u64 = 512;
/// As a store has that may open 1,024 files.
const DESCRIPTORS: usize = 640;
/// Operations in flight where logs are filled or touched one after the other.
const DEPTH: usize = 64;
const LOGS_MAX_OF_SMOKE: usize = 50;
const ROUNDS_MAX: u32 = 3;

/// What a child is told of the store.
#[derive(Clone, Debug, Args)]
pub struct Many {
    /// Its directory.
    root: PathBuf,
    /// Its logs.
    logs: usize,
    /// Segments of each.
    segments: usize,
    /// How many of them are made dirty.
    dirty: usize,
    /// How long they are appended to, in milliseconds.
    window_ms: u64,
}

/// How often each store is used, killed and opened.
pub fn rounds(plan: Plan) -> u32 {
    plan.rounds.min(ROUNDS_MAX)
}

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let mut outcomes = Vec::new();
    let mut of_one = Vec::new();
    let mut directory: Option<PathBuf> = None;
    for case in &CASES {
        context.preparing(Scenario::TenThousand, case.name);
        let many = case.store(context.plan, &context.directory.join(format!("many-{}", case.logs)).join("store"));
        if !case.again {
            if let Some(last) = directory.take() {
                context.clear(&last)?;
            }
            directory = Some(context.subdirectory(format!("many-{}", case.logs))?);
            many.ask("many-filler")?;
        }
        let mut measured = Rounds::default();
        for round in 0..rounds(context.plan) {
            context.next_round(Scenario::TenThousand, case.name, round);
            context.settle()?;
            let figures = many.round(case.again)?;
            if case.logs == 1 {
                of_one.push(figures.clone());
            }
            let beside = of_one.get(round as usize).cloned().unwrap_or_default();
            measured.store(&Window::new(), with_bytes_per_log(figures, &beside, many.logs));
            measured.ceiling(&Window::new(), latencies_of(&beside));
        }
        context.progress.step();
        outcomes.push(measured.outcome(Scenario::TenThousand.name(), case.name));
    }
    if let Some(last) = directory {
        context.clear(&last)?;
    }
    Ok(outcomes)
}

impl Case {
    fn store(&self, plan: Plan, root: &Path) -> Many {
        let is_smoke = plan.scale == Scale::Smoke;
        let most = if is_smoke { LOGS_MAX_OF_SMOKE } else { self.logs };
        Many {
            root: root.to_owned(),
            logs: self.logs.min(most),
            segments: if is_smoke { 2 } else { SEGMENTS },
            dirty: self.dirty.min(most),
            window_ms: plan.window().as_millis() as u64,
        }
    }
}

fn latencies_of(figures: &Figures) -> Figures {
    let is_latency = |metric: &Metric| matches!(metric, Metric::P50 | Metric::P99 | Metric::P999);
    figures.iter().filter(|(metric, _)| is_latency(metric)).map(|(metric, value)| (*metric, *value)).collect()
}

fn with_bytes_per_log(mut figures: Figures, of_one: &Figures, logs: usize) -> Figures {
    if let (Some(rss), Some(least), true) = (figures.get(&Metric::Rss), of_one.get(&Metric::Rss), logs > 1) {
        figures.insert(Metric::BytesPerLog, (rss - least) * f64::from(1 << 20) / (logs - 1) as f64);
    }
    figures
}

impl Many {
    /// Uses the store and closes it, then makes some logs dirty, kills it, and opens it. Only the latter where it is opened `again`.
    fn round(&self, again: bool) -> Result<Figures, BenchError> {
        let mut figures = Figures::new();
        if !again {
            figures = self.ask("many-user")?;
        }
        self.ask("many-soiler")?;
        drop_cached(&self.root)?;
        figures.extend(self.ask("many-opener")?);
        Ok(figures)
    }

    /// Has a child do its part. It is killed behind that unless it has ended.
    fn ask(&self, part: &str) -> Result<Figures, BenchError> {
        let numbers = [self.logs as u64, self.segments as u64, self.dirty as u64, self.window_ms];
        let numbers = numbers.into_iter().map(|number| OsString::from(number.to_string()));
        let arguments: Vec<OsString> = [self.root.clone().into_os_string()].into_iter().chain(numbers).collect();
        let mut child = Child::<Figures>::start(part, &arguments)?;
        child.kill()?;
        Ok(child.said)
    }

    fn config(&self) -> Config {
        let mut config = with_segments_of(config_of_many(&self.root, self.logs + 1), SEGMENT_BYTES);
        let of_segments = (self.logs * (self.segments + 2)) as u64 * MANIFEST_BYTES_PER_SEGMENT;
        config.manifest_bytes = of_segments.next_multiple_of(8 << 10).max(config.manifest_bytes);
        config.preallocate = Preallocate::Allocated;
        config.descriptors_max = Some(DESCRIPTORS);
        config
    }

    fn open(&self) -> Result<(Subject, Vec<Lane>, Duration), BenchError> {
        let started = Instant::now();
        let subject = Subject::open_many(self.config(), 0)?;
        let took = started.elapsed();
        let lanes = subject.logs_of("bench", self.logs, SEGMENT_BYTES)?;
        Ok((subject, lanes, took))
    }
}

/// Makes the logs and their segments.
pub fn fill(many: &Many) -> Result<(), BenchError> {
    let (subject, lanes, _) = many.open()?;
    let value = noise(VALUE_BYTES);
    for segment in 1..=many.segments {
        append_to_each(&lanes, &value)?;
        let mut sealing = VecDeque::with_capacity(DEPTH);
        for lane in lanes.iter().filter(|_| segment < many.segments) {
            if sealing.len() == DEPTH
                && let Some(oldest) = sealing.pop_front()
            {
                Lane::sealed(oldest)?;
            }
            sealing.push_back(lane.seal());
        }
        sealing.into_iter().try_for_each(Lane::sealed)?;
    }
    drop(lanes);
    subject.close()?;
    tell(&Figures::new())
}

/// Opens a store that was closed in order, appends to its logs, and closes it.
pub fn put_to_use(many: &Many) -> Result<(), BenchError> {
    let (subject, lanes, opened) = many.open()?;
    let value = noise(VALUE_BYTES);
    let touching = Instant::now();
    append_to_each(&lanes, &value)?;
    let of_each = touching.elapsed() / lanes.len().max(1) as u32;
    let mut window = Window::new();
    window.timed(|window| append_to_any(window, &lanes, &value, Duration::from_millis(many.window_ms)))?;
    // Marks are written, and what only that kept busy rests.
    std::thread::sleep(Duration::from_millis(500));
    let mut figures = window.figures();
    figures.insert(Metric::OpenClean, opened.as_secs_f64() * 1e3);
    figures.insert(Metric::FirstAppend, of_each.as_secs_f64() * 1e6);
    figures.insert(Metric::Rss, mib(host::resident_bytes()));
    figures.insert(Metric::Descriptors, host::descriptors() as f64);
    figures.insert(Metric::Arena, mib(subject.arena_bytes()));
    drop(lanes);
    let closing = Instant::now();
    subject.close()?;
    figures.insert(Metric::Close, closing.elapsed().as_secs_f64() * 1e3);
    tell(&figures)
}

/// Makes some logs dirty and has the store killed.
pub fn soil(many: &Many) -> Result<(), BenchError> {
    let (_subject, lanes, _) = many.open()?;
    append_to_each(&lanes[..many.dirty.min(lanes.len())], &noise(VALUE_BYTES))?;
    tell_and_wait(&Figures::new())
}

/// Opens a store that was killed. It is open when every log has been asked for and the last one that was dirty reads back.
pub fn open_again(many: &Many) -> Result<(), BenchError> {
    let started = Instant::now();
    let (_subject, lanes, _) = many.open()?;
    let took = started.elapsed();
    // What was acknowledged before the kill must be there, or the time means nothing.
    lanes[many.dirty - 1].read(many.segments as u64, VALUE_BYTES)?;
    tell_and_wait(&Figures::from([(Metric::Open, took.as_secs_f64() * 1e3)]))
}

fn append_to_each(lanes: &[Lane], value: &[u8]) -> Result<(), BenchError> {
    let mut flying = VecDeque::with_capacity(DEPTH);
    for lane in lanes {
        if flying.len() == DEPTH
            && let Some(oldest) = flying.pop_front()
        {
            Appending::wait(oldest)?;
        }
        flying.push_back(lane.start(value)?);
    }
    flying.into_iter().try_for_each(|append| append.wait().map(drop))
}

/// Appends for so long, one at a time, each to any log.
fn append_to_any(window: &mut Window, lanes: &[Lane], value: &[u8], time: Duration) -> Result<(), BenchError> {
    let (end, mut state) = (Instant::now() + time, 0x9e37_79b9_7f4a_7c15u64);
    loop {
        let started = Instant::now();
        if started >= end {
            return Ok(());
        }
        // An xorshift: the same logs in the same order each time.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        lanes[(state % lanes.len() as u64) as usize].append(value)?;
        window.took(started.elapsed());
        window.records += 1;
        window.bytes += value.len() as u64;
    }
}
