//! Work: a store under a seeded load, one thread for each log. Each step is noted with how far the disk had come before it and when it was
//! answered.

use crate::clock::Clock;
use crate::content::{self, LOGS};
use crate::history::{Held, Step, What};
use crate::job::{Job, Task, Worked};
use crate::random::Random;
use crate::server::lock;
use crate::shape::{HOST_FIELDS, Io, Sync};
use crate::verb::{Span, VERBS, Verb};
use crate::watch::Watch;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strandline::policy::Policy;
use strandline::{AppendError, Level, Log, Offset, OpenError, RangeNumber, Receipt, Store};

/// Appends of a log that are outstanding at most.
const OUTSTANDING_MAX: usize = 12;

/// Bytes of a log's segments above which it is trimmed whatever the dice say.
const BATCHES_MAX: usize = 400;

/// Large edits of the manifest that come together.
const EDITS: u64 = 10;

/// How long the store is left alone between two looks at what it counts.
const LOOKS_EVERY: Duration = Duration::from_millis(1);

/// What all threads of a workload share.
struct Shared {
    store: Store,
    clock: Clock,
    steps: Mutex<Vec<Step>>,
    spans: Mutex<Vec<Span>>,
    over: AtomicBool,
    bytes_max: u64,
    until: Instant,
}

/// Runs the workload of this job.
///
/// # Errors
/// What the store refused although no power was cut.
pub fn work(job: &Job) -> Result<Worked, String> {
    let Task::Work { bytes_max, time_ms } = job.task else { return Err("this job is no workload".to_owned()) };
    let until = Instant::now() + Duration::from_millis(time_ms);
    let clock = Clock::open(&job.clock).map_err(told("the clock"))?;
    let (steps, spans, over) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
    let (store, allowed) = open(job)?;
    let in_force = in_force(&store, job, allowed);
    let mut watch = Watch::new(&job.root).map_err(told("the manifest"))?;
    let shared = Arc::new(Shared { store, clock, steps, spans, over, bytes_max, until });
    let ends: Vec<_> = (0..LOGS)
        .map(|log| {
            let (shared, random) = (shared.clone(), Random::new(job.shape.seed, log as u64));
            std::thread::spawn(move || {
                let end = Writer::new(&shared, log, random).and_then(Writer::run);
                shared.over.store(true, Ordering::Relaxed);
                end
            })
        })
        .collect();
    while !shared.is_over()? {
        let (before, counters) = (shared.now()?, shared.store.counters());
        watch.look(before, &counters, shared.now()?);
        std::thread::sleep(LOOKS_EVERY);
    }
    for end in ends {
        end.join().map_err(|_| "a thread of the workload panicked")??;
    }
    let shared = alone(shared)?;
    let counters = shared.store.counters();
    watch.look(shared.now()?, &counters, shared.now()?);
    if Random::new(job.shape.seed, 99).one_in(2) {
        shared.store.close().map_err(told("closing"))?;
    }
    let steps = shared.steps.into_inner().map_err(told("the steps"))?;
    let (spans, done) = done(shared.spans.into_inner().map_err(told("the spans"))?, watch);
    Ok(Worked { steps, spans, done, barriers: counters.barriers, in_force })
}

/// What was asked for and what the store did by itself: when, and how often.
fn done(mut spans: Vec<Span>, watch: Watch) -> (Vec<Span>, Vec<(Verb, u64)>) {
    let (counted, watched) = watch.end();
    let asked = |verb: Verb| spans.iter().filter(|span| span.verb == verb).count() as u64;
    let done = VERBS.map(|verb| {
        let watched = counted.iter().find(|(of, _)| *of == verb).map(|(_, count)| *count);
        (verb, watched.unwrap_or_else(|| asked(verb)))
    });
    spans.extend(watched);
    (spans, done.to_vec())
}

/// Takes what the threads shared. The last answer's callback lets go of it a little after it has told of it.
fn alone(mut shared: Arc<Shared>) -> Result<Shared, String> {
    let since = Instant::now();
    loop {
        shared = match Arc::try_unwrap(shared) {
            Ok(alone) => return Ok(alone),
            Err(_) if since.elapsed() > Duration::from_secs(5) => {
                return Err("a callback still holds the store".to_owned());
            }
            Err(shared) => shared,
        };
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Opens the store. Where the file system allows no barrier it is left to the store how it syncs. Gives also whether what was asked for was
/// allowed.
pub fn open(job: &Job) -> Result<(Store, bool), String> {
    match Store::open(job.shape.config(&job.root)) {
        Err(OpenError::NoBarrier { .. }) => {
            let shape = crate::shape::Shape { sync: Sync::Auto, ..job.shape };
            Store::open(shape.config(&job.root)).map(|store| (store, false)).map_err(told("opening"))
        }
        opened => opened.map(|store| (store, true)).map_err(told("opening")),
    }
}

/// What the store does, whatever it was asked for.
fn in_force(store: &Store, job: &Job, allowed: bool) -> (Io, Sync) {
    let capabilities = store.capabilities();
    let io = if capabilities.direct.effective { Io::Direct } else { Io::Buffered };
    let sync = match job.shape.sync {
        Sync::Barrier if allowed => Sync::Barrier,
        // Without a barrier what it chooses is a durable write each.
        Sync::Auto | Sync::Barrier if !capabilities.barrier.allowed => Sync::Dsync,
        Sync::Barrier => Sync::Auto,
        asked => asked,
    };
    (io, sync)
}

fn told<E: Display>(doing: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("{doing}: {error}")
}

impl Shared {
    fn now(&self) -> Result<u64, String> {
        self.clock.read().map(|time| time.events).map_err(told("the clock"))
    }

    /// Notes that something is about to be asked. Gives its number.
    fn begin(&self, log: usize, what: What) -> Result<usize, String> {
        let begun = self.now()?;
        let mut steps = lock(&self.steps);
        steps.push(Step { log, begun, answered: None, what });
        Ok(steps.len() - 1)
    }

    /// Notes that it was answered as durable.
    fn end(&self, step: usize) -> Result<(), String> {
        let now = self.now()?;
        lock(&self.steps)[step].answered = Some(now);
        Ok(())
    }

    /// Does something that is not an append, and notes when.
    fn span<T>(&self, verb: Verb, does: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let begun = self.now()?;
        let done = does()?;
        let answered = self.now()?;
        lock(&self.spans).push(Span { verb, begun, answered });
        Ok(done)
    }

    fn is_over(&self) -> Result<bool, String> {
        let bytes = self.clock.read().map_err(told("the clock"))?.bytes;
        Ok(self.over.load(Ordering::Relaxed) || bytes >= self.bytes_max || Instant::now() >= self.until)
    }
}

type Answered = Result<(), String>;

/// The thread of one log.
struct Writer {
    shared: Arc<Shared>,
    which: usize,
    log: Log,
    random: Random,
    /// What is in the log as far as it was asked for.
    batches: Vec<Held>,
    start: u64,
    end: u64,
    /// The end of what was answered as durable.
    durable: u64,
    number: u64,
    outstanding: Vec<u64>,
    tell: Sender<Answered>,
    told: Receiver<Answered>,
}

impl Writer {
    fn new(shared: &Arc<Shared>, which: usize, random: Random) -> Result<Writer, String> {
        let (tell, told) = channel();
        let (log, start) = create(shared, which)?;
        Ok(Writer {
            shared: shared.clone(),
            which,
            log,
            random,
            batches: Vec::new(),
            start,
            end: start,
            durable: start,
            number: 0,
            outstanding: Vec::new(),
            tell,
            told,
        })
    }

    fn run(mut self) -> Result<(), String> {
        while !self.shared.is_over()? {
            match self.random.below(100) {
                _ if self.batches.len() > BATCHES_MAX => self.trim()?,
                0..=1 => self.seal()?,
                2..=5 => self.trim()?,
                6..=7 => self.truncate()?,
                8..=9 => self.delete_oldest()?,
                10 => self.delete()?,
                11..=12 => self.define()?,
                13..=14 => {
                    self.drain()?;
                    std::thread::sleep(Duration::from_millis(self.random.below(25)));
                }
                _ => {
                    for _ in 0..1 + self.random.below(4) {
                        self.append()?;
                    }
                }
            }
        }
        self.drain()
    }

    fn append(&mut self) -> Result<(), String> {
        while self.outstanding.len() >= OUTSTANDING_MAX {
            self.take_answer()?;
        }
        let (log, number) = (self.which, self.number);
        let (first, end) = (self.end, self.end + content::records(log, number));
        let held = Held { first, end, number };
        let batch = content::batch(&self.log, log, number);
        let level =
            self.random.pick(&[Level::Durable, Level::Durable, Level::Durable, Level::Written, Level::Accepted]);
        let step = self.shared.begin(log, What::Append(held))?;
        let (shared, tell) = (self.shared.clone(), self.tell.clone());
        let answered = move |receipt: Result<Receipt, AppendError>| {
            let end = match receipt {
                Err(error) => Err(format!("append {number} of log {log}: {error}")),
                Ok(receipt) if receipt.first.0 != first => Err(format!("append {number} of log {log}: {receipt:?}")),
                Ok(receipt) if receipt.level == Level::Durable => shared.end(step),
                Ok(_) => Ok(()),
            };
            // A thread that has failed listens no more.
            let _ = tell.send(end);
        };
        self.log.append_with(batch, level).map_err(told("an append"))?.on_ready(answered);
        self.batches.push(held);
        (self.end, self.number) = (end, number + 1);
        self.outstanding.push(if level == Level::Durable { end } else { 0 });
        Ok(())
    }

    /// Waits for the answer that comes next; a log answers in order.
    fn take_answer(&mut self) -> Result<(), String> {
        self.told.recv().map_err(told("an answer"))??;
        self.durable = self.durable.max(self.outstanding.remove(0));
        Ok(())
    }

    fn drain(&mut self) -> Result<(), String> {
        while !self.outstanding.is_empty() {
            self.take_answer()?;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), String> {
        self.shared.span(Verb::Seal, || self.log.seal().wait().map(drop).map_err(told("a seal")))
    }

    fn trim(&mut self) -> Result<(), String> {
        while self.outstanding.len() > OUTSTANDING_MAX / 2 {
            self.take_answer()?;
        }
        let room = self.durable.saturating_sub(self.start);
        if room == 0 {
            return self.append();
        }
        let start = self.start + 1 + self.random.below(room);
        let step = self.shared.begin(self.which, What::Trim { start })?;
        let trim = || self.log.trim(Offset(start)).wait().map_err(told("a trim"));
        let answer = self.shared.span(Verb::Trim, trim)?;
        self.shared.end(step)?;
        if answer.0 != start {
            return Err(format!("a trim to {start} says that the log starts at {answer}"));
        }
        self.starts_at(start);
        Ok(())
    }

    fn starts_at(&mut self, start: u64) {
        self.start = start;
        self.batches.retain(|held| held.end > start);
    }

    fn truncate(&mut self) -> Result<(), String> {
        self.drain()?;
        let asked = self.end - self.random.below((self.end - self.start).min(40) + 1);
        let end = self.batches.iter().map(|held| held.end).filter(|end| *end <= asked).max();
        // Where not even the first batch stays, the log ends where it starts; a start within that batch is not asked for here.
        let Some(end) = end else { return self.append() };
        let step = self.shared.begin(self.which, What::Truncate { end })?;
        let truncate = || self.log.truncate_to(Offset(asked)).wait().map_err(told("a truncation"));
        let truncated = self.shared.span(Verb::Truncate, truncate)?;
        self.shared.end(step)?;
        if truncated.end.0 != end {
            return Err(format!("a truncation to {asked} says {truncated:?}, not {end}"));
        }
        self.batches.retain(|held| held.end <= end);
        (self.end, self.durable) = (end, end);
        Ok(())
    }

    fn delete_oldest(&mut self) -> Result<(), String> {
        self.drain()?;
        let info = self.log.stats().wait().map_err(told("statistics"))?;
        let [oldest, next, ..] = &info.segments[..] else { return self.append() };
        let start = next.base.0.max(self.start);
        let step = self.shared.begin(self.which, What::Trim { start })?;
        let delete = || self.log.delete_segment(oldest.seq).wait().map_err(told("the deletion of a segment"));
        self.shared.span(Verb::Release, delete)?;
        self.shared.end(step)?;
        self.starts_at(start);
        self.durable = self.end;
        Ok(())
    }

    /// Makes large edits of the manifest, so that its page is turned also where a file system writes much for each of them.
    fn define(&mut self) -> Result<(), String> {
        for edit in 0..EDITS {
            let value = format!("{:0>250}", self.number * EDITS + edit);
            let host = HOST_FIELDS.iter().map(|field| ((*field).to_owned(), Some(value.clone()))).collect();
            let (policy, policies) = (Policy { host, ..Policy::default() }, self.shared.store.policies());
            policies.define(&format!("of-{}", self.which), &policy, "test").map(drop).map_err(told("a policy"))?;
        }
        Ok(())
    }

    fn delete(&mut self) -> Result<(), String> {
        self.drain()?;
        let step = self.shared.begin(self.which, What::Delete)?;
        let topic = content::topic(self.which);
        let delete = || self.shared.store.delete_log(&topic, RangeNumber::default()).map_err(told("a deletion"));
        self.shared.span(Verb::Release, delete)?;
        self.shared.end(step)?;
        let (log, start) = create(&self.shared, self.which)?;
        self.log = log;
        self.batches.clear();
        (self.start, self.end, self.durable) = (start, start, start);
        Ok(())
    }
}

/// Makes the log. A new log starts at 0.
fn create(shared: &Arc<Shared>, which: usize) -> Result<(Log, u64), String> {
    let step = shared.begin(which, What::Create { start: 0 })?;
    let log = shared.store.log(&content::topic(which), RangeNumber::default()).map_err(told("a new log"))?;
    shared.end(step)?;
    let bounds = log.bounds();
    if bounds.start.0 != 0 || bounds.end.0 != 0 {
        return Err(format!("a new log has {bounds:?}"));
    }
    Ok((log, 0))
}
