//! A wall clock that is wrong: nothing rolls by it, and what is said of it durably is whole or absent after a crash at every turn.

use super::cases::{answer_of, send};
use std::time::Duration;
use strandline::config::Config;
use strandline::id::Seq;
use strandline::manifest::ManifestError;
use strandline::pending::Pending;
use strandline::shard::command::Command;
use strandline::shard::verb::{Verb, Verdict};
use strandline::{LogInfo, Restamped, SegmentState, VerbError};
use strandline_disk::Errno;
use strandline_disk::sim::{Fault, Loss, SimWorld, Times, What, When};
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::{Ask, At, Machine, Step};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;
const LOSSES: [Loss; 4] = [Loss::DropAll, Loss::KeepAll, Loss::Random, Loss::Prefix];

const APPEND: Step = Step::Append { log: 0, batches: 1, records: 2, bytes: 300 };
const SEAL: Step = Step::Verb { log: 0, ask: Ask::Seal };
const FORWARD: Step = Step::Jump(YEAR as i64);
const BACK: Step = Step::Jump(-(YEAR as i64));

pub(super) fn opened(seed: u64, config: Config) -> Machine {
    let mut machine = Machine::new(seed, config);
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer, APPEND, Step::Idle]).expect("an append");
    machine
}

/// The age at which segments roll here. A store that is idle lets minutes go by.
const AGE: u64 = 12 * HOUR;

/// One whose segments roll by age. Its log rests soon, or never.
fn rolling(seed: u64, rests: bool) -> Machine {
    let idle_clean_after = if rests { Duration::from_millis(3) } else { Duration::from_secs(86_400) };
    opened(seed, Config { segment_max_age: Some(Duration::from_millis(AGE)), idle_clean_after, ..small() })
}

fn info(machine: &mut Machine) -> LogInfo {
    machine.info(0).expect("an answer").expect("statistics")
}

fn states(machine: &mut Machine) -> Vec<SegmentState> {
    info(machine).segments.iter().map(|segment| segment.state).collect()
}

/// Lets time go by on both clocks, and the store do what is due.
fn pass(machine: &mut Machine, ms: u64) {
    machine.world.let_pass(ms);
    machine.run(&[Step::Turn(4), Step::Idle]).expect("time goes by");
}

fn begin_keeping(machine: &mut Machine, wall_ms: u64) -> Pending<Verdict<()>> {
    send(machine, 0, |_, answer, admitted| Command::SureTime { wall_ms, answer, admitted })
}

fn begin_restamping(machine: &mut Machine, seq: u32) -> Pending<Verdict<Restamped>> {
    let seq = Seq::new(seq).expect("small");
    send(machine, 0, |log, answer, admitted| Command::Verb { log, verb: Verb::RestampSeal { seq, answer }, admitted })
}

fn keep(machine: &mut Machine, wall_ms: u64) -> Verdict<()> {
    let pending = begin_keeping(machine, wall_ms);
    answer_of(machine, pending)
}

fn restamp(machine: &mut Machine, seq: u32) -> Verdict<Restamped> {
    let pending = begin_restamping(machine, seq);
    answer_of(machine, pending)
}

/// Segment 0 was sealed while the clock stood a year ahead; segment 1 is the write head.
fn pinned(seed: u64) -> Machine {
    let mut machine = opened(seed, small());
    machine.run(&[FORWARD, SEAL, Step::Answer, BACK, APPEND, Step::Idle]).expect("a bad hour");
    machine
}

fn sealed_at_ms(machine: &mut Machine) -> u64 {
    info(machine).segments[0].sealed_at_ms.expect("it is sealed")
}

/// What the manifest on the medium says: the time that is kept, and the seal time of the first segment.
fn durably(world: &SimWorld, machine: &Machine) -> (Option<u64>, Option<u64>) {
    let disk = Disk::look(world, &machine.config).expect("a manifest");
    let sealed = disk.segments().first().and_then(|segment| match segment.record.stage {
        strandline::manifest::state::Stage::Sealed { closing, .. } => Some(closing.sealed_at_ms),
        _ => None,
    });
    (disk.state().clock_sure_ms, sealed)
}

/// Waits for an answer, and leaves a picture of every turn until some turns behind it: the medium, and whether the answer had been given.
pub(super) fn pictures<T>(machine: &mut Machine, mut pending: Pending<T>) -> (T, Vec<(SimWorld, bool)>) {
    let (mut answer, mut behind, mut pictures) = (None, 0, Vec::new());
    machine.world.keep_moments(true);
    while behind < 5 {
        for place in machine.running().next_round() {
            machine.world.keep_moments(true);
            machine.running().turn_shard(place).expect("the ring works");
            answer = answer.or_else(|| pending.try_take());
            let known = answer.is_some();
            pictures.extend(machine.world.take_moment().map(|moment| (moment, known)));
            pictures.push((machine.world.snapshot(), known));
        }
        behind += usize::from(answer.is_some());
        assert!(pictures.len() < 1_000, "1,000 pictures are enough");
    }
    machine.world.keep_moments(false);
    (answer.expect("it was given"), pictures)
}

/// Crashes each picture in every way, and opens what is left twice. `is_right` is asked what is found then, and whether it was answered.
pub(super) fn crash_everywhere(
    machine: &Machine,
    seed: u64,
    pictures: Vec<(SimWorld, bool)>,
    mut is_right: impl FnMut(&mut Machine, bool) -> bool,
) -> usize {
    let mut images = 0;
    for (turn, (world, answered)) in pictures.into_iter().enumerate() {
        let killed = world.snapshot();
        killed.kill();
        let crashed = LOSSES.map(|loss| world.crash_image(seed + turn as u64, loss));
        for (which, image) in crashed.into_iter().chain([killed]).enumerate() {
            let mut found = Machine::on(image, machine.config.clone(), machine.model.clone());
            for _ in 0..2 {
                found.open().expect("it opens, and holds what it did");
                assert!(is_right(&mut found, answered), "seed {seed}, turn {turn}, way {which}, answered: {answered}");
                found.crash(|world| world.power_failure(Loss::DropAll)).expect("everybody is answered");
            }
            images += 1;
        }
    }
    images
}

/// Fails every operation of `work` in turn, once or from then on. `work` says what its answer was.
pub(super) fn fail_everywhere(begin: impl Fn(u64) -> Machine, work: impl Fn(&mut Machine, Option<u64>)) {
    let mut machine = begin(0);
    let start = machine.world.operations();
    work(&mut machine, None);
    let operations = machine.world.operations() - start;
    assert!(operations > 1, "{operations} operations");
    for k in 1..=operations + 1 {
        for errno in [Errno::IO, Errno::NOSPC] {
            for times in [Times::Once, Times::Forever] {
                let mut machine = begin(k);
                machine.tolerant = true;
                machine.world.inject(Fault { when: When::KthOperation(k), what: What::Errno(errno), times });
                work(&mut machine, Some(k));
            }
        }
    }
}

#[test]
fn a_clock_that_jumped_a_year_rolls_nothing_until_it_is_back_and_rolls_go_on_then() {
    for rests in [false, true] {
        let mut machine = rolling(1, rests);
        machine.run(&[FORWARD, Step::Idle]).expect("a jump");
        assert_eq!(states(&mut machine), [SegmentState::Active], "rests: {rests}");
        // What is appended meanwhile takes no new segment either, and the store does not wake over and over.
        machine.run(&[APPEND, Step::Idle]).expect("an append");
        let before_ns = machine.world.now().boot_ns;
        machine.apply(Step::Turn(10)).expect("turns");
        let waited_ns = machine.world.now().boot_ns - before_ns;
        assert!(waited_ns > 60_000_000_000, "10 turns took {waited_ns} ns");
        assert_eq!(states(&mut machine), [SegmentState::Active], "rests: {rests}");
        machine.run(&[BACK, Step::Idle]).expect("it is right again");
        assert_eq!(states(&mut machine), [SegmentState::Active], "rests: {rests}");
        pass(&mut machine, AGE);
        assert_eq!(states(&mut machine), [SegmentState::Sealed], "rests: {rests}");
        machine.run(&[APPEND, Step::Idle]).expect("an append");
        pass(&mut machine, AGE);
        assert_eq!(states(&mut machine), [SegmentState::Sealed, SegmentState::Sealed], "rolls go on");
    }
}

#[test]
fn a_clock_that_jumped_rolls_again_when_an_operator_has_confirmed_it() {
    for rests in [false, true] {
        let mut machine = rolling(2, rests);
        machine.run(&[FORWARD, Step::Idle]).expect("a jump");
        assert_eq!(states(&mut machine), [SegmentState::Active]);
        let now = machine.world.now();
        machine.running().clock().confirm(now);
        machine.apply(Step::Idle).expect("time for a roll");
        assert_eq!(states(&mut machine), [SegmentState::Sealed], "rests: {rests}");
    }
}

#[test]
fn a_clock_that_jumped_by_five_minutes_rolls_and_one_that_jumped_by_more_does_not() {
    for (ahead_ms, state) in [(5 * MINUTE, SegmentState::Sealed), (5 * MINUTE + 1, SegmentState::Active)] {
        let mut machine = rolling(3, false);
        machine.apply(Step::Jump(ahead_ms as i64)).expect("a jump");
        pass(&mut machine, AGE);
        assert_eq!(states(&mut machine), [state], "{ahead_ms} ms");
    }
}

#[test]
fn after_more_than_a_day_of_rest_nothing_rolls_for_an_hour_unless_a_later_time_is_kept() {
    for kept in [false, true] {
        let mut machine = rolling(4, false);
        if kept {
            let wall_ms = machine.world.now().wall_ms;
            keep(&mut machine, wall_ms + 2 * DAY).expect("kept");
        }
        machine.close().expect("a clean close");
        machine.world.jump_clock((2 * DAY + HOUR) as i64);
        let opened_ns = machine.world.now().boot_ns;
        machine.open().expect("an open");
        let until = |machine: &mut Machine, minutes: u64| {
            let passed_ms = (machine.world.now().boot_ns - opened_ns) / 1_000_000;
            machine.world.let_pass((minutes * MINUTE).saturating_sub(passed_ms));
            machine.apply(Step::Turn(4)).expect("turns");
            states(machine)
        };
        let state = if kept { SegmentState::Sealed } else { SegmentState::Active };
        if kept {
            machine.apply(Step::Idle).expect("time for a seal");
        }
        for minutes in [1, 30, 50] {
            assert_eq!(until(&mut machine, minutes), [state], "kept: {kept}, {minutes} minutes");
        }
        until(&mut machine, 60);
        machine.apply(Step::Idle).expect("time for a seal");
        assert_eq!(states(&mut machine), [SegmentState::Sealed], "kept: {kept}");
    }
}

#[test]
fn the_time_that_is_kept_is_the_old_or_the_new_one_after_a_crash_at_any_turn() {
    for (seed, old) in [(10, None), (11, Some(1_000)), (12, Some(u64::MAX - 1))] {
        let mut machine = opened(seed, small());
        old.into_iter().for_each(|old| keep(&mut machine, old).expect("kept"));
        let new = machine.world.now().wall_ms;
        let pending = begin_keeping(&mut machine, new);
        let (answer, pictures) = pictures(&mut machine, pending);
        assert_eq!((answer, machine.running().clock().sure_ms()), (Ok(()), Some(new)));
        let mut seen = [false; 2];
        let images = crash_everywhere(&machine, seed, pictures, |found, answered| {
            let kept = found.running().clock().sure_ms();
            seen[usize::from(kept == Some(new))] = true;
            kept == Some(new) || (!answered && kept == old)
        });
        assert!(images > 20 && seen == [true; 2], "{images} images, {seen:?}");
    }
}

#[test]
fn any_operation_may_fail_while_a_time_is_kept_and_no_answer_lies() {
    let begin = |seed| opened(seed, small());
    fail_everywhere(begin, |machine, k| {
        let new = machine.world.now().wall_ms;
        let kept = keep(machine, new);
        let known = machine.running().clock().sure_ms();
        match &kept {
            Ok(()) => assert_eq!(known, Some(new), "operation {k:?}"),
            Err(VerbError::Manifest(ManifestError::Disk(_))) => assert_eq!(known, None, "operation {k:?}"),
            Err(error) => panic!("operation {k:?}: {error}"),
        }
        machine.world.clear_faults();
        machine.crash(|world| world.power_failure(Loss::DropAll)).expect("everybody is answered");
        machine.open().expect("an open");
        let found = machine.running().clock().sure_ms();
        assert!(found == Some(new) || (kept.is_err() && found.is_none()), "operation {k:?}: {found:?}");
    });
}

#[test]
fn a_seal_time_that_was_restamped_is_the_old_or_the_new_one_after_a_crash_at_any_turn() {
    for seed in [20, 21] {
        let mut machine = pinned(seed);
        let old = sealed_at_ms(&mut machine);
        assert!(old > machine.world.now().wall_ms + 300 * DAY);
        let pending = begin_restamping(&mut machine, 0);
        let (answer, pictures) = pictures(&mut machine, pending);
        let restamped = answer.expect("restamped");
        let new = restamped.sealed_at_ms;
        let now_ms = machine.world.now().wall_ms;
        assert!(restamped.before_ms == old && (now_ms - HOUR..=now_ms).contains(&new), "{restamped:?}");
        assert_eq!(sealed_at_ms(&mut machine), new, "the inventory says so at once");
        assert_eq!(durably(&machine.world, &machine).1, Some(new), "and so does the manifest");
        let mut seen = [false; 2];
        let images = crash_everywhere(&machine, seed, pictures, |found, answered| {
            let stands = sealed_at_ms(found);
            seen[usize::from(stands == new)] = true;
            stands == new || (!answered && stands == old)
        });
        assert!(images > 20 && seen == [true; 2], "{images} images, {seen:?}");
    }
}

#[test]
fn any_operation_may_fail_while_a_seal_time_is_restamped_and_no_answer_lies() {
    fail_everywhere(pinned, |machine, k| {
        let old = sealed_at_ms(machine);
        let answer = restamp(machine, 0);
        if !matches!(&answer, Ok(_) | Err(VerbError::Manifest(ManifestError::Disk(_)))) {
            panic!("operation {k:?}: {answer:?}");
        }
        machine.world.clear_faults();
        machine.crash(|world| world.power_failure(Loss::DropAll)).expect("everybody is answered");
        machine.open().expect("an open");
        let found = sealed_at_ms(machine);
        match answer {
            Ok(restamped) => assert_eq!(found, restamped.sealed_at_ms, "operation {k:?}"),
            Err(_) => assert!(found == old || found < old - 300 * DAY, "operation {k:?}: {found}"),
        }
    });
}

/// While a clock is not believed it stamps nothing older than it can be: what it sealed would expire when it is right again.
#[test]
fn what_a_clock_that_is_a_year_behind_seals_or_cuts_is_not_older_for_it() {
    const CUT: Step = Step::Verb { log: 0, ask: Ask::Truncate(At::PerMille(500)) };
    let hours: [&[Step]; 3] = [
        &[BACK, APPEND, SEAL, Step::Answer, FORWARD],
        &[BACK, Step::Reopen, APPEND, SEAL, Step::Answer, FORWARD],
        &[SEAL, Step::Answer, BACK, CUT, Step::Answer, FORWARD],
    ];
    for hour in hours {
        let mut machine = opened(40, small());
        machine.run(&[APPEND, Step::Idle]).expect("something to cut");
        let before_ms = machine.world.now().wall_ms;
        keep(&mut machine, before_ms).expect("kept");
        machine.run(hour).expect("a bad hour");
        machine.apply(Step::Idle).expect("it is right again");
        let (sealed_ms, now_ms) = (sealed_at_ms(&mut machine), machine.world.now().wall_ms);
        assert!((before_ms..=now_ms).contains(&sealed_ms), "{hour:?}: {before_ms} {sealed_ms} {now_ms}");
        machine.apply(Step::Reopen).expect("an open");
        assert_eq!(sealed_at_ms(&mut machine), sealed_ms);
    }
}

#[test]
fn what_cannot_be_restamped_is_refused_with_its_seal_time_and_what_to_do() {
    let mut machine = pinned(30);
    let old = sealed_at_ms(&mut machine);
    let refused = restamp(&mut machine, 1);
    assert!(matches!(refused, Err(VerbError::NotSealed { .. })), "{refused:?}");
    let refused = restamp(&mut machine, 7);
    assert!(matches!(refused, Err(VerbError::NoSuchSegment { .. })), "{refused:?}");
    // While the clock is not believed no stamp is made by it.
    machine.apply(Step::Jump(6 * MINUTE as i64)).expect("a jump");
    let held = restamp(&mut machine, 0).expect_err("the clock is held");
    assert!(matches!(held, VerbError::ClockHeld { .. }), "{held:?}");
    machine.apply(Step::Jump(-6 * MINUTE as i64)).expect("it is back");
    for words in ["t0", &old.to_string(), "confirm"] {
        assert!(held.to_string().contains(words), "{held}");
    }
    assert_eq!(sealed_at_ms(&mut machine), old, "nothing was changed");
    let new = restamp(&mut machine, 0).expect("restamped").sealed_at_ms;
    let again = restamp(&mut machine, 0).expect_err("it is true now");
    assert!(matches!(again, VerbError::SealTimeNotAhead { .. }), "{again:?}");
    for words in ["t0", &new.to_string(), "nothing to restamp"] {
        assert!(again.to_string().contains(words), "{again}");
    }
    machine.apply(Step::Reopen).expect("an open");
    assert_eq!(sealed_at_ms(&mut machine), new);
}

#[test]
fn ten_minutes_ahead_is_not_restamped_and_more_is() {
    for (ahead_ms, restamped) in [(10 * MINUTE, false), (10 * MINUTE + 1, true)] {
        let mut machine = opened(31, small());
        machine.run(&[SEAL, Step::Answer, Step::Idle]).expect("a seal");
        // As a tolerated step back of the clock after some longer ones that were confirmed.
        let sealed_ms = sealed_at_ms(&mut machine);
        let now = machine.world.now();
        machine.world.jump_clock(sealed_ms as i64 - ahead_ms as i64 - now.wall_ms as i64);
        let now = machine.world.now();
        machine.running().clock().confirm(now);
        assert_eq!(sealed_ms - now.wall_ms, ahead_ms);
        assert_eq!(restamp(&mut machine, 0).is_ok(), restamped, "{ahead_ms} ms");
    }
}
