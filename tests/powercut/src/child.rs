//! Child: a job in a process of its own, watched and ended when it hangs.

use crate::error::{Trouble, system};
use crate::interrupt::Interrupt;
use crate::job::{Job, load, save};
use serde::Deserialize;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// After how long a job hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// How a job came out.
pub enum Outcome<T> {
    /// It gave its answer.
    Answered(T),
    /// It did not: what it left to read.
    Died(String),
}

/// A process that is killed and waited for, however its run ends.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does a job and waits for its answer. `place` is a directory for what it reads and writes.
///
/// # Errors
/// It cannot be started, or the user has asked to stop.
pub fn run<T: for<'a> Deserialize<'a>>(job: &Job, place: &Path, interrupt: &Interrupt) -> Result<Outcome<T>, Trouble> {
    let (told, file) = (place.join("stderr"), place.join("job"));
    save(&file, job).map_err(system("writing a job"))?;
    // An answer of an earlier job would pass for this one's.
    let _ = std::fs::remove_file(&job.answer);
    let stderr = File::create(&told).map_err(system("a file for what a job says"))?;
    let program = std::env::current_exe().map_err(system("the path of this program"))?;
    let mut command = Command::new(program);
    command.arg("--job").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let mut child = Guarded(command.spawn().map_err(system("starting a job"))?);
    let since = Instant::now();
    let ended = loop {
        interrupt.check()?;
        match child.0.try_wait().map_err(system("waiting for a job"))? {
            Some(status) => break status.to_string(),
            None if since.elapsed() > HANGS_AFTER => break format!("no answer within {HANGS_AFTER:?}"),
            None => std::thread::sleep(Duration::from_micros(500)),
        }
    };
    match load(&job.answer) {
        Ok(answer) => Ok(Outcome::Answered(answer)),
        Err(_) => {
            let told = std::fs::read_to_string(&told).unwrap_or_default();
            Ok(Outcome::Died(format!("{ended}: {}", told.trim())))
        }
    }
}
