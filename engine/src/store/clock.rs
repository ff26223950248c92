//! The clock of a store, as a sweeper and an operator hold it: what is known of it, and what is said of it durably.

use super::log::Log;
use super::store::Store;
use crate::error::VerbError;
use crate::id::SegmentId;
use crate::pending::{Answer, Pending, Unanswered, pair};
use crate::policy::FIELD_LEVEL;
use crate::shard::clock::StoreClock;
use crate::shard::command::{Admitted, Command, Queue};
use crate::shard::policies::{PolicyAnswer, RestampNoted};
use crate::shard::verb::{Restamped, Verb, Verdict};
use strandline_disk::Now;

impl Store {
    /// Reads both clocks of the host, as the shards do.
    #[must_use]
    pub fn now(&self) -> Now {
        self.config().host_clock().now()
    }

    /// What is known of the clock since the store was opened.
    #[must_use]
    pub fn clock(&self) -> &StoreClock {
        &self.siblings().clock
    }

    /// An operator says that the wall clock is right: segments roll by age again. A sweeper is told by a verb of its own, which calls this.
    pub fn confirm_time(&self) {
        self.clock().confirm(self.now());
    }

    /// Keeps a wall time (ms) that was believed, durably: the next open compares its clock with it. In a store that an older release can still
    /// open nothing is kept, for that one could not read it.
    ///
    /// # Errors
    /// [`VerbError::Manifest`], [`VerbError::Overloaded`], [`VerbError::Closed`], [`VerbError::ShardGone`].
    pub fn keep_sure_time(&self, wall_ms: u64) -> Result<(), VerbError> {
        if !self.is_of_this_release() {
            return Ok(());
        }
        let queue = self.manifest_queue();
        ask(queue, queue.room()?, |answer, admitted| Command::SureTime { wall_ms, answer, admitted }).wait()
    }

    /// Gives a sealed segment whose seal time lies over 10 minutes ahead of the clock the present time instead, durably, so that one bad hour
    /// of a clock does not pin it. `actor` is who wants it, for the audit log, which says also what was refused.
    ///
    /// # Errors
    /// [`VerbError::NoSuchLog`], [`VerbError::NoSuchSegment`], [`VerbError::NotSealed`], [`VerbError::SealTimeNotAhead`],
    /// [`VerbError::ClockHeld`], [`VerbError::NotFinalized`], or what the manifest answered: then the old time stands, or the new one.
    pub fn restamp_seal(&self, segment: &SegmentId, actor: &str) -> Result<Restamped, VerbError> {
        // Room for the line first: what is done is said.
        let queue = self.manifest_queue();
        let room = queue.room()?;
        let result = self.restamped(segment);
        let (segment, actor, said) = (segment.clone(), actor.to_owned(), result.clone());
        let noted: Pending<PolicyAnswer> = ask(queue, room, |answer, admitted| {
            Command::NoteRestamp(RestampNoted { segment, actor, result: said, answer, admitted })
        });
        let unaudited = noted.wait().ok().and_then(|changed| changed.unaudited);
        result.map(|restamped| Restamped { unaudited, ..restamped })
    }

    fn restamped(&self, segment: &SegmentId) -> Verdict<Restamped> {
        if !self.is_of_this_release() {
            return Err(VerbError::NotFinalized { segment: segment.clone() });
        }
        self.log_of(segment)?.ask(|answer| Verb::RestampSeal { seq: segment.seq, answer }).wait()
    }

    /// The log of a segment.
    pub(super) fn log_of(&self, segment: &SegmentId) -> Verdict<Log> {
        let log = self.find(&segment.log.topic, segment.log.range)?;
        log.ok_or_else(|| VerbError::NoSuchLog { log: segment.log.clone() })
    }

    /// Whether no older release opens it any more, so that its manifest may hold what that one could not read.
    pub(super) fn is_of_this_release(&self) -> bool {
        self.published_policies().is_some_and(|policies| policies.read().levels.fields >= FIELD_LEVEL)
    }
}

pub(super) fn ask<T: Unanswered>(
    queue: &Queue,
    room: Admitted,
    command: impl FnOnce(Answer<T>, Admitted) -> Command,
) -> Pending<T> {
    let (answer, pending) = pair();
    queue.push(command(answer, room));
    pending
}
