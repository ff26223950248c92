//! The process of an engine, seen from the process that compares. Whatever becomes of this one, that one ends.

use crate::engine::Kind;
use crate::error::{PeersError, io};
use crate::part::{Part, Said};
use crate::window::Figures;
use crate::workload::Producers;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an engine may take to close.
const CLOSE_WAIT: Duration = Duration::from_secs(20);

/// It, and the lines to and from it.
#[derive(Debug)]
pub struct Contestant {
    kind: Kind,
    child: Child,
    asked: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

/// This program again, asked to do a part, by way of `wrapper` when there is one.
///
/// # Errors
/// This program is not where it was, or the part does not fit into JSON.
pub fn command(part: &Part, wrapper: &[String]) -> Result<Command, PeersError> {
    let itself = std::env::current_exe().map_err(io("looking for this program"))?;
    let mut command = match wrapper {
        [] => Command::new(itself),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(itself);
            command
        }
    };
    command.arg("part").arg(serde_json::to_string(part)?).envs(part.kind.environment(&part.directory));
    Ok(command)
}

impl Contestant {
    /// Starts it, and waits until its engine is open.
    ///
    /// # Errors
    /// It did not start, or said something else.
    pub fn start(part: &Part) -> Result<Contestant, PeersError> {
        let made = command(part, &[])?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = made.map_err(io(format!("starting the process of {}", part.kind.name())))?;
        let (asked, said) = (child.stdin.take(), child.stdout.take());
        let said = BufReader::new(said.ok_or_else(|| unheard(part.kind, "it has no output"))?);
        let mut contestant = Contestant { kind: part.kind, child, asked, said };
        match contestant.hear()? {
            Said::Ready => Ok(contestant),
            other => Err(unheard(part.kind, format!("it said {other:?} before it was ready"))),
        }
    }

    /// Has it do a window.
    ///
    /// # Errors
    /// It ended, or said something else.
    pub fn window(&mut self, producers: Producers) -> Result<Figures, PeersError> {
        let line = serde_json::to_string(&producers)?;
        let asked = self.asked.as_mut().ok_or_else(|| unheard(self.kind, "it was told to end"))?;
        writeln!(asked, "{line}").map_err(io(format!("asking {}", self.kind.name())))?;
        match self.hear()? {
            Said::Measured(figures) => Ok(figures),
            other => Err(unheard(self.kind, format!("it said {other:?} in place of figures"))),
        }
    }

    /// Has it close its engine, and waits for that.
    ///
    /// # Errors
    /// It failed.
    pub fn close(mut self) -> Result<(), PeersError> {
        self.asked = None;
        let ended = self.child.wait().map_err(io(format!("waiting for {}", self.kind.name())))?;
        if ended.success() { Ok(()) } else { Err(unheard(self.kind, format!("it ended with {ended}"))) }
    }

    fn hear(&mut self) -> Result<Said, PeersError> {
        let mut line = String::new();
        let read = self.said.read_line(&mut line).map_err(io(format!("listening to {}", self.kind.name())))?;
        if read == 0 {
            return Err(unheard(self.kind, "it ended without an answer"));
        }
        serde_json::from_str(&line).map_err(|error| unheard(self.kind, format!("it said {line:?}: {error}")))
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        self.asked = None;
        let end = Instant::now() + CLOSE_WAIT;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // It is ours, and it had its time. That it is gone already is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// It did not do its part.
pub fn unheard(kind: Kind, reason: impl Into<String>) -> PeersError {
    PeersError::Child { engine: kind.name(), reason: reason.into() }
}
