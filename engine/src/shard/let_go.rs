//! Let go: orphans that have waited long enough are handed to the one that removes files. The manifest knows each of them until it is gone.

use super::orphan::{LetGo, OrphanAnswer};
use super::shard::{Event, Shard};
use crate::id::Uid;
use crate::pending::Answer;
use crate::removal::going::Outgoing;
use crate::removal::release::Given;
use crate::removal::trash::{self, Orphan, Removed};
use std::collections::HashSet;
use std::sync::Arc;
use strandline_disk::Disk;

impl<D: Disk> Shard<D> {
    /// Has those of these orphans removed for good whose hold is over.
    pub(super) fn let_go(&mut self, uids: Vec<Uid>, now_ms: u64, answer: Answer<OrphanAnswer<LetGo>>) {
        let Some(state) = self.manifest.as_ref().map(|manifest| manifest.state()) else { return };
        let listed: Arc<HashSet<Uid>> = Arc::new(state.uids().collect());
        let exchange = self.siblings.removal.clone();
        let (mut outgoing, mut asked) = (Vec::new(), Vec::new());
        for uid in uids {
            let record = state.released.get(&uid).filter(|record| trash::is_held(record));
            let Some(record) = record.filter(|record| record.hold_until_ms <= now_ms) else { continue };
            // It is taken back by nobody from now on.
            let Some(placed) = self.siblings.held.take(uid) else { continue };
            let (orphan, told) = Orphan::new(listed.clone(), placed);
            let given = Given { uid, record: record.clone(), blocks: None };
            outgoing.push(Outgoing::from_trash(given, orphan, &exchange.going));
            asked.push((uid, told));
        }
        if asked.is_empty() {
            return answer.give(Ok(LetGo::default()));
        }
        exchange.inbox.put(outgoing);
        self.spawn(async move {
            let mut let_go = LetGo::default();
            for (uid, told) in asked {
                match told.await {
                    Ok(Removed::Gone) => let_go.gone.push(uid),
                    Ok(Removed::Kept(reason)) => let_go.kept.push((uid, reason)),
                    Err(_) => let_go
                        .kept
                        .push((uid, "nothing is removed any more until the store is opened again".to_owned())),
                }
            }
            Event::Done(Box::new(move |shard| {
                // What was known of them may have changed with the attempt.
                for (uid, _) in &let_go.kept {
                    shard.siblings.held.put(*uid, None);
                }
                answer.give(Ok(let_go));
            }))
        });
    }
}
