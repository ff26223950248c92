//! What only the threads themselves can show: that each call is answered, whatever becomes of it, and who waits for whom.

use super::*;
use crate::disk::Operation;
use crate::host_clock::boot_ns;
use crate::posix::call::Reply;
use crate::slot::Slots;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn tokens(count: usize) -> Vec<Token> {
    let slots = Slots::default();
    let sleep = || Operation::Sleep { duration: Duration::ZERO };
    let begun: Vec<_> = (0..count).map(|_| slots.begin(sleep())).collect();
    begun.iter().map(|(token, _)| *token).collect()
}

/// Takes `count` answers, in the order in which they were given.
fn take(answers: &Answers, count: usize) -> Vec<(Token, Result<Reply, Errno>)> {
    let (mut taken, deadline) = (Vec::new(), boot_ns() + 10_000_000_000);
    while taken.len() < count && boot_ns() < deadline {
        let mut some = Vec::new();
        answers.take(&mut some);
        taken.append(&mut some);
        std::thread::sleep(Duration::from_millis(1));
    }
    taken
}

#[test]
fn a_call_that_panics_is_answered_as_failed_and_its_thread_goes_on() {
    let answers = Arc::new(Answers::new().expect("an eventfd"));
    let crew = Crew::start("panics", 1, &answers).expect("threads");
    let tokens = tokens(3);
    let mut calls = vec![
        (tokens[0], Call::Try(|| panic!("as it was told"))),
        (tokens[1], Call::Try(|| Ok(Reply::Done))),
        (tokens[2], Call::Try(|| Err(Errno::NOSPC))),
    ];
    crew.give(&mut calls);
    let taken = take(&answers, 3);
    assert!(matches!(taken[0], (token, Err(Errno::IO)) if token == tokens[0]), "{taken:?}");
    assert!(matches!(taken[1], (token, Ok(Reply::Done)) if token == tokens[1]), "{taken:?}");
    assert!(matches!(taken[2], (token, Err(Errno::NOSPC)) if token == tokens[2]), "{taken:?}");
}

#[test]
fn a_crew_that_goes_has_answered_everything_first() {
    static DONE: AtomicUsize = AtomicUsize::new(0);
    let answers = Arc::new(Answers::new().expect("an eventfd"));
    let crew = Crew::start("goes", 2, &answers).expect("threads");
    let slow = || {
        std::thread::sleep(Duration::from_millis(2));
        DONE.fetch_add(1, Ordering::Relaxed);
        Ok(Reply::Done)
    };
    crew.give(&mut tokens(40).into_iter().map(|token| (token, Call::Try(slow))).collect());
    drop(crew);
    assert_eq!((DONE.load(Ordering::Relaxed), take(&answers, 40).len()), (40, 40));
}

#[test]
fn what_one_crew_blocks_on_holds_up_no_other() {
    static OVER: AtomicBool = AtomicBool::new(false);
    let answers = Arc::new(Answers::new().expect("an eventfd"));
    let (quick, slow) = (Crew::start("quick", 1, &answers), Crew::start("slow", 1, &answers));
    let (quick, slow) = (quick.expect("threads"), slow.expect("threads"));
    let tokens = tokens(9);
    let blocks = || {
        while !OVER.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Reply::Done)
    };
    slow.give(&mut vec![(tokens[0], Call::Try(blocks))]);
    quick.give(&mut tokens[1..].iter().map(|token| (*token, Call::Try(|| Ok(Reply::Done)))).collect());
    assert_eq!(take(&answers, 8).len(), 8);
    OVER.store(true, Ordering::Relaxed);
    assert_eq!(take(&answers, 1).len(), 1);
}

#[test]
fn a_thread_takes_no_signals_of_the_host() {
    static SIGUSR1_BLOCKED: AtomicBool = AtomicBool::new(false);
    let answers = Arc::new(Answers::new().expect("an eventfd"));
    let crew = Crew::start("signals", 1, &answers).expect("threads");
    let look = || {
        // SAFETY: the set is written by the call before it is read; nothing is changed.
        let blocked = unsafe {
            let mut mask = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), libc::SIGUSR1) == 1
        };
        SIGUSR1_BLOCKED.store(blocked, Ordering::Relaxed);
        Ok(Reply::Done)
    };
    crew.give(&mut vec![(tokens(1)[0], Call::Try(look))]);
    assert_eq!(take(&answers, 1).len(), 1);
    assert!(SIGUSR1_BLOCKED.load(Ordering::Relaxed));
}
