//! Confirmed: what an operator says may go although there is much of it at once. The next pass hears it.

use crate::decide::Candidate;
use std::sync::{Arc, Mutex, PoisonError};

/// Directories that an operator confirmed, as he saw them. Clones are heard by the same sweep.
#[derive(Clone, Debug, Default)]
pub struct Confirmed(Arc<Mutex<Vec<Candidate>>>);

impl Confirmed {
    /// These are orphans, says an operator who has looked at them. That counts for what the sweep has sighted by these names and what was the same when he saw it, and
    /// for as long as it stays that; everything else about an orphan is asked as ever.
    pub fn add<'a>(&self, seen: impl IntoIterator<Item = &'a Candidate>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(seen.into_iter().cloned());
    }

    /// What was said since the last pass.
    pub(crate) fn take(&self) -> Vec<Candidate> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
