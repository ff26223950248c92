//! Commit: writes are started, and how each becomes durable is decided: by itself, or by a flush when it has landed.
//!
//! A write on its own is durable when it lands (RWF_DSYNC). Writes of several logs that start together are a group: plain writes, and
//! then one barrier for all of them, where every condition for it holds.

use super::command::{Admitted, LogNumber};
use super::shard::{Event, Shard};
use crate::config::{SyncMode, sabotaged};
use crate::log::{Flight, Level, Log};
use strandline_disk::{Buffer, Disk, DiskError, File, Position, transfer};

/// How many groups and single writes of different logs are in work at once where barriers are used: one that is being flushed and
/// one that is being written. What arrives meanwhile is the next group.
const GROUPS_MAX: usize = 2;

/// A write that was laid.
pub(super) struct Write {
    pub(super) log: LogNumber,
    pub(super) file: File,
    pub(super) buffer: Buffer,
    pub(super) at: Position,
    /// The highest level that any of its batches asks for.
    pub(super) level: Level,
    pub(super) flight: Flight<Admitted>,
}

/// A write that has come back from the disk.
pub(super) struct Landed {
    pub(super) log: LogNumber,
    pub(super) number: u64,
    pub(super) at: Position,
    pub(super) result: Result<(), DiskError>,
}

/// Writes that started together and wait for one barrier.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) number: u64,
    /// Writes that have not landed.
    pub(super) flying: usize,
    /// Logs whose writes have landed.
    pub(super) landed: Vec<LogNumber>,
}

/// How a store makes durable what it writes, decided when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Durability {
    pub(super) mode: SyncMode,
    /// A barrier may stand for several files.
    pub(super) barrier: bool,
}

impl<D: Disk> Shard<D> {
    /// Whether another group, or a single write of another log, may start. Further writes of one log are one with its first.
    pub(super) fn has_room_for_a_group(&self) -> bool {
        !self.durability.barrier || self.groups.len() + self.singles < GROUPS_MAX
    }

    /// Starts writes, all of which were laid in one turn.
    pub(super) fn start(&mut self, writes: &mut Vec<Write>) {
        let alone = writes.len() == 1 && self.groups.is_empty() && self.durability.mode != SyncMode::Barrier;
        let group = self.next_flight;
        let mut flying = 0;
        for write in writes.drain(..) {
            let log = &self.logs[write.log.0];
            let wanted = write.level == Level::Durable;
            let always = sabotaged!(self.config, BarrierForAll);
            let grouped = wanted && self.durability.barrier && !alone && may_share(log, always);
            // A durable write says nothing of plain ones before it: then a flush has to.
            let durable = wanted && !grouped && self.durability.mode != SyncMode::PerFile && !exposes_plain(log);
            flying += usize::from(grouped);
            let alone_of_its_log = !log.flights.iter().any(|flight| flight.durable && !flight.landed);
            self.singles += usize::from(durable && alone_of_its_log);
            self.write(write, durable, grouped.then_some(group));
        }
        if flying > 0 {
            self.groups.push(Group { number: group, flying, landed: Vec::with_capacity(flying) });
        }
    }

    /// Starts one write. Works on owned data only.
    fn write(&mut self, write: Write, durable: bool, group: Option<u64>) {
        let Write { log: number, file, buffer, at, mut flight, .. } = write;
        flight.number = self.next_flight;
        flight.durable = durable;
        flight.started_ns = self.now.boot_ns;
        self.next_flight += 1;
        if sabotaged!(self.config, AnswerBeforeCompletion) {
            for staged in &mut flight.staged {
                if let Some(answer) = staged.answer.take() {
                    answer.give(Ok(staged.receipt));
                }
            }
        }
        let (flight_number, durable) = (flight.number, durable && !sabotaged!(self.config, SkipFlush));
        let log = &mut self.logs[number.0];
        log.flights.push_back(flight);
        self.flights += 1;
        let disk = self.disk.clone();
        self.spawn(async move {
            // With `durable`, durable before anybody is answered: this is the promise of an acknowledged append.
            let (_, result) = transfer::write(&disk, &file, buffer, at, durable).await;
            Event::Landed { landed: Landed { log: number, number: flight_number, at, result }, group }
        });
    }
}

/// Whether a barrier by another file covers this log's writes: its blocks were written whole and synced, and no page cache is
/// between.
pub(super) fn may_share(log: &Log<Admitted>, always: bool) -> bool {
    log.active.as_ref().is_some_and(|active| always || (active.anchored && active.file.is_direct()))
}

/// Whether something of the log is written, or being written, that no durable write of its own covers.
fn exposes_plain(log: &Log<Admitted>) -> bool {
    log.flushing || log.has_unflushed() || log.flights.iter().any(|flight| !flight.durable)
}
