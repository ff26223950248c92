//! Models of the queue that are too large for every interleaving: more callers, commands and ways to wait than loom takes, in many random
//! schedules. `STRANDLINE_SCHEDULES` says in how many.

use super::command::{Admitted, Command, Queue, Refused};
use super::verb::{LogInfo, Verdict};
use crate::config::Config;
use crate::error::VerbError;
use crate::pending::{Places, pair};
use crate::sync;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;
use strandline_disk::Doorbell;

type Answered = Verdict<Vec<LogInfo>>;

const CALLERS: usize = 4;
const COMMANDS: usize = 5;
/// Fewer than there are callers, so that some wait for room.
const LIMIT: usize = 2;

/// What all threads of a model share.
struct Shared {
    queue: Arc<Queue>,
    places: Places<Answered>,
    /// Callers that have been admitted and not yet answered.
    inside: AtomicUsize,
    /// Callers that are not done.
    left: AtomicUsize,
    /// Answers that callbacks were given.
    called: AtomicUsize,
}

fn shared() -> Arc<Shared> {
    let config = Config { outstanding_max: LIMIT, ..Config::new("nowhere") }.check().expect("it works");
    let [inside, called] = [(); 2].map(|()| AtomicUsize::new(0));
    let (queue, left) = (Queue::new(&config, Doorbell::silent()), AtomicUsize::new(CALLERS));
    Arc::new(Shared { queue, places: Places::new(LIMIT), inside, left, called })
}

/// Runs a model in random schedules, and in schedules that preempt rarely, where rare orders come up.
fn schedules(model: impl Fn() + Send + Sync + 'static) {
    let count = std::env::var("STRANDLINE_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let model = Arc::new(model);
    let again = model.clone();
    shuttle::check_random(move || model(), count / 2);
    shuttle::check_pct(move || again(), count / 2, 3);
}

/// Waits for room as the futures of `Log` do: listens, tries, and only then sleeps.
fn admit_when_room(queue: &Arc<Queue>) -> Option<Admitted> {
    shuttle::future::block_on(async {
        loop {
            let room = queue.listen_for_room();
            match queue.admit(10) {
                Ok(admitted) => return Some(admitted),
                Err(Refused::Closed) => return None,
                Err(Refused::Overloaded(..)) => room.await,
            }
        }
    })
}

/// Asks again and again, and waits in every way. Gives how many answers it was told of directly.
fn call(shared: &Arc<Shared>, caller: usize) -> usize {
    let mut answers = 0;
    for round in 0..COMMANDS {
        let Some(admitted) = admit_when_room(&shared.queue) else { break };
        assert!(shared.inside.fetch_add(1, Ordering::SeqCst) < LIMIT, "more are inside than the limit");
        let (answer, pending) = if round % 2 == 0 { shared.places.pair(caller) } else { pair() };
        // What answers is not in here any more once the share has gone back.
        shared.inside.fetch_sub(1, Ordering::SeqCst);
        shared.queue.push(Command::Inventory { answer, admitted });
        match (caller + round) % 3 {
            0 => answers += told(&pending.wait()),
            1 => answers += told(&shuttle::future::block_on(pending)),
            _ => {
                let sum = shared.clone();
                pending.on_ready(move |answer| {
                    sum.called.fetch_add(told(&answer), Ordering::SeqCst);
                });
            }
        }
    }
    shared.left.fetch_sub(1, Ordering::SeqCst);
    answers
}

fn told(answer: &Answered) -> usize {
    assert!(matches!(answer, Ok(_) | Err(VerbError::ShardGone)));
    1
}

/// Takes commands and answers them; a shard that dies gives up after so many, and lets nobody in any more. Gives how many it answered.
fn serve(shared: &Shared, dies_after: Option<usize>) -> usize {
    let mut served = 0;
    while shared.left.load(Ordering::SeqCst) > 0 || !shared.queue.is_empty() {
        if dies_after == Some(served) {
            shared.queue.close();
            shared.queue.abandon();
            return served;
        }
        match shared.queue.pop() {
            Some(Command::Inventory { answer, admitted }) => {
                admitted.answer(answer, Ok(Vec::new()));
                served += 1;
            }
            Some(_) => unreachable!("nobody asks for anything else"),
            None => thread::yield_now(),
        }
    }
    served
}

/// Callers and a shard, to the end of all of them. Gives the answers that callers were told of, and those that the shard gave.
fn run(dies_after: Option<usize>) -> (usize, usize) {
    let shared = shared();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let shared = shared.clone();
            thread::spawn(move || call(&shared, caller))
        })
        .collect();
    let served = serve(&shared, dies_after);
    let answers: usize = callers.into_iter().map(|caller| caller.join().expect("a caller")).sum();
    assert_eq!(shared.queue.outstanding(), (0, 0), "every share came back");
    (answers + shared.called.load(Ordering::SeqCst), served)
}

#[test]
fn shuttle_every_command_of_many_callers_is_answered_exactly_once_however_they_wait() {
    schedules(|| assert_eq!(run(None), (CALLERS * COMMANDS, CALLERS * COMMANDS)));
}

#[test]
fn shuttle_whoever_waits_when_a_shard_dies_is_told_so() {
    schedules(|| {
        let (answers, served) = run(Some(thread_rng().gen_range(0..CALLERS * COMMANDS)));
        assert!(served <= answers && answers <= CALLERS * COMMANDS, "{answers} answers of {served}");
    });
}

/// The negative control: a push that does not look whether the shard is gone leaves its caller waiting for ever, or its share taken where
/// the caller left a callback.
#[test]
fn shuttle_a_push_that_does_not_look_behind_itself_is_noticed() {
    sync::set_broken(true);
    let broken = || {
        schedules(|| {
            run(Some(thread_rng().gen_range(0..CALLERS * COMMANDS)));
        });
    };
    let noticed = std::panic::catch_unwind(broken).expect_err("it is noticed");
    let said = noticed.downcast_ref::<String>().map(String::as_str).or(noticed.downcast_ref::<&str>().copied());
    let said = said.expect("a sentence");
    assert!(said.contains("deadlock") || said.contains("every share came back"), "{said}");
}
