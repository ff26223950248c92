//! Read: whole verified batches from an offset on, never past the durable end.

use super::ahead::{Reader, Served};
use super::answer::{ReadAnswer, ReadBatches};
use super::command::{Admitted, LogNumber};
use super::shard::{Event, Shard};
use crate::batch::{ReadBytes, ReadMemory, StoredBatch};
use crate::error::ReadError;
use crate::format::batch::{BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX, verify_payload};
use crate::format::scan::find_batches;
use crate::id::{Epoch, Offset, SegmentId, Seq, Uid};
use crate::log::Log;
use crate::log::locate::{Place, locate};
use crate::segment::closed::{Closed, Loaded};
use futures_util::stream::{FuturesOrdered, StreamExt};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use strandline_disk::{BLOCK, Disk, DiskError, File, Position, transfer};

/// How much is read at once, in bytes. Pieces of one read are in flight together.
const PIECE: usize = 256 << 10;

/// How many closed segments a shard keeps open: each costs a descriptor and its index.
const LOADED_MAX: usize = 64;

/// A read that has come back.
pub(super) struct ReadDone {
    log: LogNumber,
    offset: Offset,
    bytes: usize,
    /// Who waits for it; nobody when it was read ahead.
    reader: Option<Reader>,
    /// The epoch of the log when it started.
    epoch: Epoch,
    /// The file of a segment, when this read opened it.
    loaded: Option<(Seq, Uid, Rc<Loaded>)>,
    result: ReadAnswer,
}

/// What a read of one segment needs, owned.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) segment: SegmentId,
    pub(super) uid: Uid,
    pub(super) file: File,
    /// Where to start: the wanted batch stands here or later.
    pub(super) from: Position,
    /// Nothing at or past it may be read.
    pub(super) to: Position,
    /// One past the last offset before `to`.
    pub(super) end: Offset,
    pub(super) offset: Offset,
    pub(super) bytes: usize,
    pub(super) memory: ReadMemory,
}

impl<D: Disk> Shard<D> {
    pub(super) fn start_read(
        &mut self,
        number: LogNumber,
        offset: Offset,
        bytes: usize,
        past_durable: bool,
        (answer, admitted): Reader,
    ) {
        let bytes = bytes.clamp(1, self.config.read_bytes_max as usize);
        // The caller may have looked before the last commit was there.
        let near = self.logs[number.0].shared.read(offset, bytes, past_durable).filter(|near| !near.is_empty());
        if let Some(batches) = near {
            let next = batches.last().map_or(offset, StoredBatch::end);
            return admitted.answer(answer, Ok(ReadBatches { batches, next }));
        }
        match self.aheads[number.0].serve(offset, bytes, (answer, admitted)) {
            Served::Now(reader, result) => self.answer_read(number, offset, bytes, reader, *result),
            Served::Later => {}
            Served::No(reader) => self.fetch(number, offset, bytes, Some(reader)),
        }
    }

    /// Reads from the disk, for a reader or ahead of one.
    pub(super) fn fetch(&mut self, number: LogNumber, offset: Offset, bytes: usize, reader: Option<Reader>) {
        self.count_read();
        let log = &self.logs[number.0];
        let (disk, memory) = (self.disk.clone(), self.queue.read_memory());
        let epoch = log.epoch;
        let done = move |loaded, result| {
            Event::Read(Box::new(ReadDone { log: number, offset, bytes, reader, epoch, loaded, result }))
        };
        if log.deleted {
            let error = ReadError::Deleted { log: log.id.clone() };
            return self.spawn(std::future::ready(done(None, Err(error))));
        }
        match locate(log, offset) {
            Err(error) => self.spawn(std::future::ready(done(None, Err(error)))),
            Ok(Place::End) => {
                let nothing = ReadBatches { batches: Vec::new(), next: offset };
                self.spawn(std::future::ready(done(None, Ok(nothing))));
            }
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
                    memory,
                };
                self.spawn(async move { done(None, plan.run(&disk).await) });
            }
            Ok(Place::Closed(place)) => {
                let closed = log.closed[place].clone();
                self.spawn(async move {
                    let (loaded, result) = read_closed(&disk, &closed, offset, bytes, &memory).await;
                    done(loaded.map(|loaded| (closed.id.seq, closed.uid, loaded)), result)
                });
            }
        }
    }

    pub(super) fn count_read(&self) {
        self.queue.counters.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn settle_read(&mut self, done: ReadDone) {
        let ReadDone { log, offset, bytes, reader, epoch, loaded, result } = done;
        if let Some((segment, uid, loaded)) = loaded {
            self.keep_loaded(log, segment, uid, loaded);
        }
        let of_log = &self.logs[log.0];
        let cut = epoch != of_log.epoch || of_log.epoch_is_rising;
        let gone = cut || offset < of_log.start || of_log.deleted;
        let failed = matches!(result, Err(ReadError::Corrupt { .. } | ReadError::Disk { .. }));
        match (reader, gone && failed) {
            // What it read was taken away under it: that is no damage. It sees what the log holds now.
            (Some(reader), true) => return self.fetch(log, offset, bytes, Some(reader)),
            (None, _) if epoch != self.logs[log.0].epoch => return, // The stretch was forgotten, and another may be on its way.
            (reader, _) => self.take_read(log, (offset, bytes), reader, result),
        }
    }

    fn take_read(
        &mut self,
        log: LogNumber,
        (offset, bytes): (Offset, usize),
        reader: Option<Reader>,
        result: ReadAnswer,
    ) {
        let answered = match reader {
            Some(reader) => Some((reader, result)),
            None => self.aheads[log.0].landed(offset, bytes, result),
        };
        if let Some((reader, result)) = answered {
            self.answer_read(log, offset, bytes, reader, result);
        }
    }
}

impl<D: Disk> Shard<D> {
    /// Keeps a closed segment open for the reads to come, and lets go of the one that was opened longest ago when there are too many.
    pub(super) fn keep_loaded(&mut self, log: LogNumber, segment: Seq, loaded: Rc<Loaded>) {
        let find = |logs: &[Log<Admitted>], log: LogNumber, segment: Seq| {
            logs[log.0].closed.iter().position(|closed| closed.id.seq == segment)
        };
        let Some(place) = find(&self.logs, log, segment) else { return };
        let closed = &mut self.logs[log.0].closed[place];
        if closed.uid != uid {
            return; // It was rewritten meanwhile.
        }
        if closed.loaded.is_none() {
            self.loaded.push_back((log, segment));
        } else if !loaded.surveyed {
            return;
        }
        closed.loaded = Some(loaded);
        if self.loaded.len() <= LOADED_MAX {
            return;
        }
        // A read that is under way keeps its own hold of it.
        if let Some((log, segment)) = self.loaded.pop_front()
            && let Some(place) = find(&self.logs, log, segment)
        {
            self.logs[log.0].closed[place].loaded = None;
        }
    }
}

/// Reads from a closed segment; gives it back opened when it was not. An index is a hint: what cannot be found by the stored one
/// is looked for once more by one that is built from the data, which also tells exactly what is damaged.
pub(super) async fn read_closed<D: Disk>(
    disk: &D,
    closed: &Closed,
    offset: Offset,
    bytes: usize,
    memory: &ReadMemory,
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
    let read = read_loaded(disk, closed, &loaded, offset, bytes, memory).await;
    if loaded.surveyed || !matches!(read, Err(ReadError::Corrupt { .. })) {
        return (fresh, read);
    }
    match closed.survey(disk, loaded.file.clone()).await {
        Ok(surveyed) => {
            let read = read_loaded(disk, closed, &surveyed, offset, bytes, memory).await;
            (Some(Rc::new(surveyed)), read)
        }
        Err(source) => (fresh, Err(cannot_open(closed, source))),
    }
}

pub(super) fn cannot_open(closed: &Closed, source: DiskError) -> ReadError {
    ReadError::Disk { segment: closed.id.clone(), position: Position(0), source }
}

async fn read_loaded<D: Disk>(
    disk: &D,
    closed: &Closed,
    loaded: &Loaded,
    offset: Offset,
    bytes: usize,
    memory: &ReadMemory,
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
        memory: memory.clone(),
    };
    plan.run(disk).await
}

/// How far the batches of a window were found whole and good.
struct Walk {
    /// The position after the last of them.
    at: Position,
    /// Their bytes.
    bytes: usize,
    /// The wanted ones, and where their payloads are in the window.
    good: Vec<(Position, BatchHeader, Range<usize>)>,
    /// Something else stands at `at`.
    stuck: bool,
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
    pub(super) async fn run<D: Disk>(self, disk: &D) -> ReadAnswer {
        // The index leads to within one block of the batch; what stands before it is read along.
        let mut want = self.bytes + 2 * BLOCK;
        loop {
            let to = self.from.plus(want).min(self.to);
            let (window, walk) = match self.read_window(disk, to).await {
                Ok((window, walk)) => (Arc::new(window), walk),
                Err(source) => {
                    return Err(ReadError::Disk { segment: self.segment, position: self.from, source });
                }
            };
            match self.find(&window, walk, to) {
                Found::Wants(bytes) => want = bytes,
                Found::Batches(read) => return Ok(read),
                Found::Damaged { position, to, reason } => {
                    let from = self.offset;
                    return Err(ReadError::Corrupt { segment: self.segment, position, from, to, reason });
                }
            }
        }
    }

    /// Goes on over whole good batches as their bytes come in, and stops for good at anything else.
    fn walk(&self, walk: &mut Walk, window: &[u8]) {
        while !walk.stuck && walk.bytes < self.bytes && walk.at < self.to {
            let start = walk.at.since(self.from) as usize;
            let Some(rest) = window.get(start..).filter(|rest| rest.len() >= HEADER_BYTES) else { return };
            let Ok(header) = BatchHeader::decode(rest, self.uid, walk.at, PAYLOAD_BYTES_MAX) else {
                walk.stuck = true;
                return;
            };
            if header.end > self.offset && !header.is_mark() {
                if rest.len() < header.total_length() {
                    return;
                }
                let payload = start + HEADER_BYTES..start + HEADER_BYTES + header.payload_bytes as usize;
                let missing = walk.good.is_empty() && header.first > self.offset;
                if missing || !verify_payload(&header, window.get(payload.clone()).unwrap_or_default()) {
                    walk.stuck = true;
                    return;
                }
                walk.good.push((walk.at, header, payload));
                walk.bytes += header.total_length();
            }
            walk.at = walk.at.plus(header.total_length());
        }
    }

    /// Finds the wanted batches among the bytes `window`, which stand at `self.from` and end at `to`, from where the walk came to.
    fn find(&self, window: &Arc<ReadBytes>, walk: Walk, to: Position) -> Found {
        let next = walk.good.last().map_or(self.offset, |(_, header, _)| header.end);
        let good = walk.good.into_iter();
        let batches = good.map(|(at, header, payload)| StoredBatch::kept(at, header, window.clone(), payload));
        let mut read = ReadBatches { batches: batches.collect(), next };
        let (mut at, mut bytes) = (walk.at, walk.bytes);
        // A window that is shorter than it should be ends at the end of the file, and nothing comes behind it.
        let cut = to < self.to && window.len() as u64 == to.since(self.from);
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

    /// Reads up to `to` with all pieces in flight together; copies and verifies each while the others are still coming.
    async fn read_window<D: Disk>(&self, disk: &D, to: Position) -> Result<(ReadBytes, Walk), DiskError> {
        let Plan { file, from, .. } = self;
        let from = *from;
        let mut walk = Walk { at: from, bytes: 0, good: Vec::new(), stuck: false };
        let start = from.block_floor(BLOCK);
        let length = to.since(from) as usize;
        let piece = PIECE.min(disk.pool().largest() / 8).next_multiple_of(BLOCK);
        let mut pieces = FuturesOrdered::new();
        let mut bytes = self.memory.take(length);
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
            bytes.extend(buffer.get(skip..got).unwrap_or_default(), length);
            skip = 0;
            self.walk(&mut walk, &bytes);
            if got < buffer.len() {
                break; // The file is shorter than it was: what is missing does not verify.
            }
        }
        Ok((bytes, walk))
    }
}
