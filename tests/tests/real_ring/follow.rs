//! Followers: nothing is missed, nobody is asked for what was appended lately, and closing wakes everybody.

use crate::common::{append, batch_of, block_on, bytes_of, log_of, open, place, small};
use std::time::{Duration, Instant};
use strandline::{Config, Level, Log, Offset, ReadError, Store, StoredBatch};
use tempfile::TempDir;

/// A store that keeps what was appended last, and a log in it.
fn with_tail(records: u64) -> (TempDir, Store, Log) {
    let place = place();
    let store = open(Config { tail_cache_bytes: 4 << 20, ..small(place.path()) });
    let log = log_of(&store, "followed");
    for number in 0..records {
        append(&log, &bytes_of(number, 300));
    }
    (place, store, log)
}

fn offsets(batches: &[StoredBatch]) -> Vec<u64> {
    batches.iter().map(|batch| batch.first().0).collect()
}

#[test]
fn what_was_appended_last_is_read_without_the_disk() {
    let (_place, store, log) = with_tail(50);
    let mut follower = log.follower(Offset(0));
    while follower.position() < Offset(50) {
        let from = follower.position().0;
        let read = follower.next_blocking(1_000, None).expect("batches");
        assert_eq!(offsets(&read.batches), (from..read.next.0).collect::<Vec<_>>());
    }
    assert_eq!(store.counters().reads, 0, "all of it is in memory");
}

#[test]
fn several_followers_see_every_record_once_and_in_order_while_it_is_appended() {
    const RECORDS: u64 = 600;
    let (_place, _store, log) = with_tail(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let mut follower = log.follower(Offset(0)).past_durable(thread == 3);
                let mut seen = 0;
                while seen < RECORDS {
                    let read = match thread % 2 {
                        0 => follower.next_blocking(5_000, None),
                        _ => block_on(follower.next(5_000)),
                    };
                    for record in read.expect("batches").batches.iter().flat_map(StoredBatch::records) {
                        let record = record.expect("a record");
                        assert_eq!((record.offset, record.value), (Offset(seen), Some(&bytes_of(seen, 100)[..])));
                        seen += 1;
                    }
                }
                assert_eq!(follower.position(), Offset(RECORDS));
            });
        }
        for number in 0..RECORDS {
            let batch = batch_of(&log, &[&bytes_of(number, 100)]);
            let level = if number % 3 == 0 { Level::Written } else { Level::Durable };
            log.append_with(batch, level).expect("room in the queue").wait().expect("an append");
        }
    });
}

#[test]
fn a_follower_whose_offset_left_the_cache_reads_it_from_the_disk_and_goes_on() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "followed");
    for number in 0..200 {
        append(&log, &bytes_of(number, 2_000));
    }
    let mut follower = log.follower(Offset(0));
    let mut seen = 0;
    while seen < 200 {
        seen += follower.next_blocking(20_000, None).expect("batches").batches.len();
    }
    assert!(store.counters().reads > 0);
    let waiting = std::thread::spawn(move || follower.next_blocking(1, None).expect("the next one").next);
    append(&log, b"more");
    assert_eq!(waiting.join().expect("no panic"), Offset(201));
}

#[test]
fn a_follower_at_the_end_waits_no_longer_than_it_was_told() {
    let (_place, _store, log) = with_tail(1);
    let mut follower = log.follower(Offset(1));
    let started = Instant::now();
    let read = follower.next_blocking(1, Some(Duration::from_millis(30))).expect("no error");
    assert!(read.batches.is_empty() && started.elapsed() >= Duration::from_millis(30));
    assert_eq!((read.next, follower.position()), (Offset(1), Offset(1)));
    follower.seek(Offset(0));
    assert_eq!(follower.next_blocking(1, Some(Duration::ZERO)).expect("it is there").next, Offset(1));
}

#[test]
fn a_follower_outside_the_log_is_told_what_there_is() {
    let (_place, _store, log) = with_tail(3);
    let refused = log.follower(Offset(9)).next_blocking(1, None).expect_err("past the end");
    assert!(matches!(refused, ReadError::OutOfRange { earliest: Offset(0), end: Offset(3), .. }), "{refused}");
}

#[test]
fn closing_the_store_wakes_whoever_waits_for_more() {
    let (_place, store, log) = with_tail(3);
    let waiting: Vec<_> = (0..4)
        .map(|thread| {
            let mut follower = log.follower(Offset(3));
            std::thread::spawn(move || match thread % 2 {
                0 => follower.next_blocking(1, None),
                _ => block_on(follower.next(1)),
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    store.close().expect("a clean close");
    for follower in waiting {
        assert_eq!(follower.join().expect("no panic").expect_err("it is closed"), ReadError::Closed);
    }
    assert_eq!(log.follower(Offset(3)).next_blocking(1, None).expect_err("it is closed"), ReadError::Closed);
}
