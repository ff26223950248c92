//! Adopt: what the prepared segment of a log is after a crash. The roll was one write and its edit comes later, so a prepared segment
//! may be the live one already; or half of that write is left of it, which must not be taken for data.

use super::recover::{Recovered, Recovery, leave_unread, release, unopened};
use crate::format::manifest::Edit;
use crate::format::scan;
use crate::format::segment::{SegmentHeader, SegmentState};
use crate::id::{Epoch, Offset, SegmentId, Seq};
use crate::log::Successor;
use crate::manifest::state::{Opening, SegmentRecord, Stage};
use crate::segment::active::PreparedFile;
use crate::segment::{mend, survey};
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, transfer};

/// A prepared segment that is being looked at.
struct Candidate<'a> {
    id: SegmentId,
    record: &'a SegmentRecord,
    /// The log's.
    epoch: Epoch,
}

impl<D: Disk> Recovery<'_, D> {
    /// A prepared segment is live when a batch of it verifies: the roll was one write, and the edit comes after it. Else it is kept for the
    /// next roll, if it is the last one and suits the configuration.
    pub(super) async fn look_at_prepared(
        &self,
        recovered: &mut Recovered,
        seq: Seq,
        mut record: SegmentRecord,
        is_last: bool,
    ) -> Result<Option<(Seq, SegmentRecord)>, DiskError> {
        let id = SegmentId { log: recovered.log.id.clone(), seq };
        let candidate = Candidate { id: id.clone(), record: &record, epoch: recovered.log.epoch };
        match self.survey_prepared(&candidate).await {
            Ok(Some(opening)) => {
                recovered.edits.push(Edit::Live {
                    segment: id,
                    base: opening.base,
                    opened_at_ms: opening.opened_at_ms,
                });
                record.stage = Stage::Live(opening);
                return Ok(Some((seq, record)));
            }
            Ok(None) if !is_last || !self.suits(&record) => release(recovered, &id, &record),
            Ok(None) => match self.reset(&candidate).await {
                Ok(prepared) => recovered.log.successor = Successor::Ready(prepared),
                Err(error) => forget(recovered, &id, &record, error)?,
            },
            Err(error) => forget(recovered, &id, &record, error)?,
        }
        Ok(None)
    }

    /// Whether a prepared file takes the largest batch of this configuration, which may not be the one that it was made with.
    pub(super) fn suits(&self, record: &SegmentRecord) -> bool {
        record.size >= self.config.segment_bytes_min() && record.look_ahead >= self.config.look_ahead()
    }

    async fn survey_prepared(&self, candidate: &Candidate<'_>) -> Result<Option<Opening>, DiskError> {
        let record = candidate.record;
        let (_, PreparedFile { file, .. }) = unopened(&candidate.id, record).open(self.disk).await?;
        let header = survey::read_header(self.disk, &file).await?;
        // The uid in every batch's checksum tells whose file it is, also where the header block was torn or rotted.
        let header = header.ok().filter(|header| header.uid == record.uid && header.state == SegmentState::Live);
        let announced = header.is_some();
        let first = survey::first_batch(self.disk, &file, record.uid, record.look_ahead).await?;
        let Some((position, first, durable_to)) = first else { return Ok(None) };
        let opened_at_ms = header.as_ref().map_or(first.store_time_ms, |header| header.opened_at_ms);
        let base = header.map_or(first.first, |header| header.base);
        // A first batch that does not verify is torn, unless a later one proves that it had been durable. Without a header block
        // the batch that was found is the first where it stands first, or where all before it had been durable.
        let leads = if announced { first.first == base } else { position.0 == BLOCK as u64 || durable_to >= base };
        let proven = leads || durable_to > base;
        let opening = Opening { base, opened_at_ms };
        if proven && !announced {
            self.write_header(candidate, &file, SegmentState::Live, opening).await?;
        }
        Ok(proven.then_some(opening))
    }

    /// Writes the header block of a segment whose first batch reached the disk without it, or the other way round.
    async fn write_header(
        &self,
        candidate: &Candidate<'_>,
        file: &File,
        state: SegmentState,
        opening: Opening,
    ) -> Result<(), DiskError> {
        let Candidate { id, record, epoch } = candidate;
        let header = SegmentHeader {
            uid: record.uid,
            store: self.store,
            state,
            segment: id.clone(),
            generation: record.generation,
            base: opening.base,
            opened_at_ms: opening.opened_at_ms,
            epoch: *epoch,
            size: record.size,
            look_ahead: record.look_ahead,
        };
        let buffer = transfer::buffer_of(self.disk, &header.encode()).await;
        transfer::write(self.disk, file, buffer, Position(0), true).await.1
    }

    /// Makes a prepared segment as good as new: a roll that was torn may have left half of its first write.
    async fn reset(&self, candidate: &Candidate<'_>) -> Result<PreparedFile, DiskError> {
        let record = candidate.record;
        let (_, prepared) = unopened(&candidate.id, record).open(self.disk).await?;
        let start = Position(BLOCK as u64);
        let end = start.plus(record.look_ahead as usize);
        let window = survey::read_window(self.disk, &prepared.file, start, end).await?;
        if let Some(last) = scan::last_nonzero(&window) {
            mend::clear(self.disk, &prepared.file, start, &[], start.plus(last + 1)).await?;
        }
        let header = survey::read_header(self.disk, &prepared.file).await?;
        if !header.is_ok_and(|header| header.uid == record.uid && header.state == SegmentState::Prepared) {
            // The base offset of the torn roll must not be taken for that of the next one.
            let opening = Opening { base: Offset(0), opened_at_ms: 0 };
            self.write_header(candidate, &prepared.file, SegmentState::Prepared, opening).await?;
        }
        Ok(prepared)
    }
}

/// A prepared file that is missing holds nothing that was acknowledged: the manifest forgets it. Where only no descriptor was to be had nothing
/// is known of it.
fn forget(
    recovered: &mut Recovered,
    id: &SegmentId,
    record: &SegmentRecord,
    error: DiskError,
) -> Result<(), DiskError> {
    if error.is_out_of_descriptors() {
        return Err(error);
    }
    let sentence = format!("segment {id} had been prepared and cannot be used: {error}");
    recovered.report.warnings.push(sentence);
    if !error.is_absent() {
        // It may hold records for all that is known: nothing may be assumed, so the log stays as it is.
        leave_unread(&mut recovered.log, id, error);
    } else {
        release(recovered, id, record);
    }
    Ok(())
}
