//! What a sync and a durable write make durable, and what they leave to chance.

use crate::support::*;
use std::collections::BTreeSet;
use strandline_disk::sim::{Loss, SimWorld, drive};
use strandline_disk::{Access, BLOCK, Disk, OpenFile, Operation, transfer};

#[test]
fn a_synced_write_survives_every_power_failure() {
    for (seed, loss) in (0..40).flat_map(|seed| LOSSES.map(|loss| (seed, loss))) {
        for (access, durable) in
            [(Access::Auto, true), (Access::Auto, false), (Access::Buffered, true), (Access::Buffered, false)]
        {
            let world = SimWorld::new(seed);
            let disk = world.open();
            let file = open(&disk, &disk.root(), "f", OpenFile::New, access);
            write(&disk, &file, b'x', 0, 3 * BLOCK, durable);
            if !durable {
                sync(&disk, &file);
            }
            sync_directory(&disk, &disk.root());
            world.power_failure(loss);
            assert_eq!(world.read_file("f").as_deref(), Some([b'x'; 3 * BLOCK].as_slice()), "seed {seed}, {loss:?}");
        }
    }
}

#[test]
fn an_unsynced_overwrite_is_kept_lost_or_torn_between_sectors() {
    let (mut kept, mut lost, mut torn, mut scattered) = (0, 0, 0, 0);
    for seed in 0..200 {
        let world = world_with(seed, &[b'o'; 4 * BLOCK]);
        let disk = world.open();
        write(&disk, &open_f(&disk), b'n', 0, 4 * BLOCK, false);
        assert_eq!(world.durable_file("f").expect("it is there"), [b'o'; 4 * BLOCK]);
        world.power_failure(Loss::Random);
        let found = sectors(&world.read_file("f").expect("its name is durable"));
        match found.iter().filter(|byte| **byte == b'n').count() {
            0 => lost += 1,
            32 => kept += 1,
            _ => torn += 1,
        }
        scattered += usize::from(found.windows(2).any(|pair| pair == b"on"));
        assert!(found.iter().all(|byte| b"on".contains(byte)));
        assert_eq!(world.read_file("f"), world.durable_file("f"), "after a boot all is durable");
    }
    assert!(kept >= 20 && lost >= 20 && torn >= 20, "kept {kept}, lost {lost}, torn {torn}");
    assert!(scattered >= 20, "only {scattered} lost a sector before one that was kept");
}

#[test]
fn any_of_several_unsynced_versions_may_be_what_persisted() {
    let mut found = BTreeSet::new();
    for seed in 0..100 {
        let world = world_with(seed, &[b'a'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        for byte in [b'b', b'c'] {
            write(&disk, &file, byte, 0, BLOCK, false);
        }
        world.power_failure(Loss::Random);
        found.extend(sectors(&world.read_file("f").expect("its name is durable")));
    }
    assert_eq!(found, BTreeSet::from(*b"abc"));
}

#[test]
fn a_sync_covers_only_what_had_completed_when_it_started() {
    for seed in 0..50 {
        let world = world_with(seed, &[b'o'; 2 * BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        write(&disk, &file, b'1', 0, BLOCK, false);
        let second = disk.start(write_operation(&disk, &file, b'2', BLOCK as u64, BLOCK));
        let syncing = disk.start(Operation::Sync { file: file.clone() });
        drive(&disk, syncing).result.expect("it is synced");
        drive(&disk, second).result.expect("it is written");
        world.power_failure(Loss::DropAll);
        let found = sectors(&world.read_file("f").expect("its name is durable"));
        assert_eq!(found, [[b'1'; 8], [b'o'; 8]].concat(), "seed {seed}");
    }
}

#[test]
fn a_sync_through_the_middle_of_the_versions_leaves_the_later_ones_loose() {
    for seed in 0..50 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        write(&disk, &file, b'1', 0, BLOCK, false);
        let syncing = disk.start(Operation::Sync { file: file.clone() });
        drive(&disk, disk.start(write_operation(&disk, &file, b'2', 0, BLOCK))).result.expect("it is written");
        drive(&disk, syncing).result.expect("it is synced");
        assert_eq!(world.durable_file("f").expect("it is there"), [b'1'; BLOCK], "seed {seed}");
        assert_eq!(world.read_file("f").expect("it is there"), [b'2'; BLOCK], "seed {seed}");
    }
}

#[test]
fn a_sync_of_one_file_makes_no_other_durable() {
    let world = world_with(1, &[b'o'; BLOCK]);
    world.put_file("g", &[b'o'; BLOCK]);
    let disk = world.open();
    let other = open(&disk, &disk.root(), "g", OpenFile::Existing, Access::Auto);
    write(&disk, &open_f(&disk), b'n', 0, BLOCK, false);
    write(&disk, &other, b'n', 0, BLOCK, true);
    sync(&disk, &other);
    world.power_failure(Loss::DropAll);
    assert_eq!(world.read_file("f").expect("it is there"), [b'o'; BLOCK]);
    assert_eq!(world.read_file("g").expect("it is there"), [b'n'; BLOCK]);
}

#[test]
fn a_durable_write_carries_its_own_blocks_and_length_and_nothing_else() {
    let world = world_with(1, b"");
    let disk = world.open();
    let file = open_f(&disk);
    write(&disk, &file, b'1', 0, BLOCK, false);
    write(&disk, &file, b'2', BLOCK as u64, BLOCK, true);
    write(&disk, &file, b'3', 2 * BLOCK as u64, BLOCK, false);
    world.power_failure(Loss::DropAll);
    assert_eq!(sectors(&world.read_file("f").expect("it is there")), [[0; 8], [b'2'; 8]].concat());
}

#[test]
fn a_durable_write_does_not_carry_a_length_that_came_while_it_was_in_flight() {
    for seed in 0..40 {
        let world = world_with(seed, b"");
        let disk = world.open();
        let file = open_f(&disk);
        let growing = disk.start(write_operation(&disk, &file, b'2', BLOCK as u64, BLOCK));
        write(&disk, &file, b'1', 0, BLOCK, true);
        drive(&disk, growing).result.expect("it is written");
        world.power_failure(Loss::DropAll);
        assert_eq!(world.read_file("f").expect("it is there"), [b'1'; BLOCK], "seed {seed}");
    }
}

#[test]
fn a_preallocation_and_its_conversion_are_durable_only_after_a_sync() {
    let mut found = BTreeSet::new();
    for seed in 0..60 {
        let world = world_with(seed, b"");
        let disk = world.open();
        let file = open_f(&disk);
        drive(&disk, transfer::allocate(&disk, &file, 2 * BLOCK as u64)).expect("room");
        assert_eq!(world.crash_image(seed, Loss::DropAll).read_file("f").expect("it is there").len(), 0);
        sync(&disk, &file);
        write(&disk, &file, b'n', 0, BLOCK, false);
        assert!(!world.is_anchored("f", 0, BLOCK));
        world.power_failure(Loss::Random);
        let bytes = world.read_file("f").expect("it is there");
        assert_eq!(bytes.len(), 2 * BLOCK);
        found.extend(sectors(&bytes[..BLOCK]));
        assert!(bytes[BLOCK..].iter().all(|byte| *byte == 0));
    }
    assert_eq!(found, BTreeSet::from([0, b'n']));
}

#[test]
fn a_block_is_anchored_by_a_sync_of_its_own_file_until_it_is_cut_off() {
    let world = world_with(1, b"");
    let disk = world.open();
    let file = open_f(&disk);
    drive(&disk, transfer::allocate(&disk, &file, 4 * BLOCK as u64)).expect("room");
    sync(&disk, &file);
    assert!(!world.is_anchored("f", 0, BLOCK), "an unwritten extent is not anchored by a sync");
    write(&disk, &file, b'n', 0, 4 * BLOCK, false);
    assert!(!world.is_anchored("f", 0, BLOCK));
    sync(&disk, &file);
    assert!(world.is_anchored("f", 0, 4 * BLOCK));
    drive(&disk, transfer::truncate(&disk, &file, BLOCK as u64)).expect("it is cut");
    write(&disk, &file, b'n', BLOCK as u64, BLOCK, false);
    assert!(world.is_anchored("f", 0, BLOCK) && !world.is_anchored("f", BLOCK as u64, BLOCK));
    write(&disk, &file, b'n', BLOCK as u64, BLOCK, true);
    assert!(world.is_anchored("f", BLOCK as u64, BLOCK), "a durable write anchors too");
}

#[test]
fn a_length_is_durable_only_after_a_sync() {
    let mut lengths = BTreeSet::new();
    for seed in 0..60 {
        let world = world_with(seed, b"");
        let disk = world.open();
        let file = open_f(&disk);
        for block in 0..3 {
            write(&disk, &file, b'n', block * BLOCK as u64, BLOCK, false);
        }
        assert_eq!(world.durable_file("f").expect("it is there").len(), 0);
        world.power_failure(Loss::Random);
        lengths.insert(world.read_file("f").expect("it is there").len() / BLOCK);
    }
    assert_eq!(lengths, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_truncation_is_kept_or_lost_whole() {
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..100 {
        let world = world_with(seed, &[b'o'; 4 * BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        drive(&disk, transfer::truncate(&disk, &file, 1000)).expect("it is cut");
        drive(&disk, transfer::truncate(&disk, &file, 2 * BLOCK as u64)).expect("it grows");
        let now = world.read_file("f").expect("it is there");
        assert!(now.len() == 2 * BLOCK && now[..1000] == [b'o'; 1000] && now[1000..].iter().all(|byte| *byte == 0));
        world.power_failure(Loss::Random);
        let bytes = world.read_file("f").expect("it is there");
        if bytes.len() == 4 * BLOCK {
            lost += 1;
            assert_eq!(bytes, [b'o'; 4 * BLOCK], "seed {seed}: the old length, but not the old bytes");
        } else {
            kept += 1;
            assert!(bytes.len() == 1000 || bytes == now, "seed {seed}: {} bytes", bytes.len());
        }
    }
    assert!(kept > 10 && lost > 10, "kept {kept}, lost {lost}");
}

#[test]
fn a_truncation_is_durable_after_a_sync() {
    for (seed, loss) in (0..20).flat_map(|seed| LOSSES.map(|loss| (seed, loss))) {
        let world = world_with(seed, &[b'o'; 4 * BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        drive(&disk, transfer::truncate(&disk, &file, BLOCK as u64)).expect("it is cut");
        sync(&disk, &file);
        world.power_failure(loss);
        assert_eq!(world.read_file("f").expect("it is there"), [b'o'; BLOCK]);
        assert_eq!(world.allocated_blocks("f"), 1);
    }
}

#[test]
fn a_write_in_flight_may_be_torn_by_a_power_failure() {
    let mut torn = 0;
    for seed in 0..100 {
        let world = world_with(seed, &[b'o'; 2 * BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        let flight = disk.start(write_operation(&disk, &file, b'n', 0, 2 * BLOCK));
        world.power_failure(Loss::Random);
        let found = sectors(&world.read_file("f").expect("it is there"));
        assert!(found.iter().all(|byte| b"on".contains(byte)));
        torn += usize::from(found.contains(&b'o') && found.contains(&b'n'));
        drop(flight);
    }
    assert!(torn > 10, "torn {torn}");
}
