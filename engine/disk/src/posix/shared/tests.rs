//! What only a disk's inside can show: who waits for whom among its threads.

use super::*;
use crate::host::Backend;
use crate::slot::InFlight;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

static OVER: AtomicBool = AtomicBool::new(false);

fn blocks() -> Result<Reply, Errno> {
    while !OVER.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Reply::Done)
}

/// Lets the blocked ones go, also when the test fails.
struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        OVER.store(true, Ordering::Relaxed);
    }
}

/// Turns until `future` is ready, but not for ever.
fn run<F: Future>(shared: &Shared, future: F) -> Option<F::Output> {
    let (mut future, started) = (pin!(future), Instant::now());
    while started.elapsed() < Duration::from_secs(10) {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        shared.turn(Wait::Until(boot_ns() + 10_000_000)).expect("a turn");
    }
    None
}

#[test]
fn while_all_that_may_block_is_blocked_appends_and_reads_go_on() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let options = DiskOptions { arena_bytes: 1 << 20, workers: 2, ..DiskOptions::default() };
    let lock = RootLock::acquire(place.path(), Duration::ZERO).expect("the lock");
    let report = lock.host().report(Backend::Posix, options.access);
    let shared = Shared::new(Pool::new(1 << 20).expect("a pool"), report, lock, &options).expect("a disk");
    let open = |name: &str| {
        let name = crate::Name::new(name).expect("a name");
        let (how, access) = (crate::OpenFile::New, Access::Auto);
        shared.base.start(Operation::Open { directory: shared.base.root.clone(), name, how, access })
    };
    let over = Over;
    let opened = run(&shared, open("x")).and_then(|outcome| outcome.result.ok());
    let Some(Success::File(file)) = opened else { panic!("{opened:?}") };
    let stuck: Vec<InFlight> = (0..2)
        .map(|_| {
            let (token, in_flight) = shared.base.slots.begin(Operation::Sync { file: file.clone() });
            shared.others.give(&mut vec![(token, Call::Try(blocks))]);
            in_flight
        })
        .collect();
    let behind = open("y");
    for _ in 0..20 {
        let mut buffer = shared.base.pool.take(crate::BLOCK).expect("room");
        buffer.fill(7);
        let (span, position) = (0..crate::BLOCK, crate::Position(0));
        let write = Operation::Write { file: file.clone(), buffer, span, position, durable: true };
        let written = run(&shared, shared.base.start(write)).and_then(|outcome| outcome.result.ok());
        assert!(matches!(written, Some(Success::Moved(crate::BLOCK))), "{written:?}");
    }
    drop(over);
    for in_flight in stuck {
        assert!(run(&shared, in_flight).is_some());
    }
    assert!(run(&shared, behind).is_some_and(|outcome| outcome.result.is_ok()));
}
