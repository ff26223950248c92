//! What the manifest says of times: the newest of them, and a seal time that is given another value.

use super::state::{SegmentRecord, Stage, State};
use crate::id::SegmentId;

impl State {
    /// The newest time that stands with a segment, wall ms: when it was sealed, or took its first record where it is not. 0 where segments
    /// hold data and none says when; none where there is no data.
    #[must_use]
    pub fn newest_stamp_ms(&self) -> Option<u64> {
        let stamp_ms = |record: &SegmentRecord| match record.stage {
            Stage::Prepared => None,
            Stage::Live(opening) | Stage::Fenced { opening, .. } => Some(opening.opened_at_ms),
            // Its seal time alone: that is true time, and what an operator restamps.
            Stage::Sealed { closing, .. } => Some(closing.sealed_at_ms),
        };
        self.logs.values().flat_map(|log| log.segments.values()).filter_map(stamp_ms).max()
    }

    /// Gives a sealed segment another seal time.
    pub(super) fn restamp(&mut self, segment: &SegmentId, sealed_at_ms: u64) -> Result<(), String> {
        if let Stage::Sealed { closing, .. } = &mut self.sealed(segment)?.stage {
            closing.sealed_at_ms = sealed_at_ms;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::any;
    use super::*;
    use crate::format::manifest::{Edit, ReleaseReason};
    use crate::id::{Generation, Offset};

    /// A log whose segment 0 was sealed at 4, and whose segment 1 took its first record at 1.
    fn state() -> State {
        let mut state = State::default();
        any::began().iter().for_each(|edit| state.apply(edit).expect("they follow each other"));
        state
    }

    fn restamped(seq: u32, sealed_at_ms: u64) -> Edit {
        Edit::SealRestamped { segment: any::segment_of(0, seq), sealed_at_ms }
    }

    #[test]
    fn the_newest_stamp_is_a_seal_time_or_that_of_a_first_record_and_follows_a_restamp() {
        assert_eq!(State::default().newest_stamp_ms(), None);
        let mut state = state();
        assert_eq!(state.newest_stamp_ms(), Some(4), "the seal time");
        state.apply(&restamped(0, 9)).expect("it is sealed");
        assert_eq!(state.newest_stamp_ms(), Some(9));
        state.apply(&restamped(0, 0)).expect("it is sealed");
        assert_eq!(state.newest_stamp_ms(), Some(1), "the first record of the live one");
        let live = any::segment_of(0, 1);
        let uid = state.logs[&live.log].segments[&live.seq].uid;
        state.apply(&Edit::released(&live, uid, Generation(0), ReleaseReason::Expired)).expect("it goes");
        assert_eq!(state.newest_stamp_ms(), Some(0), "there is data, and nothing says of when");
    }

    #[test]
    fn only_what_is_sealed_is_restamped_and_what_is_prepared_has_no_time() {
        let mut state = state();
        for (seq, words) in [(1, "is to be sealed"), (2, "never prepared")] {
            let before = state.clone();
            let sentence = state.apply(&restamped(seq, 9)).expect_err("a contradiction");
            assert!(sentence.contains(words) && state == before, "{sentence}");
        }
        let mut state = State::default();
        state.apply(&any::began()[0]).expect("a log");
        state.apply(&any::began()[1]).expect("a file");
        assert_eq!(state.newest_stamp_ms(), None);
        let segment = any::segment_of(0, 0);
        state.apply(&Edit::Live { segment, base: Offset(0), opened_at_ms: 7 }).expect("live");
        assert_eq!(state.newest_stamp_ms(), Some(7));
    }
}
