//! Verb: what a power cut is to meet in flight, how often it was done, and when.

use serde::{Deserialize, Serialize};

/// Something that is more than an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// A log goes on in its next segment.
    Roll,
    /// A segment is sealed by command.
    Seal,
    /// Offsets are given up at the front.
    Trim,
    /// Offsets are dropped at the end.
    Truncate,
    /// A segment, or a log, is given up.
    Release,
    /// The file of a segment that was given up becomes another's.
    Recycle,
    /// The manifest is written anew, and its page turned.
    Snapshot,
}

/// All of them.
pub const VERBS: [Verb; 7] =
    [Verb::Roll, Verb::Seal, Verb::Trim, Verb::Truncate, Verb::Release, Verb::Recycle, Verb::Snapshot];

/// When one was done, by the events of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// What.
    pub verb: Verb,
    /// Events before it was asked; of what the store does by itself, when it had not been counted yet.
    pub begun: u64,
    /// Events when it was answered, or had been counted.
    pub answered: u64,
}

impl Span {
    /// Whether a cut before this event leaves some of what the disk was asked meanwhile, and not all.
    pub fn is_cut_at(&self, position: u64) -> bool {
        self.begun < position && position < self.answered
    }

    /// Whether any cut does.
    pub fn can_be_cut(&self) -> bool {
        self.begun + 1 < self.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_in_flight_only_strictly_between() {
        let span = Span { verb: Verb::Trim, begun: 4, answered: 6 };
        assert!(span.can_be_cut() && span.is_cut_at(5));
        assert!(!span.is_cut_at(4) && !span.is_cut_at(6));
        assert!(!Span { answered: 5, ..span }.can_be_cut());
    }
}
