//! The scan: walks over the batches of a file as its bytes come in, and looks for batches behind damage.
//!
//! It checks that headers and payloads are what was written to this place of this file. Whether a batch may follow the one before
//! it, and what damage means, is decided by the caller.

use super::batch::{ALIGN, BatchHeader, HEADER_BYTES, NotABatch, verify_payload};
use super::checksum::Checksum;
use crate::id::Uid;
use std::ops::ControlFlow;
use strandline_disk::Position;

/// What a scan says to the bytes that it was fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// All of them belong to whole batches, or to one that goes on: feed the bytes behind them.
    More,
    /// The batches end here; further bytes change nothing.
    Stopped(Stop),
}

/// Where and why a scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The position after the last good batch.
    pub at: Position,
    /// What is wrong with what stands there.
    pub why: StopReason,
}

/// What is wrong with the bytes at which a scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// No batch starts there.
    #[error(transparent)]
    NotABatch(#[from] NotABatch),
    /// The header is good, its payload is not.
    #[error("the payload's checksum does not match its bytes, records {} to {}", .0.first, .0.end)]
    PayloadChecksum(BatchHeader),
    /// The batch is good, but the caller would not have it.
    #[error("the batch was refused, records {} to {}", .0.first, .0.end)]
    Refused(BatchHeader),
}

/// A walk over the batches of a file, fed with its bytes in pieces of any size. Copies no payload.
#[derive(Clone, Debug)]
pub struct Scan {
    uid: Uid,
    payload_max: u32,
    /// Where the batch that is being read stands.
    at: Position,
    stage: Stage,
    /// The part of a header that came with the bytes before.
    header: [u8; HEADER_BYTES],
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Header { filled: usize },
    Payload { header: BatchHeader, left: usize, sum: Checksum },
    Padding { left: usize },
    Stopped(Stop),
}

impl Scan {
    /// Starts at `start`, where a batch of this file is to stand.
    #[must_use]
    pub fn new(uid: Uid, start: Position, payload_max: u32) -> Scan {
        Scan { uid, payload_max, at: start, stage: Stage::Header { filled: 0 }, header: [0; HEADER_BYTES] }
    }

    /// The position after the last good batch.
    #[must_use]
    pub fn at(&self) -> Position {
        self.at
    }

    /// Takes the next bytes of the file. `on_batch` sees every good batch once, as soon as its payload is complete, and may end the
    /// scan in front of it.
    pub fn feed(&mut self, bytes: &[u8], on_batch: &mut impl FnMut(Position, &BatchHeader) -> ControlFlow<()>) -> Fed {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.stage {
                Stage::Header { filled } => self.feed_header(filled, rest, on_batch),
                Stage::Payload { header, left, sum } => self.feed_payload(header, left, sum, rest, on_batch),
                Stage::Padding { left } => self.feed_padding(left, rest),
                Stage::Stopped(_) => break,
            };
        }
        match self.stage {
            Stage::Stopped(stop) => Fed::Stopped(stop),
            _ => Fed::More,
        }
    }

    /// What the scan says when the file has no more bytes.
    #[must_use]
    pub fn finish(&self) -> Stop {
        match self.stage {
            Stage::Stopped(stop) => stop,
            _ => Stop { at: self.at, why: StopReason::NotABatch(NotABatch::Short) },
        }
    }

    fn feed_header<'a>(
        &mut self,
        filled: usize,
        bytes: &'a [u8],
        on_batch: &mut impl FnMut(Position, &BatchHeader) -> ControlFlow<()>,
    ) -> &'a [u8] {
        let (decoded, rest) = match bytes.split_at_checked(HEADER_BYTES) {
            Some((header, rest)) if filled == 0 => {
                (BatchHeader::decode(header, self.uid, self.at, self.payload_max), rest)
            }
            _ => {
                let room = self.header.get_mut(filled..).unwrap_or_default();
                let (part, rest) = bytes.split_at(room.len().min(bytes.len()));
                for (to, from) in room.iter_mut().zip(part) {
                    *to = *from;
                }
                let filled = filled.saturating_add(part.len());
                if filled < HEADER_BYTES {
                    self.stage = Stage::Header { filled };
                    return rest;
                }
                (BatchHeader::decode(&self.header, self.uid, self.at, self.payload_max), rest)
            }
        };
        match decoded {
            Err(why) => self.stop(StopReason::NotABatch(why)),
            Ok(header) if header.payload_bytes == 0 => self.accept(&header, on_batch),
            Ok(header) => {
                let left = header.payload_bytes as usize;
                self.stage = Stage::Payload { header, left, sum: Checksum::new() };
            }
        }
        rest
    }

    fn feed_payload<'a>(
        &mut self,
        header: BatchHeader,
        left: usize,
        sum: Checksum,
        bytes: &'a [u8],
        on_batch: &mut impl FnMut(Position, &BatchHeader) -> ControlFlow<()>,
    ) -> &'a [u8] {
        let (part, rest) = bytes.split_at(left.min(bytes.len()));
        let (left, sum) = (left.saturating_sub(part.len()), sum.with(part));
        if left > 0 {
            self.stage = Stage::Payload { header, left, sum };
        } else if sum.get() == header.payload_crc {
            self.accept(&header, on_batch);
        } else {
            self.stop(StopReason::PayloadChecksum(header));
        }
        rest
    }

    /// Padding is under no checksum and says nothing: it is only passed over. It never leaves the sector that the payload ends in.
    fn feed_padding<'a>(&mut self, left: usize, bytes: &'a [u8]) -> &'a [u8] {
        let (part, rest) = bytes.split_at(left.min(bytes.len()));
        let left = left.saturating_sub(part.len());
        self.stage = if left > 0 { Stage::Padding { left } } else { Stage::Header { filled: 0 } };
        rest
    }

    fn accept(&mut self, header: &BatchHeader, on_batch: &mut impl FnMut(Position, &BatchHeader) -> ControlFlow<()>) {
        if on_batch(self.at, header).is_break() {
            return self.stop(StopReason::Refused(*header));
        }
        self.at = self.at.plus(header.total_length());
        self.stage = match header.padding() {
            0 => Stage::Header { filled: 0 },
            left => Stage::Padding { left },
        };
    }

    fn stop(&mut self, why: StopReason) {
        self.stage = Stage::Stopped(Stop { at: self.at, why });
    }
}

/// A batch that was found behind damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundBatch {
    /// Where it stands.
    pub position: Position,
    /// Its header, which is good.
    pub header: BatchHeader,
    /// True when its payload is there as a whole and good too.
    pub payload_ok: bool,
}

/// Looks for batches of this file at every multiple of 8 in `bytes`, which stand at `base`.
///
/// What lies within the extent of a batch is not looked at again, so that the time stays linear in the bytes.
#[must_use]
pub fn find_batches(bytes: &[u8], base: Position, uid: Uid, payload_max: u32) -> Vec<FoundBatch> {
    let mut found = Vec::new();
    let mut skip = usize::try_from(base.block_ceiling(ALIGN).since(base)).unwrap_or(usize::MAX);
    while let Some(rest) = bytes.get(skip..).filter(|rest| rest.len() >= HEADER_BYTES) {
        let position = base.plus(skip);
        let length = match BatchHeader::decode_if_magic(rest, uid, position, payload_max) {
            None => ALIGN,
            Some(header) => {
                let payload = rest.get(HEADER_BYTES..).and_then(|rest| rest.get(..header.payload_bytes as usize));
                let payload_ok = payload.is_some_and(|payload| verify_payload(&header, payload));
                found.push(FoundBatch { position, header, payload_ok });
                header.total_length()
            }
        };
        skip = skip.saturating_add(length);
    }
    found
}

/// Where the first byte stands that is not zero.
#[must_use]
pub fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    let start = bytes.chunks(ZERO_STRIDE).take_while(|chunk| is_zero(chunk)).map(<[u8]>::len).sum::<usize>();
    let found = bytes.get(start..)?.iter().position(|&byte| byte != 0)?;
    Some(start.saturating_add(found))
}

/// Where the last byte stands that is not zero.
#[must_use]
pub fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    let tail = bytes.rchunks(ZERO_STRIDE).take_while(|chunk| is_zero(chunk)).map(<[u8]>::len).sum::<usize>();
    bytes.get(..bytes.len().saturating_sub(tail))?.iter().rposition(|&byte| byte != 0)
}

/// How many bytes are compared with zero at once: without a branch between them the compiler takes a whole vector at a time.
const ZERO_STRIDE: usize = 256;

fn is_zero(chunk: &[u8]) -> bool {
    chunk.iter().fold(0, |all, &byte| all | byte) == 0
}

#[cfg(test)]
mod tests {
    use super::super::any::{self, Wanted, file_of};
    use super::*;
    use proptest::prelude::*;

    const UID: Uid = Uid(77);
    const START: Position = Position(4096);
    const PAYLOAD_MAX: u32 = 1000;

    type Seen = Vec<(Position, BatchHeader)>;

    /// What the scan is to say, from the whole file at once and without cleverness.
    fn naive(bytes: &[u8], batches_max: usize) -> (Seen, Stop) {
        let (mut at, mut seen) = (START, Vec::new());
        let why = loop {
            let rest = bytes.get(at.since(START) as usize..).unwrap_or_default();
            let header = match BatchHeader::decode(rest, UID, at, PAYLOAD_MAX) {
                Ok(header) => header,
                Err(why) => break StopReason::NotABatch(why),
            };
            let Some(payload) = rest[HEADER_BYTES..].get(..header.payload_bytes as usize) else {
                break StopReason::NotABatch(NotABatch::Short);
            };
            if !verify_payload(&header, payload) {
                break StopReason::PayloadChecksum(header);
            }
            if seen.len() == batches_max {
                break StopReason::Refused(header);
            }
            seen.push((at, header));
            at = at.plus(header.total_length());
        };
        (seen, Stop { at, why })
    }

    /// What the scan says when it is fed with pieces of these lengths, over and over.
    fn scanned(bytes: &[u8], batches_max: usize, pieces: &[usize]) -> (Seen, Stop) {
        let mut scan = Scan::new(UID, START, PAYLOAD_MAX);
        let mut seen = Vec::new();
        let mut rest = bytes;
        for &length in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at(length.min(rest.len()));
            rest = behind;
            let fed = scan.feed(piece, &mut |at, header| {
                if seen.len() == batches_max {
                    return ControlFlow::Break(());
                }
                seen.push((at, *header));
                ControlFlow::Continue(())
            });
            if let Fed::Stopped(stop) = fed {
                assert_eq!(scan.feed(rest, &mut |_, _| panic!("a batch behind the end")), fed);
                assert_eq!(scan.finish(), stop);
            }
        }
        assert_eq!(scan.finish().at, scan.at());
        (seen, scan.finish())
    }

    fn some_batches() -> Vec<Wanted> {
        let batches = [3, 0, 8, 500, 1].map(|length| Wanted { payload: vec![length as u8; length] });
        let pads = Wanted { payload: vec![0; 40] };
        [&batches[..2], &[pads], &batches[2..]].concat()
    }

    #[test]
    fn a_file_is_read_up_to_the_zeros_behind_it() {
        let (mut bytes, placed) = file_of(&some_batches(), UID, START);
        let end = START.plus(bytes.len());
        bytes.resize(bytes.len() + 4096, 0);
        let (seen, stop) = scanned(&bytes, usize::MAX, &[usize::MAX]);
        assert_eq!(seen, placed);
        assert_eq!(stop, Stop { at: end, why: StopReason::NotABatch(NotABatch::Empty) });
    }

    #[test]
    fn no_flipped_bit_of_a_header_or_a_payload_passes() {
        let (bytes, placed) = file_of(&some_batches(), UID, START);
        for (at, header) in &placed {
            let start = at.since(START) as usize;
            let covered = start..start + HEADER_BYTES + header.payload_bytes as usize;
            any::for_every_flip(&bytes, covered, |bit, bytes| {
                let (_, stop) = scanned(bytes, usize::MAX, &[1000]);
                assert_eq!(stop.at, *at, "bit {bit}");
                let in_payload = bit / 8 >= start + HEADER_BYTES;
                assert_eq!(matches!(stop.why, StopReason::PayloadChecksum(_)), in_payload, "bit {bit}");
            });
        }
    }

    #[test]
    fn a_file_that_is_cut_short_ends_with_its_last_whole_batch_at_every_byte() {
        let (bytes, _) = file_of(&some_batches(), UID, START);
        for length in 0..=bytes.len() {
            assert_eq!(
                scanned(&bytes[..length], usize::MAX, &[97]),
                naive(&bytes[..length], usize::MAX),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn batches_behind_damage_are_found_and_those_within_others_are_not() {
        let (mut bytes, placed) = file_of(&some_batches(), UID, START);
        let at = |batch: usize| placed[batch].0.since(START) as usize;
        bytes[at(0)] ^= 1;
        bytes[at(4) + 128] ^= 1;
        let found = find_batches(&bytes, START, UID, PAYLOAD_MAX);
        let expected = [(1, true), (2, true), (3, true), (4, false), (5, true)];
        let expected = expected.map(|(batch, payload_ok)| {
            let (position, header) = placed[batch];
            FoundBatch { position, header, payload_ok }
        });
        assert_eq!(found, expected);

        let end = at(5) + HEADER_BYTES;
        assert!(!find_batches(&bytes[..end], START, UID, PAYLOAD_MAX)[4].payload_ok);
        assert_eq!(find_batches(&bytes[..end - 1], START, UID, PAYLOAD_MAX).len(), 4);
        assert_eq!(find_batches(&bytes, START, Uid(78), PAYLOAD_MAX), []);
    }

    #[test]
    fn a_batch_that_is_written_as_a_payload_is_not_taken_for_one() {
        let inner_at = START.plus(HEADER_BYTES);
        let (inner, _) = file_of(&[Wanted { payload: vec![1; 16] }], UID, inner_at);
        let (bytes, placed) = file_of(&[Wanted { payload: inner }], UID, START);
        let found = find_batches(&bytes, START, UID, PAYLOAD_MAX);
        assert_eq!(found.iter().map(|found| found.position).collect::<Vec<_>>(), [placed[0].0]);
    }

    proptest! {
        #[test]
        fn a_scan_says_the_same_under_every_chunking(
            batches in any::wanted(),
            zeros in 0..300_usize,
            damage in prop::option::of((any::<prop::sample::Index>(), 1..=255_u8)),
            batches_max in prop_oneof![Just(usize::MAX), 0..4_usize],
            pieces in prop::collection::vec(prop_oneof![Just(1), Just(8), 1..200_usize, Just(4096)], 1..6),
        ) {
            let (mut bytes, _) = file_of(&batches, UID, START);
            bytes.resize(bytes.len() + zeros, 0);
            if let (Some((at, flip)), false) = (damage, bytes.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            prop_assert_eq!(scanned(&bytes, batches_max, &pieces), naive(&bytes, batches_max));
        }

        #[test]
        fn looking_for_batches_finds_what_looking_everywhere_finds(
            batches in any::wanted(),
            shift in 0..24_u64,
            damages in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let (mut bytes, _) = file_of(&batches, UID, START);
            for (at, flip) in damages {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= flip;
                }
            }
            let skipped = (shift as usize).min(bytes.len());
            let base = START.plus(skipped);
            let window = &bytes[skipped..];
            let window = &window[..cut.index(window.len() + 1)];
            let mut expected = Vec::new();
            let mut free_from = 0;
            for index in 0..window.len() {
                let at = base.plus(index);
                if index < free_from || !at.0.is_multiple_of(8) {
                    continue;
                }
                if let Ok(header) = BatchHeader::decode(&window[index..], UID, at, PAYLOAD_MAX) {
                    let payload = window[index + 128..].get(..header.payload_bytes as usize);
                    let payload_ok = payload.is_some_and(|payload| verify_payload(&header, payload));
                    expected.push(FoundBatch { position: at, header, payload_ok });
                    free_from = index + header.total_length();
                }
            }
            prop_assert_eq!(find_batches(window, base, UID, PAYLOAD_MAX), expected);
        }

        #[test]
        fn any_bytes_are_scanned_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), base in any::number()) {
            let mut scan = Scan::new(UID, Position(base), u32::MAX);
            scan.feed(&bytes, &mut |_, _| ControlFlow::Continue(()));
            let _ = find_batches(&bytes, Position(base), UID, u32::MAX);
        }

        #[test]
        fn the_edges_of_what_is_not_zero_are_found(
            before in 0..700_usize,
            middle in prop::collection::vec(any::<u8>(), 0..700),
            after in 0..700_usize,
        ) {
            let bytes = [vec![0; before], middle, vec![0; after]].concat();
            prop_assert_eq!(first_nonzero(&bytes), bytes.iter().position(|&byte| byte != 0));
            prop_assert_eq!(last_nonzero(&bytes), bytes.iter().rposition(|&byte| byte != 0));
        }
    }
}
