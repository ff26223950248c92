//! What runs came to.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// How much was done to stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Crashes: kills and power cuts, those of crash images included.
    pub crashes: u64,
    /// Undurable changes that power cuts dropped: sectors, lengths, names.
    pub dropped: u64,
    /// Faults that struck: failed operations, or damaged places of a medium.
    pub faults: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.crashes += other.crashes;
        self.dropped += other.dropped;
        self.faults += other.faults;
    }
}
