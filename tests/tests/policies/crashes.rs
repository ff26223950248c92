//! Crashes and failures while policies are changed: what was answered is read back, what was not is there whole or not at all.

use crate::desk::{Desk, age, bind, define, delete, small, topic, unbind};
use std::sync::Arc;
use strandline::config::Sabotage;
use strandline::policy::FieldValue;
use strandline::{Fields, Gate, Level, Policies, PolicyChange, PolicyError};
use strandline_disk::sim::{Loss, SimWorld, Times, When};
use strandline_disk::{Errno, Verb};

const LOSSES: [Loss; 4] = [Loss::DropAll, Loss::KeepAll, Loss::Random, Loss::Prefix];

/// A store with a topic, two policies and a binding.
fn begun(seed: u64, sabotage: Option<Sabotage>) -> Desk {
    let mut desk = Desk::sabotaged(seed, sabotage);
    desk.log("t", 0).expect("a log");
    desk.done(define("short", age(1_000)));
    desk.done(define("other", age(2_000)));
    if sabotage.is_none() {
        desk.done(bind("t", "short")); // It looks at what came of it, so the defect would be refused.
    }
    desk
}

fn changes() -> Vec<PolicyChange> {
    let large =
        age(7).with("spread_by", FieldValue::Text("r".repeat(200))).with("retention.max_bytes", FieldValue::Off);
    vec![
        define("short", large),
        define("new", Fields::new()),
        bind("t", "other"),
        unbind("t"),
        delete("other", false),
        delete("short", true),
        PolicyChange::SetGlobal { fields: age(0) },
    ]
}

/// What readers see when another process opens what a crash has left. It opens twice: the second open finds the same.
fn after_crash(world: SimWorld) -> Arc<Policies> {
    let desk = Desk::open(world, small()).expect("the store opens after any crash");
    let first = desk.read();
    let again = desk.after(SimWorld::kill);
    assert_eq!(again.read(), first, "opening twice finds the same");
    first
}

/// Makes a change on a copy with a crash after every turn. Says what was broken.
fn crash_everywhere(seed: u64, change: &PolicyChange, sabotage: Option<Sabotage>) -> Result<usize, String> {
    let mut desk = begun(seed, sabotage);
    let before = desk.read();
    desk.world.keep_moments(true);
    let mut pending = desk.begin(change.clone());
    let mut images: Vec<(SimWorld, bool)> = Vec::new();
    let mut answered = false;
    for _ in 0..40 {
        desk.shard.turn().expect("the ring works");
        // What the caller knows when the crash comes.
        answered |= pending.try_take().is_some();
        images.extend(desk.world.take_moment().map(|moment| (moment, answered)));
        images.push((desk.world.snapshot(), answered));
    }
    assert!(answered, "40 turns are enough");
    let after = desk.read();
    assert!(before != after, "{change:?} changes something");
    let count = images.len() * (LOSSES.len() + 1);
    for (turn, (world, answered)) in images.into_iter().enumerate() {
        let killed = world.snapshot();
        killed.kill();
        let crashed = LOSSES.map(|loss| world.crash_image(seed + turn as u64, loss));
        for image in crashed.into_iter().chain([killed]) {
            let found = after_crash(image);
            let holds = found == after || (!answered && found == before);
            if !holds {
                return Err(format!("{change:?}, turn {turn}, answered: {answered}: {found:?}"));
            }
        }
    }
    Ok(count)
}

#[test]
fn rt_13_what_was_answered_is_read_back_after_a_crash_at_any_turn() {
    for (seed, change) in changes().iter().enumerate() {
        let images = crash_everywhere(seed as u64, change, None).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(images > 100, "{images} images");
    }
}

#[test]
fn an_answer_before_the_manifest_knows_is_noticed() {
    let sabotage = Some(Sabotage::AnswerPolicyBeforeEdit);
    // A new definition, so that the defect does not show in the answer itself.
    let broken = crash_everywhere(1, &define("new", age(1)), sabotage);
    assert!(broken.is_err(), "a crash at every turn did not notice the defect");
}

/// Some changes with a fault at the k-th operation, once or from then on: no answer is lost, and none lies.
fn with_fault_at(k: u64, errno: Errno, times: Times) {
    let mut desk = begun(k, None);
    let mut known = desk.read();
    desk.fail(When::KthOperation(k), errno, times);
    for change in changes() {
        match desk.ask(change.clone()) {
            Ok(_) => known = desk.read(),
            Err(PolicyError::Manifest(_)) => break,
            // What a refusal is based on is what was answered before.
            Err(error) => panic!("operation {k}: {change:?}: {error}"),
        }
    }
    assert_eq!(desk.read(), known, "operation {k}: readers see nothing that may be lost");
    let refused = desk.ask(define("later", age(9)));
    let latched = matches!(refused, Err(PolicyError::Manifest(_)));
    let known = if refused.is_ok() { desk.read() } else { known };
    let mut desk = desk.after(|world| world.power_failure(Loss::DropAll));
    // With an error the change may be there or not; everything that was answered is.
    if !latched {
        assert_eq!(desk.read(), known, "operation {k}");
    }
    desk.done(define("again", age(3)));
    desk.done(bind("t", "again"));
    let bound = desk.after(|world| world.power_failure(Loss::DropAll)).read().get(&topic("t"));
    assert!(bound.policy.is_some_and(|name| name.as_str() == "again") && !bound.undefined);
}

#[test]
fn any_operation_may_fail_while_policies_are_changed_and_no_answer_lies() {
    let mut desk = begun(0, None);
    let start = desk.world.operations();
    for change in changes() {
        desk.done(change);
    }
    let operations = desk.world.operations() - start;
    assert!(operations > 20, "{operations} operations");
    for k in 1..=operations + 2 {
        for errno in [Errno::IO, Errno::NOSPC] {
            with_fault_at(k, errno, Times::Once);
            with_fault_at(k, errno, Times::Forever);
        }
    }
}

#[test]
fn a_change_stands_when_the_audit_log_fails_and_says_so() {
    let mut desk = begun(3, None);
    desk.fail(When::VerbOnPath(Verb::Write, "audit".to_owned()), Errno::NOSPC, Times::Once);
    let changed = desk.ask(define("new", age(5))).expect("the change itself is done");
    assert_eq!(changed.unaudited.map(|error| error.errno), Some(Errno::NOSPC));
    desk.done(define("next", age(6)));
    let desk = desk.after(|world| world.power_failure(Loss::DropAll));
    assert_eq!(desk.read().definitions.len(), 4);
    assert_eq!(desk.audited().len(), 5, "the line that failed was written with the next one");
}

/// A flush that failed says nothing good of what was written and not flushed yet, whoever asked for it.
#[test]
fn a_change_that_fails_takes_along_what_the_device_had_not_made_durable() {
    for (seed, file) in [(7, "manifest"), (8, "audit")] {
        let mut desk = begun(seed, None);
        let log = desk.log("t", 0).expect("a log");
        desk.fail(When::VerbOnPath(Verb::Write, file.to_owned()), Errno::IO, Times::Once);
        // At once: in a turn with nothing to do the simulated clock goes on to the log's own flush.
        let written = desk.begin_append(log, Level::Written);
        match desk.ask(define("new", age(5))) {
            Ok(changed) => assert!(file == "audit" && changed.unaudited.is_some()),
            Err(error) => assert!(file == "manifest" && matches!(error, PolicyError::Manifest(_)), "{error}"),
        }
        if let Ok(receipt) = desk.turn_until(written) {
            desk.until_durable(log, receipt).expect_err("a good flush that comes later would not cover it");
        }
    }
}

#[test]
fn a_disk_without_room_stops_neither_a_change_nor_its_line() {
    let mut desk = begun(4, None);
    desk.fail(When::Verb(Verb::Allocate), Errno::NOSPC, Times::Forever);
    for n in 0..600 {
        desk.done(define("short", age(n)));
    }
    let desk = desk.after(|world| world.power_failure(Loss::DropAll));
    assert_eq!(desk.read().get(&topic("t")).fields.max_age_ms, strandline::Bound::Is(599));
}

#[test]
fn the_end_of_an_upgrade_survives_a_crash_and_opens_what_was_closed() {
    let desk = Desk::new(5);
    let mut desk = desk.after(|world| {
        world.kill();
        world.land_strays();
        crate::desk::make_old(world);
    });
    desk.done(PolicyChange::Finalize { gate: Gate::Bindings });
    let mut desk = desk.after(|world| world.power_failure(Loss::DropAll));
    desk.log("t", 0).expect("a log");
    desk.done(define("short", age(1)));
    desk.done(bind("t", "short"));
}

#[test]
fn a_shard_that_goes_answers_whoever_waits_for_a_change() {
    let desk = Desk::new(6);
    let waiting = desk.begin(define("short", age(1)));
    drop(desk.shard);
    desk.queue.abandon();
    assert_eq!(waiting.wait(), Err(PolicyError::ShardGone));
}
