//! Appends: every shape of record, every limit and one past it, order.

use crate::common::{append, batch_of, bytes_of, log_of, one, open, place, read_from, small, values};
use strandline::batch::BatchLimits;
use strandline::{AppendError, BatchBuilder, BatchError, Config, Header, Offset, Record, StoredRecord};

const KEYS: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"key\0\xff")];
const VALUES: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"value")];
const TIMES: [Option<i64>; 5] = [None, Some(i64::MIN + 1), Some(-1), Some(0), Some(i64::MAX)];
const HEADERS: [&[Header<'static>]; 4] = [
    &[],
    &[Header { name: b"", value: None }],
    &[Header { name: b"n", value: Some(b"") }],
    &[
        Header { name: b"b", value: Some(b"1") },
        Header { name: b"a", value: None },
        Header { name: b"b", value: Some(b"2") },
    ],
];

fn every_shape() -> Vec<Record<'static>> {
    let mut records = Vec::new();
    for key in KEYS {
        for value in VALUES {
            for headers in HEADERS {
                records.extend(TIMES.map(|timestamp_ms| Record { key, value, headers, timestamp_ms }));
            }
        }
    }
    records
}

fn assert_same(stored: &StoredRecord<'_>, wanted: &Record<'_>, offset: u64) {
    assert_eq!(stored.offset, Offset(offset));
    assert_eq!((stored.key, stored.value, stored.timestamp_ms), (wanted.key, wanted.value, wanted.timestamp_ms));
    assert_eq!(stored.headers().collect::<Vec<_>>(), wanted.headers);
}

#[test]
fn every_shape_of_record_comes_back_as_it_was_appended() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "shapes");
    let shapes = every_shape();
    let mut builder = log.batch();
    builder.set_host_bytes([7; 32]);
    for record in &shapes {
        builder.push(record).expect("room");
    }
    let receipt = log.append(builder.build().expect("records")).expect("room").wait().expect("an append");
    assert_eq!((receipt.first, receipt.end), (Offset(0), Offset(shapes.len() as u64)));
    for record in &shapes {
        let mut builder = log.batch();
        builder.push(record).expect("room");
        log.append(builder.build().expect("a record")).expect("room").wait().expect("an append");
    }

    let batches = read_from(&log, Offset(0)).expect("readable");
    assert_eq!((batches.len(), batches[0].record_count()), (shapes.len() + 1, shapes.len() as u32));
    assert_eq!((batches[0].host_bytes(), batches[1].host_bytes()), (&[7; 32], &[0; 32]));
    assert_eq!(batches[0].store_time_ms(), receipt.store_time_ms);
    let records = batches.iter().flat_map(|batch| batch.records());
    for (offset, (stored, wanted)) in records.zip(shapes.iter().chain(&shapes)).enumerate() {
        assert_same(&stored.expect("a record"), wanted, offset as u64);
    }
    store.close().expect("a clean close");
}

#[test]
fn a_batch_at_each_limit_is_taken_and_one_past_it_is_refused() {
    let place = place();
    let store = open(Config { batch_records_max: 100, ..small(place.path()) });
    let log = log_of(&store, "limits");
    let mut builder = log.batch();
    for _ in 0..100 {
        builder.push(&Record::default()).expect("room");
    }
    assert_eq!(builder.push(&Record::default()), Err(BatchError::TooManyRecords { limit: 100 }));
    let receipt = log.append(builder.build().expect("records")).expect("room").wait().expect("at the limit");
    assert_eq!(receipt.end, Offset(100));

    let value = bytes_of(1, (32 << 10) - 28);
    let mut builder = log.batch();
    let past = Record { value: Some(&bytes_of(1, value.len() + 1)), ..Record::default() };
    assert_eq!(builder.push(&past), Err(BatchError::TooLarge { limit: 32 << 10, size: (32 << 10) + 1 }));
    builder.push(&Record { value: Some(&value), ..Record::default() }).expect("at the limit");
    log.append(builder.build().expect("a record")).expect("room").wait().expect("at the limit");
    let read = log.read(Offset(100), 1).wait().expect("readable");
    let record = read.batches[0].records().next().expect("one").expect("a record");
    assert_eq!(record.value, Some(&value[..]));

    // A batch that was built with other limits than the store's is refused by the store.
    let limits = BatchLimits { records_max: 101, bytes_max: 64 << 10 };
    let mut builder = BatchBuilder::new(limits);
    builder.push(&past).expect("room");
    let refused = log.append(builder.build().expect("a record")).expect("room").wait();
    assert_eq!(refused, Err(AppendError::BatchTooLarge { bytes: (32 << 10) + 1, limit: 32 << 10 }));
    let mut builder = BatchBuilder::new(limits);
    for _ in 0..101 {
        builder.push(&Record::default()).expect("room");
    }
    let refused = log.append(builder.build().expect("records")).expect("room").wait();
    assert_eq!(refused, Err(AppendError::TooManyRecords { records: 101, limit: 100 }));
    assert_eq!(append(&log, b"on it goes").first, Offset(101));
}

/// The largest batch that [`Config::check`] lets go with the smallest segment.
fn largest_batch(config: &Config) -> u32 {
    let works = |bytes: u32| Config { batch_bytes_max: bytes, ..config.clone() }.check().is_ok();
    let sizes: Vec<u32> = (1..=64 << 10).collect();
    sizes.partition_point(|bytes| works(*bytes)) as u32
}

#[test]
fn the_largest_batch_of_the_smallest_segment_fits_and_each_takes_a_segment_of_its_own() {
    let place = place();
    let config = Config { segment_bytes: 64 << 10, commit_bytes_max: 64 << 10, ..small(place.path()) };
    let largest = largest_batch(&config);
    assert!(largest > 32 << 10, "{largest}");
    let config = Config { batch_bytes_max: largest, ..config };
    let store = open(config.clone());
    let log = log_of(&store, "large");
    let wanted: Vec<_> = (0..5).map(|seed| bytes_of(seed, largest as usize - 28 - 1)).collect();
    for value in &wanted {
        append(&log, value);
    }
    assert_eq!(store.counters().rolls, 5);
    assert_eq!(values(&log), wanted);
    store.close().expect("a clean close");
    let store = open(config);
    assert_eq!(values(&log_of(&store, "large")), wanted);
}

#[test]
fn appends_of_one_thread_keep_their_order_in_each_log() {
    let place = place();
    let store = open(small(place.path()));
    let logs = [log_of(&store, "a"), log_of(&store, "b")];
    let mut waiting = Vec::new();
    for number in 0..2_000_u64 {
        let log = &logs[number as usize % 2];
        let value = bytes_of(number, number as usize % 300);
        waiting.push(log.append(batch_of(log, &[&value, b"second"])).expect("room for 2,000"));
    }
    for (number, pending) in waiting.into_iter().enumerate() {
        let first = number as u64 / 2 * 2;
        let receipt = pending.wait().expect("an append");
        assert_eq!((receipt.first, receipt.end), (Offset(first), Offset(first + 2)));
    }
    for (which, log) in logs.iter().enumerate() {
        let values = values(log);
        assert_eq!(values.len(), 2_000);
        for (number, pair) in values.chunks(2).enumerate() {
            let number = number * 2 + which;
            assert_eq!((&pair[0], &pair[1][..]), (&bytes_of(number as u64, number % 300), &b"second"[..]));
        }
    }
    let counters = store.counters();
    assert_eq!(counters.records, 4_000);
    assert!(counters.commits < 2_000, "what waits goes into one commit: {counters:?}");
    store.close().expect("a clean close");
}

#[test]
fn appends_of_many_threads_lose_nothing_and_keep_each_threads_order() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "shared");
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let log = &log;
            scope.spawn(move || {
                let append = |number: u8| log.append(one(log, &[thread, number])).expect("room for 800");
                let waiting: Vec<_> = (0..200).map(append).collect();
                let offsets: Vec<_> =
                    waiting.into_iter().map(|pending| pending.wait().expect("an append").first).collect();
                assert!(offsets.is_sorted(), "{offsets:?}");
            });
        }
    });
    let values = values(&log);
    for thread in 0..4 {
        let of_thread = values.iter().filter(|value| value[0] == thread).map(|value| value[1]);
        assert!(of_thread.eq(0..200), "thread {thread}");
    }
    assert_eq!(values.len(), 800);
}

#[test]
fn counters_say_what_was_done() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "counted");
    let before = store.counters();
    let batch = batch_of(&log, &[b"one", b"two"]);
    let bytes = batch.payload().len() as u64;
    log.append(batch).expect("room").wait().expect("an append");
    let after = store.counters();
    assert_eq!((after.commits - before.commits, after.records, after.bytes), (1, 2, bytes));
    assert!(after.enters > before.enters && after.submitted > before.submitted, "{before:?} {after:?}");
    assert_eq!((after.rolls, after.rolls_waited), (1, 0));
}
