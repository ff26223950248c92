//! A series: what each slice of a window came to, so that a stall is seen where it happened.

use hdrhistogram::Histogram;
use std::time::Duration;

/// How long a slice is: long enough for a p99, short enough that a stall of a few milliseconds does not drown in it.
pub const SLICE: Duration = Duration::from_millis(50);

/// Most slices that are kept. What comes later than this is in the window's figures, but in no chart.
const SLICES_MAX: usize = 4_800;

/// A slice needs no more than two leading digits of a latency, and counts no more than 32 bits hold.
const DIGITS: u8 = 1;

/// A slice of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// What ended in it, per second.
    pub per_second: f64,
    /// Of those, 99 of 100 took at most this many microseconds; absent when none ended.
    pub p99_us: Option<f64>,
}

/// The slices of a window, as they fill.
#[derive(Clone, Debug)]
pub struct Series {
    latency_ns_max: u64,
    slices: Vec<Histogram<u32>>,
}

impl Series {
    /// No slices yet. Latencies above `latency_ns_max` count as that.
    pub fn new(latency_ns_max: u64) -> Series {
        Series { latency_ns_max, slices: Vec::new() }
    }

    /// An operation ended at this time of the window and had taken so long.
    pub fn took(&mut self, at: Duration, latency_ns: u64) {
        let slice = (at.as_nanos() / SLICE.as_nanos()) as usize;
        if slice < SLICES_MAX {
            self.reach(slice + 1);
            self.slices[slice].saturating_record(latency_ns);
        }
    }

    /// Takes over what another thread saw in the same window.
    pub fn absorb(&mut self, other: &Series) {
        self.reach(other.slices.len());
        for (slice, seen) in self.slices.iter_mut().zip(&other.slices) {
            slice.add(seen).expect("all slices have the same bounds");
        }
    }

    /// What each slice of a window of this length came to. The last one reaches to the end of the window, and takes in
    /// what would be less than half a slice.
    pub fn slices(&self, length: Duration) -> Vec<Slice> {
        let whole = (length.as_secs_f64() / SLICE.as_secs_f64()).round() as usize;
        let count = whole.clamp(1, SLICES_MAX);
        let mut slices = self.slices.clone();
        if let Some(mut last) = (slices.len() > count).then(|| slices.split_off(count - 1)) {
            let mut merged = last.remove(0);
            last.iter().for_each(|rest| merged.add(rest).expect("all slices have the same bounds"));
            slices.push(merged);
        }
        let seconds_of = |at: usize| match at + 1 == count && count < SLICES_MAX {
            true => (length.as_secs_f64() - at as f64 * SLICE.as_secs_f64()).max(1e-3),
            false => SLICE.as_secs_f64(),
        };
        (0..count).map(|at| slice_of(slices.get(at), seconds_of(at))).collect()
    }

    fn reach(&mut self, slices: usize) {
        while self.slices.len() < slices {
            let slice = Histogram::new_with_bounds(1, self.latency_ns_max, DIGITS);
            self.slices.push(slice.expect("bounds that the library allows"));
        }
    }
}

fn slice_of(seen: Option<&Histogram<u32>>, seconds: f64) -> Slice {
    let seen = seen.filter(|seen| !seen.is_empty());
    Slice {
        per_second: seen.map_or(0.0, |seen| seen.len() as f64 / seconds),
        p99_us: seen.map(|seen| seen.value_at_quantile(0.99) as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 60_000_000_000;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_stall_is_a_slice_without_operations() {
        let mut series = Series::new(MAX);
        for millis in [0, 10, 160] {
            series.took(at(millis), 1_000_000);
        }
        let slices = series.slices(at(200));
        assert_eq!(slices.iter().map(|slice| slice.per_second.round()).collect::<Vec<_>>(), [40.0, 0.0, 0.0, 20.0]);
        assert!(slices[1].p99_us.is_none());
        let p99 = slices[3].p99_us.expect("one operation");
        assert!((p99 / 1000.0 - 1.0).abs() < 0.1, "{p99}");
    }

    #[test]
    fn the_last_slice_takes_in_what_is_left() {
        let mut series = Series::new(MAX);
        for millis in [40, 60, 110] {
            series.took(at(millis), 1_000);
        }
        let slices = series.slices(at(120));
        assert_eq!(slices.len(), 2);
        assert!((slices[1].per_second - 2.0 / 0.07).abs() < 0.01, "{slices:?}");
        assert_eq!(Series::new(MAX).slices(at(1)).len(), 1);
    }

    #[test]
    fn threads_add_up_slice_by_slice() {
        let (mut one, mut other) = (Series::new(MAX), Series::new(MAX));
        one.took(at(0), 1_000);
        other.took(at(0), 1_000);
        other.took(at(60), 1_000);
        one.absorb(&other);
        assert_eq!(one.slices(at(100)).iter().map(|slice| slice.per_second.round()).collect::<Vec<_>>(), [40.0, 20.0]);
    }
}
