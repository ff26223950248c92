//! A frame of the manifest, with edits of every kind.

use super::{STORE, cut, sign};
use strandline::format::manifest::{
    Edit, FRAME_ALIGN, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FramePlace, decode_frame, edits_that_fit, encode_frame,
};
use strandline_disk::Position;

/// Where the frames of the golden files stand, and their number.
pub(super) const PLACE: FramePlace = FramePlace { store: STORE, sequence: 42, position: Position(4096 + 264) };
const NUMBER: u64 = 9;

/// The bytes are a frame, and the edits of a frame.
pub fn check(bytes: &[u8]) {
    let bytes = cut(bytes);
    read(bytes, PLACE);
    let mut signed = bytes.to_vec();
    sign::put(&mut signed, 16, &NUMBER.to_le_bytes());
    sign::put(&mut signed, 24, &[0; 8]);
    sign::frame(&mut signed, PLACE);
    read(&signed, PLACE);
    read(&of_edits(bytes), PLACE);
}

/// A good frame around these bytes: as many edits as their lengths say.
pub(super) fn of_edits(edits: &[u8]) -> Vec<u8> {
    let (mut rest, mut count) = (edits, 0_u32);
    while rest.len() >= 5 {
        rest = rest.get(5 + sign::number(rest, 1) as usize..).unwrap_or_default();
        count += 1;
    }
    let mut bytes = vec![0; FRAME_HEADER_BYTES];
    sign::put(&mut bytes, 8, &(edits.len() as u32).to_le_bytes());
    sign::put(&mut bytes, 12, &count.to_le_bytes());
    sign::put(&mut bytes, 16, &NUMBER.to_le_bytes());
    bytes.extend_from_slice(edits);
    bytes.resize(bytes.len().next_multiple_of(FRAME_ALIGN), 0);
    sign::frame(&mut bytes, PLACE);
    bytes
}

/// What one edit reads back as.
pub(super) fn round_trip(edit: &Edit) -> Vec<Edit> {
    read(&encode_frame(std::slice::from_ref(edit), NUMBER, PLACE), PLACE)
}

/// Reads a frame that is to have the number of the golden files.
pub(super) fn read(bytes: &[u8], place: FramePlace) -> Vec<Edit> {
    let Ok((frame, consumed)) = decode_frame(bytes, NUMBER, place) else { return Vec::new() };
    assert_eq!(frame.number, NUMBER);
    let payload: usize = frame.edits.iter().map(Edit::encoded_bytes).sum();
    assert!(payload <= FRAME_BYTES_MAX && edits_that_fit(&frame.edits) == frame.edits.len());
    assert_eq!(consumed, (FRAME_HEADER_BYTES + payload).next_multiple_of(FRAME_ALIGN));
    let again = encode_frame(&frame.edits, NUMBER, place);
    let covered = FRAME_HEADER_BYTES + payload;
    assert_eq!(again[..covered], bytes[..covered], "a frame is written as it was read: {:?}", frame.edits);
    let elsewhere = FramePlace { position: place.position.plus(FRAME_ALIGN), ..place };
    assert!(decode_frame(bytes, NUMBER, elsewhere).is_err(), "at another place");
    frame.edits
}
