//! Confirmed: what an operator says may go although there is much of it at once. The next pass hears it.

use crate::decide::DirectoryName;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of directories that an operator confirmed. Clones are heard by the same sweep.
#[derive(Clone, Debug, Default)]
pub struct Confirmed(Arc<Mutex<BTreeSet<DirectoryName>>>);

impl Confirmed {
    /// These are orphans, says an operator who has looked at them. That counts for what the sweep has sighted by these names, and for as long as it stays what it is;
    /// everything else about an orphan is asked as ever.
    pub fn add(&self, names: impl IntoIterator<Item = DirectoryName>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// What was said since the last pass.
    pub(crate) fn take(&self) -> BTreeSet<DirectoryName> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
