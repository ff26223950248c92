//! The manifest in use: it takes edits, writes them as frames to both copies, and turns the page when a region is full.
//!
//! Edits that arrive while a frame is being written go into the next one together. A frame that fails latches the
//! manifest: nothing after it is acknowledged until the store is opened again.
#![cfg_attr(
    not(test),
    expect(clippy::indexing_slicing, clippy::panic, reason = "what it lays is its own, and no bytes from a disk")
)]

use super::copies::Copies;
use super::edits::{EditAnswer, Edits, Inbox};
use super::page::{self, Page};
use super::policies::PublishedPolicies;
use super::state::State;
use crate::error::ManifestError;
use crate::format::manifest::{self as format, Edit, FramePlace};
use crate::id::StoreId;
use crate::segment::tail::Tail;
use futures_channel::oneshot;
use std::future::Future;
use strandline_disk::{Buffer, Disk, DiskError, Position};

/// The manifest in use.
pub struct Manifest<D> {
    disk: D,
    copies: Copies,
    store: StoreId,
    sequence: u64,
    number: u64,
    tail: Tail,
    state: State,
    /// What readers see of the policies: what is durable.
    policies: PublishedPolicies,
    /// At least what the state reserves, in bytes of edits.
    reserved: usize,
    inbox: Inbox,
    in_commit: Vec<oneshot::Sender<EditAnswer>>,
    latched: Option<DiskError>,
}

impl<D> std::fmt::Debug for Manifest<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manifest")
            .field("sequence", &self.sequence)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What a commit of the manifest came to.
#[derive(Debug)]
pub struct ManifestCommit {
    result: Result<(), DiskError>,
    /// The written buffer and its position, when a frame was appended.
    appended: Option<(Buffer, Position, Position)>,
}

/// What the manifest does next.
enum Step {
    Append { buffer: Buffer, at: Position, end: Position },
    Turn { page: Page },
}

impl<D: Disk> Manifest<D> {
    /// A manifest as it was read. Its page must be turned before it takes edits.
    #[must_use]
    pub fn new(disk: D, copies: Copies, store: StoreId, sequence: u64, state: State) -> Manifest<D> {
        // The region is treated as full, so that the first commit turns the page whatever it is.
        let tail = Tail::at_boundary(Position(copies.region_bytes()));
        let (inbox, in_commit, reserved) = (Inbox::new(disk.doorbell()), Vec::new(), state.reserved_bytes());
        let (number, policies, latched) = (0, PublishedPolicies::new(state.policies.clone()), None);
        Manifest { disk, copies, store, sequence, number, tail, state, policies, reserved, inbox, in_commit, latched }
    }

    /// What the manifest says, edits in the making included.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The policies as they are durable, for readers on any thread.
    #[must_use]
    pub fn policies(&self) -> PublishedPolicies {
        self.policies.clone()
    }

    /// Where edits are handed in, from any thread.
    #[must_use]
    pub fn edits(&self) -> Edits {
        self.inbox.edits()
    }

    /// True while there is a commit to start or to wait for. Whoever is about to sleep asks this after it has told the doorbell so.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.in_commit.is_empty() || !self.inbox.is_empty()
    }

    /// True while a commit is under way: what is handed in meanwhile waits for its end.
    #[must_use]
    pub fn is_committing(&self) -> bool {
        !self.in_commit.is_empty()
    }

    /// Starts a commit of what has been handed in, unless one is under way. Its outcome goes to [`Manifest::settle`].
    pub fn stage(&mut self) -> Option<impl Future<Output = ManifestCommit> + use<D>> {
        if !self.in_commit.is_empty() || self.inbox.is_empty() {
            return None;
        }
        if let Some(source) = &self.latched {
            let error = ManifestError::Latched(source.clone());
            self.inbox.waiting().drain(..).for_each(|submitted| drop(submitted.answer.send(Err(error.clone()))));
            return None;
        }
        let batch = self.take_edits();
        if batch.is_empty() {
            return None; // All of them were refused for want of room.
        }
        let step = self.plan(&batch)?;
        let (disk, copies, store, sequence) = (self.disk.clone(), self.copies.clone(), self.store, self.sequence);
        Some(async move {
            match step {
                Step::Append { buffer, at, end } => {
                    let (buffer, result) = copies.write_durably(&disk, sequence, at, buffer).await;
                    ManifestCommit { result, appended: Some((buffer, at, end)) }
                }
                Step::Turn { page } => {
                    let result = copies.turn_page(&disk, store, sequence, &page.bytes).await;
                    ManifestCommit { result, appended: None }
                }
            }
        })
    }

    /// Takes over the outcome of a commit and answers those who handed its edits in.
    pub fn settle(&mut self, commit: ManifestCommit) {
        if let Some((buffer, at, end)) = commit.appended {
            self.tail.advance(&buffer, at, end);
        }
        if let Err(source) = &commit.result {
            self.latched = Some(source.clone());
        } else {
            // Before anybody is answered: whoever knows of a change reads it. Nothing else was applied since the commit was planned.
            self.policies.publish(&self.state.policies);
        }
        let answer = commit.result.map_err(ManifestError::Disk);
        self.in_commit.drain(..).for_each(|waiting| drop(waiting.send(answer.clone())));
    }

    /// Takes as many groups of edits as one frame holds. A group that the region has no room for is refused.
    fn take_edits(&mut self) -> Vec<Edit> {
        let (mut batch, mut bytes, mut grown) = (Vec::new(), 0, 0);
        while let Some(next) = self.inbox.waiting().front() {
            bytes += next.edits.iter().map(Edit::encoded_bytes).sum::<usize>();
            if bytes > format::FRAME_BYTES_MAX / 4 && !batch.is_empty() {
                break;
            }
            let Some(submitted) = self.inbox.waiting().pop_front() else { break };
            match self.reserve(&submitted.edits, grown) {
                Ok(more) => grown += more,
                Err(error) => {
                    let _ = submitted.answer.send(Err(error));
                    continue;
                }
            }
            batch.extend(submitted.edits);
            self.in_commit.push(submitted.answer);
        }
        batch
    }

    /// Takes room for edits with which the state grows, beside `grown` bytes that are taken and not yet applied. A region must
    /// always hold the snapshot: a store whose manifest did not fit it could never be opened again.
    fn reserve(&mut self, edits: &[Edit], grown: usize) -> Result<usize, ManifestError> {
        let more: usize = edits.iter().map(|edit| self.state.growth(edit)).sum();
        let room = self.copies.region_bytes();
        if more > 0 && page::bytes_at_most(self.reserved + more) > room {
            // What was released since has given its room back.
            self.reserved = self.state.reserved_bytes() + grown;
            let needed = page::bytes_at_most(self.reserved + more);
            if needed > room {
                return Err(ManifestError::Full { needed, room });
            }
        }
        self.reserved += more;
        Ok(more)
    }

    /// Applies the edits and decides how they are written. `None` when they do not fit and were refused.
    fn plan(&mut self, batch: &[Edit]) -> Option<Step> {
        let room = self.copies.region_bytes();
        let frame = {
            let place = FramePlace { store: self.store, sequence: self.sequence, position: self.tail.end() };
            format::encode_frame(batch, self.number, place)
        };
        if self.tail.end().0 + frame.len() as u64 <= room {
            // While the arena is in use the edits go by a page turn, which waits for its buffers.
            if let Some(mut laid) = self.tail.lay(self.disk.pool(), frame.len()) {
                apply(&mut self.state, batch);
                laid.buffer[laid.kept..laid.kept + frame.len()].copy_from_slice(&frame);
                self.number += 1;
                return Some(Step::Append { buffer: laid.buffer, at: laid.at, end: self.tail.end().plus(frame.len()) });
            }
        }
        let mut next = self.state.clone();
        apply(&mut next, batch);
        let page = Page::snapshot(self.store, self.sequence + 1, &next);
        if page.end().0 > room {
            let error = ManifestError::Full { needed: page.end().0, room };
            self.in_commit.drain(..).for_each(|waiting| drop(waiting.send(Err(error.clone()))));
            return None;
        }
        self.state = next;
        self.sequence += 1;
        self.number = page.number;
        // The tail's kept bytes are those after the last whole block of the page.
        let kept_from = page.bytes.len() - page.bytes.len() % strandline_disk::BLOCK;
        self.tail = Tail::from_block(page.end(), &page.bytes[kept_from..]);
        Some(Step::Turn { page })
    }
}

/// Applies edits that come from the shard, which knows the state: a contradiction is a defect of it, not of the disk.
fn apply(state: &mut State, edits: &[Edit]) {
    for edit in edits {
        state.apply(edit).unwrap_or_else(|text| panic!("an edit of our own contradicts the manifest: {text}"));
    }
}
