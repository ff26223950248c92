//! Pressure: what little room on the disk means. Plain functions of free bytes, without a clock and without I/O.
//!
//! Below the soft mark what is only convenient goes: the pool of spare files. Below the hard mark appends are refused while there is still
//! room for what frees some. A stage is left only when a quarter more than its mark is free, so that a store on the edge does not flutter.

use crate::config::{CheckedConfig, grade};
use serde::Serialize;
use strandline_disk::Space;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The soft mark where none is set: this part of the disk, between two segments and a limit.
const SOFT_PART: u64 = 20;
const SOFT_MAX: u64 = 4 * GIB;
/// The hard mark where none is set.
const HARD_PART: u64 = 100;
const HARD_MAX: u64 = GIB;
/// On a small disk a mark that nobody set is never more than this part of it, however large segments are.
const SOFT_PART_MOST: u64 = 8;
const HARD_PART_MOST: u64 = 16;
/// A stage is left when so much more than its mark is free, as a part of the mark.
const REST_PART: u64 = 4;

/// How short of room the disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// There is enough.
    #[default]
    Calm,
    /// Little: the pool of spare files is given back, and removal goes faster.
    Soft,
    /// Too little: appends are refused, and removal goes as fast as it can.
    Hard,
}

/// What the configuration says of room. Where it leaves a mark open, the size of the disk decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarksWanted {
    soft: Option<u64>,
    hard: Option<u64>,
    segment_bytes: u64,
}

impl MarksWanted {
    /// As the configuration has it.
    #[must_use]
    pub fn of(config: &CheckedConfig) -> MarksWanted {
        let (soft, hard) = (config.free_soft_bytes, config.free_hard_bytes);
        MarksWanted { soft, hard, segment_bytes: grade(config.segment_bytes) }
    }

    /// Whether nobody wants to know how much room there is.
    #[must_use]
    pub fn is_off(&self) -> bool {
        (self.soft, self.hard) == (Some(0), Some(0))
    }

    /// The marks for a disk of so many bytes.
    #[must_use]
    pub fn marks(&self, total: u64) -> Marks {
        let by_disk = |part: u64, most: u64, segments: u64, part_most: u64| {
            (total / part).min(most).max(segments.saturating_mul(self.segment_bytes)).min(total / part_most)
        };
        let hard_by_disk = by_disk(HARD_PART, HARD_MAX, 1, HARD_PART_MOST);
        let soft_by_disk = by_disk(SOFT_PART, SOFT_MAX, 2, SOFT_PART_MOST);
        match (self.soft, self.hard) {
            (Some(soft), Some(hard)) => Marks { soft, hard },
            // The one that nobody set gives way.
            (Some(soft), None) => Marks { soft, hard: if soft == 0 { hard_by_disk } else { hard_by_disk.min(soft) } },
            (None, Some(hard)) => Marks { soft: soft_by_disk.max(hard), hard },
            (None, None) => Marks { soft: soft_by_disk, hard: hard_by_disk },
        }
    }
}

/// How many bytes should be free; 0 is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// Fewer are [`Stage::Soft`].
    pub soft: u64,
    /// Fewer are [`Stage::Hard`].
    pub hard: u64,
}

impl Marks {
    /// The stage after `stage` when so many bytes are free.
    #[must_use]
    pub fn next(&self, stage: Stage, free: u64) -> Stage {
        let is_short = |mark: u64, was: bool| {
            let rest = if was { mark / REST_PART } else { 0 };
            mark > 0 && free < mark.saturating_add(rest)
        };
        if is_short(self.hard, stage == Stage::Hard) {
            Stage::Hard
        } else if is_short(self.soft, stage >= Stage::Soft) {
            Stage::Soft
        } else {
            Stage::Calm
        }
    }
}

/// The bytes a second that removal frees at least, where `calm` is what the operator allowed for a disk with room: `None` is as many as it can.
#[must_use]
pub fn rate_min(stage: Stage, calm: u64) -> Option<u64> {
    match stage {
        Stage::Calm => Some(calm),
        Stage::Soft => Some(calm.saturating_mul(8).max(256 * MIB)),
        Stage::Hard => None,
    }
}

/// What is known of the room on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pressure {
    /// How short of room it is.
    pub stage: Stage,
    /// Bytes that were free when it was looked at last.
    pub free: u64,
    /// Bytes of the whole disk.
    pub total: u64,
    /// How many bytes should be free.
    pub marks: Marks,
    /// How often the stage has risen since the store was opened: each time what is due should go at once.
    pub risen: u64,
}

impl Pressure {
    /// What is known after a look. That something was `refused` for want of room counts, whatever the disk says is free.
    #[must_use]
    pub fn after(&self, Space { free, total }: Space, marks: Marks, refused: bool) -> Pressure {
        let least = if refused && marks.soft > 0 { Stage::Soft } else { Stage::Calm };
        let stage = marks.next(self.stage, free).max(least);
        Pressure { stage, free, total, marks, risen: self.risen + u64::from(stage > self.stage) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_disk(total: u64, segment_bytes: u64) -> Marks {
        MarksWanted { soft: None, hard: None, segment_bytes }.marks(total)
    }

    #[test]
    fn the_marks_of_large_and_of_tiny_disks_make_sense() {
        assert_eq!(by_disk(1_000 * GIB, 64 * MIB), Marks { soft: 4 * GIB, hard: GIB });
        assert_eq!(by_disk(20 * GIB, 64 * MIB), Marks { soft: GIB, hard: 20 * GIB / 100 });
        assert_eq!(by_disk(4 * GIB, 64 * MIB), Marks { soft: 4 * GIB / 20, hard: 64 * MIB });
        assert_eq!(by_disk(64 * MIB, MIB), Marks { soft: 64 * MIB / 20, hard: MIB });
        assert_eq!(
            by_disk(64 * MIB, 64 * MIB),
            Marks { soft: 8 * MIB, hard: 4 * MIB },
            "segments as large as the disk"
        );
        assert_eq!(
            by_disk(0, 64 * MIB),
            Marks { soft: 0, hard: 0 },
            "of a disk that tells nothing nothing is expected"
        );
    }

    #[test]
    fn a_mark_that_is_set_stands_and_the_other_gives_way() {
        let marks = |soft, hard| MarksWanted { soft, hard, segment_bytes: 64 * MIB }.marks(100 * GIB);
        assert_eq!(marks(Some(0), Some(0)), Marks { soft: 0, hard: 0 });
        assert_eq!(marks(Some(MIB), None), Marks { soft: MIB, hard: MIB });
        assert_eq!(marks(None, Some(10 * GIB)), Marks { soft: 10 * GIB, hard: 10 * GIB });
        assert_eq!(marks(Some(0), None), Marks { soft: 0, hard: GIB });
    }

    #[test]
    fn a_refusal_counts_whatever_is_said_to_be_free() {
        let (calm, space) = (Pressure::default(), Space { free: 5_000, total: 10_000 });
        let after = calm.after(space, Marks { soft: 100, hard: 10 }, true);
        assert_eq!((after.stage, after.risen), (Stage::Soft, 1));
        assert_eq!(after.after(space, after.marks, false).stage, Stage::Calm);
        assert_eq!(calm.after(space, Marks { soft: 0, hard: 10 }, true).stage, Stage::Calm, "0 is off");
    }

    proptest! {
        #[test]
        fn less_room_is_never_a_lower_stage_and_a_stage_is_never_left_at_its_mark(
            soft in 0..1_000_u64, hard in 0..1_000_u64, free in 0..2_000_u64, less in 0..2_000_u64, was in 0..3_usize
        ) {
            let (marks, was) = (Marks { soft, hard }, [Stage::Calm, Stage::Soft, Stage::Hard][was]);
            let next = marks.next(was, free);
            prop_assert!(marks.next(was, free.saturating_sub(less)) >= next);
            // What was short stays at least as short, as it would be without a past.
            prop_assert!(next >= marks.next(Stage::Calm, free));
            prop_assert_eq!(marks.next(next, free), next, "the same room says the same again");
            prop_assert!(hard == 0 || free >= hard || next == Stage::Hard);
            prop_assert!(hard != 0 || next < Stage::Hard, "0 is off");
            prop_assert!(soft != 0 || next != Stage::Soft, "0 is off");
            prop_assert!(was != Stage::Hard || hard == 0 || next == Stage::Hard || free >= hard + hard / 4);
            prop_assert!(free < hard + hard / 4 || free < soft + soft / 4 || next == Stage::Calm, "there is a way out");
        }

        #[test]
        fn marks_that_nobody_set_leave_most_of_any_disk_free_to_use(total in 0..1_u64 << 50, exponent in 16..33_u32) {
            let Marks { soft, hard } = by_disk(total, 1 << exponent);
            prop_assert!(hard <= soft && soft <= total / 8 && hard <= total / 16);
            let ample = 9 * GIB;
            let next = Marks { soft, hard }.next(Stage::Hard, ample);
            prop_assert!(next == Stage::Calm || exponent > 31, "{next:?}");
        }

        #[test]
        fn a_stage_that_rises_is_counted(frees in prop::collection::vec(0..2_000_u64, 1..50)) {
            let (marks, mut pressure) = (Marks { soft: 1_000, hard: 300 }, Pressure::default());
            for free in frees {
                let next = pressure.after(Space { free, total: 10_000 }, marks, false);
                prop_assert_eq!(next.risen > pressure.risen, next.stage > pressure.stage);
                pressure = next;
            }
        }
    }
}
