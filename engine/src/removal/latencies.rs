//! Latencies: how long commits took, counted in classes, so that the governor sees what removal does to appends.

use std::sync::atomic::{AtomicU64, Ordering};

/// Classes within a power of two: a percentile is right to an eighth.
const PARTS: usize = 8;
/// Powers of two below this are one class: 2^10 ns is about 1 us.
const LOW: u32 = 10;
/// From 2^36 ns (69 s) on all is one class.
const HIGH: u32 = 36;
const CLASSES: usize = (HIGH - LOW) as usize * PARTS;

/// Counts of commits by how long they took. Shards add, the governor reads.
#[derive(Debug)]
pub struct Latencies([AtomicU64; CLASSES]);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies([const { AtomicU64::new(0) }; CLASSES])
    }
}

impl Latencies {
    /// A commit took so many nanoseconds.
    pub fn note(&self, ns: u64) {
        self.0[class_of(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// How many commits there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|class| class.load(Ordering::Relaxed)).sum()
    }

    /// What was counted so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen(std::array::from_fn(|class| self.0[class].load(Ordering::Relaxed)))
    }
}

/// What was counted up to an instant, or between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen([u64; CLASSES]);

impl Default for Seen {
    fn default() -> Seen {
        Seen([0; CLASSES])
    }
}

impl Seen {
    /// What came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Seen) -> Seen {
        Seen(std::array::from_fn(|class| self.0[class].saturating_sub(earlier.0[class])))
    }

    /// What came in both.
    #[must_use]
    pub fn and(&self, other: &Seen) -> Seen {
        Seen(std::array::from_fn(|class| self.0[class] + other.0[class]))
    }

    /// How many commits.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many took longer than `ns`, of a thousand; those in its class count as no longer.
    #[must_use]
    pub fn over_per_mille(&self, ns: u64) -> u64 {
        let over: u64 = self.0[class_of(ns) + 1..].iter().sum();
        over * 1_000 / self.count().max(1)
    }

    /// The latency that 99 of 100 did not exceed, in nanoseconds, rounded up to the end of its class; 0 without any.
    #[must_use]
    pub fn p99_ns(&self) -> u64 {
        let count = self.count();
        let within = count - count / 100;
        let mut sum = 0;
        let class = self.0.iter().position(|commits| {
            sum += commits;
            sum >= within
        });
        class.filter(|_| count > 0).map_or(0, end_of)
    }
}

/// The class of a latency: the power of two, and which eighth above it.
fn class_of(ns: u64) -> usize {
    let power = ns.checked_ilog2().unwrap_or(0);
    if power < LOW {
        return 0;
    }
    let part = (ns >> (power - PARTS.ilog2())) as usize - PARTS;
    ((power - LOW) as usize * PARTS + part).min(CLASSES - 1)
}

/// One past the largest latency of a class, in nanoseconds.
fn end_of(class: usize) -> u64 {
    let (power, part) = (LOW + (class / PARTS) as u32, (class % PARTS) as u64 + 1);
    (PARTS as u64 + part) << (power - PARTS.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_99th_of_a_hundred_is_given_and_not_the_worst() {
        let latencies = Latencies::default();
        (0..98).for_each(|_| latencies.note(100_000));
        latencies.note(900_000);
        latencies.note(50_000_000);
        let p99 = latencies.seen().p99_ns();
        assert!((900_000..=900_000 * 9 / 8 + 1).contains(&p99), "{p99}");
        assert_eq!(Seen::default().p99_ns(), 0);
    }

    #[test]
    fn those_that_took_longer_are_counted_and_those_of_the_same_class_are_not() {
        let latencies = Latencies::default();
        (0..950).for_each(|_| latencies.note(100_000));
        (0..50).for_each(|_| latencies.note(3_000_000));
        let seen = latencies.seen();
        assert_eq!([50_000, 100_000, 1_000_000, 3_000_000].map(|ns| seen.over_per_mille(ns)), [1_000, 50, 50, 0]);
        assert_eq!((Seen::default().over_per_mille(0), seen.over_per_mille(u64::MAX)), (0, 0));
    }

    #[test]
    fn what_came_between_two_looks_is_their_difference() {
        let latencies = Latencies::default();
        latencies.note(5_000_000);
        let before = latencies.seen();
        latencies.note(100_000);
        let between = latencies.seen().since(&before);
        assert_eq!(between.count(), 1);
        assert!(between.p99_ns() < 120_000);
    }

    proptest! {
        #[test]
        fn a_latency_lies_below_the_end_of_its_class_and_within_an_eighth_of_it(ns in 1_024..1u64 << 36) {
            let end = end_of(class_of(ns));
            prop_assert!(ns < end && end <= ns + ns / 8 + 1, "{ns} {end}");
        }

        #[test]
        fn any_latency_has_a_class(ns: u64) {
            prop_assert!(class_of(ns) < CLASSES);
        }
    }
}
