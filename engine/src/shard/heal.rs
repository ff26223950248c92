//! Heal: a log whose data write met a full disk goes on when there is room again, without a new open.
//!
//! What is done is what recovery does: the head is read, what verifies stays and is made durable, what lies behind it is cleared. Whatever of the
//! failed write turns out to be whole is there from then on; those who wrote it were told that it may be.

use super::command::LogNumber;
use super::roll::PREPARE_RETRY_NS;
use super::shard::{Event, Shard};
use crate::id::{Life, Offset};
use crate::log::Successor;
use crate::removal::pressure::Stage;
use crate::segment::active::{Active, Found, PreparedFile};
use crate::segment::mend;
use crate::segment::survey::{self, Expected, Survey};
use crate::segment::unopened::Unopened;
use strandline_disk::{Disk, DiskError};

/// What the head turned out to be.
#[derive(Debug)]
pub(super) enum Healed {
    /// It goes on where its last whole batch ends.
    Goes {
        /// The write head.
        active: Box<Active>,
        /// One past its last offset.
        end: Offset,
        /// How far it says itself that the log is durable.
        marked_end: Offset,
    },
    /// Nothing is in it: it is a file for the next segment again.
    Empty(PreparedFile),
    /// It is damaged below what was durable. The next open reports that.
    Damaged,
}

/// What is known of the head.
struct Head {
    file: Unopened,
    expected: Expected,
    opened_at_ms: u64,
    announced: bool,
    durable_end: Offset,
}

impl<D: Disk> Shard<D> {
    /// Somebody would append to a log that met a full disk: looks whether it can go on, unless that was tried just now.
    pub(super) fn heal(&mut self, number: LogNumber) {
        let now_ns = self.now.boot_ns;
        let room = self.siblings.removal.gauge.stage() < Stage::Hard && self.closing.is_none();
        let log = &mut self.logs[number.0];
        let changes = log.verb_at_work || log.truncating > 0 || log.epoch_is_rising || log.deleted;
        let quiet = log.flights.is_empty() && !log.flushing && log.tasks == 0 && !changes;
        let Some(active) = log.active.as_ref().filter(|_| room && quiet && now_ns >= log.heal_from_ns) else { return };
        let head = Head {
            file: Unopened::from(active),
            expected: Expected {
                uid: active.uid,
                base: active.base,
                end: None,
                size: active.size,
                look_ahead: active.look_ahead,
                // What an earlier truncation dropped was cleared when it was answered, or when the store was opened.
                cut: None,
            },
            opened_at_ms: active.opened_at_ms,
            announced: active.announced,
            durable_end: log.durable_end,
        };
        log.heal_from_ns = now_ns.saturating_add(PREPARE_RETRY_NS);
        let (disk, life, descriptors) = (self.disk.clone(), self.life, self.descriptors.clone());
        self.spawn_background(number, async move {
            let healed = async {
                let _room = descriptors.room(3).await?;
                heal(&disk, head, life).await
            };
            Event::Healed { log: number, result: healed.await }
        });
    }

    /// Takes over what became of the head.
    pub(super) fn settle_healed(&mut self, number: LogNumber, result: Result<Healed, DiskError>) {
        let log = &mut self.logs[number.0];
        let Some(base) = log.active.as_ref().map(|active| active.base) else { return };
        let end = match result {
            Ok(Healed::Goes { active, end, marked_end }) => {
                (log.active, log.marked_end) = (Some(*active), marked_end);
                end
            }
            Ok(Healed::Empty(prepared)) => {
                log.active = None;
                log.next_seq = prepared.id.seq.next();
                log.successor = Successor::Ready(prepared);
                base
            }
            Ok(Healed::Damaged) => {
                log.heals = false;
                return tracing::error!(log = %log.id, "the head of the log is damaged: it takes no appends until the store is opened again");
            }
            Err(error) => {
                tracing::warn!(log = %log.id, %error, "the log cannot go on yet");
                // What a flush took along only the next open knows. Want of room takes nothing.
                log.heals &= error.is_without_room() || !error.is_failed_flush();
                return self.heed_disk_failure(&error);
            }
        };
        tracing::info!(log = %log.id, %end, "the log goes on: there is room again");
        (log.latch, log.heals) = (None, false);
        // Receipts from before that reach further are void: another append gets those offsets.
        log.losses.note(end);
        log.begin_at(end);
        log.stamp_behind_what_is_left();
        (log.flush_through, log.unflushed_since_ns) = (end, u64::MAX);
        // What was kept for readers may lie past the end: its offsets are given again.
        let (bytes, commits) = log.shared.tail.clear();
        self.tail_budget.forget(number, bytes, commits);
        self.ahead.forget(number);
        self.answer_waiting(number);
        self.announce(number);
        self.watch_age(number);
        self.let_rest(number);
        self.close_later(number);
        self.again_is_due(number); // What waited for that while the log was latched.
    }
}

/// Reads the head and mends it.
async fn heal<D: Disk>(disk: &D, head: Head, life: Life) -> Result<Healed, DiskError> {
    let Head { file, expected, opened_at_ms, announced, durable_end } = head;
    let (directory, prepared) = file.open(disk).await?;
    let found = survey::survey(disk, &prepared.file, &expected).await?;
    if !found.damage.is_empty() || found.end_offset < durable_end {
        return Ok(Healed::Damaged);
    }
    mend::secure(disk, &prepared.file, &found).await?;
    mend::neutralise(disk, &directory, &prepared.file, &found, life).await?;
    let Survey { tail, index, store_times_ms, end_offset: end, durable_to: marked_end, .. } = found;
    if end == expected.base && !announced {
        return Ok(Healed::Empty(prepared));
    }
    let found = Found { tail, index, store_times_ms };
    let mut active = Box::new(Active::resume(prepared, expected.base, opened_at_ms, found));
    active.announced = announced;
    Ok(Healed::Goes { active, end, marked_end })
}
