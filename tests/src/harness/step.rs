//! A step of a history: what is done to a store, as plain data.

use strandline::Level;
use strandline_disk::sim::Loss;

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Opens a log, and makes it when it is new.
    OpenLog(usize),
    /// Hands over some batches of about so many bytes each, without waiting.
    Append {
        /// To which log.
        log: usize,
        /// How many batches.
        batches: usize,
        /// Records of each.
        records: usize,
        /// About how many bytes each has.
        bytes: usize,
    },
    /// As `Append`, answered at a level.
    AppendAt {
        /// To which log.
        log: usize,
        /// How many batches.
        batches: usize,
        /// Records of each.
        records: usize,
        /// About how many bytes each has.
        bytes: usize,
        /// How safe they are when they are answered.
        level: Level,
    },
    /// Waits for what was answered last of a log to become durable, without waiting here.
    UntilDurable {
        /// Of which log.
        log: usize,
        /// Flushed at once.
        now: bool,
    },
    /// Asks for a read, without waiting.
    Read {
        /// Of which log.
        log: usize,
        /// From where, in thousandths of what the log holds.
        per_mille: u64,
        /// How many bytes.
        bytes: usize,
    },
    /// As `Read`, also of what is not durable yet, and from the end of what is.
    ReadPastDurable {
        /// Of which log.
        log: usize,
    },
    /// Lets the shard turn so many times.
    Turn(usize),
    /// Turns until everything was answered.
    Answer,
    /// As `Answer`, and then until nothing happens any more: marks are written, successors made, segments sealed.
    Idle,
    /// Moves the wall clock.
    Jump(i64),
    /// Closes the store and opens it again.
    Reopen,
    /// The process dies; the store is opened again.
    Kill {
        /// It dies again after so many turns of the recovery.
        again_after: Option<usize>,
    },
    /// The machine loses power; the store is opened again.
    PowerFailure {
        /// What of the undurable stays.
        loss: Loss,
        /// It loses power again after so many turns of the recovery.
        again_after: Option<usize>,
    },
}
