//! The chain of a segment's batches: each starts at the offset where the one before it ended. Plain decisions, no I/O.
//!
//! What a truncation dropped is no part of it, and proves nothing: with a cut at offset 120 in epoch 3, a batch of epoch 2 that starts
//! at 120 or later is dead, whatever it says of how far the log had been durable.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::survey::{Damage, Expected};
use crate::format::batch::BatchHeader;
use crate::format::index::Index;
use crate::format::scan::{FoundBatch, Stop, StopReason};
use crate::id::{Cut, Epoch, Life, Offset};
use std::ops::ControlFlow;
use strandline_disk::{BLOCK, Position};

/// The chain as far as it was followed.
#[derive(Debug)]
pub(super) struct Chain {
    /// No batch may reach past it.
    limit: Option<Offset>,
    cut: Option<Cut>,
    /// Where the next batch is to stand.
    pub(super) position: Position,
    /// The offset at which it is to start.
    pub(super) next: Offset,
    life: Life,
    epoch: Epoch,
    pub(super) index: Index,
    pub(super) batches: u64,
    pub(super) store_times_ms: (u64, u64),
    pub(super) durable_to: Offset,
    pub(super) damage: Vec<Damage>,
}

impl Chain {
    pub(super) fn new(expected: &Expected) -> Chain {
        Chain {
            limit: expected.end,
            // A segment that began behind the cut holds nothing of what was dropped.
            cut: expected.cut.filter(|cut| expected.base <= cut.end),
            position: Position(BLOCK as u64),
            next: expected.base,
            life: Life(0),
            epoch: Epoch(0),
            index: Index::default(),
            batches: 0,
            store_times_ms: (0, 0),
            durable_to: Offset(0),
            damage: Vec::new(),
        }
    }

    /// The offset up to which everything had been durable, where that is known without any batch.
    pub(super) fn known_end(&self) -> Option<Offset> {
        self.limit.or(self.cut.map(|cut| cut.end)).filter(|end| *end > self.next)
    }

    /// Whether batches that a truncation dropped may still stand in the file: they are cleared before the first batch of the new epoch
    /// is written, so one of those says that nothing is left of them.
    pub(super) fn may_have_dropped(&self) -> bool {
        self.limit.is_none() && self.cut.is_some_and(|cut| self.epoch < cut.epoch)
    }

    /// Whether a batch that verifies is older than what stands before it, or was dropped.
    fn is_stale(&self, header: &BatchHeader) -> bool {
        let dropped = self.cut.is_some_and(|cut| cut.drops(header.first, header.epoch));
        dropped || header.life < self.life || header.epoch < self.epoch
    }

    /// Takes a batch that verifies, if it follows the one before it.
    pub(super) fn take(&mut self, position: Position, header: &BatchHeader) -> ControlFlow<()> {
        let reaches_past = self.limit.is_some_and(|limit| header.end > limit);
        if header.first != self.next || reaches_past || self.is_stale(header) {
            return ControlFlow::Break(());
        }
        self.position = position.plus(header.total_length());
        self.next = header.end;
        (self.life, self.epoch) = (header.life, header.epoch);
        self.durable_to = self.durable_to.max(header.durable_to);
        if !header.is_mark() {
            self.batches = self.batches.saturating_add(1);
            self.index.note(position, header);
            if self.store_times_ms.0 == 0 {
                self.store_times_ms.0 = header.store_time_ms;
            }
            self.store_times_ms.1 = header.store_time_ms;
        }
        ControlFlow::Continue(())
    }

    /// At a stop: when something proves that the next offset had been durable, notes the damage and goes on behind it.
    /// False when this is the end.
    pub(super) fn step_over(&mut self, stop: &Stop, later: &[FoundBatch]) -> bool {
        let follows = |found: &FoundBatch| found.header.first >= self.next && !self.is_stale(&found.header);
        let within = |found: &FoundBatch| self.limit.is_none_or(|end| found.header.end <= end);
        let valid = later.iter().filter(|found| found.payload_ok && follows(found) && within(found));
        let known = self.known_end();
        let proof = valid.clone().map(|found| found.header.durable_to).max().max(known);
        if proof.is_none_or(|durable_to| durable_to <= self.next) {
            return false;
        }
        // A batch that verifies but does not follow may be where the chain goes on.
        let refused = matches!(stop.why, StopReason::Refused(_));
        let resume = valid.clone().find(|found| found.position > stop.at || refused);
        let (position, to) = match resume {
            Some(found) => (found.position, found.header.first),
            None => (stop.at, known.unwrap_or(self.next)),
        };
        let goes_on = resume.is_some();
        self.damage.push(Damage { position: stop.at, from: self.next, to, reason: stop.why.to_string() });
        (self.position, self.next) = (position, to);
        goes_on
    }
}
