//! Flights: the operations that were started and have not landed. It tells which are in the air, not when they land.

use super::effect::{Effect, Write};
use super::fault::What;
use super::names::Inode;
use crate::buffer::BLOCK;
use crate::error::Verb;
use crate::slot::Token;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One operation in the air.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) disk: u32,
    /// Whom to answer; `None` for a stray: its process is dead, or was answered too early by a lie.
    pub(super) token: Option<Token>,
    pub(super) verb: Verb,
    pub(super) path: Arc<str>,
    pub(super) effect: Effect,
    pub(super) fate: Option<What>,
    /// Turns that it must still wait.
    pub(super) delay: u32,
    /// The last change before it started: a sync covers no later one.
    pub(super) started: u64,
    /// The sectors of a write that have landed already, a mask per block.
    pub(super) landed: Vec<u8>,
}

impl fmt::Display for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:?} {}{}", self.number, self.verb, self.path, self.effect)?;
        self.fate.iter().try_for_each(|fate| write!(f, " ({fate:?})"))?;
        write!(f, " of disk {}", self.disk)
    }
}

/// All that is in the air, by number: in the order in which it was started.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights(BTreeMap<u64, Flight>);

impl Flights {
    pub(super) fn add(&mut self, flight: Flight) {
        self.0.insert(flight.number, flight);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Flight> {
        self.0.remove(&number)
    }

    pub(super) fn take_all(&mut self) -> Vec<Flight> {
        std::mem::take(&mut self.0).into_values().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.0.values()
    }

    /// Makes strays of what one disk has in flight: its ring is gone, the process is not.
    pub(super) fn abandon(&mut self, disk: u32) {
        self.0.retain(|_, flight| flight.disk != disk || flight.effect.may_outlive_its_process());
        self.0.values_mut().filter(|flight| flight.disk == disk).for_each(|flight| flight.token = None);
    }

    pub(super) fn strays(&self) -> Vec<u64> {
        self.iter().filter(|flight| flight.token.is_none()).map(|flight| flight.number).collect()
    }

    /// Those of one disk that may land now, sleeps apart.
    pub(super) fn ready(&self, disk: u32) -> Vec<u64> {
        let ready = self.of(disk).filter(|flight| flight.delay == 0 && flight.verb != Verb::Sleep);
        ready.map(|flight| flight.number).collect()
    }

    /// The sleeps of one disk that are due by `boot_ns`.
    pub(super) fn due(&self, disk: u32, boot_ns: u64) -> Vec<u64> {
        self.sleeps(disk).filter(|(due_ns, _)| *due_ns <= boot_ns).map(|(_, number)| number).collect()
    }

    /// When the first sleep of one disk is due.
    pub(super) fn first_due(&self, disk: u32) -> Option<u64> {
        self.sleeps(disk).map(|(due_ns, _)| due_ns).min()
    }

    fn sleeps(&self, disk: u32) -> impl Iterator<Item = (u64, u64)> {
        self.of(disk).filter(|flight| flight.delay == 0).filter_map(|flight| match flight.effect {
            Effect::Sleep { due_ns } => Some((due_ns, flight.number)),
            _ => None,
        })
    }

    fn of(&self, disk: u32) -> impl Iterator<Item = &Flight> {
        self.0.values().filter(move |flight| flight.disk == disk && flight.token.is_some())
    }

    /// Lets a turn pass for what is delayed on one disk; true when anything was.
    pub(super) fn count_down(&mut self, disk: u32) -> bool {
        let mut waited = false;
        for flight in self.0.values_mut().filter(|flight| flight.disk == disk && flight.delay > 0) {
            flight.delay -= 1;
            waited = true;
        }
        waited
    }

    /// The writes in the air that touch some of these bytes and are to land unharmed.
    pub(super) fn writes_over(&mut self, file: Inode, position: u64, length: usize) -> Vec<(&Write, &mut Vec<u8>)> {
        let end = position + length as u64;
        let harmless = |flight: &&mut Flight| flight.fate.is_none();
        let over = self.0.values_mut().filter(harmless).filter_map(|flight| match &flight.effect {
            Effect::Write(write) => Some((write, &mut flight.landed)),
            _ => None,
        });
        over.filter(|(write, _)| write.file == file && write.position < end && position < write.end()).collect()
    }

    /// The write of a living process that shares a block with `new`. That two such are in flight is a bug of the caller:
    /// the device may land them in either order, and the block ends as either of them.
    pub(super) fn overlap(&self, new: &Write) -> Option<&Flight> {
        let span = blocks(new);
        self.iter().filter(|flight| flight.token.is_some()).find(|flight| match &flight.effect {
            Effect::Write(other) if other.file == new.file => {
                let other = blocks(other);
                other.start < span.end && span.start < other.end
            }
            _ => false,
        })
    }
}

/// The blocks that a write touches.
fn blocks(write: &Write) -> std::ops::Range<u64> {
    write.position / BLOCK as u64..write.end().div_ceil(BLOCK as u64)
}
