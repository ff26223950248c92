//! Where edits are handed in, from any thread, and the inbox from which the manifest takes them.
//!
//! Lock-free: a hand-in is a push and a ring of the doorbell. Every group is answered exactly once, also when the manifest's shard
//! ends: a group that nobody will ever take is answered [`ManifestError::Gone`].

use crate::error::ManifestError;
use crate::format::manifest::Edit;
use crossbeam_queue::SegQueue;
use futures_channel::oneshot;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use strandline_disk::Doorbell;

/// What a group of edits is answered.
pub(super) type EditAnswer = Result<(), ManifestError>;

/// A group of edits that belong together, and who waits for it.
pub(super) struct Submitted {
    pub(super) edits: Vec<Edit>,
    pub(super) answer: oneshot::Sender<EditAnswer>,
}

struct Shared {
    queue: SegQueue<Submitted>,
    gone: AtomicBool,
    doorbell: Doorbell,
}

impl Shared {
    /// Drops what was handed in and nobody will take: who waits for it learns that the manifest is gone.
    fn abandon(&self) {
        while self.queue.pop().is_some() {}
    }
}

/// Where edits are handed in, from any thread. Clones share the queue.
#[derive(Clone)]
pub struct Edits(Arc<Shared>);

impl std::fmt::Debug for Edits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edits({} waiting)", self.0.queue.len())
    }
}

impl Edits {
    /// Hands in edits that belong together: all of them become durable, or none. They are handed in at once, whether or not anybody
    /// waits for the answer.
    pub fn submit(
        &self,
        edits: Vec<Edit>,
    ) -> impl Future<Output = Result<(), ManifestError>> + Send + Sync + Unpin + 'static + use<> {
        let (answer, answered) = oneshot::channel();
        if edits.is_empty() {
            // No commit will ever carry it. Nothing is as durable as it can be.
            let _ = answer.send(Ok(()));
            return Answered(answered);
        }
        self.0.queue.push(Submitted { edits, answer });
        // Whoever ends the manifest says so and then empties the queue; here it is filled and then looked at. One sees the other.
        fence(Ordering::SeqCst);
        if self.0.gone.load(Ordering::Relaxed) {
            self.0.abandon();
        }
        self.0.doorbell.ring();
        Answered(answered)
    }
}

/// The answer to come. A sender that was dropped says that the manifest is gone.
struct Answered(oneshot::Receiver<EditAnswer>);

impl Future for Answered {
    type Output = EditAnswer;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<EditAnswer> {
        let answered = std::pin::Pin::new(&mut self.0).poll(context);
        answered.map(|answer| answer.unwrap_or(Err(ManifestError::Gone)))
    }
}

/// The manifest's side of the queue. Dropped, it answers everything that waits and everything that will come.
pub(super) struct Inbox {
    shared: Arc<Shared>,
    /// What was taken from the queue and waits for the next commit.
    taken: VecDeque<Submitted>,
}

impl Inbox {
    /// An empty inbox. `doorbell` wakes the thread that empties it.
    pub(super) fn new(doorbell: Doorbell) -> Inbox {
        let shared = Shared { queue: SegQueue::new(), gone: AtomicBool::new(false), doorbell };
        Inbox { shared: Arc::new(shared), taken: VecDeque::new() }
    }

    pub(super) fn edits(&self) -> Edits {
        Edits(self.shared.clone())
    }

    /// Whether anything waits, also what other threads have just handed in.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.shared.queue.is_empty()
    }

    /// What waits, in the order in which it was handed in.
    pub(super) fn waiting(&mut self) -> &mut VecDeque<Submitted> {
        while let Some(submitted) = self.shared.queue.pop() {
            self.taken.push_back(submitted);
        }
        &mut self.taken
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.shared.gone.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.shared.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Uid;
    use futures_util::FutureExt;
    use std::thread;

    fn group(number: u128) -> Vec<Edit> {
        vec![Edit::Gone { uid: Uid(number) }]
    }

    #[test]
    fn edits_are_handed_in_from_any_thread_and_keep_their_order_within_one() {
        fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
        let mut inbox = Inbox::new(Doorbell::silent());
        let edits = inbox.edits();
        is_shared(&edits);
        let hands: Vec<_> = (0..4)
            .map(|hand| {
                let edits = edits.clone();
                thread::spawn(move || {
                    (0..100).map(|number| edits.submit(group(hand << 64 | number))).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut taken = [0; 4];
        let mut answered = 0;
        while answered < 400 {
            for Submitted { edits, answer } in inbox.waiting().drain(..) {
                let [Edit::Gone { uid }] = edits[..] else { panic!("{edits:?}") };
                let (hand, number) = ((uid.0 >> 64) as usize, uid.0 as u64);
                assert_eq!(taken[hand], number);
                taken[hand] += 1;
                answered += 1;
                answer.send(Ok(())).expect("somebody waits");
            }
        }
        for hand in hands {
            let answers = hand.join().expect("a hand");
            assert!(answers.into_iter().all(|answer| answer.now_or_never() == Some(Ok(()))));
        }
        assert!(inbox.is_empty());
    }

    #[test]
    fn no_edits_at_all_are_durable_at_once_and_wait_for_no_commit() {
        let inbox = Inbox::new(Doorbell::silent());
        assert_eq!(inbox.edits().submit(Vec::new()).now_or_never(), Some(Ok(())));
        assert!(inbox.is_empty());
    }

    #[test]
    fn what_other_threads_handed_in_counts_as_waiting() {
        let inbox = Inbox::new(Doorbell::silent());
        let edits = inbox.edits();
        thread::spawn(move || drop(edits.submit(group(1)))).join().expect("a hand");
        assert!(!inbox.is_empty());
    }

    #[test]
    fn a_manifest_that_is_gone_answers_what_waits_and_all_that_comes_later() {
        let mut inbox = Inbox::new(Doorbell::silent());
        let edits = inbox.edits();
        let taken = edits.submit(group(1));
        assert_eq!(inbox.waiting().len(), 1);
        let queued = edits.submit(group(2));
        drop(inbox);
        let later = edits.submit(group(3));
        for answer in [taken.now_or_never(), queued.now_or_never(), later.now_or_never()] {
            assert_eq!(answer, Some(Err(ManifestError::Gone)));
        }
    }

    /// The thread that hands in and the one that ends race: whichever comes first, nobody waits for ever.
    #[test]
    fn an_edit_that_is_handed_in_while_the_manifest_ends_is_answered() {
        for _ in 0..2_000 {
            let inbox = Inbox::new(Doorbell::silent());
            let edits = inbox.edits();
            let hand = thread::spawn(move || edits.submit(group(1)));
            drop(inbox);
            assert_eq!(hand.join().expect("a hand").now_or_never(), Some(Err(ManifestError::Gone)));
        }
    }
}
