//! A page: the bytes of a snapshot as frames, and the reading of a region from two copies. No I/O.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::state::State;
use crate::format::checksum::Sums;
use crate::format::manifest::{self as format, Edit, FramePlace, NotAFrame};
use crate::format::scan::last_nonzero;
use crate::id::StoreId;
use strandline_disk::{BLOCK, Position};

/// How many payload bytes a frame of a snapshot holds at most. Small enough that a region is filled well.
const SNAPSHOT_FRAME_BYTES: usize = 16 << 10;

/// The most bytes of a region that a snapshot of so many bytes of edits takes, its header block included.
#[must_use]
pub fn bytes_at_most(edits: usize) -> u64 {
    // Every frame but the last is more than half full.
    let frames = (edits / (SNAPSHOT_FRAME_BYTES / 2)).saturating_add(1);
    let around = frames.saturating_mul(format::FRAME_HEADER_BYTES + format::FRAME_ALIGN);
    edits.saturating_add(around).saturating_add(BLOCK) as u64
}

/// Frames in the making, from the first position after a region's header.
#[derive(Debug)]
pub struct Page {
    store: StoreId,
    sequence: u64,
    /// The frames.
    pub bytes: Vec<u8>,
    /// The number of the next frame.
    pub number: u64,
}

impl Page {
    /// A snapshot of `state` as the frames of region `sequence`.
    #[must_use]
    pub fn snapshot(store: StoreId, sequence: u64, state: &State) -> Page {
        let mut page = Page { store, sequence, bytes: Vec::new(), number: 0 };
        let mut group: Vec<Edit> = Vec::new();
        let mut bytes = 0;
        for edit in state.snapshot() {
            bytes = edit.encoded_bytes().saturating_add(bytes);
            if bytes > SNAPSHOT_FRAME_BYTES && !group.is_empty() {
                page.push(&group);
                group.clear();
                bytes = edit.encoded_bytes();
            }
            group.push(edit);
        }
        page.push(&group);
        page
    }

    fn push(&mut self, edits: &[Edit]) {
        let frame = {
            let place = FramePlace { store: self.store, sequence: self.sequence, position: self.end() };
            format::encode_frame(edits, self.number, place)
        };
        self.bytes.extend_from_slice(&frame);
        self.number = self.number.saturating_add(1);
    }

    /// The position after the last frame, in the region.
    #[must_use]
    pub fn end(&self) -> Position {
        format::FRAMES_START.plus(self.bytes.len())
    }
}

/// What two copies of a region say together.
#[derive(Debug)]
pub struct Merged {
    /// The state that their frames build.
    pub state: State,
    /// Where a copy does not verify though the other does, and is not merely shorter.
    pub damage: Vec<(usize, Position)>,
}

/// Why two copies say nothing together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Neither copy verifies at this position, but a frame after it does.
    Damaged(Position),
    /// Two edits contradict each other.
    Contradiction(String),
}

/// Reads the frames of a region from both copies: at each position from the one that verifies.
///
/// A copy that merely ends earlier was behind when the process died: its last frame was not acknowledged. A copy that
/// fails at a position and verifies after it is damaged.
///
/// # Errors
/// [`Unreadable`], when both copies fail where edits once stood.
pub fn merge(copies: [&[u8]; 2], store: StoreId, sequence: u64) -> Result<Merged, Unreadable> {
    let mut merged = Merged { state: State::default(), damage: Vec::new() };
    let mut failed: [Vec<Position>; 2] = [Vec::new(), Vec::new()];
    let (mut position, mut number) = (format::FRAMES_START, 0_u64);
    loop {
        let place = FramePlace { store, sequence, position };
        let read = copies.map(|bytes| frame_at(bytes, number, place));
        let Some((edits, consumed)) = read.iter().find_map(|read| read.as_ref().ok()) else {
            return match copies.iter().any(|bytes| verifies_later(bytes, number, place)) {
                true => Err(Unreadable::Damaged(position)),
                false => Ok(merged),
            };
        };
        for (copy, (read, failed)) in read.iter().zip(&mut failed).enumerate() {
            match read {
                Ok(_) => merged.damage.extend(failed.drain(..).map(|position| (copy, position))),
                Err(_) => failed.push(position),
            }
        }
        for edit in edits {
            merged.state.apply(edit).map_err(Unreadable::Contradiction)?;
        }
        position = position.plus(*consumed);
        number = number.saturating_add(1);
    }
}

/// Whether a region starts with a frame of page `sequence`.
#[must_use]
pub fn begins(bytes: &[u8], store: StoreId, sequence: u64) -> bool {
    frame_at(bytes, 0, FramePlace { store, sequence, position: format::FRAMES_START }).is_ok()
}

type FrameRead = Result<(Vec<Edit>, usize), NotAFrame>;

fn frame_at(bytes: &[u8], number: u64, place: FramePlace) -> FrameRead {
    let rest = bytes.get(place.position.0 as usize..).unwrap_or_default();
    let (frame, consumed) = format::decode_frame(rest, number, place)?;
    Ok((frame.edits, consumed))
}

/// Whether a frame that came later verifies somewhere after `place`. Bytes may claim to be any number of frames above each other, so that none is
/// looked at twice.
fn verifies_later(bytes: &[u8], number: u64, place: FramePlace) -> bool {
    // Frames start with a magic, so none starts in the zeros at the end.
    let written = last_nonzero(bytes).map_or(0, |last| last.saturating_add(1)) as u64;
    let (mut position, mut sums) = (place.position.plus(format::FRAME_ALIGN), None);
    while position.0 < written {
        let begins = bytes.get(position.0 as usize..).is_some_and(|rest| rest.starts_with(&format::FRAME_MAGIC));
        if begins {
            let sums = sums.get_or_insert_with(|| Sums::of(bytes));
            let found = format::frame_number(bytes, sums, FramePlace { position, ..place });
            if found.is_some_and(|found| found > number) {
                return true;
            }
        }
        position = position.plus(format::FRAME_ALIGN);
    }
    false
}
