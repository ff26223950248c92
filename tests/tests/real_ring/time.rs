//! Positions by time, against a model: the batches as they read back, in the order of their offsets.

use crate::common::{append, log_of, open, place, read_from, small};
use proptest::prelude::*;
use std::collections::BTreeSet;
use strandline::batch::BatchLimits;
use strandline::{Batch, ForeignBatch, Log, Offset, ReadError, Record, Store, StoredBatch, Time};

/// A batch: the client timestamps of its records, the size of each, and whether a host laid it out.
type Shape = (Vec<Option<i64>>, usize, bool);

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let timestamps = prop::collection::vec(prop::option::weighted(0.8, -40..400_i64), 1..4);
    let size = prop_oneof![4 => 10..600_usize, 1 => 4_000..9_000_usize];
    prop::collection::vec((timestamps, size, prop::bool::weighted(0.1)), 40..120)
}

fn build(log: &Log, (timestamps, size, is_foreign): &Shape) -> Batch {
    let mut builder = log.batch();
    let value = vec![7; *size];
    for timestamp_ms in timestamps {
        let record = Record { value: Some(&value), timestamp_ms: *timestamp_ms, ..Record::default() };
        builder.push(&record).expect("room in the batch");
    }
    let batch = builder.build().expect("a record");
    if !is_foreign {
        return batch;
    }
    let (records, client_time_max_ms) = (batch.record_count(), batch.client_time_max_ms());
    let foreign =
        ForeignBatch { payload: batch.into_payload(), records, client_time_max_ms, ..ForeignBatch::default() };
    Batch::foreign(foreign, BatchLimits { records_max: 10, bytes_max: 1 << 20 }).expect("within the limits")
}

fn filled(store: &Store, shapes: &[Shape]) -> Log {
    let log = log_of(store, "time");
    for (number, shape) in shapes.iter().enumerate() {
        if number % 16 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(2)); // So that some stamps differ.
        }
        log.append(build(&log, shape)).expect("room in the queue").wait().expect("an append");
    }
    log
}

fn by_store_time(batches: &[StoredBatch], time_ms: u64, end: Offset) -> Offset {
    batches.iter().find(|batch| batch.store_time_ms() >= time_ms).map_or(end, StoredBatch::first)
}

fn by_client_time(batches: &[StoredBatch], time_ms: i64, end: Offset) -> Offset {
    let reached = |batch: &StoredBatch| batch.header().client_time_max_ms >= Some(time_ms);
    let Some(batch) = batches.iter().find(|batch| reached(batch)) else { return end };
    if batch.is_foreign() {
        return batch.first();
    }
    let records = batch.records().map(|record| record.expect("a record"));
    records.filter(|record| record.timestamp_ms >= Some(time_ms)).map(|record| record.offset).next().expect("one")
}

/// Asks for every stamp that there is, and for its neighbours.
fn check(log: &Log) {
    let batches = read_from(log, log.earliest()).expect("readable");
    let end = log.latest();
    let stamps: BTreeSet<u64> = batches.iter().map(StoredBatch::store_time_ms).collect();
    for time_ms in stamps.iter().flat_map(|stamp| [stamp - 1, *stamp, stamp + 1]).chain([0, u64::MAX]) {
        let found = log.offset_at(Time::Store(time_ms)).wait().expect("an offset");
        assert_eq!(found, by_store_time(&batches, time_ms, end), "store time {time_ms}");
    }
    for time_ms in (-42..402).step_by(7).chain([i64::MIN, i64::MIN + 1, i64::MAX]) {
        let found = log.offset_at(Time::Client(time_ms)).wait().expect("an offset");
        assert_eq!(found, by_client_time(&batches, time_ms, end), "client time {time_ms}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn a_time_leads_to_the_first_offset_that_is_as_late(shapes in shapes()) {
        let place = place();
        let store = open(small(place.path()));
        check(&filled(&store, &shapes));
        store.close().expect("a clean close");
        let store = open(small(place.path()));
        check(&log_of(&store, "time"));
    }
}

#[test]
fn segments_that_end_before_the_time_are_not_read() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "time");
    while store.counters().rolls < 10 {
        append(&log, &[7; 8_000]);
    }
    store.close().expect("a clean close");
    let store = open(small(place.path()));
    let log = log_of(&store, "time");
    let late = Time::Client(1);
    assert_eq!(log.offset_at(late).wait().expect("an offset"), log.latest());
    let after_the_first = store.counters();
    assert_eq!(log.offset_at(late).wait().expect("an offset"), log.latest());
    let reads = store.counters().reads - after_the_first.reads;
    assert!(reads <= 1, "what was learned of closed segments is kept, and {reads} were read again");
    let before = store.counters().reads;
    log.offset_at(Time::Store(u64::MAX)).wait().expect("an offset");
    assert!(store.counters().reads - before <= 1, "the manifest knows when closed segments end");
}

#[test]
fn a_time_in_an_empty_log_is_its_end_and_in_a_closed_store_an_error() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "empty");
    assert_eq!((log.earliest(), log.latest()), (Offset(0), Offset(0)));
    for time in [Time::Store(0), Time::Client(0)] {
        assert_eq!(log.offset_at(time).wait(), Ok(Offset(0)));
    }
    append(&log, b"v");
    assert_eq!((log.earliest(), log.latest()), (Offset(0), Offset(1)));
    assert_eq!(log.offset_at(Time::Store(0)).wait(), Ok(Offset(0)));
    assert_eq!(log.offset_at(Time::Client(i64::MIN + 1)).wait(), Ok(Offset(1)), "its record has no timestamp");
    store.close().expect("a clean close");
    assert_eq!(log.offset_at(Time::Store(0)).wait(), Err(ReadError::Closed));
}
