//! How long turns and sleeps last, and what ends them.

use crate::support::{filled, make_file, on_ring, open_at, options, place, ready, run};
use std::time::{Duration, Instant};
use strandline_disk::{BLOCK, Disk, Operation, Position, Wait, transfer};

const LONG_NS: u64 = 10_000_000_000;
const LONG: Duration = Duration::from_secs(5);

#[test]
fn sleeps_and_waits_last_as_long_as_asked() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let started = Instant::now();
    run(&disk, transfer::sleep(&disk, Duration::from_millis(60))).expect("slept");
    let slept = started.elapsed();
    assert!(slept >= Duration::from_millis(60) && slept < LONG, "{slept:?}");
    let started = Instant::now();
    disk.turn(Wait::Until(disk.now().boot_ns + 80_000_000)).expect("a turn");
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(79) && waited < LONG, "{waited:?}");
    let started = Instant::now();
    disk.turn(Wait::Until(1)).expect("a turn");
    disk.turn(Wait::No).expect("a turn");
    assert!(started.elapsed() < LONG);
    // A completion ends a wait early.
    let started = Instant::now();
    let mut sleep = disk.start(Operation::Sleep { duration: Duration::from_millis(30) });
    disk.turn(Wait::Until(disk.now().boot_ns + LONG_NS)).expect("a turn");
    assert!(ready(&mut sleep).is_some());
    assert!(started.elapsed() < LONG);
}

#[test]
fn a_signal_does_not_cut_a_wait_short() {
    let place = place();
    let disk = open_at(place.path(), &options());
    interrupt::ignore_by_handler();
    let sleeper = interrupt::this_thread();
    let interrupting = std::thread::spawn(move || {
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(15));
            interrupt::send(sleeper);
        }
    });
    let started = Instant::now();
    disk.turn(Wait::Until(disk.now().boot_ns + 150_000_000)).expect("a turn");
    assert!(started.elapsed() >= Duration::from_millis(149), "{:?}", started.elapsed());
    interrupting.join().expect("no panic");
}

/// Signals that interrupt a system call and do nothing else.
mod interrupt {
    extern "C" fn nothing(_: libc::c_int) {}

    pub fn ignore_by_handler() {
        // SAFETY: the handler does nothing, and the action is whole: zeroed but for the handler, so without SA_RESTART.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        }
    }

    pub fn this_thread() -> libc::pthread_t {
        // SAFETY: it only answers.
        unsafe { libc::pthread_self() }
    }

    pub fn send(thread: libc::pthread_t) {
        // SAFETY: the thread joins the sender before it ends, so it is alive.
        unsafe {
            libc::pthread_kill(thread, libc::SIGUSR1);
        }
    }
}

#[test]
fn a_turn_makes_one_system_call_or_none() {
    let place = place();
    let disk = open_at(place.path(), &options());
    disk.turn(Wait::No).expect("a turn");
    let before = disk.counters().enters();
    for _ in 0..100 {
        disk.turn(Wait::No).expect("a turn");
    }
    assert_eq!(disk.counters().enters(), before, "there was nothing to do");
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    for _ in 0..10 {
        let before = disk.counters().enters();
        let (_, result) = run(&disk, transfer::write(&disk, &file, filled(&disk, BLOCK, 1), Position(0), true));
        result.expect("written");
        let calls = disk.counters().enters() - before;
        match on_ring(&disk) {
            true => assert_eq!(calls, 1, "one call submits, waits and completes"),
            false => assert!(calls <= 3, "{calls} calls wake a thread, wait, and clear what woke it"),
        }
    }
}

#[test]
fn polling_turns_complete_operations_too() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let file = make_file(&disk, &disk.root(), "x").expect("made");
    let mut sync = disk.start(Operation::Sync { file });
    let started = Instant::now();
    while ready(&mut sync).is_none() {
        disk.turn(Wait::No).expect("a turn");
        assert!(started.elapsed() < LONG);
    }
}

#[test]
fn the_doorbell_wakes_a_sleeping_turn_each_time_it_rings() {
    let place = place();
    let disk = open_at(place.path(), &options());
    let doorbell = disk.doorbell();
    for _ in 0..5 {
        let bell = doorbell.clone();
        doorbell.about_to_sleep();
        let ringer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            bell.ring();
        });
        let started = Instant::now();
        disk.turn(Wait::Until(disk.now().boot_ns + LONG_NS)).expect("a turn");
        let waited = started.elapsed();
        doorbell.awake();
        ringer.join().expect("no panic");
        assert!(waited >= Duration::from_millis(25) && waited < LONG, "{waited:?}");
    }
    // A ring just before the turn ends it at once.
    doorbell.about_to_sleep();
    doorbell.ring();
    let started = Instant::now();
    disk.turn(Wait::Until(disk.now().boot_ns + LONG_NS)).expect("a turn");
    assert!(started.elapsed() < LONG);
}

#[test]
fn a_bell_rung_before_the_first_turn_is_heard() {
    let place = place();
    let disk = open_at(place.path(), &options());
    disk.doorbell().about_to_sleep();
    disk.doorbell().ring();
    let started = Instant::now();
    disk.turn(Wait::Until(disk.now().boot_ns + LONG_NS)).expect("a turn");
    assert!(started.elapsed() < LONG);
}
