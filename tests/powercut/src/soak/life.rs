//! Life: one process of the store, as the run holds it. Dropping it ends it.

use super::books::Books;
use super::told::{Asked, Job, Told};
use crate::error::{Trouble, system};
use crate::job::save;
use crate::server::lock;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;
use strandline_tests::tiers::promise::{Broken, Promise};

/// One process, and the thread that hears it.
#[derive(Debug)]
pub struct Life {
    child: Child,
    asks: ChildStdin,
    hearing: Option<JoinHandle<()>>,
    said: PathBuf,
    /// When it was started.
    pub since: Instant,
}

impl Life {
    /// Starts a process; what it tells goes into the books.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(job: &Job, place: &Path, books: &Arc<Mutex<Books>>) -> Result<Life, Trouble> {
        let (file, said) = (place.join("job"), place.join("stderr"));
        save(&file, job).map_err(system("writing a job"))?;
        let stderr = File::create(&said).map_err(system("a file for what a process says"))?;
        let program = std::env::current_exe().map_err(system("the path of this program"))?;
        let mut command = Command::new(program);
        command.args(["soak", "--job"]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        // With an arena of the allocator for each thread, memory would say less of the store; and it is to give back what it can.
        command.env("MALLOC_ARENA_MAX", "2").env_remove("MALLOC_TRIM_THRESHOLD_").env_remove("MALLOC_MMAP_THRESHOLD_");
        let mut child = command.spawn().map_err(system("starting a process"))?;
        let (Some(asks), Some(tells)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Trouble::Workload("a process without pipes".to_owned()));
        };
        let since = Instant::now();
        lock(books).heard = since;
        let books = books.clone();
        let hearing = std::thread::spawn(move || {
            for line in BufReader::with_capacity(256 << 10, tells).lines().map_while(Result::ok) {
                let told = serde_json::from_str::<Told>(&line);
                let mut books = lock(&books);
                match told {
                    Ok(told) => books.hear(told, Instant::now()),
                    Err(error) => books.broken.push(Broken::new(Promise::Lives, format!("{error}: {line:.200}"))),
                }
            }
        });
        Ok(Life { child, asks, hearing: Some(hearing), said, since })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it for something. One that is gone is noticed elsewhere.
    pub fn ask(&mut self, asked: Asked) {
        if let Ok(line) = serde_json::to_string(&asked) {
            let _ = writeln!(self.asks, "{line}").and_then(|()| self.asks.flush());
        }
    }

    /// Stops it, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    /// How it ended, and what it said, if it did.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        Some(format!("{status}: {}", said.trim()))
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What it had told before is in the pipe.
        if let Some(hearing) = self.hearing.take() {
            let _ = hearing.join();
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end();
    }
}
