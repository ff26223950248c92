//! Job: what one process of a run is to do, and what it answers.

use super::model::Model;
use super::plan::End;
use super::{load, look};
use crate::error::{Trouble, system};
use crate::job::{load, save};
use crate::server::lock;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Mutex;
use strandline_tests::tiers::promise::{Broken, Promise};

/// What to do, as a file tells the process. The events of its clock are how often the fault has struck.
pub type Job = crate::job::Job<Task>;

/// A kind of job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Makes a store with something in every log.
    Make,
    /// Runs the script while something fails.
    Load {
        /// What the logs hold.
        models: Vec<Model>,
        /// The fault strikes once.
        once: bool,
        /// The fault takes what is written and not durable.
        drops: bool,
        /// How the script ends.
        end: End,
    },
    /// Looks at all that is there, and goes on, while nothing fails.
    Look {
        /// What the logs should hold.
        models: Vec<Model>,
        /// Whether the store is closed in the end.
        closes: bool,
    },
}

/// What a job answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// What the logs should hold from now on.
    pub models: Vec<Model>,
    /// What is wrong.
    pub violations: Vec<Broken>,
    /// Calls that were answered.
    pub calls: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// The first of them, a sentence each.
    pub refusals: Vec<String>,
    /// The append to the log that had been at rest all the time was refused although the fault was over.
    pub quiet: Option<String>,
    /// Batches that were acknowledged as durable, and were looked for.
    pub checked: u64,
}

/// What threads that panicked said.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Does the job of this file.
///
/// # Errors
/// It cannot be read, or its answer not be written.
pub fn do_job(file: &Path) -> Result<(), Trouble> {
    std::panic::set_hook(Box::new(|panic| lock(&PANICS).push(panic.to_string())));
    let job: Job = load(file).map_err(system("reading a job"))?;
    let mut answer = match &job.task {
        Task::Make => load::make(&job),
        Task::Load { models, once, drops, end } => load::load(&job, models, (*once, *drops), *end),
        Task::Look { models, closes } => look::look(&job, models, *closes),
    };
    answer.violations.extend(lock(&PANICS).iter().map(|panic| Broken::new(Promise::Lives, panic.clone())));
    save(&job.answer, &answer).map_err(system("saving an answer"))
}
