//! Rot: damage below the durable end is reported with its position, never repaired by guessing, never appended over; everything
//! that is intact can be read.

use strandline::format::batch::{BatchHeader, HEADER_BYTES};
use strandline::format::manifest::RegionHeader;
use strandline::format::segment::SegmentFooter;
use strandline::manifest::state::Stage;
use strandline::{Offset, OpenError, OpenReport, ReadError};
use strandline_disk::sim::Loss;
use strandline_disk::{BLOCK, Position};
use strandline_tests::harness::checker::{self, walk};
use strandline_tests::harness::files::{Disk, SegmentFile};
use strandline_tests::harness::machine::small;
use strandline_tests::harness::model::Held;
use strandline_tests::harness::running::{Opening, open};
use strandline_tests::harness::{Machine, Step};

/// A configuration under which no log is known as clean: opening looks at each.
fn looked_at() -> strandline::Config {
    strandline::Config { sabotage: Some(strandline::config::Sabotage::NeverClean), ..small() }
}

const fn append(log: usize, batches: usize, bytes: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes }
}

/// A closed store: log 0 with some sealed segments and an active one, log 1 with one batch.
fn store(seed: u64, bytes: usize) -> Machine {
    let mut machine = Machine::new(seed, looked_at());
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer, append(1, 1, 300)]).expect("logs");
    let batches = 130_000 / bytes;
    for _ in 0..batches.div_ceil(50) {
        machine.run(&[append(0, 50.min(batches), bytes), Step::Answer]).expect("appends");
    }
    machine.apply(Step::Idle).expect("marks and seals");
    machine.close().expect("a clean close");
    machine
}

fn look(machine: &Machine) -> Disk {
    Disk::look(&machine.world, &machine.config).expect("a manifest")
}

fn segment(machine: &Machine, path: &str) -> SegmentFile {
    let disk = look(machine);
    disk.segments().iter().find(|segment| segment.path == path).unwrap_or_else(|| panic!("no {path}")).clone()
}

/// The batches of a file, marks left out.
fn batches(machine: &Machine, path: &str) -> Vec<(Position, BatchHeader)> {
    let bytes = machine.world.read_file(path).expect("the file");
    let found = walk(&bytes, segment(machine, path).record.uid);
    found.into_iter().filter(|(_, header)| !header.is_mark()).collect()
}

/// Opens the store, which must succeed whatever was done to it, and both logs.
fn reopen(machine: &mut Machine) -> OpenReport {
    assert!(machine.start(None).expect("the store opens whatever rots"));
    machine.run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer]).expect("both logs open");
    machine.running().report.clone()
}

/// Reads every batch of a log by itself: the intact ones must come, those of `damaged` must be reported and nothing else.
/// Gives the positions that were reported.
fn read_each(machine: &mut Machine, log: usize, damaged: impl Fn(&Held) -> bool, bytes: usize) -> Vec<Position> {
    let mut reported = Vec::new();
    for held in machine.model.logs[log].held.clone() {
        for offset in held.first.0..held.end().0 {
            let read = machine.read(log, Offset(offset), bytes).expect("an answer");
            match read {
                Ok(read) => {
                    assert!(!damaged(&held), "{held:?} is damaged and was read");
                    let got = &read.batches[0];
                    assert_eq!((got.first(), got.payload()), (held.first, &*held.sent.payload), "offset {offset}");
                }
                Err(ReadError::Corrupt { position, from, to, .. }) => {
                    assert!(
                        damaged(&held),
                        "offset {offset} is intact and was reported damaged at {position}, to {to}"
                    );
                    assert!(from.0 <= offset && offset < to.0, "offset {offset} is not in {from} to {to}");
                    let next = machine.model.logs[log].held.iter().find(|held| held.first.0 > offset && !damaged(held));
                    let next = next.map_or(machine.model.logs[log].end(), |held| held.first);
                    assert!(to <= next, "offset {offset}: told to go on at {to}, {next} is intact");
                    reported.push(position);
                }
                Err(error) => panic!("offset {offset}: {error}"),
            }
        }
    }
    reported
}

/// Appends to both logs, reopens, and checks that log 1 never noticed anything.
fn goes_on(machine: &mut Machine) {
    let end = machine.model.logs[0].end();
    machine.run(&[append(0, 2, 500), append(1, 2, 500), Step::Answer]).expect("appends go on");
    assert!(machine.model.logs[0].end() > end);
    machine.close().expect("a clean close");
    reopen(machine);
    let read = machine.read(0, end, 1 << 16).expect("an answer").expect("what was appended after the damage");
    checker::bytes_read_equal_bytes_appended(&machine.model.logs[0], end, &read.batches).expect("equal bytes");
    assert_eq!(read.next, machine.model.logs[0].end());
    let read = machine.read_all(1, Offset(0)).expect("log 1 is intact").expect("no faults");
    checker::acknowledged_is_readable(&machine.model.logs[1], &read).expect("log 1 is intact");
}

#[test]
fn cr_02_one_flipped_byte_in_a_sealed_segment_hides_its_batch_and_no_other() {
    // Several batches in a block, and batches over several blocks; in the header and in the payload.
    for (bytes, read_bytes) in [(300, 1), (300, 9_000), (5_500, 1), (5_500, 30_000)] {
        for within in [0, 9, 30, HEADER_BYTES, HEADER_BYTES + 50] {
            let mut machine = store(1, bytes);
            let path = "t0-r0-s0/data.0";
            let all = batches(&machine, path);
            let (at, header) = all[all.len() / 2];
            machine.world.rot(path, at.0 + within as u64, 0x10);
            let before = machine.world.read_file(path);
            reopen(&mut machine);
            let reported = read_each(&mut machine, 0, |held| held.first == header.first, read_bytes);
            assert_eq!(reported, vec![at; header.records as usize], "batches of {bytes} bytes, byte {within}");
            goes_on(&mut machine);
            assert!(machine.world.read_file(path) == before, "a damaged file is kept as it is");
        }
    }
}

#[test]
fn cr_03_a_hole_is_reported_and_what_stands_behind_it_is_read() {
    for length in [8, 512, 4096, 9000] {
        for bytes in [300, 5_500] {
            let mut machine = store(2, bytes);
            let path = "t0-r0-s0/data.0";
            let (from, to) = (5 * BLOCK as u64, 5 * BLOCK as u64 + length);
            let file = machine.world.read_file(path).expect("the file");
            let hit = |at: &Position, header: &BatchHeader| {
                let end = at.0 + (HEADER_BYTES as u64) + u64::from(header.payload_bytes);
                (at.0.max(from)..end.min(to)).any(|position| file[position as usize] != 0)
            };
            let hit: Vec<Offset> =
                batches(&machine, path).iter().filter(|(at, header)| hit(at, header)).map(|(_, h)| h.first).collect();
            machine.world.zero(path, from..to);
            reopen(&mut machine);
            let reported = read_each(&mut machine, 0, |held| hit.contains(&held.first), 1);
            assert!(!reported.is_empty() || hit.is_empty(), "{hit:?} were zeroed");
            assert!(length < 512 || !hit.is_empty(), "the hole is to hit something");
            goes_on(&mut machine);
        }
    }
}

#[test]
fn rot_below_the_durable_end_of_the_active_segment_fences_it_and_the_log_goes_on_in_a_new_one() {
    for within in [0, 20, HEADER_BYTES + 3] {
        for place in [0, 3, 6] {
            let mut machine = Machine::new(3, looked_at());
            machine.open().expect("an open");
            machine
                .run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer, append(0, 7, 700), append(1, 1, 9)])
                .expect("x");
            machine.apply(Step::Idle).expect("a mark proves that all was durable");
            machine.kill().expect("a kill");
            let path = "t0-r0-s0/data.0";
            let (at, header) = batches(&machine, path)[place];
            machine.world.rot(path, at.0 + within as u64, 1);
            let before = machine.world.read_file(path);
            let report = reopen(&mut machine);
            assert!(
                report.damaged.iter().any(|text| text.contains("t0-r0-s0") && text.contains(&at.to_string())),
                "{report:?}"
            );
            let reported = read_each(&mut machine, 0, |held| held.first == header.first, 1 << 16);
            assert_eq!(reported, vec![at; header.records as usize]);
            assert!(matches!(segment(&machine, path).record.stage, Stage::Fenced { .. }));
            goes_on(&mut machine);
            let reported = read_each(&mut machine, 0, |held| held.first == header.first, 1);
            assert_eq!(reported, vec![at; header.records as usize], "the same after another open");
            assert!(look(&machine).segments().iter().any(|segment| segment.path == "t0-r0-s1/data.0"));
            assert!(machine.world.read_file(path) == before, "a damaged file is kept as it is");
        }
    }
}

/// The manifest does not say how late the batches of a damaged segment are.
#[test]
fn store_times_do_not_go_backwards_behind_a_damaged_segment_that_was_opened_again() {
    let mut machine = Machine::new(5, looked_at());
    machine.open().expect("an open");
    machine
        .run(&[Step::OpenLog(0), Step::Answer, Step::Jump(180_000), append(0, 7, 700), Step::Idle])
        .expect("appends");
    machine.kill().expect("a kill");
    let (at, _) = batches(&machine, "t0-r0-s0/data.0")[3];
    machine.world.rot("t0-r0-s0/data.0", at.0 + 20, 1);
    assert!(!reopen(&mut machine).damaged.is_empty());
    machine.kill().expect("a kill");
    machine.world.jump_clock(-180_000);
    reopen(&mut machine);
    machine.run(&[Step::OpenLog(0), Step::Answer, append(0, 1, 700), Step::Answer, Step::Idle]).expect("an append");
    let before = batches(&machine, "t0-r0-s0/data.0").last().expect("intact ones").1.store_time_ms;
    let behind = batches(&machine, "t0-r0-s1/data.0").first().expect("the append").1.store_time_ms;
    assert!(behind >= before, "{behind} behind {before}");
}

#[test]
fn cr_05_a_file_cut_anywhere_in_its_last_batch_ends_after_the_one_before_it() {
    let mut machine = Machine::new(4, looked_at());
    machine.open().expect("an open");
    machine
        .run(&[Step::OpenLog(0), Step::Idle, append(0, 1, 200), Step::Answer, append(0, 1, 250), Step::Answer])
        .expect("x");
    machine.kill().expect("a kill");
    machine.world.land_strays();
    let path = "t0-r0-s0/data.0";
    let (at, header) = *batches(&machine, path).last().expect("batches");
    let (world, model) = (machine.world.snapshot(), machine.model.clone());
    let whole = at.0 + HEADER_BYTES as u64 + u64::from(header.payload_bytes);
    for cut in at.0..whole {
        let mut machine = Machine::on(world.snapshot(), machine.config.clone(), model.clone());
        machine.world.truncate_file(path, cut);
        // The last batch is in the window in which damage to acknowledged bytes looks torn: nothing behind it proves it.
        let log = &mut machine.model.logs[0];
        let lost = log.held.pop().expect("the last batch");
        assert_eq!(lost.first, header.first);
        machine.open().unwrap_or_else(|violation| panic!("cut at {cut}: {violation}"));
        assert!(machine.running().report.damaged.is_empty(), "cut at {cut}: {:?}", machine.running().report);
        machine.run(&[append(0, 1, 400), Step::Answer, Step::Reopen]).unwrap_or_else(|v| panic!("cut at {cut}: {v}"));
        assert_eq!(
            machine.model.logs[0].held.last().map(|held| held.first),
            Some(lost.first),
            "the next append starts there"
        );
    }
}

#[test]
fn cr_06_cr_10_cr_11_an_index_that_is_damaged_cut_or_missing_is_built_again_from_the_data() {
    let damage: [fn(&Machine, &str, &SegmentFooter, u64); 4] = [
        |machine, path, footer, _| machine.world.rot(path, footer.index_at.0 + 40, 0xff),
        |machine, path, footer, _| machine.world.zero(path, footer.index_at.0 + 33..footer.index_at.0 + 4096),
        |machine, path, _, size| machine.world.zero(path, size - BLOCK as u64..size),
        |machine, path, footer, _| machine.world.truncate_file(path, footer.index_at.0 + 37),
    ];
    for (number, damage) in damage.iter().enumerate() {
        let mut machine = store(5, 900);
        let path = "t0-r0-s0/data.0";
        let bytes = machine.world.read_file(path).expect("the file");
        let footer = SegmentFooter::decode(&bytes[bytes.len() - BLOCK..]).expect("a sealed segment");
        damage(&machine, path, &footer, bytes.len() as u64);
        reopen(&mut machine);
        let reported = read_each(&mut machine, 0, |_| false, 1);
        assert_eq!(reported, [], "damage {number}");
        goes_on(&mut machine);
    }
}

#[test]
fn cr_13_a_zero_tail_is_a_clean_end_a_stale_one_too_and_a_bad_header_before_good_data_is_damage() {
    let closed = || {
        let mut machine = Machine::new(6, looked_at());
        machine.open().expect("an open");
        machine
            .run(&[Step::OpenLog(0), Step::OpenLog(1), Step::Answer, append(0, 5, 700), append(1, 9, 700)])
            .expect("x");
        machine.apply(Step::Idle).expect("a mark");
        machine.kill().expect("a kill");
        machine
    };
    let path = "t0-r0-s0/data.0";
    let end = |machine: &Machine| {
        let bytes = machine.world.read_file(path).expect("the file");
        walk(&bytes, segment(machine, path).record.uid)
            .last()
            .map(|(at, header)| at.plus(header.total_length()))
            .expect("x")
    };
    let mut machine = closed();
    let report = reopen(&mut machine);
    assert_eq!((report.torn_bytes, report.damaged.len()), (0, 0), "a zero tail: {report:?}");

    let mut machine = closed();
    let end_at = end(&machine);
    let stale = machine.world.read_file("t1-r0-s0/data.0").expect("another file")[BLOCK..BLOCK + 5_000].to_vec();
    machine.world.stale(path, end_at.0, &stale);
    let report = reopen(&mut machine);
    assert!(report.damaged.is_empty() && report.torn_bytes > 0, "a stale tail: {report:?}");
    assert_eq!(read_each(&mut machine, 0, |_| false, 1 << 16), []);
    goes_on(&mut machine);

    let mut machine = closed();
    let (at, header) = batches(&machine, path)[1];
    machine.world.stale(path, at.0, &[0x5a; 64]);
    let report = reopen(&mut machine);
    assert!(report.damaged.iter().any(|text| text.contains(&at.to_string())), "a bad header: {report:?}");
    assert_eq!(read_each(&mut machine, 0, |held| held.first == header.first, 1), vec![at; header.records as usize]);
}

#[test]
fn cr_20_what_was_found_after_a_kill_is_still_there_after_a_power_cut() {
    for seed in 0..30 {
        let mut machine = Machine::new(seed, looked_at());
        machine.world.set_direct(seed % 2 == 0);
        machine.open().expect("an open");
        machine
            .run(&[Step::OpenLog(0), Step::Answer, append(0, 6, 2_000), Step::Turn(seed as usize % 5)])
            .expect("appends");
        machine.apply(Step::Kill { again_after: None }).expect("a kill");
        let found = machine.model.logs[0].held.len();
        machine.apply(Step::PowerFailure { loss: Loss::DropAll, again_after: None }).expect("what could be read stays");
        assert_eq!(machine.model.logs[0].held.len(), found, "seed {seed}");
    }
}

#[test]
fn cr_22_an_empty_segment_is_used_again_however_often_the_store_is_opened() {
    let mut machine = Machine::new(7, looked_at());
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Idle]).expect("a log");
    let files = machine.world.files();
    for round in 0..12 {
        let again = if round % 2 == 0 { Step::Reopen } else { Step::Kill { again_after: None } };
        machine.run(&[again, Step::Idle]).expect("an open");
    }
    assert_eq!(machine.world.files(), files);
}

#[test]
fn cr_26_wrong_fields_anywhere_stop_neither_the_store_nor_the_other_log() {
    for active in [false, true] {
        for field in (0..HEADER_BYTES as u64).step_by(4) {
            let mut machine = store(8, 5_500);
            let segments: Vec<SegmentFile> = look(&machine).segments().to_vec();
            let of_log = segments.iter().filter(|segment| segment.path.starts_with("t0-"));
            let live = |segment: &&SegmentFile| matches!(segment.record.stage, Stage::Live(_)) == active;
            let opened = |segment: &&SegmentFile| segment.record.opening().is_some();
            let path = of_log.filter(opened).find(live).expect("a sealed and an active segment").path.clone();
            let (at, header) = batches(&machine, &path)[0];
            machine.world.stale(&path, at.0 + field, &[0xff; 4]);
            reopen(&mut machine);
            read_each(&mut machine, 0, |held| held.first == header.first, 1);
            goes_on(&mut machine);
        }
    }
}

#[test]
fn a_sealed_segment_without_its_file_is_reported_and_the_rest_goes_on() {
    let mut machine = store(9, 5_500);
    machine.world.remove_file("t0-r0-s0/data.0");
    reopen(&mut machine);
    let read = machine.read(0, Offset(0), 100).expect("an answer");
    assert!(matches!(&read, Err(ReadError::Disk { segment, .. }) if segment.to_string() == "t0-r0-s0"), "{read:?}");
    let end = machine.model.logs[0].end();
    let last = machine.read(0, Offset(end.0 - 1), 100).expect("an answer").expect("the other segments");
    assert_eq!(last.next, end);
    goes_on(&mut machine);
}

#[test]
fn a_manifest_copy_that_is_damaged_missing_or_cut_is_replaced_from_the_other() {
    let harm: [fn(&Machine, &str); 4] = [
        |machine, copy| (0..2).for_each(|half| machine.world.rot(copy, half * (32 << 10) + 4096 + 50, 0xff)),
        |machine, copy| (0..2).for_each(|half| machine.world.rot(copy, half * (32 << 10) + 9, 0xff)),
        |machine, copy| machine.world.remove_file(copy),
        |machine, copy| machine.world.truncate_file(copy, 5_000),
    ];
    for copy in ["manifest/a", "manifest/b"] {
        for (number, harm) in harm.iter().enumerate() {
            let mut machine = store(10, 5_500);
            harm(&machine, copy);
            let report = reopen(&mut machine);
            assert!(!report.warnings.is_empty(), "{copy}, harm {number}: nothing was reported");
            assert_eq!(read_each(&mut machine, 0, |_| false, 1 << 16), [], "{copy}, harm {number}");
            goes_on(&mut machine);
            assert!(machine.running().report.warnings.is_empty(), "it healed: {:?}", machine.running().report);
            // The copy that had been good is not needed any more.
            machine.close().expect("a clean close");
            let other = if copy == "manifest/a" { "manifest/b" } else { "manifest/a" };
            machine.world.remove_file(other);
            reopen(&mut machine);
            assert_eq!(machine.read(0, Offset(0), 1).expect("an answer").expect("the first batch").batches.len(), 1);
        }
    }
}

#[test]
fn both_manifest_copies_damaged_at_one_place_are_a_typed_refusal_and_nothing_is_changed() {
    let mut machine = store(11, 5_500);
    // A few frames behind the snapshot, in both regions.
    reopen(&mut machine);
    machine.run(&[append(0, 30, 5_500), Step::Idle]).expect("rolls");
    machine.kill().expect("a kill");
    for copy in ["manifest/a", "manifest/b"] {
        (0..2).for_each(|half| machine.world.rot(copy, half * (32 << 10) + 4096 + 40, 0xff));
    }
    let before: Vec<_> = machine.world.files().into_iter().map(|(path, _)| machine.world.read_file(&path)).collect();
    match open(&machine.world, &machine.config, None, || Ok(())).expect("an answer") {
        Opening::Refused(OpenError::ManifestDamaged { position }) => assert_eq!(position, Position(4096)),
        other => panic!("{other:?}"),
    }
    let after: Vec<_> = machine.world.files().into_iter().map(|(path, _)| machine.world.read_file(&path)).collect();
    assert!(before == after, "a refusal changes nothing");
}

/// The newest page of the manifest, whose header block stands at this byte of both copies.
fn newest_page(machine: &Machine) -> u64 {
    let bytes = machine.world.read_file("manifest/a").expect("a copy");
    let half = bytes.len() / 2;
    let sequence = |at: usize| RegionHeader::decode(&bytes[at..at + BLOCK]).map_or(0, |header| header.sequence);
    if sequence(0) > sequence(half) { 0 } else { half as u64 }
}

#[test]
fn a_manifest_that_lost_both_headers_of_its_newest_page_is_refused_and_the_page_before_it_is_not_used() {
    let mut machine = store(12, 5_500);
    reopen(&mut machine);
    machine.run(&[append(0, 30, 5_500), Step::Idle]).expect("rolls that the page before knows nothing of");
    machine.kill().expect("a kill");
    let page = newest_page(&machine);
    let world = machine.world.snapshot();
    for copy in ["manifest/a", "manifest/b"] {
        machine.world.rot(copy, page + 33, 0xff);
    }
    let before: Vec<_> = machine.world.files().into_iter().map(|(path, _)| machine.world.read_file(&path)).collect();
    match open(&machine.world, &machine.config, None, || Ok(())).expect("an answer") {
        Opening::Refused(OpenError::ManifestHeadersDamaged { sequence }) => assert!(sequence > 2, "{sequence}"),
        other => panic!("{other:?}"),
    }
    let after: Vec<_> = machine.world.files().into_iter().map(|(path, _)| machine.world.read_file(&path)).collect();
    assert!(before == after, "a refusal changes nothing");

    // One header of the two is enough.
    for copy in ["manifest/a", "manifest/b"] {
        let mut machine = Machine::on(world.snapshot(), machine.config.clone(), machine.model.clone());
        machine.world.rot(copy, page + 33, 0xff);
        machine.open().unwrap_or_else(|violation| panic!("{copy}: {violation}"));
    }
}
