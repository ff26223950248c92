//! Read ahead: while a caller works on one stretch of a log, the next one is read. One stretch a log, and only for callers that read on
//! where the last read ended.

use super::answer::ReadAnswer;
use super::command::{Admitted, LogNumber};
use super::shard::Shard;
use crate::id::Offset;
use crate::pending::Answer;
use strandline_disk::Disk;

/// Who waits for a read, and its share of the store's limits.
pub(super) type Reader = (Answer<ReadAnswer>, Admitted);

/// What a log knows of its last read.
#[derive(Default)]
pub(super) struct Ahead {
    /// Where the last read ended.
    next: Offset,
    /// The stretch that is read ahead: where it starts and how many bytes were asked for.
    stretch: Option<(Offset, usize, Stretch)>,
}

/// How far reading ahead has come.
enum Stretch {
    /// It is being read; perhaps somebody waits for it already.
    Flying(Option<Reader>),
    /// It is here.
    Ready(Box<ReadAnswer>),
}

impl Ahead {
    /// Takes a reader whose stretch is here or on its way; gives the reader back when it is neither. The answer, when it is here,
    /// comes with the reader who gets it.
    pub(super) fn serve(&mut self, offset: Offset, bytes: usize, reader: Reader) -> Served {
        match self.stretch.take() {
            Some((start, length, stretch)) if (start, length) == (offset, bytes) => match stretch {
                Stretch::Ready(answer) => Served::Now(reader, answer),
                Stretch::Flying(None) => {
                    self.stretch = Some((start, length, Stretch::Flying(Some(reader))));
                    Served::Later
                }
                Stretch::Flying(taken) => {
                    // Two callers want the same: the second reads for himself.
                    self.stretch = Some((start, length, Stretch::Flying(taken)));
                    Served::No(reader)
                }
            },
            other => {
                self.stretch = other.filter(|(.., stretch)| matches!(stretch, Stretch::Flying(Some(_))));
                Served::No(reader)
            }
        }
    }

    /// Takes a stretch that has come; gives it back with the reader who waits for it.
    pub(super) fn landed(&mut self, offset: Offset, bytes: usize, answer: ReadAnswer) -> Option<(Reader, ReadAnswer)> {
        match self.stretch.take() {
            Some((start, length, Stretch::Flying(waiting))) if (start, length) == (offset, bytes) => match waiting {
                Some(reader) => Some((reader, answer)),
                None => {
                    self.stretch = Some((start, length, Stretch::Ready(Box::new(answer))));
                    None
                }
            },
            other => {
                self.stretch = other; // Nobody wants it any more.
                None
            }
        }
    }

    /// Forgets everything; gives whoever waits for the stretch, with what he wants.
    fn forget(&mut self) -> Option<(Offset, usize, Reader)> {
        match std::mem::take(self).stretch {
            Some((offset, bytes, Stretch::Flying(Some(reader)))) => Some((offset, bytes, reader)),
            _ => None,
        }
    }

    /// Notes a read that was answered; gives the offset to read ahead from, when its caller reads on and on.
    fn note(&mut self, offset: Offset, bytes: usize, answer: &ReadAnswer) -> Option<Offset> {
        let read = answer.as_ref().ok()?;
        let reads_on = offset == self.next && offset > Offset(0);
        self.next = read.next;
        let full = read.batches.iter().map(|batch| batch.payload().len()).sum::<usize>() >= bytes / 2;
        (reads_on && full && self.stretch.is_none()).then_some(read.next)
    }
}

/// What came of asking for a stretch that may have been read ahead.
pub(super) enum Served {
    /// It is here.
    Now(Reader, Box<ReadAnswer>),
    /// It is on its way.
    Later,
    /// It has to be read.
    No(Reader),
}

impl<D: Disk> Shard<D> {
    /// What was read ahead of a log is not what it holds any more. Whoever waits for it is served anew.
    pub(super) fn forget_ahead(&mut self, number: LogNumber) {
        if let Some((offset, bytes, reader)) = self.aheads[number.0].forget() {
            self.fetch(number, offset, bytes, Some(reader));
        }
    }

    /// Answers a reader, and reads on for him.
    pub(super) fn answer_read(
        &mut self,
        number: LogNumber,
        offset: Offset,
        bytes: usize,
        (answer, admitted): Reader,
        result: ReadAnswer,
    ) {
        let durable_end = self.logs[number.0].durable_end;
        let ahead = &mut self.aheads[number.0];
        if let Some(next) = ahead.note(offset, bytes, &result).filter(|next| *next < durable_end) {
            ahead.stretch = Some((next, bytes, Stretch::Flying(None)));
            self.fetch(number, next, bytes, None);
        }
        admitted.answer(answer, result);
    }
}
