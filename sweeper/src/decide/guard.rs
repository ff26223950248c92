//! The guard in front of the orphan sweep: when a pass is not begun, or abandoned, before anything is counted.

use super::authority::Aborted;
use super::clock::Hold;

/// What the authority says of its own list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSet {
    /// Whether it was loaded completely and verified.
    pub complete: bool,
    /// How many segments it lists.
    pub segments: u64,
}

/// Why a pass is skipped. Sightings neither grow nor start again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// The sweep is off.
    #[error("the orphan sweep is off")]
    Off,
    /// No age counts.
    #[error("{0}")]
    ClockHeld(Hold),
    /// The list of segments is not complete: what it lacks would look like an orphan.
    #[error("the authority's list of segments is not complete")]
    AuthorityPartial,
    /// The list is empty and the disk is not: a lost list looks like this.
    #[error(
        "the authority lists no segment, and there are {directories} directories of segments: the list may be lost"
    )]
    AuthorityEmpty {
        /// How many directories can be a segment's.
        directories: usize,
    },
    /// The authority gave no whole answer.
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

impl From<Hold> for Skipped {
    fn from(hold: Hold) -> Skipped {
        Skipped::ClockHeld(hold)
    }
}

/// Whether the authority's list can decide about `directories` directories of segments at all.
///
/// # Errors
/// [`Skipped::AuthorityPartial`] and [`Skipped::AuthorityEmpty`].
pub fn check_authority(live: LiveSet, directories: usize) -> Result<(), Skipped> {
    match live {
        LiveSet { complete: false, .. } => Err(Skipped::AuthorityPartial),
        LiveSet { segments: 0, .. } if directories > 0 => Err(Skipped::AuthorityEmpty { directories }),
        LiveSet { .. } => Ok(()),
    }
}
