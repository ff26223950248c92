//! Answers: each way to wait for one, and what waiters get when there will be none.

use crate::common::{append, block_on, eventually, log_of, one, open, place, small, values};
use std::sync::mpsc;
use strandline::config::Sabotage;
use strandline::{AppendError, CloseError, Config, LogError, Offset, RangeNumber, ReadError, Topic};

#[test]
fn an_answer_can_be_waited_for_polled_awaited_and_called_back() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "answers");
    let append = |value: &[u8]| log.append(one(&log, value)).expect("room");
    for round in 0..50_u64 {
        let first = Offset(round * 4);
        assert_eq!(append(b"waited").wait().expect("an append").first, first);

        let mut polled = append(b"polled");
        let mut answer = None;
        eventually("an answer", || {
            answer = polled.try_take();
            answer.is_some()
        });
        assert_eq!(answer.expect("an answer").expect("an append").first, first.plus(1));
        assert!(polled.try_take().is_none(), "an answer is taken once");

        assert_eq!(block_on(append(b"awaited")).expect("an append").first, first.plus(2));

        let (tell, told) = mpsc::channel();
        append(b"called back").on_ready(move |answer| tell.send(answer).expect("the test listens"));
        assert_eq!(told.recv().expect("a call").expect("an append").first, first.plus(3));
    }
    store.close().expect("a clean close");
}

#[test]
fn an_append_whose_answer_nobody_wants_is_done_all_the_same() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "dropped");
    for number in 0..100_u8 {
        drop(log.append(one(&log, &[number])).expect("room"));
    }
    append(&log, &[100]);
    assert_eq!(values(&log), (0..=100).map(|number| vec![number]).collect::<Vec<_>>());
}

#[test]
fn a_callback_may_append_and_read() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "chained");
    let (tell, told) = mpsc::channel();
    let of_callback = log.clone();
    log.append(one(&log, b"first")).expect("room").on_ready(move |answer| {
        let receipt = answer.expect("an append");
        let tell_read = tell.clone();
        of_callback.read(receipt.first, 1).on_ready(move |read| tell_read.send(read.is_ok()).expect("a listener"));
        let second = of_callback.append(one(&of_callback, b"second")).expect("room");
        second.on_ready(move |answer| tell.send(answer.is_ok()).expect("a listener"));
    });
    assert_eq!(told.iter().collect::<Vec<_>>(), [true, true]);
}

#[test]
fn a_callback_that_panics_harms_nobody_else() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "host");
    log.append(one(&log, b"first")).expect("room").on_ready(|_| panic!("a deliberate panic of the host"));
    assert_eq!(append(&log, b"second").first, Offset(1));
    store.close().expect("a clean close");
}

#[test]
fn a_panic_on_the_shards_thread_answers_every_waiter() {
    let place = place();
    let store = open(Config { sabotage: Some(Sabotage::PanicOnRead), ..small(place.path()) });
    let log = log_of(&store, "panics");
    let acknowledged = append(&log, b"before");
    let waiting: Vec<_> = (0..200).map(|_| log.append(one(&log, b"in flight")).expect("room")).collect();
    let reading = log.read(Offset(0), 1);
    let late: Vec<_> = (0..200).map(|_| log.append(one(&log, b"late")).expect("room")).collect();
    let mut end = acknowledged.end;
    for pending in waiting {
        match pending.wait() {
            Ok(receipt) => end = receipt.end,
            Err(error) => assert_eq!(error, AppendError::ShardGone),
        }
    }
    assert_eq!(reading.wait().expect_err("the shard is gone"), ReadError::ShardGone);
    for pending in late {
        assert!(matches!(pending.wait(), Err(AppendError::ShardGone | AppendError::Closed)));
    }
    eventually("the store says that it is closed", || {
        matches!(log.append(one(&log, b"after")).expect("room").wait(), Err(AppendError::Closed))
    });
    assert_eq!(log.read(Offset(0), 1).wait().expect_err("closed"), ReadError::Closed);
    let refused = store.log(&Topic::new("other").expect("a topic"), RangeNumber::default());
    assert_eq!(refused.expect_err("closed"), LogError::Closed);
    assert_eq!(store.close(), Err(CloseError::ShardGone));

    let store = open(small(place.path()));
    let log = log_of(&store, "panics");
    assert!(values(&log).len() as u64 >= end.0, "what was acknowledged is there");
}
