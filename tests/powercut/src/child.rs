//! Child: a job in a process of its own, watched and ended when it hangs.

use crate::error::{Trouble, system};
use crate::interrupt::Interrupt;
use crate::job::{load, save};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a job came out.
pub enum Outcome<T> {
    /// It gave its answer.
    Answered(T),
    /// It did not: what it left to read.
    Died(String),
}

/// How a job is done.
pub struct Errand<'a> {
    /// What the program is to be called with before the name of the job's file.
    pub arguments: &'a [&'a str],
    /// Where the answer will be.
    pub answer: &'a Path,
    /// A directory for what the process reads and writes.
    pub place: &'a Path,
    /// After how long it hangs.
    pub limit: Duration,
    /// Lets it go where it is held, before it is killed.
    pub release: &'a dyn Fn(),
}

/// A process that is killed and waited for, however its run ends.
struct Guarded<'a>(Child, &'a dyn Fn());

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            (self.1)();
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does a job and waits for its answer.
///
/// # Errors
/// It cannot be started, or the user has asked to stop.
pub fn run<T: for<'a> Deserialize<'a>>(
    job: &impl Serialize,
    errand: &Errand<'_>,
    interrupt: &Interrupt,
) -> Result<Outcome<T>, Trouble> {
    let (told, file) = (errand.place.join("stderr"), errand.place.join("job"));
    save(&file, job).map_err(system("writing a job"))?;
    // An answer of an earlier job would pass for this one's.
    let _ = std::fs::remove_file(errand.answer);
    let stderr = File::create(&told).map_err(system("a file for what a job says"))?;
    let program = std::env::current_exe().map_err(system("the path of this program"))?;
    let mut command = Command::new(program);
    command.args(errand.arguments).arg("--job").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let mut child = Guarded(command.spawn().map_err(system("starting a job"))?, errand.release);
    let since = Instant::now();
    let ended = loop {
        interrupt.check()?;
        match child.0.try_wait().map_err(system("waiting for a job"))? {
            Some(status) => break status.to_string(),
            None if since.elapsed() > errand.limit => break format!("no answer within {:?}", errand.limit),
            None => std::thread::sleep(Duration::from_micros(500)),
        }
    };
    match load(errand.answer) {
        Ok(answer) => Ok(Outcome::Answered(answer)),
        Err(_) => {
            let told = std::fs::read_to_string(&told).unwrap_or_default();
            Ok(Outcome::Died(format!("{ended}: {}", told.trim())))
        }
    }
}
