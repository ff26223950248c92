//! Checksums made right, by the tables of FORMAT.md and not by the code under test: what gets an input past them.

use strandline::format::batch::{HEADER_BYTES, PAYLOAD_BYTES_MAX, total_length};
use strandline::format::checksum::crc32c;
use strandline::format::manifest::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FramePlace};
use strandline::id::Uid;
use strandline_disk::{BLOCK, Position};

/// Puts `field` at byte `at`, where there is room.
pub fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + field.len()) {
        room.copy_from_slice(field);
    }
}

/// The 32-bit number at byte `at`; 0 where the bytes end.
#[must_use]
pub fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_le_bytes(*field))
}

/// Makes a whole block of these bytes, with this magic and a right checksum.
#[must_use]
pub fn block(magic: [u8; 8], bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes.to_vec();
    block.resize(BLOCK, 0);
    put(&mut block, 0, &magic);
    put(&mut block, 12, &1_u32.to_le_bytes());
    let checksum = crc32c(&block[12..]);
    put(&mut block, 8, &checksum.to_le_bytes());
    block
}

/// Signs the batch at the front of `bytes` for this place: its payload, as far as it is there, and its header.
pub fn batch(bytes: &mut [u8], uid: Uid, at: Position) {
    let payload = bytes.get(HEADER_BYTES..).and_then(|rest| rest.get(..number(bytes, 8) as usize)).map(crc32c);
    if let Some(payload) = payload {
        put(bytes, 12, &payload.to_le_bytes());
    }
    batch_header(bytes, uid, at);
}

/// Signs the header of a batch alone.
pub fn batch_header(bytes: &mut [u8], uid: Uid, at: Position) {
    put(bytes, 0, b"SLB1");
    let Some(covered) = bytes.get(8..HEADER_BYTES) else { return };
    let checksum = crc32c(&[covered, &uid.0.to_le_bytes(), &at.0.to_le_bytes()].concat());
    put(bytes, 4, &checksum.to_le_bytes());
}

/// Signs every batch of a file whose bytes stand at `start`, wherever its magic stands outside of another batch. `spare` says of the
/// how-many-eth batch that its payload is left as it is.
pub fn batches(bytes: &mut [u8], uid: Uid, start: Position, spare: impl Fn(usize) -> bool) {
    let (mut at, mut found) = (0, 0);
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| rest.len() >= HEADER_BYTES) {
        if !rest.starts_with(b"SLB1") {
            at += 8;
            continue;
        }
        if spare(found) {
            batch_header(rest, uid, start.plus(at));
        } else {
            batch(rest, uid, start.plus(at));
        }
        found += 1;
        let payload = number(rest, 8);
        at += if payload <= PAYLOAD_BYTES_MAX { total_length(payload as usize) } else { 8 };
    }
}

/// Signs the frame at the front of `bytes` for this place. Answers how long it says that it is.
pub fn frame(bytes: &mut [u8], place: FramePlace) -> usize {
    put(bytes, 0, b"SLMF");
    let payload = number(bytes, 8) as usize;
    let length = FRAME_HEADER_BYTES + payload.min(FRAME_BYTES_MAX);
    let Some(covered) = bytes.get(8..length) else { return length };
    let (store, sequence) = (place.store.0.to_le_bytes(), place.sequence.to_le_bytes());
    let checksum = crc32c(&[covered, &store, &sequence, &place.position.0.to_le_bytes()].concat());
    put(bytes, 4, &checksum.to_le_bytes());
    length.next_multiple_of(8)
}
