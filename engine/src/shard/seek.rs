//! Seek: the first offset of a time. Segments that are known to end before it are passed over; the one that may hold it is read from
//! where its index leads to.

use super::answer::{SeekAnswer, Sought, Unverified};
use super::command::{Admitted, LogNumber};
use super::descriptors::Descriptors;
use super::read::{self, Seen, Wanted};
use super::shard::{Event, Shard};
use super::window::Plan;
use crate::batch::{ReadMemory, StoredBatch};
use crate::error::ReadError;
use crate::id::Offset;
use crate::log::locate::{Place, locate_time};
use crate::pending::Answer;
use crate::segment::closed::{Closed, Loaded};
use crate::segment::time::{Latest, Time};
use std::rc::Rc;
use strandline_disk::{BLOCK, Disk, DiskError};

/// How much is read at once, in bytes: the index leads to within one of its stretches.
const SEEK_BYTES: usize = 4 * BLOCK;

/// A search on its way through a log.
pub(super) struct Seek {
    log: LogNumber,
    time: Time,
    /// Nothing before it is of this time.
    from: Offset,
    /// The durable end of the log when it was asked for.
    until: Offset,
    answer: Answer<SeekAnswer>,
    admitted: Admitted,
}

/// A segment that was searched.
pub(super) struct SeekDone {
    seek: Seek,
    /// What there was to learn of a closed one.
    learned: Option<(Seen, Learned)>,
    result: Result<Searched, ReadError>,
}

/// How the search of a segment ended.
enum Searched {
    /// The batch is in it.
    Found(Sought),
    /// It is at this offset or behind it.
    Past(Offset),
}

/// What a search learned of a closed segment.
#[derive(Default)]
struct Learned {
    latest: Option<Latest>,
    /// The segment, when this search opened it.
    loaded: Option<Rc<Loaded>>,
}

impl<D: Disk> Shard<D> {
    pub(super) fn start_seek(&mut self, log: LogNumber, time: Time, answer: Answer<SeekAnswer>, admitted: Admitted) {
        let of = &self.logs[log.0];
        if of.deleted {
            return admitted.answer(answer, Err(ReadError::Deleted { log: of.id.clone() }));
        }
        let (from, until) = (of.start, of.durable_end);
        self.seek_on(Seek { log, time, from, until, answer, admitted });
    }

    fn seek_on(&mut self, seek: Seek) {
        let (log, disk, memory) = (&self.logs[seek.log.0], self.disk.clone(), self.queue.read_memory());
        let (time, from, until) = (seek.time, seek.from.max(log.start), seek.until);
        match locate_time(log, time, from, until) {
            Err(error) => seek.admitted.answer(seek.answer, Err(error)),
            Ok(Place::End) => seek.admitted.answer(seek.answer, Ok(Sought::At(until))),
            Ok(Place::Closed(place)) => {
                let closed = log.closed[place].clone();
                let (descriptors, seen) = (self.descriptors.clone(), Seen::of(log, &closed));
                self.count_read();
                self.logs[seek.log.0].reading += 1;
                self.spawn(async move {
                    let mut learned = Learned::default();
                    let result =
                        search_closed((&disk, &descriptors), &closed, (time, from), &memory, &mut learned).await;
                    Event::Sought(Box::new(SeekDone { seek, learned: Some((seen, learned)), result }))
                });
            }
            Ok(Place::Active(active)) => {
                let (at, first) = time.start(&active.index, active.base);
                let plan = Plan {
                    segment: active.id.clone(),
                    uid: active.uid,
                    file: active.file.clone(),
                    from: at,
                    to: active.durable_end(),
                    until: None,
                    end: log.durable_end,
                    offset: first.max(from),
                    bytes: SEEK_BYTES,
                    memory,
                };
                self.count_read();
                self.logs[seek.log.0].reading += 1;
                self.spawn(async move {
                    let result = search_active(&disk, plan, time, from).await;
                    Event::Sought(Box::new(SeekDone { seek, learned: None, result }))
                });
            }
        }
    }

    pub(super) fn settle_sought(&mut self, done: SeekDone) {
        let SeekDone { mut seek, learned, result } = done;
        self.logs[seek.log.0].reading -= 1;
        if let Some((seen, Learned { latest, loaded })) = learned {
            let closed = seen.still(&mut self.logs[seek.log.0]);
            if let (Some(closed), Some(latest)) = (closed, latest.or(loaded.as_ref().map(|loaded| loaded.latest()))) {
                closed.latest = latest;
            }
            if let Some(loaded) = loaded {
                self.keep_loaded(seek.log, seen, loaded);
            }
        }
        match self.explain_read(result) {
            Err(error) => seek.admitted.answer(seek.answer, Err(error)),
            Ok(Searched::Found(sought)) => seek.admitted.answer(seek.answer, Ok(sought)),
            Ok(Searched::Past(next)) => {
                seek.from = next;
                self.seek_on(seek);
            }
        }
    }
}

async fn search_closed<D: Disk>(
    (disk, descriptors): (&D, &Descriptors),
    closed: &Closed,
    (time, from): (Time, Offset),
    memory: &ReadMemory,
    learned: &mut Learned,
) -> Result<Searched, ReadError> {
    let cannot_open = |source: DiskError| read::cannot_open(closed, source);
    if closed.latest.reaches(time).is_none() && closed.loaded.is_none() {
        // A look at the footer is enough to pass most segments over.
        let _room = descriptors.room(2).await.map_err(cannot_open)?;
        learned.latest = closed.read_latest(disk).await.map_err(cannot_open)?;
        if learned.latest.and_then(|latest| latest.reaches(time)) == Some(false) {
            return Ok(Searched::Past(closed.end));
        }
    }
    let mut closed = closed.clone();
    let loaded = match &closed.loaded {
        Some(loaded) => loaded.clone(),
        None => {
            let loaded = Rc::new(read::load(disk, descriptors, &closed).await.map_err(cannot_open)?);
            learned.loaded = Some(loaded.clone());
            loaded
        }
    };
    if loaded.latest().reaches(time) == Some(false) {
        learned.latest = Some(loaded.latest());
        return Ok(Searched::Past(closed.end));
    }
    let mut next = time.start(&loaded.index, closed.base).1.max(from);
    closed.loaded = Some(loaded);
    while next < closed.end {
        let wanted = Wanted { offset: next, bytes: SEEK_BYTES, past_durable: false, until: None };
        let (loaded, result) = read::read_closed((disk, descriptors), &closed, &wanted, memory).await;
        if let Some(loaded) = loaded {
            closed.loaded = Some(loaded.clone());
            learned.loaded = Some(loaded);
        }
        let read = result?;
        next = read.next();
        if let Some(sought) = first_of(read, time, from) {
            return Ok(Searched::Found(sought));
        }
    }
    Ok(Searched::Past(closed.end))
}

async fn search_active<D: Disk>(disk: &D, mut plan: Plan, time: Time, from: Offset) -> Result<Searched, ReadError> {
    while plan.offset < plan.end {
        let read = plan.clone().run(disk).await?;
        let Some(last) = read.batches().last() else { break };
        (plan.from, plan.offset) = (last.position().plus(last.header().total_length()), read.next());
        if let Some(sought) = first_of(read, time, from) {
            return Ok(Searched::Found(sought));
        }
    }
    Ok(Searched::Past(plan.end))
}

/// The first of these batches that is of this time or later.
fn first_of(read: Unverified, time: Time, from: Offset) -> Option<Sought> {
    let reached = |(_, batch): &(usize, &StoredBatch)| batch.end() > from && time.is_reached_by(batch.header());
    let (place, batch) = read.batches().iter().enumerate().find(reached)?;
    match time {
        // Which of its records it is, is looked up by whoever asked.
        Time::Client(time_ms) if !batch.is_foreign() => Some(Sought::Within { read: read.only(place), time_ms, from }),
        Time::Client(_) | Time::Store(_) => Some(Sought::At(batch.first().max(from))),
    }
}
