//! Bytes in, bytes out.

use crate::skipped::skipped;
use crate::support::{filled, make_file, name, on_ring, open_at, open_file, options, place, run};
use futures_util::future::join_all;
use rustix::io::Errno;
use std::fs;
use strandline_disk::host::{DirectMode, DiskOptions};
use strandline_disk::real::RealDisk;
use strandline_disk::{BLOCK, Disk, Operation, Pool, Position, transfer};

pub fn round_trip(disk: &RealDisk) {
    let file = make_file(disk, &disk.root(), "data.0").expect("a new file");
    assert_eq!(file.is_direct(), disk.capabilities().direct.effective);
    let written = filled(disk, 8 * BLOCK, 7);
    let (written, result) = run(disk, transfer::write(disk, &file, written, Position(2 * BLOCK as u64), true));
    result.expect("a durable write");
    let (again, result) = run(disk, transfer::write(disk, &file, filled(disk, BLOCK, 9), Position(0), false));
    result.expect("a plain write");
    run(disk, transfer::sync(disk, &file)).expect("a sync");
    let mut read = disk.pool().take(16 * BLOCK).expect("room");
    read.fill(0xff);
    let (read, result) = run(disk, transfer::read(disk, &file, read, Position(0)));
    assert_eq!(result.expect("a read"), 10 * BLOCK, "a read ends at the end of the file");
    assert_eq!(read[..BLOCK], again[..]);
    assert!(read[BLOCK..2 * BLOCK].iter().all(|&byte| byte == 0));
    assert_eq!(read[2 * BLOCK..10 * BLOCK], written[..]);
    let through_cache = fs::read(disk.lock().path().join("data.0")).expect("readable");
    assert_eq!(through_cache[..], read[..10 * BLOCK]);
}

#[test]
fn what_is_written_is_read_back_direct_and_buffered_and_in_memory() {
    let direct = place();
    let disk = open_at(direct.path(), &options());
    println!("{:#?}", disk.capabilities());
    round_trip(&disk);
    let cached = place();
    let disk = open_at(cached.path(), &DiskOptions { access: DirectMode::Off, ..options() });
    assert!(!disk.capabilities().direct.effective);
    round_trip(&disk);
    if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
        let disk = open_at(memory.path(), &options());
        assert_eq!(disk.capabilities().filesystem.kind, "tmpfs");
        assert!(!disk.capabilities().direct.effective);
        round_trip(&disk);
    }
}

#[test]
fn a_wrong_transfer_is_an_error_and_gives_its_buffer_back() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    #[expect(clippy::reversed_empty_ranges, reason = "a wrong span is the point")]
    let wrong = [
        (0..2 * BLOCK, 0),
        (2..1, 0),
        (BLOCK + 1..BLOCK + 2, 0),
        (0..BLOCK, u64::MAX),
        (0..BLOCK, i64::MAX as u64 + 1),
    ];
    for ((span, position), durable) in wrong.into_iter().flat_map(|wrong| [(wrong.clone(), false), (wrong, true)]) {
        let buffer = filled(&disk, BLOCK, 1);
        let position = Position(position);
        let write = Operation::Write { file: file.clone(), buffer, span: span.clone(), position, durable };
        let outcome = run(&disk, disk.start(write));
        assert_eq!(outcome.result.expect_err("refused").errno, Errno::INVAL, "{span:?} at {position}");
        assert_eq!(outcome.buffer.expect("the buffer").len(), BLOCK);
    }
    assert_eq!(fs::metadata(place.path().join("x")).expect("there").len(), 0);
}

#[test]
fn memory_of_another_pool_is_moved_too() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let foreign = Pool::new(4 * BLOCK).expect("a pool");
    let mut buffer = foreign.take(BLOCK).expect("room");
    buffer.fill(3);
    let (_, result) = run(&disk, transfer::write(&disk, &file, buffer, Position(0), true));
    result.expect("written");
    assert_eq!(fs::read(place.path().join("x")).expect("there"), vec![3; BLOCK]);
}

#[test]
fn durable_writes_into_written_extents_start_no_kernel_worker() {
    let place = place();
    let disk = open_at(place.path(), &options());
    if !on_ring(&disk) {
        return;
    }
    let lock = disk.lock();
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let (_, result) = run(&disk, transfer::write(&disk, &file, filled(&disk, 64 * BLOCK, 1), Position(0), true));
    result.expect("written");
    run(&disk, transfer::sync(&disk, &file)).expect("synced");
    // Another thread measures, since workers belong to threads and linger.
    let measure = move || {
        let disk = RealDisk::open_locked(lock, &options()).expect("a disk");
        let file = open_file(&disk, &disk.root(), "x").expect("opened");
        if !file.is_direct() {
            return skipped("a buffered durable write waits for the drive in a worker");
        }
        assert_eq!(kernel_workers(), 0, "opening a known file needs none");
        for round in 0..64_u64 {
            let start = |part: u64| {
                let position = Position((round * 4 + part) % 64 * BLOCK as u64);
                let buffer = filled(&disk, BLOCK, round as u8);
                disk.start(Operation::Write { file: file.clone(), buffer, span: 0..BLOCK, position, durable: true })
            };
            for in_flight in [start(0), start(1), start(2), start(3)] {
                run(&disk, in_flight).result.expect("written");
            }
        }
        assert_eq!(kernel_workers(), 0);
        run(&disk, transfer::sync(&disk, &file)).expect("synced");
        assert!(kernel_workers() > 0, "a sync needs one, so they are seen");
    };
    std::thread::spawn(measure).join().expect("no panic");
}

#[test]
fn dl_01_ur_06_unlinks_start_no_more_kernel_workers_than_their_ring_was_given() {
    let place = place();
    let disk = open_at(place.path(), &options());
    if !on_ring(&disk) {
        return;
    }
    let mut most = Vec::new();
    for workers in [1, 2, 8] {
        let names: Vec<String> = (0..512).map(|number| format!("{workers}-{number}")).collect();
        names.iter().for_each(|text| fs::write(place.path().join(text), "x").expect("written"));
        let lock = disk.lock();
        let unlink = move || {
            let disk = RealDisk::open_locked(lock, &DiskOptions { workers, ..options() }).expect("a disk");
            let (root, names) = (disk.root(), names.iter().map(|text| name(text)).collect::<Vec<_>>());
            let unlinked = join_all(names.iter().map(|name| transfer::unlink(&disk, &root, name)));
            run(&disk, unlinked).into_iter().for_each(|result| result.expect("unlinked"));
            // Those that have nothing to do linger for seconds.
            kernel_workers()
        };
        let seen = std::thread::spawn(unlink).join().expect("no panic");
        assert!((1..=workers as usize).contains(&seen), "{seen} workers where {workers} are allowed");
        most.push(seen);
    }
    println!("kernel workers seen for at most 1, 2 and 8: {most:?}");
}

/// Kernel workers of this thread.
fn kernel_workers() -> usize {
    let mine = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
    let tasks = fs::read_dir("/proc/self/task").expect("listed").filter_map(Result::ok);
    tasks.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == mine)).count()
}
