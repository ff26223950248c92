//! The machine: a simulated world, the store that runs on it, and the model beside it. It does steps and checks every answer.

use super::checker;
use super::files::Disk;
use super::model::Seen;
use super::model::{Model, Sent};
use super::random::Random;
use super::running::{AskedLog, AskedRead, Opening, Running, TURNS_MAX, open};
use super::step::Step;
use super::violation::{Checked, broken, ensure};
use std::time::Duration;
use strandline::batch::{Batch, BatchBuilder, BatchLimits, Record, StoredBatch};
use strandline::config::{CheckedConfig, Config};
use strandline::shard::Turned;
use strandline::{Level, Offset, ReadAnswer, ReadError};
use strandline_disk::sim::SimWorld;

/// Is called for every turn with the world as it stood when all was started and nothing had landed, and the model: to take crash
/// images, or only to count.
pub type Observer = Box<dyn FnMut(&SimWorld, &Model) -> Checked>;

/// A machine with a store.
pub struct Machine {
    /// The medium and everything below the process.
    pub world: SimWorld,
    /// The configuration of the next open.
    pub config: CheckedConfig,
    /// What the store must hold.
    pub model: Model,
    /// The process, while one lives.
    pub running: Option<Running>,
    /// Faults are about: operations may answer errors. What was promised holds all the same.
    pub tolerant: bool,
    /// Called for every turn.
    pub observer: Option<Observer>,
    pub(super) serial: u64,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Machine({:?}, {} held)", self.running, self.model.held())
    }
}

/// A small configuration: segments of 64 KiB roll often.
#[must_use]
pub fn small() -> Config {
    let mut config = Config::new("sim");
    config.segment_bytes = 64 << 10;
    config.batch_bytes_max = 6 << 10;
    config.commit_bytes_max = 16 << 10;
    config.read_bytes_max = 64 << 10;
    config.arena_bytes = 1 << 20;
    config.manifest_bytes = 64 << 10;
    config.logs_max = 256;
    config.outstanding_max = 256;
    config.idle_mark_after = Duration::from_millis(2);
    config.flush_bytes = 8 << 10;
    config.tail_cache_bytes = 0;
    config.segment_max_age = None;
    // Where nothing happens time jumps to whatever is due next: a log would be roused before most steps.
    config.idle_close_after = None;
    // Those tests that are about them want them.
    config.spare_files_min = 0;
    // What a full disk answers is looked at where a test limits the room, not what the store does so that it does not fill.
    (config.free_soft_bytes, config.free_hard_bytes, config.reserve_bytes) = (Some(0), Some(0), 0);
    config
}

impl Machine {
    /// A machine without a store, on which nothing runs yet.
    ///
    /// # Panics
    /// When the configuration cannot work.
    #[must_use]
    pub fn new(seed: u64, config: Config) -> Machine {
        let world = SimWorld::new(seed);
        world.set_pool_bytes(config.arena_bytes);
        Machine::on(world, config.check().expect("the configuration of a test"), Model::default())
    }

    /// A machine on which a process has died, with what its store must hold.
    #[must_use]
    pub fn on(world: SimWorld, config: CheckedConfig, model: Model) -> Machine {
        // Serials of an earlier machine are below this, so that a payload is never made twice.
        let serial = 1 + model.logs.iter().flat_map(|log| &log.held).map(|held| held.sent.serial).max().unwrap_or(0);
        let waiting = model.logs.iter().flat_map(|log| &log.waiting).map(|sent| sent.serial).max().unwrap_or(0);
        let serial = serial.max(waiting + 1) + 1_000_000;
        Machine { world, config, model, running: None, tolerant: false, observer: None, serial }
    }

    /// The process.
    ///
    /// # Panics
    /// When none lives.
    pub fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("the store is open")
    }

    /// Does some steps, one after the other.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn run(&mut self, steps: &[Step]) -> Checked {
        steps.iter().try_for_each(|step| self.apply(*step))
    }

    /// Does one step.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn apply(&mut self, step: Step) -> Checked {
        if std::env::var_os("STRANDLINE_STEPS").is_some() {
            eprintln!("{step:?}");
        }
        match step {
            Step::OpenLog(log) => self.ask_log(log),
            Step::Append { log, batches, records, bytes } => {
                (0..batches).try_for_each(|_| self.ask_append(log, records, bytes, Level::Durable))
            }
            Step::AppendAt { log, batches, records, bytes, level } => {
                (0..batches).try_for_each(|_| self.ask_append(log, records, bytes, level))
            }
            Step::UntilDurable { log, now } => {
                let version = self.model.log(log).version;
                let asked = self.running().until_durable(log, now, version);
                self.running().durable.extend(asked);
                Ok(())
            }
            Step::Follow { log, records, bytes, off } => self.ask_follow(log, records, bytes, off),
            Step::Verb { log, ask } => self.ask_verb(log, ask),
            Step::DeleteSegment { log, place } => self.delete_segment(log, place),
            Step::RebuildIndex { log, place } => self.rebuild_index(log, place),
            Step::ReadPastDurable { log } => self.ask_read_past_durable(log),
            Step::Read { log, per_mille, bytes } => self.ask_read(log, per_mille, bytes),
            Step::Turn(turns) => (0..turns).try_for_each(|_| self.turn().map(drop)),
            Step::Answer => self.answer_all(),
            Step::Idle => self.idle(),
            Step::Jump(delta_ms) => {
                self.world.jump_clock(delta_ms);
                Ok(())
            }
            Step::LetPass(ms) => {
                self.world.let_pass(ms);
                Ok(())
            }
            Step::Reopen => {
                self.close()?;
                self.recover(None)
            }
            Step::Kill { again_after } => {
                self.go_to_a_moment()?;
                self.kill()?;
                if let Some(turns) = again_after
                    && !self.start(Some(turns))?
                {
                    self.world.kill();
                }
                self.crash_if_running(|world| world.kill())?;
                self.recover(None)
            }
            Step::PowerFailure { loss, again_after } => {
                self.go_to_a_moment()?;
                self.crash(|world| world.power_failure(loss))?;
                if let Some(turns) = again_after
                    && !self.start(Some(turns))?
                {
                    self.world.power_failure(loss);
                }
                self.crash_if_running(|world| world.power_failure(loss))?;
                self.recover(None)
            }
        }
    }

    /// Opens the store and checks that it holds what it must.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn open(&mut self) -> Checked {
        self.recover(None)
    }

    /// Opens the store without looking at what it holds. False when it was stopped after `turns`.
    ///
    /// # Errors
    /// When it does not open.
    pub fn start(&mut self, turns: Option<usize>) -> Checked<bool> {
        assert!(self.running.is_none(), "one process at a time");
        // The lock of a dead process is free only when its writes have landed.
        self.world.land_strays();
        let (world, model, observer) = (&self.world, &self.model, &mut self.observer);
        world.keep_moments(observer.is_some());
        let seen = || match (observer.as_mut(), world.take_moment()) {
            (Some(observer), Some(moment)) => observer(&moment, model),
            _ => Ok(()),
        };
        match open(world, &self.config, turns, seen)? {
            Opening::Serves(running) => {
                self.running = Some(*running);
                Ok(true)
            }
            Opening::Stopped => Ok(false),
            Opening::Refused(_) if self.tolerant => Ok(false),
            Opening::Refused(error) => broken("the store opens after any crash", error.to_string()),
        }
    }

    /// Opens the store and checks all that it holds. Under faults it may fail; then it is tried again without them.
    fn recover(&mut self, turns: Option<usize>) -> Checked {
        let opened = self.start(turns)?;
        if opened && self.check_recovered()? {
            return Ok(());
        }
        ensure(self.tolerant, "the store opens after any crash", || "it could not be read".to_owned())?;
        self.world.clear_faults();
        self.world.kill();
        self.crash_if_running(|_| {})?;
        self.tolerant = false;
        let recovered = self.recover(None);
        self.tolerant = true;
        recovered
    }

    /// Checks the files and every log after an open. False when a fault kept it from being read.
    fn check_recovered(&mut self) -> Checked<bool> {
        let disk = Disk::look(&self.world, &self.config)?;
        let strays = self.running().report.strays.clone();
        checker::files_are_explained(&disk, &strays)?;
        if !self.tolerant {
            checker::the_tail_is_dead(&disk)?;
        }
        for log in 0..self.model.logs.len() {
            let id = self.model.logs[log].id.clone();
            let Some(record) = disk.state().logs.get(&id) else {
                self.model.missing(log)?;
                continue;
            };
            ensure(!self.model.logs[log].gone, "a log that was deleted stays gone", || id.to_string())?;
            self.model.logs[log].was_not_deleted();
            let (epoch, fence) = (record.epoch.0, record.fence);
            if !self.check_log(log, epoch, fence)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_log(&mut self, log: usize, epoch: u64, fence: Option<Offset>) -> Checked<bool> {
        self.ask_log(log)?;
        self.answer_all()?;
        let Some((_, opened)) = self.running().opened.get(&log) else { return Ok(false) };
        let bounds = opened.shared.bounds();
        let Some(read) = self.read_all(log, bounds.start)? else { return Ok(false) };
        let seen = Seen { start: bounds.start, end: bounds.end, epoch, fence };
        self.model.recovered(log, &read, &seen)?;
        let Some(before) = bounds.start.0.checked_sub(1) else { return Ok(true) };
        match self.read(log, Offset(before), 100)? {
            Err(ReadError::OutOfRange { earliest, .. }) if earliest == bounds.start => Ok(true),
            answer => broken("what was given up is out of range, and the error names the start", format!("{answer:?}")),
        }
    }

    /// Reads a log from front to end. `None` when a fault kept it from being read.
    ///
    /// # Errors
    /// When a read answers what it must not.
    pub fn read_all(&mut self, log: usize, start: Offset) -> Checked<Option<Vec<StoredBatch>>> {
        let mut read = Vec::new();
        let mut offset = start;
        loop {
            match self.read(log, offset, 64 << 10)? {
                Ok(part) if part.batches.is_empty() => return Ok(Some(read)),
                Ok(part) => {
                    offset = part.next;
                    read.extend(part.batches);
                }
                Err(ReadError::Disk { .. } | ReadError::TooManyOpen { .. }) if self.tolerant => return Ok(None),
                Err(error) => {
                    return broken("a record acknowledged as durable is readable after any crash", error.to_string());
                }
            }
        }
    }

    /// Reads once and gives the answer, whatever it is.
    ///
    /// # Errors
    /// When it is never answered.
    ///
    /// # Panics
    /// When the queue is full.
    pub fn read(&mut self, log: usize, offset: Offset, bytes: usize) -> Checked<ReadAnswer> {
        let mut answer = self.running().read(log, offset, bytes, false).expect("room in the queue");
        for _ in 0..TURNS_MAX {
            if let Some(read) = answer.try_take() {
                return Ok(read);
            }
            self.turn()?;
        }
        broken("every command is answered", format!("a read from {offset}"))
    }

    /// One turn of every shard and of the remover, in an order that the seed chooses; takes every answer that came.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn turn(&mut self) -> Checked {
        for place in self.running().next_round() {
            self.turn_shard(place)?;
        }
        Ok(())
    }

    fn turn_shard(&mut self, place: usize) -> Checked<Turned> {
        self.world.keep_moments(self.observer.is_some());
        let turned = self.running().turn_shard(place);
        let turned = turned.or_else(|error| broken("a living ring can be turned", error.to_string()))?;
        self.collect()?;
        // Whatever was answered in this turn was answered before the moment.
        if let (Some(observer), Some(moment)) = (self.observer.as_mut(), self.world.take_moment()) {
            observer(&moment, &self.model)?;
        }
        Ok(turned)
    }

    /// Turns until an operation that is listed with all of `parts` is in flight, and goes back to the moment of that turn at which all
    /// was started and nothing had landed. The process is good for nothing but a crash after that.
    ///
    /// # Errors
    /// When no such operation is started.
    pub fn turn_until_in_flight(&mut self, parts: &[&str]) -> Checked {
        for _ in 0..TURNS_MAX {
            let wanted = |line: &String| parts.iter().all(|part| line.contains(part));
            let moments = self.turn_with_moments()?;
            if let Some(moment) = moments.into_iter().find(|moment| moment.pending().iter().any(wanted)) {
                self.world = moment;
                return Ok(());
            }
        }
        broken("what is asked for is started", format!("{parts:?} was never in flight"))
    }

    fn go_to_a_moment(&mut self) -> Checked {
        if self.running.is_some() {
            self.world = self.turn_to_a_moment()?;
        }
        Ok(())
    }

    /// One more turn. Gives the machine as it stood when all was started and nothing had landed: of several moments, the last at which
    /// something was in flight.
    fn turn_to_a_moment(&mut self) -> Checked<SimWorld> {
        let mut moments = self.turn_with_moments()?;
        let busy = moments.iter().rposition(|moment| !moment.pending().is_empty());
        Ok(busy.map(|place| moments.swap_remove(place)).or(moments.pop()).unwrap_or_else(|| self.world.snapshot()))
    }

    /// One more turn of everybody. Gives the machine as it stood in each one's turn when all was started and nothing had landed.
    fn turn_with_moments(&mut self) -> Checked<Vec<SimWorld>> {
        let mut moments = Vec::new();
        for place in self.running().next_round() {
            self.world.keep_moments(true);
            let turned = self.running().turn_shard(place);
            turned.or_else(|error| broken("a living ring can be turned", error.to_string()))?;
            self.collect()?;
            moments.extend(self.world.take_moment());
        }
        Ok(moments)
    }

    /// Turns until everything was answered.
    ///
    /// # Errors
    /// When something never is.
    pub fn answer_all(&mut self) -> Checked {
        for _ in 0..TURNS_MAX {
            if self.running().asked() == 0 {
                return Ok(());
            }
            self.turn()?;
        }
        broken("every command is answered", format!("{:?} after {TURNS_MAX} turns", self.running))
    }

    /// Turns until nothing happens any more.
    ///
    /// # Errors
    /// When something is never answered, or the background work never ends.
    pub fn idle(&mut self) -> Checked {
        self.answer_all()?;
        let (mut quiet, mut started) = (0, self.world.operations());
        for _ in 0..TURNS_MAX {
            self.turn()?;
            // What is done one operation after the other may have none in flight between two turns.
            let goes_on = self.running().in_flight() > 0 || self.world.operations() > started;
            // What a fault keeps from being removed is tried again for ever.
            let goes_on = goes_on && !(self.tolerant && self.running().only_rests());
            // While there is little room it is looked at for ever.
            let goes_on = goes_on && !self.running().only_watches();
            started = self.world.operations();
            quiet = if goes_on { 0 } else { quiet + 1 };
            if quiet > 8 {
                return Ok(());
            }
        }
        broken("work in the background ends", "the disk was never idle")
    }

    /// Closes the store in order: the shard that keeps the manifest last.
    ///
    /// # Errors
    /// When it does not end, or answers an error although nothing failed.
    pub fn close(&mut self) -> Checked {
        self.running().close_queues();
        self.running().close_removal();
        for _ in 0..TURNS_MAX {
            if self.turn_shard(self.config.shards)? == Turned::Closed {
                break;
            }
            self.turn()?;
        }
        let mut clean = true;
        for place in (0..self.config.shards).rev() {
            clean &= self.close_shard(place)?;
        }
        ensure(self.running().asked() == 0, "every command is answered", || "not all when it closed".to_owned())?;
        self.running = None;
        if clean {
            self.model.closed();
        }
        Ok(())
    }

    fn close_shard(&mut self, closing: usize) -> Checked<bool> {
        let mut answer = self.running().close(closing);
        for _ in 0..TURNS_MAX {
            for place in self.running().next_round() {
                let turned = self.turn_shard(place)?;
                if place != closing || turned != Turned::Closed {
                    continue;
                }
                let answer = answer.try_take();
                let clean = matches!(answer, Some(Ok(())));
                ensure(clean || (self.tolerant && answer.is_some()), "closing finishes what was asked for", || {
                    format!("{answer:?}")
                })?;
                self.running().shards[place] = None;
                return Ok(clean);
            }
        }
        broken("closing ends", format!("{TURNS_MAX} turns were not enough"))
    }

    /// The process dies; what it had in flight has landed, or never will, when the next one opens.
    ///
    /// # Errors
    /// When a caller was left without an answer.
    pub fn kill(&mut self) -> Checked {
        self.model.process_died();
        self.crash(|world| world.kill())
    }

    /// Ends the process as `how` does it.
    ///
    /// # Errors
    /// When a caller was left without an answer.
    pub fn crash(&mut self, how: impl FnOnce(&SimWorld)) -> Checked {
        how(&self.world);
        let Some(running) = self.running.take() else { return Ok(()) };
        let Running { shards, queues, appends, reads, opening, durable, verbs, .. } = running;
        drop(shards);
        queues.iter().for_each(|queue| queue.abandon());
        let open = [appends.len(), reads.len(), opening.len(), durable.len(), verbs.len()];
        let gone = appends.into_iter().filter_map(|mut asked| asked.answer.try_take()).count()
            + reads.into_iter().filter_map(|mut asked| asked.answer.try_take()).count()
            + opening.into_iter().filter_map(|mut asked| asked.answer.try_take()).count()
            + durable.into_iter().filter_map(|mut asked| asked.answer.try_take()).count()
            + verbs.into_iter().filter_map(|asked| asked.answer.take_any()).count();
        let outstanding: Vec<(usize, usize)> = queues.iter().map(|queue| queue.outstanding()).collect();
        let answered = gone == open.iter().sum::<usize>() && outstanding.iter().all(|left| *left == (0, 0));
        ensure(answered, "every command is answered, also by a shard that dies", || {
            format!("{gone} of {open:?}; outstanding {outstanding:?}")
        })
    }

    fn crash_if_running(&mut self, how: impl FnOnce(&SimWorld)) -> Checked {
        if self.running.is_some() { self.crash(how) } else { Ok(()) }
    }

    fn ask_log(&mut self, log: usize) -> Checked {
        if self.model.log(log).is_going() {
            return Ok(());
        }
        let id = self.model.log(log).id.clone();
        if let Some(answer) = self.running().open_log(id) {
            self.model.log(log).gone = false;
            self.running().opening.push(AskedLog { log, answer });
        }
        Ok(())
    }

    fn ask_append(&mut self, log: usize, records: usize, bytes: usize, level: Level) -> Checked {
        self.hand_over(log, records, bytes, (level, None));
        Ok(())
    }

    /// Hands over what another replica gave an offset: the right one, or one that is `off` by some.
    fn ask_follow(&mut self, log: usize, records: usize, bytes: usize, off: i64) -> Checked {
        let end = self.model.log(log).sent_end();
        let expected = Offset(end.0.saturating_add_signed(off));
        self.hand_over(log, records, bytes, (Level::Durable, Some(expected)));
        Ok(())
    }

    fn hand_over(&mut self, log: usize, records: usize, bytes: usize, (level, expected): (Level, Option<Offset>)) {
        let (running, model) = (self.running.as_mut().expect("the store is open"), &mut self.model);
        if !running.knows(log) || model.log(log).is_going() {
            return;
        }
        // What was only accepted is gone without a word when a fence or a truncation comes between.
        let unsure = !model.log(log).changes.is_empty();
        let level = if unsure { level.max(Level::Written) } else { level };
        self.serial += 1;
        let serial = self.serial;
        let batch = batch_of(serial, records, bytes);
        let (payload, records) = (batch.payload().into(), u64::from(batch.record_count()));
        if running.append_at((log, serial), batch, (level, expected), model) {
            model.log(log).waiting.push_back(Sent { serial, payload, records, answered: None, failed: false });
        }
    }

    fn ask_read(&mut self, log: usize, per_mille: u64, bytes: usize) -> Checked {
        if !self.running().knows(log) {
            return Ok(());
        }
        let (start, end, version) = self.model.log(log).readable();
        let offset = Offset(start.0 + end.since(start) * per_mille / 1000);
        if let Some(answer) = self.running().read(log, offset, bytes, false) {
            self.running().reads.push(AskedRead { log, offset, end, past_durable: false, version, answer });
        }
        Ok(())
    }

    fn ask_read_past_durable(&mut self, log: usize) -> Checked {
        if !self.running().knows(log) {
            return Ok(());
        }
        let (_, offset, version) = self.model.log(log).readable();
        if let Some(answer) = self.running().read(log, offset, 8_000, true) {
            self.running().reads.push(AskedRead { log, offset, end: offset, past_durable: true, version, answer });
        }
        Ok(())
    }
}

/// A batch whose bytes follow from its serial number, so that no two are the same.
///
/// # Panics
/// When it does not fit the limits of the format.
#[must_use]
pub fn batch_of(serial: u64, records: usize, bytes: usize) -> Batch {
    let limits = BatchLimits { records_max: 1 << 16, bytes_max: 64 << 20 };
    let mut builder = BatchBuilder::new(limits);
    let mut random = Random::new(serial);
    let each = (bytes / records.max(1)).saturating_sub(28);
    for number in 0..records.max(1) {
        let mut value = serial.to_le_bytes().to_vec();
        value.extend((8..each).map(|_| random.bits() as u8));
        let key = (number as u64).to_le_bytes();
        let record = Record { key: (number % 2 == 0).then_some(&key[..]), value: Some(&value), ..Record::default() };
        builder.push(&record).expect("the limits are wide");
    }
    builder.build().expect("at least one record")
}
