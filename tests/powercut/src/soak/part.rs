//! Part: a store on one ground, loaded for so long, while things happen to it. Process after process.

use super::books::{Books, Refusals};
use super::course::Course;
use super::ground::Ground;
use super::leak::Leak;
use super::life::Life;
use super::options::Options;
use super::plan::{End, Event, NO_ROOM, Plan};
use super::sample::Sample;
use super::told::{Asked, Job};
use crate::error::Trouble;
use crate::faults::model::Went;
use crate::interrupt::Interrupt;
use crate::random::Random;
use crate::server::lock;
use crate::shape::{Io, Shape, Sync};
use rustix::process::Signal;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use strandline_tests::tiers::promise::{Broken, Promise};

/// After how long a call counts as never answered.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// Opening, and closing, may take as long: both may wait for a call of that kind.
const OPENS_WITHIN: Duration = Duration::from_secs(60);

/// How long what a process has told may be on its way.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// Between two looks at what the process has told.
const TICK: Duration = Duration::from_millis(20);

/// Between two samples.
const SAMPLES_EVERY: Duration = Duration::from_secs(1);

/// How long an operation may go wrong that nobody may notice.
const GENTLE: Duration = Duration::from_millis(1_500);

/// How long after there is room again something may still be refused.
const RECOVERS_WITHIN: Duration = Duration::from_secs(5);

/// A part that runs. Fields are dropped in their order: the process before what it stands on.
pub struct Part {
    life: Option<Life>,
    lives: u64,
    books: Arc<Mutex<Books>>,
    course: Course,
    plan: Plan,
    random: Random,
    shape: Shape,
    leak: Option<Leak>,
    calm: bool,
    interrupt: Interrupt,
    since: Instant,
    until: Instant,
    sampled: Instant,
    ground: Ground,
}

/// Whether the run goes on: it does not behind a broken promise.
type Goes = Result<bool, Trouble>;

impl Part {
    /// On this ground, for so long.
    pub fn new(ground: Ground, (seed, takes): (u64, Duration), options: &Options, interrupt: Interrupt) -> Part {
        let since = Instant::now();
        Part {
            life: None,
            lives: 0,
            books: Arc::new(Mutex::new(Books::new(since))),
            course: Course { on: ground.name(), ..Course::default() },
            plan: Plan::new(seed, takes, ground.fails()),
            random: Random::new(seed, 400),
            shape: Shape { io: Io::Direct, sync: Sync::Auto, defect: None, seed },
            leak: options.sabotage,
            calm: options.calm,
            interrupt,
            since,
            until: since + takes,
            sampled: since,
            ground,
        }
    }

    /// Runs it to its end, or to the first promise that is broken.
    ///
    /// # Errors
    /// What keeps the run from going on.
    pub fn run(mut self) -> Result<Course, Trouble> {
        while Instant::now() < self.until && self.live()? {}
        // One more process shows that all of it is there.
        if self.books().broken.is_empty() && self.start()? {
            self.end(End::Close)?;
        }
        self.life = None;
        let mut course = self.course;
        let mut books = lock(&self.books);
        course.took_s = self.since.elapsed().as_secs_f64();
        course.counted += books.take_counted();
        (course.checked, course.refused) = (books.checked, books.refused);
        course.refusals = std::mem::take(&mut books.refusals_told);
        course.broken = std::mem::take(&mut books.broken);
        Ok(course)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        lock(&self.books)
    }

    /// One process.
    fn live(&mut self) -> Goes {
        if !self.start()? {
            return Ok(false);
        }
        // A control is given one life: how fast it leaks is what counts.
        let until = match self.leak {
            None if !self.calm => self.until.min(Instant::now() + self.plan.life()),
            _ => self.until,
        };
        let time = until.saturating_duration_since(Instant::now());
        loop {
            let pause = if self.calm { self.until - self.since } else { self.plan.pause() };
            if !self.pass(pause.min(until.saturating_duration_since(Instant::now())))? {
                return Ok(false);
            }
            if Instant::now() >= until {
                let end = if Instant::now() >= self.until { End::Close } else { self.plan.end() };
                return self.end(end);
            }
            let left = until.saturating_duration_since(Instant::now());
            let event = self.plan.event(left < time / 3);
            if !(self.happens(event)? && self.look()?) {
                return Ok(false);
            }
        }
    }

    fn start(&mut self) -> Goes {
        let (root, plants) = (self.ground.root(), !self.ground.fails());
        let job = Job { root, shape: self.shape, life: self.lives, leak: self.leak, plants };
        self.life = Some(Life::start(&job, self.ground.place(), &self.books)?);
        self.lives += 1;
        self.wait("opening", OPENS_WITHIN, Books::settled)
    }

    fn ask(&mut self, asked: Asked) {
        self.life.iter_mut().for_each(|life| life.ask(asked));
    }

    fn is_closed(&self) -> bool {
        self.books().closed
    }

    fn broke(&self, seen: String) {
        self.books().broken.push(Broken::new(Promise::Lives, seen));
    }

    /// Takes samples and sees that the process lives.
    fn tick(&mut self) -> Goes {
        self.interrupt.check()?;
        let ended = self.life.as_mut().and_then(Life::ended);
        // What it told last may not have been heard yet.
        if let Some(ended) = ended.filter(|_| self.books().silent(Instant::now()) > HEARD_WITHIN)
            && !self.is_closed()
        {
            self.broke(format!("the process of the store ended by itself: {ended}"));
        }
        let now = Instant::now();
        if now.saturating_duration_since(self.sampled) >= SAMPLES_EVERY {
            self.sampled = now;
            self.sample(now);
        }
        let silent = self.books().silent(now);
        if silent > HANGS_AFTER {
            self.broke(format!("the process of the store says nothing for {silent:?}"));
        }
        Ok(self.books().broken.is_empty())
    }

    fn sample(&mut self, now: Instant) {
        let Some(life) = self.life.as_ref().filter(|_| self.books().settled()) else { return };
        let Some(sample) = Sample::of_process(life.pid()) else { return };
        let (files, bytes) = self.ground.extent();
        let since = |then: Instant| now.saturating_duration_since(then).as_secs_f64();
        let (at_s, age_s) = (since(self.since), since(life.since));
        let (opening, open_s) = {
            let books = self.books();
            (books.openings, since(books.opened))
        };
        self.course.samples.push(Sample { at_s, age_s, life: self.lives, opening, open_s, bytes, files, ..sample });
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) -> Goes {
        let until = Instant::now() + time;
        while self.tick()? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(TICK));
        }
        Ok(false)
    }

    /// Waits for something that must come within `limit`.
    fn wait(&mut self, what: &str, limit: Duration, has_come: impl Fn(&Books) -> bool) -> Goes {
        let until = Instant::now() + limit;
        while self.tick()? {
            if has_come(&self.books()) {
                return Ok(true);
            }
            if Instant::now() > until {
                self.broke(format!("{what} has not ended within {limit:?}"));
                return Ok(false);
            }
            std::thread::sleep(TICK);
        }
        Ok(false)
    }

    /// Has each log read whole, and compared.
    fn look(&mut self) -> Goes {
        let before = self.books().looks();
        self.ask(Asked::Look);
        self.wait("a look at all logs", HANGS_AFTER, |books| books.looks() > before || books.looks() == u64::MAX)
    }

    fn reopen(&mut self) -> Goes {
        let before = self.books().openings;
        self.ask(Asked::Reopen);
        self.wait("opening again", OPENS_WITHIN, |books| books.openings > before && books.settled())
    }

    fn happens(&mut self, event: Event) -> Goes {
        *self.course.faults.entry(event.to_string()).or_default() += 1;
        match event {
            Event::Stop(time) => {
                self.life.iter().for_each(|life| life.signal(Signal::STOP));
                let goes = self.pass(time);
                self.life.iter().for_each(|life| life.signal(Signal::CONT));
                goes
            }
            Event::Reopen => self.reopen(),
            Event::Gentle(fault) => {
                self.ground.arm(fault);
                let goes = self.pass(GENTLE);
                self.course.struck += self.ground.lift();
                goes
            }
            Event::Harsh(fault, time) => {
                self.books().fails(Refusals::UntilOpened);
                self.ground.arm(fault);
                let goes = self.pass(time);
                self.course.struck += self.ground.lift();
                Ok(goes? && self.reopen()?)
            }
            Event::Full(time) => {
                self.books().fails(Refusals::Until(Instant::now() + time + RECOVERS_WITHIN));
                self.ground.arm(NO_ROOM);
                let goes = self.pass(time);
                self.course.struck += self.ground.lift();
                Ok(goes? && self.pass(RECOVERS_WITHIN)?)
            }
        }
    }

    /// Ends the process.
    fn end(&mut self, end: End) -> Goes {
        *self.course.faults.entry(end.to_string()).or_default() += 1;
        let (cut, how) = match end {
            End::Close => {
                self.ask(Asked::Close);
                if !self.wait("closing", OPENS_WITHIN, |books| books.closed)? {
                    return Ok(false);
                }
                (None, Went::Closed)
            }
            End::Kill => (None, Went::Killed),
            End::Power(loss) => (Some(loss), Went::Lost),
        };
        self.life = None;
        self.course.crashes += u64::from(end != End::Close);
        self.course.ends.push(self.since.elapsed().as_secs_f64());
        self.ground.rest(cut, &mut self.random);
        let mut books = self.books();
        if end != End::Close {
            books.went(how);
        }
        let counted = books.take_counted();
        drop(books);
        self.course.counted += counted;
        Ok(true)
    }
}
