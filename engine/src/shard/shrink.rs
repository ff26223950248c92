//! Shrinking in the background: segments that were sealed far from full, one after the other.

use super::command::LogNumber;
use super::shard::{Event, Shard};
use super::verb::Verdict;
use crate::error::VerbError;
use crate::format::manifest::Edit;
use crate::id::Seq;
use crate::segment::closed::{Closed, open_file};
use crate::segment::shrink;
use strandline_disk::Disk;

impl<D: Disk> Shard<D> {
    /// Notes a segment that was just sealed, when it is worth shrinking.
    pub(super) fn shrink_later(
        &mut self,
        number: LogNumber,
        seq: Seq,
        index_entries: usize,
        data_end: strandline_disk::Position,
    ) {
        let log = &self.logs[number.0];
        let Some(closed) = log.closed_at(seq) else { return };
        if let Some(size) = shrink::shrunk_size(closed.size, data_end, index_entries) {
            self.to_shrink.push_back((number, seq, size));
            self.shrink_next();
        }
    }

    /// Shrinks the next segment, unless one is being shrunk. Those of a log that a verb changes just now wait for its end.
    pub(super) fn shrink_next(&mut self) {
        if self.shrinking.is_some() || self.closing.is_some() {
            return;
        }
        let Some((number, size, closed)) = self.next_to_shrink() else { return };
        let seq = closed.id.seq;
        self.shrinking = Some((number, seq));
        let (disk, edits, descriptors) = (self.disk.clone(), self.edits.clone(), self.descriptors.clone());
        self.spawn_background(number, async move {
            let shrunk: Verdict<strandline_disk::File> = async {
                let room = descriptors.room(2).await?;
                let (_, file) = open_file(&disk, &closed.id, closed.generation).await?;
                drop(room);
                shrink::prepare(&disk, &file, &closed, size).await?;
                // Durable before anything is cut: the manifest says where the footer is.
                edits.submit(vec![Edit::Shrunk { segment: closed.id.clone(), size }]).await?;
                Ok(file)
            }
            .await;
            Event::Shrunk { log: number, segment: seq, size, result: shrunk.map(|file| (file, closed.size)) }
        });
    }

    /// Takes the next segment that is still there and may be shrunk now.
    fn next_to_shrink(&mut self) -> Option<(LogNumber, u64, Closed)> {
        loop {
            let may_go = |(number, ..): &(LogNumber, Seq, u64)| !self.logs[number.0].verb_at_work;
            let place = self.to_shrink.iter().position(may_go)?;
            let (number, seq, size) = self.to_shrink.remove(place)?;
            let log = &self.logs[number.0];
            let found = log.closed.iter().find(|closed| closed.id.seq == seq && closed.sealed);
            if let Some(closed) = found.filter(|_| !log.deleted && log.latch.is_none()) {
                return Some((number, size, closed.clone()));
            }
        }
    }

    /// The manifest knows the new size: the file may be cut.
    pub(super) fn settle_shrunk(
        &mut self,
        number: LogNumber,
        seq: Seq,
        size: u64,
        result: Verdict<(strandline_disk::File, u64)>,
    ) {
        match result {
            Ok((file, from)) => {
                if let Some(closed) = self.logs[number.0].closed_at_mut(seq) {
                    closed.size = size;
                    closed.loaded = None; // Opened again, with its footer elsewhere, when it is read.
                }
                let disk = self.disk.clone();
                self.spawn(async move { Event::Cut(shrink::cut(&disk, &file, from, size).await) });
            }
            Err(error) => {
                tracing::warn!(log = %self.logs[number.0].id, %error, "a segment was not shrunk");
                if matches!(error, VerbError::TooManyOpen { .. }) {
                    self.to_shrink.push_back((number, seq, size));
                    self.shrinking = None;
                    self.release_below_the_start(number);
                    return self.try_again(number);
                }
                // What could only not be read took nothing along.
                self.heed_failure::<()>(&Err(error));
                self.end_shrinking();
            }
        }
    }

    /// The next one may be shrunk, and the one that was may go.
    fn end_shrinking(&mut self) {
        if let Some((number, _)) = self.shrinking.take() {
            self.release_below_the_start(number);
        }
        self.shrink_next();
    }

    /// A file was cut, as far as that went.
    pub(super) fn settle_cut(&mut self, result: Result<(), strandline_disk::DiskError>) {
        if let Err(error) = result {
            tracing::warn!(%error, "what a shrunk segment does not use stays with it");
            self.heed_disk_failure(&error);
        }
        self.end_shrinking();
    }
}
