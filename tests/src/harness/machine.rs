//! The machine: a simulated world, the store that runs on it, and the model beside it. It does steps and checks every answer.

use super::checker;
use super::files::Disk;
use super::model::{Model, Sent};
use super::random::Random;
use super::running::{AskedAppend, AskedLog, AskedRead, Opening, Running, TURNS_MAX, open};
use super::step::Step;
use super::violation::{Checked, broken, ensure};
use std::time::Duration;
use strandline::batch::{Batch, BatchBuilder, BatchLimits, Record, StoredBatch};
use strandline::config::{CheckedConfig, Config};
use strandline::shard::Turned;
use strandline::{AppendError, Level, LogError, Offset, ReadAnswer, ReadError};
use strandline_disk::Disk as _;
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
    serial: u64,
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
        match step {
            Step::OpenLog(log) => self.ask_log(log),
            Step::Append { log, batches, records, bytes } => {
                (0..batches).try_for_each(|_| self.ask_append(log, records, bytes, Level::Durable))
            }
            Step::AppendAt { log, batches, records, bytes, level } => {
                (0..batches).try_for_each(|_| self.ask_append(log, records, bytes, level))
            }
            Step::UntilDurable { log, now } => {
                let asked = self.running().until_durable(log, now);
                self.running().durable.extend(asked);
                Ok(())
            }
            Step::ReadPastDurable { log } => self.ask_read_past_durable(log),
            Step::Read { log, per_mille, bytes } => self.ask_read(log, per_mille, bytes),
            Step::Turn(turns) => (0..turns).try_for_each(|_| self.turn().map(drop)),
            Step::Answer => self.answer_all(),
            Step::Idle => self.idle(),
            Step::Jump(delta_ms) => {
                self.world.jump_clock(delta_ms);
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
        match open(world.open(), &self.config, turns, seen)? {
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
            let (id, made) = (self.model.logs[log].id.clone(), self.model.logs[log].made);
            let known = disk.state().logs.contains_key(&id);
            ensure(known || !made, "a log that was made stays", || format!("log {id} is not in the manifest"))?;
            if known && !self.check_log(log)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_log(&mut self, log: usize) -> Checked<bool> {
        self.ask_log(log)?;
        self.answer_all()?;
        if !self.running().numbers.contains_key(&log) {
            return Ok(false);
        }
        let Some(read) = self.read_all(log)? else { return Ok(false) };
        self.model.recovered(log, &read)?;
        Ok(true)
    }

    /// Reads a log from front to end. `None` when a fault kept it from being read.
    ///
    /// # Errors
    /// When a read answers what it must not.
    pub fn read_all(&mut self, log: usize) -> Checked<Option<Vec<StoredBatch>>> {
        let mut read = Vec::new();
        let mut offset = Offset(0);
        loop {
            match self.read(log, offset, 64 << 10)? {
                Ok(part) if part.batches.is_empty() => return Ok(Some(read)),
                Ok(part) => {
                    offset = part.next;
                    read.extend(part.batches);
                }
                Err(ReadError::Disk { .. }) if self.tolerant => return Ok(None),
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

    /// One turn of the shard; takes every answer that came.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn turn(&mut self) -> Checked<Turned> {
        self.world.keep_moments(self.observer.is_some());
        let turned = self.running().shard.turn();
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
            let moment = self.turn_to_a_moment()?;
            let wanted = |line: &String| parts.iter().all(|part| line.contains(part));
            if moment.pending().iter().any(wanted) {
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

    /// One more turn. Gives the machine as it stood when all was started and nothing had landed.
    fn turn_to_a_moment(&mut self) -> Checked<SimWorld> {
        self.world.keep_moments(true);
        let turned = self.running().shard.turn();
        turned.or_else(|error| broken("a living ring can be turned", error.to_string()))?;
        self.collect()?;
        Ok(self.world.take_moment().unwrap_or_else(|| self.world.snapshot()))
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
        let mut quiet = 0;
        for _ in 0..TURNS_MAX {
            self.turn()?;
            quiet = if self.running().disk.in_flight() == 0 { quiet + 1 } else { 0 };
            if quiet > 8 {
                return Ok(());
            }
        }
        broken("work in the background ends", "the disk was never idle")
    }

    /// Closes the store in order.
    ///
    /// # Errors
    /// When it does not end, or answers an error although nothing failed.
    pub fn close(&mut self) -> Checked {
        let mut answer = self.running().close();
        for _ in 0..TURNS_MAX {
            if self.turn()? != Turned::Closed {
                continue;
            }
            let answer = answer.try_take();
            let clean = matches!(answer, Some(Ok(()))) || (self.tolerant && answer.is_some());
            ensure(clean, "closing finishes what was asked for", || format!("{answer:?}"))?;
            ensure(self.running().asked() == 0, "every command is answered", || "not all when it closed".to_owned())?;
            self.running = None;
            if matches!(answer, Some(Ok(()))) {
                self.model.closed();
            }
            return Ok(());
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
        let Running { shard, queue, appends, reads, opening, durable, .. } = running;
        drop(shard);
        queue.abandon();
        let open = [appends.len(), reads.len(), opening.len(), durable.len()];
        let gone = appends.into_iter().filter_map(|mut asked| asked.answer.try_take()).count()
            + reads.into_iter().filter_map(|mut asked| asked.answer.try_take()).count()
            + opening.into_iter().filter_map(|mut asked| asked.answer.try_take()).count()
            + durable.into_iter().filter_map(|mut asked| asked.answer.try_take()).count();
        let answered = gone == open.iter().sum::<usize>() && queue.outstanding() == (0, 0);
        ensure(answered, "every command is answered, also by a shard that dies", || {
            format!("{gone} of {open:?}; outstanding {:?}", queue.outstanding())
        })
    }

    fn crash_if_running(&mut self, how: impl FnOnce(&SimWorld)) -> Checked {
        if self.running.is_some() { self.crash(how) } else { Ok(()) }
    }

    fn ask_log(&mut self, log: usize) -> Checked {
        let id = self.model.log(log).id.clone();
        if let Some(answer) = self.running().open_log(id) {
            self.running().opening.push(AskedLog { log, answer });
        }
        Ok(())
    }

    fn ask_append(&mut self, log: usize, records: usize, bytes: usize, level: Level) -> Checked {
        if !self.running().numbers.contains_key(&log) {
            return Ok(());
        }
        self.serial += 1;
        let serial = self.serial;
        let batch = batch_of(serial, records, bytes);
        let (payload, records) = (batch.payload().into(), u64::from(batch.record_count()));
        if self.running().append(log, serial, batch, level) {
            self.model.log(log).waiting.push_back(Sent { serial, payload, records, answered: None });
        }
        Ok(())
    }

    fn ask_read(&mut self, log: usize, per_mille: u64, bytes: usize) -> Checked {
        if !self.running().numbers.contains_key(&log) {
            return Ok(());
        }
        let end = self.model.log(log).end();
        let offset = Offset(end.0 * per_mille / 1000);
        if let Some(answer) = self.running().read(log, offset, bytes, false) {
            self.running().reads.push(AskedRead { log, offset, end, past_durable: false, answer });
        }
        Ok(())
    }

    fn ask_read_past_durable(&mut self, log: usize) -> Checked {
        if !self.running().numbers.contains_key(&log) {
            return Ok(());
        }
        let offset = self.model.log(log).end();
        if let Some(answer) = self.running().read(log, offset, 8_000, true) {
            self.running().reads.push(AskedRead { log, offset, end: offset, past_durable: true, answer });
        }
        Ok(())
    }

    /// Takes every answer that has come.
    fn collect(&mut self) -> Checked {
        let (tolerant, model) = (self.tolerant, &mut self.model);
        let Some(running) = self.running.as_mut() else { return Ok(()) };
        let (mut outcome, receipts) = (Ok(()), &mut running.receipts);
        running.appends.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(answer) => {
                if let Ok(receipt) = &answer {
                    receipts.insert(asked.log, *receipt);
                }
                let taken = take_append(model, asked, answer, tolerant);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(taken);
                false
            }
        });
        outcome?;
        let numbers = &mut running.numbers;
        let mut outcome = Ok(());
        running.opening.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(Ok(opened)) => {
                numbers.insert(asked.log, opened.number);
                model.log(asked.log).made = true;
                false
            }
            Some(Err(error)) => {
                outcome = std::mem::replace(&mut outcome, Ok(())).and(take_log_error(&error, tolerant));
                false
            }
        });
        outcome?;
        let mut outcome = Ok(());
        running.durable.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(Ok(())) => {
                model.durable_through(asked.log, asked.end);
                false
            }
            Some(Err(error)) => {
                let fits = ensure(tolerant, "what was answered becomes durable", || error.to_string());
                outcome = std::mem::replace(&mut outcome, Ok(())).and(fits);
                false
            }
        });
        outcome?;
        let mut outcome = Ok(());
        running.reads.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(answer) => {
                let taken = take_read(model, asked, &answer, tolerant);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(taken);
                false
            }
        });
        outcome
    }
}

fn take_append(
    model: &mut Model,
    asked: &AskedAppend,
    answer: Result<strandline::Receipt, AppendError>,
    tolerant: bool,
) -> Checked {
    let error = match answer {
        Ok(receipt) => return model.acknowledge(asked.log, asked.serial, &receipt, tolerant),
        Err(error) => error,
    };
    ensure(tolerant, "an append fails only when something failed", || error.to_string())?;
    match error {
        AppendError::Failed { .. } | AppendError::ShardGone => model.fail(asked.log),
        _ => model.refuse(asked.log, asked.serial),
    }
    Ok(())
}

fn take_log_error(error: &LogError, tolerant: bool) -> Checked {
    ensure(tolerant, "a log can be made", || error.to_string())
}

fn take_read(model: &mut Model, asked: &AskedRead, answer: &ReadAnswer, tolerant: bool) -> Checked {
    match answer {
        Ok(read) => {
            let log = &model.logs[asked.log];
            if asked.past_durable {
                return checker::bytes_read_past_the_end_equal_bytes_sent(log, asked.offset, &read.batches);
            }
            // What was only written may have become durable without a word; once it was read it stays.
            checker::bytes_read_past_the_end_equal_bytes_sent(log, asked.offset, &read.batches)?;
            if let Some(last) = read.batches.last() {
                model.durable_through(asked.log, last.end());
            }
            let log = &model.logs[asked.log];
            checker::bytes_read_equal_bytes_appended(log, asked.offset, &read.batches)?;
            ensure(!read.batches.is_empty() || asked.offset >= asked.end, "what is durable can be read", || {
                format!("log {}: a read from {} gave nothing", log.id, asked.offset)
            })
        }
        Err(ReadError::Disk { .. }) if tolerant => Ok(()),
        // What a failure took back is no longer there.
        Err(ReadError::OutOfRange { .. }) if tolerant && asked.past_durable => Ok(()),
        Err(error) => broken("bytes read equal bytes appended", error.to_string()),
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
