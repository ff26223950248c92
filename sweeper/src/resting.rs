//! Resting: orphans in the trash that could not be removed. Each is left alone for a while, longer each time, so that one that never goes
//! does not cost every pass an attempt.

use std::collections::HashMap;
use strandline::LetGo;
use strandline::id::Uid;

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

impl Resting {
    /// Whether this one is to be tried at this time of the boot clock.
    pub(crate) fn is_due(&self, uid: Uid, boot_ms: u64) -> bool {
        self.0.get(&uid).is_none_or(|rest| rest.until_ms <= boot_ms)
    }

    /// What became of those that were tried.
    pub(crate) fn note(&mut self, let_go: &LetGo, boot_ms: u64) {
        for uid in &let_go.gone {
            self.0.remove(uid);
        }
        for (uid, _) in &let_go.kept {
            let rest = self.0.entry(*uid).or_insert(Rest { failures: 0, until_ms: 0 });
            let rest_ms = REST_MS.saturating_mul(1 << rest.failures.min(16)).min(REST_MAX_MS);
            rest.failures = rest.failures.saturating_add(1);
            rest.until_ms = boot_ms.saturating_add(rest_ms);
        }
        // What was due and is in neither list does not wait any more: somebody took it back.
        self.0.retain(|_, rest| rest.until_ms > boot_ms);
    }

    /// How many rest at this time.
    pub(crate) fn count(&self, boot_ms: u64) -> usize {
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
        resting.note(&LetGo { gone: vec![uid], kept: Vec::new() }, now_ms);
        assert!(resting.is_due(uid, now_ms) && resting.0.is_empty());
    }
}
