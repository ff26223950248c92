//! Opening: again after a close or a drop, with other knobs, and when it must not be.

use crate::common::{append, bytes_of, log_of, one, open, place, small, values};
use std::fs;
use std::time::{Duration, Instant};
use strandline::config::ConfigError;
use strandline::{AppendError, Config, LogError, Offset, OpenError, RangeNumber, Store, Topic};
use strandline_disk::host::SetupError;

#[test]
fn a_store_that_was_closed_or_dropped_opens_with_everything_and_goes_on() {
    let place = place();
    let mut wanted = Vec::new();
    for life in 0..8_u64 {
        let store = open(small(place.path()));
        let log = log_of(&store, "lives");
        assert_eq!(values(&log), wanted);
        for number in 0..20 {
            let value = bytes_of(life * 100 + number, 1_500);
            assert_eq!(append(&log, &value).first, Offset(wanted.len() as u64));
            wanted.push(value);
        }
        let report = store.report();
        assert_eq!((report.torn_bytes, report.logs), (0, usize::from(life > 0)), "{report:?}");
        assert!(report.damaged.is_empty() && report.strays.is_empty() && report.warnings.is_empty(), "{report:?}");
        if life % 2 == 0 { store.close().expect("a clean close") } else { drop(store) }
    }
}

#[test]
fn a_drop_finishes_what_was_asked_for() {
    let place = place();
    let store = open(small(place.path()));
    let log = log_of(&store, "dropped");
    let waiting: Vec<_> =
        (0..500_u16).map(|number| log.append(one(&log, &number.to_le_bytes())).expect("room")).collect();
    drop(store);
    assert!(waiting.into_iter().all(|pending| pending.wait().is_ok()));
    let store = open(small(place.path()));
    assert_eq!(values(&log_of(&store, "dropped")).len(), 500);
}

#[test]
fn logs_of_any_name_live_side_by_side() {
    let place = place();
    let longest = "x".repeat(231);
    let names: [&[u8]; 7] = [b"plain", b"a/b", b"..", b"", b"\xc3\xa9", b"plain-r0-s0", longest.as_bytes()];
    for life in 0..2 {
        let store = open(small(place.path()));
        for (number, name) in names.into_iter().enumerate() {
            for range in [0, 1, i32::MAX as u32] {
                let topic = Topic::new(name).expect("a topic");
                let log = store.log(&topic, RangeNumber::new(range).expect("a range")).expect("a log");
                assert_eq!(values(&log), vec![format!("{number} {range}").into_bytes(); life]);
                append(&log, format!("{number} {range}").as_bytes());
            }
        }
        assert!(store.report().strays.is_empty(), "{:?}", store.report());
        store.close().expect("a clean close");
    }
}

#[test]
fn one_log_is_one_however_often_it_is_asked_for() {
    let place = place();
    let store = open(Config { logs_max: 1, ..small(place.path()) });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| append(&log_of(&store, "same"), b"v"));
        }
    });
    assert_eq!(values(&log_of(&store, "same")).len(), 4);
    let refused = store.log(&Topic::new("other").expect("a topic"), RangeNumber::default());
    assert_eq!(refused.expect_err("one past the limit"), LogError::TooManyLogs { limit: 1 });
}

#[test]
fn a_second_opener_is_refused_and_admitted_after_the_first_has_closed() {
    let place = place();
    let store = open(small(place.path()));
    append(&log_of(&store, "mine"), b"v");
    let wait = Duration::from_millis(60);
    let started = Instant::now();
    let refused = Store::open(Config { lock_wait: wait, ..small(place.path()) }).expect_err("one store, one opener");
    assert!(started.elapsed() >= wait);
    let OpenError::Setup(why) = refused else { panic!("{refused}") };
    assert!(matches!(&*why, SetupError::LockHeld { path, .. } if path.ends_with("strandline.id")), "{why}");
    store.close().expect("a clean close");
    let store = open(Config { lock_wait: Duration::ZERO, ..small(place.path()) });
    assert_eq!(values(&log_of(&store, "mine")).len(), 1);
}

#[test]
fn a_directory_with_other_things_in_it_is_refused_and_left_alone() {
    let place = place();
    fs::write(place.path().join("precious"), "data").expect("written");
    let refused = Store::open(small(place.path())).expect_err("not a store");
    let OpenError::NotAStore { root, entry } = refused else { panic!("{refused}") };
    assert_eq!((root.as_path(), entry.as_str()), (place.path(), "precious"));
    assert_eq!(fs::read(place.path().join("precious")).expect("still there"), b"data");
    let names = fs::read_dir(place.path()).expect("listed").map(|entry| entry.expect("an entry").file_name());
    assert!(names.into_iter().all(|name| name == "precious" || name == "strandline.id"));
}

#[test]
fn a_configuration_that_cannot_work_is_refused_before_anything_is_made() {
    let place = place();
    let root = place.path().join("store");
    let refused = Store::open(Config { segment_bytes: 1, ..small(&root) }).expect_err("too small");
    assert!(matches!(refused, OpenError::Config(ConfigError::OutOfRange { field: "segment_bytes", .. })), "{refused}");
    assert!(!root.exists());
}

#[test]
fn knobs_may_change_between_opens() {
    let place = place();
    let mut wanted = Vec::new();
    let sizes: [(u64, u32); 5] = [(64, 16), (512, 200), (64, 16), (1024, 400), (128, 32)];
    for (life, (segment_kib, batch_kib)) in sizes.into_iter().enumerate() {
        let config = Config {
            segment_bytes: segment_kib << 10,
            batch_bytes_max: batch_kib << 10,
            commit_bytes_max: (batch_kib + 64) << 10,
            manifest_bytes: (512 + 64 * life as u64) << 10,
            ..small(place.path())
        };
        let store = open(config);
        let log = log_of(&store, "knobs");
        assert!(values(&log) == wanted, "life {life}");
        for number in 0..5 {
            let value = bytes_of(number, ((batch_kib << 10) - 100) as usize);
            append(&log, &value);
            wanted.push(value);
        }
        assert!(values(&log) == wanted, "life {life}");
        store.close().expect("a clean close");
    }
    let store = open(small(place.path()));
    assert!(store.report().damaged.is_empty() && store.report().strays.is_empty(), "{:?}", store.report());
    assert!(values(&log_of(&store, "knobs")) == wanted);
}

#[test]
fn a_manifest_without_room_says_so() {
    let place = place();
    let config = Config { manifest_bytes: 64 << 10, ..small(place.path()) };
    let store = open(config.clone());
    let name = |number: usize| format!("{number:0231}");
    let refused = (0..200)
        .find_map(|number| store.log(&Topic::new(name(number)).expect("a topic"), RangeNumber::default()).err());
    let Some(LogError::ManifestFull { needed, room }) = refused else { panic!("{refused:?}") };
    assert!(needed > room && room == 32 << 10, "{needed} {room}");
    let log = log_of(&store, name(0));
    append(&log, b"what there is goes on");
    // Until it needs another segment, which the manifest cannot take in.
    let value = bytes_of(1, 30 << 10);
    let full = (0..10).find_map(|_| log.append(one(&log, &value)).expect("room").wait().err());
    assert!(matches!(&full, Some(AppendError::DiskFull { .. })), "{full:?}");
    let kept = values(&log);
    drop(store);
    // Opening needs no more room than was there: one that was full opens.
    let store = open(config);
    assert!(store.report().damaged.is_empty(), "{:?}", store.report());
    assert!(kept.len() > 1 && values(&log_of(&store, name(0))) == kept);
}
