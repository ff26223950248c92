//! Orphans: one pass of the sweep over directories that no log knows, with everything that holds it back lifted, and their removal.

use super::Subject;
use crate::error::{BenchError, store};
use std::time::{Duration, Instant};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{ClockGuard, Mode, ReviewLimits};
use strandline_sweeper::orphans::{OrphanLimits, OrphanSweep};

/// How long they wait, so that the pass that gives them up does not remove them too. Nobody sits that out.
const HOLD_MS: u64 = 3_600_000;

impl Subject {
    /// Has so many directories given up and removed for good: seen once, young, all in one pass, and then not held. Says how long the
    /// removal took of that.
    ///
    /// # Errors
    /// Why the pass was skipped, or that some of them stayed.
    pub fn empty_orphans(&self, directories: u64) -> Result<Duration, BenchError> {
        let limits = OrphanLimits {
            review: ReviewLimits {
                mode: Mode::Delete,
                sightings: 1,
                removals_per_pass: usize::MAX,
                tracked_max: usize::MAX,
                mass_confirmed: true,
            },
            age_min_ms: 0,
            hold_ms: HOLD_MS,
            ..OrphanLimits::default()
        };
        let mut sweep = OrphanSweep::new(ClockGuard::open(clock::read(), None));
        let passed = sweep.pass(&self.store, clock::read(), &limits);
        let report = passed.map_err(store("sweeping orphans"))?;
        let given_up = Instant::now();
        let held_until_ms = clock::read().wall_ms + HOLD_MS;
        let let_go = self.store.remove_held_orphans(held_until_ms).map_err(store("removing orphans"))?;
        let gone = let_go.gone.len() as u64;
        if gone < directories {
            let reason = format!("{gone} of {directories} directories are gone: {report}{:?}", let_go.kept);
            return Err(BenchError::Store { doing: "sweeping orphans", reason });
        }
        Ok(given_up.elapsed())
    }
}
