//! Scenarios: what is measured, and how much of it.

mod append_latency;
mod append_throughput;
mod beside;
mod child;
mod expire_many;
mod fallback;
mod idle;
mod levels;
mod many_logs;
mod mixed;
mod open_loop;
mod orphans;
mod paced;
mod part;
mod produce;
mod read_cold;
mod read_tail;
mod recovery;
mod round_trip;
mod scrub_under_load;
mod shards;
mod steady_state;
mod sweep_under_load;
pub mod ten_thousand;

use crate::ceiling::{APPEND_FILE_BYTES, AppendCeiling};
use crate::error::{BenchError, io};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::rounds::Outcome;
use crate::subject::{Config, with_segments_of};
use clap::ValueEnum;
pub use part::Part;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The pause before each window: longer than a log rests before it writes its mark, and long enough for the drive to
/// come to rest after the other side's window.
const SETTLE: Duration = Duration::from_millis(250);

/// The same where nothing is to be learnt from the figures.
const SETTLE_OF_SMOKE: Duration = Duration::from_millis(20);

/// Files that are written whole before a case are small there too.
const SEGMENT_BYTES_OF_SMOKE: u64 = 8 << 20;

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// One producer that waits for each record to be durable.
    AppendLatency,
    /// Many appends in flight.
    AppendThroughput,
    /// Records by a schedule.
    OpenLoop,
    /// Answers at each level.
    Levels,
    /// Rounds over many logs.
    ManyLogs,
    /// One shard and several.
    Shards,
    /// Reading a log that is in no cache.
    ReadCold,
    /// Reading at the end of a log that grows.
    ReadTail,
    /// Appends beside readers.
    Mixed,
    /// Opening a store whose process was killed.
    Recovery,
    /// A store with nothing to do.
    Idle,
    /// Appends while written segments are removed.
    SweepUnderLoad,
    /// Many small segments that are due at once.
    ExpireMany,
    /// Appends and expiry in balance.
    SteadyState,
    /// Directories that no log knows.
    Orphans,
    /// Segments that no pool has files for.
    Fallback,
    /// Appends while sealed segments are read again.
    ScrubUnderLoad,
    /// A store of very many logs.
    TenThousand,
}

/// How large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// To see that it works.
    Smoke,
    /// To measure.
    Normal,
    /// To measure long.
    Full,
}

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How large.
    pub scale: Scale,
    /// Time of measuring per case, store and ceiling together.
    pub time: Duration,
    /// How often store and ceiling take turns.
    pub rounds: u32,
    /// Whether only the core set is wanted.
    pub core: bool,
    /// How files are removed, where that is not as by default.
    pub removal: RemovalPlan,
    /// How many directories `orphans` has emptied, where that is not as by default.
    pub directories: Option<u64>,
}

/// How files are removed; what is not set is as by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovalPlan {
    /// So many files are unlinked at once.
    pub batch: Option<usize>,
    /// So many kernel threads may work at it.
    pub workers: Option<u32>,
}

impl Plan {
    /// How many files a store is to have ready before it is measured.
    pub fn spare_segments(self) -> u64 {
        if self.scale == Scale::Smoke { 2 } else { 8 }
    }

    /// How long one side is measured at a stretch.
    fn window(&self) -> Duration {
        self.time / (2 * self.rounds)
    }
}

/// What a scenario runs with.
pub struct Context<'a> {
    /// The directory of the run.
    pub directory: &'a Path,
    /// How much of everything.
    pub plan: Plan,
    /// Where it says how far it has come.
    pub progress: &'a Progress,
    /// Whether the user has asked to stop.
    pub interrupt: &'a Interrupt,
}

impl Scenario {
    /// All of them, in the order in which they run.
    pub const ALL: [Scenario; 18] = [
        Scenario::AppendLatency,
        Scenario::AppendThroughput,
        Scenario::OpenLoop,
        Scenario::Levels,
        Scenario::ManyLogs,
        Scenario::Shards,
        Scenario::ReadCold,
        Scenario::ReadTail,
        Scenario::Mixed,
        Scenario::Recovery,
        Scenario::Idle,
        Scenario::SweepUnderLoad,
        Scenario::ExpireMany,
        Scenario::SteadyState,
        Scenario::Orphans,
        Scenario::Fallback,
        Scenario::ScrubUnderLoad,
        Scenario::TenThousand,
    ];

    /// Whether a run without arguments has it.
    pub fn is_core(self) -> bool {
        !matches!(
            self,
            Scenario::OpenLoop
                | Scenario::Levels
                | Scenario::Shards
                | Scenario::Mixed
                | Scenario::SweepUnderLoad
                | Scenario::ExpireMany
                | Scenario::SteadyState
                | Scenario::Orphans
                | Scenario::Fallback
                | Scenario::ScrubUnderLoad
                | Scenario::TenThousand
        )
    }

    /// Its name in reports, targets and options.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::AppendLatency => "append-latency",
            Scenario::AppendThroughput => "append-throughput",
            Scenario::OpenLoop => "open-loop",
            Scenario::Levels => "levels",
            Scenario::ManyLogs => "many-logs",
            Scenario::Shards => "shards",
            Scenario::ReadCold => "read-cold",
            Scenario::ReadTail => "read-tail",
            Scenario::Mixed => "mixed",
            Scenario::Recovery => "recovery",
            Scenario::Idle => "idle",
            Scenario::SweepUnderLoad => "sweep-under-load",
            Scenario::ExpireMany => "expire-many",
            Scenario::SteadyState => "steady-state",
            Scenario::Orphans => "orphans",
            Scenario::Fallback => "fallback",
            Scenario::ScrubUnderLoad => "scrub-under-load",
            Scenario::TenThousand => "ten-thousand",
        }
    }

    /// What it does, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Scenario::AppendLatency => append_latency::ABOUT,
            Scenario::AppendThroughput => append_throughput::ABOUT,
            Scenario::OpenLoop => open_loop::ABOUT,
            Scenario::Levels => levels::ABOUT,
            Scenario::ManyLogs => many_logs::ABOUT,
            Scenario::Shards => shards::ABOUT,
            Scenario::ReadCold => read_cold::ABOUT,
            Scenario::ReadTail => read_tail::ABOUT,
            Scenario::Mixed => mixed::ABOUT,
            Scenario::Recovery => recovery::ABOUT,
            Scenario::Idle => idle::ABOUT,
            Scenario::SweepUnderLoad => sweep_under_load::ABOUT,
            Scenario::ExpireMany => expire_many::ABOUT,
            Scenario::SteadyState => steady_state::ABOUT,
            Scenario::Orphans => orphans::ABOUT,
            Scenario::Fallback => fallback::ABOUT,
            Scenario::ScrubUnderLoad => scrub_under_load::ABOUT,
            Scenario::TenThousand => ten_thousand::ABOUT,
        }
    }

    /// Its cases; with `core`, those of the core set.
    pub fn cases(self, core: bool) -> Vec<&'static str> {
        match self {
            Scenario::AppendLatency => {
                let cases = append_latency::CASES.iter().map(|case| case.name);
                cases.chain([append_latency::CASE_WITHOUT_RING]).collect()
            }
            Scenario::AppendThroughput => append_throughput::CASES.iter().map(|case| case.name).collect(),
            Scenario::OpenLoop => open_loop::CASES.iter().map(|case| case.name).collect(),
            Scenario::Levels => levels::CASES.iter().map(|case| case.name).collect(),
            Scenario::Shards => shards::CASES.iter().map(|case| case.name).collect(),
            Scenario::ManyLogs => {
                many_logs::CASES.iter().filter(|case| case.core || !core).map(|case| case.name).collect()
            }
            Scenario::ReadCold => read_cold::CASES.iter().map(|case| case.name).collect(),
            Scenario::ReadTail => vec![read_tail::CASE],
            Scenario::Mixed => mixed::CASES.to_vec(),
            Scenario::Recovery => vec![recovery::CASE],
            Scenario::Idle => vec![idle::CASE],
            Scenario::SweepUnderLoad => sweep_under_load::CASES.iter().map(|case| case.name).collect(),
            Scenario::ExpireMany => vec![expire_many::CASE],
            Scenario::SteadyState => steady_state::CASES.iter().map(|case| case.name).collect(),
            Scenario::Orphans => vec![orphans::CASE, orphans::CASE_UNDER_LOAD],
            Scenario::Fallback => fallback::CASES.iter().map(|case| case.name).collect(),
            Scenario::ScrubUnderLoad => vec![scrub_under_load::CASE],
            Scenario::TenThousand => ten_thousand::CASES.iter().map(|case| case.name).collect(),
        }
    }

    /// How many steps of progress it takes: one per case and round, and one per case to prepare it.
    pub fn steps(self, plan: Plan) -> u64 {
        // The cases of `mixed` are measured together.
        let cases = if self == Scenario::Mixed { 1 } else { self.cases(plan.core).len() as u64 };
        let rounds = match self {
            Scenario::ExpireMany => expire_many::rounds(plan),
            Scenario::TenThousand => ten_thousand::rounds(plan),
            _ => plan.rounds,
        };
        cases * (u64::from(rounds) + 1)
    }

    /// Runs it.
    ///
    /// # Errors
    /// Whatever kept it from measuring everything.
    pub fn run(self, context: &Context<'_>) -> Result<Vec<Outcome>, BenchError> {
        match self {
            Scenario::AppendLatency => append_latency::run(context),
            Scenario::AppendThroughput => append_throughput::run(context),
            Scenario::OpenLoop => open_loop::run(context),
            Scenario::Levels => levels::run(context),
            Scenario::ManyLogs => many_logs::run(context),
            Scenario::Shards => shards::run(context),
            Scenario::ReadCold => read_cold::run(context),
            Scenario::ReadTail => read_tail::run(context),
            Scenario::Mixed => mixed::run(context),
            Scenario::Recovery => recovery::run(context),
            Scenario::Idle => idle::run(context),
            Scenario::SweepUnderLoad => sweep_under_load::run(context),
            Scenario::ExpireMany => expire_many::run(context),
            Scenario::SteadyState => steady_state::run(context),
            Scenario::Orphans => orphans::run(context),
            Scenario::Fallback => fallback::run(context),
            Scenario::ScrubUnderLoad => scrub_under_load::run(context),
            Scenario::TenThousand => ten_thousand::run(context),
        }
    }
}

/// Does what a scenario asked its own child for.
///
/// # Errors
/// Whatever kept it from doing it.
pub fn run_part(part: &Part) -> Result<(), BenchError> {
    match part {
        Part::ManyFiller(store) => ten_thousand::fill(store),
        Part::ManyUser(store) => ten_thousand::put_to_use(store),
        Part::ManySoiler(store) => ten_thousand::soil(store),
        Part::ManyOpener(store) => ten_thousand::open_again(store),
        part => recovery::run_part(part),
    }
}

impl Context<'_> {
    /// Makes a directory for a case.
    fn subdirectory(&self, name: String) -> Result<PathBuf, BenchError> {
        let path = self.directory.join(name);
        std::fs::create_dir(&path).map_err(io(format!("making {}", path.display())))?;
        Ok(path)
    }

    /// A ceiling of durable appends in the directory of a case.
    fn append_ceiling(&self, directory: &Path, record_bytes: usize) -> Result<AppendCeiling, BenchError> {
        let length = if self.plan.scale == Scale::Smoke { SEGMENT_BYTES_OF_SMOKE } else { APPEND_FILE_BYTES };
        Ok(AppendCeiling::create(&directory.join("ceiling"), length, record_bytes)?)
    }

    /// The store that a case asks for, removing as the user wants it; with small segments where only the way is tried.
    fn config(&self, mut config: Config) -> Config {
        let RemovalPlan { batch, workers } = self.plan.removal;
        config.removal_batch = batch.unwrap_or(config.removal_batch);
        config.removal_workers = workers.unwrap_or(config.removal_workers);
        match self.plan.scale {
            Scale::Smoke => with_segments_of(config, SEGMENT_BYTES_OF_SMOKE),
            _ => config,
        }
    }

    /// Removes the directory of a case that is done: what comes next needs the room.
    fn clear(&self, directory: &Path) -> Result<(), BenchError> {
        std::fs::remove_dir_all(directory).map_err(io(format!("removing {}", directory.display())))
    }

    /// Lets the machine come to rest.
    fn settle(&self) -> Result<(), BenchError> {
        self.rest(if self.plan.scale == Scale::Smoke { SETTLE_OF_SMOKE } else { SETTLE })
    }

    /// Does nothing for so long.
    fn rest(&self, time: Duration) -> Result<(), BenchError> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.interrupt.check()?;
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        self.interrupt.check()
    }

    /// Says that a case is being prepared.
    fn preparing(&self, scenario: Scenario, case: &str) {
        self.progress.say(format!("{}, {case}: preparing", scenario.name()));
    }

    /// A step is done; says which round comes next.
    fn next_round(&self, scenario: Scenario, case: &str, round: u32) {
        self.progress.step();
        let next = (round + 1).min(self.plan.rounds);
        self.progress.say(format!("{}, {case}: round {next} of {}", scenario.name(), self.plan.rounds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_one_name_everywhere() {
        for scenario in Scenario::ALL {
            let option = scenario.to_possible_value().expect("no scenario is hidden");
            assert_eq!(option.get_name(), scenario.name());
            assert!(!scenario.cases(true).is_empty() && !scenario.about().is_empty());
            assert!(scenario.cases(true).iter().all(|case| scenario.cases(false).contains(case)));
        }
    }

    #[test]
    fn store_and_ceiling_share_the_time_of_a_case() {
        let plan = Plan {
            scale: Scale::Normal,
            time: Duration::from_secs(20),
            rounds: 5,
            core: false,
            removal: RemovalPlan::default(),
            directories: None,
        };
        assert_eq!(plan.window(), Duration::from_secs(2));
        assert_eq!(Scenario::AppendLatency.steps(plan), 30);
        assert_eq!(Scenario::ManyLogs.steps(plan), 24);
        assert_eq!(Scenario::ManyLogs.steps(Plan { core: true, ..plan }), 6);
    }
}
