//! Truncation: what is at or past an offset is dropped for good. The new end and a raised epoch are durable before anything is changed
//! or answered, so that what was dropped can never come back, whatever happens after.

use super::command::LogNumber;
use super::descriptors::Descriptors;
use super::leave::Leaving;
use super::shard::Shard;
use super::siblings::Siblings;
use super::verb::{Sealed, Truncated, Verdict};
use super::verbs::Finish;
use crate::config::sabotaged;
use crate::error::VerbError;
use crate::format::manifest::{Edit, ReleaseReason};
use crate::format::segment::{SegmentFooter, SegmentHeader, SegmentState};
use crate::host::{Refusal, SharedHost};
use crate::id::{Cut, Epoch, Generation, Life, Offset, Seq, StoreId, Uid};
use crate::layout;
use crate::manifest::{Edits, ManifestError};
use crate::pending::Answer;
use crate::segment::active::{Active, Found, PreparedFile};
use crate::segment::closed::Closed;
use crate::segment::cut::{self, NoCut};
use crate::segment::mend;
use crate::segment::rewrite::{self, NotRewritten};
use crate::segment::survey::{self, Expected, Survey};
use crate::segment::time::Latest;
use std::cell::Cell;
use std::sync::Arc;
use strandline_disk::{Access, Disk, File, OpenFile, Position, transfer};

/// What a truncation does to the segments of a log.
pub(super) struct Plan {
    /// The offset that was asked for.
    end: Offset,
    /// Where the log starts.
    start: Offset,
    /// The segment in which it lies, when something of it stays.
    cut: Option<Target>,
    /// What goes whole, newest first.
    gone: Vec<(Seq, Uid, Generation)>,
}

/// The segment that is cut.
enum Target {
    Active { file: PreparedFile, base: Offset, opened_at_ms: u64, from: Position, to: Position },
    Closed(Box<Closed>),
}

/// What was done.
pub(super) struct Done {
    end: Offset,
    epoch: Epoch,
    head: Head,
    gone: Vec<(Seq, Uid, Generation)>,
}

/// What became of the segment that was cut.
enum Head {
    /// Nothing of it is left, or there was none.
    None,
    /// It goes on, shorter.
    Active(Box<Active>),
    /// It was rewritten, and is sealed.
    Replaced(Box<Closed>),
}

impl<D: Disk> Shard<D> {
    pub(super) fn truncate(&mut self, number: LogNumber, end: Offset, answer: Answer<Verdict<Truncated>>) {
        self.cut_at(number, end, move |_, result| answer.give(result));
    }

    /// Drops what is at or past `end`, fences the log, and seals what is left.
    pub(super) fn seal_at(&mut self, number: LogNumber, end: Offset, answer: Answer<Verdict<Sealed>>) {
        self.cut_at(number, end, move |shard, result| match result {
            Ok(Truncated { end, dropped, .. }) => {
                let log = shard.logs[number.0].id.clone();
                let durable = shard.edits.submit(vec![Edit::LogFenced { log, until: Some(end) }]);
                shard.work(number, async move {
                    let result = durable.await;
                    Box::new(move |shard: &mut Shard<D>| match result.map_err(VerbError::from) {
                        Ok(()) => {
                            shard.logs[number.0].fence = Some(end);
                            shard.refuse_what_is_fenced(number);
                            shard.seal_head(number, dropped, answer);
                        }
                        Err(error) => {
                            shard.note_broken_cut(number, &error);
                            answer.give(Err(error));
                        }
                    }) as Finish<D>
                });
            }
            Err(error) => answer.give(Err(error)),
        });
    }

    fn cut_at(
        &mut self,
        number: LogNumber,
        end: Offset,
        then: impl FnOnce(&mut Shard<D>, Verdict<Truncated>) + 'static,
    ) {
        let log = &self.logs[number.0];
        let (before, epoch, start) = (log.end, log.epoch, log.start);
        if end < start {
            let error = VerbError::OutOfRange { log: log.id.clone(), requested: end, start, end: before };
            return then(self, Err(error));
        }
        if end >= before {
            return then(self, Ok(Truncated { end: before, dropped: 0, epoch }));
        }
        let plan = self.plan_cut(number, end);
        if let Some(Target::Closed(closed)) = &plan.cut
            && let Some(error) = self.seals.failed.get(&(number, closed.id.seq))
        {
            let error = error.answer(&closed.id); // It has no footer yet.
            return then(self, Err(error));
        }
        let log = &self.logs[number.0];
        let cutting = Cutting {
            disk: self.disk.clone(),
            edits: self.edits.clone(),
            store: self.store,
            life: self.life,
            siblings: self.siblings.clone(),
            host: self.config.host.clone(),
            log: log.id.clone(),
            epoch: Epoch(epoch.0 + 1),
            sealed_at_ms: self.siblings.clock.latest_ms(self.now),
            answers_early: sabotaged!(self.config, CutBeforeEdit),
            begun: Cell::new(false),
            descriptors: self.descriptors.clone(),
        };
        self.logs[number.0].epoch_is_rising = true;
        self.work(number, async move {
            let result = cutting.run(plan).await;
            let begun = cutting.begun.get();
            Box::new(move |shard: &mut Shard<D>| {
                shard.logs[number.0].epoch_is_rising = false;
                let result = result.map(|done| shard.take_cut(number, before, done));
                let result = result.map_err(|error| match error {
                    // More than being refused: it may be durable.
                    VerbError::TooManyOpen { source } if begun => VerbError::Disk(source),
                    error => error,
                });
                match &result {
                    Err(error) if begun => shard.note_broken_cut(number, error),
                    result => shard.heed_failure(result), // Nothing of the log was changed.
                }
                then(shard, result);
            }) as Finish<D>
        });
    }

    fn plan_cut(&self, number: LogNumber, end: Offset) -> Plan {
        let log = &self.logs[number.0];
        let mut plan = Plan { end, start: log.start, cut: None, gone: Vec::new() };
        if let Some(active) = &log.active {
            if active.base < end {
                let file = PreparedFile {
                    id: active.id.clone(),
                    uid: active.uid,
                    generation: active.generation,
                    size: active.size,
                    look_ahead: active.look_ahead,
                    anchored: active.anchored,
                    file: active.file.clone(),
                };
                let (from, to) = (active.index.locate(end), active.durable_end());
                let (base, opened_at_ms) = (active.base, active.opened_at_ms);
                plan.cut = Some(Target::Active { file, base, opened_at_ms, from, to });
                return plan;
            }
            plan.gone.push((active.id.seq, active.uid, active.generation));
        }
        for closed in log.closed.iter().rev() {
            if closed.base < end {
                if closed.end > end {
                    plan.cut = Some(Target::Closed(Box::new(closed.clone())));
                }
                break;
            }
            plan.gone.push((closed.id.seq, closed.uid, closed.generation));
        }
        plan
    }

    fn take_cut(&mut self, number: LogNumber, before: Offset, done: Done) -> Truncated {
        let Done { end, epoch, head, gone } = done;
        let log = &mut self.logs[number.0];
        match head {
            Head::None => {}
            Head::Active(active) => log.active = Some(*active),
            Head::Replaced(replaced) => {
                if let Some(place) = log.closed.iter().position(|closed| closed.id.seq == replaced.id.seq) {
                    log.closed[place] = *replaced;
                }
            }
        }
        // By their files: the segment that was rewritten keeps its number.
        let is_gone = |uid: Uid| gone.iter().any(|(_, gone, _)| *gone == uid);
        log.active.take_if(|active| is_gone(active.uid));
        log.closed.retain(|closed| !is_gone(closed.uid));
        log.epoch = epoch;
        log.marked_end = Offset(0);
        // Receipts for what was dropped are void, also where their offsets are given again.
        log.losses.note(end);
        log.begin_at(end);
        log.stamp_behind_what_is_left();
        log.shared.note_cut();
        let (bytes, commits) = log.shared.tail.clear();
        self.tail_budget.forget(number, bytes, commits);
        self.ahead.forget(number);
        self.answer_waiting(number);
        self.remove_files(number, gone.into_iter().map(Leaving::from));
        self.let_rest(number);
        Truncated { end, dropped: before.since(end), epoch }
    }

    /// A truncation that failed half way may be durable already: the log takes nothing more until it is opened again.
    fn note_broken_cut(&mut self, number: LogNumber, error: &VerbError) {
        self.heed_failure::<()>(&Err(error.clone()));
        let source = match error {
            VerbError::Disk(source) => source.clone(),
            // Refused before it came near the disk.
            VerbError::Manifest(ManifestError::Full { .. } | ManifestError::Latched(_)) => return,
            VerbError::Manifest(error) => super::settle::as_disk_error(error),
            _ => return, // Nothing was changed.
        };
        tracing::error!(log = %self.logs[number.0].id, %source, "a truncation failed half way");
        self.latch_now(number, &source);
    }
}

/// What a truncation needs, owned.
struct Cutting<D> {
    disk: D,
    edits: Edits,
    store: StoreId,
    life: Life,
    siblings: Arc<Siblings>,
    host: Option<SharedHost>,
    log: crate::id::LogId,
    epoch: Epoch,
    sealed_at_ms: u64,
    /// A deliberate defect.
    answers_early: bool,
    /// The edit of the cut was handed in.
    begun: Cell<bool>,
    descriptors: Descriptors,
}

impl<D: Disk> Cutting<D> {
    async fn run(&self, plan: Plan) -> Verdict<Done> {
        // Directory and file, those of the copy, and one where what was never acknowledged is set aside.
        let _room = self.descriptors.room(4).await?;
        let Plan { end, start, cut, mut gone } = plan;
        match cut {
            None => {
                let end = self.give_up(end, &gone, Vec::new()).await?;
                Ok(Done { end, epoch: self.epoch, head: Head::None, gone })
            }
            Some(Target::Active { file, base, opened_at_ms, from, to }) => {
                let end = self.boundary(&file.file, file.uid, (from, to), end, &file.id).await?;
                if end == base || end < start {
                    gone.push((file.id.seq, file.uid, file.generation));
                    // A batch that reaches over the start goes whole, and the log is empty where it starts.
                    let end = self.give_up(end.max(start), &gone, Vec::new()).await?;
                    return Ok(Done { end, epoch: self.epoch, head: Head::None, gone });
                }
                let found = self.survey_cut(&file, base, end).await?;
                // Before anything is durable: later it could not be refused for want of a descriptor.
                let name = layout::directory_name(&file.id);
                let directory = transfer::open_directory(&self.disk, &self.disk.root(), &name).await?;
                mend::set_aside_torn(&self.disk, &directory, &file.file, &found, self.life).await?;
                self.give_up(end, &gone, Vec::new()).await?;
                let active = self.shorten(file, base, opened_at_ms, found).await?;
                Ok(Done { end, epoch: self.epoch, head: Head::Active(Box::new(active)), gone })
            }
            Some(Target::Closed(closed)) => self.cut_closed(*closed, (start, end), gone).await,
        }
    }

    /// Makes the new end durable, with all that goes for it.
    async fn give_up(&self, end: Offset, gone: &[(Seq, Uid, Generation)], more: Vec<Edit>) -> Verdict<Offset> {
        let mut group = vec![Edit::Truncated { log: self.log.clone(), end, epoch: self.epoch }];
        group.extend(more);
        group.extend(gone.iter().map(|(seq, uid, generation)| {
            let segment = crate::id::SegmentId { log: self.log.clone(), seq: *seq };
            Edit::released(&segment, *uid, *generation, ReleaseReason::Expired)
        }));
        self.begun.set(true);
        // Durable first: what is dropped from here on can never be found again by a recovery.
        let durable = self.edits.submit(group);
        if !self.answers_early {
            durable.await?;
        }
        Ok(end)
    }

    async fn boundary(
        &self,
        file: &File,
        uid: Uid,
        span: (Position, Position),
        end: Offset,
        segment: &crate::id::SegmentId,
    ) -> Verdict<Offset> {
        cut::boundary(&self.disk, file, uid, span, end).await.map_err(|error| match error {
            NoCut::Disk(source) => VerbError::Disk(source),
            NoCut::Damaged(position) => VerbError::Damaged { segment: segment.clone(), position },
        })
    }

    /// What will be left of the active segment, and what is behind it. Nothing is cut right behind rot: the end of what verifies lies
    /// before that, and the next append would go over it.
    async fn survey_cut(&self, file: &PreparedFile, base: Offset, end: Offset) -> Verdict<Survey> {
        // Its end is known by the cut. Said as the end of the segment, it would hide what was dropped far behind it.
        let expected = Expected {
            uid: file.uid,
            base,
            end: None,
            size: file.size,
            look_ahead: file.look_ahead,
            cut: Some(Cut { end, epoch: self.epoch }),
        };
        let found = survey::survey(&self.disk, &file.file, &expected).await?;
        match found.damage.iter().find(|damage| damage.to >= end) {
            Some(damage) => Err(VerbError::Damaged { segment: file.id.clone(), position: damage.position }),
            None => Ok(found),
        }
    }

    /// Clears what was dropped of the active segment, durably, and goes on behind what is left.
    async fn shorten(&self, file: PreparedFile, base: Offset, opened_at_ms: u64, found: Survey) -> Verdict<Active> {
        mend::clear_torn(&self.disk, &file.file, &found).await?;
        let Survey { tail, index, store_times_ms, .. } = found;
        Ok(Active::resume(file, base, opened_at_ms, Found { tail, index, store_times_ms }))
    }

    /// Rewrites a sealed segment up to `end` as a new generation. The old file goes when the manifest knows the new one.
    async fn cut_closed(
        &self,
        closed: Closed,
        (start, end): (Offset, Offset),
        mut gone: Vec<(Seq, Uid, Generation)>,
    ) -> Verdict<Done> {
        if !closed.sealed {
            return Err(VerbError::Damaged { segment: closed.id, position: Position(0) });
        }
        let loaded = closed.load(&self.disk).await?;
        let span = (loaded.index.locate(end), loaded.data_end);
        let end = self.boundary(&loaded.file, closed.uid, span, end, &closed.id).await?;
        if end == closed.base || end < start {
            gone.push((closed.id.seq, closed.uid, closed.generation));
            let end = self.give_up(end.max(start), &gone, Vec::new()).await?;
            return Ok(Done { end, epoch: self.epoch, head: Head::None, gone });
        }
        // Retention may have given it up in the host's list: what is rewritten then would be an orphan.
        if let Some(host) = &self.host {
            let (answer, answered) = crate::pending::pair();
            host.0.register(&closed.id, answer);
            let refused = |refusal: Refusal| VerbError::Host { segment: closed.id.clone(), reason: refusal.reason };
            answered.await.map_err(refused)?;
        }
        let newest = self.siblings.removal.going.newest(&closed.id).max(Some(closed.generation)).unwrap_or_default();
        let next = Closed {
            uid: Uid(self.disk.random()),
            generation: Generation(newest.0 + 1),
            end,
            loaded: None,
            sealed_at_ms: self.sealed_at_ms,
            anchored: false,
            ..closed.clone()
        };
        // Given up before it is there: whatever comes between, the file is removed unless the segment stands in it.
        let made = Edit::released(&next.id, next.uid, next.generation, ReleaseReason::Orphan);
        self.edits.submit(vec![made]).await?;
        let failures = self.siblings.failures.count();
        let footer = self.rewrite(&closed, &loaded.file, loaded.data_end, &next, end).await?;
        // A flush that failed meanwhile, of whatever file, may have dropped what was written here; the sync after it answers well all the
        // same. The old file is still there, and stays.
        if let Some((_, source)) = self.siblings.failures.since(failures) {
            return Err(VerbError::Disk(source));
        }
        let next = Closed { logical_bytes: footer.logical_bytes(), latest: Latest::of(&footer), ..next };
        let replaced = Edit::Replaced {
            segment: next.id.clone(),
            uid: next.uid,
            generation: next.generation,
            size: next.size,
            look_ahead: next.look_ahead,
            written: false,
            base: next.base,
            end,
            opened_at_ms: next.opened_at_ms,
            logical_bytes: next.logical_bytes,
            first_store_time_ms: footer.first_store_time_ms,
            last_store_time_ms: footer.last_store_time_ms,
            sealed_at_ms: self.sealed_at_ms,
        };
        let old = Edit::released(&closed.id, closed.uid, closed.generation, ReleaseReason::Superseded);
        self.give_up(end, &gone, vec![Edit::Gone { uid: next.uid }, replaced, old]).await?;
        gone.push((closed.id.seq, closed.uid, closed.generation));
        let head = Head::Replaced(Box::new(next));
        Ok(Done { end, epoch: self.epoch, head, gone })
    }

    async fn rewrite(
        &self,
        closed: &Closed,
        from: &File,
        data_end: Position,
        next: &Closed,
        end: Offset,
    ) -> Verdict<SegmentFooter> {
        let name = layout::directory_name(&closed.id);
        let directory = transfer::open_directory(&self.disk, &self.disk.root(), &name).await?;
        let name = layout::data_file_name(next.generation);
        match transfer::unlink(&self.disk, &directory, &name).await {
            Err(error) if !error.is_absent() => return Err(error.into()),
            _ => {} // Left over from a process that died before the manifest knew it.
        }
        let to = transfer::open(&self.disk, &directory, &name, OpenFile::New, Access::Auto).await?;
        transfer::allocate(&self.disk, &to, next.size).await?;
        let header = SegmentHeader {
            uid: next.uid,
            store: self.store,
            state: SegmentState::Live,
            segment: next.id.clone(),
            generation: next.generation,
            base: next.base,
            opened_at_ms: next.opened_at_ms,
            epoch: self.epoch,
            size: next.size,
            look_ahead: next.look_ahead,
        };
        let footer =
            rewrite::rewrite(&self.disk, (from, closed.uid), data_end, (&to, &header), end, self.sealed_at_ms).await;
        let footer = footer.map_err(|error| match error {
            NotRewritten::Disk(source) => VerbError::Disk(source),
            NotRewritten::Damaged(position) => VerbError::Damaged { segment: closed.id.clone(), position },
        })?;
        // Its length, its extents and its name: without them the file could be gone when the manifest knows it.
        transfer::sync(&self.disk, &to).await?;
        transfer::sync_directory(&self.disk, &directory).await?;
        Ok(footer)
    }
}
