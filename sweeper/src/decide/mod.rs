//! Decisions: plain data and `now` in, what goes and why out. No clock, no I/O, no look at a configuration.
//!
//! Two halves stand side by side. Retention: `segment` -> `effective` -> `expired` -> `fate` -> `plan`, with `roll` beside it and
//! `lifetime` and `warning` telling an operator the same in words. Orphans: `entry` -> `candidates` -> `authority` -> `guard` -> `review`, with
//! `attempts` and `mode` beside them. Both take their time from `clock`, which says whether ages can be believed at all.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod attempts;
mod authority;
mod candidates;
mod clock;
mod effective;
mod entry;
mod expired;
mod fate;
mod guard;
mod lifetime;
mod mode;
mod plan;
mod review;
mod roll;
mod segment;
mod warning;

pub use attempts::Attempts;
pub use authority::{Aborted, Answers, AuthorityError, Explained, Inquiry, Standing, Unexplained, explain};
pub use candidates::{AGE_MIN_MS, Authority, Candidate, Candidates, Reported, Survey, TRACKED_MAX, candidates};
pub use clock::{CLOCK_TOLERANCE_MS, ClockGuard, Hold, Now, RESTART_GAP_MS, RESTART_GRACE_MS, Reading};
pub use effective::{
    Cleanup, Effective, Global, Origin, Policies, Resolution, Setting, effective, unresolved_policies,
};
pub use entry::{DirectoryName, Entry, Evidence, Header, Kind, is_segment_directory};
pub use expired::{AgeReason, Expiry, Reasons, SizeReason, expired};
pub use fate::{Fate, Stay, fates};
pub use guard::{LiveSet, Skipped, check_authority};
pub use lifetime::{
    LogExplained, Schedule, SegmentExplained, Window, explain_log, explain_segment, record_lives_at_most_ms,
};
pub use mode::{Mode, ModeError};
pub use plan::{Caps, Held, HeldBy, Plan, Planned, Turn, plan};
pub use review::{
    Brake, HeldOrphan, READY_MAX, Ready, Review, ReviewLimits, SHARE_READY_MIN, Sighting, Sightings, WhyHeld, review,
};
pub use roll::{
    Roll, SEGMENT_MAX_AGE_FLOOR_MS, STAMP_AHEAD_MAX_MS, StampAhead, roll_timer_ms, rolls_by_age, stamp_ahead,
};
pub use segment::{KeptLog, Pin, Segment, State};
pub use warning::{Rhythm, Warning, warnings};
