//! recovery: a store whose process was killed with a segment full of records that nobody sealed, opened again.
//!
//! Store: a child opens it, says how long that took, and is killed; nothing is ever closed in order. Ceiling: a bare ring
//! that reads the same bytes of the same file, 1 MiB each, four in flight.

use super::Part;
use super::child::{self, Child};
use super::{Context, Plan, Scale, Scenario};
use crate::ceiling::ReadCeiling;
use crate::error::{BenchError, io};
use crate::host;
use crate::interrupt::Interrupt;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::place::drop_cached;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Subject, config};
use crate::window::{Figures, Window, mib};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;
use strandline_disk::bare::Shape;

pub const ABOUT: &str = "a store whose process was killed with an unsealed segment, opened again";
pub const CASE: &str = "unsealed";

const RECORD_BYTES: u64 = 16 << 10;
const READ: Shape = Shape { block: 1 << 20, depth: 4 };

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::Recovery;
    context.preparing(scenario, CASE);
    let root = context.subdirectory("recovery".to_owned())?.join("store");
    let bytes = unsealed_bytes(context.plan);
    start("recovery-writer", &root, bytes)?.kill()?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE, round);
        drop_cached(&root)?;
        context.settle()?;
        let bare = read_bare(&unsealed_file(&root, bytes)?, bytes)?;
        drop_cached(&root)?;
        context.settle()?;
        let mut child = start("recovery-opener", &root, bytes)?;
        child.kill()?;
        // One opening a round is no distribution: there are figures, and nothing to draw.
        rounds.store(&Window::new(), child.said.figures(bytes));
        rounds.ceiling(&Window::new(), bare);
    }
    context.progress.step();
    Ok(vec![rounds.outcome(scenario.name(), CASE)])
}

fn start(part: &str, root: &Path, bytes: u64) -> Result<Child<Ready>, BenchError> {
    Child::start(part, &[root.as_os_str().to_owned(), bytes.to_string().into()])
}

fn unsealed_bytes(plan: Plan) -> u64 {
    match plan.scale {
        Scale::Smoke => 32 << 20,
        Scale::Normal => 1 << 30,
        Scale::Full => 2 << 30,
    }
}

/// Does the child's part: writes or opens the store, says so on one line, and waits to be killed.
pub fn run_part(part: &Part) -> Result<(), BenchError> {
    match part {
        Part::RecoveryWriter { root, bytes } => {
            let subject = open(root, *bytes)?;
            subject.lane().fill(&noise(RECORD_BYTES as usize), bytes / RECORD_BYTES, &Interrupt::default())?;
            tell(&subject, 0)
        }
        Part::RecoveryOpener { root, bytes } => {
            let started = Instant::now();
            let subject = open(root, *bytes)?;
            let open_ns = started.elapsed().as_nanos() as u64;
            // What was acknowledged before the kill must be there, or the time means nothing.
            subject.lane().read(bytes / RECORD_BYTES - 1, RECORD_BYTES as usize)?;
            tell(&subject, open_ns)
        }
        // Another scenario's.
        _ => Ok(()),
    }
}

/// One segment holds everything: headers take 1 part in 100, index and reserve less.
fn open(root: &Path, bytes: u64) -> Result<Subject, BenchError> {
    let mut config = config(root);
    config.segment_bytes = (bytes + bytes / 16).next_multiple_of(1 << 20) + (8 << 20);
    Subject::open(config)
}

/// What a child says when it is ready.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    open_ns: u64,
    rss_bytes: u64,
    descriptors: u64,
}

impl Ready {
    fn figures(&self, bytes: u64) -> Figures {
        let seconds = self.open_ns as f64 / 1e9;
        Figures::from([
            (Metric::Open, seconds * 1e3),
            (Metric::MibPerSecond, mib(bytes) / seconds),
            (Metric::Rss, mib(self.rss_bytes)),
            (Metric::Descriptors, self.descriptors as f64),
        ])
    }
}

/// Tells the parent, then waits with the store open. The wait ends only when the parent is gone.
fn tell(subject: &Subject, open_ns: u64) -> Result<(), BenchError> {
    let ready = Ready { open_ns, rss_bytes: host::resident_bytes(), descriptors: host::descriptors() };
    // Never closed in order.
    let _ = subject;
    child::tell_and_wait(&ready)
}

/// The data file of the first segment that is large enough.
fn unsealed_file(root: &Path, bytes: u64) -> Result<PathBuf, BenchError> {
    let mut found = Vec::new();
    let list = |path: &Path| std::fs::read_dir(path).map_err(io(format!("listing {}", path.display())));
    for directory in list(root)? {
        let directory = directory.map_err(io("listing the store"))?.path();
        // `data.` and nothing below spare/ or trash/, whose files are one level deeper.
        for file in if directory.is_dir() { list(&directory)?.flatten().collect() } else { Vec::new() } {
            let is_data = file.file_name().to_string_lossy().starts_with("data.");
            if is_data && file.metadata().is_ok_and(|metadata| metadata.len() >= bytes) {
                found.push(file.path());
            }
        }
    }
    found.sort();
    found.into_iter().next().ok_or_else(|| BenchError::Child("no data file holds what was written".to_owned()))
}

fn read_bare(file: &Path, bytes: u64) -> Result<Figures, BenchError> {
    let mut ceiling = ReadCeiling::open(file, READ, RECORD_BYTES)?;
    let mut window = Window::new();
    ceiling.stretch(&mut window, (0..bytes).step_by(READ.block))?;
    let rate = window.figures()[&Metric::MibPerSecond];
    Ok(Figures::from([(Metric::Open, mib(bytes) / rate * 1e3), (Metric::MibPerSecond, rate)]))
}
