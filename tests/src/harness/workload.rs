//! The workload: random histories, every choice from the seed.

use super::checker;
use super::files::Disk;
use super::machine::{Machine, small};
use super::random::Random;
use super::step::{Ask, At, Step};
use super::violation::Checked;
use std::time::Duration;
use strandline::Level;
use strandline::config::{Config, DESCRIPTORS_MIN, Preallocate, Removal, Sabotage, SmallCommits, SyncMode};
use strandline_disk::sim::{Lie, Loss};

/// How a random history differs from the honest one.
#[derive(Clone, Debug, Default)]
pub struct Twist {
    /// A defect of the engine.
    pub sabotage: Option<Sabotage>,
    /// A lie of the disk, told from the first open on.
    pub lie: Option<Lie>,
    /// Files have blocks that were never written.
    pub unwritten: bool,
    /// Whether direct I/O works; else the seed says so.
    pub direct: Option<bool>,
    /// A barrier covers no other file than its own.
    pub barrier_fails: bool,
    /// There are so many shards; another number after each reopening in which the seed says so.
    pub shards: Option<usize>,
}

/// A configuration for a seed: the knobs that change how a store writes.
#[must_use]
pub fn config_of(random: &mut Random) -> Config {
    let mut config = small();
    config.segment_bytes = random.pick(&[64 << 10, 64 << 10, 128 << 10]);
    config.preallocate = random.pick(&[Preallocate::Written, Preallocate::Allocated, Preallocate::Off]);
    config.spare_files_min = random.below(3);
    config.removal = random.pick(&[Removal::Governed, Removal::Unpaced]);
    config.removal_batch = 1 + random.below(4);
    config.idle_mark_after = Duration::from_millis(random.pick(&[1, 5, 100]));
    config.commit_bytes_max = random.pick(&[16 << 10, 32 << 10]);
    config.sync = random.pick(&[SyncMode::Auto, SyncMode::Auto, SyncMode::Dsync, SyncMode::PerFile]);
    config.commit_depth = random.pick(&[1, 2, 4]);
    config.small_commits = random.pick(&[SmallCommits::Rewrite, SmallCommits::Rewrite, SmallCommits::Pad]);
    config.linger = Duration::from_micros(random.pick(&[0, 0, 0, 500]));
    config.flush_interval = Duration::from_micros(random.pick(&[200, 1_000, 50_000]));
    config.idle_clean_after = Duration::from_millis(random.pick(&[3, 60_000]));
    config.tail_cache_bytes = random.pick(&[0, 4_000, 1 << 20]);
    config.segment_max_age = random.pick(&[None, Some(Duration::from_secs(60))]);
    config
}

/// Runs a history of `steps` steps.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64, steps: usize, twist: &Twist) -> Checked {
    let (mut machine, mut random) = prepare(seed, twist)?;
    for _ in 0..steps {
        let step = choose(&mut random, machine.model.logs.len());
        if twist.shards.is_some() && random.chance(1, 12) {
            reopen_with_other_shards(&mut machine, &mut random)?;
        }
        machine.apply(step)?;
    }
    finish(&mut machine)
}

/// Closes the store, and opens it with as many shards as the seed says.
///
/// # Errors
/// The first broken promise.
///
/// # Panics
/// Never: the number is one that works.
pub fn reopen_with_other_shards(machine: &mut Machine, random: &mut Random) -> Checked {
    let mut config = (*machine.config).clone();
    let before = config.shards;
    config.shards = 1 + random.below(4);
    config.descriptors_max = config.descriptors_max.map(|all| all / before * config.shards);
    machine.close()?;
    machine.config = config.check().expect("another number of shards");
    machine.open()
}

/// The machine of a seed, with an open store of one log.
///
/// # Errors
/// The first broken promise.
pub fn prepare(seed: u64, twist: &Twist) -> Checked<(Machine, Random)> {
    let mut random = Random::new(seed);
    let mut config = config_of(&mut random);
    config.sabotage = twist.sabotage;
    if twist.unwritten {
        config.preallocate = Preallocate::Allocated;
    }
    if twist.lie.as_ref().is_some_and(|lie| matches!(lie, Lie::SkipBarrier)) || twist.barrier_fails {
        config.sync = SyncMode::Auto;
    }
    config.shards = twist.shards.unwrap_or(1);
    // Drawn apart, so that a history is what it was without them.
    let mut apart = Random::new(seed ^ 0xf11e5);
    config.descriptors_max = apart.pick(&[None, Some(DESCRIPTORS_MIN), Some(14)]).map(|each| each * config.shards);
    config.idle_close_after = apart.pick(&[None, Some(2), Some(20), Some(30_000)]).map(Duration::from_millis);
    let mut machine = Machine::new(seed, config);
    let direct = !random.chance(1, 4);
    machine.world.set_direct(twist.direct.unwrap_or(direct));
    machine.world.set_barrier_works(!twist.barrier_fails);
    if let Some(lie) = &twist.lie {
        machine.world.sabotage(lie.clone());
    }
    machine.open()?;
    machine.run(&[Step::OpenLog(0), Step::Answer])?;
    Ok((machine, random))
}

/// Ends a history: everything is answered, a clean close loses nothing, and what was sealed is as it must be.
///
/// # Errors
/// The first broken promise.
pub fn finish(machine: &mut Machine) -> Checked {
    machine.run(&[Step::Idle, Step::Reopen, Step::Idle])?;
    let disk = Disk::look(&machine.world, &machine.config)?;
    checker::indexes_equal_scans(&disk)?;
    checker::nothing_that_was_given_up_is_left(&disk)?;
    machine.apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None })
}

/// The next step of a random history.
#[must_use]
pub fn choose(random: &mut Random, logs: usize) -> Step {
    let log = random.below(logs);
    let again_after = random.chance(1, 3).then(|| random.below(80));
    match random.below(100) {
        0..34 => {
            let batches = 1 + random.below(4);
            let records = 1 + random.below(4);
            let bytes = random.pick(&[60, 300, 300, 1_000, 3_000, 5_500]);
            let level = random.pick(&[Level::Durable, Level::Durable, Level::Durable, Level::Written, Level::Accepted]);
            Step::AppendAt { log, batches, records, bytes: bytes + random.below(bytes / 8), level }
        }
        34..36 => {
            let off = random.pick(&[0, 0, 0, -1, 1, 40]);
            Step::Follow { log, records: 1 + random.below(4), bytes: random.pick(&[60, 300, 3_000]), off }
        }
        36..44 => verb(random, log),
        44..68 => Step::Turn(1 + random.below(12)),
        68..70 => Step::UntilDurable { log, now: random.chance(1, 2) },
        70 => Step::ReadPastDurable { log },
        71..76 => {
            Step::Read { log, per_mille: random.below(1001) as u64, bytes: random.pick(&[1, 100, 8_000, 64 << 10]) }
        }
        76..84 => Step::Answer,
        84..88 => Step::Idle,
        88..90 => match random.pick(&[-3_600_000, -60_000, -500, 500, 60_000, 3_600_000]) {
            // An hour that the wall clock jumps ahead would let nothing roll by age any more.
            ahead_ms @ 3_600_000 => Step::LetPass(ahead_ms as u64),
            delta_ms => Step::Jump(delta_ms),
        },
        90..92 => Step::Reopen,
        92..95 => Step::Kill { again_after },
        95..98 => Step::PowerFailure { loss: loss(random), again_after },
        _ => Step::OpenLog(random.below(3)),
    }
}

/// A verb beside append and read. What takes much away is rarer than what does not.
#[must_use]
pub fn verb(random: &mut Random, log: usize) -> Step {
    let at = match random.below(6) {
        0 => At::Back(random.below(8) as u64),
        1 => At::Start,
        2 => At::Past(1 + random.below(3) as u64),
        _ => At::PerMille(random.below(1001) as u64),
    };
    let late = At::PerMille(700 + random.below(301) as u64);
    let ask = match random.below(24) {
        0..3 => Ask::Truncate(late),
        3 => Ask::Truncate(at),
        4..7 => Ask::Trim(At::PerMille(random.below(400) as u64)),
        7 => Ask::Trim(at),
        8..11 => Ask::Seal,
        11 => Ask::SealAt(late),
        12 => Ask::Fence((random.chance(1, 2)).then_some(At::Past(random.below(9) as u64))),
        13..16 => Ask::Unfence,
        16..18 => Ask::Stats,
        18..20 => Ask::Verify,
        20..22 => return Step::DeleteSegment { log, place: random.pick(&[0, 0, 1, 7]) },
        22 => return Step::RebuildIndex { log, place: random.below(4) },
        _ => Ask::Delete,
    };
    Step::Verb { log, ask }
}

/// A way to lose power.
#[must_use]
pub fn loss(random: &mut Random) -> Loss {
    match random.below(10) {
        0 => Loss::DropAll,
        1 => Loss::KeepAll,
        2 => Loss::Prefix,
        3 => Loss::First(random.below(40)),
        4 => Loss::Only(random.below(40)),
        5 => Loss::AllBut(random.below(40)),
        6 => Loss::Subset(random.bits()),
        _ => Loss::Random,
    }
}
