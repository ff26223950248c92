//! idle: an open store of many logs that nobody asks anything of.
//!
//! Store: CPU time of the whole process, kernel threads of its rings included, as a part of one core. A bare ring that has
//! nothing to do does nothing, so there is no ceiling.

use super::{Context, Scenario};
use crate::error::BenchError;
use crate::host;
use crate::metrics::Metric;
use crate::noise::noise;
use crate::rounds::{Outcome, Rounds};
use crate::subject::{Subject, config_of_many};
use crate::window::{Figures, Window, mib};

pub const ABOUT: &str = "an open store of 100 logs with nothing to do";
pub const CASE: &str = "100 logs";

const LOGS: usize = 100;

pub fn run(context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
    let scenario = Scenario::Idle;
    context.preparing(scenario, CASE);
    let directory = context.subdirectory("idle".to_owned())?;
    let subject = Subject::open_many(config_of_many(&directory.join("store"), LOGS), LOGS)?;
    let value = noise(1 << 10);
    // Each log has been used, and has something that it might look after.
    subject.lanes().iter().try_for_each(|lane| lane.append(&value).map(drop))?;
    let mut rounds = Rounds::default();
    for round in 0..context.plan.rounds {
        context.next_round(scenario, CASE, round);
        // Marks of resting logs and successors in the making are no idleness yet.
        context.settle()?;
        context.settle()?;
        let mut window = Window::new();
        // No ceiling takes its half of the time.
        window.timed(|_| context.rest(context.plan.window() * 2))?;
        let resident = mib(host::resident_bytes());
        rounds.store(&window, Figures::from([(Metric::CpuPercent, 100.0 * window.cores()), (Metric::Rss, resident)]));
    }
    subject.close()?;
    context.clear(&directory)?;
    context.progress.step();
    Ok(vec![rounds.outcome(scenario.name(), CASE)])
}
