//! What is left after a kill or a power failure, and what a dead process can still do: nothing.

use crate::support::*;
use std::collections::BTreeSet;
use std::time::Duration;
use strandline_disk::sim::{Driven, Loss, drive, drive_steps};
use strandline_disk::{Access, BLOCK, Disk, OpenFile, Operation, Wait, transfer};

#[test]
fn a_kill_keeps_what_was_written_but_does_not_make_it_durable() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    write(&disk, &open_f(&disk), b'n', 0, BLOCK, false);
    world.kill();
    let disk = world.open();
    assert_eq!(read(&disk, &open_f(&disk), 0, BLOCK), [b'n'; BLOCK]);
    world.power_failure(Loss::DropAll);
    assert_eq!(world.read_file("f").expect("it is there"), [b'o'; BLOCK]);
}

#[test]
fn a_write_in_flight_at_a_kill_lands_then_or_later_or_never() {
    let (mut then, mut later, mut never) = (0, 0, 0);
    for seed in 0..200 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        let flight = disk.start(write_operation(&disk, &file, b'n', 0, BLOCK));
        world.kill();
        drop(flight);
        let landed = || world.read_file("f").expect("it is there") == [b'n'; BLOCK];
        if landed() {
            then += 1;
            continue;
        }
        let strays = world.pending().len();
        let next = world.open();
        for _ in 0..200 {
            next.turn(Wait::No).expect("it lives");
        }
        assert_eq!(landed(), strays == 1, "seed {seed}");
        assert!(world.pending().is_empty());
        if landed() { later += 1 } else { never += 1 }
    }
    assert!(then > 20 && later > 20 && never > 20, "then {then}, later {later}, never {never}");
}

#[test]
fn strays_can_be_waited_for_as_the_lock_does() {
    for seed in 0..50 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        drop(disk.start(write_operation(&disk, &file, b'n', 0, BLOCK)));
        world.kill();
        world.land_strays();
        assert!(world.pending().is_empty());
    }
}

#[test]
fn a_dead_process_changes_nothing_and_hears_nothing() {
    for power in [false, true] {
        let world = world_with(1, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        if power {
            world.power_failure(Loss::Random)
        } else {
            world.kill()
        }
        assert!(!disk.is_alive());
        let (hash, operations) = (world.trace_hash(), world.operations());
        let mut write = disk.start(write_operation(&disk, &file, b'n', 0, BLOCK));
        assert!(disk.turn(Wait::Event).is_err() && disk.list(&disk.root()).is_err());
        let next = world.open();
        match drive_steps(&next, &mut write, 100) {
            Driven::Ready(outcome) => panic!("a dead process was answered: {outcome:?}"),
            Driven::Pending(_) => assert_eq!(disk.in_flight(), 1),
        }
        drop(file);
        assert_eq!((world.trace_hash(), world.operations()), (hash, operations));
        assert_eq!(world.read_file("f").expect("it is there"), [b'o'; BLOCK]);
    }
}

#[test]
#[should_panic(expected = "belongs to another disk or to a process that died")]
fn a_handle_dies_with_its_process() {
    let world = world_with(1, b"");
    let file = open_f(&world.open());
    world.kill();
    let disk = world.open();
    sync(&disk, &file);
}

#[test]
#[should_panic(expected = "belongs to another disk or to a process that died")]
fn a_handle_belongs_to_its_ring() {
    let world = world_with(1, b"");
    let (one, two) = (world.open(), world.open());
    sync(&two, &open_f(&one));
}

#[test]
fn two_rings_of_one_process_see_the_same_files_and_die_together() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let (one, two) = (world.open(), world.open());
    write(&one, &open_f(&one), b'n', 0, BLOCK, false);
    assert_eq!(read(&two, &open_f(&two), 0, BLOCK), [b'n'; BLOCK]);
    world.kill();
    assert!(!one.is_alive() && !two.is_alive());
}

#[test]
fn a_ring_that_is_dropped_closes_its_files_and_leaves_its_writes_to_land() {
    let world = world_with(1, &[b'o'; BLOCK]);
    world.put_file("gone", &[b'o'; BLOCK]);
    world.set_capacity(3 * BLOCK as u64);
    let disk = world.open();
    let file = open_f(&disk);
    let open_gone = open(&disk, &disk.root(), "gone", OpenFile::Existing, Access::Auto);
    unlink(&disk, &disk.root(), "gone");
    let flights = [
        disk.start(write_operation(&disk, &file, b'n', 0, BLOCK)),
        disk.start(Operation::Sleep { duration: Duration::from_secs(1) }),
    ];
    drop((disk, file, open_gone, flights));
    assert_eq!(world.free_bytes(), 2 * BLOCK as u64);
    assert_eq!(world.pending().len(), 1);
    world.land_strays();
    assert_eq!(world.read_file("f").expect("it is there"), [b'n'; BLOCK]);
}

#[test]
fn every_subset_of_the_loose_changes_can_be_asked_for() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    write(&disk, &file, b'n', 0, BLOCK, false);
    assert_eq!(world.loose_changes(), 8);
    let image = |loss| sectors(&world.crash_image(0, loss).read_file("f").expect("it is there"));
    let subsets: BTreeSet<Vec<u8>> = (0..256).map(|bits| image(Loss::Subset(bits))).collect();
    assert_eq!(subsets.len(), 256);
    assert_eq!(image(Loss::First(3)), *b"nnnooooo");
    assert_eq!(image(Loss::Only(3)), *b"ooonoooo");
    assert_eq!(image(Loss::AllBut(3)), *b"nnnonnnn");
    let prefixes: BTreeSet<Vec<u8>> =
        (0..200).map(|seed| sectors(&world.crash_image(seed, Loss::Prefix).read_file("f").expect("there"))).collect();
    assert_eq!(prefixes.len(), 9);
}

#[test]
fn what_is_in_flight_is_among_the_loose_changes() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    drop(disk.start(write_operation(&disk, &file, b'n', 0, BLOCK)));
    assert_eq!(world.loose_changes(), 8);
    let image = |loss| world.crash_image(0, loss).read_file("f").expect("it is there");
    assert_eq!((image(Loss::KeepAll), image(Loss::DropAll)), (vec![b'n'; BLOCK], vec![b'o'; BLOCK]));
    assert_eq!(world.pending().len(), 1, "looking changes nothing");
}

#[test]
fn a_snapshot_and_its_original_go_their_own_ways() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    let before = world.snapshot();
    write(&disk, &file, b'n', 0, BLOCK, true);
    assert_eq!(before.read_file("f").expect("it is there"), [b'o'; BLOCK]);
    before.power_failure(Loss::Random);
    let copy = before.open();
    write(&copy, &open_f(&copy), b'c', 0, BLOCK, true);
    assert_eq!(read(&disk, &file, 0, BLOCK), [b'n'; BLOCK], "the original lives on");
}

#[test]
fn bytes_past_a_lost_length_do_not_show_when_the_file_grows_again() {
    let world = world_with(1, &[b'o'; 100]);
    let disk = world.open();
    let file = open_f_buffered(&disk);
    write(&disk, &file, b'n', 100, 2 * BLOCK, false);
    // The sectors persist, the length does not.
    let changes = world.loose_changes();
    world.power_failure(Loss::Subset((1 << (changes - 1)) - 1));
    assert_eq!(world.read_file("f").expect("it is there").len(), 100);
    let disk = world.open();
    let file = open_f(&disk);
    drive(&disk, transfer::truncate(&disk, &file, 2 * BLOCK as u64)).expect("it grows");
    assert!(world.read_file("f").expect("it is there")[100..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_time_since_boot_begins_again_and_the_wall_clock_goes_on() {
    let world = world_with(1, b"");
    let disk = world.open();
    drive(&disk, transfer::sleep(&disk, Duration::from_secs(1_000))).expect("it sleeps");
    let before = world.now();
    world.power_failure(Loss::Random);
    let after = world.now();
    assert!(after.boot_ns < before.boot_ns && after.wall_ms > before.wall_ms);
}
