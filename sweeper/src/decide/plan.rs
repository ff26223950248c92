//! One retention pass over all logs: what goes now, within the caps and so that no log starves another, and what is held and why.

use super::clock::{Hold, Now};
use super::expired::Reasons;
use super::fate::{Fate, fates};
use super::roll::{Roll, StampAhead, rolls_by_age, stamp_ahead};
use super::segment::{KeptLog, Segment, State};
use std::fmt;
use strandline::LogId;
use strandline::id::{SegmentId, Seq};

/// How much one pass may expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Segments of all logs.
    pub segments_per_pass: usize,
    /// Segments of one log.
    pub segments_per_log: usize,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps { segments_per_pass: 128, segments_per_log: 16 }
    }
}

/// Whose turn it is: the last log that a pass served before its budget was spent. The next pass starts behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    served_last: Option<LogId>,
}

/// A segment that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which.
    pub segment: SegmentId,
    /// Its logical bytes.
    pub byte_size: u64,
    /// Why.
    pub reasons: Reasons,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.segment, self.reasons)
    }
}

/// A segment that is due and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub segment: SegmentId,
    /// Its logical bytes.
    pub byte_size: u64,
    /// Why it is due.
    pub reasons: Reasons,
    /// What holds it.
    pub by: HeldBy,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; due: {}", self.segment, self.by, self.reasons)
    }
}

/// What holds a segment that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// An older segment of the log stays.
    Behind(Seq),
    /// The host.
    Pin {
        /// Who.
        holder: String,
        /// How many bytes of due segments he holds back in this log.
        bytes: u128,
        /// How many he may.
        bytes_max: u64,
    },
    /// The cap of segments of one log: the next pass goes on.
    LogCap(usize),
    /// The cap of segments of a pass: the next pass goes on.
    PassCap(usize),
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldBy::Behind(seq) => write!(f, "held behind segment {seq}, which stays"),
            HeldBy::Pin { holder, bytes, bytes_max } => {
                write!(f, "pinned by {holder}, who holds {bytes} of at most {bytes_max} bytes")
            }
            HeldBy::LogCap(cap) => write!(f, "over the cap of {cap} segments of a log in a pass"),
            HeldBy::PassCap(cap) => write!(f, "over the cap of {cap} segments in a pass"),
        }
    }
}

/// What a pass does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What goes, oldest first within a log.
    pub expire: Vec<Planned>,
    /// What is due and stays.
    pub held: Vec<Held>,
    /// The active segments that are rolled by age, after the expiries.
    pub roll: Vec<(SegmentId, Roll)>,
    /// Seal times that lie ahead of the clock, for an operator to restamp (`Sweeper::restamp_seal`).
    pub stamps_ahead: Vec<(SegmentId, StampAhead)>,
    /// Why no age counted, if so.
    pub clock_held: Option<Hold>,
    /// Whether a cap left something for the next pass, which is then due at once.
    pub budget_spent: bool,
    /// The bytes that a cap left.
    pub backlog_bytes: u128,
    /// Whose turn it is in the next pass.
    pub turn: Turn,
}

/// What goes of one log, before the caps.
struct Queue<'a> {
    log: &'a KeptLog,
    due: Vec<(&'a Segment, Reasons)>,
    granted: usize,
}

/// Decides a whole pass over `logs`, each given once.
///
/// Logs take turns, one segment each, until the caps are reached: 10,000 small segments of one log do not keep another one waiting,
/// and with more logs than a pass may serve the next pass starts behind the last one served.
#[must_use]
pub fn plan(logs: &[KeptLog], now: &Now, caps: &Caps, turn: Turn) -> Plan {
    let mut plan = Plan { clock_held: now.held, turn, ..Plan::default() };
    let mut queues: Vec<Queue<'_>> = Vec::new();
    for log in logs {
        let due = judge(log, now, &mut plan);
        if !due.is_empty() {
            queues.push(Queue { log, due, granted: 0 });
        }
    }
    queues.sort_by_key(|queue| &queue.log.id);
    let next = queues.iter().position(|queue| Some(&queue.log.id) > plan.turn.served_last.as_ref());
    queues.rotate_left(next.unwrap_or_default());
    let last = grant(&mut queues, caps);
    for queue in &queues {
        settle(queue, caps, &mut plan);
    }
    if plan.held.iter().any(|held| matches!(held.by, HeldBy::PassCap(_))) {
        plan.turn.served_last = last.or(plan.turn.served_last);
    }
    plan
}

/// What of a log goes, caps apart; what else there is to say of its segments is said in the plan.
fn judge<'a>(log: &'a KeptLog, now: &Now, plan: &mut Plan) -> Vec<(&'a Segment, Reasons)> {
    let id = |segment: &Segment| SegmentId { log: log.id.clone(), seq: segment.seq };
    let mut due = Vec::new();
    for (segment, fate) in fates(log, now) {
        let mut hold = |reasons, by| {
            plan.held.push(Held { segment: id(segment), byte_size: segment.byte_size, reasons, by });
        };
        match fate {
            Fate::Expire(reasons) => due.push((segment, reasons)),
            Fate::HeldBehind { by, reasons } => hold(reasons, HeldBy::Behind(by)),
            Fate::Pinned { holder, bytes, bytes_max, reasons } => {
                hold(reasons, HeldBy::Pin { holder, bytes, bytes_max });
            }
            Fate::Stays(_) => {}
        }
        if segment.state == State::Sealed
            && let Some(ahead) = segment.known_sealed_at_ms().and_then(|ms| stamp_ahead(ms, now))
        {
            plan.stamps_ahead.push((id(segment), ahead));
        }
        let roll = rolls_by_age(segment, now, &log.effective);
        if matches!(roll, Roll::Due { .. }) {
            plan.roll.push((id(segment), roll));
        }
    }
    due
}

/// Grants segments to the logs in turns, and says which log was served last.
fn grant(queues: &mut [Queue<'_>], caps: &Caps) -> Option<LogId> {
    let (mut left, mut last) = (caps.segments_per_pass, None);
    loop {
        let before = left;
        for queue in &mut *queues {
            if left > 0 && queue.granted < queue.due.len().min(caps.segments_per_log) {
                queue.granted = queue.granted.saturating_add(1);
                left = left.saturating_sub(1);
                last = Some(queue.log.id.clone());
            }
        }
        if left == before {
            return last;
        }
    }
}

fn settle(queue: &Queue<'_>, caps: &Caps, plan: &mut Plan) {
    for (at, (segment, reasons)) in queue.due.iter().enumerate() {
        let (id, byte_size) = (SegmentId { log: queue.log.id.clone(), seq: segment.seq }, segment.byte_size);
        if at < queue.granted {
            plan.expire.push(Planned { segment: id, byte_size, reasons: *reasons });
            continue;
        }
        let by = match at < caps.segments_per_log {
            true => HeldBy::PassCap(caps.segments_per_pass),
            false => HeldBy::LogCap(caps.segments_per_log),
        };
        plan.held.push(Held { segment: id, byte_size, reasons: *reasons, by });
        plan.backlog_bytes = plan.backlog_bytes.saturating_add(byte_size.into());
        plan.budget_spent = true;
    }
}
