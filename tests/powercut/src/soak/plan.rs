//! Plan: which faults a seed makes, when, and how long a process lives. Pure.

use crate::faults::fault::{Fault, KINDS, Kind, Times, Way};
use crate::faults::tree::Loss;
use crate::random::Random;
use rustix::io::Errno;
use std::fmt;
use std::time::Duration;

/// The shortest and the longest mean life, in seconds.
const LIFE_S: (f64, f64) = (100.0, 150.0);

/// How many lives a part has, as far as that allows.
const LIVES: f64 = 6.0;

/// What happens to a store while it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its process is stopped for so long.
    Stop(Duration),
    /// The store is closed and opened again by the same process.
    Reopen,
    /// An operation below it goes wrong in a way that nobody may notice.
    Gentle(Fault),
    /// An operation below it goes wrong, or all of a kind for so long. It is opened again by the same process.
    Harsh(Fault, Duration),
    /// There is no room for so long.
    Full(Duration),
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The store is closed in order, and its process ends.
    Close,
    /// Its process is killed.
    Kill,
    /// The power goes as well.
    Power(Loss),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Event::Stop(_) => "stopped for a moment",
            Event::Reopen => "closed and opened again",
            Event::Gentle(_) => "short, late, interrupted",
            Event::Harsh(..) => "failing operations",
            Event::Full(_) => "full disk",
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Close => "closed, next process",
            End::Kill => "kill -9",
            End::Power(_) => "power cut",
        })
    }
}

/// All that a seed decides.
#[derive(Debug)]
pub struct Plan {
    random: Random,
    below: bool,
    life_s: f64,
}

impl Plan {
    /// Of a part that takes so long. `below`: what is below the store can be made to fail.
    pub fn new(seed: u64, takes: Duration, below: bool) -> Plan {
        let life_s = (takes.as_secs_f64() / LIVES).clamp(LIFE_S.0, LIFE_S.1);
        Plan { random: Random::new(seed, 300 + u64::from(below)), below, life_s }
    }

    fn between(&mut self, low_ms: u64, high_ms: u64) -> Duration {
        Duration::from_millis(low_ms + self.random.below(high_ms - low_ms))
    }

    /// How long the next process lives.
    pub fn life(&mut self) -> Duration {
        let mean_ms = (self.life_s * 1e3) as u64;
        self.between(mean_ms * 7 / 10, mean_ms * 13 / 10)
    }

    /// How long nothing happens.
    pub fn pause(&mut self) -> Duration {
        self.between(2_000, 7_000)
    }

    /// How the life ends.
    pub fn end(&mut self) -> End {
        let ends = [End::Kill, End::Close, End::Power(Loss::Some), End::Power(Loss::All)];
        let ends = if self.below { &ends[..] } else { &ends[..2] };
        self.random.pick(ends)
    }

    /// What happens next. Unless it `reopens`, the store stays open: what it keeps while it is open is seen to grow only where that takes long.
    pub fn event(&mut self, reopens: bool) -> Event {
        loop {
            let event = self.any();
            if reopens || !matches!(event, Event::Reopen | Event::Harsh(..)) {
                return event;
            }
        }
    }

    fn any(&mut self) -> Event {
        match (self.below, self.random.below(12)) {
            (_, 0..=1) => Event::Stop(self.between(300, 1_500)),
            (_, 2) | (false, 3..=4) => Event::Reopen,
            (false, _) => Event::Stop(self.between(50, 300)),
            (true, 3) => Event::Full(self.between(500, 2_000)),
            (true, 4..=7) => self.strike(true),
            (true, _) => self.strike(false),
        }
    }

    fn strike(&mut self, gentle: bool) -> Event {
        loop {
            let kind = self.random.pick(&KINDS);
            let (way, times) = self.random.pick(&kind.ways());
            let k = 1 + self.random.below(if times == Times::Once { 20 } else { 3 });
            let fault = Fault { kind, k, way, times };
            // What is taken from all files at once is left to the cases that strike one operation: a good flush of another ring that is taken
            // up in between is believed, which is known.
            if fault.is_harmless() == gentle && way != Way::DropsAll {
                return if gentle { Event::Gentle(fault) } else { Event::Harsh(fault, self.between(100, 800)) };
            }
        }
    }
}

/// Room for nothing new.
pub const NO_ROOM: Fault = Fault { kind: Kind::Allocate, k: 1, way: Way::Errno(Errno::NOSPC), times: Times::Forever };

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TAKES: Duration = Duration::from_secs(900);

    #[test]
    fn a_seed_repeats_itself_and_another_is_another() {
        let events = |seed: u64| {
            let mut plan = Plan::new(seed, TAKES, true);
            (0..50).map(|_| plan.event(true)).collect::<Vec<_>>()
        };
        assert_eq!(events(1), events(1));
        assert_ne!(events(1), events(2));
    }

    #[test]
    fn everything_happens_where_it_can() {
        let named = |below: bool| {
            let mut plan = Plan::new(1, TAKES, below);
            let mut events: BTreeSet<String> = (0..100).map(|_| plan.event(true).to_string()).collect();
            events.extend((0..100).map(|_| plan.end().to_string()));
            events.len()
        };
        assert_eq!((named(true), named(false)), (8, 4));
        let mut plan = Plan::new(1, TAKES, true);
        let stays_open = |event: Event| !matches!(event, Event::Reopen | Event::Harsh(..));
        assert!((0..100).all(|_| stays_open(plan.event(false))));
    }

    #[test]
    fn lives_are_long_enough_to_be_judged_and_several() {
        for seconds in [60, 150, 900, 7_200] {
            let mut plan = Plan::new(1, Duration::from_secs(seconds), false);
            let lives: Vec<u64> = (0..100).map(|_| plan.life().as_secs()).collect();
            assert!(lives.iter().all(|life| (70..=195).contains(life)), "{lives:?}");
        }
    }
}
