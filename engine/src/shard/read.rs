//! Read: whole verified batches from an offset on, never past the durable end.

use super::command::{Admitted, LogNumber, ReadAnswer};
use super::shard::{Event, Shard};
use crate::batch::StoredBatch;
use crate::error::ReadError;
use crate::format::batch::{BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::format::scan::find_batches;
use crate::id::{Offset, SegmentId, Seq, Uid};
use crate::log::locate::{Place, locate};
use crate::pending::Answer;
use crate::segment::closed::{Closed, Loaded};
use futures_util::stream::{FuturesOrdered, StreamExt};
use std::rc::Rc;
use std::sync::Arc;
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, transfer};

/// How much is read at once, in bytes. Pieces of one read are in flight together.
const PIECE: usize = 256 << 10;

/// Whole batches, as they were appended.
#[derive(Debug, Default)]
pub struct ReadBatches {
    /// The batches; the first holds the wanted offset. Empty at the end of the log.
    pub batches: Vec<StoredBatch>,
    /// The offset to read next.
    pub next: Offset,
}

/// A read that has come back.
pub(super) struct ReadDone {
    log: LogNumber,
    segment: Seq,
    /// The segment, when this read opened it.
    loaded: Option<Rc<Loaded>>,
    answer: Answer<ReadAnswer>,
    result: ReadAnswer,
    admitted: Admitted,
}

/// What a read of one segment needs, owned.
struct Plan {
    segment: SegmentId,
    uid: Uid,
    file: File,
    /// Where to start: the wanted batch stands here or later.
    from: Position,
    /// Nothing at or past it may be read.
    to: Position,
    /// One past the last offset before `to`.
    end: Offset,
    offset: Offset,
    bytes: usize,
}

impl<D: Disk> Shard<D> {
    pub(super) fn start_read(
        &mut self,
        number: LogNumber,
        offset: Offset,
        bytes: usize,
        answer: Answer<ReadAnswer>,
        admitted: Admitted,
    ) {
        let log = &self.logs[number.0];
        let bytes = bytes.clamp(1, self.config.read_bytes_max as usize);
        let disk = self.disk.clone();
        match locate(log, offset) {
            Err(error) => admitted.answer(answer, Err(error)),
            Ok(Place::End) => admitted.answer(answer, Ok(ReadBatches { batches: Vec::new(), next: offset })),
            Ok(Place::Active(active)) => {
                let plan = Plan {
                    segment: active.id.clone(),
                    uid: active.uid,
                    file: active.file.clone(),
                    from: active.index.locate(offset),
                    to: active.durable_end(),
                    end: log.durable_end,
                    offset,
                    bytes,
                };
                let segment = active.id.seq;
                self.spawn(async move {
                    let result = plan.run(&disk).await;
                    let done = ReadDone { log: number, segment, loaded: None, answer, result, admitted };
                    Event::Read(Box::new(done))
                });
            }
            Ok(Place::Closed(place)) => {
                let closed = log.closed[place].clone();
                self.spawn(async move {
                    let (loaded, result) = read_closed(&disk, &closed, offset, bytes).await;
                    let segment = closed.id.seq;
                    Event::Read(Box::new(ReadDone { log: number, segment, loaded, answer, result, admitted }))
                });
            }
        }
    }

    pub(super) fn settle_read(&mut self, done: ReadDone) {
        if let Some(loaded) = done.loaded {
            let closed = self.logs[done.log.0].closed.iter_mut().find(|closed| closed.id.seq == done.segment);
            if let Some(closed) = closed.filter(|closed| closed.loaded.is_none() || loaded.surveyed) {
                closed.loaded = Some(loaded);
            }
        }
        done.admitted.answer(done.answer, done.result);
    }
}

/// Reads from a closed segment; gives it back opened when it was not. An index is a hint: what cannot be found by the stored one
/// is looked for once more by one that is built from the data, which also tells exactly what is damaged.
async fn read_closed<D: Disk>(
    disk: &D,
    closed: &Closed,
    offset: Offset,
    bytes: usize,
) -> (Option<Rc<Loaded>>, ReadAnswer) {
    let (loaded, fresh) = match &closed.loaded {
        Some(loaded) => (loaded.clone(), None),
        None => match closed.load(disk).await {
            Ok(loaded) => {
                let loaded = Rc::new(loaded);
                (loaded.clone(), Some(loaded))
            }
            Err(source) => return (None, Err(cannot_open(closed, source))),
        },
    };
    let read = read_loaded(disk, closed, &loaded, offset, bytes).await;
    if loaded.surveyed || !matches!(read, Err(ReadError::Corrupt { .. })) {
        return (fresh, read);
    }
    match closed.survey(disk, loaded.file.clone()).await {
        Ok(surveyed) => {
            let read = read_loaded(disk, closed, &surveyed, offset, bytes).await;
            (Some(Rc::new(surveyed)), read)
        }
        Err(source) => (fresh, Err(cannot_open(closed, source))),
    }
}

fn cannot_open(closed: &Closed, source: DiskError) -> ReadError {
    ReadError::Disk { segment: closed.id.clone(), position: Position(0), source }
}

async fn read_loaded<D: Disk>(
    disk: &D,
    closed: &Closed,
    loaded: &Loaded,
    offset: Offset,
    bytes: usize,
) -> ReadAnswer {
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
        end: closed.end,
        offset,
        bytes,
    };
    plan.run(disk).await
}

/// What looking for batches in a window came to.
enum Found {
    /// Batches, the first of which holds the wanted offset.
    Batches(ReadBatches),
    /// The wanted batch goes on past the window, or starts past it: so many bytes from `Plan::from` are needed.
    Wants(usize),
    /// Nothing that verifies stands where the offset should be.
    Damaged { position: Position, to: Offset, reason: String },
}

/// What stands behind a header that does not verify.
enum Behind {
    /// The wanted batch: only one before it is damaged.
    Wanted(Position),
    /// A later one, from this offset on, or nothing up to the end of the segment.
    Later(Offset),
    /// Nothing as far as the window goes.
    Unknown,
}

impl Plan {
    async fn run<D: Disk>(self, disk: &D) -> ReadAnswer {
        // The index leads to within one block of the batch; what stands before it is read along.
        let mut want = self.bytes + 2 * BLOCK;
        loop {
            let to = self.from.plus(want).min(self.to);
            let window = match read_pieces(disk, &self.file, self.from, to).await {
                Ok(window) => Arc::new(window),
                Err(source) => {
                    return Err(ReadError::Disk { segment: self.segment, position: self.from, source });
                }
            };
            match self.find(&window, to) {
                Found::Wants(bytes) => want = bytes,
                Found::Batches(read) => return Ok(read),
                Found::Damaged { position, to, reason } => {
                    let from = self.offset;
                    return Err(ReadError::Corrupt { segment: self.segment, position, from, to, reason });
                }
            }
        }
    }

    /// Finds the wanted batches among the bytes `window`, which stand at `self.from` and end at `to`.
    fn find(&self, window: &Arc<Vec<u8>>, to: Position) -> Found {
        let mut read = ReadBatches { batches: Vec::new(), next: self.offset };
        let (mut at, mut bytes) = (self.from, 0);
        let cut = to < self.to;
        while at < to && bytes < self.bytes {
            let start = at.since(self.from) as usize;
            let rest = window.get(start..).unwrap_or_default();
            if cut && rest.len() < HEADER_BYTES {
                break;
            }
            let header = match BatchHeader::decode(rest, self.uid, at, PAYLOAD_BYTES_MAX) {
                Ok(header) => header,
                Err(why) if read.batches.is_empty() => match self.behind(rest, at, cut) {
                    Behind::Wanted(position) => {
                        at = position;
                        continue;
                    }
                    Behind::Later(to) => return Found::Damaged { position: at, to, reason: why.to_string() },
                    Behind::Unknown => return Found::Wants(2 * window.len()),
                },
                Err(_) => break,
            };
            if header.end > self.offset && !header.is_mark() {
                if read.batches.is_empty() && header.first > self.offset {
                    let reason = "the batches before it are missing".to_owned();
                    return Found::Damaged { position: at, to: header.first, reason };
                }
                if cut && start + header.total_length() > window.len() {
                    break;
                }
                let payload = start + HEADER_BYTES..start + HEADER_BYTES + header.payload_bytes as usize;
                match StoredBatch::new(at, header, window.clone(), payload) {
                    Some(batch) => read.batches.push(batch),
                    None if read.batches.is_empty() => {
                        let reason = "the payload's checksum does not match".to_owned();
                        return Found::Damaged { position: at, to: header.end, reason };
                    }
                    None => break,
                }
                read.next = header.end;
                bytes += header.total_length();
            }
            at = at.plus(header.total_length());
        }
        match (read.batches.is_empty(), cut) {
            (false, _) => Found::Batches(read),
            (true, true) => Found::Wants(self.wanted_bytes(window, at)),
            (true, false) => {
                Found::Damaged { position: at, to: self.end, reason: "the segment ends before it".to_owned() }
            }
        }
    }

    /// How many bytes from `self.from` on hold the batch at `at`, which the window cuts.
    fn wanted_bytes(&self, window: &[u8], at: Position) -> usize {
        let start = at.since(self.from) as usize;
        let rest = window.get(start..).unwrap_or_default();
        let length = match BatchHeader::decode(rest, self.uid, at, PAYLOAD_BYTES_MAX) {
            Ok(header) => header.total_length(),
            Err(_) => self.bytes,
        };
        (start + length).max(window.len()) + 2 * BLOCK
    }

    /// Looks behind a header that does not verify, at `at`, where the bytes `rest` stand.
    fn behind(&self, rest: &[u8], at: Position, cut: bool) -> Behind {
        let later = find_batches(rest, at, self.uid, PAYLOAD_BYTES_MAX);
        match later.iter().find(|found| found.header.end > self.offset && !found.header.is_mark()) {
            Some(found) if found.header.first <= self.offset => Behind::Wanted(found.position),
            Some(found) => Behind::Later(found.header.first),
            None if cut => Behind::Unknown,
            None => Behind::Later(self.end),
        }
    }
}

/// Reads `from..to` with all pieces in flight together; copies each as it comes.
async fn read_pieces<D: Disk>(disk: &D, file: &File, from: Position, to: Position) -> Result<Vec<u8>, DiskError> {
    let start = from.block_floor(BLOCK);
    let length = to.since(from) as usize;
    let piece = PIECE.min(disk.pool().largest() / 8).next_multiple_of(BLOCK);
    let mut pieces = FuturesOrdered::new();
    let mut bytes = Vec::with_capacity(length);
    let mut skip = from.since(start) as usize;
    let mut at = start;
    loop {
        while at < to {
            let want = piece.min(to.since(at) as usize).next_multiple_of(BLOCK);
            // Buffers are taken in the order of the pieces. Two reads that each held their later pieces and waited for their first
            // could fill the arena and wait for ever.
            let buffer = match disk.pool().take(want) {
                Some(buffer) => buffer,
                None if pieces.is_empty() => transfer::take_buffer(disk, want).await,
                None => break,
            };
            pieces.push_back(transfer::read(disk, file, buffer, at));
            at = at.plus(want);
        }
        let Some((buffer, result)) = pieces.next().await else { break };
        let got = result?;
        bytes.extend_from_slice(buffer.get(skip..got).unwrap_or_default());
        skip = 0;
        if got < buffer.len() {
            break; // The file is shorter than it was: what is missing does not verify.
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
