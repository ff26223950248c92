//! Verbs beside append and read: asked for, and their answers checked against the model.

use super::change::{AskedChange, Change};
use super::files::Disk;
use super::machine::Machine;
use super::model::Model;
use super::running::{AskedVerb, Running, VerbAnswer};
use super::step::{Ask, At};
use super::violation::{Checked, broken, ensure};
use std::time::Duration;
use strandline::format::segment::SegmentFooter;
use strandline::id::Seq;
use strandline::manifest::ManifestError;
use strandline::manifest::state::Stage;
use strandline::pending::pair;
use strandline::shard::verb::{Verb, Verdict};
use strandline::{LogInfo, Offset, Sealed, SegmentState, VerbError};
use strandline_disk::BLOCK;

impl Machine {
    /// Asks for a verb.
    pub(super) fn ask_verb(&mut self, log: usize, ask: Ask) -> Checked {
        let (running, model) = (self.running.as_mut().expect("the store is open"), &mut self.model);
        if !running.knows(log) || model.log(log).is_going() {
            return Ok(());
        }
        let (start, end) = (model.log(log).start, model.log(log).sent_end());
        let offset = |at: At| match at {
            At::PerMille(per_mille) => Offset(start.0 + end.since(start) * per_mille / 1000),
            At::Back(back) => Offset(end.0.saturating_sub(back).max(start.0)),
            At::Past(past) => end.plus(past),
            At::Start => start,
        };
        let (verb, answer, changes) = verb_of(ask, offset);
        self.serial += 1;
        let serial = self.serial;
        if running.verb(log, verb) {
            let of_log = model.log(log);
            of_log.version += u64::from(changes.iter().any(|change| change.takes_away()));
            of_log.changes.extend(changes.iter().map(|change| AskedChange { serial, change: *change, failed: false }));
            running.verbs.push(AskedVerb { log, serial, changes: changes.len(), answer });
        }
        Ok(())
    }

    /// Takes the answers of verbs, those of a log in their order.
    pub(super) fn collect_verbs(&mut self) -> Checked {
        let Some(running) = self.running.as_mut() else { return Ok(()) };
        let mut asked = std::mem::take(&mut running.verbs);
        let (mut outcome, mut waits) = (Ok(()), Vec::new());
        asked.retain_mut(|asked| {
            if outcome.is_err() || waits.contains(&asked.log) {
                return true;
            }
            match self.take_verb(asked) {
                Ok(true) => false,
                Ok(false) => {
                    waits.push(asked.log);
                    true
                }
                Err(violation) => {
                    outcome = Err(violation);
                    true
                }
            }
        });
        if let Some(running) = self.running.as_mut() {
            running.verbs = asked;
        }
        outcome
    }

    /// Takes the answer of a verb. False when there is none yet.
    fn take_verb(&mut self, asked: &mut AskedVerb) -> Checked<bool> {
        let (log, serial) = (asked.log, asked.serial);
        match &mut asked.answer {
            VerbAnswer::Truncate(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                self.settle_failed((log, serial), &answer, |cut| Some(cut.end.plus(cut.dropped)));
                let before = self.model.log(log).clone();
                let Some(cut) = self.take_verdict(asked, answer)? else { return Ok(true) };
                let after = &self.model.logs[log];
                let dropped = before_end(&before, serial).since(after.end());
                let right = (cut.end, cut.dropped, cut.epoch.0) == (after.end(), dropped, after.epoch);
                ensure(right, "a truncation drops whole batches and says so", || {
                    format!("log {}: {cut:?} and not {} ({dropped}, {})", after.id, after.end(), after.epoch)
                })?;
                self.forget_receipt(log, dropped > 0);
            }
            VerbAnswer::Trim(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                self.settle_failed((log, serial), &answer, |_| None);
                let Some(start) = self.take_verdict(asked, answer)? else { return Ok(true) };
                let wanted = self.model.logs[log].start;
                ensure(start == wanted, "a trim says where the log starts", || format!("{start} and not {wanted}"))?;
            }
            VerbAnswer::Seal(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                self.settle_failed((log, serial), &answer, |sealed| Some(sealed.end.plus(sealed.dropped)));
                let before = self.model.log(log).clone();
                let Some(sealed) = self.take_verdict(asked, answer)? else { return Ok(true) };
                self.forget_receipt(log, sealed.dropped > 0);
                // Appends behind a plain seal go on in the next segment, and may have been answered before it.
                let sent_before = before_end(&before, serial);
                let end = if asked.changes == 0 { sent_before } else { self.model.logs[log].end() };
                self.check_sealed(&sealed, end, sent_before.since(end))?;
            }
            VerbAnswer::Fence(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                self.settle_failed((log, serial), &answer, |_| None);
                let Some(until) = self.take_verdict(asked, answer)? else { return Ok(true) };
                let wanted = self.model.logs[log].fence;
                ensure(Some(until) == wanted, "a fence says how far repairs go", || {
                    format!("{until} and not {wanted:?}")
                })?;
            }
            VerbAnswer::Delete(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                let answered = self.take_verdict(asked, answer)?;
                let running = self.running();
                running.receipts.remove(&log);
                if answered.is_some() {
                    running.opened.remove(&log);
                }
            }
            VerbAnswer::Unfence(pending) | VerbAnswer::DeleteSegment(pending) | VerbAnswer::RebuildIndex(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                self.settle_failed((log, serial), &answer, |_| None);
                self.take_verdict(asked, answer)?;
            }
            VerbAnswer::Stats(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                let Some(info) = self.take_verdict(asked, answer)? else { return Ok(true) };
                check_info(&self.model, log, &info, self.tolerant)?;
            }
            VerbAnswer::Verify(pending) => {
                let Some(answer) = pending.try_take() else { return Ok(false) };
                let Some(verified) = self.take_verdict(asked, answer)? else { return Ok(true) };
                ensure(verified.rot.is_empty(), "what verifies is found to verify", || format!("{:?}", verified.rot))?;
            }
        }
        Ok(true)
    }

    /// Takes over what a verb came to. Nothing when it was refused, as it had to be, or a fault kept it from being done.
    fn take_verdict<T>(&mut self, asked: &AskedVerb, verdict: Verdict<T>) -> Checked<Option<T>> {
        let (tolerant, log) = (self.tolerant, self.model.log(asked.log));
        let wanted: Vec<AskedChange> =
            log.changes.iter().copied().filter(|change| change.serial == asked.serial).collect();
        let mut after = log.clone();
        after.changes.retain(|change| change.serial != asked.serial);
        let can_be_made = wanted.iter().all(|change| after.make(change));
        match verdict {
            Ok(answer) => {
                // A log that has failed tells of itself as well, without what failed.
                if wanted.is_empty() && !tolerant {
                    after.hold_before(asked.serial);
                }
                ensure(can_be_made, "an offset that is not in the log is refused", || {
                    format!("log {}: {wanted:?} of {} to {}", log.id, log.start, log.end())
                })?;
                *log = after;
                Ok(Some(answer))
            }
            Err(error) => {
                if std::env::var_os("STRANDLINE_STEPS").is_some() {
                    eprintln!("{wanted:?}: {error}");
                }
                let out_of_range = matches!(error, VerbError::OutOfRange { .. }) && !can_be_made;
                let gone = matches!(error, VerbError::NoSuchLog { .. }) && log.gone;
                ensure(tolerant || out_of_range || gone, "a verb fails only when something failed", || {
                    format!("log {}: {wanted:?}: {error}", log.id)
                })?;
                // Of two changes the first may have been made before the second was refused.
                let half = wanted.len() > 1 && matches!(&error, VerbError::Manifest(_) | VerbError::Damaged { .. });
                if half || matches!(&error, VerbError::Disk(_) | VerbError::Manifest(ManifestError::Disk(_))) {
                    let until = after.fence.unwrap_or_default();
                    // It may be durable all the same.
                    for change in log.changes.iter_mut().filter(|change| change.serial == asked.serial) {
                        change.failed = true;
                        if let Change::Fence(_) = change.change {
                            change.change = Change::FencedUntil(until);
                        }
                    }
                } else {
                    log.changes.retain(|change| change.serial != asked.serial);
                }
                Ok(None)
            }
        }
    }

    /// A log that does what a failed one does not has found out what is there of what failed. Where it ended before, the answer says, or else
    /// what it shows.
    fn settle_failed<T>(
        &mut self,
        (log, serial): (usize, u64),
        verdict: &Verdict<T>,
        end: impl FnOnce(&T) -> Option<Offset>,
    ) {
        let Ok(answer) = verdict else { return };
        let shown = self.running().opened.get(&log).map(|(_, opened)| opened.shared.bounds().end);
        if let Some(end) = end(answer).or(shown) {
            self.model.log(log).settle_failed_before(serial, end);
        }
    }

    fn forget_receipt(&mut self, log: usize, dropped: bool) {
        if dropped {
            self.running().receipts.remove(&log);
        }
    }

    /// What a seal answers is what the manifest and the footer say.
    fn check_sealed(&mut self, sealed: &Sealed, end: Offset, dropped: u64) -> Checked {
        const PROMISE: &str = "a seal answers what the manifest and the footer say";
        let same = sealed.end == end && sealed.dropped == dropped;
        ensure(same, PROMISE, || format!("{sealed:?}, and the log ended at {end}, {dropped} dropped"))?;
        let Some(segment) = &sealed.segment else { return Ok(()) };
        let disk = Disk::look(&self.world, &self.config)?;
        let Some(found) = disk.segments().iter().find(|found| found.id == *segment) else {
            // The verb behind it may have been done in the same turn.
            let asked = self.model.logs.iter().any(|log| log.id == segment.log && !log.changes.is_empty());
            let start = disk.state().logs.get(&segment.log).map_or(sealed.end, |log| log.start);
            return ensure(asked || start >= sealed.end, PROMISE, || format!("{segment} is not in the manifest"));
        };
        let Stage::Sealed { closing, .. } = found.record.stage else {
            return broken(PROMISE, format!("{segment} is {:?}", found.record.stage));
        };
        let bytes = disk.bytes(&found.path).unwrap_or_default();
        let footer = SegmentFooter::decode(bytes.get(bytes.len().saturating_sub(BLOCK)..).unwrap_or_default());
        let right = (closing.end, closing.logical_bytes) == (sealed.end, sealed.byte_size)
            && footer.is_ok_and(|footer| (footer.end, footer.logical_bytes()) == (sealed.end, sealed.byte_size));
        ensure(right, PROMISE, || format!("{sealed:?}, {closing:?}, {footer:?}"))
    }

    /// Everything about a log, now. Nothing when a fault kept it from being told.
    ///
    /// # Errors
    /// When it is never answered, or differs from the model.
    pub fn info(&mut self, log: usize) -> Checked<Option<LogInfo>> {
        self.answer_all()?;
        if !self.running().knows(log) {
            return Ok(None);
        }
        let (answer, mut pending) = pair::<Verdict<LogInfo>>();
        if !self.running().verb(log, Verb::Stats { answer }) {
            return Ok(None);
        }
        for _ in 0..super::running::TURNS_MAX {
            match pending.try_take() {
                Some(answer) => return Ok(answer.ok()),
                None => self.turn()?,
            }
        }
        broken("every command is answered", "statistics")
    }

    /// Sets the age at which a log's segments are rolled, and waits for the answer.
    ///
    /// # Errors
    /// When it is never answered.
    ///
    /// # Panics
    /// When the queue is full.
    pub fn set_segment_max_age(&mut self, log: usize, age: Option<Duration>) -> Checked<Verdict<()>> {
        let id = self.model.logs[log].id.clone();
        let mut pending = self.running().segment_max_age(&id, age).expect("room in the queue");
        for _ in 0..super::running::TURNS_MAX {
            match pending.try_take() {
                Some(answer) => return Ok(answer),
                None => self.turn()?,
            }
        }
        broken("every command is answered", "an age of segments")
    }

    /// Deletes a segment: the oldest, or one that may not be.
    pub(super) fn delete_segment(&mut self, log: usize, place: usize) -> Checked {
        let Some(info) = self.info(log)? else { return Ok(()) };
        let Some(segment) = info.segments.get(place % info.segments.len().max(1)).cloned() else { return Ok(()) };
        let oldest = info.segments.first().is_some_and(|oldest| oldest.seq == segment.seq);
        let may = segment.state == SegmentState::Sealed && oldest;
        let (answer, pending) = pair();
        // Its age may seal an idle one before its turn comes.
        let changes = if oldest { vec![Change::Trim(segment.end)] } else { Vec::new() };
        let asked = VerbAnswer::DeleteSegment(pending);
        let Some(answer) = self.ask_and_wait(log, Verb::DeleteSegment { seq: segment.seq, answer }, changes, asked)?
        else {
            return Ok(());
        };
        let right = match &answer {
            Ok(()) => oldest || segment.end <= self.model.logs[log].start,
            Err(VerbError::NotSealed { .. }) => !may,
            Err(VerbError::NotOldest { .. }) => !oldest,
            Err(_) => self.tolerant,
        };
        ensure(right, "only the oldest segment can be deleted, and only a sealed one", || {
            format!("{answer:?}: {info:?}")
        })
    }

    /// Builds the index of a segment again.
    pub(super) fn rebuild_index(&mut self, log: usize, place: usize) -> Checked {
        let Some(info) = self.info(log)? else { return Ok(()) };
        let Some(segment) = info.segments.get(place % info.segments.len().max(1)).cloned() else { return Ok(()) };
        let (answer, pending) = pair();
        let asked = VerbAnswer::RebuildIndex(pending);
        let verb = Verb::RebuildIndex { seq: segment.seq, answer };
        let Some(answer) = self.ask_and_wait(log, verb, Vec::new(), asked)? else { return Ok(()) };
        let right = match &answer {
            Ok(()) => true, // Its age may have sealed it meanwhile.
            Err(VerbError::NotSealed { .. }) => segment.state != SegmentState::Sealed,
            // One that lies before the start goes when nobody reads it any more.
            Err(VerbError::NoSuchSegment { .. }) => {
                segment.state != SegmentState::Sealed || segment.end <= info.bounds.start
            }
            Err(_) => self.tolerant,
        };
        ensure(right, "the index of a sealed segment can be built again", || format!("{answer:?}: {info:?}"))
    }

    /// Asks for a verb and turns until it is answered. Nothing when the queue was full.
    fn ask_and_wait(
        &mut self,
        log: usize,
        verb: Verb,
        changes: Vec<Change>,
        mut asked: VerbAnswer,
    ) -> Checked<Option<Verdict<()>>> {
        if !self.running().verb(log, verb) {
            return Ok(None);
        }
        self.serial += 1;
        let serial = self.serial;
        let of_log = self.model.log(log);
        of_log.version += u64::from(!changes.is_empty());
        of_log.changes.extend(changes.iter().map(|change| AskedChange { serial, change: *change, failed: false }));
        for _ in 0..super::running::TURNS_MAX {
            let (VerbAnswer::DeleteSegment(pending) | VerbAnswer::RebuildIndex(pending)) = &mut asked else {
                return Ok(None);
            };
            let Some(answer) = pending.try_take() else {
                self.turn()?;
                continue;
            };
            let refused = matches!(answer, Err(VerbError::NotSealed { .. } | VerbError::NotOldest { .. }));
            let refused = refused || matches!(answer, Err(VerbError::NoSuchSegment { .. }));
            if refused {
                self.model.log(log).changes.retain(|change| change.serial != serial);
            } else {
                let asked = AskedVerb { log, serial, changes: changes.len(), answer: asked };
                self.take_verdict(&asked, answer.clone())?;
            }
            return Ok(Some(answer));
        }
        broken("every command is answered", "a verb on a segment")
    }
}

impl VerbAnswer {
    /// The answer, whatever it says.
    #[must_use]
    pub fn take_any(self) -> Option<()> {
        match self {
            VerbAnswer::Truncate(mut pending) => pending.try_take().map(drop),
            VerbAnswer::Trim(mut pending) | VerbAnswer::Fence(mut pending) => pending.try_take().map(drop),
            VerbAnswer::Seal(mut pending) => pending.try_take().map(drop),
            VerbAnswer::Stats(mut pending) => pending.try_take().map(drop),
            VerbAnswer::Verify(mut pending) => pending.try_take().map(drop),
            VerbAnswer::Unfence(mut pending)
            | VerbAnswer::Delete(mut pending)
            | VerbAnswer::DeleteSegment(mut pending)
            | VerbAnswer::RebuildIndex(mut pending) => pending.try_take().map(drop),
        }
    }
}

/// Where the log ended when all before `serial` was there.
fn before_end(log: &super::model::LogModel, serial: u64) -> Offset {
    let mut log = log.clone();
    log.hold_before(serial);
    let of_before = log.held.iter().rfind(|held| held.sent.serial < serial);
    of_before.map_or(log.start, |held| held.end())
}

/// What is asked of the shard, where its answer comes, and what it changes.
fn verb_of(ask: Ask, offset: impl Fn(At) -> Offset) -> (Verb, VerbAnswer, Vec<Change>) {
    match ask {
        Ask::Truncate(at) => {
            let (end, (answer, pending)) = (offset(at), pair());
            (Verb::Truncate { end, answer }, VerbAnswer::Truncate(pending), vec![Change::Truncate(end)])
        }
        Ask::Trim(at) => {
            let (start, (answer, pending)) = (offset(at), pair());
            (Verb::Trim { start, answer }, VerbAnswer::Trim(pending), vec![Change::Trim(start)])
        }
        Ask::Seal => {
            let (answer, pending) = pair();
            (Verb::Seal { at: None, answer }, VerbAnswer::Seal(pending), Vec::new())
        }
        Ask::SealAt(at) => {
            let (end, (answer, pending)) = (offset(at), pair());
            let changes = vec![Change::Truncate(end), Change::Fence(None)];
            (Verb::Seal { at: Some(end), answer }, VerbAnswer::Seal(pending), changes)
        }
        Ask::Fence(at) => {
            let (until, (answer, pending)) = (at.map(offset), pair());
            (Verb::Fence { until, answer }, VerbAnswer::Fence(pending), vec![Change::Fence(until)])
        }
        Ask::Unfence => {
            let (answer, pending) = pair();
            (Verb::Unfence { answer }, VerbAnswer::Unfence(pending), vec![Change::Unfence])
        }
        Ask::Delete => {
            let (answer, pending) = pair();
            (Verb::Delete { answer }, VerbAnswer::Delete(pending), vec![Change::Delete])
        }
        Ask::Stats => {
            let (answer, pending) = pair();
            (Verb::Stats { answer }, VerbAnswer::Stats(pending), Vec::new())
        }
        Ask::Verify => {
            let (answer, pending) = pair();
            (Verb::Verify { seq: None, answer }, VerbAnswer::Verify(pending), Vec::new())
        }
    }
}

/// What a log is said to be is what the model says.
fn check_info(model: &Model, log: usize, info: &LogInfo, tolerant: bool) -> Checked {
    const PROMISE: &str = "statistics say what the log holds";
    let log = &model.logs[log];
    let said = (info.bounds.start, info.bounds.end, info.epoch.0, info.fence);
    let wanted = (log.start, log.end(), log.epoch, log.fence);
    ensure(tolerant || said == wanted, PROMISE, || format!("log {}: {said:?} and not {wanted:?}", log.id))?;
    ensure(tolerant || info.failed.is_none(), PROMISE, || format!("{:?}", info.failed))?;
    let mut next: Option<(Seq, Offset)> = None;
    for segment in info.segments.iter().filter(|segment| segment.end > info.bounds.start) {
        let follows = next.is_none_or(|(seq, end)| seq < segment.seq && end == segment.base);
        let starts = next.is_some() || segment.base <= info.bounds.start;
        ensure(follows && starts, PROMISE, || format!("log {}: {:?}", log.id, info.segments))?;
        next = Some((segment.seq, segment.end));
    }
    let end = next.map_or(info.bounds.start, |(_, end)| end);
    ensure(end == info.bounds.end, PROMISE, || format!("log {}: {:?} for {said:?}", log.id, info.segments))
}

impl Running {
    /// Whether a verb of a log waits for its answer.
    #[must_use]
    pub fn waits_for_a_verb(&self, log: usize) -> bool {
        self.verbs.iter().any(|asked| asked.log == log)
    }
}
