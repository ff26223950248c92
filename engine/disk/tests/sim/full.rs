//! A full disk.

use crate::support::*;
use rustix::io::Errno;
use strandline_disk::sim::{Fault, Times, What, When, drive};
use strandline_disk::{Access, BLOCK, Disk, OpenFile, Position, Space, Success, Verb, transfer};

#[test]
fn a_full_disk_refuses_new_blocks_and_serves_old_ones() {
    let world = world_with(1, &[b'o'; 2 * BLOCK]);
    world.set_capacity(4 * BLOCK as u64);
    let disk = world.open();
    let file = open_f(&disk);
    let full = |result: Result<(), strandline_disk::DiskError>| result.expect_err("it is full").errno;
    assert_eq!(full(drive(&disk, transfer::allocate(&disk, &file, 5 * BLOCK as u64))), Errno::NOSPC);
    drive(&disk, transfer::allocate(&disk, &file, 4 * BLOCK as u64)).expect("it just fits");
    assert_eq!(world.free_bytes(), 0);
    write(&disk, &file, b'n', 0, 4 * BLOCK, true);
    let more = filled(&disk, b'n', BLOCK);
    let end = Position(4 * BLOCK as u64);
    assert_eq!(full(drive(&disk, transfer::write(&disk, &file, more, end, false)).1), Errno::NOSPC);
    let other = open(&disk, &disk.root(), "g", OpenFile::New, Access::Auto);
    drive(&disk, transfer::truncate(&disk, &file, BLOCK as u64)).expect("cutting needs no room");
    assert_eq!(world.free_bytes(), 3 * BLOCK as u64);
    write(&disk, &other, b'n', 0, 3 * BLOCK, true);
}

#[test]
fn the_room_is_what_may_still_be_allocated_and_asking_for_it_can_fail() {
    let world = world_with(1, &[b'o'; 2 * BLOCK]);
    world.set_capacity(10 * BLOCK as u64);
    let disk = world.open();
    assert_eq!(disk.space(), Ok(Space { free: 8 * BLOCK as u64, total: 10 * BLOCK as u64 }));
    let what = What::Errno(Errno::IO);
    world.inject(Fault { when: When::Verb(Verb::Space), what, times: Times::Once });
    assert_eq!(disk.space().map_err(|error| error.errno), Err(Errno::IO));
    assert!(disk.space().is_ok());
}

#[test]
fn a_write_takes_what_fits() {
    let world = world_with(1, b"");
    world.set_capacity(2 * BLOCK as u64);
    let disk = world.open();
    let file = open_f(&disk);
    let outcome = drive(&disk, disk.start(write_operation(&disk, &file, b'n', 0, 5 * BLOCK)));
    assert!(matches!(outcome.result, Ok(Success::Moved(moved)) if moved == 2 * BLOCK));
}

#[test]
fn an_unlinked_file_gives_its_room_back_when_it_is_closed() {
    let world = world_with(1, &[b'o'; 2 * BLOCK]);
    world.set_capacity(2 * BLOCK as u64);
    let disk = world.open();
    let file = open_f(&disk);
    unlink(&disk, &disk.root(), "f");
    assert_eq!(world.free_bytes(), 0);
    drop(file);
    turn(&disk, 1);
    assert_eq!(world.free_bytes(), 2 * BLOCK as u64);
}

#[test]
fn an_overwrite_needs_room_only_where_the_file_system_copies() {
    let mut refused = 0;
    for (seed, copies) in (0..40).flat_map(|seed| [(seed, false), (seed, true)]) {
        let world = world_with(seed, &[b'o'; BLOCK]);
        world.set_capacity(BLOCK as u64);
        world.set_copy_on_write(copies);
        let disk = world.open();
        let file = open_f(&disk);
        let outcome = drive(&disk, disk.start(write_operation(&disk, &file, b'n', 0, BLOCK)));
        match outcome.result {
            Err(error) => {
                assert!(copies && error.is_full());
                refused += 1;
            }
            Ok(_) => assert_eq!(world.read_file("f").expect("it is there"), [b'n'; BLOCK]),
        }
    }
    assert!(refused > 5 && refused < 35, "refused {refused} of 40");
}
