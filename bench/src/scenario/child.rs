//! A child: this program once more, in a process of its own, which says on one line how it went and is then killed, or ends by itself.

use crate::error::{BenchError, io};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// A child that has said how it went.
pub struct Child<T> {
    guard: Guard,
    /// What it said.
    pub said: T,
}

impl<T: DeserializeOwned> Child<T> {
    /// Starts this program with a part of it, and waits until it says how that went.
    ///
    /// # Errors
    /// What the system answered, or that it ended without a word.
    pub fn start(part: &str, arguments: &[OsString]) -> Result<Child<T>, BenchError> {
        let program = std::env::current_exe().map_err(io("looking for this program"))?;
        let mut command = Command::new(program);
        command.arg(part).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = Guard(command.spawn().map_err(io(format!("starting {part}")))?);
        let mut line = String::new();
        if let Some(out) = guard.0.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(io(format!("listening to {part}")))?;
        }
        let said =
            serde_json::from_str(&line).map_err(|_| BenchError::Child(format!("{part} did not become ready")))?;
        Ok(Child { guard, said })
    }

    /// SIGKILL, by its pid.
    ///
    /// # Errors
    /// What the system answered.
    pub fn kill(&mut self) -> Result<(), BenchError> {
        let process = &mut self.guard.0;
        process.kill().and_then(|()| process.wait()).map_err(io("killing the child"))?;
        Ok(())
    }
}

/// Killed when dropped.
struct Guard(std::process::Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It has usually ended and been waited for by now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells the parent how it went.
///
/// # Errors
/// What the system answered.
pub fn tell<T: Serialize>(said: &T) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(said)?).map_err(io("telling the parent"))?;
    out.flush().map_err(io("telling the parent"))
}

/// The same, and then waits with everything open until the parent kills it, or is gone.
///
/// # Errors
/// What the system answered.
pub fn tell_and_wait<T: Serialize>(said: &T) -> Result<(), BenchError> {
    tell(said)?;
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // Never closed in order, not even then.
    std::process::exit(0);
}
