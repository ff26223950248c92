//! Writer: the thread of a log. It alone changes the log, apart from retention, so that what it reads when nothing of it is in flight is all.

use super::child::Shared;
use super::role::{Keep, ROLES, Role, policy};
use super::teller::now_ms;
use super::told::{Told, Verb};
use crate::check::{self, Unread};
use crate::content;
use crate::random::Random;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use strandline::{AppendError, Appending, Level, Log, Offset, PolicyError, RangeNumber, ReadError, Topic};
use strandline_tests::tiers::promise::Promise;

/// Appends of a log that are in flight at most.
const IN_FLIGHT_MAX: usize = 12;

/// Ends of batches that are kept, to truncate to.
const ENDS_KEPT: usize = 32;

/// Records of a log that is told what to give up, above which it is trimmed; and which part of it then goes. Little each time: what the load does
/// in swings hides what grows.
const RECORDS_MAX: u64 = 1_000;
const TRIMMED_PART: u64 = 16;

/// How long a log rests that was refused something.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// How often a look is begun again, because what it was about to read expired.
const LOOKS_MAX: usize = 100;

/// The thread of a log.
pub struct Writer {
    shared: Arc<Shared>,
    which: usize,
    role: &'static Role,
    log: Option<Log>,
    random: Random,
    number: u64,
    in_flight: VecDeque<(u64, Appending)>,
    /// The ends of the last batches that were answered as durable, in one piece.
    ends: VecDeque<u64>,
    looked: u64,
    halted: bool,
}

impl Writer {
    /// Of a log that may be there.
    pub fn new(shared: Arc<Shared>, which: usize) -> Writer {
        let random = Random::new(shared.job.shape.seed ^ shared.opening << 8, which as u64);
        Writer {
            number: shared.opening << 24,
            shared,
            which,
            role: &ROLES[which],
            log: None,
            random,
            in_flight: VecDeque::new(),
            ends: VecDeque::new(),
            looked: 0,
            halted: false,
        }
    }

    fn tell(&self, told: Told) {
        self.shared.teller.tell(&told);
    }

    /// Loads the log until it is over.
    pub fn run(mut self) {
        self.log = self.shared.find(self.which);
        self.look();
        while !self.shared.is_over() {
            let looks = self.shared.looks.load(Ordering::Relaxed);
            if std::mem::replace(&mut self.looked, looks) != looks && !self.halted {
                self.drain();
                self.look();
            }
            match self.log.clone() {
                _ if self.halted => self.shared.rest(AFTER_REFUSAL),
                Some(log) => self.step(&log),
                None => self.make(),
            }
        }
        self.drain();
    }

    fn step(&mut self, log: &Log) {
        let bounds = log.bounds();
        match (self.role.keep, self.random.below(100)) {
            (Keep::Told | Keep::Guest, _) if bounds.end.0 - bounds.start.0 > RECORDS_MAX => self.trim(log),
            (_, 0..=1) => self.seal(log),
            (Keep::Told, 2..=4) => self.trim(log),
            (Keep::Told, 5..=7) => self.truncate(log),
            (Keep::Told, 8..=9) => self.delete_oldest(log),
            (Keep::Guest, 2) => self.delete(),
            (_, 10) => {
                self.drain();
                self.look();
            }
            (_, 11..=40) => {
                let rest = self.random.below(1 + self.role.rest.as_micros() as u64);
                let left = if self.random.one_in(2) { 0 } else { IN_FLIGHT_MAX };
                self.settle(left);
                self.shared.rest(self.role.rest / 2 + Duration::from_micros(rest / 2));
            }
            _ => {
                for _ in 0..1 + self.random.below(4) {
                    self.append(log);
                }
                self.shared.rest(Duration::from_millis(2));
            }
        }
    }

    /// Something was refused: no use in asking again at once.
    fn refused(&self, doing: &str, error: impl std::fmt::Display) {
        self.shared.teller.refused(&format!("{}: {doing}", self.role.topic), error);
        self.shared.rest(AFTER_REFUSAL);
    }

    fn make(&mut self) {
        let name = match self.role.keep {
            Keep::Guest => format!("{}-{}", self.role.topic, self.number),
            _ => self.role.topic.to_owned(),
        };
        let topic = Topic::new(&name).expect("short names are topics");
        self.tell(Told::Making(self.which));
        match self.shared.store.log(&topic, RangeNumber::default()) {
            Ok(log) => {
                self.log = Some(log);
                self.tell(Told::Made(self.which));
                self.shared.teller.topics.fetch_add(1, Ordering::Relaxed);
                self.bind(&topic);
            }
            Err(error) => self.refused("making the log", error),
        }
    }

    fn bind(&self, topic: &Topic) {
        let Some(policy) = policy(self.role.keep) else { return };
        match self.shared.store.policies().bind(topic, policy, "soak") {
            Ok(_) | Err(PolicyError::NoSuchTopic { .. }) => {}
            Err(error) => self.refused("binding it to a policy", error),
        }
    }

    fn append(&mut self, log: &Log) {
        self.settle(IN_FLIGHT_MAX - 1);
        let (which, number) = (self.which, self.number);
        self.number += 1;
        let batch = content::batch(log, self.role.of, number);
        let level = self.random.pick(&[Level::Durable, Level::Durable, Level::Written, Level::Accepted]);
        let (at_ms, bytes) = (now_ms(), batch.payload().len() as u64);
        self.tell(Told::Begin { log: which, number, at_ms, bytes });
        match log.append_with(batch, level) {
            Ok(appending) => self.in_flight.push_back((number, appending)),
            Err(error) => {
                self.tell(Told::Untried { log: which, number });
                self.refused("an append", error);
            }
        }
    }

    /// Takes answers until so many are left in flight. A log answers in order.
    fn settle(&mut self, left: usize) {
        while self.in_flight.len() > left
            && let Some((number, appending)) = self.in_flight.pop_front()
        {
            let log = self.which;
            match appending.wait() {
                Ok(receipt) => {
                    let (first, level) = (receipt.first.0, receipt.level.into());
                    self.tell(Told::Answered { log, number, first, level });
                    self.ends.push_back(first + content::records(self.role.of, number));
                    if self.ends.len() > ENDS_KEPT {
                        self.ends.pop_front();
                    }
                }
                Err(error) => {
                    let open =
                        matches!(error, AppendError::Failed { .. } | AppendError::Lost { .. } | AppendError::ShardGone);
                    if !open {
                        self.tell(Told::Untried { log, number });
                    }
                    self.ends.clear();
                    self.refused("an append", error);
                }
            }
        }
    }

    fn drain(&mut self) {
        self.settle(0);
    }

    /// Reads the log whole, and tells what is there.
    fn look(&mut self) {
        let log = self.which;
        let Some(open) = self.log.clone() else {
            return self.tell(Told::Found { log, at_ms: now_ms(), found: None });
        };
        for _ in 0..LOOKS_MAX {
            self.tell(Told::Looking(log));
            match check::read(&open, self.role.of) {
                Ok(found) => return self.tell(Told::Found { log, at_ms: now_ms(), found: Some(found) }),
                // What was to be read next has expired meanwhile.
                Err(Unread::Refused(_, ReadError::OutOfRange { .. })) => {}
                Err(Unread::Refused(_, ReadError::Corrupt { from, .. })) => {
                    return self.tell(Told::Damaged(log, from.0, "a look finds damage".to_owned()));
                }
                Err(Unread::Refused(_, error)) => {
                    self.refused("a look", error);
                    if self.shared.is_over() {
                        return;
                    }
                }
                Err(error @ Unread::Wrong(_)) => {
                    return self.shared.teller.broke(Promise::Right, format!("{}: {error}", self.role.topic));
                }
            }
        }
    }

    /// Asks for something that gives records up, when nothing of the log is in flight. What was refused may still come to light: nothing more
    /// is asked of the log then.
    fn give_up<T, E: std::fmt::Display>(&mut self, verb: Verb, ask: impl FnOnce() -> Result<T, E>) -> Option<T> {
        self.tell(Told::Ask(self.which, verb));
        let answer = ask();
        self.tell(Told::Done(self.which, verb, answer.is_ok()));
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.halted = true;
                self.tell(Told::Halted(self.which));
                self.refused(&format!("{verb:?}"), error);
                None
            }
        }
    }

    fn seal(&mut self, log: &Log) {
        if let Err(error) = log.seal().wait() {
            self.refused("a seal", error);
        }
    }

    fn trim(&mut self, log: &Log) {
        self.drain();
        let bounds = log.bounds();
        let to = bounds.start.0 + (bounds.end.0 - bounds.start.0) / TRIMMED_PART;
        if let Some(at) = self.give_up(Verb::Trim(to), || log.trim(Offset(to)).wait())
            && at.0 != to
        {
            self.shared.teller.broke(Promise::Right, format!("{}: a trim to {to} says {at}", self.role.topic));
        }
    }

    fn truncate(&mut self, log: &Log) {
        self.drain();
        let start = log.bounds().start.0;
        let back = 1 + self.random.below(ENDS_KEPT as u64 / 2) as usize;
        let Some(end) = self.ends.iter().rev().nth(back).copied().filter(|end| *end > start) else { return };
        let truncated = self.give_up(Verb::Truncate(end), || log.truncate_to(Offset(end)).wait());
        if let Some(truncated) = truncated.filter(|truncated| truncated.end.0 != end) {
            let seen = format!("{}: a truncation to {end} says {truncated:?}", self.role.topic);
            self.shared.teller.broke(Promise::Right, seen);
        }
        self.ends.retain(|kept| *kept <= end);
    }

    fn delete_oldest(&mut self, log: &Log) {
        self.drain();
        let info = match log.stats().wait() {
            Ok(info) => info,
            Err(error) => return self.refused("statistics", error),
        };
        let [oldest, next, ..] = &info.segments[..] else { return };
        self.give_up(Verb::Trim(next.base.0), || log.delete_segment(oldest.seq).wait());
    }

    fn delete(&mut self) {
        self.drain();
        let Some(topic) = self.log.take().map(|log| log.id().topic.clone()) else { return };
        let shared = self.shared.clone();
        self.give_up(Verb::Delete, || shared.store.delete_topic(&topic));
        self.ends.clear();
    }
}
