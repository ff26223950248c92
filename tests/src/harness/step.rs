//! A step of a history: what is done to a store, as plain data.

use strandline::Level;
use strandline_disk::sim::Loss;

/// An offset of a log, said before it is known how far the log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// In thousandths of what lies between its start and its end.
    PerMille(u64),
    /// So many offsets before its end.
    Back(u64),
    /// So many offsets past its end.
    Past(u64),
    /// Its start.
    Start,
}

/// A verb beside append and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Drops everything at or past an offset.
    Truncate(At),
    /// Gives up everything before an offset.
    Trim(At),
    /// Seals the head.
    Seal,
    /// Drops, fences and seals.
    SealAt(At),
    /// Takes no appends any more, and repairs up to the end or to an offset.
    Fence(Option<At>),
    /// Takes appends again.
    Unfence,
    /// Gives up the log.
    Delete,
    /// Tells everything about it.
    Stats,
    /// Reads everything.
    Verify,
}

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
    /// Hands over a batch that is to start where the log ends, or `off` by some, without waiting.
    Follow {
        /// To which log.
        log: usize,
        /// Its records.
        records: usize,
        /// About how many bytes it has.
        bytes: usize,
        /// How far its first offset is off.
        off: i64,
    },
    /// Asks for a verb, without waiting.
    Verb {
        /// Of which log.
        log: usize,
        /// Which.
        ask: Ask,
    },
    /// Deletes a segment, and waits for that. Only the oldest may be, once it is sealed.
    DeleteSegment {
        /// Of which log.
        log: usize,
        /// Which, from the oldest on.
        place: usize,
    },
    /// Builds the index of a segment again, and waits for that.
    RebuildIndex {
        /// Of which log.
        log: usize,
        /// Which, from the oldest on.
        place: usize,
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
    /// Lets so many milliseconds go by on both clocks.
    LetPass(u64),
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
