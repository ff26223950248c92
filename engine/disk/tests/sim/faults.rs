//! Faults strike exactly what they are told to strike, and do to the medium what such a fault does.

use crate::support::*;
use rustix::io::Errno;
use std::collections::BTreeSet;
use strandline_disk::sim::{Fault, Loss, SimDisk, SimWorld, Times, What, When, drive};
use strandline_disk::{Access, BLOCK, Disk, File, OpenFile, Operation, Position, Success, Verb, Wait, transfer};

fn once(when: When, what: What) -> Fault {
    Fault { when, what, times: Times::Once }
}

fn write_result(disk: &SimDisk, file: &File, length: usize) -> Result<usize, Errno> {
    match drive(disk, disk.start(write_operation(disk, file, b'n', 0, length))).result {
        Ok(Success::Moved(moved)) => Ok(moved),
        Ok(other) => panic!("a write answered {other:?}"),
        Err(error) => Err(error.errno),
    }
}

#[test]
fn the_kth_operation_fails_and_no_other() {
    for (k, times) in (1..=6).flat_map(|k| [(k, Times::Once), (k, Times::Forever)]) {
        let world = world_with(k, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        world.inject(Fault { when: When::KthOperation(k), what: What::Errno(Errno::IO), times });
        let failed: Vec<u64> = (1..=6).filter(|_| write_result(&disk, &file, BLOCK).is_err()).collect();
        let expected: Vec<u64> = (1..=6).filter(|n| *n == k || (times == Times::Forever && *n > k)).collect();
        assert_eq!(failed, expected);
        assert_eq!(world.faults_fired(), expected.len() as u64);
    }
}

#[test]
fn the_kth_of_a_verb_is_counted_among_its_like() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    world.inject(once(When::KthOf(Verb::Sync, 2), What::Errno(Errno::IO)));
    sync(&disk, &file);
    write(&disk, &file, b'n', 0, BLOCK, false);
    assert!(drive(&disk, transfer::sync(&disk, &file)).is_err());
    sync(&disk, &file);
}

#[test]
fn a_fault_finds_its_path_and_its_verb() {
    let world = world_with(1, &[b'o'; BLOCK]);
    world.put_file("other", &[b'o'; BLOCK]);
    let disk = world.open();
    let other = open(&disk, &disk.root(), "other", OpenFile::Existing, Access::Auto);
    let file = open_f(&disk);
    let what = What::Errno(Errno::NOSPC);
    world.inject(Fault { when: When::VerbOnPath(Verb::Write, "oth".into()), what, times: Times::Forever });
    assert_eq!(write_result(&disk, &file, BLOCK), Ok(BLOCK));
    sync(&disk, &other);
    assert_eq!(write_result(&disk, &other, BLOCK), Err(Errno::NOSPC));
    assert_eq!(write_result(&disk, &other, BLOCK), Err(Errno::NOSPC));
    world.clear_faults();
    assert_eq!(write_result(&disk, &other, BLOCK), Ok(BLOCK));
    world.inject(once(When::PathContains("other".into()), What::Errno(Errno::IO)));
    world.inject(once(When::Verb(Verb::List), What::Errno(Errno::IO)));
    assert!(disk.list(&disk.root()).is_err() && disk.list(&disk.root()).is_ok());
    assert!(drive(&disk, transfer::sync(&disk, &other)).is_err());
}

#[test]
fn a_write_that_fails_with_eio_leaves_each_sector_old_or_new() {
    let mut found = BTreeSet::new();
    for seed in 0..30 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        world.inject(once(When::Verb(Verb::Write), What::Errno(Errno::IO)));
        assert_eq!(write_result(&disk, &file, BLOCK), Err(Errno::IO));
        found.extend(sectors(&world.read_file("f").expect("it is there")));
    }
    assert_eq!(found, BTreeSet::from(*b"on"));
}

#[test]
fn a_failed_sync_drops_what_was_dirty_and_the_next_one_succeeds() {
    for durable in [false, true] {
        let world = world_with(1, &[b'o'; 2 * BLOCK]);
        let disk = world.open();
        let file = open_f_buffered(&disk);
        write(&disk, &file, b'n', 0, BLOCK, false);
        let verb = if durable { Verb::Write } else { Verb::Sync };
        world.inject(once(When::Verb(verb), What::FailedSyncDropsDirty));
        if durable {
            let buffer = filled(&disk, b'n', BLOCK);
            let at = Position(BLOCK as u64);
            assert!(drive(&disk, transfer::write(&disk, &file, buffer, at, true)).1.is_err());
        } else {
            assert!(drive(&disk, transfer::sync(&disk, &file)).is_err());
        }
        sync(&disk, &file);
        assert_eq!(read(&disk, &file, 0, BLOCK), [b'n'; BLOCK], "the cache shows what the medium has not");
        let direct = open_f(&disk);
        assert_eq!(read(&disk, &direct, 0, 2 * BLOCK), [b'o'; 2 * BLOCK], "a direct read shows the medium");
        world.kill();
        assert_eq!(
            world.read_file("f").expect("it is there")[..BLOCK],
            [b'n'; BLOCK],
            "the cache outlives the process"
        );
        let image = world.crash_image(1, Loss::KeepAll);
        assert_eq!(image.read_file("f").expect("it is there"), [b'o'; 2 * BLOCK]);
        world.drop_caches();
        assert_eq!(world.read_file("f").expect("it is there"), [b'o'; 2 * BLOCK]);
    }
}

#[test]
fn a_failed_sync_of_a_direct_file_shows_at_once() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    write(&disk, &file, b'n', 0, BLOCK, false);
    world.inject(once(When::Verb(Verb::Sync), What::FailedSyncDropsDirty));
    assert!(drive(&disk, transfer::sync(&disk, &file)).is_err());
    assert_eq!(read(&disk, &file, 0, BLOCK), [b'o'; BLOCK]);
}

#[test]
fn rewriting_a_page_that_a_failed_sync_dropped_writes_all_of_it() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f_buffered(&disk);
    write(&disk, &file, b'n', 0, BLOCK, false);
    world.inject(once(When::Verb(Verb::Sync), What::FailedSyncDropsDirty));
    assert!(drive(&disk, transfer::sync(&disk, &file)).is_err());
    write(&disk, &file, b'm', 100, 1, true);
    sync(&disk, &file);
    let durable = world.durable_file("f").expect("it is there");
    assert!(durable[100] == b'm' && durable[..100] == [b'n'; 100] && durable[101..] == [b'n'; BLOCK - 101]);
}

#[test]
fn a_failed_flush_can_cost_every_file_of_the_device() {
    let world = world_with(1, &[b'o'; BLOCK]);
    world.put_file("g", &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    let other = open(&disk, &disk.root(), "g", OpenFile::Existing, Access::Auto);
    write(&disk, &other, b'n', 0, BLOCK, false);
    world.inject(once(When::Verb(Verb::Sync), What::FailedSyncDropsDevice));
    assert!(drive(&disk, transfer::sync(&disk, &file)).is_err());
    sync(&disk, &other);
    assert_eq!(read(&disk, &other, 0, BLOCK), [b'o'; BLOCK]);
}

#[test]
fn a_short_transfer_moves_a_strict_part_that_its_alignment_allows() {
    for (access, length, unit) in
        [(Access::Auto, 5 * BLOCK, BLOCK), (Access::Buffered, 5 * 512, 512), (Access::Buffered, 300, 1)]
    {
        let world = world_with(1, b"");
        let disk = world.open();
        let file = open(&disk, &disk.root(), "f", OpenFile::Existing, access);
        world.inject(once(When::Verb(Verb::Write), What::Short));
        let moved = write_result(&disk, &file, length).expect("short is no error");
        assert!(moved > 0 && moved < length && moved.is_multiple_of(unit), "{moved} of {length}");
        assert_eq!(world.files(), [("f".to_owned(), moved as u64)]);
        world.inject(once(When::Verb(Verb::Write), What::Short));
        write(&disk, &file, b'x', 0, length, true);
        world.inject(once(When::Verb(Verb::Read), What::Short));
        let expected = vec![b'x'; length];
        assert_eq!(read(&disk, &file, 0, length), expected);
        assert_eq!(world.durable_file("f"), Some(expected), "every part of a short durable write is durable");
        assert_eq!(world.faults_fired(), 3);
    }
}

#[test]
fn a_write_may_move_nothing() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    world.inject(once(When::Verb(Verb::Write), What::Nothing));
    assert_eq!(write_result(&disk, &file, BLOCK), Ok(0));
    assert_eq!(world.read_file("f").expect("it is there"), [b'o'; BLOCK]);
}

#[test]
fn a_misdirected_write_answers_ok_and_lands_elsewhere() {
    let mut places = BTreeSet::new();
    for seed in 0..60 {
        let world = world_with(seed, &[b'o'; 3 * BLOCK]);
        world.put_file("g", &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        world.inject(once(When::Verb(Verb::Write), What::Misdirected));
        write(&disk, &file, b'n', 0, BLOCK, true);
        let all = [world.durable_file("f").expect("there"), world.durable_file("g").expect("there")].concat();
        let landed: Vec<usize> =
            all.chunks(BLOCK).enumerate().filter(|(_, block)| block[0] == b'n').map(|(place, _)| place).collect();
        assert_eq!(landed.len(), 1);
        places.extend(landed);
    }
    assert_eq!(places, BTreeSet::from([1, 2, 3]));
}

#[test]
fn a_delayed_operation_waits_its_turns_and_then_lands() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    world.inject(once(When::Verb(Verb::Write), What::Delay(50)));
    let flight = disk.start(write_operation(&disk, &file, b'n', 0, BLOCK));
    for _ in 0..49 {
        disk.turn(Wait::No).expect("it lives");
        assert_eq!(disk.in_flight(), 1);
    }
    drive(&disk, flight).result.expect("it is written");
    assert_eq!(world.read_file("f").expect("it is there"), [b'n'; BLOCK]);
}

#[test]
fn a_fault_that_an_operation_cannot_suffer_passes_it_by() {
    let world = SimWorld::new(1);
    let disk = world.open();
    world.inject(once(When::KthOperation(1), What::Short));
    let file = open(&disk, &disk.root(), "f", OpenFile::New, Access::Auto);
    write(&disk, &file, b'n', 0, 2 * BLOCK, false);
    assert_eq!(world.faults_fired(), 0);
}

#[test]
fn sleeps_are_not_counted() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    let before = world.operations();
    world.inject(once(When::KthOperation(1), What::Errno(Errno::IO)));
    let wait = Operation::Sleep { duration: std::time::Duration::from_millis(1) };
    drive(&disk, disk.start(wait)).result.expect("it sleeps");
    assert_eq!(world.operations(), before);
    assert_eq!(write_result(&disk, &file, BLOCK), Err(Errno::IO));
}

#[test]
fn a_stat_fails_where_it_is_told_to() {
    let world = world_with(1, b"x");
    let disk = world.open();
    let stat = || disk.stat(&disk.root(), &name("f"));
    world.inject(once(When::VerbOnPath(Verb::Stat, "f".into()), What::Errno(Errno::IO)));
    let error = stat().expect_err("it was told to");
    assert_eq!((error.verb, &*error.path, error.errno), (Verb::Stat, "f", Errno::IO));
    assert!(stat().is_ok());
}
