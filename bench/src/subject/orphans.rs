//! Orphans: one pass of the sweep over directories that no log knows, with everything that holds it back lifted.

use super::Subject;
use crate::error::{BenchError, store};
use strandline_sweeper::clock;
use strandline_sweeper::decide::{ClockGuard, Mode, ReviewLimits};
use strandline_sweeper::orphans::{OrphanLimits, OrphanSweep};

impl Subject {
    /// Has so many directories given up and removed for good: seen once, young, all in one pass, and not held.
    ///
    /// # Errors
    /// Why the pass was skipped, or that some of them stayed.
    pub fn empty_orphans(&self, directories: u64) -> Result<(), BenchError> {
        let limits = OrphanLimits {
            review: ReviewLimits {
                mode: Mode::Delete,
                sightings: 1,
                removals_per_pass: usize::MAX,
                tracked_max: usize::MAX,
                mass_confirmed: true,
            },
            age_min_ms: 0,
            hold_ms: 0,
            ..OrphanLimits::default()
        };
        let mut sweep = OrphanSweep::new(ClockGuard::open(clock::read(), None));
        let passed = sweep.pass(&self.store, clock::read(), &limits);
        let report = passed.map_err(store("sweeping orphans"))?;
        let gone = report.let_go.gone.len() as u64;
        if gone < directories {
            let reason = format!("{gone} of {directories} directories are gone: {report}");
            return Err(BenchError::Store { doing: "sweeping orphans", reason });
        }
        Ok(())
    }
}
