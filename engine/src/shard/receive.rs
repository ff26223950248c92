//! Receive: what callers ask is taken from the queue. Appends get their offsets here; everything else goes where it is done.

use super::command::{Admitted, Command, DurableAnswer, LogAnswer, LogNumber, OpenedLog};
use super::prepare::Urgency;
use super::shard::{Event, Shard};
use super::verb::Verb;
use crate::config::{LogOptions, sabotaged};
use crate::error::{AppendError, LogError};
use crate::format::manifest::Edit;
use crate::id::{LogId, Offset};
use crate::log::{Level, Log, Queued, Receipt, Waiting};
use crate::pending::Answer;
use crate::removal::pressure::{Pressure, Stage};
use strandline_disk::Disk;

/// No append is taken by a log that has come so far: what is outstanding then still fits the number range.
const OFFSET_MAX: Offset = Offset(1 << 62);

/// How many commands are taken in one turn, so that none starves what is in flight.
const COMMANDS_A_TURN: usize = 4_096;

impl<D: Disk> Shard<D> {
    /// Takes what callers have queued; gives how much that was.
    pub(super) fn receive(&mut self) -> usize {
        for taken in 0..COMMANDS_A_TURN {
            let Some(command) = self.queue.pop() else { return taken };
            match command {
                Command::Append { log, batch, level, expected, answer, admitted } => {
                    self.receive_append(log, batch, (level, expected), answer, admitted);
                }
                Command::Read { log, offset, bytes, past_durable, answer, admitted } => {
                    assert!(!sabotaged!(self.config, PanicOnRead), "a deliberate panic");
                    self.start_read(log, offset, bytes, past_durable, (answer, admitted));
                }
                Command::UntilDurable { log, receipt, now, answer, admitted } => {
                    self.wait_until_durable(log, receipt, now, answer, admitted);
                }
                // It looks at what is in memory, and nothing has to be at rest for it.
                Command::Verb { log, verb: Verb::Target { seq, answer }, admitted } => {
                    admitted.answer(answer, self.target(log, seq));
                }
                Command::Verb { log, verb, admitted } => self.receive_verb(log, verb, admitted),
                Command::SegmentMaxAge { log, age, answer, admitted } => {
                    admitted.answer(answer, self.set_segment_max_age(&log, age));
                }
                Command::Inventory { answer, admitted } => admitted.answer(answer, Ok(self.inventory())),
                Command::DeleteDirectory { name, answer, admitted } => {
                    drop(admitted);
                    self.delete_directory(name, answer);
                }
                Command::Orphan { asked, admitted } => {
                    drop(admitted);
                    self.receive_orphan(asked);
                }
                Command::ScrubCursor { cursor, answer, admitted } => self.keep_scrub_cursor(cursor, answer, admitted),
                Command::SureTime { wall_ms, answer, admitted } => self.keep_sure_time(wall_ms, answer, admitted),
                Command::Policy(asked) => self.receive_policy(asked),
                Command::NoteRestamp(noted) => self.receive_note(noted),
                Command::Unpinned { log, admitted } => {
                    drop(admitted);
                    self.release_below_the_start(log);
                }
                Command::OpenLog { log, options, answer, admitted } => {
                    drop(admitted); // Whoever has the answer finds the room.
                    self.open_log(log, options, answer);
                }
                Command::Seek { log, time, answer, admitted } => self.start_seek(log, time, answer, admitted),
                Command::Close { answer } => self.closing = Some(answer),
            }
        }
        COMMANDS_A_TURN
    }

    fn receive_append(
        &mut self,
        number: LogNumber,
        batch: crate::batch::Batch,
        (level, expected): (Level, Option<Offset>),
        answer: Answer<super::command::AppendAnswer>,
        admitted: Admitted,
    ) {
        if self.logs[number.0].heals {
            self.heal(number);
        }
        let wall_ms = self.now.wall_ms;
        let log = &mut self.logs[number.0];
        if let Some(error) = refusal(log, expected, batch.record_count()) {
            return admitted.answer(answer, Err(error));
        }
        let gauge = &self.siblings.removal.gauge;
        if gauge.stage() == Stage::Hard {
            let Pressure { free, marks, .. } = gauge.read();
            let error = AppendError::DiskAlmostFull { log: log.id.clone(), free, mark: marks.hard };
            return admitted.answer(answer, Err(error));
        }
        let after_ms = log.last_store_time_ms;
        let (first, end) = (log.end, log.end.plus(u64::from(batch.record_count())));
        let store_time_ms = log.stamp(wall_ms);
        let receipt = Receipt { first, end, store_time_ms, level, losses: log.losses.count() };
        log.end = end;
        log.last_store_time_ms = store_time_ms;
        log.queued_bytes += batch.payload().len();
        log.taken += 1;
        let answer = match level {
            Level::Accepted => {
                self.must_hear = true; // Who is answered this soon does not wait for a commit to end.
                answer.give(Ok(receipt));
                None
            }
            Level::Written | Level::Durable => Some(answer),
        };
        let taken_ns = self.now.boot_ns;
        let repairs = expected.is_some();
        log.queued.push_back(Queued { batch, receipt, taken_ns, after_ms, repairs, answer, admitted });
        self.list(number);
    }

    fn wait_until_durable(
        &mut self,
        number: LogNumber,
        receipt: Receipt,
        now: bool,
        answer: Answer<DurableAnswer>,
        admitted: Admitted,
    ) {
        self.logs[number.0].waiting.push(Waiting { receipt, answer, admitted });
        self.answer_waiting(number);
        if now && !self.logs[number.0].waiting.is_empty() {
            self.logs[number.0].flush_through = self.logs[number.0].flush_through.max(receipt.end);
            self.want_flush(number);
        }
    }

    fn open_log(&mut self, log: LogId, options: LogOptions, answer: Answer<LogAnswer>) {
        if let Err(error) = self.config.check_log(&options) {
            return answer.give(Err(LogError::Options(error)));
        }
        if let Some(number) = self.numbers.get(&log).copied() {
            let known = &mut self.logs[number.0].options;
            known.segment_bytes = options.segment_bytes.or(known.segment_bytes);
            known.segment_max_age = options.segment_max_age.or(known.segment_max_age);
            self.watch_age_anew(number);
            return answer.give(Ok(self.opened(number)));
        }
        if let Some((_, waiting)) = self.logs_in_making.get_mut(&log) {
            return waiting.push(answer);
        }
        if !self.siblings.take_log(self.config.logs_max) {
            return answer.give(Err(LogError::TooManyLogs { limit: self.config.logs_max }));
        }
        self.logs_in_making.insert(log.clone(), (options, vec![answer]));
        let durable = self.edits.submit(vec![Edit::LogCreated { log: log.clone() }]);
        // Durable before it is acknowledged: its first segment's edit refers to it.
        self.spawn(async move { Event::LogMade { log, result: durable.await } });
    }

    /// A log as whoever opens it gets it.
    pub(super) fn opened(&self, number: LogNumber) -> OpenedLog {
        OpenedLog { number, shared: self.logs[number.0].shared.clone() }
    }

    /// Adds a log that the manifest has just come to know, and makes its first segment. Who asked for it is answered when
    /// that is ready, so that its first appends are as fast as the others.
    pub(super) fn add_log(&mut self, id: LogId) {
        let number = LogNumber(self.logs.len());
        let mut log = Log::empty(id.clone());
        log.options = self.logs_in_making.get(&id).map(|(options, _)| *options).unwrap_or_default();
        self.logs.push(log);
        self.numbers.insert(id, number);
        self.prepare(number, Urgency::Whole);
    }

    /// Answers those who asked for a log that was being made.
    pub(super) fn answer_makers(&mut self, log: &LogId, result: LogAnswer) {
        for answer in self.logs_in_making.remove(log).into_iter().flat_map(|(_, waiting)| waiting) {
            answer.give(result.clone());
        }
    }
}

/// Why a log does not take an append now.
fn refusal(log: &Log<Admitted>, expected: Option<Offset>, records: u32) -> Option<AppendError> {
    let id = || log.id.clone();
    if log.deleted {
        return Some(AppendError::Deleted { log: id() });
    }
    if log.end > OFFSET_MAX {
        return Some(AppendError::Exhausted { log: id(), what: "offsets" });
    }
    if let Some(latch) = &log.latch {
        return Some(AppendError::Latched { log: id(), latch: latch.clone() });
    }
    if log.truncating > 0 || log.epoch_is_rising {
        return Some(AppendError::Truncating { log: id() });
    }
    if let Some(until) = log.fence
        && (expected.is_none() || log.end.plus(u64::from(records)) > until)
    {
        return Some(AppendError::Fenced { log: id(), until });
    }
    match expected {
        Some(expected) if expected != log.end => Some(AppendError::OutOfSync { log: id(), expected, end: log.end }),
        _ => None,
    }
}
