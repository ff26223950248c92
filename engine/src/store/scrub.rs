//! Scrubbing, as a sweeper and an operator hold it: a sealed segment is read again beside its log, and how far a round has come is kept.

use super::clock::ask;
use super::store::Store;
use crate::error::VerbError;
use crate::format::manifest::ScrubCursor;
use crate::id::SegmentId;
use crate::pending::pair;
use crate::removal::scrubber::{ScrubAnswer, ScrubAsked};
use crate::segment::scrub::{Found, Target};
use crate::shard::command::Command;
use crate::shard::verb::{Rot, Scrubbed, Verb};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often somebody who waits for a segment to be read looks whether he should go on.
const GOES_ON_LOOK: Duration = Duration::from_millis(20);

impl Store {
    /// Has a sealed segment read again from the disk, at the rate of `scrub_bytes_per_second`, and tells what does not verify. No append and
    /// no verb waits for it, and nothing is written. `None` when the segment was removed or changed meanwhile.
    ///
    /// # Errors
    /// [`VerbError::NoSuchLog`], [`VerbError::NoSuchSegment`], [`VerbError::NotSealed`], or what the disk answered.
    pub fn scrub(&self, segment: &SegmentId) -> Result<Option<Scrubbed>, VerbError> {
        self.scrub_while(segment, || true)
    }

    /// As [`Store::scrub`], for as long as it is told to go on: else `None`.
    ///
    /// # Errors
    /// As [`Store::scrub`].
    pub fn scrub_while(&self, segment: &SegmentId, goes_on: impl Fn() -> bool) -> Result<Option<Scrubbed>, VerbError> {
        let target = self.target(segment)?;
        let (answer, pending) = pair();
        let (tell, told) = mpsc::channel::<ScrubAnswer>();
        pending.on_ready(move |answer| drop(tell.send(answer)));
        self.siblings().removal.scrubs.put([ScrubAsked { target: target.clone(), answer }]);
        let found = loop {
            match told.recv_timeout(GOES_ON_LOOK) {
                Ok(found) => break found,
                Err(RecvTimeoutError::Disconnected) => return Err(VerbError::Closed),
                Err(RecvTimeoutError::Timeout) if !goes_on() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        // Removed, cut, shrunk or written anew meanwhile: nothing was learnt of what it is now, and nothing is wrong.
        match self.target(segment) {
            Ok(now) if now == target => {}
            Ok(_) | Err(VerbError::NoSuchLog { .. } | VerbError::NoSuchSegment { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let found = found.inspect_err(|_| self.siblings().removal.scrubbed.note_failure())?;
        self.siblings().removal.scrubbed.note(&found);
        let Found { bytes, batches, damage, index } = found;
        let rot = damage.into_iter().map(|damage| Rot::of(segment, damage)).collect();
        Ok(Some(Scrubbed { bytes, batches, rot, index }))
    }

    fn target(&self, segment: &SegmentId) -> Result<Target, VerbError> {
        self.log_of(segment)?.ask(|answer| Verb::Target { seq: segment.seq, answer }).wait()
    }

    /// How far the last round of scrubbing has come; none where there was none.
    #[must_use]
    pub fn scrub_cursor(&self) -> Option<ScrubCursor> {
        self.siblings().scrub.cursor()
    }

    /// Keeps how far a round has come, durably: it goes on from there after a restart. In a store that an older release can still open nothing
    /// is kept on the disk, for that one could not read it.
    ///
    /// # Errors
    /// [`VerbError::Manifest`], [`VerbError::Overloaded`], [`VerbError::Closed`], [`VerbError::ShardGone`].
    pub fn keep_scrub_cursor(&self, cursor: ScrubCursor) -> Result<(), VerbError> {
        if !self.is_of_this_release() {
            self.siblings().scrub.note(cursor);
            return Ok(());
        }
        let queue = self.manifest_queue();
        ask(queue, queue.room()?, |answer, admitted| Command::ScrubCursor { cursor, answer, admitted }).wait()
    }
}
