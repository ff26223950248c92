//! Scrubbing: a sealed segment is read again beside its log. All damage is told with its place, none that is not there, and nothing is written.

use super::cases::{answer_of, send};
use super::clock::{crash_everywhere, fail_everywhere, pictures};
use strandline::config::Config;
use strandline::id::{RangeNumber, SegmentId, Seq, Topic};
use strandline::pending::{Pending, pair};
use strandline::removal::scrubber::{ScrubAnswer, ScrubAsked};
use strandline::segment::active::batch_limit;
use strandline::segment::scrub::{Found, Target};
use strandline::segment::survey::Damage;
use strandline::shard::command::Command;
use strandline::shard::verb::{Verb as Asked, Verdict};
use strandline::{LogId, ScrubAt, ScrubCursor, VerbError};
use strandline_disk::sim::Loss;
use strandline_disk::{BLOCK, Position};
use strandline_tests::harness::checker::walk;
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::{Ask, At, Machine, Step};

const APPEND: Step = Step::Append { log: 0, batches: 3, records: 2, bytes: 3_000 };
const SEAL: Step = Step::Verb { log: 0, ask: Ask::Seal };

/// A log with two sealed segments and an active one.
fn sealed(seed: u64, config: Config) -> Machine {
    let mut machine = Machine::new(seed, config);
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("a log");
    for _ in 0..2 {
        machine.run(&[APPEND, Step::Answer, SEAL, Step::Answer, Step::Idle]).expect("a segment");
    }
    machine.run(&[APPEND, Step::Answer, Step::Idle]).expect("a head");
    machine
}

fn target(machine: &mut Machine, seq: u32) -> Verdict<Target> {
    let (answer, pending) = pair();
    let seq = Seq::new(seq).expect("small");
    assert!(machine.running().verb(0, Asked::Target { seq, answer }), "room");
    answer_of(machine, pending)
}

fn begin(machine: &mut Machine, target: Target) -> Pending<ScrubAnswer> {
    let (answer, pending) = pair();
    machine.running().scrubs().put([ScrubAsked { target, answer }]);
    pending
}

fn scrub(machine: &mut Machine, seq: u32) -> ScrubAnswer {
    let target = target(machine, seq).expect("it is sealed");
    let pending = begin(machine, target);
    answer_of(machine, pending)
}

/// The file of a segment, and where its batches stand.
fn placed(machine: &Machine, seq: usize) -> (String, Vec<(Position, u64)>) {
    let disk = Disk::look(&machine.world, &machine.config).expect("a manifest");
    let segment = &disk.segments()[seq];
    let found = walk(disk.bytes(&segment.path).expect("its file"), segment.record.uid);
    let content =
        |(at, header): &(Position, strandline::format::batch::BatchHeader)| (*at, header.total_length() as u64);
    (segment.path.clone(), found.iter().filter(|(_, header)| !header.is_mark()).map(content).collect())
}

#[test]
fn what_is_whole_is_read_to_its_end_and_nothing_is_written() {
    let mut machine = sealed(1, small());
    let (_, batches) = placed(&machine, 0);
    machine.world.keep_trace(true);
    let found = scrub(&mut machine, 0).expect("read");
    let trace = machine.world.trace();
    let starts: Vec<_> = trace.iter().filter(|line| line.starts_with("start")).collect();
    assert!(!starts.is_empty(), "{trace:#?}");
    let reads = |line: &str| ["Read", "Open", "Sleep"].iter().any(|verb| line.contains(verb));
    assert!(starts.iter().all(|line| reads(line)), "{starts:#?}");
    assert_eq!((found.batches, found.damage, found.index), (batches.len() as u64, vec![], None));
    assert!(found.bytes > 3 * 3_000, "{} bytes", found.bytes);
    for (seq, refused) in [(2, "NotSealed"), (9, "NoSuchSegment")] {
        let error = target(&mut machine, seq).expect_err("nothing to scrub");
        assert!(format!("{error:?}").starts_with(refused), "{error:?}");
    }
}

/// A flipped bit in each block of a file: told where it stands, or it stands where nothing is.
#[test]
fn a_flipped_bit_anywhere_is_told_with_its_place_and_the_file_stays_as_it_is() {
    let whole = sealed(2, small());
    let (path, batches) = placed(&whole, 0);
    let size = whole.world.read_file(&path).expect("it is there").len() as u64;
    let (mut in_header, mut in_batches, mut in_index) = (0, 0, 0);
    for byte in (0..size).step_by(61) {
        let world = whole.world.snapshot();
        world.rot(&path, byte, 4);
        let mut machine = Machine::on(world, whole.config.clone(), whole.model.clone());
        machine.tolerant = true;
        machine.world.power_failure(Loss::KeepAll);
        machine.start(None).expect("it opens");
        machine.run(&[Step::OpenLog(0), Step::Answer]).expect("a log");
        let before = machine.world.read_file(&path);
        let Found { damage, index, .. } = scrub(&mut machine, 0).expect("read");
        assert_eq!(machine.world.read_file(&path), before, "byte {byte}");
        let hit = batches.iter().find(|(at, length)| (at.0..at.0 + length).contains(&byte));
        match (hit, &damage[..]) {
            (Some((at, _)), [damage]) => {
                assert_eq!((damage.position, index), (*at, None), "byte {byte}");
                assert!(damage.from < damage.to, "{damage:?}");
                in_batches += 1;
            }
            (None, [damage]) if byte < BLOCK as u64 => {
                assert_eq!((damage.position, index), (Position(0), None), "byte {byte}");
                in_header += 1;
            }
            // Behind the batches: index and footer, or nothing.
            (None, []) if byte >= BLOCK as u64 => in_index += usize::from(index.is_some()),
            // What pads a batch is under no checksum, nor is what follows the fields of a header.
            (_, []) => assert_eq!(index, None, "byte {byte}"),
            other => panic!("byte {byte}: {other:?}"),
        }
    }
    assert!(in_header > 0 && in_batches > 100 && in_index > 0, "{in_header} {in_batches} {in_index}");
}

/// What is removed, cut, or made anew while it is read looks damaged at most to whoever does not ask once more what it is.
#[test]
fn what_is_removed_or_cut_while_it_is_read_is_never_taken_for_damaged() {
    let mut changed = 0;
    for ask in [Ask::Trim(At::Back(1)), Ask::Truncate(At::PerMille(200)), Ask::Seal] {
        for turns in 0..40 {
            let mut machine = sealed(3, small());
            let before = target(&mut machine, 0).expect("it is sealed");
            let mut pending = begin(&mut machine, before.clone());
            for _ in 0..turns {
                machine.turn().expect("a turn");
            }
            let early = pending.try_take();
            machine.run(&[Step::Verb { log: 0, ask }, Step::Answer]).expect("done");
            // Others are made in the files that the first ones left.
            for _ in 0..3 {
                machine.run(&[APPEND, Step::Answer, SEAL, Step::Answer]).expect("a segment");
            }
            let found = early.unwrap_or_else(|| answer_of(&mut machine, pending));
            let now = target(&mut machine, 0);
            let is_same = now.as_ref() == Ok(&before);
            changed += usize::from(!is_same);
            if is_same {
                let found = found.expect("read");
                assert_eq!((found.damage, found.index), (vec![], None), "{ask:?} after {turns} turns");
            } else {
                let gone = matches!(now, Ok(_) | Err(VerbError::NoSuchSegment { .. }));
                assert!(gone, "{ask:?} after {turns} turns: {now:?}");
            }
        }
    }
    assert!(changed > 40, "{changed} were changed");
}

#[test]
fn any_operation_may_fail_while_a_segment_is_read_and_the_log_goes_on() {
    fail_everywhere(
        |seed| sealed(seed, small()),
        |machine, k| {
            let target = target(machine, 0).expect("it is sealed");
            let pending = begin(machine, target);
            let answer = answer_of(machine, pending);
            // A part of the disk that cannot be read is damage, as long as it cannot be.
            let unread = |damage: &Damage| damage.reason.contains("cannot be read");
            assert!(answer.iter().flat_map(|found| &found.damage).all(unread), "operation {k:?}: {answer:?}");
            machine.world.clear_faults();
            machine.run(&[APPEND, Step::Answer]).expect("appends go on");
            assert!(scrub(machine, 0).expect("read").damage.is_empty(), "operation {k:?}");
        },
    );
}

/// One at a time: who asks for the second waits, and the thread that reads rests meanwhile.
#[test]
fn what_is_asked_for_together_is_read_one_after_the_other() {
    let mut machine = sealed(5, small());
    let targets = [0, 1, 0].map(|seq| target(&mut machine, seq).expect("it is sealed"));
    let pending = targets.map(|target| begin(&mut machine, target));
    for pending in pending {
        let found = answer_of(&mut machine, pending).expect("read");
        assert_eq!((found.damage, found.index), (vec![], None));
    }
}

/// A segment that was sealed far from full and shrunk has room for the index that it has, and its batches stand where a full one would have the
/// largest index that there may be.
#[test]
fn a_segment_that_was_shrunk_is_whole_up_to_its_own_index() {
    let config = Config {
        segment_bytes: 4 << 20,
        batch_bytes_max: 64 << 10,
        commit_bytes_max: 128 << 10,
        arena_bytes: 8 << 20,
        ..small()
    };
    let mut machine = Machine::new(6, config);
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("a log");
    let append = Step::Append { log: 0, batches: 5, records: 1, bytes: 33_000 };
    for _ in 0..8 {
        machine.run(&[append, Step::Answer]).expect("appends");
    }
    machine.run(&[SEAL, Step::Answer, Step::Idle, APPEND, Step::Answer, Step::Idle]).expect("a seal");
    let (path, batches) = placed(&machine, 0);
    let size = machine.world.read_file(&path).expect("it is there").len() as u64;
    let data_end = batches.last().map_or(0, |(at, length)| at.0 + length);
    assert!(size < 2 << 20 && data_end > batch_limit(size).0, "{size} bytes, data to {data_end}: it tells nothing");
    let found = scrub(&mut machine, 0).expect("read");
    assert_eq!((found.batches, found.damage, found.index), (batches.len() as u64, vec![], None));
    // The footer alone is damaged: everything can be read, and it is written again.
    machine.close().expect("a clean close");
    machine.world.rot(&path, size - 100, 1);
    machine.world.rot(&path, size - BLOCK as u64, 1);
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer]).expect("a log");
    let found = scrub(&mut machine, 0).expect("read");
    assert!(found.damage.is_empty() && found.index.is_some(), "{found:?}");
    for held in machine.model.logs[0].held.clone() {
        let read = machine.read(0, held.first, 1).expect("an answer").expect("it is intact");
        assert_eq!(read.batches[0].first(), held.first);
    }
    let (answer, pending) = pair();
    assert!(machine.running().verb(0, Asked::RebuildIndex { seq: Seq::default(), answer }), "room");
    answer_of(&mut machine, pending).expect("built again");
    let (answer, pending) = pair();
    assert!(machine.running().verb(0, Asked::Verify { seq: None, answer }), "room");
    assert_eq!(answer_of(&mut machine, pending).expect("verified").rot, []);
    assert_eq!(scrub(&mut machine, 0).expect("read").index, None);
}

fn cursor(begun_ms: u64, seq: u32) -> ScrubCursor {
    let log = LogId { topic: Topic::new("t0").expect("a name"), range: RangeNumber::default() };
    ScrubCursor { begun_ms, at: ScrubAt::Behind(SegmentId { log, seq: Seq::new(seq).expect("small") }) }
}

fn begin_keeping(machine: &mut Machine, cursor: ScrubCursor) -> Pending<Verdict<()>> {
    send(machine, 0, |_, answer, admitted| Command::ScrubCursor { cursor, answer, admitted })
}

#[test]
fn how_far_a_round_has_come_is_the_old_or_the_new_place_after_a_crash_at_any_turn() {
    let (old, new) = (cursor(5, 0), cursor(6, 1));
    let mut machine = sealed(4, small());
    let pending = begin_keeping(&mut machine, old.clone());
    answer_of(&mut machine, pending).expect("kept");
    let pending = begin_keeping(&mut machine, new.clone());
    let (answer, pictures) = pictures(&mut machine, pending);
    assert_eq!((answer, machine.running().scrub_cursor()), (Ok(()), Some(new.clone())));
    let mut seen = [false; 2];
    let images = crash_everywhere(&machine, 4, pictures, |found, answered| {
        let kept = found.running().scrub_cursor();
        seen[usize::from(kept.as_ref() == Some(&new))] = true;
        kept.as_ref() == Some(&new) || (!answered && kept.as_ref() == Some(&old))
    });
    assert!(images > 20 && seen == [true; 2], "{images} images, {seen:?}");
}
