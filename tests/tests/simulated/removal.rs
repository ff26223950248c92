//! Removal of what the pool does not take: in steps, in batches, finished after any crash, and never held up by one file that resists.

use std::cell::Cell;
use std::rc::Rc;
use strandline::config::Config;
use strandline::pending::pair;
use strandline::shard::command::Command;
use strandline::{AppendError, Level, Removal};
use strandline_disk::sim::{Fault, Times, What, When};
use strandline_disk::{Errno, Verb};
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::images::crash_at_every_turn;
use strandline_tests::harness::machine::{batch_of, small};
use strandline_tests::harness::seeds::outcome;
use strandline_tests::harness::{Ask, At, Checked, Machine, Step};

const TRIM: Step = Step::Verb { log: 0, ask: Ask::Trim(At::Back(2)) };

/// No pool, and segments of several steps.
fn config() -> Config {
    let mut config = small();
    config.segment_bytes = 1 << 20;
    config.batch_bytes_max = 60 << 10;
    config.commit_bytes_max = 128 << 10;
    config.spare_bytes_max = 0;
    config.arena_bytes = 4 << 20;
    config
}

/// A log of about three segments.
fn filled(seed: u64, config: Config) -> Machine {
    let mut machine = Machine::new(seed, config);
    let append = Step::Append { log: 0, batches: 10, records: 1, bytes: 50_000 };
    let run = machine.open().and_then(|()| machine.run(&[Step::OpenLog(0), Step::Idle]));
    run.and_then(|()| (0..6).try_for_each(|_| machine.run(&[append, Step::Idle]))).expect("an honest history");
    machine
}

fn trim(machine: &mut Machine) -> Checked {
    machine.world.keep_trace(true);
    machine.run(&[TRIM, Step::Answer, Step::Idle])
}

/// What was done, in its order, as far as it has all of `parts`.
fn done(machine: &Machine, parts: &[&str]) -> Vec<String> {
    let trace = machine.world.trace();
    trace.into_iter().filter(|line| parts.iter().all(|part| line.contains(part))).collect()
}

fn released(machine: &Machine) -> usize {
    Disk::look(&machine.world, &machine.config).expect("a manifest").state().released.len()
}

fn exists(machine: &Machine, path: &str) -> bool {
    machine.world.read_file(path).is_some()
}

#[test]
fn dl_03_a_file_is_shrunk_in_steps_before_it_is_unlinked() {
    let mut machine = filled(1, config());
    trim(&mut machine).expect("a trim");
    let steps = done(&machine, &["start", "Truncate", "t0-r0-s0/data.0"]);
    assert!(!steps.is_empty());
    assert_eq!(done(&machine, &["start", "Unlink", "t0-r0-s0/data.0"]).len(), 1);
    assert!(!exists(&machine, "t0-r0-s0/data.0") && !exists(&machine, "t0-r0-s1/data.0"));
    assert_eq!(released(&machine), 0);
}

#[test]
fn without_pacing_files_go_at_once() {
    let mut machine = filled(2, Config { removal: Removal::Unpaced, ..config() });
    trim(&mut machine).expect("a trim");
    assert_eq!(done(&machine, &["Truncate", "data.0"]), [""; 0]);
    assert!(!exists(&machine, "t0-r0-s0/data.0") && !exists(&machine, "t0-r0-s1/data.0"));
}

#[test]
fn os_11_what_is_gone_already_is_done() {
    for what in [Verb::Unlink, Verb::RemoveDirectory, Verb::OpenDirectory] {
        let mut machine = filled(3, config());
        let absent = What::Errno(Errno::NOENT);
        let when = When::VerbOnPath(what, "t0-r0-s0".to_owned());
        machine.world.inject(Fault { when, what: absent, times: Times::Once });
        trim(&mut machine).expect("a trim");
        assert_eq!(released(&machine), 0, "{what:?}");
    }
}

#[test]
fn one_that_resists_is_tried_again_and_holds_up_no_other() {
    let mut machine = filled(4, config());
    let when = When::VerbOnPath(Verb::Unlink, "t0-r0-s0/data.0".to_owned());
    machine.world.inject(Fault { when, what: What::Errno(Errno::ACCESS), times: Times::Forever });
    machine.world.keep_trace(true);
    machine.run(&[TRIM, Step::Answer]).expect("a trim");
    // It is tried for ever: the disk is never idle.
    for _ in 0..300 {
        machine.turn().expect("a turn");
    }
    let attempts = done(&machine, &["start", "Unlink", "t0-r0-s0/data.0"]).len();
    assert!((2..60).contains(&attempts), "{attempts}");
    assert!(exists(&machine, "t0-r0-s0/data.0") && !exists(&machine, "t0-r0-s1/data.0"));
    assert_eq!(released(&machine), 1);
    machine.world.clear_faults();
    machine.run(&[Step::Idle]).expect("the background");
    assert!(!exists(&machine, "t0-r0-s0/data.0"));
    assert_eq!(released(&machine), 0);
}

#[test]
fn a_file_with_another_name_is_only_unlinked() {
    let mut machine = filled(5, Config { spare_bytes_max: 1 << 30, ..config() });
    let when = When::VerbOnPath(Verb::Open, "t0-r0-s0/data.0".to_owned());
    machine.world.inject(Fault { when, what: What::Errno(Errno::MLINK), times: Times::Forever });
    trim(&mut machine).expect("a trim");
    for verb in ["Truncate", "Write", "Rename"] {
        assert_eq!(done(&machine, &[verb, "t0-r0-s0/data.0"]), [""; 0]);
    }
    assert!(!exists(&machine, "t0-r0-s0/data.0"));
    assert_eq!(released(&machine), 0);
}

#[test]
fn a_crash_at_any_turn_of_a_removal_in_steps_keeps_what_was_acknowledged() {
    let count = Rc::new(Cell::new(0));
    let mut machine = filled(6, config());
    let run = outcome(|| {
        machine.observer = Some(crash_at_every_turn(machine.config.clone(), 1, count.clone()));
        machine.run(&[TRIM, Step::Answer, Step::Idle])
    });
    if let Err(text) = run {
        panic!("{text}");
    }
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 50);
}

#[test]
fn what_closing_interrupts_is_finished_after_the_next_open() {
    let mut machine = filled(7, config());
    let run = outcome(|| {
        machine.world.keep_trace(true);
        machine.apply(TRIM)?;
        machine.turn_until_in_flight(&["Truncate", "t0-r0-s0/data.0"])?;
        machine.crash(|world| world.kill())?;
        machine.open()?;
        machine.apply(Step::Idle)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(released(&machine), 0);
    assert!(!exists(&machine, "t0-r0-s0/data.0"));
    let mut machine = filled(8, config());
    let run = outcome(|| {
        machine.run(&[TRIM, Step::Answer, Step::Reopen])?;
        assert!(released(&machine) > 0 || !exists(&machine, "t0-r0-s0/data.0"));
        machine.apply(Step::Idle)
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(released(&machine), 0);
}

/// A flush that failed beside the appends may have taken their bytes along, whoever asked for it.
#[test]
fn a_flush_of_the_removal_that_fails_latches_the_logs_with_something_in_flight() {
    let mut machine = filled(9, config());
    machine.tolerant = true;
    let when = When::KthOf(Verb::SyncDirectory, 1);
    machine.world.inject(Fault { when, what: What::Errno(Errno::IO), times: Times::Once });
    let append = Step::Append { log: 0, batches: 1, records: 1, bytes: 100 };
    let run = outcome(|| {
        machine.apply(TRIM)?;
        while machine.world.faults_fired() == 0 {
            machine.run(&[append, Step::Turn(1)])?;
        }
        machine.run(&[append, Step::Answer])
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    let queue = machine.running().queues[0].clone();
    let admitted = queue.admit(100).unwrap_or_else(|_| panic!("there is room"));
    let (answer, mut pending) = pair();
    let (log, batch) = (machine.running().opened[&0].1.number, batch_of(1 << 40, 1, 100));
    queue.push(Command::Append { log, batch, level: Level::Durable, expected: None, answer, admitted });
    let answer = loop {
        machine.turn().expect("a turn");
        if let Some(answer) = pending.try_take() {
            break answer;
        }
    };
    assert!(matches!(answer, Err(AppendError::Latched { .. })), "{answer:?}");
}
