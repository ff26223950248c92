//! The remover: takes what the shards give up, and gives it to the pool or back to the file system, on a disk of its own.
//!
//! What can be used again goes first: that costs a block and a rename, and appends wait for it. All else is shrunk in steps at the rate
//! that the governor allows, unlinked in batches, and forgotten by the manifest when the names are durably gone. Between two steps it looks for
//! what came in. What fails is put off, for longer each time, and keeps nothing else waiting.

use super::exchange::Exchange;
use super::filler::Filler;
use super::going::Outgoing;
use super::governor::{Allowed, Governor};
use super::pressure::{self, MarksWanted, Stage};
use super::recycle::{self, Recyclable};
use super::release::{self, Blocks, Doomed, Found, Removing, Taken};
use super::scrubber::{ScrubSettings, Scrubber};
use super::spares::Spare;
use super::trash::{self, Removed};
use super::watch::{Room, Watch};
use crate::config::{CheckedConfig, Preallocate, Removal};
use crate::format::manifest::Edit;
use crate::id::StoreId;
use crate::manifest::{Edits, ManifestError};
use futures_util::future::{Either, join_all, select};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use strandline_disk::{Directory, Disk, DiskError, transfer};

/// So many files are made spare ones at once.
const RECYCLED_AT_ONCE: usize = 16;
/// So many orphans share a sync of the trash, and an edit, at most.
const EMPTIED_AT_ONCE: usize = 4_096;
/// What each name of an orphan costs of the rate at least, in bytes: an unlink takes its time however small the file is.
const NAME_BYTES: u64 = 64 << 10;
/// After so many bytes that were cut off a file it is synced: discards follow the commits of the journal, and would come in bursts.
const SYNC_EVERY_BYTES: u64 = 16 << 20;
/// How long a file rests after the first attempt that failed, and at most.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(300);

/// How often it looks whether appends leave room for the next burst of filling.
const FILL_LOOK: Duration = Duration::from_millis(10);

/// How long it looks at the commits before it frees bytes.
const CALM_LOOK: Duration = Duration::from_millis(200);

/// How files are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// At the rate that the governor allows; else at once, whatever appends say.
    pub governed: bool,
    /// Most files that are unlinked at once.
    pub batch: usize,
    /// Files of each size that are made ahead where segments ask for more than come back.
    pub spares_min: usize,
    /// Bytes a second that are read again.
    pub scrub_bytes_per_second: u64,
    /// What the governor may do.
    pub allowed: Allowed,
    /// How much room the disk should have.
    pub room: Room,
}

impl Settings {
    /// As the configuration has it.
    #[must_use]
    pub fn of(config: &CheckedConfig) -> Settings {
        let (budget_ns, rate_min) = (config.removal_budget.as_nanos() as u64, config.removal_bytes_per_second_min);
        let governed = config.removal == Removal::Governed;
        let room = Room { wanted: MarksWanted::of(config), reserve_bytes: config.reserve_bytes };
        Settings {
            governed,
            batch: config.removal_batch,
            spares_min: if config.preallocate == Preallocate::Written { config.spare_files_min } else { 0 },
            scrub_bytes_per_second: config.scrub_bytes_per_second,
            allowed: Allowed { budget_ns, rate_min },
            room,
        }
    }

    fn scrub(&self) -> ScrubSettings {
        let Settings { governed, scrub_bytes_per_second: rate, allowed, .. } = *self;
        ScrubSettings { governed, rate, budget_ns: allowed.budget_ns }
    }
}

/// Is told of flushes that failed.
pub type Alarm = Box<dyn Fn(&DiskError)>;

/// Takes what was given up, and removes it.
pub struct Remover<D: Disk> {
    disk: D,
    edits: Edits,
    store: StoreId,
    exchange: Arc<Exchange>,
    settings: Settings,
    alarm: Alarm,
    governor: Governor,
    watch: Watch<D>,
    /// Files to be unlinked, the first of them opened, and those of them that need no more shrinking.
    backlog: VecDeque<Attempt>,
    opened: VecDeque<(Attempt, Doomed)>,
    shrunk: Vec<(Attempt, Option<Doomed>)>,
    /// The trash, and orphans of it that are gone, though not yet durably.
    trash: Option<Directory>,
    emptied: Vec<Attempt>,
    /// Files that rest after an attempt that failed.
    later: Vec<(u64, Attempt)>,
    filler: Filler<D>,
    scrubber: Scrubber<D>,
    /// Something is being removed.
    busy: bool,
    /// When the next step may come, and how much was cut off since the last sync.
    next_ns: u64,
    unsynced: u64,
}

/// A file, and how often its removal has failed.
struct Attempt {
    file: Outgoing,
    failures: u32,
    /// There was no room for its way into the pool.
    in_place: bool,
}

impl<D: Disk> Remover<D> {
    /// Begins with nothing.
    pub fn new(
        disk: D,
        (store, edits): (StoreId, Edits),
        exchange: Arc<Exchange>,
        settings: Settings,
        alarm: Alarm,
    ) -> Remover<D> {
        let governor = Governor::new(settings.allowed);
        let watch = Watch::new(disk.clone(), store, exchange.clone(), settings.room);
        let filler = Filler::new(disk.clone(), store, exchange.clone(), settings.spares_min);
        let scrubber = Scrubber::new(disk.clone(), exchange.clone(), settings.scrub());
        Remover {
            disk,
            edits,
            store,
            exchange,
            settings,
            alarm,
            governor,
            watch,
            backlog: VecDeque::new(),
            opened: VecDeque::new(),
            shrunk: Vec::new(),
            trash: None,
            emptied: Vec::new(),
            later: Vec::new(),
            filler,
            scrubber,
            busy: false,
            next_ns: 0,
            unsynced: 0,
        }
    }

    /// Removes what comes in until the inbox is closed. What is left then is removed after the next open.
    ///
    /// # Errors
    /// The manifest takes no more edits: nothing can be forgotten any more.
    pub async fn run(mut self) -> Result<(), ManifestError> {
        let ended = self.work().await;
        // Nobody takes anything out any more: whoever waits for what is in it learns that.
        self.exchange.close();
        ended
    }

    async fn work(&mut self) -> Result<(), ManifestError> {
        loop {
            self.wait().await;
            self.watch_the_room().await;
            self.take_in().await?;
            if self.exchange.inbox.is_closed() {
                return Ok(());
            }
            if self.has_work() {
                self.free_some().await?;
            } else {
                self.fill_some().await;
                self.scrubber.work().await;
            }
            self.say();
        }
    }

    fn has_work(&self) -> bool {
        !(self.is_through() && self.emptied.is_empty()) || self.watch.has_work()
    }

    /// There is no file to open, to shrink or to unlink.
    fn is_through(&self) -> bool {
        self.backlog.is_empty() && self.opened.is_empty() && self.shrunk.is_empty()
    }

    /// Looks how much room there is, when it is time to. The less there is, the faster files go.
    async fn watch_the_room(&mut self) {
        if let Err(error) = self.watch.look().await {
            (self.alarm)(&error);
        }
        if let Some(rate_min) = pressure::rate_min(self.exchange.gauge.stage(), self.settings.allowed.rate_min) {
            self.governor.set_rate_min(rate_min);
        }
        if self.watch.has_work() {
            self.say(); // Whoever looks sees at once that there is something to do.
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) {
        if self.has_work() || self.watch.due_ns().is_some_and(|due_ns| due_ns <= self.now_ns()) {
            return;
        }
        if std::mem::take(&mut self.busy) {
            self.governor.end(self.exchange.latencies.seen());
            self.say();
        }
        let exchange = self.exchange.clone();
        // While one segment is read the next is not asked after: what waits would be ready over and over.
        let is_scrubbing = self.scrubber.rests_for().is_some();
        let ready = pin!(std::future::poll_fn(move |context| {
            let is_ready = exchange.inbox.poll_ready(context).is_ready();
            let is_asked = !is_scrubbing && exchange.scrubs.poll_ready(context).is_ready();
            if is_ready || is_asked { Poll::Ready(()) } else { Poll::Pending }
        }));
        let due = self.later.iter().map(|(at_ns, _)| *at_ns).chain(self.watch.due_ns()).min();
        let retry = due.map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(self.now_ns())));
        let look = self.filler.has_work().then_some(FILL_LOOK);
        let scrub = self.scrubber.rests_for();
        match retry.into_iter().chain(look).chain(scrub).min() {
            None => ready.await,
            Some(rest) => match select(ready, pin!(transfer::sleep(&self.disk, rest))).await {
                Either::Left(_) | Either::Right(_) => {}
            },
        }
    }

    /// Takes what came in. What the pool may take is made a spare file at once.
    async fn take_in(&mut self) -> Result<(), ManifestError> {
        let now_ns = self.now_ns();
        let due = self.later.extract_if(.., |(at_ns, _)| *at_ns <= now_ns).map(|(_, attempt)| attempt);
        self.backlog.extend(due);
        let mut quick = Vec::new();
        while let Some(file) = self.exchange.inbox.take() {
            let attempt = Attempt { file, failures: 0, in_place: false };
            match attempt.file.given.blocks {
                Some(Blocks { size, .. }) if self.exchange.spares.may_take(size) => quick.push(attempt),
                _ => self.backlog.push_back(attempt),
            }
            if quick.len() == RECYCLED_AT_ONCE {
                self.look_at(std::mem::take(&mut quick)).await?;
            }
        }
        self.look_at(quick).await
    }

    /// Looks at files, and does at once what makes them spare ones.
    async fn look_at(&mut self, attempts: Vec<Attempt>) -> Result<(), ManifestError> {
        let found = self.examine(attempts).await;
        self.sort(found).await
    }

    /// Makes spare files of these. Of several at once the directories are synced once.
    async fn recycle(&mut self, fit: Vec<(Attempt, Box<Recyclable>)>) -> Result<(), ManifestError> {
        if fit.is_empty() {
            return Ok(());
        }
        let pool = match recycle::pool(&self.disk).await {
            Ok(pool) => pool,
            Err(error) => {
                for (attempt, recyclable) in fit {
                    self.exchange.spares.give_room_back(recyclable.blocks.size);
                    self.put_off(attempt, &error);
                }
                return Ok(());
            }
        };
        let (disk, store, into) = (&self.disk, self.store, &pool);
        let moved = join_all(fit.into_iter().map(|(attempt, recyclable)| async move {
            let segment = &attempt.file.given.record.segment;
            let spared = async {
                let spare = recycle::destroy(disk, store, segment, &recyclable).await?;
                recycle::move_in(disk, into, spare, &recyclable).await?;
                Ok(spare)
            };
            (spared.await, recyclable.blocks.size, attempt)
        }));
        let mut spared = Vec::new();
        for (result, size, attempt) in moved.await {
            match result {
                Ok(spare) => spared.push((attempt, spare)),
                Err(error) => {
                    self.exchange.spares.give_room_back(size);
                    self.put_off(attempt, &error);
                }
            }
        }
        self.forget_spared(spared, &pool).await
    }

    /// Makes their new places durable, and has the manifest forget the old ones. Only then may they be used.
    async fn forget_spared(&mut self, spared: Vec<(Attempt, Spare)>, pool: &Directory) -> Result<(), ManifestError> {
        if spared.is_empty() {
            return Ok(());
        }
        let give_back = |spared: &[(Attempt, Spare)]| {
            spared.iter().for_each(|(_, spare)| self.exchange.spares.give_room_back(spare.size));
        };
        let synced = async {
            transfer::sync_directory(&self.disk, pool).await?;
            transfer::sync_directory(&self.disk, &self.disk.root()).await
        };
        if let Err(error) = synced.await {
            give_back(&spared);
            spared.into_iter().for_each(|(attempt, _)| self.put_off(attempt, &error));
            return Ok(());
        }
        if let Err(error) = self.submit(spared.iter().map(|(attempt, _)| attempt)).await {
            give_back(&spared);
            return Err(error);
        }
        spared.into_iter().for_each(|(_, spare)| self.exchange.spares.put(spare));
        Ok(())
    }

    /// One step of freeing bytes: opens some files, or cuts a piece off one, or unlinks those that are small by now.
    async fn free_some(&mut self) -> Result<(), ManifestError> {
        if !std::mem::replace(&mut self.busy, true) || self.governor.wants_calm(self.now_ns()) {
            self.look_before().await;
        }
        let step = if self.settings.governed { self.governor.step_bytes() } else { u64::MAX };
        if self.watch.has_work() {
            match self.watch.give_back(step).await {
                Ok(freed) => self.pace(freed).await,
                Err(error) => (self.alarm)(&error),
            }
            return Ok(());
        }
        if self.emptied.len() >= EMPTIED_AT_ONCE || (self.is_through() && !self.emptied.is_empty()) {
            return self.forget_emptied().await;
        }
        if self.opened.is_empty() && self.shrunk.is_empty() {
            let next = self.backlog.len().min(self.settings.batch);
            let attempts = self.backlog.drain(..next).collect();
            self.look_at(attempts).await?;
        }
        match self.opened.pop_front() {
            Some((attempt, doomed)) if doomed.file.is_some() && doomed.bytes > step => {
                self.shrink(attempt, doomed, step).await;
                Ok(())
            }
            next => {
                self.shrunk.extend(next.map(|(attempt, doomed)| (attempt, Some(doomed))));
                let bytes: u64 = self.shrunk.iter().flat_map(|(_, doomed)| doomed).map(|doomed| doomed.bytes).sum();
                let is_enough = self.shrunk.len() >= self.settings.batch || bytes >= step;
                if is_enough || self.opened.is_empty() { self.unlink(bytes).await } else { Ok(()) }
            }
        }
    }

    /// Makes files ahead, a burst at a time.
    async fn fill_some(&mut self) {
        if let Err(error) = self.filler.burst().await {
            tracing::warn!(%error, "a file could not be made ahead: segments make their own");
            if error.is_failed_flush() {
                (self.alarm)(&error);
            }
        }
        self.watch.take_over(self.filler.take_given_up());
    }

    /// Looks for a moment what commits take while nothing is removed: what they took long ago may have been other work.
    async fn look_before(&mut self) {
        if self.settings.governed && self.exchange.gauge.stage() < Stage::Hard {
            self.governor.end(self.exchange.latencies.seen());
            let _ = transfer::sleep(&self.disk, CALM_LOOK).await;
        }
        self.governor.begin(self.exchange.latencies.seen(), self.now_ns());
    }

    async fn shrink(&mut self, attempt: Attempt, mut doomed: Doomed, step: u64) {
        let from_ns = self.now_ns();
        let shrunk = doomed.shrink(&self.disk, step).await;
        self.governor.stepped(step, self.now_ns().saturating_sub(from_ns));
        self.unsynced += step;
        let result = match (shrunk, &doomed.file) {
            (Ok(freed), Some(file)) if self.unsynced >= SYNC_EVERY_BYTES => {
                self.unsynced = 0;
                transfer::sync(&self.disk, file).await.map(|()| freed)
            }
            (shrunk, _) => shrunk,
        };
        match result {
            Ok(freed) => {
                self.exchange.done.bytes.fetch_add(freed, Ordering::Relaxed);
                self.opened.push_front((attempt, doomed));
                self.pace(freed).await;
            }
            Err(error) => self.put_off(attempt, &error),
        }
    }

    /// Unlinks what is small enough, makes that durable, and has the manifest forget it.
    async fn unlink(&mut self, bytes: u64) -> Result<(), ManifestError> {
        let disk = &self.disk;
        let unlinked = join_all(std::mem::take(&mut self.shrunk).into_iter().map(|(attempt, doomed)| async move {
            let Some(mut doomed) = doomed else { return (attempt, (0, 0), Ok(Taken::Directory)) };
            let taken = doomed.unlink(disk).await;
            (attempt, (doomed.files(), doomed.bytes), taken)
        }));
        let (mut gone, mut stays, mut freed, mut names) = (Vec::new(), Vec::new(), 0, 0);
        for (attempt, (files, bytes), taken) in unlinked.await {
            match taken {
                Ok(_) if attempt.file.orphan.is_some() => {
                    self.exchange.done.files.fetch_add(files, Ordering::Relaxed);
                    self.exchange.done.bytes.fetch_add(bytes, Ordering::Relaxed);
                    names += files + 1;
                    self.emptied.push(attempt);
                }
                Ok(taken) => {
                    freed += bytes;
                    gone.push(attempt);
                    stays.extend(match taken {
                        Taken::Directory => None,
                        Taken::File(directory) => Some(directory),
                    });
                }
                Err(error) => self.put_off(attempt, &error),
            }
        }
        let bytes = bytes.max(names * NAME_BYTES);
        if gone.is_empty() {
            if names > 0 {
                self.pace(bytes).await;
            }
            return Ok(());
        }
        // Without these syncs the names could come back after the manifest has forgotten them.
        stays.push(self.disk.root());
        let synced = join_all(stays.iter().map(|directory| transfer::sync_directory(&self.disk, directory))).await;
        if let Some(error) = synced.into_iter().find_map(Result::err) {
            gone.into_iter().for_each(|attempt| self.put_off(attempt, &error));
            return Ok(());
        }
        self.submit(gone.iter()).await?;
        self.exchange.done.files.fetch_add(gone.len() as u64, Ordering::Relaxed);
        self.exchange.done.bytes.fetch_add(freed, Ordering::Relaxed);
        drop(gone);
        self.watch.note_room();
        self.pace(bytes).await;
        Ok(())
    }

    /// Makes it durable that orphans are gone, and has the manifest forget them.
    async fn forget_emptied(&mut self) -> Result<(), ManifestError> {
        let emptied = std::mem::take(&mut self.emptied);
        let synced = async {
            // Without this they could come back after the manifest has forgotten them.
            transfer::sync_directory(&self.disk, &trash::open(&self.disk).await?).await
        };
        if let Err(error) = synced.await {
            emptied.into_iter().for_each(|attempt| self.put_off(attempt, &error));
            return Ok(());
        }
        self.submit(emptied.iter()).await?;
        emptied.into_iter().for_each(|attempt| attempt.file.end(Removed::Gone));
        self.watch.note_room();
        Ok(())
    }

    /// Looks at several files at once. What cannot be looked at is put off.
    async fn examine(&mut self, attempts: Vec<Attempt>) -> Vec<(Attempt, Found)> {
        if self.trash.is_none() && attempts.iter().any(|attempt| attempt.file.orphan.is_some()) {
            self.trash = trash::open(&self.disk).await.ok();
        }
        let (store, spares, trash) = (self.store, &self.exchange.spares, &self.trash);
        let disk = &self.disk;
        let looks = attempts.into_iter().map(|attempt| async move {
            let Outgoing { given, orphan, .. } = &attempt.file;
            let removing = Removing { store, spares, in_place: attempt.in_place };
            let found = match orphan {
                Some(orphan) => trash::examine(disk, trash.as_ref(), given.uid, orphan).await,
                None => release::examine(disk, removing, given).await,
            };
            (attempt, found)
        });
        let mut found = Vec::new();
        for (attempt, result) in join_all(looks).await {
            match result {
                Ok(what) => found.push((attempt, what)),
                Err(error) => self.put_off(attempt, &error),
            }
        }
        found
    }

    /// Puts files where their next step is done; what is fit for the pool goes there.
    async fn sort(&mut self, found: Vec<(Attempt, Found)>) -> Result<(), ManifestError> {
        let mut fit = Vec::new();
        for (attempt, found) in found {
            match found {
                Found::Spare(recyclable) => fit.push((attempt, recyclable)),
                Found::Doomed(doomed) => self.opened.push_back((attempt, doomed)),
                Found::Gone => self.shrunk.push((attempt, None)),
                Found::Kept(reason) if attempt.file.orphan.is_some() => attempt.file.end(Removed::Kept(reason)),
                Found::Kept(reason) => {
                    let record = &attempt.file.given.record;
                    tracing::warn!(segment = %record.segment, generation = %record.generation, reason, "a released file was left alone");
                }
            }
        }
        self.recycle(fit).await
    }

    /// An attempt failed. It is made again later, unless it was a flush: what that took along nobody knows, and the next open looks.
    fn put_off(&mut self, Attempt { file, failures, in_place }: Attempt, error: &DiskError) {
        self.exchange.done.failures.fetch_add(1, Ordering::Relaxed);
        if file.orphan.is_some() {
            if error.is_failed_flush() {
                (self.alarm)(error);
            }
            // Whoever let it go tries again, when he is told to.
            return file.end(Removed::Kept(error.to_string()));
        }
        let segment = &file.given.record.segment;
        if error.is_failed_flush() {
            tracing::warn!(%segment, %error, "a released file could not be removed; it is tried again at the next open");
            return (self.alarm)(error);
        }
        let full = error.is_full();
        if full {
            self.watch.note_refusal();
        }
        // With what the reserve gives back it may go at once.
        let rest = match failures {
            0 if full => Duration::ZERO,
            failures => RETRY_FIRST.saturating_mul(1 << failures.min(16)).min(RETRY_MAX),
        };
        tracing::warn!(%segment, %error, ?rest, "a released file could not be removed; it is tried again");
        let at_ns = self.now_ns().saturating_add(rest.as_nanos() as u64);
        let (failures, in_place) = (failures.saturating_add(1), in_place || full);
        self.later.push((at_ns, Attempt { file, failures, in_place }));
    }

    /// Has the manifest forget files, durably.
    async fn submit<'a>(&self, attempts: impl Iterator<Item = &'a Attempt>) -> Result<(), ManifestError> {
        let edits = attempts.map(|attempt| Edit::Gone { uid: attempt.file.given.uid }).collect();
        let forgotten = self.edits.submit(edits).await;
        if let Err(ManifestError::Disk(source) | ManifestError::Latched(source)) = &forgotten {
            (self.alarm)(source);
        }
        forgotten
    }

    /// Rests after so many bytes were freed, as the governor says.
    async fn pace(&mut self, bytes: u64) {
        if !self.settings.governed || self.exchange.gauge.stage() == Stage::Hard {
            return;
        }
        let now_ns = self.now_ns();
        if self.governor.wants_to_look(now_ns) {
            self.governor.look(self.exchange.latencies.seen(), now_ns);
        }
        // The time that the step itself took counts.
        let pause_ns = self.governor.pause(bytes).as_nanos() as u64;
        self.next_ns = self.next_ns.max(now_ns.saturating_sub(pause_ns)).saturating_add(pause_ns);
        // A sleep that fails makes it a little faster for once.
        let _ = transfer::sleep(&self.disk, Duration::from_nanos(self.next_ns.saturating_sub(now_ns))).await;
    }

    /// Says in numbers how far it has come.
    fn say(&self) {
        let waiting =
            self.backlog.len() + self.opened.len() + self.shrunk.len() + self.emptied.len() + self.later.len();
        let waiting = waiting + self.watch.waiting();
        let done = &self.exchange.done;
        done.waiting.store(waiting as u64, Ordering::Relaxed);
        done.resting.store(self.later.len() as u64, Ordering::Relaxed);
        done.held_back.store(self.governor.held_back(), Ordering::Relaxed);
        done.rate.store(self.governor.rate(), Ordering::Relaxed);
    }

    fn now_ns(&self) -> u64 {
        self.disk.now().boot_ns
    }
}
