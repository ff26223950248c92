//! Resting: orphans in the trash that could not be removed. Each is left alone for a while, longer each time, so that one that never goes
//! does not cost every pass an attempt.

use crate::stopping::Stopping;
use std::cell::Cell;
use std::collections::HashMap;
use std::time::Instant;
use strandline::id::Uid;
use strandline::{LetGo, OrphanError, Removed, Store};

/// How long the first rest is, and the longest, in milliseconds of the boot clock: no wall clock that is set ends one.
const REST_MS: u64 = 5 * 60_000;
const REST_MAX_MS: u64 = 6 * 3_600_000;

/// What rests, and until when. In memory only: after a restart everything is tried at once.
#[derive(Debug, Default)]
pub(crate) struct Resting(HashMap<Uid, Rest>);

#[derive(Clone, Copy, Debug)]
struct Rest {
    failures: u32,
    until_ms: u64,
}

/// What came of emptying the trash.
pub(crate) struct Emptied {
    pub(crate) let_go: LetGo,
    /// How many rest then.
    pub(crate) resting: usize,
    /// What ended it early.
    pub(crate) ended: Result<(), OrphanError>,
}

impl Resting {
    /// Removes what has waited long enough at this wall time and does not rest at this time of the boot clock. It says on the way that it gets on:
    /// much of it takes long, at the rate that removal has, and does not hang while some of it goes.
    pub(crate) fn empty(&mut self, store: &Store, (now_ms, boot_ms): (u64, u64), stopping: &Stopping) -> Emptied {
        let count = || {
            let Removed { files, bytes, waiting, .. } = store.counters().removal;
            (files, bytes, waiting)
        };
        let (began, seen) = (Instant::now(), Cell::new(count()));
        let goes_on = || {
            let counted = count();
            if seen.replace(counted) != counted {
                stopping.note_progress();
            }
            !stopping.is_asked()
        };
        let (let_go, ended) = store.remove_held_orphans_while(now_ms, |uid| self.is_due(uid, boot_ms), goes_on);
        let tried_ms = boot_ms.saturating_add(began.elapsed().as_millis() as u64);
        self.note(&let_go, tried_ms);
        if ended.is_ok() && !stopping.is_asked() {
            // What was due and is in neither list does not wait any more: somebody took it back.
            self.0.retain(|_, rest| rest.until_ms > boot_ms);
        }
        Emptied { let_go, resting: self.count(tried_ms), ended }
    }

    /// Whether this one is to be tried at this time of the boot clock.
    fn is_due(&self, uid: Uid, boot_ms: u64) -> bool {
        self.0.get(&uid).is_none_or(|rest| rest.until_ms <= boot_ms)
    }

    /// What became of those that had been tried by this time of the boot clock.
    fn note(&mut self, let_go: &LetGo, tried_ms: u64) {
        for uid in &let_go.gone {
            self.0.remove(uid);
        }
        for (uid, _) in &let_go.kept {
            let rest = self.0.entry(*uid).or_insert(Rest { failures: 0, until_ms: 0 });
            let rest_ms = REST_MS.saturating_mul(1 << rest.failures.min(16)).min(REST_MAX_MS);
            rest.failures = rest.failures.saturating_add(1);
            rest.until_ms = tried_ms.saturating_add(rest_ms);
        }
    }

    /// How many rest at this time.
    fn count(&self, boot_ms: u64) -> usize {
        self.0.values().filter(|rest| rest.until_ms > boot_ms).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_rest_up_to_a_bound_and_success_ends_it() {
        let (mut resting, uid) = (Resting::default(), Uid(7));
        let failed = LetGo { gone: Vec::new(), kept: vec![(uid, "it is busy".to_owned())] };
        let mut now_ms = 1_000;
        for rest_ms in [REST_MS, 2 * REST_MS, 4 * REST_MS, 8 * REST_MS] {
            assert!(resting.is_due(uid, now_ms));
            resting.note(&failed, now_ms);
            assert!(!resting.is_due(uid, now_ms + rest_ms - 1) && resting.is_due(uid, now_ms + rest_ms));
            assert_eq!((resting.count(now_ms), resting.count(now_ms + rest_ms)), (1, 0));
            now_ms += rest_ms;
        }
        (0..100).for_each(|_| resting.note(&failed, now_ms));
        assert!(resting.is_due(uid, now_ms + REST_MAX_MS) && !resting.is_due(uid, now_ms + REST_MAX_MS - 1));
        resting.note(&LetGo::default(), now_ms + REST_MAX_MS);
        assert_eq!(resting.0[&uid].failures, 104, "one that was not tried has failed as often as before");
        resting.note(&LetGo { gone: vec![uid], kept: Vec::new() }, now_ms);
        assert!(resting.is_due(uid, now_ms) && resting.0.is_empty());
    }
}
