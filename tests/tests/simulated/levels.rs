//! Levels and pipelined commits: what was answered at a level is as safe as that says, in whatever order commits land, and no log that is
//! always busy keeps its neighbours waiting.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use strandline::Level;
use strandline::config::{Config, SmallCommits, SyncMode};
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Machine, Step};

/// Commits of one log beside each other: more payload than a pipelined commit waits for, in segments that hold it.
fn pipelined(sync: SyncMode, small_commits: SmallCommits) -> Config {
    Config {
        segment_bytes: 1 << 20,
        batch_bytes_max: 64 << 10,
        commit_bytes_max: 128 << 10,
        arena_bytes: 8 << 20,
        commit_depth: 4,
        flush_bytes: 64 << 10,
        sync,
        small_commits,
        ..small()
    }
}

const fn append(log: usize, batches: usize, bytes: usize, level: Level) -> Step {
    Step::AppendAt { log, batches, records: 2, bytes, level }
}

#[test]
fn a_crash_at_any_turn_of_pipelined_commits_of_every_level_keeps_what_was_answered() {
    for (place, sync) in [SyncMode::Auto, SyncMode::Dsync, SyncMode::PerFile, SyncMode::Barrier].into_iter().enumerate()
    {
        for small_commits in [SmallCommits::Rewrite, SmallCommits::Pad] {
            let mut machine = Machine::new(1 + place as u64, pipelined(sync, small_commits));
            let count = Rc::new(Cell::new(0));
            let run = outcome(|| {
                machine.open()?;
                machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Idle])?;
                machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
                machine.run(&[
                    append(0, 3, 60_000, Level::Durable),
                    append(0, 3, 60_000, Level::Written),
                    append(1, 1, 300, Level::Accepted),
                    append(0, 2, 60_000, Level::Accepted),
                    Step::Turn(1),
                    append(0, 3, 60_000, Level::Durable),
                    append(1, 1, 300, Level::Written),
                    Step::Turn(1),
                    append(0, 2, 300, Level::Written),
                    Step::UntilDurable { log: 0, now: true },
                    append(1, 1, 300, Level::Durable),
                    Step::Answer,
                ])
            });
            run.unwrap_or_else(|text| panic!("{sync:?}, {small_commits:?}: {text}"));
            eprintln!("{} crash images", count.get());
        }
    }
}

/// A turn lands some of what is in flight, so a commit takes a few of them.
const TURNS_FOR_A_NEIGHBOUR: usize = 40;

#[test]
fn a_log_that_is_always_busy_never_starves_its_neighbours() {
    for sync in [SyncMode::Auto, SyncMode::Dsync, SyncMode::PerFile, SyncMode::Barrier] {
        for hot in 1..=3 {
            let config = Config { idle_mark_after: Duration::from_secs(1), ..pipelined(sync, SmallCommits::Pad) };
            let mut machine = Machine::new(hot as u64, config);
            let run = outcome(|| {
                machine.open()?;
                let logs: Vec<Step> = (0..=hot).map(Step::OpenLog).chain([Step::Idle]).collect();
                machine.run(&logs)?;
                for _ in 0..8 {
                    machine.apply(append(hot, 1, 300, Level::Durable))?;
                    let mut turns = 0;
                    while machine.running().appends.iter().any(|asked| asked.log == hot) {
                        for log in 0..hot {
                            let waiting = machine.running().appends.iter().filter(|asked| asked.log == log).count();
                            machine.apply(append(log, 12_usize.saturating_sub(waiting), 30_000, Level::Durable))?;
                        }
                        machine.turn()?;
                        turns += 1;
                        assert!(turns < TURNS_FOR_A_NEIGHBOUR, "{turns} turns, and no answer");
                    }
                }
                machine.apply(Step::Answer)
            });
            run.unwrap_or_else(|text| panic!("{sync:?}, {hot} busy logs: {text}"));
        }
    }
}
