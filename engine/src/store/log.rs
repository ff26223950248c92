//! A log, as callers hold it: append to it, read from it, from any thread.

use super::follower::Follower;
use crate::batch::{Batch, BatchBuilder, BatchLimits};
use crate::config::CheckedConfig;
use crate::error::{AppendError, Overloaded, ReadError};
use crate::id::{LogId, Offset};
use crate::log::shared::Bounds;
use crate::log::{Level, Receipt, Shared};
use crate::pending::{Answer, Pending, Unfinished, pair};
use crate::segment::time::Time;
use crate::shard::command::{
    Admitted, Command, LogNumber, OpenedLog, Queue, RawAnswer, ReadAnswer, Refused, SeekAnswer, Unverified, offset_of,
    verified,
};
use std::sync::Arc;

/// A read that was asked for. Its payloads are verified on the thread that takes the answer.
pub type Reading = Unfinished<RawAnswer, ReadAnswer>;

/// A search by time that was asked for.
pub type Seeking = Unfinished<SeekAnswer, Result<Offset, ReadError>>;

/// An append that was handed over.
pub type Appending = Pending<Result<Receipt, AppendError>>;

/// What to read, beside where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// About how many payload bytes; one whole batch is given at least, and at most `read_bytes_max`.
    pub bytes: usize,
    /// Also what is written and not durable yet. A power failure may take it back.
    pub past_durable: bool,
}

/// One log of a store. Cheap to clone; usable from any thread and any async runtime.
#[derive(Clone)]
pub struct Log {
    id: LogId,
    pub(super) number: LogNumber,
    limits: BatchLimits,
    read_bytes_max: usize,
    pub(super) pin_bytes_max: u64,
    pub(super) queue: Arc<Queue>,
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({})", self.id)
    }
}

impl Log {
    pub(super) fn new(id: LogId, opened: OpenedLog, config: &CheckedConfig, queue: Arc<Queue>) -> Log {
        let OpenedLog { number, shared } = opened;
        let limits = BatchLimits { records_max: config.batch_records_max, bytes_max: config.batch_bytes_max };
        Log {
            id,
            number,
            limits,
            read_bytes_max: config.read_bytes_max as usize,
            pin_bytes_max: config.pin_bytes_max,
            queue,
            shared,
        }
    }

    /// Which log it is.
    #[must_use]
    pub fn id(&self) -> &LogId {
        &self.id
    }

    /// A batch to fill. Its buffer is one that was used before, where there is one.
    #[must_use]
    pub fn batch(&self) -> BatchBuilder {
        BatchBuilder::with_buffer(self.limits, self.queue.payload())
    }

    /// Appends a batch: all its records, or none. The answer comes when the batch is durable.
    ///
    /// # Errors
    /// [`Overloaded`], at once and with the batch, when `outstanding_max` or `outstanding_bytes_max` is reached. Every other refusal
    /// is the answer itself.
    pub fn append(&self, batch: Batch) -> Result<Appending, Overloaded> {
        self.append_with(batch, Level::Durable)
    }

    /// As [`Log::append`], answered when the batch has reached `level`. What is only accepted or written becomes durable within
    /// `flush_interval` or after `flush_bytes`; [`Log::until_durable`] waits for it.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_with(&self, batch: Batch, level: Level) -> Result<Appending, Overloaded> {
        self.hand_over(batch, level, None)
    }

    /// Appends a batch that another replica has given its offsets: it must start exactly at `expected`, the end of this log. Taken by a
    /// fenced log too, up to where it may be repaired.
    ///
    /// # Errors
    /// As [`Log::append`]; [`AppendError::OutOfSync`] is the answer when the log ends elsewhere.
    pub fn follow(&self, expected: Offset, batch: Batch) -> Result<Appending, Overloaded> {
        self.hand_over(batch, Level::Durable, Some(expected))
    }

    fn hand_over(&self, batch: Batch, level: Level, expected: Option<Offset>) -> Result<Appending, Overloaded> {
        if let Some(error) = self.too_large(&batch) {
            return Ok(self.refused(error));
        }
        match self.queue.admit(batch.payload().len()) {
            Ok(admitted) => {
                let (answer, pending) = self.queue.receipts.pair(self.number.0);
                self.queue.push(Command::Append { log: self.number, batch, level, expected, answer, admitted });
                Ok(pending)
            }
            Err(Refused::Closed) => Ok(self.refused(AppendError::Closed)),
            Err(Refused::Overloaded(outstanding, bytes)) => {
                let (limit, bytes_limit) = self.queue.limits();
                Err(Overloaded { batch, outstanding, limit, bytes, bytes_limit })
            }
        }
    }

    fn refused(&self, error: AppendError) -> Appending {
        let (answer, pending) = self.queue.receipts.pair(self.number.0);
        answer.give(Err(error));
        pending
    }

    /// Appends a batch, waiting for room first where the store has too much in hand.
    ///
    /// # Errors
    /// [`AppendError`].
    pub async fn append_when_room(&self, mut batch: Batch) -> Result<Receipt, AppendError> {
        loop {
            // Listens before it tries: room that is made in between is not missed.
            let room = self.queue.listen_for_room();
            match self.append(batch) {
                Ok(pending) => return pending.await,
                Err(overloaded) => batch = overloaded.batch,
            }
            room.await;
        }
    }

    /// As [`Log::append_when_room`], for a thread that may block.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn append_blocking(&self, mut batch: Batch) -> Result<Receipt, AppendError> {
        loop {
            let room = self.queue.listen_for_room();
            match self.append(batch) {
                Ok(pending) => return pending.wait(),
                Err(overloaded) => batch = overloaded.batch,
            }
            event_listener::Listener::wait(room);
        }
    }

    /// Waits until an append that was answered earlier is durable. With `now` it is flushed at once, else when `flush_interval` or
    /// `flush_bytes` says so.
    pub fn until_durable(&self, receipt: &Receipt, now: bool) -> Pending<Result<(), AppendError>> {
        let (answer, pending) = pair();
        if receipt.level == Level::Durable {
            answer.give(Ok(()));
            return pending;
        }
        match self.queue.admit(0) {
            Ok(admitted) => {
                let (log, receipt) = (self.number, *receipt);
                self.queue.push(Command::UntilDurable { log, receipt, now, answer, admitted });
            }
            Err(Refused::Closed) => answer.give(Err(AppendError::Closed)),
            Err(Refused::Overloaded(outstanding, _)) => {
                answer.give(Err(AppendError::Overloaded { outstanding, limit: self.queue.limits().0 }));
            }
        }
        pending
    }

    /// Reads whole batches from `offset` on: at least one where there is one, and then as many as `bytes` hold. Never past what
    /// is durable; at the end the answer is empty. Whoever takes the answer verifies the payloads, and holds memory of the store until he
    /// has dropped the last of the batches: what is to be kept for long is copied with [`crate::StoredBatch::detached`].
    pub fn read(&self, offset: Offset, bytes: usize) -> Reading {
        self.read_with(offset, ReadOptions { bytes, past_durable: false })
    }

    /// As [`Log::read`], with options. What was appended last is answered at once, without the disk and without another thread.
    pub fn read_with(&self, offset: Offset, options: ReadOptions) -> Reading {
        let ReadOptions { bytes, past_durable } = options;
        let bytes = bytes.clamp(1, self.read_bytes_max);
        let (answer, pending) = pair();
        if let Some(batches) = self.shared.read(offset, bytes, past_durable) {
            answer.give(Ok(Unverified::good(batches, offset)));
            return Unfinished::new(pending, verified);
        }
        let log = self.number;
        self.ask_to_read(answer, |answer, admitted| Command::Read {
            log,
            offset,
            bytes,
            past_durable,
            answer,
            admitted,
        });
        Unfinished::new(pending, verified)
    }

    /// The first offset of this time or later: of the first batch that the store took at it or after it, or of the first record whose
    /// client timestamp is as large. Where there is none, the durable end. Of a foreign batch, whose records are not read, it is the
    /// first offset. The answer is an error where something is damaged that may hold it.
    pub fn offset_at(&self, time: Time) -> Seeking {
        let (answer, pending) = pair();
        let log = self.number;
        self.ask_to_read(answer, |answer, admitted| Command::Seek { log, time, answer, admitted });
        Unfinished::new(pending, offset_of)
    }

    /// Queues a command that reads, or answers why not.
    fn ask_to_read<T>(
        &self,
        answer: Answer<Result<T, ReadError>>,
        command: impl FnOnce(Answer<Result<T, ReadError>>, Admitted) -> Command,
    ) {
        match self.queue.admit(0) {
            Ok(admitted) => self.queue.push(command(answer, admitted)),
            Err(Refused::Closed) => answer.give(Err(ReadError::Closed)),
            Err(Refused::Overloaded(outstanding, _)) => {
                answer.give(Err(ReadError::Overloaded { outstanding, limit: self.queue.limits().0 }));
            }
        }
    }

    /// Follows the log from `from` on.
    #[must_use]
    pub fn follower(&self, from: Offset) -> Follower {
        Follower::new(self.clone(), from)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The earliest offset that can be read. Asks nobody.
    #[must_use]
    pub fn earliest(&self) -> Offset {
        self.bounds().start
    }

    /// One past the last offset that can be read. Asks nobody.
    #[must_use]
    pub fn latest(&self) -> Offset {
        self.bounds().end
    }

    /// How far the log has come. Asks nobody.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.shared.bounds()
    }

    fn too_large(&self, batch: &Batch) -> Option<AppendError> {
        let (bytes, records) = (batch.payload().len(), batch.record_count());
        if bytes > self.limits.bytes_max as usize {
            return Some(AppendError::BatchTooLarge { bytes, limit: self.limits.bytes_max });
        }
        (records > self.limits.records_max)
            .then_some(AppendError::TooManyRecords { records, limit: self.limits.records_max })
    }
}
