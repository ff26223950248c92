//! Models of the queue: callers, the shard that takes their commands, and the end of that shard, in every interleaving.

use super::command::{Admitted, Command, Queue, Refused};
use super::verb::{LogInfo, Verdict};
use crate::config::Config;
use crate::error::VerbError;
use crate::pending::{Pending, pair};
use event_listener::Listener;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;
use strandline_disk::Doorbell;

type Answered = Verdict<Vec<LogInfo>>;

fn queue(outstanding_max: usize) -> Arc<Queue> {
    let config = Config { outstanding_max, ..Config::new("nowhere") }.check().expect("a configuration that works");
    Queue::new(&config, Doorbell::silent())
}

/// A model in which a thread is preempted at most so often: an event's list makes more than that too many.
fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn ask(queue: &Queue, admitted: Admitted) -> Pending<Answered> {
    let (answer, pending) = pair();
    queue.push(Command::Inventory { answer, admitted });
    pending
}

/// What a shard does with a command.
fn serve(command: Command) {
    if let Command::Inventory { answer, admitted } = command {
        admitted.answer(answer, Ok(Vec::new()));
    }
}

#[test]
fn loom_no_more_are_admitted_than_the_limit_and_one_of_those_who_come_is() {
    bounded(4, || {
        let queue = queue(1);
        let inside = Arc::new(AtomicUsize::new(0));
        let caller = || {
            let (queue, inside) = (queue.clone(), inside.clone());
            move || match queue.admit(10) {
                Ok(admitted) => {
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two within a limit of one");
                    inside.fetch_sub(1, Ordering::Relaxed);
                    drop(admitted);
                    true
                }
                Err(refused) => {
                    assert!(matches!(refused, Refused::Overloaded(..)));
                    false
                }
            }
        };
        let other = thread::spawn(caller());
        let admitted = [caller()(), other.join().expect("the other caller")];
        assert!(admitted.contains(&true));
        assert_eq!(queue.outstanding(), (0, 0));
    });
}

#[test]
fn loom_a_command_that_meets_the_end_of_its_shard_is_answered() {
    bounded(4, || {
        let queue = queue(1);
        let ending = queue.clone();
        let shard = thread::spawn(move || ending.abandon());
        let pending = ask(&queue, queue.admit(0).expect("room"));
        assert!(matches!(pending.wait(), Err(VerbError::ShardGone)));
        shard.join().expect("the shard");
        assert_eq!(queue.outstanding(), (0, 0));
    });
}

/// The negative control: a push that does not look whether the shard is gone leaves its caller waiting for ever. A deadlock that loom finds
/// aborts the process, so that it is another one.
#[test]
fn loom_a_push_that_does_not_look_behind_itself_is_noticed() {
    const CHILD: &str = "STRANDLINE_LOOM_BROKEN";
    const NAME: &str = "shard::loom_models::loom_a_push_that_does_not_look_behind_itself_is_noticed";
    if std::env::var_os(CHILD).is_none() {
        let program = std::env::current_exe().expect("this program");
        let child = std::process::Command::new(program).args([NAME, "--exact", "--nocapture"]).env(CHILD, "1").output();
        let child = child.expect("a child");
        let said = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(!child.status.success() && said.contains("deadlock"), "{}: {said}", child.status);
        return;
    }
    crate::sync::set_broken(true);
    bounded(4, || {
        let queue = queue(1);
        let ending = queue.clone();
        let shard = thread::spawn(move || ending.abandon());
        let pending = ask(&queue, queue.admit(0).expect("room"));
        assert!(pending.wait().is_err());
        shard.join().expect("the shard");
    });
}

#[test]
fn loom_a_command_is_served_or_told_that_the_shard_is_gone_and_never_both() {
    bounded(4, || {
        let queue = queue(1);
        let serving = queue.clone();
        let shard = thread::spawn(move || {
            if let Some(command) = serving.pop() {
                serve(command);
            }
            serving.abandon();
        });
        let pending = ask(&queue, queue.admit(0).expect("room"));
        assert!(matches!(pending.wait(), Ok(_) | Err(VerbError::ShardGone)));
        shard.join().expect("the shard");
        assert_eq!(queue.outstanding(), (0, 0));
    });
}

#[test]
fn loom_nothing_is_admitted_behind_a_close_that_was_seen() {
    bounded(4, || {
        let queue = queue(2);
        let closing = queue.clone();
        let closer = thread::spawn(move || {
            closing.close();
            assert!(matches!(closing.admit(0), Err(Refused::Closed)));
        });
        let was_closed = queue.is_closed();
        let admitted = queue.admit(0);
        assert!(!(was_closed && admitted.is_ok()));
        drop(admitted);
        closer.join().expect("the closer");
        assert!(queue.is_closed());
        assert_eq!(queue.outstanding(), (0, 0));
    });
}

/// Waits for room as `Log::append_blocking` does: listens, tries, and only then sleeps.
fn admit_when_room(queue: &Arc<Queue>) -> Option<Admitted> {
    loop {
        let room = queue.listen_for_room();
        match queue.admit(0) {
            Ok(admitted) => return Some(admitted),
            Err(Refused::Closed) => return None,
            Err(Refused::Overloaded(..)) => room.wait(),
        }
    }
}

#[test]
fn loom_whoever_waits_for_room_gets_it_when_a_share_comes_back() {
    bounded(3, || {
        let queue = queue(1);
        let held = queue.admit(0).expect("room");
        let waiting = queue.clone();
        let waiter = thread::spawn(move || assert!(admit_when_room(&waiting).is_some()));
        drop(held);
        waiter.join().expect("the waiter");
    });
}

#[test]
fn loom_whoever_waits_for_room_is_told_of_a_close() {
    bounded(3, || {
        let queue = queue(1);
        let held = queue.admit(0).expect("room");
        let waiting = queue.clone();
        let waiter = thread::spawn(move || assert!(admit_when_room(&waiting).is_none()));
        queue.close();
        waiter.join().expect("the waiter");
        drop(held);
    });
}

#[test]
fn loom_each_share_that_comes_back_is_for_somebody_else() {
    bounded(2, || {
        let queue = queue(1);
        let held = queue.admit(0).expect("room");
        let waiters = [(); 2].map(|()| {
            let waiting = queue.clone();
            thread::spawn(move || assert!(admit_when_room(&waiting).is_some()))
        });
        drop(held);
        for waiter in waiters {
            waiter.join().expect("a waiter");
        }
    });
}
