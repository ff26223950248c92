//! Cut: which bytes a disk holds after the power went away at some moment of what was recorded. Pure.

use crate::image::{Image, SECTOR};
use crate::random::Random;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a disk was asked to do, in order.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes were handed over.
    Write {
        /// Where they go.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// The write of this number among the events is about to be answered.
    Done(usize),
    /// A flush was asked.
    Flush,
}

/// How much of what was not flushed is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing: every write up to the cut is there.
    Prefix,
    /// Each write since the last flush is there or not, as the seed decides.
    Subset,
    /// As `subset`, and what is there may be torn between sectors of 512 bytes.
    Torn,
    /// Everything since the last flush.
    Drop,
    /// As `torn`, and a flush covers only writes that had been answered when it was asked.
    Strict,
}

/// All of them.
pub const MODES: [Mode; 5] = [Mode::Prefix, Mode::Subset, Mode::Torn, Mode::Drop, Mode::Strict];

/// What a cut left.
#[derive(Clone, Debug)]
pub struct Left {
    /// The disk.
    pub image: Image,
    /// How many writes are not there at all.
    pub dropped: u64,
    /// How many are there in part.
    pub torn: u64,
}

/// Walks through what was recorded, forwards only: cuts are asked for in their order.
pub struct Cutter<'a> {
    events: &'a [Event],
    strict: bool,
    at: usize,
    flushed: Image,
    /// Writes that no flush covers yet, with whether they were answered.
    open: Vec<(usize, bool)>,
}

impl<'a> Cutter<'a> {
    /// From this disk on. `strict` is for cuts of that mode only, which need a cutter of their own.
    pub fn new(base: &Image, events: &'a [Event], strict: bool) -> Cutter<'a> {
        Cutter { events, strict, at: 0, flushed: base.clone(), open: Vec::new() }
    }

    /// The disk after a cut before the event `position`.
    pub fn cut(&mut self, position: usize, mode: Mode, random: &mut Random) -> Left {
        assert!(position >= self.at, "cuts are asked for in their order");
        while self.at < position {
            self.step();
        }
        let mut left = Left { image: self.flushed.clone(), dropped: 0, torn: 0 };
        for (number, _) in &self.open {
            let Event::Write { offset, bytes } = &self.events[*number] else { continue };
            keep_some(&mut left, mode, (*offset, bytes), random);
        }
        left
    }

    fn step(&mut self) {
        match &self.events[self.at] {
            Event::Write { .. } => self.open.push((self.at, false)),
            Event::Done(number) => {
                if let Some(open) = self.open.iter_mut().find(|(of, _)| of == number) {
                    open.1 = true;
                }
            }
            Event::Flush => self.flush(),
        }
        self.at += 1;
    }

    /// Applies what the flush covers, in the order of the writes. One that is not covered but stands under a later one that is goes along: it
    /// must not come out on top.
    fn flush(&mut self) {
        let covered = |at: usize, open: &[(usize, bool)]| {
            let (number, done) = open[at];
            let under = |later: &(usize, bool)| later.1 && overlap(&self.events[number], &self.events[later.0]);
            !self.strict || done || open[at + 1..].iter().any(under)
        };
        let keeps: Vec<bool> = (0..self.open.len()).map(|at| covered(at, &self.open)).collect();
        let mut left = Vec::new();
        for (open, covered) in self.open.drain(..).zip(keeps) {
            match &self.events[open.0] {
                Event::Write { offset, bytes } if covered => {
                    self.flushed.write(*offset, bytes);
                }
                _ => left.push(open),
            }
        }
        self.open = left;
    }
}

fn overlap(one: &Event, other: &Event) -> bool {
    match (one, other) {
        (Event::Write { offset: a, bytes: of_a }, Event::Write { offset: b, bytes: of_b }) => {
            *a < b + of_b.len() as u64 && *b < a + of_a.len() as u64
        }
        _ => false,
    }
}

/// Applies one write that no flush covers, or a part of it, or nothing.
fn keep_some(left: &mut Left, mode: Mode, (offset, bytes): (u64, &[u8]), random: &mut Random) {
    let kept = match mode {
        Mode::Prefix => true,
        Mode::Drop => false,
        Mode::Subset | Mode::Torn | Mode::Strict => random.one_in(2),
    };
    if !kept {
        left.dropped += 1;
        return;
    }
    let tears = matches!(mode, Mode::Torn | Mode::Strict) && bytes.len() > SECTOR && random.one_in(2);
    if !tears {
        left.image.write(offset, bytes);
        return;
    }
    left.torn += 1;
    let sectors = bytes.len().div_ceil(SECTOR) as u64;
    let (shape, border) = (random.below(3), random.below(sectors));
    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
        let number = number as u64;
        let there = match shape {
            0 => number < border,
            1 => number > border,
            _ => random.one_in(2),
        };
        if there {
            left.image.write(offset + number * SECTOR as u64, sector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, letter: u8, length: usize) -> Event {
        Event::Write { offset, bytes: vec![letter; length].into() }
    }

    fn cut(events: &[Event], position: usize, mode: Mode, seed: u64) -> Left {
        let base = Image::new(1 << 20);
        Cutter::new(&base, events, mode == Mode::Strict).cut(position, mode, &mut Random::new(seed, 0))
    }

    /// The first letter of each block of 4,096 bytes.
    fn letters(left: &Left, blocks: u64) -> Vec<u8> {
        (0..blocks).map(|block| left.image.read(block * 4096, 1)[0]).collect()
    }

    #[test]
    fn a_prefix_has_everything_before_the_cut_and_nothing_behind() {
        let events = [write(0, b'a', 4096), Event::Done(0), write(4096, b'b', 4096)];
        assert_eq!(letters(&cut(&events, 2, Mode::Prefix, 1), 2), [b'a', 0]);
        assert_eq!(letters(&cut(&events, 3, Mode::Prefix, 1), 2), [b'a', b'b']);
    }

    #[test]
    fn what_was_flushed_is_there_in_every_mode() {
        let events = [write(0, b'a', 4096), Event::Done(0), Event::Flush, write(4096, b'b', 4096)];
        for mode in MODES {
            for seed in 0..20 {
                let left = cut(&events, 4, mode, seed);
                assert_eq!(left.image.read(0, 4096), vec![b'a'; 4096], "{mode:?} {seed}");
            }
        }
        let left = cut(&events, 4, Mode::Drop, 1);
        assert_eq!((letters(&left, 2), left.dropped), (vec![b'a', 0], 1));
    }

    #[test]
    fn a_subset_comes_in_every_combination_and_whole() {
        let events = [write(0, b'a', 4096), write(4096, b'b', 4096)];
        let seen: std::collections::BTreeSet<_> = (0..64)
            .map(|seed| {
                let left = cut(&events, 2, Mode::Subset, seed);
                let last = [left.image.read(4095, 1)[0], left.image.read(8191, 1)[0]];
                assert_eq!(letters(&left, 2), last, "whole or not at all");
                last
            })
            .collect();
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn tears_are_between_sectors() {
        let events = [write(0, b'a', 4096)];
        let mut torn = 0;
        for seed in 0..64 {
            let left = cut(&events, 1, Mode::Torn, seed);
            torn += left.torn;
            for sector in left.image.read(0, 4096).chunks(SECTOR) {
                assert!(sector.iter().all(|byte| *byte == sector[0]));
            }
        }
        assert!(torn > 0);
    }

    #[test]
    fn only_strict_loses_a_write_in_flight_at_a_flush() {
        let events = [write(0, b'a', 512), Event::Flush, Event::Done(0)];
        let loses = |mode| (0..32).any(|seed| cut(&events, 3, mode, seed).dropped > 0);
        assert!(loses(Mode::Strict));
        assert!(!loses(Mode::Drop) && !loses(Mode::Torn) && !loses(Mode::Subset));
    }

    #[test]
    fn a_write_in_flight_does_not_come_out_above_a_later_flushed_one() {
        let events = [write(0, b'a', 512), write(0, b'b', 512), Event::Done(1), Event::Flush];
        for seed in 0..32 {
            assert_eq!(letters(&cut(&events, 4, Mode::Strict, seed), 1), [b'b']);
        }
    }

    #[test]
    fn one_walk_gives_what_walks_from_the_start_give() {
        let events = [write(0, b'a', 512), Event::Flush, write(4096, b'b', 512), Event::Flush, write(8192, b'c', 512)];
        let base = Image::new(1 << 20);
        let mut cutter = Cutter::new(&base, &events, false);
        for position in 0..=events.len() {
            let walked = cutter.cut(position, Mode::Drop, &mut Random::new(1, 0));
            assert_eq!(letters(&walked, 3), letters(&cut(&events, position, Mode::Drop, 1), 3));
        }
    }
}
