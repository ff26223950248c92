//! A log, as callers hold it: append to it, read from it, from any thread.

use crate::batch::{Batch, BatchBuilder, BatchLimits};
use crate::config::CheckedConfig;
use crate::error::{AppendError, Overloaded, ReadError};
use crate::id::{LogId, Offset};
use crate::log::Receipt;
use crate::pending::{Pending, pair};
use crate::shard::command::{Command, LogNumber, Queue, ReadAnswer, Refused};
use std::sync::Arc;

/// A read that was asked for.
pub type Reading = Pending<ReadAnswer>;

/// One log of a store. Cheap to clone; usable from any thread and any async runtime.
#[derive(Clone)]
pub struct Log {
    id: LogId,
    number: LogNumber,
    limits: BatchLimits,
    queue: Arc<Queue>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({})", self.id)
    }
}

impl Log {
    pub(super) fn new(id: LogId, number: LogNumber, config: &CheckedConfig, queue: Arc<Queue>) -> Log {
        let limits = BatchLimits { records_max: config.batch_records_max, bytes_max: config.batch_bytes_max };
        Log { id, number, limits, queue }
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
    pub fn append(&self, batch: Batch) -> Result<Pending<Result<Receipt, AppendError>>, Overloaded> {
        if let Some(error) = self.too_large(&batch) {
            return Ok(self.refused(error));
        }
        match self.queue.admit(batch.payload().len()) {
            Ok(admitted) => {
                let (answer, pending) = self.queue.receipts.pair();
                self.queue.push(Command::Append { log: self.number, batch, answer, admitted });
                Ok(pending)
            }
            Err(Refused::Closed) => Ok(self.refused(AppendError::Closed)),
            Err(Refused::Overloaded(outstanding, bytes)) => {
                let (limit, bytes_limit) = self.queue.limits();
                Err(Overloaded { batch, outstanding, limit, bytes, bytes_limit })
            }
        }
    }

    fn refused(&self, error: AppendError) -> Pending<Result<Receipt, AppendError>> {
        let (answer, pending) = self.queue.receipts.pair();
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

    /// Reads whole batches from `offset` on: at least one where there is one, and then as many as `bytes` hold. Never past what
    /// is durable; at the end the answer is empty.
    pub fn read(&self, offset: Offset, bytes: usize) -> Reading {
        let (answer, pending) = pair();
        match self.queue.admit(0) {
            Ok(admitted) => {
                self.queue.push(Command::Read { log: self.number, offset, bytes, answer, admitted });
            }
            Err(Refused::Closed) => answer.give(Err(ReadError::Closed)),
            Err(Refused::Overloaded(outstanding, _)) => {
                answer.give(Err(ReadError::Overloaded { outstanding, limit: self.queue.limits().0 }));
            }
        }
        pending
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
