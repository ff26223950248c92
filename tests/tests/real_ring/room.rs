//! Room: the limits on what is outstanding, and the two ways to wait for it.

use crate::common::{append, batch_of, block_on, bytes_of, log_of, one, open, place, small, values};
use strandline::{AppendError, Config, Level, LogError, Offset, Overloaded, RangeNumber, ReadError, Receipt, Topic};

/// Appends until the store refuses for want of room; gives what it had taken, and the refusal.
fn overload(
    log: &strandline::Log,
    value: &[u8],
) -> (Vec<strandline::Pending<Result<strandline::Receipt, AppendError>>>, Overloaded) {
    let mut taken = Vec::new();
    for _ in 0..100_000 {
        match log.append(one(log, value)) {
            Ok(pending) => taken.push(pending),
            Err(overloaded) => return (taken, overloaded),
        }
    }
    panic!("100,000 appends were never more than the store could take");
}

#[test]
fn too_many_appends_are_refused_at_once_and_the_batch_comes_back() {
    let place = place();
    let store = open(Config { outstanding_max: 3, ..small(place.path()) });
    let log = log_of(&store, "few");
    let (taken, refused) = overload(&log, b"refused");
    assert_eq!((refused.limit, refused.outstanding >= 3), (3, true), "{refused}");
    assert_eq!(refused.batch, one(&log, b"refused"));
    let count = taken.len();
    for pending in taken {
        pending.wait().expect("what was taken is done");
    }
    let receipt = log.append(refused.batch).expect("room again").wait().expect("an append");
    assert_eq!(receipt.first, Offset(count as u64));
}

#[test]
fn too_many_bytes_are_refused_at_once_and_the_batch_comes_back() {
    let place = place();
    let store = open(Config { outstanding_bytes_max: 32 << 10, ..small(place.path()) });
    let log = log_of(&store, "bytes");
    let value = bytes_of(1, 20 << 10);
    let (taken, refused) = overload(&log, &value);
    assert_eq!((refused.bytes_limit, refused.bytes > 12 << 10), (32 << 10, true), "{refused}");
    assert_eq!(refused.batch, one(&log, &value));
    assert!(format!("{refused:?}").len() < 300, "an error shows no payload: {refused:?}");
    assert!(taken.into_iter().all(|pending| pending.wait().is_ok()));
    assert_eq!(
        log.append(one(&log, &bytes_of(1, (32 << 10) - 29))).expect("exactly the limit").wait().map(|_| ()),
        Ok(())
    );
}

#[test]
fn a_wait_for_durability_is_refused_when_too_much_is_outstanding() {
    let place = place();
    let store = open(Config { outstanding_max: 2, ..small(place.path()) });
    let log = log_of(&store, "waits");
    let written = log.append_with(one(&log, b"v"), Level::Written).expect("room").wait().expect("an append");
    assert_eq!(written.level.min(Level::Written), Level::Written);
    let mut receipt: Receipt = written;
    receipt.level = Level::Written;
    // Both places are taken by waits for what never comes; each further wait is refused.
    let mut later = receipt;
    later.end = Offset(1_000);
    let waits = [log.until_durable(&later, false), log.until_durable(&later, false)];
    let refused = log.until_durable(&receipt, true).wait().expect_err("no room");
    assert_eq!(refused, AppendError::Overloaded { outstanding: 2, limit: 2 });
    drop(waits);
}

#[test]
fn room_is_there_again_when_an_answer_is() {
    let place = place();
    let store = open(Config { outstanding_max: 1, ..small(place.path()) });
    let log = log_of(&store, "one");
    for number in 0..500 {
        let pending = log.append(one(&log, b"v")).unwrap_or_else(|refused| panic!("append {number}: {refused}"));
        pending.wait().expect("an append");
        let read = log.read(Offset(number), 1).wait().unwrap_or_else(|error| panic!("read {number}: {error}"));
        assert_eq!(read.batches.len(), 1);
        log_of(&store, "one");
    }
}

#[test]
fn reads_and_new_logs_count_against_the_same_limit() {
    let place = place();
    let store = open(Config { outstanding_max: 1, ..small(place.path()) });
    let log = log_of(&store, "one");
    append(&log, b"v");
    let refusal = (0..100_000).find_map(|_| {
        let first = log.append(one(&log, b"v"));
        let read = log.read(Offset(0), 1).wait();
        let made = store.log(&Topic::new("two").expect("a topic"), RangeNumber::default());
        drop(first.map(|pending| pending.wait()));
        read.err().zip(made.err())
    });
    let (read, made) = refusal.expect("one append is all that is allowed");
    assert_eq!(read, ReadError::Overloaded { outstanding: 1, limit: 1 });
    assert_eq!(made, LogError::Overloaded { outstanding: 1, limit: 1 });
}

#[test]
fn appends_that_wait_for_room_all_get_it() {
    let place = place();
    let store = open(Config { outstanding_max: 2, outstanding_bytes_max: 32 << 10, ..small(place.path()) });
    let log = log_of(&store, "waits");
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..25_u8 {
                    let batch = batch_of(log, &[&[thread, number], &bytes_of(1, usize::from(thread) * 2_000)]);
                    let receipt = if thread % 2 == 0 {
                        log.append_blocking(batch)
                    } else {
                        block_on(log.append_when_room(batch))
                    };
                    receipt.expect("an append");
                }
            });
        }
    });
    assert_eq!(values(&log).len(), 8 * 25 * 2);
}

#[test]
fn room_for_many_is_used_by_many() {
    let place = place();
    let store = open(Config { outstanding_max: 16, ..small(place.path()) });
    let log = log_of(&store, "crowd");
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                for _ in 0..20 {
                    log.append_blocking(one(&log, b"v")).expect("an append");
                }
            });
        }
    });
    let counters = store.counters();
    let per_commit = counters.records as f64 / counters.commits as f64;
    println!("64 threads in room for 16: {per_commit:.1} records per commit");
    assert!(per_commit > 5.0, "a commit of 16 must wake 16: {counters:?}");
}

#[test]
fn closing_ends_the_waiting_for_room() {
    let place = place();
    let store = open(Config { outstanding_max: 1, ..small(place.path()) });
    let log = log_of(&store, "closing");
    std::thread::scope(|scope| {
        let appenders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..1_000_000)
                        .find_map(|_| log.append_blocking(one(&log, b"v")).err())
                        .expect("the store was closed")
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(20));
        store.close().expect("a clean close");
        for appender in appenders {
            assert_eq!(appender.join().expect("no panic"), AppendError::Closed);
        }
    });
}
