//! The schedule: what starts, and which of what is in flight lands in a turn. What a landing does stands in `land`.

use super::effect::Effect;
use super::flight::Flight;
use super::land::Answer;
use super::trace::digest;
use super::world::World;
use crate::disk::Wait;
use crate::error::Verb;
use crate::slot::Token;
use rustix::io::Errno;
use std::sync::Arc;

/// Virtual time that a turn takes at most, in nanoseconds.
const TURN_NS_MAX: usize = 50_000;

/// An operation that has landed, for its disk to answer.
pub(super) struct Landed {
    pub(super) token: Token,
    pub(super) verb: Verb,
    pub(super) path: Arc<str>,
    pub(super) result: Result<Answer, Errno>,
}

impl World {
    /// Puts an operation in the air. Answers at once only under [`super::Lie::AnswerBeforeCompletion`].
    ///
    /// # Panics
    /// When it is a write and another one in flight touches the same block.
    pub(super) fn start(
        &mut self,
        disk: u32,
        token: Token,
        verb: Verb,
        path: Arc<str>,
        effect: Effect,
    ) -> Option<Landed> {
        let mut durable = false;
        let mut early = None;
        if let Effect::Write(write) = &effect {
            durable = write.durable;
            if !self.options.allow_overlap
                && let Some(other) = self.flights.overlap(write)
            {
                panic!("two writes in flight touch the same block: {other}, and now {path}{effect}");
            }
            early = self.lies.answers_early().then_some(write.bytes.len());
        }
        self.operations += u64::from(verb != Verb::Sleep);
        let fate = self.faults.strike(verb, durable, &path);
        let (fate, delay) = match fate {
            Some(super::What::Delay(turns)) => (None, turns),
            fate => (fate, 0),
        };
        let early = early.filter(|_| fate.is_none());
        let (number, started) = (self.next_flight(), self.sequence);
        let kept = if early.is_some() { None } else { Some(token) };
        let answer = early.map(|moved| Landed { token, verb, path: path.clone(), result: Ok(Answer::Moved(moved)) });
        let flight = Flight { number, disk, token: kept, verb, path, effect, fate, delay, started, landed: Vec::new() };
        let (first, second) = flight.effect.numbers();
        let hashes = [number, u64::from(disk), flight.verb as u64, digest(flight.path.as_bytes()), first, second];
        self.trace.note(&hashes, || format!("start {flight}"));
        self.flights.add(flight);
        answer
    }

    /// One turn of a disk: time passes, strays may land, and some of what this disk has in flight does.
    ///
    /// With [`Wait::Event`] and nothing in flight it returns at once: whoever drives by hand has to start something.
    pub(super) fn turn(&mut self, disk: u32, wait: Wait) -> Vec<Landed> {
        self.note_moment();
        self.pass_time();
        self.land_strays(false);
        loop {
            let delayed = self.flights.count_down(disk);
            let numbers = self.choose(disk, wait);
            if !numbers.is_empty() {
                return numbers.into_iter().filter_map(|number| self.land_number(number)).collect();
            }
            let until = match wait {
                Wait::No => return Vec::new(),
                Wait::Event => u64::MAX,
                Wait::Until(boot_ns) if boot_ns <= self.clock.now().boot_ns => return Vec::new(),
                Wait::Until(boot_ns) => boot_ns,
            };
            match (delayed, self.flights.first_due(disk)) {
                (true, _) => self.pass_time(),
                // Only sleeps: nothing happens until the first is due, so time jumps there.
                (false, Some(due)) => self.clock.advance_to(due.min(until)),
                (false, None) if until != u64::MAX => self.clock.advance_to(until),
                (false, None) => return Vec::new(),
            }
        }
    }

    fn pass_time(&mut self) {
        let passed = 1 + self.random.below(TURN_NS_MAX) as u64;
        self.clock.advance(passed);
    }

    /// Which operations land in this turn, in order: every sleep that is due, and a few of the others.
    fn choose(&mut self, disk: u32, wait: Wait) -> Vec<u64> {
        let mut chosen = self.flights.due(disk, self.clock.now().boot_ns);
        let mut ready = self.flights.ready(disk);
        let few = match self.random.below(8) {
            0 | 1 if wait == Wait::No => 0,
            7 => ready.len(),
            few => 1 + few % 3,
        };
        for _ in 0..few.min(ready.len()) {
            chosen.push(ready.swap_remove(self.random.below(ready.len())));
        }
        chosen
    }

    /// Lands strays: all of them, or each with a chance of 1 in 8.
    pub(super) fn land_strays(&mut self, all: bool) {
        let mut strays = self.flights.strays();
        self.shuffle(&mut strays);
        for number in strays {
            if all || self.random.chance(1, 8) {
                self.land_number(number);
            }
        }
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.random.below(end + 1));
        }
    }

    fn land_number(&mut self, number: u64) -> Option<Landed> {
        let mut flight = self.flights.take(number)?;
        let result = self.land(&mut flight);
        let (token, verb, path) = (flight.token?, flight.verb, flight.path);
        Some(Landed { token, verb, path, result })
    }
}
