//! A region of the manifest in two copies: the frames that they tell together, the state that those build, and its snapshot.

use super::{STORE, choices, cut, sign};
use strandline::format::manifest::{Edit, FramePlace};
use strandline::manifest::page::{self, Merged, Page, Unreadable};
use strandline::manifest::state::State;
use strandline_disk::{BLOCK, Position};

const SEQUENCE: u64 = 42;

/// Where the second copy differs from the first, how, and how much of it is missing; then the frames.
pub fn check(bytes: &[u8]) {
    let (choices, frames) = choices::<4>(cut(bytes));
    let mut region = vec![0; BLOCK];
    region.extend_from_slice(frames);
    both(&region, choices);
    sign_frames(&mut region);
    both(&region, choices);
}

/// Signs frame behind frame for its place and its number, as long as there is the magic of one.
fn sign_frames(region: &mut [u8]) {
    let (mut at, mut number) = (BLOCK, 0_u64);
    while let Some(rest) = region.get_mut(at..).filter(|rest| rest.starts_with(&FRAME_MAGIC)) {
        sign::put(rest, 16, &number.to_le_bytes());
        sign::put(rest, 24, &[0; 8]);
        at += sign::frame(rest, place(at));
        number += 1;
    }
}

const FRAME_MAGIC: [u8; 4] = *b"SLMF";

fn place(at: usize) -> FramePlace {
    FramePlace { store: STORE, sequence: SEQUENCE, position: Position(at as u64) }
}

fn both(region: &[u8], [low, high, flip, missing]: [u8; 4]) {
    let mut twin = region.to_vec();
    let at = BLOCK + usize::from(u16::from_le_bytes([low, high]));
    if let Some(byte) = twin.get_mut(at) {
        *byte ^= flip;
    }
    twin.truncate(twin.len() - usize::from(missing).min(twin.len()));
    for copies in [[region, region], [region, &twin], [&twin, region], [region, &[]]] {
        match page::merge(copies, STORE, SEQUENCE) {
            Ok(merged) => snapshot(&merged, region),
            Err(Unreadable::Damaged(position)) => assert!(position.0 <= region.len() as u64, "{position}"),
            Err(Unreadable::Contradiction(text)) => assert!(!text.is_empty()),
        }
    }
}

/// The snapshot of a state builds it again, is read again as a page, and fits the room that was taken for it.
fn snapshot(merged: &Merged, region: &[u8]) {
    for (copy, position) in &merged.damage {
        assert!(*copy < 2 && position.0 <= region.len() as u64, "{position}");
    }
    let edits = merged.state.snapshot();
    let mut again = State::default();
    for edit in &edits {
        assert_eq!(again.apply(edit), Ok(()), "{edit:?}");
    }
    assert_eq!(again, merged.state);
    let needed: usize = edits.iter().map(Edit::encoded_bytes).sum();
    assert!(needed <= merged.state.reserved_bytes(), "{needed} <= {}", merged.state.reserved_bytes());
    let page = Page::snapshot(STORE, SEQUENCE, &merged.state);
    let whole = [&[0; BLOCK][..], &page.bytes].concat();
    assert!(whole.len() as u64 <= page::bytes_at_most(needed));
    let read = page::merge([&whole, &whole], STORE, SEQUENCE).expect("a page that was just made");
    assert_eq!(read.state, merged.state);
    assert!(read.damage.is_empty());
}
