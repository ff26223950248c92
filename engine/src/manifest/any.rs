//! Random histories of the manifest, for tests: groups of edits of which many contradict what was said before.

use super::state::State;
use crate::format::manifest::{Edit, PolicyEdit, ReleaseReason, ScrubAt, ScrubCursor};
use crate::id::{Epoch, Generation, Life, LogId, Offset, RangeNumber, SegmentId, Seq, Topic, Uid};
use crate::policy::{Bound, Levels, Policy, PolicyName};
use proptest::prelude::*;
use strandline_disk::Position;

/// Applies a group; false, and nothing is changed, when any of it contradicts the state.
pub(super) fn step(state: &mut State, group: &[Edit]) -> bool {
    let mut next = state.clone();
    let fits = group.iter().all(|edit| next.apply(edit).is_ok());
    if fits {
        *state = next;
    }
    fits
}

/// A history of groups over two logs of three segments each, with small numbers, so that edits often follow each other. It starts with
/// a sealed segment and a live one.
pub(super) fn edits() -> impl Strategy<Value = Vec<Vec<Edit>>> {
    let groups = prop::collection::vec(group(), 0..60);
    groups.prop_map(|groups| began().into_iter().map(|edit| vec![edit]).chain(groups).collect())
}

/// A log with a segment that was sealed at 4, and one that took its first record at 1.
pub(super) fn began() -> [Edit; 6] {
    let [first, second] = [0, 1].map(|seq| segment_of(0, seq));
    let file = |segment| prepared(segment, uid_of(segment, 1), Generation(0), true);
    let live = |segment: &SegmentId| Edit::Live { segment: segment.clone(), base: Offset(0), opened_at_ms: 1 };
    [
        Edit::LogCreated { log: first.log.clone() },
        file(&first),
        file(&second),
        live(&first),
        sealed(&first, 1),
        live(&second),
    ]
}

fn group() -> impl Strategy<Value = Vec<Edit>> {
    prop_oneof![6 => group_of_a_log(), 1 => policy_edit().prop_map(|edit| vec![Edit::Policy(edit)])]
}

fn policy_edit() -> impl Strategy<Value = PolicyEdit> {
    (0..7_u8, segment(), 0..3_usize, 0..3_usize, 0..3_u32, 0..3_u32).prop_map(
        |(kind, segment, name, size, fields, bindings)| {
            let topic = segment.log.topic;
            let name = PolicyName::new(["a", "b", "longer"][name]).expect("a name");
            // Policies of several lengths, so that one takes the place of a longer one.
            let host = (0..size).map(|number| (format!("field{number}"), Some("v".repeat(size)))).collect();
            let max_age_ms = if size == 0 { Bound::Inherit } else { Bound::Is(size as u64) };
            let policy = Policy { max_age_ms, host, ..Policy::default() };
            match kind {
                0 | 1 => PolicyEdit::Defined { name, policy },
                2 => PolicyEdit::Deleted { name },
                3 => PolicyEdit::Bound { topic, name },
                4 => PolicyEdit::Unbound { topic },
                5 => PolicyEdit::Global { policy },
                _ => PolicyEdit::Finalized { levels: Levels { fields, bindings } },
            }
        },
    )
}

fn group_of_a_log() -> impl Strategy<Value = Vec<Edit>> {
    (0..28_u8, segment(), 1..5_u128, 0..4_u32, 0..5_u64, 0..5_u64, any::<bool>()).prop_map(
        |(kind, segment, uid, generation, first, second, flag)| {
            let log = segment.log.clone();
            let (uid, generation) = (uid_of(&segment, uid), Generation(generation));
            let released =
                |reason| Edit::Released { segment: segment.clone(), uid, generation, reason, hold_until_ms: first };
            let edit = match kind {
                0 => Edit::Opened { life: Life(first) },
                1 | 2 => Edit::LogCreated { log },
                3 | 4 => prepared(&segment, uid, generation, flag),
                5 | 6 => Edit::Live { segment, base: Offset(first), opened_at_ms: second },
                7 | 8 => sealed(&segment, first),
                9 => Edit::Fenced { segment, end: Offset(first), end_position: Position(second) },
                10 => Edit::StartOffset { log, start: Offset(first), epoch: Epoch(second) },
                11 => released(if flag { ReleaseReason::Expired } else { ReleaseReason::Orphan }),
                12 => Edit::Gone { uid },
                13 => Edit::Truncated { log, end: Offset(first), epoch: Epoch(second) },
                14 | 20..24 => {
                    // The file that it replaces may be any of the segment: the group must not depend on a right guess.
                    let old = uid_of(&segment, u128::from(first));
                    let next = replaced(&segment, uid, generation, second);
                    let reason = ReleaseReason::Superseded;
                    return vec![next, Edit::Released { segment, uid: old, generation, reason, hold_until_ms: 0 }];
                }
                15 => Edit::Shrunk { segment, size: first },
                24 => Edit::ClockSure { wall_ms: first },
                27 => Edit::Scrubbed(ScrubCursor {
                    begun_ms: first,
                    at: if flag { ScrubAt::Behind(segment) } else { ScrubAt::End },
                }),
                25 | 26 => Edit::SealRestamped { segment, sealed_at_ms: first },
                16 => Edit::LogDeleted { log },
                17 => Edit::LogFenced { log, until: flag.then_some(Offset(first)) },
                18 => Edit::Clean {
                    segment,
                    end: Offset(first),
                    end_position: Position(second),
                    last_store_time_ms: first,
                },
                _ => Edit::Dirty { log },
            };
            vec![edit]
        },
    )
}

/// A uid of this segment: no two segments share a file.
fn uid_of(segment: &SegmentId, number: u128) -> Uid {
    Uid(number | u128::from(segment.seq.get()) << 8 | u128::from(segment.log.range.get()) << 16)
}

fn segment() -> impl Strategy<Value = SegmentId> {
    (0..2_u32, 0..3_u32).prop_map(|(range, seq)| segment_of(range, seq))
}

pub(super) fn segment_of(range: u32, seq: u32) -> SegmentId {
    SegmentId {
        log: LogId { topic: Topic::new("t").expect("short"), range: RangeNumber::new(range).expect("small") },
        seq: Seq::new(seq).expect("small"),
    }
}

fn prepared(segment: &SegmentId, uid: Uid, generation: Generation, written: bool) -> Edit {
    Edit::Prepared { segment: segment.clone(), uid, generation, size: 4, look_ahead: 1, written }
}

fn sealed(segment: &SegmentId, end: u64) -> Edit {
    Edit::Sealed {
        segment: segment.clone(),
        end: Offset(end),
        logical_bytes: 1,
        first_store_time_ms: 2,
        last_store_time_ms: 3,
        sealed_at_ms: 4,
    }
}

fn replaced(segment: &SegmentId, uid: Uid, generation: Generation, end: u64) -> Edit {
    Edit::Replaced {
        segment: segment.clone(),
        uid,
        generation,
        size: 4,
        look_ahead: 1,
        written: true,
        base: Offset(0),
        end: Offset(end),
        opened_at_ms: 1,
        logical_bytes: 2,
        first_store_time_ms: 3,
        last_store_time_ms: 4,
        sealed_at_ms: 5,
    }
}
