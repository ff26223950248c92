//! Reads: from every offset, in every size, at both ends.

use crate::common::{append, batch_of, bytes_of, log_of, open, place, small};
use strandline::{Config, Log, Offset, ReadError, Store, Time};

/// Batches of 1 to 5 records and very different sizes over several segments; gives where each batch starts and ends.
fn filled(store: &Store, name: &str) -> (Log, Vec<(u64, u64)>) {
    let log = log_of(store, name);
    let mut spans = Vec::new();
    for number in 0..60_usize {
        let values: Vec<_> =
            (0..number % 5 + 1).map(|record| bytes_of(number as u64, number * 97 % 3_000 + record)).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let receipt = log.append(batch_of(&log, &values)).expect("room").wait().expect("an append");
        spans.push((receipt.first.0, receipt.end.0));
    }
    (log, spans)
}

fn check_every_offset(log: &Log, spans: &[(u64, u64)]) {
    let end = spans.last().expect("batches").1;
    for offset in 0..end {
        let place = spans.partition_point(|span| span.1 <= offset);
        for bytes in [0, 1, 5_000, 40_000, usize::MAX] {
            let read = log.read(Offset(offset), bytes).wait().expect("readable");
            let found: Vec<_> = read.batches.iter().map(|batch| (batch.first().0, batch.end().0)).collect();
            assert_eq!(found[..], spans[place..place + found.len()], "offset {offset}, {bytes} bytes");
            assert!(!found.is_empty());
            assert_eq!(read.next.0, found.last().expect("a batch").1);
            assert!(bytes > 1 || found.len() == 1, "no more than was asked for");
        }
    }
    assert!(log.read(Offset(end), 1).wait().expect("the end").batches.is_empty());
    assert_eq!(log.read(Offset(end), 1).wait().expect("the end").next, Offset(end));
}

#[test]
fn a_read_starts_with_the_batch_that_holds_the_offset() {
    let place = place();
    let store = open(small(place.path()));
    let (log, spans) = filled(&store, "offsets");
    assert!(store.counters().rolls > 2, "{:?}", store.counters());
    check_every_offset(&log, &spans);
    store.close().expect("a clean close");
    let store = open(small(place.path()));
    check_every_offset(&log_of(&store, "offsets"), &spans);
}

#[test]
fn an_offset_outside_the_log_is_refused_with_what_there_is() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "bounds");
    assert!(log.read(Offset(0), 1).wait().expect("empty").batches.is_empty());
    append(&log, b"v");
    for offset in [2, 3, u64::MAX] {
        let refused = log.read(Offset(offset), 1).wait().expect_err("past the end");
        let (requested, earliest, end) = (Offset(offset), Offset(0), Offset(1));
        assert_eq!(refused, ReadError::OutOfRange { log: log.id().clone(), requested, earliest, end });
    }
}

#[test]
fn what_was_trimmed_is_refused_with_the_earliest_live_offset_also_when_it_was_read_ahead() {
    let place = place();
    let store = open(small(place.path()));
    let (log, spans) = filled(&store, "trimmed");
    let end = spans.last().expect("batches").1;
    let mut next = Offset(0);
    for _ in 0..3 {
        next = log.read(next, 6_000).wait().expect("readable").next; // Others are on their way behind the third.
    }
    let start = Offset(end - 3);
    assert_eq!(log.trim(start).wait().expect("trimmed"), start);
    assert_eq!((log.earliest(), log.latest()), (start, Offset(end)));
    for offset in [Offset(0), next, Offset(start.0 - 1)] {
        let refused = log.read(offset, 6_000).wait().expect_err("it is gone");
        let (requested, earliest, end) = (offset, start, Offset(end));
        assert_eq!(refused, ReadError::OutOfRange { log: log.id().clone(), requested, earliest, end });
        let refused = log.follower(offset).next_blocking(6_000, None).expect_err("it is gone");
        assert!(matches!(refused, ReadError::OutOfRange { .. }), "{refused}");
    }
    assert_eq!(log.offset_at(Time::Store(0)).wait(), Ok(start));
    let read = log.read(start, 1).wait().expect("readable");
    assert!(read.batches[0].first() <= start && start < read.batches[0].end());
}

#[test]
fn a_read_gives_at_most_what_the_store_allows() {
    let place = place();
    let store = open(Config { read_bytes_max: 1, ..small(place.path()) });
    let (log, _) = filled(&store, "capped");
    assert_eq!(log.read(Offset(0), usize::MAX).wait().expect("readable").batches.len(), 1);
}

#[test]
fn many_reads_at_once_beside_appends_all_see_whole_batches() {
    let place = place();
    let store = open(small(place.path()));
    let (log, spans) = filled(&store, "busy");
    let end = spans.last().expect("batches").1;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..200 {
                append(&log, &bytes_of(number, 700));
            }
        });
        for thread in 0..3 {
            let log = &log;
            scope.spawn(move || {
                for round in 0..10 {
                    let offsets = (0..end).skip(thread + round).step_by(7);
                    let reads: Vec<_> = offsets.map(|offset| (offset, log.read(Offset(offset), 9_000))).collect();
                    for (offset, read) in reads {
                        let read = read.wait().expect("readable");
                        assert!(read.batches[0].first().0 <= offset && offset < read.batches[0].end().0);
                        assert!(read.batches.iter().flat_map(|batch| batch.records()).all(|record| record.is_ok()));
                    }
                }
            });
        }
    });
}

#[test]
fn reading_many_segments_keeps_only_some_of_them_open() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "many");
    let mut end = Offset(0);
    while store.counters().rolls < 100 {
        end = append(&log, &bytes_of(end.0, 8_000)).end;
    }
    // Only files of this store: other tests of this process open and close theirs meanwhile.
    let open_files = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors").filter_map(Result::ok);
        let targets = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        targets.filter(|target| target.starts_with(place.path()) && target.ends_with("data.0")).count()
    };
    for _ in 0..2 {
        let mut next = Offset(0);
        while next < end {
            next = log.read(next, 100_000).wait().expect("a read").next;
        }
    }
    // The active segment, its successor, and a read that may still be ending.
    assert!((1..=64 + 3).contains(&open_files()), "{} files are open", open_files());
    store.close().expect("a clean close");
}
