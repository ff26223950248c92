//! Health: how a worker is, for whoever watches the store.

/// How a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health<R, S> {
    /// When its last pass ended, wall ms, whatever it came to.
    pub last_pass_at_ms: Option<u64>,
    /// When a pass last ended that did its work, wall ms: none that was skipped or panicked.
    pub last_done_at_ms: Option<u64>,
    /// Since when a pass is under way, wall ms, if one is.
    pub under_way_since_ms: Option<u64>,
    /// The pass that is under way has been so for ten intervals, and five minutes at least, or got nowhere for so long: what it waits for hangs.
    pub is_overdue: bool,
    /// Passes so far.
    pub passes: u64,
    /// Whether its thread lives. One that does not is started again, later and later.
    pub is_alive: bool,
    /// Whether the last pass panicked.
    pub last_panicked: bool,
    /// Why the last pass was skipped, if it was.
    pub last_skip: Option<S>,
    /// What the last pass did that did something.
    pub last_report: Option<R>,
}

impl<R, S> Health<R, S> {
    /// Whether the worker lives, the last pass that it tried did its work, and one that is under way does not hang.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.is_alive && !self.is_overdue && !self.last_panicked && self.last_skip.is_none()
    }
}

impl<R, S> Default for Health<R, S> {
    fn default() -> Health<R, S> {
        Health {
            last_pass_at_ms: None,
            last_done_at_ms: None,
            is_overdue: false,
            under_way_since_ms: None,
            passes: 0,
            is_alive: false,
            last_panicked: false,
            last_skip: None,
            last_report: None,
        }
    }
}
