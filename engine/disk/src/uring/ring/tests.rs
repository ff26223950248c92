//! What only the ring itself can show: its restrictions, its overflow, and the lock that it keeps.

use super::super::descriptors::{Descriptors, Target};
use super::*;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};

fn ring(lock: &OwnedFd, entries: u32) -> (Ring, Pool) {
    let options = DiskOptions { entries, ..DiskOptions::default() };
    let (ring, pool, report) = Ring::open(&options, 1 << 20, lock.as_fd()).expect("a ring");
    assert!(report.restricted && report.files_registered, "{report:?}");
    (ring, pool)
}

fn lock_file(place: &tempfile::TempDir) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    rustix::fs::open(place.path().join("lock"), flags, Mode::RUSR | Mode::WUSR).expect("a file")
}

fn push(ring: &mut Ring, entry: squeue::Entry) {
    // SAFETY: the entries of these tests point to no memory, or to statics.
    unsafe { ring.push(&entry) }.expect("taken");
}

/// Takes `count` completions, ordered by their numbers, and finds that there are no more.
fn take(ring: &mut Ring, count: usize, waits: bool) -> Vec<Landed> {
    let mut taken = Vec::new();
    let deadline = boot_ns() + 5_000_000_000;
    while taken.len() < count && boot_ns() < deadline {
        ring.cycle(if waits { Wait::Until(deadline) } else { Wait::No }).expect("a cycle");
        taken.append(&mut ring.landed);
    }
    ring.cycle(Wait::No).expect("a cycle");
    assert!(ring.landed.is_empty());
    taken.sort_by_key(|landed| landed.user_data);
    taken
}

#[test]
fn an_opcode_that_is_not_ours_is_refused() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (mut ring, _pool) = ring(&lock_file(&place), 8);
    let path = c"/etc/hostname".as_ptr();
    push(&mut ring, opcode::Nop::new().build().user_data(7));
    push(&mut ring, opcode::OpenAt::new(io_uring::types::Fd(libc::AT_FDCWD), path).build().user_data(8));
    let linked = opcode::Timeout::new(&TIME).build().flags(squeue::Flags::ASYNC).user_data(9);
    push(&mut ring, linked);
    push(&mut ring, opcode::Timeout::new(&TIME).build().user_data(10));
    let results: Vec<i32> = take(&mut ring, 4, true).into_iter().map(|landed| landed.result).collect();
    assert_eq!(results, [-libc::EACCES, -libc::EACCES, -libc::EACCES, -libc::ETIME]);
    let registered = ring.io.submitter().register_eventfd(0).expect_err("refused");
    assert_eq!(registered.raw_os_error(), Some(libc::EACCES));
}

static TIME: Timespec = Timespec::new();

#[test]
fn completions_beyond_the_queue_are_not_lost() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (mut ring, _pool) = ring(&lock_file(&place), 4);
    assert_eq!(ring.io.params().cq_entries(), 16);
    for round in 0..10_u64 {
        for index in 0..4 {
            let entry = opcode::PollAdd::new(io_uring::types::Fd(-1), 1).build().user_data(100 + round * 4 + index);
            // SAFETY: a poll points to no memory; this one fails at once.
            unsafe { ring.io.submission().push(&entry) }.expect("room");
        }
        // Past `cycle`, which would take the completions.
        ring.io.submit().expect("submitted");
    }
    assert!(ring.io.submission().cq_overflow(), "the queue is too small on purpose");
    let seen: Vec<u64> = take(&mut ring, 40, false).into_iter().map(|landed| landed.user_data).collect();
    assert_eq!(seen, (100..140).collect::<Vec<_>>());
}

#[test]
fn the_ring_keeps_the_lock_when_its_descriptor_is_gone() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let lock = lock_file(&place);
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("free");
    let (ring, _pool) = ring(&lock, 8);
    drop(lock);
    let other = lock_file(&place);
    let taken = rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(taken, Err(Errno::WOULDBLOCK));
    ring.unregister();
    rustix::fs::flock(&other, FlockOperation::LockExclusive).expect("free soon");
}

#[test]
fn a_closed_file_is_held_by_nobody_the_rings_table_included() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (ring, _pool) = ring(&lock_file(&place), 8);
    let mut descriptors = Descriptors::new(ring.files());
    for round in 0..3 {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("a pipe");
        let number = descriptors.insert_file(writer, &ring);
        assert_eq!(descriptors.target(number), Some(Target::Slot(1)), "round {round}");
        let read = || rustix::io::read(&reader, &mut [0_u8; 1]);
        assert_eq!(read(), Err(Errno::AGAIN), "the writing end is open");
        descriptors.close(number, &ring);
        assert_eq!(descriptors.target(number), None);
        assert_eq!(read(), Ok(0), "the writing end is closed");
    }
}

#[test]
fn rings_of_older_kernels_wait_and_poll_alike() {
    let place = tempfile::tempdir().expect("a temporary directory");
    for first in 0..3 {
        let options = DiskOptions { entries: 4, ..DiskOptions::default() };
        let (mut ring, _pool, report) =
            Ring::open_from(first, &options, 1 << 20, lock_file(&place).as_fd()).expect("a ring");
        println!("{:?}", report.flags);
        assert_eq!(report.flags.contains(&"DEFER_TASKRUN".to_owned()), first == 0);
        assert_eq!(report.flags.contains(&"COOP_TASKRUN".to_owned()), first == 1);
        for waits in [true, false] {
            // Slot 0 is the lock file: a sync of it takes a worker, so its completion comes from outside.
            for number in 100..110 {
                let sync = opcode::Fsync::new(io_uring::types::Fixed(0)).build();
                push(&mut ring, sync.user_data(number));
            }
            let taken = take(&mut ring, 10, waits);
            assert_eq!(taken.len(), 10, "rung {first}, waits: {waits}");
            assert!(taken.iter().all(|landed| landed.result == 0), "{taken:?}");
        }
    }
}
