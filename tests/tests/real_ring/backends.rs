//! Backends: a ring, plain system calls, and what a store says and does where a ring is not to be had. What is about a missing ring runs
//! in a child, since filters stay.

use crate::common::{append, log_of, one, open, place, small, values};
use crate::seccomp;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use strandline::{Backend, Config, Offset, OpenError, Store};
use strandline_disk::host::{BACKEND_VARIABLE, SetupError};

const ROOT: &str = "STRANDLINE_TEST_ROOT";

const SETUP: u32 = 425;
const ENTER: u32 = 426;

/// In the child: the root to use. In the parent: runs this test again in a child, whose environment names `backend` or none.
fn child_root(test: &str, root: &Path, backend: Option<&str>) -> Option<PathBuf> {
    if let Some(root) = std::env::var_os(ROOT) {
        return Some(root.into());
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args([&format!("backends::{test}"), "--exact", "--nocapture", "--quiet", "--test-threads=1"])
        .env(ROOT, root);
    match backend {
        Some(backend) => command.env(BACKEND_VARIABLE, backend),
        None => command.env_remove(BACKEND_VARIABLE),
    };
    let status = command.status().expect("a child");
    assert!(status.success(), "the child failed: {status}");
    None
}

fn with(root: &Path, backend: Backend) -> Config {
    Config { backend, ..small(root) }
}

/// Warnings of this program that speak of plain system calls.
static WARNINGS: AtomicUsize = AtomicUsize::new(0);

/// Counts them.
struct Counting;

impl tracing::Subscriber for Counting {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{value:?} "));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        if text.0.contains("plain system calls serve") {
            WARNINGS.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn ur_02_without_a_ring_a_store_works_all_the_same_and_says_so_everywhere_once() {
    let place = place();
    let test = "ur_02_without_a_ring_a_store_works_all_the_same_and_says_so_everywhere_once";
    let Some(root) = child_root(test, place.path(), None) else { return };
    tracing::subscriber::set_global_default(Counting).expect("the only one");
    seccomp::refuse(SETUP, libc::EPERM);
    let store = open(Config { shards: 3, ..small(&root) });
    let capabilities = store.capabilities();
    let why = capabilities.fallback.clone().expect("a reason");
    assert_eq!(capabilities.backend, "posix");
    assert!(why.contains("blocked by policy: io_uring_setup answered"), "{why}");
    assert!(capabilities.warnings.iter().any(|warning| warning.contains(&why)), "{:?}", capabilities.warnings);
    assert_eq!(store.report().fallback, Some(why));
    assert_eq!(store.counters().without_ring, 4, "three shards, and the thread that removes files");
    for topic in ["a", "b", "c", "d"] {
        append(&log_of(&store, topic), b"v");
    }
    store.close().expect("a clean close");
    assert_eq!(WARNINGS.load(Ordering::Relaxed), 1, "one warning for all four");
    let store = open(Config { shards: 2, ..small(&root) });
    for topic in ["a", "b", "c", "d"] {
        assert_eq!(values(&log_of(&store, topic)), [b"v"]);
    }
}

#[test]
fn ur_02_a_store_that_asks_for_a_ring_is_refused_without_one_and_leaves_no_lock() {
    let place = place();
    let test = "ur_02_a_store_that_asks_for_a_ring_is_refused_without_one_and_leaves_no_lock";
    let Some(root) = child_root(test, place.path(), None) else { return };
    drop(open(with(&root, Backend::Uring)));
    seccomp::refuse(SETUP, libc::ENOSYS);
    for _ in 0..2 {
        let refused = Store::open(with(&root, Backend::Uring)).expect_err("there is no ring");
        let OpenError::Setup(why) = refused else { panic!("{refused}") };
        assert!(matches!(&*why, SetupError::BlockedByPolicy { call: "io_uring_setup", .. }), "{why}");
    }
    assert_eq!(open(with(&root, Backend::Posix)).counters().without_ring, 2);
}

#[test]
fn ur_13_the_environment_overrules_the_configuration_of_a_store() {
    let place = place();
    let test = "ur_13_the_environment_overrules_the_configuration_of_a_store";
    let Some(root) = child_root(test, place.path(), Some("posix")) else { return };
    for backend in [Backend::Uring, Backend::Auto] {
        let store = open(with(&root, backend));
        assert_eq!((store.capabilities().backend.as_str(), &store.report().fallback), ("posix", &None));
    }
}

#[test]
fn ur_13_a_backend_that_the_environment_misspells_refuses_the_store() {
    let place = place();
    let test = "ur_13_a_backend_that_the_environment_misspells_refuses_the_store";
    let Some(root) = child_root(test, place.path(), Some("syscalls")) else { return };
    let refused = Store::open(small(&root)).expect_err("nobody knows it");
    let OpenError::Setup(why) = refused else { panic!("{refused}") };
    assert_eq!(*why, SetupError::UnknownBackend { value: "syscalls".into() });
}

#[test]
fn ur_14_a_store_may_change_its_backend_between_lives() {
    let place = place();
    let test = "ur_14_a_store_may_change_its_backend_between_lives";
    let Some(root) = child_root(test, place.path(), None) else { return };
    let lives = [Backend::Uring, Backend::Posix, Backend::Posix, Backend::Uring, Backend::Auto];
    for (life, backend) in lives.into_iter().enumerate() {
        let store = open(with(&root, backend));
        assert_eq!(store.counters().without_ring, if backend == Backend::Posix { 2 } else { 0 });
        let log = log_of(&store, "both");
        assert_eq!(values(&log).len(), life * 40);
        // Over a segment's end, so that each life also prepares, rolls and seals.
        for number in 0..40_u8 {
            append(&log, &vec![number; 5_000]);
        }
        if life % 2 == 0 { store.close().expect("a clean close") } else { drop(store) }
    }
}

/// A ring that stops working under an open store: callers hear of it, nobody hangs, and the next life needs no ring.
#[test]
fn ur_12_ur_14_a_ring_that_is_taken_away_fails_its_store_and_plain_calls_open_it_again() {
    let place = place();
    let test = "ur_12_ur_14_a_ring_that_is_taken_away_fails_its_store_and_plain_calls_open_it_again";
    if let Some(root) = child_root(test, place.path(), None) {
        let store = open(with(&root, Backend::Uring));
        let log = log_of(&store, "cut");
        append(&log, b"acknowledged");
        seccomp::refuse_everywhere(ENTER, libc::EPERM);
        let failed =
            log.append(one(&log, b"not")).map(|pending| pending.wait().expect_err("there is no ring any more"));
        println!("{failed:?}");
        let refused = log.append(one(&log, b"not either")).map(|pending| pending.wait().expect_err("nor later"));
        println!("{refused:?}");
        return;
    }
    let store = open(with(place.path(), Backend::Posix));
    let log = log_of(&store, "cut");
    assert_eq!(values(&log)[0], b"acknowledged");
    assert!(append(&log, b"goes on").first >= Offset(1));
}
