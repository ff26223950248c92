//! Seal: a closed segment gets its index and its footer in the background, and the manifest hears of it.

use super::command::LogNumber;
use super::shard::{Event, Shard};
use crate::format::manifest::Edit;
use crate::id::Seq;
use crate::manifest::ManifestError;
use crate::segment::seal;
use std::rc::Rc;
use strandline_disk::{Disk, DiskError, Errno, Position, Verb};

/// What a segment was sealed as.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealedAs {
    /// When, wall ms.
    at_ms: u64,
    logical_bytes: u64,
    index_entries: usize,
    data_end: Position,
}

impl<D: Disk> Shard<D> {
    /// Starts sealing a closed segment: index, footer, manifest edit. One that was let go of meanwhile is opened and read for that.
    pub(super) fn seal(&mut self, number: LogNumber, segment: Seq) {
        let Some(closed) = self.logs[number.0].closed_at(segment).filter(|closed| !closed.sealed) else { return };
        let closed = closed.clone();
        let (disk, edits, descriptors) = (self.disk.clone(), self.edits.clone(), self.descriptors.clone());
        // Sealing stamps true time, even where the clamp holds the stamps of the batches; where the clock is in doubt, none that is too early.
        let sealed_at_ms = self.siblings.clock.latest_ms(self.now);
        // The manifest can seal only what it knows to be live: that edit was handed in when the segment's first commit was settled.
        self.spawn_background(number, async move {
            let sealed = async {
                let loaded = match &closed.loaded {
                    Some(loaded) => loaded.clone(),
                    None => {
                        let _room = descriptors.room(2).await.map_err(ManifestError::Disk)?;
                        Rc::new(closed.load(&disk).await.map_err(ManifestError::Disk)?)
                    }
                };
                if let Some(damage) = loaded.damage.first() {
                    tracing::error!(segment = %closed.id, position = %damage.position, "it is damaged, and not sealed");
                    let path = loaded.file.path().clone();
                    return Err(ManifestError::Disk(DiskError::new(Verb::Read, path, Errno::IO)));
                }
                let footer = closed.footer(&loaded, sealed_at_ms);
                let edit = Edit::Sealed {
                    segment: closed.id.clone(),
                    end: footer.end,
                    logical_bytes: footer.logical_bytes(),
                    first_store_time_ms: footer.first_store_time_ms,
                    last_store_time_ms: footer.last_store_time_ms,
                    sealed_at_ms: footer.sealed_at_ms,
                };
                seal::seal(&disk, &loaded.file, closed.size, &loaded.index, footer)
                    .await
                    .map_err(ManifestError::Disk)?;
                edits.submit(vec![edit]).await?;
                let (index_entries, data_end) = (loaded.index.entries().len(), loaded.data_end);
                Ok(SealedAs { at_ms: sealed_at_ms, logical_bytes: footer.logical_bytes(), index_entries, data_end })
            };
            Event::Sealed { log: number, segment, result: sealed.await }
        });
    }

    pub(super) fn settle_sealed(&mut self, number: LogNumber, segment: Seq, result: Result<SealedAs, ManifestError>) {
        let log = &mut self.logs[number.0];
        let Some(closed) = log.closed_at_mut(segment) else { return };
        match result {
            Ok(SealedAs { at_ms, logical_bytes, index_entries, data_end }) => {
                closed.sealed = true;
                closed.sealed_at_ms = at_ms;
                closed.logical_bytes = logical_bytes;
                closed.loaded = None;
                self.answer_sealings(number, segment, &Ok(()));
                self.release_below_the_start(number);
                self.shrink_later(number, segment, index_entries, data_end);
            }
            Err(error) => {
                // The data is durable and readable; the next open seals the segment.
                tracing::warn!(segment = %closed.id, %error, "sealing failed");
                self.answer_sealings(number, segment, &Err(error.clone().into()));
                self.unclean.push(super::settle::as_disk_error(&error));
                self.latch_what_the_manifest_took_along(&error);
            }
        }
    }
}
