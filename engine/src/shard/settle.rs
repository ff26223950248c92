//! Settle: what came back of the disk is taken over, and its callers are answered. Plain code; on failure it latches.

use super::command::LogNumber;
use super::prepare::PrepareError;
use super::shard::{Event, Shard};
use super::stage::{Committed, Staged, refuse_all};
use crate::error::{AppendError, Latch, LogError};
use crate::format::manifest::Edit;
use crate::format::segment::SegmentFooter;
use crate::id::{Offset, Seq};
use crate::log::Successor;
use crate::manifest::ManifestError;
use crate::segment::active::PreparedFile;
use crate::segment::seal;
use std::sync::atomic::Ordering;
use strandline_disk::{Disk, DiskError, Position, Verb};

impl<D: Disk> Shard<D> {
    /// Takes over one event.
    pub(super) fn settle(&mut self, event: Event) {
        match event {
            Event::Committed(committed) => self.settle_commit(*committed),
            Event::Manifest(commit) => self.manifest.settle(commit),
            Event::Prepared { log, result } => self.settle_prepared(log, result),
            Event::Sealed { log, segment, result } => self.settle_sealed(log, segment, result),
            Event::Announced { log, result } => self.note_manifest_failure(log, result),
            Event::Read(read) => self.settle_read(*read),
            Event::LogMade { log, result } => match result {
                Ok(()) => self.add_log(log),
                Err(ManifestError::Disk(source) | ManifestError::Latched(source)) => {
                    self.answer_makers(&log, &Err(LogError::Manifest(source)))
                }
                Err(ManifestError::Full { needed, room }) => {
                    self.answer_makers(&log, &Err(LogError::ManifestFull { needed, room }));
                }
            },
        }
    }

    fn settle_commit(&mut self, mut committed: Committed) {
        let number = committed.log;
        self.commits_in_flight -= 1;
        self.queue.counters.commits.fetch_add(1, Ordering::Relaxed);
        let log = &mut self.logs[number.0];
        log.committing = false;
        log.settled_ns = self.now.boot_ns;
        let segment = log.active.as_ref().map(|active| active.id.clone());
        if let (Err(source), Some(segment)) = (&committed.result, segment) {
            let latch = Latch { segment, position: committed.at, source: source.clone() };
            self.latch_all_in_flight(number, latch);
        }
        if let Some(latch) = self.logs[number.0].latch.clone() {
            return self.fail(number, committed.staged, &latch);
        }
        let log = &mut self.logs[number.0];
        if let Some(active) = log.active.as_mut() {
            active.advance(&committed.buffer, committed.at, committed.end);
        }
        log.durable_end = committed.end_offset;
        log.marked_end = log.marked_end.max(committed.durable_to);
        self.acknowledge(&mut committed.staged);
        self.spare_lists.push(committed.staged);
        self.announce(number);
        self.rest_or_go_on(number);
    }

    /// A write that failed may have been lost together with every other write that the device had not yet made durable:
    /// all logs with a commit in flight are latched before any of them is acknowledged. A full disk concerns only its own log.
    fn latch_all_in_flight(&mut self, failed: LogNumber, latch: Latch) {
        tracing::error!(segment = %latch.segment, position = %latch.position, error = %latch.source, "a commit failed: its log is latched");
        let spreads = !latch.source.is_full();
        for (number, log) in self.logs.iter_mut().enumerate() {
            let concerned = number == failed.0 || (spreads && log.committing);
            if concerned && log.latch.is_none() {
                log.latch = Some(Box::new(latch.clone()));
            }
        }
    }

    /// A flush that failed for a new segment, a footer or the manifest may have dropped what other logs had in flight on the
    /// same device: they are latched before it is acknowledged.
    fn latch_what_a_flush_took_along(&mut self, source: &DiskError) {
        if source.is_full() {
            return;
        }
        for log in self.logs.iter_mut().filter(|log| log.committing && log.latch.is_none()) {
            let Some(active) = &log.active else { continue };
            let (segment, position) = (active.id.clone(), active.durable_end());
            log.latch = Some(Box::new(Latch { segment, position, source: source.clone() }));
        }
    }

    /// Only the failure itself takes anything along: what a latched manifest refuses later never reached the disk.
    fn latch_what_the_manifest_took_along(&mut self, error: &ManifestError) {
        if let ManifestError::Disk(source) = error {
            self.latch_what_a_flush_took_along(source);
        }
    }

    fn fail(&mut self, number: LogNumber, staged: Vec<Staged>, latch: &Latch) {
        let log = &mut self.logs[number.0];
        let failed = AppendError::Failed { log: log.id.clone(), latch: Box::new(latch.clone()) };
        for staged in staged {
            if let Some(answer) = staged.answer {
                staged.admitted.answer(answer, Err(failed.clone()));
            }
        }
        refuse_all(log, &AppendError::Latched { log: log.id.clone(), latch: Box::new(latch.clone()) });
    }

    fn acknowledge(&mut self, staged: &mut Vec<Staged>) {
        let counters = &self.queue.counters;
        for staged in staged.drain(..) {
            counters.records.fetch_add(staged.receipt.end.since(staged.receipt.first), Ordering::Relaxed);
            counters.bytes.fetch_add(staged.payload_bytes as u64, Ordering::Relaxed);
            if let Some(answer) = staged.answer {
                staged.admitted.answer(answer, Ok(staged.receipt));
            }
        }
    }

    /// Tells the manifest of a segment whose first commit is durable.
    fn announce(&mut self, number: LogNumber) {
        let Some(active) = self.logs[number.0].active.as_mut().filter(|active| !active.announced) else { return };
        active.announced = true;
        let edit = Edit::Live { segment: active.id.clone(), base: active.base, opened_at_ms: active.opened_at_ms };
        let durable = self.manifest.edits().submit(vec![edit]);
        self.spawn(async move { Event::Announced { log: number, result: durable.await } });
    }

    fn rest_or_go_on(&mut self, number: LogNumber) {
        if self.logs[number.0].queued.is_empty() {
            self.let_rest(number);
        } else {
            self.list(number);
        }
    }

    fn settle_prepared(&mut self, number: LogNumber, result: Result<PreparedFile, PrepareError>) {
        let log = &mut self.logs[number.0];
        match result {
            Ok(prepared) => log.successor = Successor::Ready(prepared),
            Err(PrepareError::Disk(source)) => {
                tracing::warn!(log = %log.id, error = %source, "preparing the next segment failed");
                log.successor = Successor::Failed(source.clone(), self.now.boot_ns);
                if matches!(source.verb, Verb::Sync | Verb::SyncDirectory) {
                    self.latch_what_a_flush_took_along(&source);
                }
            }
            Err(PrepareError::Manifest(error)) => {
                tracing::warn!(log = %log.id, %error, "the manifest did not take the next segment");
                log.successor = Successor::Failed(as_disk_error(&error), self.now.boot_ns);
                self.latch_what_the_manifest_took_along(&error);
            }
            Err(PrepareError::Exhausted) => {
                log.successor = Successor::None;
                log.next_seq = None;
            }
        }
        let log = &mut self.logs[number.0];
        if let Successor::Ready(prepared) = &log.successor {
            log.next_seq = prepared.id.seq.next();
        }
        let log = log.id.clone();
        self.list(number);
        self.answer_makers(&log, &Ok(number));
    }

    /// Starts sealing a closed segment: index, footer, manifest edit.
    pub(super) fn seal(&mut self, number: LogNumber, segment: Seq) {
        let Some(closed) = self.logs[number.0].closed.iter().find(|closed| closed.id.seq == segment) else { return };
        let Some(loaded) = closed.loaded.clone().filter(|_| !closed.sealed) else { return };
        let (disk, edits, size) = (self.disk.clone(), self.manifest.edits(), closed.size);
        let footer = SegmentFooter {
            uid: closed.uid,
            base: closed.base,
            end: closed.end,
            data_end: loaded.data_end,
            first_store_time_ms: loaded.store_times_ms.0,
            last_store_time_ms: loaded.store_times_ms.1,
            client_time_max_ms: loaded.index.client_time_max_ms(),
            // Sealing stamps true time, even where the clamp holds the stamps of the batches.
            sealed_at_ms: self.now.wall_ms,
            index_at: Position(0),
            index_entries: 0,
            index_crc: 0,
        };
        let edit = Edit::Sealed {
            segment: closed.id.clone(),
            end: footer.end,
            logical_bytes: footer.logical_bytes(),
            first_store_time_ms: footer.first_store_time_ms,
            last_store_time_ms: footer.last_store_time_ms,
            sealed_at_ms: footer.sealed_at_ms,
        };
        // The manifest can seal only what it knows to be live: that edit was handed in when the segment's first commit was settled.
        self.spawn(async move {
            let result = match seal::seal(&disk, &loaded.file, size, &loaded.index, footer).await {
                Ok(()) => edits.submit(vec![edit]).await,
                Err(source) => Err(ManifestError::Disk(source)),
            };
            Event::Sealed { log: number, segment, result }
        });
    }

    fn settle_sealed(&mut self, number: LogNumber, segment: Seq, result: Result<(), ManifestError>) {
        let log = &mut self.logs[number.0];
        let Some(closed) = log.closed.iter_mut().find(|closed| closed.id.seq == segment) else { return };
        match result {
            Ok(()) => {
                closed.sealed = true;
                closed.loaded = None; // Opened again when it is read.
            }
            Err(error) => {
                // The data is durable and readable; the next open seals the segment.
                tracing::warn!(segment = %closed.id, %error, "sealing failed");
                self.unclean.push(as_disk_error(&error));
                self.latch_what_the_manifest_took_along(&error);
            }
        }
    }

    fn note_manifest_failure(&mut self, number: LogNumber, result: Result<(), ManifestError>) {
        if let Err(error) = result {
            // Recovery adopts the segment by its header block, so appends go on; the next roll will be refused.
            tracing::warn!(log = %self.logs[number.0].id, %error, "the manifest was not told of a roll");
            self.unclean.push(as_disk_error(&error));
            self.latch_what_the_manifest_took_along(&error);
        }
    }

    /// Where the log stands, for tests and reports.
    #[must_use]
    pub fn durable_end(&self, number: LogNumber) -> Option<Offset> {
        self.logs.get(number.0).map(|log| log.durable_end)
    }
}

/// A manifest that is full is reported as a full disk: both end when there is more room.
fn as_disk_error(error: &ManifestError) -> DiskError {
    match error {
        ManifestError::Disk(source) | ManifestError::Latched(source) => source.clone(),
        ManifestError::Full { .. } => {
            DiskError::new(strandline_disk::Verb::Write, "manifest", strandline_disk::Errno::NOSPC)
        }
    }
}
