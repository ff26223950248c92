//! Spares: written files that belong to no segment, ready to become one. Only names are held, no descriptors.
//!
//! A file in here has been written whole and synced, so that appends into it pay for no allocation and a barrier may cover it. Its
//! header block says `spare`: no batch in it can ever be taken for one of a segment.

use super::filling::Wanted;
use crate::id::{SegmentId, Uid};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The pool of a store, shared by its shards.
#[derive(Debug, Default)]
pub struct Spares {
    bytes_max: u64,
    /// No file is taken in: the disk is short of room.
    closed: AtomicBool,
    /// Files that came into the pool, and files that left it for a segment.
    spared: AtomicU64,
    reused: AtomicU64,
    /// Files that were made for the pool.
    made: AtomicU64,
    held: Mutex<Held>,
}

/// Files that somebody would have taken: how often, and for which segment.
#[derive(Debug)]
struct Missed {
    times: u32,
    segment: SegmentId,
}

#[derive(Debug, Default)]
struct Held {
    /// Bytes of all files, those that are on their way in included.
    bytes: u64,
    /// The files of each size, the newest last.
    files: BTreeMap<u64, Vec<Uid>>,
    /// What was not there, by its size.
    missed: BTreeMap<u64, Missed>,
    /// The smallest file that found no room since one was begun that is to be filled.
    refused: Option<u64>,
    /// Files that were being removed when the process died.
    half_removed: Vec<Uid>,
}

impl Held {
    fn waiting(&self, size: u64) -> usize {
        self.files.get(&size).map_or(0, Vec::len)
    }

    /// Which file is to be made ahead, if all files may have so many bytes.
    fn wanted(&self, files_min: usize, bytes_max: u64) -> Option<Wanted> {
        let is_wanted = |(size, missed): &(&u64, &Missed)| {
            let fits = self.bytes.saturating_add(**size) <= bytes_max;
            missed.times > 1 && self.waiting(**size) < files_min && fits
        };
        let (size, missed) = self.missed.iter().find(is_wanted)?;
        Some(Wanted { size: *size, segment: missed.segment.clone() })
    }

    /// Whether there is room for one more file. One that finds none is remembered.
    fn has_room(&mut self, size: u64, bytes_max: u64) -> bool {
        let fits = self.bytes.saturating_add(size) <= bytes_max;
        if !fits {
            self.refused = Some(self.refused.map_or(size, |refused| refused.min(size)));
        }
        fits
    }
}

/// What is to be done about files that are made ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Nothing: there are enough, and what is half made waits.
    Nothing,
    /// Another one is to be made, or the rest of the one that is half made.
    More,
    /// What is half made is not needed and stands in the way of something that is.
    GiveUp,
}

impl Spares {
    /// A pool of at most `bytes_max` bytes, with what was found on the disk. What is over the limit stays until it is used.
    #[must_use]
    pub fn new(bytes_max: u64, found: impl IntoIterator<Item = Spare>) -> Spares {
        let mut held = Held::default();
        for Spare { size, uid } in found {
            held.bytes = held.bytes.saturating_add(size);
            held.files.entry(size).or_default().push(uid);
        }
        Spares { bytes_max, held: Mutex::new(held), ..Spares::default() }
    }

    /// A segment would have taken a file of this size, and there was none.
    pub fn miss(&self, size: u64, segment: &SegmentId) {
        let mut held = self.held();
        held.missed.entry(size).or_insert_with(|| Missed { times: 0, segment: segment.clone() }).times += 1;
    }

    /// Which file is to be made ahead, so that `files_min` of each size wait that is asked for: one that was missed more than once, since
    /// the first segment of a store never finds any. There is room for it.
    fn wanted(&self, files_min: usize) -> Option<Wanted> {
        self.held().wanted(files_min, self.bytes_max).filter(|_| !self.is_closed())
    }

    /// The file that is to be made ahead, with its room taken.
    pub(super) fn begin_filling(&self, files_min: usize) -> Option<Wanted> {
        let wanted = self.wanted(files_min).filter(|wanted| self.take_room(wanted.size));
        self.held().refused = None;
        wanted
    }

    /// Whether a file is asked for: another one, or the rest of the one of this size that is half made. That one waits while enough have come
    /// back of others, because an append may meet each burst of zeros; but not where its room would do for a file of another size that is wanted, or for
    /// one that has come back and found none.
    pub(super) fn asked(&self, half_made: Option<u64>, files_min: usize) -> Filled {
        let Some(size) = half_made else {
            return if self.wanted(files_min).is_some() { Filled::More } else { Filled::Nothing };
        };
        let (held, bytes_max) = (self.held(), self.bytes_max.saturating_add(size));
        if held.waiting(size) < files_min {
            return Filled::More;
        }
        let would_fit = |refused: u64| held.bytes.saturating_add(refused) <= bytes_max;
        match held.refused.is_some_and(would_fit) || held.wanted(files_min, bytes_max).is_some() {
            true => Filled::GiveUp,
            false => Filled::Nothing,
        }
    }

    /// With what is left of files that were being removed when the process died.
    #[must_use]
    pub fn with_half_removed(self, uids: Vec<Uid>) -> Spares {
        self.held().half_removed = uids;
        self
    }

    /// Lets files in, or none any more. Files that are in there can be taken all the same.
    pub fn open_or_close(&self, open: bool) {
        self.closed.store(!open, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Takes a file that is to be removed: one whose removal was begun, or else, with `any`, a largest one.
    #[must_use]
    pub fn take_to_remove(&self, any: bool) -> Option<Uid> {
        let mut held = self.held();
        if let Some(uid) = held.half_removed.pop() {
            return Some(uid);
        }
        let (size, uid) =
            held.files.iter_mut().rev().filter(|_| any).find_map(|(size, uids)| Some((*size, uids.pop()?)))?;
        held.bytes = held.bytes.saturating_sub(size);
        Some(uid)
    }

    /// How many files there are for [`Spares::take_to_remove`].
    #[must_use]
    pub fn count_to_remove(&self, any: bool) -> usize {
        let held = self.held();
        held.half_removed.len() + held.files.values().filter(|_| any).map(Vec::len).sum::<usize>()
    }

    /// Whether a file of this size may have a place, as far as room and size say.
    #[must_use]
    pub fn may_take(&self, size: u64) -> bool {
        size.is_power_of_two() && !self.is_closed() && self.held().has_room(size, self.bytes_max)
    }

    /// Takes room for one file. False when the pool is full.
    #[must_use]
    pub fn take_room(&self, size: u64) -> bool {
        let mut held = self.held();
        let fits = !self.is_closed() && held.has_room(size, self.bytes_max);
        if fits {
            held.bytes += size;
        }
        fits
    }

    /// Gives room back that was taken and not used.
    pub fn give_room_back(&self, size: u64) {
        let mut held = self.held();
        held.bytes = held.bytes.saturating_sub(size);
    }

    /// Adds a file for which room was taken.
    pub fn put(&self, Spare { size, uid }: Spare) {
        self.spared.fetch_add(1, Ordering::Relaxed);
        self.held().files.entry(size).or_default().push(uid);
    }

    /// Adds a file that was made for the pool. Room for it was taken.
    pub fn put_made(&self, Spare { size, uid }: Spare) {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.held().files.entry(size).or_default().push(uid);
    }

    /// Files that were made for the pool since the store was opened.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// A file that was taken is a segment's now.
    pub fn note_reused(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    /// Files that came into the pool, and files that left it for a segment, since the store was opened.
    #[must_use]
    pub fn turnover(&self) -> (u64, u64) {
        (self.spared.load(Ordering::Relaxed), self.reused.load(Ordering::Relaxed))
    }

    /// Puts back what was taken and not used. Where its room is taken by now, the pool is over its limit for a while.
    pub fn put_back(&self, spare: Spare) {
        let mut held = self.held();
        held.bytes += spare.size;
        held.files.entry(spare.size).or_default().push(spare.uid);
    }

    /// Takes a file of exactly this size, and with it its room.
    #[must_use]
    pub fn take(&self, size: u64) -> Option<Spare> {
        let mut held = self.held();
        let uid = held.files.get_mut(&size)?.pop()?;
        held.bytes = held.bytes.saturating_sub(size);
        Some(Spare { size, uid })
    }

    /// How many files there are, and their bytes.
    #[must_use]
    pub fn count(&self) -> (usize, u64) {
        let held = self.held();
        let files = held.files.iter().map(|(size, uids)| (uids.len(), size * uids.len() as u64));
        files.fold((0, 0), |sum, files| (sum.0 + files.0, sum.1 + files.1))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A spare file. Its directory below `spare/` has the name of its uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Its size in bytes.
    pub size: u64,
    /// Its uid, which its header block says too.
    pub uid: Uid,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{LogId, RangeNumber, Seq, Topic};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_file_takes_the_place_of_one_of_its_size_only() {
        let spares = Spares::new(4 * MIB, [Spare { size: MIB, uid: Uid(1) }, Spare { size: 2 * MIB, uid: Uid(2) }]);
        assert_eq!(spares.count(), (2, 3 * MIB));
        assert_eq!(spares.take(4 * MIB), None);
        assert_eq!(spares.take(2 * MIB), Some(Spare { size: 2 * MIB, uid: Uid(2) }));
        assert_eq!(spares.take(2 * MIB), None);
        assert_eq!(spares.count(), (1, MIB));
    }

    #[test]
    fn no_more_than_the_limit_is_kept_those_on_their_way_included() {
        let spares = Spares::new(2 * MIB, []);
        assert!(spares.take_room(MIB));
        assert!(spares.take_room(MIB));
        assert!(!spares.take_room(MIB));
        spares.give_room_back(MIB);
        assert!(spares.take_room(MIB));
        spares.put(Spare { size: MIB, uid: Uid(1) });
        assert_eq!(spares.count(), (1, MIB), "the other one is still on its way");
        assert!(spares.take(MIB).is_some());
        assert!(spares.take_room(MIB));
        assert!(!Spares::new(0, []).take_room(MIB), "a pool of no bytes is off");
    }

    fn miss(spares: &Spares, size: u64, times: u32) {
        let log = LogId { topic: Topic::new("t").expect("a name"), range: RangeNumber::default() };
        let segment = SegmentId { log, seq: Seq::default() };
        (0..times).for_each(|_| spares.miss(size, &segment));
    }

    #[test]
    fn a_file_that_is_half_made_waits_while_enough_have_come_back_of_others() {
        let spares = Spares::new(8 * MIB, []);
        miss(&spares, MIB, 1);
        assert_eq!(spares.asked(None, 2), Filled::Nothing, "the first segment of a store finds none");
        miss(&spares, MIB, 1);
        assert_eq!(spares.asked(None, 2), Filled::More);
        assert_eq!(spares.begin_filling(2).map(|wanted| wanted.size), Some(MIB));
        for (number, then) in [(1, Filled::More), (2, Filled::Nothing)] {
            assert_eq!(spares.asked(Some(MIB), 2), Filled::More, "{number}");
            assert!(spares.take_room(MIB));
            spares.put(Spare { size: MIB, uid: Uid(number) });
            assert_eq!(spares.asked(Some(MIB), 2), then);
        }
        assert_eq!(spares.asked(None, 2), Filled::Nothing);
        assert!(spares.take(MIB).is_some());
        assert_eq!(spares.asked(Some(MIB), 2), Filled::More, "one was taken: the rest of it is made");
    }

    #[test]
    fn a_file_that_is_half_made_and_not_needed_goes_when_its_room_or_its_turn_is_needed() {
        let spares = Spares::new(4 * MIB, []);
        miss(&spares, MIB, 2);
        assert!(!spares.take_room(8 * MIB), "what found no room before it was begun is not its doing");
        assert!(spares.begin_filling(1).is_some() && spares.take_room(MIB));
        spares.put(Spare { size: MIB, uid: Uid(1) });
        assert_eq!(spares.asked(Some(MIB), 1), Filled::Nothing);
        miss(&spares, 2 * MIB, 2);
        assert_eq!(spares.asked(Some(MIB), 1), Filled::GiveUp, "another size is wanted");
        assert!(spares.take_room(2 * MIB));
        spares.put(Spare { size: 2 * MIB, uid: Uid(2) });
        assert_eq!(spares.asked(Some(MIB), 1), Filled::Nothing, "there is one of that size now");
        assert!(!spares.may_take(4 * MIB));
        assert_eq!(spares.asked(Some(MIB), 1), Filled::Nothing, "its room would not do");
        assert!(!spares.take_room(MIB));
        assert_eq!(spares.asked(Some(MIB), 1), Filled::GiveUp, "its room would do");
        assert!(spares.take(MIB).is_some());
        assert_eq!(spares.asked(Some(MIB), 1), Filled::More, "it is needed itself");
        spares.give_room_back(MIB);
        miss(&spares, MIB, 1);
        assert!(spares.begin_filling(2).is_some(), "and another begins without a grudge");
        spares.put_back(Spare { size: MIB, uid: Uid(3) });
        assert_eq!(spares.asked(Some(MIB), 1), Filled::Nothing);
    }

    #[test]
    fn a_closed_pool_takes_nothing_in_and_is_given_back_the_largest_first() {
        let found = [Spare { size: MIB, uid: Uid(1) }, Spare { size: 2 * MIB, uid: Uid(2) }];
        let spares = Spares::new(8 * MIB, found).with_half_removed(vec![Uid(3)]);
        spares.open_or_close(false);
        assert!(!spares.may_take(MIB) && !spares.take_room(MIB));
        assert_eq!(spares.take_to_remove(false), Some(Uid(3)));
        assert_eq!((spares.count_to_remove(false), spares.take_to_remove(false)), (0, None));
        assert_eq!([spares.take_to_remove(true), spares.take_to_remove(true)], [Some(Uid(2)), Some(Uid(1))]);
        assert_eq!((spares.count_to_remove(true), spares.count()), (0, (0, 0)));
        spares.open_or_close(true);
        assert!(spares.take_room(8 * MIB), "their room came back with them");
    }
}
