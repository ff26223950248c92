//! What a retention pass may do, and why one does nothing.

use crate::decide::Caps;
use crate::pins::PIN_BYTES_MAX;
use std::time::Duration;
use strandline::VerbError;
use strandline::error::PolicyError;

/// What a pass may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How much it may expire.
    pub caps: Caps,
    /// Age in milliseconds at which segments expire of topics whose policy nobody defined; `None` is never.
    pub backstop_max_age_ms: Option<u64>,
    /// The most bytes of due segments that one pin of the host holds back in a log, whatever it asks for. Default 16 GiB.
    pub pin_bytes_max: u64,
    /// How long a host that keeps the list of segments may take to say how those stand that are due. Default 15 s.
    pub deadline: Duration,
    /// Nothing is carried out: the report says what would be.
    pub dry_run: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            caps: Caps::default(),
            backstop_max_age_ms: None,
            pin_bytes_max: PIN_BYTES_MAX,
            deadline: Duration::from_secs(15),
            dry_run: false,
        }
    }
}

/// Why a pass did nothing at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// The policies could not be read: without them nothing can be decided.
    #[error("the policies cannot be read: {0}; nothing expires until they can")]
    Policies(#[from] PolicyError),
    /// The store did not say what it holds.
    #[error("the store does not say what it holds: {0}; nothing expires until it does")]
    Inventory(#[from] VerbError),
}

impl Skip {
    /// The cause, as metrics label it.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Skip::Policies(_) => "policies",
            Skip::Inventory(_) => "inventory",
        }
    }
}
