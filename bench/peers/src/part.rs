//! A part: what one engine does in a process of its own, for the process that compares.
//!
//! Each engine has its own process: some keep threads and state for as long as a process lives, one has to find its directory in the
//! environment, and CPU time is counted by process. It opens the engine, says that it is ready, and does one window for each line that it
//! reads, until there are no more.

use crate::engine::{Kind, Setting};
use crate::error::{PeersError, io};
use crate::interrupt::Interrupt;
use crate::noise::noise;
use crate::producing::{Until, produce};
use crate::strace::marker;
use crate::window::{Figures, Window};
use crate::workload::Producers;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Payload bytes that one window may append, whatever gives room back.
const BYTES_MAX: u64 = 6 << 30;

/// Of the time of a window, the part for which the engine is loaded before it.
const WARM_PART: u32 = 5;

/// What a process is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which engine.
    pub kind: Kind,
    /// Its directory, which is empty.
    pub directory: PathBuf,
    /// How it is opened.
    pub setting: Setting,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// What it does.
    pub work: Work,
}

/// What is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A window for each line read.
    Windows(Duration),
    /// So many appends by one producer, with a mark before each that strace sees.
    Marked(u64),
}

/// What it says, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Said {
    /// The engine is open.
    Ready,
    /// A window is over.
    Measured(Figures),
    /// All marked appends are done; the commits that the engine counted for them, where it counts.
    Appended(Option<u64>),
}

/// Does it.
///
/// # Errors
/// What the engine answered, or that the user asked to stop.
pub fn run(part: &str) -> Result<(), PeersError> {
    let part: Part = serde_json::from_str(part)?;
    // Whatever ends the process that compares ends this one.
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|errno| io("asking for a signal")(errno.into()))?;
    let interrupt = Interrupt::listen()?;
    let engine = part.kind.open(&part.directory, part.setting)?;
    match part.work {
        Work::Windows(time) => {
            say(Said::Ready)?;
            for line in std::io::stdin().lock().lines() {
                let asked: Producers = serde_json::from_str(&line.map_err(io("reading what is asked"))?)?;
                let value = noise(part.record_bytes);
                let until = Until { time, bytes: BYTES_MAX, interrupt: &interrupt };
                produce(&*engine, asked, &value, Until { time: time / WARM_PART, ..until }, &mut Window::new())?;
                let mut window = Window::new();
                produce(&*engine, asked, &value, until, &mut window)?;
                say(Said::Measured(window.figures()))?;
            }
        }
        Work::Marked(appends) => {
            let (value, before) = (noise(part.record_bytes), engine.commits());
            // The first ones roll files and make threads.
            engine.append(0, &value)?;
            let before = engine.commits().or(before);
            for number in 0..appends {
                mark(number);
                engine.append(0, &value)?;
                interrupt.check()?;
            }
            mark(appends);
            let commits = engine.commits().zip(before).map(|(after, before)| after.saturating_sub(before));
            say(Said::Appended(commits))?;
        }
    }
    engine.close()
}

/// There is no such file. The attempt is what is seen.
fn mark(number: u64) {
    let _ = std::fs::File::open(marker(number));
}

fn say(said: Said) -> Result<(), PeersError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&said)?).and_then(|()| out.flush()).map_err(io("answering"))
}
