//! What becomes of operations that nobody waits for, and of those in flight when a disk goes.

use crate::support::{descriptors_below, filled, make_file, name, on_ring, open_at, options, place, ready, run};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use strandline_disk::host::{Backend, DiskOptions, SetupError};
use strandline_disk::real::RealDisk;
use strandline_disk::{Access, BLOCK, Disk, OpenFile, Operation, Position, SharedBuffer, Success, Wait, transfer};

const PIECE: usize = 16 * BLOCK;

#[test]
fn an_operation_dropped_in_flight_completes_and_gives_back_what_it_owned() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let all = disk.pool().free_bytes();
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let mut written = Vec::new();
    for index in 0..200_u64 {
        let Some(mut buffer) = disk.pool().take(PIECE) else {
            disk.turn(Wait::Event).expect("a turn");
            continue;
        };
        buffer.fill(index as u8);
        written.push(index);
        let position = Position(index * PIECE as u64);
        let write = Operation::Write { file: file.clone(), buffer, span: 0..PIECE, position, durable: index % 3 == 0 };
        drop(disk.start(write));
        if index % 5 == 0 {
            disk.turn(Wait::No).expect("a turn");
            // Dealt out again while writes are in flight: it must not be memory that they still use.
            if let Some(mut other) = disk.pool().take(PIECE) {
                other.fill(0xee);
            }
        }
    }
    // An open that nobody waits for is closed again.
    let open = OpenFile::Existing;
    drop(disk.start(Operation::Open { directory: disk.root(), name: name("x"), how: open, access: Access::Buffered }));
    while disk.in_flight() > 0 {
        disk.turn(Wait::Event).expect("a turn");
    }
    disk.turn(Wait::No).expect("a turn");
    assert_eq!(disk.pool().free_bytes(), all);
    assert_eq!(descriptors_below(&place.path().join("x")), 1);
    let bytes = fs::read(place.path().join("x")).expect("there");
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        let expected = if written.contains(&(index as u64)) { index as u8 } else { 0 };
        assert!(piece.iter().all(|&byte| byte == expected), "piece {index} holds something else");
    }
}

#[test]
fn ur_09_a_disk_dropped_with_operations_in_flight_drains_first() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let pool = disk.pool().clone();
    let all = pool.free_bytes();
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let write = |index: u64| {
        let mut buffer = disk.pool().take(PIECE).expect("room");
        buffer.fill(index as u8 + 1);
        let position = Position(index * PIECE as u64);
        disk.start(Operation::Write { file: file.clone(), buffer, span: 0..PIECE, position, durable: true })
    };
    let mut writes: Vec<_> = (0..24).map(write).collect();
    let mut sleep = disk.start(Operation::Sleep { duration: Duration::from_secs(3600) });
    disk.turn(Wait::No).expect("a turn");
    let mut never_submitted = write(24);
    drop(file);
    let started = Instant::now();
    drop(disk);
    assert!(started.elapsed() < Duration::from_secs(20));
    for in_flight in &mut writes {
        let outcome = ready(in_flight).expect("complete");
        assert!(matches!(outcome.result, Ok(Success::Moved(PIECE))), "{:?}", outcome.result);
    }
    for in_flight in [&mut sleep, &mut never_submitted] {
        let error = ready(in_flight).expect("complete").result.expect_err("cancelled");
        assert_eq!(error.errno, Errno::CANCELED);
    }
    assert_eq!(pool.free_bytes(), all);
    let bytes = fs::read(place.path().join("x")).expect("there");
    assert_eq!(bytes.len(), 24 * PIECE);
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        assert!(piece.iter().all(|&byte| byte == index as u8 + 1), "piece {index}");
    }
    assert_eq!(descriptors_below(place.path()), 0);
    open_at(place.path(), &options());
}

#[test]
fn handles_and_futures_may_outlive_their_disk() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let buffer = disk.pool().take(BLOCK).expect("room");
    let waiting = disk.start(Operation::Sync { file: file.clone() });
    let root = disk.root();
    drop(disk);
    open_at(place.path(), &options());
    drop((file, root, waiting, buffer));
}

#[test]
fn what_was_shared_is_readable_when_disk_and_ring_are_gone() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let pool = disk.pool().clone();
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let (written, result) = run(&disk, transfer::write(&disk, &file, filled(&disk, PIECE, 5), Position(0), true));
    result.expect("written");
    let expected = written.to_vec();
    drop(written);
    let read = || {
        let buffer = disk.pool().take(PIECE).expect("room");
        let (buffer, moved) = run(&disk, transfer::read(&disk, &file, buffer, Position(0)));
        assert_eq!(moved.expect("a read"), PIECE);
        buffer.share()
    };
    let (one, two) = (read(), read());
    assert_eq!(pool.lent_bytes(), 2 * PIECE);
    drop((file, disk));
    assert_eq!((&one[..], &two[..]), (&expected[..], &expected[..]));
    drop(one);
    assert_eq!(pool.lent_bytes(), PIECE);
    drop(pool);
    std::thread::spawn(move || assert_eq!(two[..], expected[..])).join().expect("no panic");
}

/// Readers on other threads look at what they hold while the ring reads and writes beside it, and what they give back is read into again.
#[test]
fn a_ring_never_touches_what_is_shared() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    for index in 0..16_u8 {
        let mut buffer = disk.pool().take(PIECE).expect("room");
        buffer.fill(index);
        let at = Position(u64::from(index) * PIECE as u64);
        run(&disk, transfer::write(&disk, &file, buffer, at, false)).1.expect("written");
    }
    // Of a user who may lock little memory, and has other rings, the arena is small.
    let most = (disk.pool().largest() / PIECE / 2).min(32);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel::<(u8, SharedBuffer)>();
        scope.spawn(move || {
            let mut held: VecDeque<(u8, SharedBuffer)> = VecDeque::new();
            for next in receiver {
                held.push_back(next);
                for (index, buffer) in &held {
                    assert!(buffer.iter().all(|byte| byte == index), "the bytes of {index} changed");
                }
                if held.len() > most {
                    held.drain(..most * 3 / 4 + 1);
                }
            }
        });
        for round in 0..1_500_u64 {
            let index = (round * 7 % 16) as u8;
            let buffer = run(&disk, transfer::take_buffer(&disk, PIECE));
            let at = Position(u64::from(index) * PIECE as u64);
            let (buffer, moved) = run(&disk, transfer::read(&disk, &file, buffer, at));
            assert_eq!(moved.expect("a read"), PIECE);
            sender.send((index, buffer.share())).expect("it reads");
        }
    });
    assert_eq!((disk.pool().lent_bytes(), disk.pool().free_bytes()), (0, disk.pool().largest()));
}

/// A child has none of the threads that carry calls out: a turn in it says so, and its copy of the disk goes without a word.
#[test]
fn a_forked_child_is_refused_and_leaves_its_parents_disk_alone() {
    let place = place();
    let disk = open_at(place.path(), &DiskOptions { backend: Backend::Posix, ..options() });
    if on_ring(&disk) {
        // The environment overrules the options: of a ring the child has not even the memory.
        return;
    }
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let buffer = filled(&disk, PIECE, 9);
    let write = Operation::Write { file: file.clone(), buffer, span: 0..PIECE, position: Position(0), durable: true };
    let mut write = disk.start(write);
    disk.turn(Wait::No).expect("a turn");
    // SAFETY: the child touches its own copies only, and ends without running anything that was registered for an exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = disk.turn(Wait::Event).expect_err("nobody would ever answer").errno == Errno::CHILD;
        std::mem::forget(write);
        drop((file, disk));
        // SAFETY: it ends the child at once.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 1;
    // SAFETY: it waits for the child that was just made, and writes its status to `status`.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child saw something else");
    let outcome = run(&disk, &mut write);
    assert!(matches!(outcome.result, Ok(Success::Moved(PIECE))), "{:?}", outcome.result);
    let locked = RealDisk::open(place.path(), &options()).expect_err("the parent keeps the lock");
    assert!(matches!(locked, SetupError::LockHeld { .. }), "{locked}");
}
