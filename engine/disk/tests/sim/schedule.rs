//! The order of completions, virtual time, and the rules for those who start operations.

use crate::support::*;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;
use strandline_disk::sim::{Driven, Fault, Loss, Times, What, When, drive, drive_steps};
use strandline_disk::{BLOCK, Disk, InFlight, Operation, Position, Verb, Wait, transfer};

/// Starts five writes and tells in which order they complete.
fn order(seed: u64) -> (Vec<usize>, u64, Vec<String>) {
    let world = world_with(seed, &[b'o'; 5 * BLOCK]);
    world.keep_trace(true);
    let disk = world.open();
    let file = open_f(&disk);
    let mut flights: Vec<(usize, InFlight)> = (0..5)
        .map(|index| (index, disk.start(write_operation(&disk, &file, b'n', (index * BLOCK) as u64, BLOCK))))
        .collect();
    let mut order = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    while !flights.is_empty() {
        disk.turn(Wait::Event).expect("it lives");
        flights.retain_mut(|(index, flight)| {
            let ready = Pin::new(flight).poll(&mut context).is_ready();
            order.extend(ready.then_some(*index));
            !ready
        });
    }
    world.power_failure(Loss::Random);
    (order, world.trace_hash(), world.trace())
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another_order() {
    let orders: BTreeSet<Vec<usize>> = (0..40).map(|seed| order(seed).0).collect();
    assert!(orders.len() > 20, "{} orders", orders.len());
    for seed in 0..40 {
        assert_eq!(order(seed), order(seed));
    }
    assert!(!order(1).2.is_empty());
    assert_ne!(order(1).1, order(2).1);
}

#[test]
fn the_trace_tells_other_bytes_apart() {
    let hash = |byte| {
        let world = world_with(1, &[b'o'; BLOCK]);
        let disk = world.open();
        write(&disk, &open_f(&disk), byte, 0, BLOCK, false);
        world.trace_hash()
    };
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_turn_that_does_not_wait_may_complete_nothing() {
    let (mut none, mut some) = (0, 0);
    for seed in 0..100 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        let _flight = disk.start(write_operation(&disk, &file, b'n', 0, BLOCK));
        disk.turn(Wait::No).expect("it lives");
        if disk.in_flight() == 0 { some += 1 } else { none += 1 }
    }
    assert!(none > 10 && some > 30, "none {none}, some {some}");
}

#[test]
#[should_panic(
    expected = "two writes in flight touch the same block: #2 Write f at 0..8192 of disk 1, and now f at 4096..8192"
)]
fn two_writes_in_flight_on_one_block_are_a_bug() {
    let world = world_with(1, &[b'o'; 2 * BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    let _one = disk.start(write_operation(&disk, &file, b'1', 0, 2 * BLOCK));
    let _two = disk.start(write_operation(&disk, &file, b'2', BLOCK as u64, BLOCK));
}

#[test]
#[should_panic(expected = "two writes in flight touch the same block")]
fn two_buffered_writes_in_flight_on_one_block_are_a_bug_too() {
    let world = world_with(1, &[b'o'; 2 * BLOCK]);
    let disk = world.open();
    let file = open_f_buffered(&disk);
    let _one = disk.start(write_operation(&disk, &file, b'1', 0, 100));
    let _two = disk.start(write_operation(&disk, &file, b'2', 200, 100));
}

#[test]
fn overlapping_writes_land_in_either_order_where_a_test_allows_them() {
    let mut last = BTreeSet::new();
    for seed in 0..40 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        world.allow_overlap(true);
        let disk = world.open();
        let file = open_f(&disk);
        let one = disk.start(write_operation(&disk, &file, b'1', 0, BLOCK));
        let two = disk.start(write_operation(&disk, &file, b'2', 0, BLOCK));
        drive(&disk, one).result.expect("it is written");
        drive(&disk, two).result.expect("it is written");
        last.extend(sectors(&world.read_file("f").expect("it is there")));
    }
    assert_eq!(last, BTreeSet::from(*b"12"));
}

#[test]
fn a_read_over_a_write_in_flight_sees_each_sector_old_or_new_and_never_goes_back() {
    let mut mixed = 0;
    for seed in 0..60 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        let disk = world.open();
        let file = open_f(&disk);
        let writing = disk.start(write_operation(&disk, &file, b'n', 0, BLOCK));
        let mut before = vec![b'o'; 8];
        for _ in 0..4 {
            let now = sectors(&read(&disk, &file, 0, BLOCK));
            assert!(before.iter().zip(&now).all(|(old, new)| *old == b'o' || *new == b'n'), "seed {seed}");
            mixed += usize::from(now.contains(&b'o') && now.contains(&b'n'));
            before = now;
        }
        drive(&disk, writing).result.expect("it is written");
        assert_eq!(read(&disk, &file, 0, BLOCK), [b'n'; BLOCK]);
    }
    assert!(mixed > 5, "mixed {mixed}");
}

#[test]
fn a_write_in_flight_shows_nothing_of_a_new_length_or_extent_before_it_completes() {
    for seed in 0..30 {
        let world = world_with(seed, b"");
        let disk = world.open();
        let file = open_f(&disk);
        drive(&disk, transfer::allocate(&disk, &file, BLOCK as u64)).expect("room");
        world.inject(Fault { when: When::Verb(Verb::Write), what: What::Delay(100), times: Times::Once });
        let writing = disk.start(write_operation(&disk, &file, b'n', 0, 2 * BLOCK));
        assert_eq!(read(&disk, &file, 0, 2 * BLOCK), [0; BLOCK]);
        drive(&disk, writing).result.expect("it is written");
        assert_eq!(read(&disk, &file, 0, 2 * BLOCK), [b'n'; 2 * BLOCK]);
    }
}

#[test]
fn time_jumps_to_the_next_sleep_when_nothing_else_is_pending() {
    let world = world_with(1, b"");
    let disk = world.open();
    let start = disk.now().boot_ns;
    let sleep = |seconds| disk.start(Operation::Sleep { duration: Duration::from_secs(seconds) });
    let (long, short) = (sleep(3_600), sleep(60));
    drive(&disk, short).result.expect("it sleeps");
    let minute = disk.now().boot_ns - start;
    assert!((60_000_000_000..61_000_000_000).contains(&minute) && disk.in_flight() == 1);
    assert!(matches!(drive_steps(&disk, std::future::pending::<()>(), 0), Driven::Pending(_)));
    drive(&disk, long).result.expect("it sleeps");
    assert!(disk.now().boot_ns - start >= 3_600_000_000_000);
}

#[test]
fn a_turn_waits_no_longer_than_told() {
    let world = world_with(1, b"");
    let disk = world.open();
    let start = disk.now().boot_ns;
    let _sleep = disk.start(Operation::Sleep { duration: Duration::from_secs(60) });
    disk.turn(Wait::Until(start + 1_000_000_000)).expect("it lives");
    assert_eq!((disk.now().boot_ns - start, disk.in_flight()), (1_000_000_000, 1));
    disk.turn(Wait::No).expect("it lives");
    assert!(disk.now().boot_ns - start < 1_001_000_000, "without waiting time hardly moves");
}

#[test]
fn with_nothing_in_flight_a_turn_returns() {
    let world = world_with(1, b"");
    let disk = world.open();
    disk.turn(Wait::Event).expect("it lives");
    let until = disk.now().boot_ns + 5_000_000_000;
    disk.turn(Wait::Until(until)).expect("it lives");
    assert_eq!(disk.now().boot_ns, until);
}

#[test]
#[should_panic(expected = "waits for something that this disk will never complete")]
fn driving_what_nothing_can_wake_is_noticed() {
    drive(&world_with(1, b"").open(), std::future::pending::<()>());
}

#[test]
fn the_wall_clock_jumps_and_the_time_since_boot_does_not() {
    let world = world_with(1, b"");
    let before = world.now();
    world.jump_clock(-3_600_000);
    assert_eq!(world.now().wall_ms, before.wall_ms - 3_600_000);
    world.jump_clock(i64::MIN);
    assert_eq!(world.now().wall_ms, 0);
    assert_eq!(world.now().boot_ns, before.boot_ns);
}

#[test]
#[should_panic(expected = "a direct write of f has position 512, which is not block-aligned")]
fn a_direct_write_is_block_aligned() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    write(&disk, &open_f(&disk), b'n', 512, BLOCK, false);
}

#[test]
#[should_panic(expected = "a direct read of f has span length 512, which is not block-aligned")]
fn a_direct_read_is_block_aligned() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let buffer = disk.pool().take(512).expect("room");
    drive(&disk, transfer::read(&disk, &open_f(&disk), buffer, Position(0))).1.expect("it is read");
}

#[test]
fn where_direct_io_does_not_work_files_are_buffered_and_the_report_says_so() {
    let world = world_with(1, &[b'o'; BLOCK]);
    world.set_direct(false);
    let disk = world.open();
    assert!(!open_f(&disk).is_direct() && !disk.capabilities().direct.effective);
    write(&disk, &open_f(&disk), b'n', 512, 100, false);
}

#[test]
fn uids_follow_from_the_seed() {
    let uids = |seed| {
        let disk = world_with(seed, b"").open();
        (disk.random(), disk.random())
    };
    assert!(uids(1) == uids(1) && uids(1) != uids(2) && uids(1).0 != uids(1).1);
}

#[test]
fn an_operation_that_nobody_waits_for_still_lands() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    let file = open_f(&disk);
    drop(disk.start(write_operation(&disk, &file, b'n', 0, BLOCK)));
    turn(&disk, 5);
    assert_eq!((disk.in_flight(), disk.pool().free_bytes()), (0, disk.pool().largest()));
    assert_eq!(world.read_file("f").expect("it is there"), [b'n'; BLOCK]);
}
