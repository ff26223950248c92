//! Frames of the manifest, one for each kind of edit.

use super::blocks::{STORE, UID, log, segment};
use super::{Golden, golden};
use strandline::format::manifest::{
    Edit, Frame, FramePlace, PolicyEdit, ReleaseReason, ScrubAt, ScrubCursor, decode_frame, encode_frame,
};
use strandline::id::{Epoch, Generation, Life, Offset};
use strandline::policy::{Bound, Levels, Policy, PolicyName};
use strandline_disk::Position;

const PLACE: FramePlace = FramePlace { store: STORE, sequence: 42, position: Position(4096 + 264) };
const NUMBER: u64 = 9;

pub fn all() -> Vec<Golden> {
    let segment = segment();
    let released = |reason| Edit::Released {
        segment: segment.clone(),
        uid: UID,
        generation: Generation(2),
        reason,
        hold_until_ms: 1_700_086_400_000,
    };
    vec![
        frame("edit-opened", [Edit::Opened { life: Life(17) }]),
        frame("edit-log-created", [Edit::LogCreated { log: log() }]),
        frame(
            "edit-prepared",
            [Edit::Prepared {
                segment: segment.clone(),
                uid: UID,
                generation: Generation(2),
                size: 64 << 20,
                look_ahead: 3 << 20,
                written: true,
            }],
        ),
        frame(
            "edit-live",
            [Edit::Live { segment: segment.clone(), base: Offset(1_000_000), opened_at_ms: 1_700_000_000_123 }],
        ),
        frame(
            "edit-sealed",
            [Edit::Sealed {
                segment: segment.clone(),
                end: Offset(1_000_060),
                logical_bytes: 21_000 - 4096,
                first_store_time_ms: 1_700_000_000_123,
                last_store_time_ms: 1_700_000_001_000,
                sealed_at_ms: 1_700_000_002_000,
            }],
        ),
        frame(
            "edit-fenced",
            [Edit::Fenced { segment: segment.clone(), end: Offset(1_000_060), end_position: Position(21_000) }],
        ),
        frame("edit-start-offset", [Edit::StartOffset { log: log(), start: Offset(1_000_010), epoch: Epoch(5) }]),
        frame(
            "edit-released",
            [ReleaseReason::Expired, ReleaseReason::Superseded, ReleaseReason::Orphan].map(released),
        ),
        frame("edit-gone", [Edit::Gone { uid: UID }]),
        // An odd length, so that something pads it, and more than one edit.
        frame("frame-of-two", [Edit::Opened { life: Life(18) }, Edit::LogCreated { log: log() }]),
        frame("frame-of-none", []),
    ]
    .into_iter()
    .chain(later_verbs())
    .chain(policies())
    .collect()
}

/// What replicas, truncation, rest and compaction say.
fn later_verbs() -> Vec<Golden> {
    let segment = segment();
    vec![
        frame("edit-truncated", [Edit::Truncated { log: log(), end: Offset(1_000_020), epoch: Epoch(6) }]),
        frame(
            "edit-replaced",
            [Edit::Replaced {
                segment: segment.clone(),
                uid: UID,
                generation: Generation(3),
                size: 1 << 20,
                look_ahead: 3 << 20,
                written: true,
                base: Offset(1_000_000),
                end: Offset(1_000_020),
                opened_at_ms: 1_700_000_000_123,
                logical_bytes: 9_000,
                first_store_time_ms: 1_700_000_000_123,
                last_store_time_ms: 1_700_000_000_900,
                sealed_at_ms: 1_700_000_003_000,
            }],
        ),
        frame("edit-shrunk", [Edit::Shrunk { segment: segment.clone(), size: 64 << 10 }]),
        frame("edit-log-deleted", [Edit::LogDeleted { log: log() }]),
        frame(
            "edit-log-fenced",
            [
                Edit::LogFenced { log: log(), until: Some(Offset(1_000_100)) },
                Edit::LogFenced { log: log(), until: None },
            ],
        ),
        frame(
            "edit-clean",
            [Edit::Clean {
                segment: segment.clone(),
                end: Offset(1_000_060),
                end_position: Position(21_000),
                last_store_time_ms: 1_700_000_001_000,
            }],
        ),
        frame("edit-dirty", [Edit::Dirty { log: log() }]),
        frame("edit-seq-used", [Edit::SeqUsed { segment: segment.clone() }]),
        frame("edit-clock-sure", [Edit::ClockSure { wall_ms: 1_700_000_004_000 }]),
        frame(
            "edit-scrubbed",
            [
                Edit::Scrubbed(ScrubCursor { begun_ms: 1_700_000_006_000, at: ScrubAt::Start }),
                Edit::Scrubbed(ScrubCursor { begun_ms: 1_700_000_006_000, at: ScrubAt::Behind(segment.clone()) }),
                Edit::Scrubbed(ScrubCursor { begun_ms: 1_700_000_006_000, at: ScrubAt::End }),
            ],
        ),
        frame(
            "edit-seal-restamped",
            [Edit::SealRestamped { segment: segment.clone(), sealed_at_ms: 1_700_000_005_000 }],
        ),
    ]
}

/// What is said of policies, with every state of a field.
fn policies() -> Vec<Golden> {
    let name = |text: &str| PolicyName::new(text).expect("a name");
    let host = [("rack".to_owned(), None), ("spread_by".to_owned(), Some("zone".to_owned()))];
    let policy = Policy {
        max_age_ms: Bound::Is(3_600_000),
        max_bytes: Bound::Off,
        segment_max_age_ms: Bound::Inherit,
        host: host.into_iter().collect(),
    };
    let global = Policy {
        max_age_ms: Bound::Inherit,
        max_bytes: Bound::Is(0),
        segment_max_age_ms: Bound::Is(60_000),
        ..Policy::default()
    };
    let topic = log().topic;
    vec![
        frame("edit-policy-defined", [Edit::Policy(PolicyEdit::Defined { name: name("short"), policy })]),
        frame("edit-policy-deleted", [Edit::Policy(PolicyEdit::Deleted { name: name("short") })]),
        frame(
            "edit-policy-bound",
            [Edit::Policy(PolicyEdit::Bound { topic: topic.clone(), name: name("topic:\u{e9}") })],
        ),
        frame("edit-policy-unbound", [Edit::Policy(PolicyEdit::Unbound { topic })]),
        frame("edit-policy-global", [Edit::Policy(PolicyEdit::Global { policy: global })]),
        frame(
            "edit-policy-finalized",
            [Edit::Policy(PolicyEdit::Finalized { levels: Levels { fields: 2, bindings: 1 } })],
        ),
    ]
}

fn frame<const N: usize>(name: &'static str, edits: [Edit; N]) -> Golden {
    golden(
        name,
        Frame { number: NUMBER, edits: edits.to_vec() },
        |frame| encode_frame(&frame.edits, frame.number, PLACE),
        |bytes| {
            let (frame, length) = decode_frame(bytes, NUMBER, PLACE).expect("a frame");
            assert_eq!(length, bytes.len());
            frame
        },
    )
}
