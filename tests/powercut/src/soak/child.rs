//! Child: the process of the store. It opens the store, has threads load it until it is asked to close it, and does that again when it is told to.

use super::reader;
use super::role::{Keep, ROLES, policy};
use super::teller::Teller;
use super::told::{Asked, Counted, Job, Told};
use super::upkeep::Upkeep;
use super::writer::Writer;
use crate::error::{Trouble, system};
use crate::job::load;
use std::io::BufRead;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strandline::policy::Policy;
use strandline::{Config, Log, RangeNumber, SmallCommits, Store, Topic};
use strandline_sweeper::decide::{Mode, ReviewLimits};
use strandline_sweeper::orphans::OrphanLimits;
use strandline_sweeper::pass::Limits;
use strandline_sweeper::schedule::{Schedule, Sweeper};
use strandline_sweeper::scrub::ScrubLimits;
use strandline_sweeper::worker::Every;
use strandline_tests::tiers::promise::Promise;

/// How often it tells what it has counted.
const COUNTS_EVERY: Duration = Duration::from_secs(1);

/// Threads that read what is old, and what was appended last.
const READERS: [fn(&Arc<Shared>); 2] = [reader::follow, reader::catch_up];

/// What all threads of an opening share.
#[derive(Debug)]
pub struct Shared {
    /// The job.
    pub job: Job,
    /// The open store.
    pub store: Arc<Store>,
    /// Who is told.
    pub teller: Arc<Teller>,
    /// How often a look was asked for.
    pub looks: AtomicU64,
    /// The threads are to end.
    pub over: AtomicBool,
    /// How many openings there were before, in all processes: numbers of batches begin with it.
    pub opening: u64,
}

impl Shared {
    /// Whether the threads are to end.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Rests, or until it is over.
    pub fn rest(&self, rest: Duration) {
        let until = Instant::now() + rest;
        while !self.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// The topic of a log that is there; of a guest whichever there is.
    pub fn topic(&self, log: usize) -> Option<Topic> {
        let role = &ROLES[log];
        let topics = self.teller.refused_unless_gone("topics", self.store.topics())?;
        let is_it = |topic: &Topic| match role.keep {
            Keep::Guest => topic.to_string().starts_with(role.topic),
            _ => topic.to_string() == role.topic,
        };
        let mut found: Vec<Topic> = topics.into_keys().filter(is_it).collect();
        if found.len() > 1 {
            self.teller.broke(Promise::Right, format!("deleted topics are back: {found:?}"));
        }
        found.pop()
    }

    /// A log that is there.
    pub fn find(&self, log: usize) -> Option<Log> {
        let topic = self.topic(log)?;
        self.teller.refused_unless_gone("finding a log", self.store.find(&topic, RangeNumber::default()))?
    }
}

/// Does the job of this file.
///
/// # Errors
/// It cannot be read.
pub fn run(file: &Path) -> Result<(), Trouble> {
    static TELLER: OnceLock<Arc<Teller>> = OnceLock::new();
    let job: Job = load(file).map_err(system("reading a job"))?;
    let teller = TELLER.get_or_init(Arc::default).clone();
    std::panic::set_hook(Box::new(|panic| {
        TELLER.get_or_init(Arc::default).broke(Promise::Lives, panic.to_string());
    }));
    let asked = listen();
    let mut before = Counted::default();
    for opening in 0.. {
        let store = match Store::open(config(&job)) {
            Ok(store) => Arc::new(store),
            Err(error) => {
                teller.refused("opening", error);
                return Ok(());
            }
        };
        teller.tell(&Told::Opened(store.report().damaged.clone()));
        let (looks, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let opening = job.life << 12 | opening;
        let shared = Arc::new(Shared { job: job.clone(), store, teller: teller.clone(), looks, over, opening });
        let again = serve(shared, &asked, &mut before)?;
        if !again {
            break;
        }
    }
    Ok(())
}

/// Hears what is asked. When nobody asks any more this process ends.
fn listen() -> Receiver<Asked> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(asked) = serde_json::from_str(&line) else { continue };
            if tell.send(asked).is_err() {
                break;
            }
        }
        std::process::exit(3);
    });
    told
}

fn config(job: &Job) -> Config {
    Config {
        tail_cache_bytes: 256 << 10, // Small enough to be full before it is measured, and the buffers that go round with it.
        manifest_bytes: 1 << 20,
        logs_max: 64,
        // What a commit is filled up with would count as bytes of its log, and policies would let go of what the books call too young.
        small_commits: SmallCommits::Rewrite,
        shards: 2,
        ..job.shape.config(&job.root)
    }
}

fn schedule() -> Schedule {
    let review = ReviewLimits { mode: Mode::Delete, mass_confirmed: true, ..ReviewLimits::default() };
    let orphans = OrphanLimits { review, age_min_ms: 1_000, hold_ms: 1_000, ..OrphanLimits::default() };
    let every = |interval| Duration::from_millis(interval);
    Schedule {
        retention: Every { interval: every(1_000), limits: Limits::default() },
        orphans: Every { interval: every(2_000), limits: orphans },
        scrub: Some(Every { interval: every(5_000), limits: ScrubLimits { round: every(10_000) } }),
    }
}

/// Serves an open store until it is to be closed. True when it is to be opened again.
fn serve(shared: Arc<Shared>, asked: &Receiver<Asked>, before: &mut Counted) -> Result<bool, Trouble> {
    let mut threads = start_threads(&shared);
    let sweeper = Sweeper::start(shared.store.clone(), schedule()).map_err(system("starting the sweeper"))?;
    let sweeper = Arc::new(sweeper);
    let upkeep = Upkeep::new(shared.clone(), sweeper.clone());
    threads.push(std::thread::spawn(move || upkeep.run()));
    let again = loop {
        match asked.recv_timeout(COUNTS_EVERY) {
            Ok(Asked::Look) => drop(shared.looks.fetch_add(1, Ordering::Relaxed)),
            Ok(Asked::Reopen) => break true,
            Ok(Asked::Close) | Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let counted = counted(&shared, &sweeper);
        shared.teller.tell(&Told::Counted(counted + *before + shared.teller.counted()));
    };
    shared.over.store(true, Ordering::Relaxed);
    for thread in threads {
        // A panic was told by the hook.
        let _ = thread.join();
    }
    *before += counted(&shared, &sweeper);
    shared.teller.tell(&Told::Counted(*before + shared.teller.counted()));
    drop(sweeper);
    let teller = shared.teller.clone();
    let closed = alone(shared).map(|store| store.close().map_err(|error| teller.refused("closing", error)));
    if closed.is_none() {
        teller.broke(Promise::Lives, "somebody still holds the store 5 s after all threads have ended");
    }
    teller.tell(&Told::Closed(closed == Some(Ok(()))));
    Ok(again)
}

fn start_threads(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    define(shared);
    let writers = (0..ROLES.len()).map(|log| {
        let shared = shared.clone();
        std::thread::spawn(move || Writer::new(shared, log).run())
    });
    let readers = READERS.into_iter().map(|read| {
        let shared = shared.clone();
        std::thread::spawn(move || read(&shared))
    });
    writers.chain(readers).collect()
}

/// Policies under which topics can be bound; what they say comes with the first change of them.
fn define(shared: &Arc<Shared>) {
    let names = ROLES.iter().filter_map(|role| policy(role.keep));
    let known = shared.store.policies().list().map(|policies| policies.definitions.clone()).unwrap_or_default();
    for name in names.filter(|name| !known.keys().any(|known| known.to_string() == *name)) {
        if let Err(error) = shared.store.policies().define(name, Policy::default(), "soak") {
            shared.teller.refused("a policy", error);
        }
    }
}

fn counted(shared: &Shared, sweeper: &Sweeper) -> Counted {
    let counters = shared.store.counters();
    let expired = sweeper.retention().metrics().counts.expired;
    Counted {
        records: counters.records,
        bytes: counters.bytes,
        commits: counters.commits,
        rolls: counters.rolls,
        reused: counters.reused,
        removed: counters.removal.files,
        expired: expired.values().map(|expired| expired.segments).sum(),
        orphans: sweeper.orphans().map_or(0, |worker| worker.metrics().counts.given_up),
        scrubbed: counters.scrub.segments,
        ..Counted::default()
    }
}

/// Takes the store from those who shared it. Callbacks let go of it a little after they were told.
fn alone(shared: Arc<Shared>) -> Option<Store> {
    let until = Instant::now() + Duration::from_secs(5);
    let mut store = shared.store.clone();
    drop(shared);
    loop {
        store = match Arc::try_unwrap(store) {
            Ok(store) => return Some(store),
            Err(_) if Instant::now() > until => return None,
            Err(store) => store,
        };
        std::thread::sleep(Duration::from_millis(2));
    }
}
