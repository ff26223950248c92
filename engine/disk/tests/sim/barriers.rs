//! What a barrier makes durable in files other than its own, and each thing that it does not.

use crate::support::*;
use rustix::io::Errno;
use std::collections::BTreeSet;
use strandline_disk::sim::{Fault, Lie, Loss, SimDisk, SimWorld, Times, What, When, drive};
use strandline_disk::{Access, BLOCK, Disk, DiskError, File, OpenFile, Operation, Verb, transfer};

/// A world with durable files `f` and `g`, of two blocks of `o` each.
fn two_files(seed: u64) -> (SimWorld, SimDisk, File, File) {
    let world = world_with(seed, &[b'o'; 2 * BLOCK]);
    world.put_file("g", &[b'o'; 2 * BLOCK]);
    let disk = world.open();
    let (file, other) = (open_f(&disk), open_g(&disk, Access::Auto));
    (world, disk, file, other)
}

fn open_g(disk: &SimDisk, access: Access) -> File {
    open(disk, &disk.root(), "g", OpenFile::Existing, access)
}

fn barrier(disk: &SimDisk, file: &File) -> Result<(), DiskError> {
    drive(disk, transfer::barrier(disk, file))
}

/// What is left of the first two blocks of a file when a power failure loses all it may, a byte for each.
fn left(world: &SimWorld, path: &str) -> Vec<u8> {
    let bytes = world.crash_image(1, Loss::DropAll).read_file(path).expect("its name is durable");
    bytes.chunks(BLOCK).take(2).map(|block| *sectors(block).first().expect("not empty")).collect()
}

#[test]
fn an_overwrite_survives_every_power_failure_after_a_barrier_through_another_file() {
    for (seed, loss) in (0..40).flat_map(|seed| LOSSES.map(|loss| (seed, loss))) {
        let (world, disk, file, other) = two_files(seed);
        write(&disk, &other, b'n', 0, 2 * BLOCK, false);
        barrier(&disk, &file).expect("flushed");
        assert_eq!(world.loose_changes(), 0);
        world.power_failure(loss);
        assert_eq!(world.read_file("g").expect("it is there"), [b'n'; 2 * BLOCK], "seed {seed}, {loss:?}");
    }
}

#[test]
fn the_last_of_several_overwrites_is_what_a_barrier_leaves() {
    for seed in 0..20 {
        let (world, disk, file, other) = two_files(seed);
        write(&disk, &open_g(&disk, Access::Buffered), b'1', 0, BLOCK, false);
        write(&disk, &other, b'2', 0, BLOCK, false);
        write(&disk, &other, b'3', 0, BLOCK, false);
        barrier(&disk, &file).expect("flushed");
        assert_eq!(world.loose_changes(), 0, "what was overwritten does not come back");
        world.power_failure(Loss::Random);
        assert_eq!(world.read_file("g").expect("it is there")[..BLOCK], [b'3'; BLOCK]);
    }
}

#[test]
fn a_barrier_syncs_its_own_file_whole() {
    let world = world_with(1, b"");
    let disk = world.open();
    let file = open_f_buffered(&disk);
    write(&disk, &file, b'n', 0, 2 * BLOCK, false);
    world.set_barrier_works(false);
    barrier(&disk, &file).expect("flushed");
    assert_eq!(left(&world, "f"), *b"nn");
    assert!(world.is_anchored("f", 0, 2 * BLOCK));
}

#[test]
fn a_write_into_an_unwritten_extent_is_not_covered() {
    let (world, disk, file, _) = two_files(1);
    let fresh = open(&disk, &disk.root(), "fresh", OpenFile::New, Access::Auto);
    drive(&disk, transfer::allocate(&disk, &fresh, 2 * BLOCK as u64)).expect("room");
    sync(&disk, &fresh);
    sync_directory(&disk, &disk.root());
    write(&disk, &fresh, b'n', 0, BLOCK, false);
    barrier(&disk, &file).expect("flushed");
    assert_eq!(left(&world, "fresh"), [0, 0]);
    // Nor is the overwrite that follows it: the conversion of the extent still waits for a sync of this file.
    write(&disk, &fresh, b'm', 0, BLOCK, false);
    barrier(&disk, &file).expect("flushed");
    assert_eq!(left(&world, "fresh"), [0, 0]);
    sync(&disk, &fresh);
    write(&disk, &fresh, b'l', 0, BLOCK, false);
    barrier(&disk, &file).expect("flushed");
    assert_eq!(left(&world, "fresh"), [b'l', 0]);
}

#[test]
fn an_overwrite_of_a_block_that_was_never_synced_by_its_own_file_is_not_covered() {
    let (world, disk, file, _) = two_files(1);
    let fresh = open(&disk, &disk.root(), "fresh", OpenFile::New, Access::Auto);
    sync_directory(&disk, &disk.root());
    write(&disk, &fresh, b'1', 0, BLOCK, false);
    sync(&disk, &file);
    write(&disk, &fresh, b'2', 0, BLOCK, false);
    barrier(&disk, &file).expect("flushed");
    assert_eq!(left(&world, "fresh"), b"", "neither its bytes nor its length");
}

#[test]
fn a_write_that_came_before_its_block_was_anchored_is_not_covered() {
    let (world, disk, file, other) = two_files(1);
    drive(&disk, transfer::allocate(&disk, &other, 4 * BLOCK as u64)).expect("room");
    sync(&disk, &other);
    let at = 2 * BLOCK as u64;
    write(&disk, &other, b'n', at, BLOCK, false);
    // It makes the extent durable, and of the bytes only its own.
    write(&disk, &open_g(&disk, Access::Buffered), b'd', at, 512, true);
    assert!(world.is_anchored("g", at, BLOCK));
    barrier(&disk, &file).expect("flushed");
    let bytes = world.crash_image(1, Loss::DropAll).read_file("g").expect("its name is durable");
    assert_eq!(sectors(&bytes[2 * BLOCK..3 * BLOCK]), [b'd', 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_buffered_overwrite_is_not_covered() {
    let (world, disk, file, _) = two_files(1);
    write(&disk, &open_g(&disk, Access::Buffered), b'n', 0, BLOCK, false);
    barrier(&disk, &file).expect("flushed");
    assert_eq!(left(&world, "g"), *b"oo");
    world.set_direct(false);
    let cached = world.open();
    assert!(!cached.capabilities().barrier.allowed);
    write(&cached, &open_g(&cached, Access::Auto), b'n', 0, BLOCK, false);
    barrier(&cached, &open_f(&cached)).expect("flushed");
    assert_eq!(left(&world, "g"), *b"oo");
}

#[test]
fn a_file_with_a_pending_change_of_length_or_allocation_is_not_covered() {
    type Change = fn(&SimDisk, &File);
    let block = |number: u64| number * BLOCK as u64;
    let changes: [Change; 6] = [
        |disk, file| write(disk, file, b'c', 3 * BLOCK as u64, BLOCK, false),
        |disk, file| write(disk, file, b'c', 4 * BLOCK as u64, BLOCK, false),
        |disk, file| drive(disk, transfer::allocate(disk, file, 8 * BLOCK as u64)).expect("room"),
        |disk, file| drive(disk, transfer::truncate(disk, file, BLOCK as u64 + 512)).expect("cut"),
        |disk, file| drive(disk, transfer::truncate(disk, file, 8 * BLOCK as u64)).expect("grown"),
        |disk, file| {
            write(disk, file, b'c', 3 * BLOCK as u64, BLOCK, true);
            drive(disk, transfer::truncate(disk, file, 3 * BLOCK as u64 + 512)).expect("cut");
            // The next durable write carries the new length along, and not what was cut off inside of a block.
            write(disk, file, b'd', 0, BLOCK, true);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (world, disk, file, other) = two_files(1);
        drive(&disk, transfer::allocate(&disk, &other, block(4))).expect("room");
        sync(&disk, &other);
        change(&disk, &other);
        write(&disk, &other, b'n', 0, BLOCK, false);
        barrier(&disk, &file).expect("flushed");
        assert_ne!(left(&world, "g")[0], b'n', "change {number}");
        sync(&disk, &other);
        write(&disk, &other, b'm', 0, BLOCK, false);
        barrier(&disk, &file).expect("flushed");
        assert_eq!(left(&world, "g")[0], b'm', "change {number}, synced");
    }
}

#[test]
fn a_write_that_had_not_completed_when_the_barrier_started_is_not_covered() {
    for seed in 0..50 {
        let (world, disk, file, other) = two_files(seed);
        write(&disk, &other, b'1', 0, BLOCK, false);
        let late = disk.start(write_operation(&disk, &other, b'2', BLOCK as u64, BLOCK));
        let flush = disk.start(Operation::Barrier { file: file.clone() });
        drive(&disk, late).result.expect("it is written");
        drive(&disk, flush).result.expect("flushed");
        assert_eq!(left(&world, "g"), *b"1o", "seed {seed}");
    }
}

#[test]
fn a_barrier_in_flight_at_a_power_failure_promises_nothing() {
    let (world, disk, file, other) = two_files(1);
    write(&disk, &other, b'n', 0, BLOCK, false);
    let flush = disk.start(Operation::Barrier { file });
    assert_eq!(left(&world, "g"), *b"oo");
    drop(flush);
}

#[test]
fn a_file_system_whose_syncs_cover_one_file_says_so_and_does_so() {
    let (world, disk, ..) = two_files(1);
    assert!(disk.capabilities().barrier.allowed);
    world.set_barrier_works(false);
    let disk = world.open();
    let report = &disk.capabilities().barrier;
    assert!(!report.allowed && !report.reason.is_empty());
    write(&disk, &open_g(&disk, Access::Auto), b'n', 0, BLOCK, false);
    barrier(&disk, &open_f(&disk)).expect("flushed");
    assert_eq!(left(&world, "g"), *b"oo");
}

#[test]
fn the_kth_barrier_fails_and_covers_nothing() {
    for k in 1..=3 {
        let (world, disk, file, other) = two_files(k);
        world.inject(Fault { when: When::KthOf(Verb::Barrier, k), what: What::Errno(Errno::IO), times: Times::Once });
        for turn in 1..=3 {
            write(&disk, &other, b'0' + turn as u8, 0, BLOCK, false);
            sync(&disk, &file);
            let before = left(&world, "g")[0];
            let error = barrier(&disk, &file).err();
            assert_eq!(
                error.as_ref().map(|error| (error.verb, error.errno)),
                (turn == k).then_some((Verb::Barrier, Errno::IO))
            );
            assert_eq!(left(&world, "g")[0], if turn == k { before } else { b'0' + turn as u8 });
        }
        assert_eq!(world.faults_fired(), 1, "it is not tried again");
    }
}

#[test]
fn a_barrier_that_is_interrupted_is_called_again() {
    let (world, disk, file, other) = two_files(1);
    write(&disk, &other, b'n', 0, BLOCK, false);
    for errno in [Errno::INTR, Errno::AGAIN] {
        world.inject(Fault { when: When::Verb(Verb::Barrier), what: What::Errno(errno), times: Times::Once });
    }
    barrier(&disk, &file).expect("flushed");
    assert_eq!((world.faults_fired(), left(&world, "g")), (2, b"no".to_vec()));
}

#[test]
fn a_failed_barrier_drops_what_its_fault_says_and_the_next_one_succeeds() {
    let mut found = BTreeSet::new();
    for what in [What::FailedSyncDropsDirty, What::FailedSyncDropsDevice] {
        let (world, disk, file, other) = two_files(1);
        write(&disk, &file, b'n', 0, BLOCK, false);
        write(&disk, &other, b'n', 0, BLOCK, false);
        world.inject(Fault { when: When::Verb(Verb::Barrier), what, times: Times::Once });
        assert!(barrier(&disk, &file).is_err());
        barrier(&disk, &file).expect("flushed");
        found.insert((read(&disk, &file, 0, 1)[0], read(&disk, &other, 0, 1)[0]));
    }
    assert_eq!(found, BTreeSet::from([(b'o', b'n'), (b'o', b'o')]), "of its own file, and of the device");
}

#[test]
fn a_lie_about_syncs_is_a_lie_about_barriers() {
    let left_under = |lie: Option<Lie>| {
        let (world, disk, file, other) = two_files(1);
        lie.into_iter().for_each(|lie| world.sabotage(lie));
        write(&disk, &file, b'n', 0, BLOCK, false);
        write(&disk, &other, b'n', 0, BLOCK, false);
        barrier(&disk, &file).expect("flushed");
        (left(&world, "f")[0], left(&world, "g")[0])
    };
    assert_eq!(left_under(None), (b'n', b'n'));
    assert_eq!(left_under(Some(Lie::SkipSync)), (b'o', b'o'));
    assert_eq!(left_under(Some(Lie::SkipBarrier)), (b'o', b'o'));
    assert_eq!(left_under(Some(Lie::SkipSyncOf("g".into()))), (b'n', b'o'));
    assert_eq!(left_under(Some(Lie::SkipSyncOf("f".into()))), (b'o', b'o'));
    assert_eq!(left_under(Some(Lie::SkipDirectorySync)), (b'n', b'n'));
}
