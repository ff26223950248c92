//! Upkeep: what operators, hosts and dashboards ask of a store beside its load: statistics, policies, scrubbing, verification, pins, orphans.

use super::child::Shared;
use super::reader::stays;
use super::role::{AGES_KEPT_MS, BYTES_KEPT, Keep, ROLES, policy};
use super::teller::now_ms;
use crate::random::Random;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use strandline::policy::{Bound, Policy};
use strandline::{Level, Log, RangeNumber, Record, SegmentState, Time, Topic, VerbError};
use strandline_sweeper::schedule::Sweeper;
use strandline_tests::tiers::promise::Promise;

/// Between two things that are asked.
const EVERY: Duration = Duration::from_millis(150);

/// Between two leaks.
const LEAKS_EVERY: Duration = Duration::from_secs(1);

/// Between two directories that are left behind, and how many lie there at most.
const PLANTS_EVERY: Duration = Duration::from_secs(10);
const PLANTED_MAX: usize = 4;

/// How long it is waited for the directory of a log that was deleted.
const GOES_WITHIN: Duration = Duration::from_secs(10);

/// The topic whose directories are left behind.
const PLANTED: &str = "planted";

/// The thread that asks.
pub struct Upkeep {
    shared: Arc<Shared>,
    sweeper: Arc<Sweeper>,
    random: Random,
    rounds: u64,
}

impl Upkeep {
    /// Of an open store.
    pub fn new(shared: Arc<Shared>, sweeper: Arc<Sweeper>) -> Upkeep {
        let random = Random::new(shared.job.shape.seed ^ shared.opening << 8, 55);
        Upkeep { shared, sweeper, random, rounds: 0 }
    }

    /// Asks until it is over.
    pub fn run(mut self) {
        let (mut leaked, mut planted) = (Instant::now(), Instant::now());
        self.change_policies();
        while !self.shared.is_over() {
            self.ask();
            if let Some(leak) = self.shared.job.leak.filter(|_| leaked.elapsed() > LEAKS_EVERY) {
                leaked = Instant::now();
                self.rounds += 1;
                let round = self.shared.opening << 24 | self.rounds;
                if let Err(error) = leak.leak(&self.shared.job.root, round) {
                    self.shared.teller.refused("a leak", error);
                }
            }
            if self.shared.job.plants && planted.elapsed() > PLANTS_EVERY {
                planted = Instant::now();
                self.rounds += 1;
                self.plant();
            }
            self.shared.rest(EVERY);
        }
    }

    fn ask(&mut self) {
        let shared = self.shared.clone();
        let which = self.random.pick(&stays().collect::<Vec<_>>());
        let teller = &shared.teller;
        match self.random.below(12) {
            0..=1 => self.change_policies(),
            2 => drop(teller.refused_unless_gone("the inventory", shared.store.inventory())),
            3 => self.sweeper.begin_scrub(),
            4 => {
                let health = (self.sweeper.retention().health(), self.sweeper.is_well());
                drop((health, shared.store.capabilities(), shared.store.pressure()));
            }
            5 => {
                if let Err(error) = shared.store.listed_segments() {
                    teller.refused("the listed segments", error);
                }
            }
            of => {
                let Some(log) = shared.find(which) else { return };
                self.ask_log(of, &log);
            }
        }
    }

    fn ask_log(&mut self, of: u64, log: &Log) {
        let teller = &self.shared.teller;
        match of {
            6 => drop(teller.refused_unless_gone("statistics", log.stats().wait())),
            7 => {
                if let Some(rot) = teller
                    .refused_unless_gone("verifying", log.verify(None).wait())
                    .and_then(|verified| verified.rot.into_iter().next())
                {
                    teller.tell(&super::told::Told::Damaged(
                        self.place(log),
                        rot.from.0,
                        format!("verifying: {rot:?}"),
                    ));
                }
            }
            8 => {
                let pin = teller.refused_unless_gone("a pin", log.pin(log.earliest()));
                self.shared.rest(Duration::from_millis(200));
                drop(pin);
            }
            9 => match log.offset_at(Time::Store(now_ms().saturating_sub(1_000))).wait() {
                Ok(_) | Err(strandline::ReadError::Deleted { .. } | strandline::ReadError::OutOfRange { .. }) => {}
                Err(error) => teller.refused("a search by time", error),
            },
            10 => {
                let info = teller.refused_unless_gone("statistics", log.stats().wait());
                let sealed = info.into_iter().flat_map(|info| info.segments);
                let sealed = sealed.filter(|segment| segment.state == SegmentState::Sealed).last();
                if let Some(segment) = sealed {
                    teller.refused_unless_gone("an index", log.rebuild_index(segment.seq).wait());
                }
            }
            _ => match self.sweeper.explain_log(log.id()) {
                Ok(_) => {}
                Err(error) => teller.refused("an explanation", error),
            },
        }
    }

    fn place(&self, log: &Log) -> usize {
        let topic = log.id().topic.to_string();
        ROLES.iter().position(|role| topic.starts_with(role.topic)).unwrap_or(0)
    }

    /// What the policies say is one or the other.
    fn change_policies(&mut self) {
        for keep in [Keep::Bytes, Keep::Age] {
            let said = match keep {
                Keep::Bytes => Policy { max_bytes: Bound::Is(self.random.pick(&BYTES_KEPT)), ..Policy::default() },
                _ => Policy { max_age_ms: Bound::Is(self.random.pick(&AGES_KEPT_MS)), ..Policy::default() },
            };
            let Some(name) = policy(keep) else { continue };
            match self.shared.store.policies().define(name, &said, "soak") {
                Ok(_) => drop(self.shared.teller.policies.fetch_add(1, Ordering::Relaxed)),
                Err(error) => self.shared.teller.refused("a policy", error),
            }
        }
    }

    /// Leaves a directory behind as a repair does that came too late: it was a segment's that is gone.
    fn plant(&self) {
        let planted = std::fs::read_dir(&self.shared.job.root).map(|entries| {
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PLANTED)).count()
        });
        if planted.map_or(true, |planted| planted >= PLANTED_MAX) {
            return;
        }
        if let Err(why) = self.try_to_plant() {
            self.shared.teller.refused("planting an orphan", why);
        }
    }

    fn try_to_plant(&self) -> Result<(), String> {
        let (store, root) = (&self.shared.store, &self.shared.job.root);
        let name = format!("{PLANTED}-{}", self.shared.opening << 24 | self.rounds);
        let topic = Topic::new(&name).map_err(|error| error.to_string())?;
        let log = store.log(&topic, RangeNumber::default()).map_err(|error| error.to_string())?;
        let mut batch = log.batch();
        batch.push(&Record { value: Some(&[7; 900]), ..Record::default() }).map_err(|error| error.to_string())?;
        let batch = batch.build().map_err(|error| error.to_string())?;
        let appended = log.append_with(batch, Level::Durable).map_err(|error| error.to_string())?;
        appended.wait().map_err(|error| error.to_string())?;
        drop(log);
        let (directory, aside) = (root.join(format!("{name}-r0-s0")), root.with_file_name("aside"));
        let copied = copy(&directory, &aside).map_err(|error| error.to_string());
        store.delete_topic(&topic).map_err(|error| error.to_string())?;
        copied?;
        let until = Instant::now() + GOES_WITHIN;
        while self.is_known(&topic, &directory).map_err(|error| error.to_string())? {
            if Instant::now() > until {
                let seen = format!("{} is there {GOES_WITHIN:?} after its log was deleted", directory.display());
                self.shared.teller.broke(Promise::Placed, seen);
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::rename(&aside, &directory).map_err(|error| error.to_string())
    }

    fn is_known(&self, topic: &Topic, directory: &Path) -> Result<bool, VerbError> {
        let listed = self.shared.store.listed_segments().map_err(|_| VerbError::ShardGone)?;
        let is_of = |id: &strandline::id::SegmentId| id.log.topic == *topic;
        Ok(directory.exists() || listed.leaving.iter().any(is_of))
    }
}

fn copy(from: &PathBuf, to: &PathBuf) -> std::io::Result<()> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
