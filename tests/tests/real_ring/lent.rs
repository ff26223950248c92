//! What was read is held by its readers, in memory of the store: it stays what it was, whoever holds it and for how long, and takes
//! nothing from appends or other reads.

use crate::common::{append, bytes_of, log_of, open, place, read_from, small, values};
use std::path::Path;
use strandline::{Config, Level, Log, Offset, ReadOptions, Record, Store, StoredBatch};

const LENGTH: usize = 8_000;

/// Reads of up to 256 KiB, of an arena of 1 MiB, half of which may be lent.
fn lending(root: &Path) -> Config {
    Config { segment_bytes: 1 << 20, read_bytes_max: 256 << 10, ..small(root) }
}

fn filled(store: &Store, records: u64) -> Log {
    let log = log_of(store, "lent");
    for number in 0..records {
        append(&log, &bytes_of(number, LENGTH));
    }
    log
}

fn assert_as_appended(batches: &[StoredBatch]) {
    for batch in batches {
        let record = batch.records().next().expect("a record").expect("a good one");
        assert_eq!(record.value, Some(&bytes_of(batch.first().0, LENGTH)[..]), "{batch:?}");
    }
}

#[test]
fn a_reader_who_holds_more_than_the_arena_stops_nobody() {
    let place = place();
    let store = open(lending(place.path()));
    let log = filled(&store, 400);
    let held = read_from(&log, Offset(0)).expect("readable");
    assert_eq!(held.len(), 400);
    for number in 400..500 {
        append(&log, &bytes_of(number, LENGTH));
    }
    assert_as_appended(&held);
    assert_as_appended(&read_from(&log, Offset(300)).expect("readable"));
    // One batch of each read keeps what it came with; the rest comes and goes around it.
    let few: Vec<_> = held.into_iter().step_by(29).collect();
    for _ in 0..3 {
        assert_as_appended(&read_from(&log, Offset(0)).expect("readable"));
    }
    assert_as_appended(&few);
    store.close().expect("a clean close");
    assert_as_appended(&few);
}

#[test]
fn what_was_read_may_be_dropped_on_any_thread_while_others_read_on() {
    let place = place();
    let store = open(lending(place.path()));
    let log = filled(&store, 300);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let log = &log;
            scope.spawn(move || {
                let (mut held, mut next) = (Vec::new(), Offset(thread * 50));
                while next < Offset(300) {
                    let read = log.read(next, 100_000).wait().expect("readable");
                    next = read.next;
                    let drops: Vec<StoredBatch> = std::mem::replace(&mut held, read.batches);
                    scope.spawn(move || assert_as_appended(&drops));
                }
            });
        }
    });
    store.close().expect("a clean close");
}

#[test]
fn a_detached_batch_is_the_same_batch() {
    let place = place();
    let store = open(lending(place.path()));
    let log = filled(&store, 40);
    let held = read_from(&log, Offset(0)).expect("readable");
    let detached: Vec<_> = held.iter().map(StoredBatch::detached).collect();
    for (held, detached) in held.iter().zip(&detached) {
        assert_eq!(
            (held.header(), held.position(), held.payload()),
            (detached.header(), detached.position(), detached.payload())
        );
    }
    drop(held);
    assert_as_appended(&detached);
}

#[test]
fn one_who_reads_on_gets_every_batch_once_whatever_the_size_of_his_reads() {
    let place = place();
    let store = open(lending(place.path()));
    let log = log_of(&store, "sizes");
    let mut lengths = Vec::new();
    for number in 0..600_u64 {
        let length = (number * 7_919 % 29_000) as usize + 1;
        append(&log, &bytes_of(number, length));
        lengths.push(length);
    }
    for bytes in [1, 4_096, 65_536, 100_000, 131_072, 262_144] {
        let (mut next, mut seen) = (Offset(0), 0);
        while next < Offset(600) {
            let read = log.read(next, bytes).wait().expect("readable");
            let payloads: usize = read.batches.iter().map(|batch| batch.payload().len()).sum();
            assert!(read.batches.len() == 1 || payloads <= bytes, "{payloads} of {bytes} bytes");
            for batch in &read.batches {
                assert_eq!(batch.first().0, seen);
                let record = batch.records().next().expect("a record").expect("a good one");
                assert_eq!(record.value, Some(&bytes_of(seen, lengths[seen as usize])[..]));
                seen += 1;
            }
            next = read.next;
        }
        assert_eq!(seen, 600, "reads of {bytes} bytes");
    }
}

#[test]
fn a_read_gives_what_fits_its_limit_and_not_one_byte_more() {
    for tail_cache_bytes in [0, 4 << 20] {
        let place = place();
        let store = open(Config { tail_cache_bytes, ..lending(place.path()) });
        let log = filled(&store, 10);
        let one = read_from(&log, Offset(0)).expect("readable")[0].payload().len();
        let given = |bytes| log.read(Offset(0), bytes).wait().expect("readable").batches.len();
        assert_eq!([0, 1, one, 2 * one - 1].map(given), [1; 4], "one whole batch at least");
        assert_eq!([2 * one, 3 * one - 1, 3 * one].map(given), [2, 2, 3]);
        assert_eq!(store.counters().reads == 0, tail_cache_bytes > 0);
    }
}

#[test]
fn a_scan_of_old_records_evicts_nothing_of_the_tail() {
    let place = place();
    let store = open(Config { tail_cache_bytes: 1 << 20, ..lending(place.path()) });
    let log = filled(&store, 400);
    let tail_is_at_hand = || {
        let before = store.counters().reads;
        let read = log.read(Offset(390), 100_000).wait().expect("readable");
        assert_as_appended(&read.batches);
        assert_eq!(read.next, Offset(400));
        store.counters().reads == before
    };
    assert!(tail_is_at_hand());
    let before = store.counters().reads;
    let mut next = Offset(0);
    while next < Offset(200) {
        next = log.read(next, 200_000).wait().expect("readable").next;
    }
    assert!(store.counters().reads > before, "the old ones come from the disk");
    assert!(tail_is_at_hand());
}

#[test]
fn what_is_written_and_not_durable_is_read_from_the_disk_when_asked_for() {
    let place = place();
    let never = std::time::Duration::from_secs(50);
    let store = open(Config { flush_interval: never, ..lending(place.path()) });
    let log = filled(&store, 1);
    for number in 1..4 {
        let mut batch = log.batch();
        batch.push(&Record { value: Some(&bytes_of(number, LENGTH)), ..Record::default() }).expect("room");
        let batch = batch.build().expect("a record");
        log.append_with(batch, Level::Written).expect("room in the queue").wait().expect("an append");
    }
    let bounds = log.bounds();
    assert_eq!((bounds.end, bounds.written_end), (Offset(1), Offset(4)));
    let read =
        |offset, past_durable| log.read_with(Offset(offset), ReadOptions { bytes: 200_000, past_durable }).wait();
    assert_eq!(read(0, false).expect("readable").next, Offset(1));
    assert!(read(1, false).expect("the durable end").batches.is_empty());
    for offset in 0..4 {
        let read = read(offset, true).expect("readable");
        assert_eq!((read.batches[0].first(), read.next), (Offset(offset), Offset(4)));
        assert_as_appended(&read.batches);
    }
    assert!(read(4, true).expect("the written end").batches.is_empty());
    assert!(read(5, true).is_err());
    let mut follower = log.follower(Offset(0)).past_durable(true);
    while follower.position() < Offset(4) {
        follower.next_blocking(1, None).expect("batches");
    }
    store.close().expect("a clean close");
    let store = open(lending(place.path()));
    assert_eq!(values(&log_of(&store, "lent")).len(), 4);
}
