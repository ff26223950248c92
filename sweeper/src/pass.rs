//! One retention pass: what the store holds and what its policies say go into a plan, and the plan is carried out.
//!
//! The store durably forgets a segment before any of its bytes go; that part is the store's. Here nothing is decided: [`decide::plan`]
//! does.

use crate::clock::SharedClock;
use crate::consent::Consent;
use crate::decide::{self, Planned, Reading, Turn};
use crate::forgetting::prefix;
use crate::kept;
pub use crate::limits::{Limits, Skip};
use crate::metrics::RetentionCounts;
use crate::pins::PinBoard;
use crate::reply::{Refused, Reply};
use crate::report::{Doing, Failure, Report, RollTimer};
use crate::worker::Pass;
use std::time::{Duration, Instant};
use strandline::id::SegmentId;
use strandline::{Log, LogId, Store, VerbError};

/// Makes retention passes over one store, and remembers between them what has to be remembered.
#[derive(Debug)]
pub struct Sweep {
    pub(crate) clock: SharedClock,
    pub(crate) pins: PinBoard,
    turn: Turn,
}

impl Sweep {
    /// Begins with a guard of the clock that was made when the store was opened, and without pins.
    pub fn new(clock: impl Into<SharedClock>) -> Sweep {
        Sweep { clock: clock.into(), pins: PinBoard::default(), turn: Turn::default() }
    }

    /// The same, which heeds these pins.
    #[must_use]
    pub fn with_pins(self, pins: PinBoard) -> Sweep {
        Sweep { pins, ..self }
    }

    /// The guard of the clock, for an operator who confirms the time.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// One pass at this reading of the clocks.
    ///
    /// # Errors
    /// [`Skip`]: nothing was done, and the pass is to be made again.
    pub fn pass(&mut self, store: &Store, at: Reading, limits: &Limits) -> Result<Report, Skip> {
        let now = self.clock.observe(at);
        self.clock.keep(store, &now);
        let kept = kept::read(store, limits, &self.pins)?;
        let mut plan = decide::plan(&kept.logs, &now, &limits.caps, self.turn.clone());
        let (expire, roll) = (std::mem::take(&mut plan.expire), std::mem::take(&mut plan.roll));
        let mut report = Report { unresolved: kept.unresolved, dry_run: limits.dry_run, ..Report::new(now, &plan) };
        let deadline = Instant::now() + limits.deadline;
        let consent = Consent::ask(store, &expire, deadline);
        let expire = prefix(expire, |segment| consent.to(segment), |segment, error| report.note_kept(segment, error));
        if limits.dry_run {
            expire.into_iter().for_each(|planned| report.note_expired(planned));
            report.rolled = roll.into_iter().map(|(segment, _)| segment).collect();
            (report.timers, report.removal) = (kept.timers, store.counters().removal);
            return Ok(report);
        }
        self.turn = plan.turn;
        let forgetting = consent.forget(store, &expire, deadline);
        let expire =
            prefix(expire, |segment| forgetting.to(segment), |segment, error| report.note_kept(segment, error));
        carry_out_expiries(store, expire, &mut report);
        for (segment, _) in roll {
            match roll_one(store, &segment) {
                Ok(()) => report.rolled.push(segment),
                Err(error) => report.failures.push(Failure { segment, doing: Doing::Roll, error: error.into() }),
            }
        }
        set_timers(store, kept.timers, &mut report);
        report.removal = store.counters().removal;
        Ok(report)
    }
}

impl Pass for Sweep {
    const NAME: &'static str = "retention";
    type Limits = Limits;
    type Report = Report;
    type Skip = Skip;
    type Counts = RetentionCounts;

    fn pass(&mut self, store: &Store, at: Reading, limits: &Limits) -> Result<Report, Skip> {
        Sweep::pass(self, store, at, limits)
    }

    /// What failed stays due: without a pause it would be tried over and over.
    fn is_due_again(report: &Report) -> bool {
        report.budget_spent && !report.dry_run && report.failures.is_empty() && !report.expired.is_empty()
    }

    fn cause(skip: &Skip) -> &'static str {
        skip.cause()
    }

    fn count(report: &Report, counts: &mut RetentionCounts) {
        counts.note(report);
    }
}

/// Expires what was planned, oldest first in each log. Behind one that failed its log goes no further: reads never meet a missing middle.
fn carry_out_expiries(store: &Store, expire: Vec<Planned>, report: &mut Report) {
    let mut stopped: Option<LogId> = None;
    // What goes of one log stands together in a plan: it is looked for once.
    let mut found: Option<(LogId, Option<Log>)> = None;
    for planned in expire {
        let of_log = &planned.segment.log;
        if stopped.as_ref() == Some(of_log) {
            continue;
        }
        let expired = match found.take_if(|(id, _)| id == of_log) {
            Some((_, log)) => Ok(log),
            None => store.find(&of_log.topic, of_log.range),
        };
        let answer = expired.and_then(|log| {
            // A log that was deleted took its segments along: that is no error, and no more is one segment that went before.
            let answer = log.as_ref().map_or(Ok(()), |log| log.delete_segment(planned.segment.seq).wait());
            found = Some((of_log.clone(), log));
            answer
        });
        match answer.map_err(Refused::from) {
            Err(error) if !Reply::of(Err(&error)).is_expired() => {
                stopped = Some(of_log.clone());
                report.note_kept(planned.segment, error);
            }
            Ok(()) | Err(_) => report.note_expired(planned),
        }
    }
}

/// Seals the write head of a log for its age; the next append begins its successor. A log that was deleted meanwhile is not made again.
fn roll_one(store: &Store, segment: &SegmentId) -> Result<(), VerbError> {
    match store.find(&segment.log.topic, segment.log.range)? {
        Some(log) => log.seal().wait().map(drop),
        None => Err(VerbError::NoSuchLog { log: segment.log.clone() }),
    }
}

/// Has the engine's timers roll at the ages that apply. A log that was deleted meanwhile needs none.
fn set_timers(store: &Store, timers: Vec<RollTimer>, report: &mut Report) {
    for timer in timers {
        let age = timer.segment_max_age_ms.map(Duration::from_millis);
        match store.set_segment_max_age(&timer.log, age).wait() {
            Ok(()) => report.timers.push(timer),
            Err(VerbError::NoSuchLog { .. }) => {}
            Err(error) => report.timers_failed.push((timer.log, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::{Now, Plan, Reasons};
    use strandline::id::Seq;
    use strandline::{Config, RangeNumber, Record, Topic};

    fn store() -> (tempfile::TempDir, Store) {
        let root = tempfile::tempdir().expect("a directory");
        let store = Store::open(Config::new(root.path().join("store"))).expect("a store");
        (root, store)
    }

    fn id(name: &str) -> LogId {
        LogId { topic: Topic::new(name).expect("a name"), range: RangeNumber::default() }
    }

    /// A log of so many segments of one record, the last of them active.
    fn fill(store: &Store, log: &LogId, segments: u32) {
        let of = store.log(&log.topic, log.range).expect("a log");
        for number in 0..segments {
            let mut batch = of.batch();
            batch.push(&Record { value: Some(b"one"), ..Record::default() }).expect("room");
            of.append(batch.build().expect("a batch")).expect("room").wait().expect("durable");
            if number + 1 < segments {
                of.seal().wait().expect("sealed");
            }
        }
    }

    fn planned(log: &LogId, seq: u32) -> Planned {
        let segment = SegmentId { log: log.clone(), seq: Seq::new(seq).expect("small") };
        Planned { segment, byte_size: 7, reasons: Reasons { age: None, size: None } }
    }

    /// A plan is old as soon as it is made. Nothing counts as expired that the store did not say is gone, and a log of which something
    /// stayed goes no further.
    #[test]
    fn an_expiry_that_fails_is_counted_by_its_reply_and_holds_what_is_behind_it_in_its_log_only() {
        let (_root, store) = store();
        let (gone, active, middle, whole) = (id("gone"), id("active"), id("middle"), id("whole"));
        fill(&store, &active, 2);
        fill(&store, &middle, 4);
        fill(&store, &whole, 3);
        let plan = [
            planned(&gone, 0),
            planned(&active, 0),
            planned(&active, 1),
            planned(&middle, 1),
            planned(&middle, 0),
            planned(&whole, 0),
            planned(&whole, 1),
        ];
        let mut report = Report::new(Now::trusted(1), &Plan::default());
        carry_out_expiries(&store, plan.to_vec(), &mut report);
        let expired: Vec<_> = report.expired.iter().map(|planned| &planned.segment).collect();
        assert_eq!(expired, [&plan[0].segment, &plan[1].segment, &plan[5].segment, &plan[6].segment], "{report}");
        let failures: Vec<_> = report.failures.iter().map(|one| (&one.segment, one.reply().label())).collect();
        assert_eq!(failures, [(&plan[2].segment, "segment_active"), (&plan[3].segment, "other")]);
        let by_reply: Vec<_> = report.failures_by_reply().into_iter().collect();
        assert_eq!(by_reply, [(Reply::SegmentActive, 1), (Reply::Other, 1)]);
        let mut counts = RetentionCounts::default();
        counts.note(&report);
        assert_eq!(counts.failures.into_iter().collect::<Vec<_>>(), by_reply);
        assert_eq!(counts.expired[&whole.topic].segments, 2);
        assert_eq!(counts.expired[&whole.topic].bytes, 14);
        assert!(
            !Sweep::is_due_again(&Report { budget_spent: true, ..report }),
            "what fails is not tried without a pause"
        );
        assert!(store.find(&gone.topic, gone.range).expect("an answer").is_none(), "no log was made again");
    }

    #[test]
    fn a_log_that_was_deleted_since_the_plan_is_not_made_again_by_its_roll_or_its_timer() {
        let (_root, store) = store();
        let log = id("t");
        drop(store.log(&log.topic, log.range).expect("a log"));
        store.delete_topic(&log.topic).expect("deleted");
        let rolled = roll_one(&store, &SegmentId { log: log.clone(), seq: Seq::default() });
        assert_eq!(rolled, Err(VerbError::NoSuchLog { log: log.clone() }));
        let mut report = Report::new(Now::trusted(1), &Plan::default());
        set_timers(&store, vec![RollTimer { log, segment_max_age_ms: None }], &mut report);
        assert!(report.timers.is_empty() && report.timers_failed.is_empty(), "{report}");
        assert!(store.topics().expect("an answer").is_empty());
    }
}
