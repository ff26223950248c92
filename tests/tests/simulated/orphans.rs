//! Orphans on the simulated disk: a crash at every turn of giving one up, taking it back and letting it go, and every operation failing
//! once. The directory is always in exactly one place, the manifest says which, and no live segment is ever touched.

use std::cell::Cell;
use std::rc::Rc;
use strandline::config::{Config, Sabotage};
use strandline::format::segment::SegmentHeader;
use strandline::id::Uid;
use strandline::pending::{Answer, Pending, pair};
use strandline::shard::command::Command;
use strandline::shard::orphan::{OrphanAnswer, OrphanAsked};
use strandline::{Evidence, FileHeader, GivenUp, LetGo, OrphanError, Sighted};
use strandline_disk::sim::{Fault, Loss, SimWorld, Times, What, When};
use strandline_disk::{BLOCK, Disk as _, Errno, Name};
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::violation::ensure;
use strandline_tests::harness::{Ask, At, Checked, Machine, Step};

const NAME: &str = "t0-r0-s0";
const FILE: &str = "t0-r0-s0/data.0";
const LOSSES: [Loss; 4] = [Loss::DropAll, Loss::KeepAll, Loss::Random, Loss::Prefix];

/// An orphan: a segment that was given up, and whose directory came back.
#[derive(Clone)]
struct Orphan {
    bytes: Vec<u8>,
    uid: Uid,
    seen: Sighted,
}

fn seen(world: &SimWorld) -> Sighted {
    let disk = world.open();
    let ctime_ms = disk.stat(&disk.root(), &Name::new(NAME).expect("plain")).expect("there").ctime_ms;
    let bytes = world.read_file(FILE).expect("there");
    let SegmentHeader { store, uid, segment, generation, opened_at_ms, .. } =
        SegmentHeader::decode(&bytes[..BLOCK]).expect("a good header");
    Sighted {
        evidence: Evidence::Live { header: FileHeader { store, uid, segment, generation }, opened_at_ms },
        ctime_ms,
    }
}

/// A running store with a log that goes on, and an orphan beside it.
fn orphaned(seed: u64, config: Config) -> (Machine, Orphan) {
    let mut machine = Machine::new(seed, config);
    machine.open().expect("an open");
    let append = Step::Append { log: 0, batches: 30, records: 2, bytes: 5_500 };
    machine.run(&[Step::OpenLog(0), Step::Answer, append, Step::Idle]).expect("appends");
    let bytes = machine.world.read_file(FILE).expect("there");
    let trim = Step::Verb { log: 0, ask: Ask::Trim(At::Back(4)) };
    machine.run(&[trim, Step::Answer, Step::Idle]).expect("a trim");
    machine.world.put_file(FILE, &bytes);
    let seen = seen(&machine.world);
    let uid = seen.evidence.header().expect("a live one").uid;
    (machine, Orphan { bytes, uid, seen })
}

fn ask<T>(
    machine: &mut Machine,
    asked: impl FnOnce(Answer<OrphanAnswer<T>>) -> OrphanAsked,
) -> Pending<OrphanAnswer<T>> {
    let queue = machine.running().queues[0].clone();
    let (answer, pending) = pair();
    let admitted = queue.admit(0).expect("room");
    queue.push(Command::Orphan { asked: asked(answer), admitted });
    pending
}

fn answered<T>(machine: &mut Machine, mut pending: Pending<OrphanAnswer<T>>) -> Checked<OrphanAnswer<T>> {
    for _ in 0..10_000 {
        if let Some(answer) = pending.try_take() {
            return Ok(answer);
        }
        machine.turn()?;
    }
    panic!("it is never answered");
}

fn give_up(machine: &mut Machine, orphan: &Orphan) -> Checked<OrphanAnswer<GivenUp>> {
    let (name, seen, hold_until_ms) = (NAME.to_owned(), orphan.seen.clone(), u64::MAX);
    let pending = ask(machine, |answer| OrphanAsked::GiveUp { name, seen, hold_until_ms, answer });
    answered(machine, pending)
}

fn restore(machine: &mut Machine, uid: Uid) -> Checked<OrphanAnswer<String>> {
    let pending = ask(machine, |answer| OrphanAsked::Restore { uid, answer });
    answered(machine, pending)
}

fn let_go(machine: &mut Machine) -> Checked<OrphanAnswer<LetGo>> {
    let pending = ask(machine, |answer| OrphanAsked::LetGo { now_ms: u64::MAX, answer });
    answered(machine, pending)
}

/// Where the orphan is. Never in two places, and the manifest knows it if and only if it is in the trash.
fn place_of(machine: &Machine, orphan: &Orphan) -> Checked<Option<&'static str>> {
    let disk = Disk::look(&machine.world, &machine.config)?;
    let trash = format!("trash/{}/data.0", orphan.uid);
    let (at_home, in_trash) = (disk.bytes(FILE), disk.bytes(&trash));
    let known = disk.state().released.contains_key(&orphan.uid);
    let promise = "an orphan is in one place, whole, and the manifest says which";
    ensure(at_home.is_none() || in_trash.is_none(), promise, || "it is in two".to_owned())?;
    let whole = |bytes: &[u8]| bytes == orphan.bytes;
    ensure(at_home.is_none_or(whole) && in_trash.is_none_or(whole), promise, || "it is not whole".to_owned())?;
    ensure(at_home.is_none() || !known, promise, || "it is at home and released".to_owned())?;
    ensure(in_trash.is_none() || known, promise, || "it is in the trash and nobody knows why".to_owned())?;
    Ok(match (at_home, in_trash) {
        (Some(_), _) => Some("home"),
        (_, Some(_)) => Some("trash"),
        _ => None,
    })
}

/// Crashes a copy of every moment in every way, opens it, and looks where the orphan is.
fn watch(machine: &mut Machine, orphan: &Orphan, may_be_gone: bool) -> Rc<Cell<usize>> {
    let (count, counted, config, orphan) =
        (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), machine.config.clone(), orphan.clone());
    let (turns, count_here) = (counted, count.clone());
    machine.observer = Some(Box::new(move |world, model| {
        turns.set(turns.get() + 1);
        let killed = (None, world.snapshot());
        killed.1.reseed(turns.get());
        killed.1.kill();
        let cut = LOSSES.map(|loss| (Some(loss), world.crash_image(turns.get(), loss)));
        for (loss, image) in cut.into_iter().chain([killed]) {
            let mut model = model.clone();
            if loss.is_some() {
                model.power_failed();
            }
            let mut machine = Machine::on(image, config.clone(), model);
            machine.open()?;
            machine.idle()?;
            let place = place_of(&machine, &orphan)?;
            let there = place.is_some() || may_be_gone;
            ensure(there, "an orphan whose hold is not over is never lost", || format!("{loss:?}"))?;
            if may_be_gone {
                let gone = let_go(&mut machine)?;
                ensure(gone.is_ok(), "what was interrupted is finished", || format!("{gone:?}"))?;
                let left = place_of(&machine, &orphan)?;
                let disk = Disk::look(&machine.world, &machine.config)?;
                let nothing = left.is_none() && disk.state().released.is_empty();
                ensure(nothing, "what was let go is gone", || format!("{left:?} {:?}", disk.state().released))?;
            }
            // The log goes on, and no segment of it takes the orphan's place.
            machine.run(&[Step::Append { log: 0, batches: 2, records: 2, bytes: 900 }, Step::Answer, Step::Reopen])?;
            count_here.set(count_here.get() + 1);
        }
        Ok(())
    }));
    count
}

#[test]
fn a_crash_at_any_turn_of_giving_up_and_taking_back_leaves_an_orphan_in_exactly_one_place() {
    let (mut machine, orphan) = orphaned(1, small());
    let count = watch(&mut machine, &orphan, false);
    let given_up = give_up(&mut machine, &orphan).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(given_up, Ok(GivenUp::Held(orphan.uid)));
    assert_eq!(place_of(&machine, &orphan).expect("one place"), Some("trash"));
    let back = restore(&mut machine, orphan.uid).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(back, Ok(NAME.to_owned()));
    assert_eq!(place_of(&machine, &orphan).expect("one place"), Some("home"));
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 100);
}

#[test]
fn a_crash_at_any_turn_of_letting_go_is_finished_by_the_next_pass() {
    let (mut machine, orphan) = orphaned(2, small());
    // What recovery had set aside goes with it.
    machine.world.put_file("t0-r0-s0/torn.1", b"set aside");
    let orphan = Orphan { seen: seen(&machine.world), ..orphan };
    assert_eq!(give_up(&mut machine, &orphan).expect("turns"), Ok(GivenUp::Held(orphan.uid)));
    let count = watch(&mut machine, &orphan, true);
    let gone = let_go(&mut machine).unwrap_or_else(|broken| panic!("{broken}")).expect("an answer");
    assert_eq!((gone.gone, gone.kept), (vec![orphan.uid], vec![]));
    assert_eq!(place_of(&machine, &orphan).expect("nowhere"), None);
    assert_eq!(restore(&mut machine, orphan.uid).expect("turns"), Err(OrphanError::NotHeld { uid: orphan.uid }));
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 40);
}

#[test]
fn an_orphan_that_is_moved_before_the_manifest_knows_is_noticed() {
    let mut config = small();
    config.sabotage = Some(Sabotage::MoveBeforeEdit);
    let (mut machine, orphan) = orphaned(3, config);
    let _ = watch(&mut machine, &orphan, false);
    assert!(
        give_up(&mut machine, &orphan).is_err(),
        "a crash at some turn finds it in the trash, and nobody knows why"
    );
}

/// Whatever fails once: the orphan is whole, in one place, and the same call again or the next open ends what was begun.
#[test]
fn whichever_operation_fails_an_orphan_is_in_one_place_and_the_same_call_again_goes_on() {
    let mut struck = 0;
    for k in 1..60 {
        for verb in ["give up", "take back", "let go"] {
            let (mut machine, orphan) = orphaned(4, small());
            if verb != "give up" {
                assert_eq!(give_up(&mut machine, &orphan).expect("turns"), Ok(GivenUp::Held(orphan.uid)));
            }
            machine.tolerant = true;
            let fault = Fault { when: When::KthOperation(k), what: What::Errno(Errno::IO), times: Times::Once };
            let fired = machine.world.faults_fired();
            machine.world.inject(fault);
            let attempt = |machine: &mut Machine| match verb {
                "give up" => give_up(machine, &orphan).expect("turns").map(drop),
                "take back" => restore(machine, orphan.uid).expect("turns").map(drop),
                _ => let_go(machine).expect("turns").map(drop),
            };
            let first = attempt(&mut machine);
            machine.world.clear_faults();
            struck += usize::from(machine.world.faults_fired() > fired);
            if first.is_err() {
                // A manifest that failed takes nothing more until the next open; all else goes on at once.
                let again = attempt(&mut machine);
                eprintln!("{verb}, operation {k}: {first:?}, then {again:?}");
            }
            machine.crash(|world| world.kill()).expect("a crash");
            machine.tolerant = false;
            machine.open().unwrap_or_else(|broken| panic!("{verb}, operation {k}: {broken}"));
            machine.idle().expect("the background");
            let place = place_of(&machine, &orphan).unwrap_or_else(|broken| panic!("{verb}, operation {k}: {broken}"));
            assert!(place.is_some() || verb == "let go", "{verb}, operation {k}");
            if place == Some("home") {
                let orphan = Orphan { seen: seen(&machine.world), ..orphan.clone() };
                assert_eq!(give_up(&mut machine, &orphan).expect("turns"), Ok(GivenUp::Held(orphan.uid)), "{verb} {k}");
            }
            let gone = let_go(&mut machine).expect("turns").expect("an answer");
            assert_eq!(gone.kept, [], "{verb}, operation {k}");
            assert_eq!(place_of(&machine, &orphan).expect("nowhere"), None, "{verb}, operation {k}");
        }
    }
    assert!(struck > 20, "{struck}");
}

#[test]
fn a_segment_that_is_being_made_is_no_orphan_and_none_is_made_where_one_is_being_given_up() {
    for turns in 0..40 {
        let mut machine = Machine::new(5, small());
        machine.open().expect("an open");
        machine.world.put_directory(NAME);
        let disk = machine.world.open();
        let ctime_ms = disk.stat(&disk.root(), &Name::new(NAME).expect("plain")).expect("there").ctime_ms;
        machine.apply(Step::OpenLog(0)).expect("a log");
        machine.apply(Step::Turn(turns)).expect("turns");
        let (name, seen) = (NAME.to_owned(), Sighted { evidence: Evidence::Empty, ctime_ms });
        let pending = ask(&mut machine, |answer| OrphanAsked::GiveUp { name, seen, hold_until_ms: 5, answer });
        let append = Step::Append { log: 0, batches: 3, records: 2, bytes: 900 };
        machine.run(&[Step::Answer, append, Step::Answer]).unwrap_or_else(|broken| panic!("{turns} turns: {broken}"));
        let answer = answered(&mut machine, pending).expect("turns");
        let expected = matches!(answer, Ok(_) | Err(OrphanError::Known { .. } | OrphanError::Changed { .. }));
        assert!(expected, "{turns} turns: {answer:?}");
        let cut = Step::PowerFailure { loss: Loss::KeepAll, again_after: None };
        machine.apply(cut).unwrap_or_else(|broken| panic!("{turns} turns: {answer:?}: {broken}"));
    }
}
