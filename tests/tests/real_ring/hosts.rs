//! Hosts: buffered and direct, on a drive and in memory, prepared in each way.

use crate::common::{append, bytes_of, log_of, one, open, place, small, values};
use std::path::Path;
use strandline::{Config, DirectIo, Offset, Preallocate};

/// Fills some segments, opens again, goes on.
fn round_trip(config: &Config) {
    let mut wanted: Vec<Vec<u8>> = Vec::new();
    for life in 0..3 {
        let store = open(config.clone());
        let log = log_of(&store, "trip");
        assert!(values(&log) == wanted, "life {life} of {config:?}");
        let fresh: Vec<_> =
            (0..100_u64).map(|number| bytes_of(life * 100 + number, (number * 53 % 7_000) as usize)).collect();
        let waiting: Vec<_> = fresh.iter().map(|value| log.append(one(&log, value)).expect("room")).collect();
        for (number, pending) in waiting.into_iter().enumerate() {
            assert_eq!(pending.wait().expect("an append").first, Offset((wanted.len() + number) as u64));
        }
        wanted.extend(fresh);
        assert!(values(&log) == wanted, "life {life} of {config:?}");
        assert!(store.counters().rolls >= 2, "{:?}", store.counters());
        assert!(store.report().damaged.is_empty() && store.report().torn_bytes == 0, "{:?}", store.report());
        if life == 1 { drop(store) } else { store.close().expect("a clean close") }
    }
}

#[test]
fn every_way_to_prepare_and_to_write_keeps_what_was_appended() {
    for preallocate in [Preallocate::Written, Preallocate::Allocated, Preallocate::Off] {
        for direct in [DirectIo::Auto, DirectIo::Off] {
            let place = place();
            round_trip(&Config { preallocate, direct, ..small(place.path()) });
        }
    }
}

#[test]
fn a_store_may_change_between_direct_and_buffered() {
    let place = place();
    for direct in [DirectIo::Auto, DirectIo::Off, DirectIo::Auto, DirectIo::Off] {
        let store = open(Config { direct, ..small(place.path()) });
        append(&log_of(&store, "both"), b"v");
    }
    let store = open(small(place.path()));
    assert_eq!(values(&log_of(&store, "both")).len(), 4);
}

#[test]
fn memory_serves_buffered_and_says_why() {
    let memory = Path::new("/dev/shm");
    assert!(memory.is_dir(), "the tests need a tmpfs at /dev/shm");
    let place = tempfile::tempdir_in(memory).expect("a temporary directory");
    let store = open(small(place.path()));
    let capabilities = store.capabilities();
    assert_eq!((capabilities.filesystem.kind.as_str(), capabilities.direct.effective), ("tmpfs", false));
    assert!(!capabilities.direct.reason.is_empty());
    store.close().expect("a clean close");
    round_trip(&small(place.path()));
}

#[test]
fn the_capability_report_says_what_was_obtained() {
    let place = place();
    let store = open(small(place.path()));
    let capabilities = store.capabilities();
    assert_eq!(capabilities.ring.arena_bytes, 1 << 20);
    assert!(!capabilities.kernel.is_empty() && !capabilities.filesystem.kind.is_empty(), "{capabilities:?}");
    if store.counters().without_ring == 0 {
        assert_eq!(capabilities.backend, "uring");
        assert!(capabilities.ring.restricted && capabilities.ring.files_registered, "{capabilities:?}");
        assert!(capabilities.ring.buffers_registered || !capabilities.ring.reasons.is_empty(), "{capabilities:?}");
    } else {
        assert_eq!((capabilities.backend.as_str(), store.counters().without_ring), ("posix", 2));
    }
    assert!(capabilities.direct.alignment >= 4096 && !capabilities.direct.reason.is_empty(), "{capabilities:?}");
    store.close().expect("a clean close");
    let store = open(Config { direct: DirectIo::Off, ..small(place.path()) });
    assert!(!store.capabilities().direct.effective);
}
