//! Orphans on the simulated disk: a crash at every turn of giving one up, taking it back and letting it go, and every operation failing
//! once. The directory is always in exactly one place, the manifest says which, and no live segment is ever touched.

use std::cell::Cell;
use std::rc::Rc;
use strandline::config::{Config, Sabotage};
use strandline::format::segment::{SegmentHeader, SegmentState};
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

/// Names of two directories that hold copies of one file.
const SPARE: [&str; 2] = ["t7-r0-s0", "t8-r0-s0"];

/// An orphan: a segment that was given up, and whose directory came back.
#[derive(Clone)]
struct Orphan {
    name: &'static str,
    bytes: Vec<u8>,
    uid: Uid,
    seen: Sighted,
}

fn seen(world: &SimWorld) -> Sighted {
    seen_at(world, NAME)
}

fn seen_at(world: &SimWorld, name: &str) -> Sighted {
    let disk = world.open();
    let ctime_ms = disk.stat(&disk.root(), &Name::new(name).expect("plain")).expect("there").ctime_ms;
    let bytes = world.read_file(&format!("{name}/data.0")).expect("there");
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
    (machine, Orphan { name: NAME, bytes, uid, seen })
}

/// Two more beside an orphan, of the same spare file.
fn copies(machine: &Machine, orphan: &Orphan) -> [Orphan; 2] {
    let live = SegmentHeader::decode(&orphan.bytes[..BLOCK]).expect("a good header");
    let uid = Uid(live.uid.0 + 1);
    let header = SegmentHeader { uid, state: SegmentState::Spare, opened_at_ms: 0, ..live };
    let bytes = header.encode().to_vec();
    SPARE.map(|name| {
        machine.world.put_file(&format!("{name}/data.0"), &bytes);
        let disk = machine.world.open();
        let ctime_ms = disk.stat(&disk.root(), &Name::new(name).expect("plain")).expect("there").ctime_ms;
        let SegmentHeader { store, segment, generation, .. } = header.clone();
        let evidence = Evidence::Spare(FileHeader { store, uid, segment, generation });
        Orphan { name, bytes: bytes.clone(), uid, seen: Sighted { evidence, ctime_ms } }
    })
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
    let each = give_all_up(machine, &[orphan])?;
    Ok(each.and_then(|mut each| each.remove(0)))
}

fn give_all_up(machine: &mut Machine, orphans: &[&Orphan]) -> Checked<OrphanAnswer<Vec<OrphanAnswer<GivenUp>>>> {
    let directories = orphans.iter().map(|orphan| (orphan.name.to_owned(), orphan.seen.clone())).collect();
    let pending = ask(machine, |answer| OrphanAsked::GiveUp { directories, hold_until_ms: u64::MAX, answer });
    answered(machine, pending)
}

fn restore(machine: &mut Machine, uid: Uid) -> Checked<OrphanAnswer<String>> {
    let pending = ask(machine, |answer| OrphanAsked::Restore { uid, answer });
    answered(machine, pending)
}

fn let_go(machine: &mut Machine, uids: &[Uid]) -> Checked<OrphanAnswer<LetGo>> {
    let uids = uids.to_vec();
    let pending = ask(machine, |answer| OrphanAsked::LetGo { uids, now_ms: u64::MAX, answer });
    answered(machine, pending)
}

/// Where the orphan is. Never in two places, and the manifest knows it if and only if it is in the trash.
fn place_of(machine: &Machine, orphan: &Orphan) -> Checked<Option<&'static str>> {
    let disk = Disk::look(&machine.world, &machine.config)?;
    let (home, trash) = (format!("{}/data.0", orphan.name), format!("trash/{}/data.0", orphan.uid));
    let (at_home, in_trash) = (disk.bytes(&home), disk.bytes(&trash));
    let known = disk.state().released.contains_key(&orphan.uid);
    let promise = "an orphan is in one place, whole, and the manifest says which";
    if orphan.name == SPARE[1] {
        ensure(at_home.is_some(), promise, || "the copy has gone".to_owned())?;
        return Ok(Some("home"));
    }
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
fn watch(machine: &mut Machine, orphans: &[&Orphan], may_be_gone: bool) -> Rc<Cell<usize>> {
    let orphans: Vec<Orphan> = orphans.iter().map(|orphan| (*orphan).clone()).collect();
    let (count, counted, config) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), machine.config.clone());
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
            for orphan in &orphans {
                let there = place_of(&machine, orphan)?.is_some() || may_be_gone;
                ensure(there, "an orphan whose hold is not over is never lost", || {
                    format!("{loss:?} {}", orphan.name)
                })?;
            }
            if may_be_gone {
                let uids: Vec<Uid> = orphans.iter().map(|orphan| orphan.uid).collect();
                let gone = let_go(&mut machine, &uids)?;
                ensure(gone.is_ok(), "what was interrupted is finished", || format!("{gone:?}"))?;
                let left = orphans.iter().map(|orphan| place_of(&machine, orphan)).collect::<Checked<Vec<_>>>()?;
                let disk = Disk::look(&machine.world, &machine.config)?;
                let nothing = left.iter().all(Option::is_none) && disk.state().released.is_empty();
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
    let count = watch(&mut machine, &[&orphan], false);
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
    let count = watch(&mut machine, &[&orphan], true);
    let gone = let_go(&mut machine, &[orphan.uid]).unwrap_or_else(|broken| panic!("{broken}")).expect("an answer");
    assert_eq!((gone.gone, gone.kept), (vec![orphan.uid], vec![]));
    assert_eq!(place_of(&machine, &orphan).expect("nowhere"), None);
    assert_eq!(restore(&mut machine, orphan.uid).expect("turns"), Err(OrphanError::NotHeld { uid: orphan.uid }));
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 40);
}

#[test]
fn a_crash_at_any_turn_leaves_each_of_several_that_go_together_in_one_place_and_a_copy_at_home() {
    let (mut machine, orphan) = orphaned(6, small());
    let [spare, copy] = copies(&machine, &orphan);
    let count = watch(&mut machine, &[&orphan, &spare, &copy], false);
    let each = give_all_up(&mut machine, &[&orphan, &spare, &copy]).unwrap_or_else(|broken| panic!("{broken}"));
    let is_copy = Err(OrphanError::Copy { name: copy.name.to_owned(), uid: copy.uid });
    assert_eq!(each, Ok(vec![Ok(GivenUp::Held(orphan.uid)), Ok(GivenUp::Held(spare.uid)), is_copy]));
    eprintln!("{} crash images", count.get());
    assert!(count.get() > 50);
    machine.observer = None;
    let count = watch(&mut machine, &[&orphan, &spare], true);
    let gone = let_go(&mut machine, &[orphan.uid, spare.uid]).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(gone.expect("an answer").gone.len(), 2);
    assert_eq!(place_of(&machine, &orphan).expect("nowhere"), None);
    assert!(machine.world.read_file("t8-r0-s0/data.0").is_some(), "the copy stays");
    eprintln!("{} crash images", count.get());
}

#[test]
fn directories_that_go_together_share_the_syncs_and_a_commit() {
    let (mut machine, orphan) = orphaned(7, small());
    let [spare, _] = copies(&machine, &orphan);
    machine.world.keep_trace(true);
    let each = give_all_up(&mut machine, &[&orphan, &spare]).expect("turns").expect("an answer");
    assert!(each.iter().all(Result::is_ok), "{each:?}");
    let syncs = |machine: &Machine, of: &str| {
        let is_sync = |line: &&String| line.contains("start") && line.contains(&format!("SyncDirectory {of} of disk"));
        machine.world.trace().iter().filter(is_sync).count()
    };
    let trace = machine.world.trace().join("\n");
    assert_eq!((syncs(&machine, "trash"), syncs(&machine, ".")), (1, 1), "{trace}");
    let gone = let_go(&mut machine, &[orphan.uid, spare.uid]).expect("turns").expect("an answer");
    assert_eq!(gone.gone.len(), 2);
    assert_eq!(syncs(&machine, "trash"), 2, "one more for both");
}

#[test]
fn what_changes_in_the_trash_is_looked_at_again_before_it_goes() {
    for (file, why) in [("data.1", "nobody knows whose it is"), ("notes", "which no segment has")] {
        let (mut machine, orphan) = orphaned(8, small());
        assert_eq!(give_up(&mut machine, &orphan).expect("turns"), Ok(GivenUp::Held(orphan.uid)));
        machine.run(&[Step::Jump(20)]).expect("time goes by");
        machine.world.put_file(&format!("trash/{}/{file}", orphan.uid), &[7; 5_000]);
        let kept = let_go(&mut machine, &[orphan.uid]).expect("turns").expect("an answer").kept;
        assert!(matches!(&kept[..], [(uid, reason)] if *uid == orphan.uid && reason.contains(why)), "{file}: {kept:?}");
        assert_eq!(place_of(&machine, &orphan).expect("one place"), Some("trash"), "whole");
    }
}

#[test]
fn a_large_file_in_the_trash_is_cut_in_steps_and_what_a_crash_interrupts_is_finished() {
    let (mut machine, mut orphan) = orphaned(9, small());
    orphan.bytes.resize(5 << 20, 7);
    machine.world.put_file(FILE, &orphan.bytes);
    orphan.seen = seen(&machine.world);
    assert_eq!(give_up(&mut machine, &orphan).expect("turns"), Ok(GivenUp::Held(orphan.uid)));
    let uids = vec![orphan.uid];
    drop(ask(&mut machine, |answer| OrphanAsked::LetGo { uids, now_ms: u64::MAX, answer }));
    machine.turn_until_in_flight(&["Truncate", "trash", "data.0"]).expect("it is cut");
    machine.crash(|world| world.kill()).expect("a crash");
    machine.open().expect("an open");
    machine.idle().expect("the background");
    let gone = let_go(&mut machine, &[orphan.uid]).expect("turns").expect("an answer");
    assert_eq!((gone.gone, gone.kept), (vec![orphan.uid], vec![]));
    assert_eq!(place_of(&machine, &orphan).expect("nowhere"), None);
}

#[test]
fn an_orphan_that_is_moved_before_the_manifest_knows_is_noticed() {
    let mut config = small();
    config.sabotage = Some(Sabotage::MoveBeforeEdit);
    let (mut machine, orphan) = orphaned(3, config);
    let _ = watch(&mut machine, &[&orphan], false);
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
                _ => let_go(machine, &[orphan.uid]).expect("turns").map(drop),
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
            let gone = let_go(&mut machine, &[orphan.uid]).expect("turns").expect("an answer");
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
        let directories = vec![(NAME.to_owned(), Sighted { evidence: Evidence::Empty, ctime_ms })];
        let pending = ask(&mut machine, |answer| OrphanAsked::GiveUp { directories, hold_until_ms: 5, answer });
        let append = Step::Append { log: 0, batches: 3, records: 2, bytes: 900 };
        machine.run(&[Step::Answer, append, Step::Answer]).unwrap_or_else(|broken| panic!("{turns} turns: {broken}"));
        let answer = answered(&mut machine, pending).expect("turns").expect("an answer of each").remove(0);
        let expected = matches!(answer, Ok(_) | Err(OrphanError::Known { .. } | OrphanError::Changed { .. }));
        assert!(expected, "{turns} turns: {answer:?}");
        let cut = Step::PowerFailure { loss: Loss::KeepAll, again_after: None };
        machine.apply(cut).unwrap_or_else(|broken| panic!("{turns} turns: {answer:?}: {broken}"));
    }
}

/// Of directories that are emptied together names go many at a time, and syncs are shared. How fast that is beside `rm -rf` says the benchmark
/// `orphans`.
#[test]
fn os_15_many_orphans_are_moved_and_emptied_together() {
    const COUNT: usize = 64;
    let (mut machine, names) = many_orphans(COUNT);
    let starts = |machine: &Machine, parts: &[&str]| {
        let is_one = |line: &String| line.starts_with("start ") && parts.iter().all(|part| line.contains(part));
        machine.world.trace().iter().filter(|line| is_one(line)).count()
    };
    machine.world.keep_trace(true);
    let directories = names.iter().map(|name| (name.clone(), seen_at(&machine.world, name))).collect();
    let asked = ask(&mut machine, |answer| OrphanAsked::GiveUp { directories, hold_until_ms: 1, answer });
    let answers = answered(&mut machine, asked).expect("a turn").expect("no failure");
    let uid_of = |answer| match answer {
        Ok(GivenUp::Held(uid)) => uid,
        other => panic!("{other:?}"),
    };
    let uids: Vec<Uid> = answers.into_iter().map(uid_of).collect();
    let (moves, syncs) = (starts(&machine, &["Rename"]), starts(&machine, &["SyncDirectory"]));
    assert!(moves == COUNT && syncs <= COUNT / 8, "{syncs} syncs for {moves} moves");

    machine.world.keep_trace(false);
    machine.world.keep_trace(true);
    let let_go = let_go(&mut machine, &uids).expect("a turn").expect("no failure");
    assert_eq!((let_go.gone.len(), let_go.kept.len()), (COUNT, 0));
    let (unlinks, syncs) = (starts(&machine, &["Unlink"]), starts(&machine, &["SyncDirectory"]));
    let (mut flying, mut most) = (0_usize, 0);
    for line in machine.world.trace().iter().filter(|line| line.contains(" Unlink ")) {
        flying = if line.starts_with("start ") { flying + 1 } else { flying - 1 };
        most = most.max(flying);
    }
    assert!(unlinks >= COUNT && syncs <= COUNT / 4, "{syncs} syncs for {unlinks} unlinks");
    assert!((4..=128).contains(&most), "{most} unlinks in flight at once");
}

/// A store with so many orphans beside a log that goes on.
fn many_orphans(count: usize) -> (Machine, Vec<String>) {
    let mut machine = Machine::new(15, Config { manifest_bytes: 1 << 20, ..small() });
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("a log");
    let append = Step::Append { log: 0, batches: 11, records: 1, bytes: 5_500 };
    (0..count + 2).for_each(|_| machine.run(&[append, Step::Answer]).expect("a segment"));
    machine.apply(Step::Idle).expect("all are sealed");
    let names: Vec<String> = (0..count).map(|number| format!("t0-r0-s{number}")).collect();
    let file = |name: &String| format!("{name}/data.0");
    let bytes: Vec<Vec<u8>> = names.iter().map(|name| machine.world.read_file(&file(name)).expect("there")).collect();
    let trim = Step::Verb { log: 0, ask: Ask::Trim(At::Back(1)) };
    machine.run(&[trim, Step::Answer, Step::Idle]).expect("a trim");
    names.iter().zip(&bytes).for_each(|(name, bytes)| machine.world.put_file(&file(name), bytes));
    (machine, names)
}
