//! Read: whole batches from an offset on, never past what the reader may see.

use super::ahead::{Reader, Served};
use super::answer::{RawAnswer, Unverified};
use super::command::{Admitted, LogNumber};
use super::descriptors::Descriptors;
use super::shard::{Event, Shard};
use super::window::Plan;
use crate::batch::ReadMemory;
use crate::error::ReadError;
use crate::id::{Epoch, Offset, Seq, Uid};
use crate::log::Log;
use crate::log::locate::{Place, locate};
use crate::segment::closed::{Closed, Loaded};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use strandline_disk::{Disk, DiskError, Position};

/// What is to be read of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) offset: Offset,
    pub(super) bytes: usize,
    /// Also what is written and not durable yet.
    pub(super) past_durable: bool,
    /// Where to stop, when a batch is known to begin there.
    pub(super) until: Option<Position>,
}

/// Whom a read is for.
pub(super) enum For {
    /// Somebody waits for it.
    Reader(Reader),
    /// It is the stretch of this number, read ahead.
    Ahead(u64),
}

/// A closed segment as it was when somebody began to look at it. It may have been rewritten, or roused, written and let go of again since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    seq: Seq,
    uid: Uid,
    end: Offset,
    /// The log's: what was cut may end where it did before.
    epoch: Epoch,
}

impl Seen {
    pub(super) fn of(log: &Log<Admitted>, closed: &Closed) -> Seen {
        Seen { seq: closed.id.seq, uid: closed.uid, end: closed.end, epoch: log.epoch }
    }

    /// The segment, where it still is what it was.
    pub(super) fn still<'a>(&self, log: &'a mut Log<Admitted>) -> Option<&'a mut Closed> {
        let epoch = log.epoch;
        let closed = log.closed_at_mut(self.seq)?;
        (closed.uid == self.uid && closed.end == self.end && epoch == self.epoch).then_some(closed)
    }
}

/// A read that has come back.
pub(super) struct ReadDone {
    log: LogNumber,
    wanted: Wanted,
    whom: For,
    /// The epoch of the log when it started.
    epoch: Epoch,
    /// The file of a segment, when this read opened it.
    loaded: Option<(Seen, Rc<Loaded>)>,
    result: RawAnswer,
}

impl<D: Disk> Shard<D> {
    pub(super) fn start_read(
        &mut self,
        number: LogNumber,
        offset: Offset,
        bytes: usize,
        past_durable: bool,
        (answer, admitted): Reader,
    ) {
        let bytes = bytes.clamp(1, self.config.read_bytes_max as usize);
        let log = &self.logs[number.0];
        // The caller may have looked before the last commit was there.
        let near = log.shared.read(offset, bytes, past_durable).filter(|near| !near.is_empty());
        if let Some(batches) = near {
            return admitted.answer(answer, Ok(Unverified::good(batches, offset)));
        }
        let wanted = Wanted { offset, bytes, past_durable, until: None };
        // What was read ahead may be gone from the log since.
        let served = match offset >= log.start && offset < log.durable_end {
            true => self.ahead.serve(number, offset, bytes, (answer, admitted)),
            false => Served::No((answer, admitted)),
        };
        match served {
            Served::Now(reader, result) => self.answer_read(number, offset, bytes, reader, *result),
            Served::Later => {}
            Served::No(reader) => self.fetch(number, wanted, For::Reader(reader)),
        }
    }

    /// Reads from the disk, for a reader or ahead of one.
    pub(super) fn fetch(&mut self, number: LogNumber, wanted: Wanted, whom: For) {
        self.logs[number.0].reading += 1;
        let log = &self.logs[number.0];
        let (disk, memory) = (self.disk.clone(), self.queue.read_memory());
        let Wanted { offset, bytes, past_durable, until } = wanted;
        let epoch = log.epoch;
        let done =
            move |loaded, result| Event::Read(Box::new(ReadDone { log: number, wanted, whom, epoch, loaded, result }));
        if log.deleted {
            let error = ReadError::Deleted { log: log.id.clone() };
            return self.spawn(std::future::ready(done(None, Err(error))));
        }
        match locate(log, offset, past_durable) {
            Err(error) => self.spawn(std::future::ready(done(None, Err(error)))),
            Ok(Place::End) => {
                let nothing = Unverified::good(Vec::new(), offset);
                self.spawn(std::future::ready(done(None, Ok(nothing))));
            }
            Ok(Place::Active(active)) => {
                let (to, end) = match past_durable {
                    true => (active.written_end(), log.written_end),
                    false => (active.durable_end(), log.durable_end),
                };
                let plan = Plan {
                    segment: active.id.clone(),
                    uid: active.uid,
                    file: active.file.clone(),
                    from: active.index.locate(offset),
                    to,
                    until,
                    end,
                    offset,
                    bytes,
                    memory,
                };
                self.count_read();
                self.spawn(async move { done(None, plan.run(&disk).await) });
            }
            Ok(Place::Closed(place)) => {
                let closed = log.closed[place].clone();
                if let Some(loaded) = &closed.loaded {
                    loaded.used_ns.set(self.now.boot_ns);
                }
                let (descriptors, seen) = (self.descriptors.clone(), Seen::of(log, &closed));
                self.count_read();
                self.spawn(async move {
                    let (loaded, result) = read_closed((&disk, &descriptors), &closed, &wanted, &memory).await;
                    done(loaded.map(|loaded| (seen, loaded)), result)
                });
            }
        }
    }

    pub(super) fn count_read(&self) {
        self.queue.counters.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn settle_read(&mut self, done: ReadDone) {
        let ReadDone { log, wanted, whom, epoch, loaded, result } = done;
        self.logs[log.0].reading -= 1;
        let result = self.explain_read(result);
        let Wanted { offset, bytes, .. } = wanted;
        if let Some((seen, loaded)) = loaded {
            self.keep_loaded(log, seen, loaded);
        }
        let of_log = &self.logs[log.0];
        let failed =
            matches!(result, Err(ReadError::Corrupt { .. } | ReadError::Disk { .. } | ReadError::TooManyOpen { .. }));
        // While a truncation is at work, only what came from the disk may be stale: it is read again, which takes a turn of the disk.
        // An answer that came at once would come again at once, and for ever within this turn.
        let from_disk = failed || result.as_ref().is_ok_and(|read| read.next() > offset);
        let cut = epoch != of_log.epoch || (of_log.epoch_is_rising && from_disk);
        let gone = failed && (offset < of_log.start || of_log.deleted);
        match whom {
            // What it read was taken away under it: that is no damage. It sees what the log holds now.
            For::Reader(reader) if cut || gone => self.fetch(log, wanted, For::Reader(reader)),
            For::Ahead(stretch) if cut => {
                if let Some((reader, ..)) = self.ahead.landed(stretch, result) {
                    self.fetch(log, wanted, For::Reader(reader));
                }
            }
            For::Reader(reader) => self.answer_read(log, offset, bytes, reader, result),
            For::Ahead(stretch) => self.take_stretch(log, stretch, result),
        }
    }

    /// Keeps a closed segment open for the reads to come, and lets go of the one that was read longest ago when there are too many.
    pub(super) fn keep_loaded(&mut self, log: LogNumber, seen: Seen, loaded: Rc<Loaded>) {
        let Some(closed) = seen.still(&mut self.logs[log.0]) else { return };
        if closed.loaded.is_some() && !loaded.surveyed {
            return;
        }
        loaded.used_ns.set(self.now.boot_ns);
        closed.loaded = Some(loaded);
        if !self.loaded.contains(&(log, seen.seq)) {
            self.loaded.push((log, seen.seq));
            self.bound_loaded();
        }
        self.close_later(log);
    }
}

/// Reads from a closed segment; gives it back opened when it was not. An index is a hint: what cannot be found by the stored one
/// is looked for once more by one that is built from the data, which also tells exactly what is damaged.
pub(super) async fn read_closed<D: Disk>(
    (disk, descriptors): (&D, &Descriptors),
    closed: &Closed,
    wanted: &Wanted,
    memory: &ReadMemory,
) -> (Option<Rc<Loaded>>, RawAnswer) {
    let (loaded, fresh) = match &closed.loaded {
        Some(loaded) => (loaded.clone(), None),
        None => match load(disk, descriptors, closed).await {
            Ok(loaded) => {
                let loaded = Rc::new(loaded);
                (loaded.clone(), Some(loaded))
            }
            Err(source) => return (None, Err(cannot_open(closed, source))),
        },
    };
    let read = read_loaded(disk, closed, &loaded, wanted, memory).await;
    if loaded.surveyed || !matches!(read, Err(ReadError::Corrupt { .. })) {
        return (fresh, read);
    }
    match closed.survey(disk, loaded.file.clone()).await {
        Ok(surveyed) => {
            let read = read_loaded(disk, closed, &surveyed, wanted, memory).await;
            (Some(Rc::new(surveyed)), read)
        }
        Err(source) => (fresh, Err(cannot_open(closed, source))),
    }
}

/// Opens a closed segment when there is room for that.
pub(super) async fn load<D: Disk>(disk: &D, descriptors: &Descriptors, closed: &Closed) -> Result<Loaded, DiskError> {
    let _room = descriptors.room(2).await?;
    closed.load(disk).await
}

pub(super) fn cannot_open(closed: &Closed, source: DiskError) -> ReadError {
    ReadError::Disk { segment: closed.id.clone(), position: Position(0), source }
}

async fn read_loaded<D: Disk>(
    disk: &D,
    closed: &Closed,
    loaded: &Loaded,
    wanted: &Wanted,
    memory: &ReadMemory,
) -> RawAnswer {
    let offset = wanted.offset;
    if let Some(damage) = loaded.damage.iter().find(|damage| damage.from <= offset && offset < damage.to) {
        return Err(ReadError::Corrupt {
            segment: closed.id.clone(),
            position: damage.position,
            from: offset,
            to: damage.to,
            reason: damage.reason.clone(),
        });
    }
    let plan = Plan {
        segment: closed.id.clone(),
        uid: closed.uid,
        file: loaded.file.clone(),
        from: loaded.index.locate(offset),
        to: loaded.data_end,
        until: wanted.until,
        end: closed.end,
        offset,
        bytes: wanted.bytes,
        memory: memory.clone(),
    };
    plan.run(disk).await
}
