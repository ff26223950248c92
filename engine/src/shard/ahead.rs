//! Read ahead: while a caller works on one stretch of a log, the next ones are read. Only for callers that read on where their last
//! read ended; several may do so in one log.
//!
//! Where a stretch will end is told by the index before it is there, so that the one behind it is asked for at once. That is a
//! hint: a stretch that ends elsewhere takes those behind it along.

use super::answer::RawAnswer;
use super::command::{Admitted, LogNumber};
use super::read::{For, Wanted};
use super::shard::Shard;
use super::window::window_end;
use crate::format::index::Index;
use crate::id::Offset;
use crate::log::Log;
use crate::log::locate::{Place, locate};
use crate::pending::Answer;
use std::collections::VecDeque;
use strandline_disk::{Disk, Position};

/// How many stretches are read ahead of a caller, the one that he waits for included.
const STRETCHES: usize = 2;

/// How many callers that read on are remembered.
const STREAMS: usize = 16;

/// Who waits for a read, and its share of the store's limits.
pub(super) type Reader = (Answer<RawAnswer>, Admitted);

/// What a shard has read ahead.
pub(super) struct Ahead {
    /// Who reads on, the one that read longest ago first.
    streams: VecDeque<Stream>,
    /// The most bytes that all stretches together may have been asked for.
    bytes_max: usize,
    next_number: u64,
}

/// A caller that reads on, as far as can be told.
struct Stream {
    log: LogNumber,
    /// Where his next read will start.
    next: Offset,
    /// How many bytes he asks for each time.
    bytes: usize,
    /// What is read ahead of him, one behind the other.
    stretches: VecDeque<Stretch>,
}

struct Stretch {
    /// Which read it is: what comes of one that was given up must not be taken for what comes of another.
    number: u64,
    start: Offset,
    /// Where the one behind it starts, as soon as that is known or foreseen.
    end: Option<Offset>,
    state: State,
}

/// How far reading a stretch has come.
enum State {
    /// It is being read; perhaps somebody waits for it already.
    Flying(Option<Reader>),
    /// It is here.
    Ready(Box<RawAnswer>),
}

/// What came of asking for a stretch that may have been read ahead.
pub(super) enum Served {
    /// It is here.
    Now(Reader, Box<RawAnswer>),
    /// It is on its way.
    Later,
    /// It has to be read.
    No(Reader),
}

impl Stretch {
    fn is_waited_for(&self) -> bool {
        matches!(self.state, State::Flying(Some(_)))
    }
}

impl Stream {
    fn bytes_ahead(&self) -> usize {
        self.stretches.len() * self.bytes
    }

    /// Gives up what nobody waits for.
    fn give_up(&mut self) {
        self.stretches.retain(Stretch::is_waited_for);
    }

    /// Gives up what stands behind the stretch in this place and nobody waits for.
    fn give_up_behind(&mut self, place: usize) {
        let mut number = 0;
        self.stretches.retain(|stretch| {
            number += 1;
            number <= place + 1 || stretch.is_waited_for()
        });
    }
}

impl Ahead {
    /// Keeps at most `bytes_max` bytes ahead of all callers together.
    pub(super) fn new(bytes_max: usize) -> Ahead {
        Ahead { streams: VecDeque::new(), bytes_max, next_number: 0 }
    }

    /// Takes a reader whose stretch is here or on its way; gives the reader back when it is neither. The answer, when it is here,
    /// comes with the reader who gets it.
    pub(super) fn serve(&mut self, log: LogNumber, offset: Offset, bytes: usize, reader: Reader) -> Served {
        let Some((stream, place)) = self.find(log, offset, bytes) else { return Served::No(reader) };
        match &mut stream.stretches[place].state {
            // Two callers want the same: the second reads for himself.
            State::Flying(Some(_)) => return Served::No(reader),
            State::Flying(waiting) => *waiting = Some(reader),
            State::Ready(_) => {
                let Some(Stretch { state: State::Ready(answer), .. }) = stream.stretches.remove(place) else {
                    return Served::No(reader);
                };
                stream.next = offset;
                return Served::Now(reader, answer);
            }
        }
        stream.next = offset;
        Served::Later
    }

    /// What was read ahead of this log is no longer what it holds. Who waits for it is served anew when it comes.
    pub(super) fn forget(&mut self, log: LogNumber) {
        self.streams.iter_mut().filter(|stream| stream.log == log).for_each(Stream::give_up);
    }

    fn find(&mut self, log: LogNumber, offset: Offset, bytes: usize) -> Option<(&mut Stream, usize)> {
        let streams = self.streams.iter_mut().filter(|stream| stream.log == log && stream.bytes == bytes);
        streams.into_iter().find_map(|stream| {
            let place = stream.stretches.iter().position(|stretch| stretch.start == offset)?;
            Some((stream, place))
        })
    }

    /// Takes a stretch that has come; gives it back with the reader who waits for it, and what he asked for.
    pub(super) fn landed(&mut self, number: u64, answer: RawAnswer) -> Option<(Reader, Offset, usize, RawAnswer)> {
        // Perhaps nobody wants it any more.
        let (stream, place) = self.streams.iter_mut().find_map(|stream| {
            let place = stream.stretches.iter().position(|stretch| stretch.number == number)?;
            Some((stream, place))
        })?;
        let end = answer.as_ref().ok().map(super::answer::Unverified::next);
        let stretch = &mut stream.stretches[place];
        if stretch.end.is_some() && stretch.end != end {
            stream.give_up_behind(place);
        }
        let stretch = &mut stream.stretches[place];
        stretch.end = end;
        match &mut stretch.state {
            State::Flying(Some(_)) => {
                let Stretch { start, state: State::Flying(Some(reader)), .. } = stream.stretches.remove(place)? else {
                    return None;
                };
                return Some((reader, start, stream.bytes, answer));
            }
            // Whoever comes for it tries again.
            _ if answer.is_err() => drop(stream.stretches.remove(place)),
            state => *state = State::Ready(Box::new(answer)),
        }
        None
    }

    /// Notes a read that was answered up to `next`. True when its caller reads on and on.
    fn note(&mut self, log: LogNumber, offset: Offset, bytes: usize, next: Offset) -> bool {
        let is_his = |stream: &Stream| (stream.log, stream.next, stream.bytes) == (log, offset, bytes);
        let known = self.streams.iter().position(is_his).and_then(|place| self.streams.remove(place));
        let reads_on = known.is_some();
        let mut stream = known.unwrap_or(Stream { log, next, bytes, stretches: VecDeque::new() });
        stream.next = next;
        if stream.stretches.front().is_some_and(|stretch| stretch.start != next) {
            stream.give_up();
        }
        self.streams.push_back(stream);
        while self.streams.len() > STREAMS {
            let idle = |stream: &Stream| !stream.stretches.iter().any(Stretch::is_waited_for);
            let Some(oldest) = self.streams.iter().position(idle) else { break };
            self.streams.remove(oldest);
        }
        reads_on
    }

    /// Where the next stretch behind those of the caller who reads next at `next` starts, when there may be one more.
    fn wants(&mut self, log: LogNumber, next: Offset, bytes: usize) -> Option<Offset> {
        let is_his = |stream: &Stream| (stream.log, stream.next, stream.bytes) == (log, next, bytes);
        let place = self.streams.iter().position(is_his)?;
        let own = self.streams[place].stretches.len();
        if own >= STRETCHES {
            return None;
        }
        let mut ahead: usize = self.streams.iter().map(Stream::bytes_ahead).sum();
        for other in (0..self.streams.len()).filter(|other| *other != place) {
            // One stretch for whoever reads now comes before what was read for others; more than that only where there is room.
            if own > 0 || ahead + bytes <= self.bytes_max {
                break;
            }
            let stream = &mut self.streams[other];
            ahead -= stream.bytes_ahead();
            stream.give_up();
            ahead += stream.bytes_ahead();
        }
        if ahead + bytes > self.bytes_max {
            return None;
        }
        self.streams[place].stretches.back().map_or(Some(next), |last| last.end)
    }

    /// Adds a stretch that is being read to those of the caller who reads next at `next`; gives its number.
    fn push(&mut self, log: LogNumber, next: Offset, bytes: usize, start: Offset, end: Option<Offset>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let is_his = |stream: &&mut Stream| (stream.log, stream.next, stream.bytes) == (log, next, bytes);
        if let Some(stream) = self.streams.iter_mut().find(is_his) {
            stream.stretches.push_back(Stretch { number, start, end, state: State::Flying(None) });
        }
        number
    }
}

impl<D: Disk> Shard<D> {
    /// Answers a reader, and reads on for him.
    pub(super) fn answer_read(
        &mut self,
        number: LogNumber,
        offset: Offset,
        bytes: usize,
        (answer, admitted): Reader,
        result: RawAnswer,
    ) {
        if let Ok(read) = &result {
            let next = read.next();
            if next > offset && self.ahead.note(number, offset, bytes, next) {
                self.read_ahead(number, next, bytes);
            }
        }
        admitted.answer(answer, result);
    }

    /// Takes a stretch that was read ahead.
    pub(super) fn take_stretch(&mut self, log: LogNumber, number: u64, result: RawAnswer) {
        if let Some((reader, offset, bytes, result)) = self.ahead.landed(number, result) {
            self.answer_read(log, offset, bytes, reader, result);
        }
    }

    /// Reads on for the caller who reads next at `next`.
    fn read_ahead(&mut self, number: LogNumber, next: Offset, bytes: usize) {
        while let Some(offset) = self.ahead.wants(number, next, bytes) {
            let log = &self.logs[number.0];
            if offset >= log.durable_end {
                return;
            }
            let (until, end) = foresee(log, offset, bytes).unzip();
            let stretch = self.ahead.push(number, next, bytes, offset, end);
            self.fetch(number, Wanted { offset, bytes, past_durable: false, until }, For::Ahead(stretch));
        }
    }
}

/// Where a stretch of about `bytes` from `offset` on will end, and which offset comes then. Nothing when no index is at hand, or
/// when it does not tell.
fn foresee(log: &Log<Admitted>, offset: Offset, bytes: usize) -> Option<(Position, Offset)> {
    let (index, to, end) = match locate(log, offset, false).ok()? {
        Place::Closed(place) => {
            let closed = &log.closed[place];
            let loaded = closed.loaded.as_ref()?;
            (&loaded.index, loaded.data_end, Some(closed.end))
        }
        // Its end moves on.
        Place::Active(active) => (&active.index, active.durable_end(), None),
        Place::End => return None,
    };
    foresee_by(index, to, end, offset, bytes)
}

fn foresee_by(
    index: &Index,
    to: Position,
    end: Option<Offset>,
    offset: Offset,
    bytes: usize,
) -> Option<(Position, Offset)> {
    let from = index.locate(offset);
    let most = window_end(from, bytes).min(from.plus(bytes));
    if most >= to {
        return end.map(|end| (to, end));
    }
    let place = index.entries().partition_point(|entry| entry.position <= most);
    let entry = index.entries().get(place.checked_sub(1)?)?;
    (entry.first_offset > offset).then_some((entry.position, entry.first_offset))
}

#[cfg(test)]
mod tests {
    use super::super::answer::Unverified;
    use super::*;
    use crate::format::batch::BatchHeader;
    use strandline_disk::BLOCK;

    const LOG: LogNumber = LogNumber(0);
    const BYTES: usize = 64 << 10;

    /// Batches of one record and `length` bytes, from the start of the data on.
    fn index_of(batches: u64, length: u64) -> Index {
        let mut index = Index::new();
        for number in 0..batches {
            let header = BatchHeader { first: Offset(number), end: Offset(number + 1), ..BatchHeader::default() };
            index.note(Position(BLOCK as u64 + number * length), &header);
        }
        index
    }

    #[test]
    fn a_stretch_is_foreseen_to_end_where_a_batch_begins_and_within_what_was_asked_for() {
        let index = index_of(1_000, 1_000);
        let to = Position(BLOCK as u64 + 1_000_000);
        let mut offset = Offset(0);
        while let Some((until, next)) = foresee_by(&index, to, Some(Offset(1_000)), offset, BYTES) {
            assert_eq!(until.0, BLOCK as u64 + next.0 * 1_000);
            assert!(next > offset && until.since(index.locate(offset)) <= BYTES as u64);
            offset = next;
            if offset == Offset(1_000) {
                break;
            }
        }
        assert_eq!(offset, Offset(1_000), "one behind the other, to the end of the segment");
        assert_eq!(foresee_by(&index, to, None, Offset(999), BYTES), None, "the end of a write head moves on");
        assert_eq!(foresee_by(&index_of(9, 100_000), to, None, Offset(3), BYTES), None, "a batch is larger than that");
    }

    fn answer(next: u64) -> RawAnswer {
        Ok(Unverified::good(Vec::new(), Offset(next)))
    }

    #[test]
    fn a_stretch_that_ends_elsewhere_takes_those_behind_it_along() {
        let mut ahead = Ahead::new(10 * BYTES);
        assert!(!ahead.note(LOG, Offset(0), BYTES, Offset(10)), "one read is no habit");
        assert!(ahead.note(LOG, Offset(10), BYTES, Offset(20)));
        assert_eq!(ahead.wants(LOG, Offset(20), BYTES), Some(Offset(20)));
        let first = ahead.push(LOG, Offset(20), BYTES, Offset(20), Some(Offset(30)));
        assert_eq!(ahead.wants(LOG, Offset(20), BYTES), Some(Offset(30)));
        let second = ahead.push(LOG, Offset(20), BYTES, Offset(30), None);
        assert_eq!(ahead.wants(LOG, Offset(20), BYTES), None, "that is enough");
        assert!(ahead.landed(first, answer(25)).is_none());
        assert_eq!(ahead.wants(LOG, Offset(20), BYTES), Some(Offset(25)));
        assert!(ahead.landed(second, answer(40)).is_none());
        assert!(ahead.find(LOG, Offset(30), BYTES).is_none(), "nobody would ask for it");
    }

    #[test]
    fn what_is_ahead_of_all_callers_together_stays_within_its_limit_and_the_last_one_to_read_comes_first() {
        let mut ahead = Ahead::new(3 * BYTES);
        for (log, pushed) in [(LogNumber(0), 2), (LogNumber(1), 1), (LogNumber(2), 2)] {
            ahead.note(log, Offset(0), BYTES, Offset(10));
            ahead.note(log, Offset(10), BYTES, Offset(20));
            let mut stretches = 0;
            while let Some(start) = ahead.wants(log, Offset(20), BYTES) {
                ahead.push(log, Offset(20), BYTES, start, Some(start.plus(10)));
                stretches += 1;
            }
            assert_eq!(stretches, pushed, "{log:?}");
            assert!(ahead.streams.iter().map(Stream::bytes_ahead).sum::<usize>() <= 3 * BYTES);
        }
        ahead.forget(LogNumber(2));
        assert!(ahead.find(LogNumber(2), Offset(20), BYTES).is_none());
    }
}
