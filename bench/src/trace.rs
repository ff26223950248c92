//! A trace: what of a case is drawn. The curve of one side's latencies, and its course over the rounds.

use crate::series::Slice;
use hdrhistogram::Histogram;

/// Points of a curve per power of ten: enough for a smooth line.
const POINTS_PER_NINE: u32 = 16;

/// A point of a percentile curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// How many nines: 1 is the 90th percentile, 2 the 99th. Infinite for the slowest of all.
    pub nines: f64,
    /// So many microseconds or less it took.
    pub us: f64,
}

/// What one side of a case is drawn from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Latencies by percentile, as far as there were operations to tell them; the slowest last. Empty without latencies.
    pub curve: Vec<Point>,
    /// The slices of each round.
    pub rounds: Vec<Vec<Slice>>,
}

/// What a case is drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The scenario.
    pub scenario: &'static str,
    /// The case.
    pub case: String,
    /// The store.
    pub store: Trace,
    /// The bare ring, in the same run.
    pub ceiling: Trace,
}

/// The percentiles of latencies in nanoseconds.
pub fn curve(latency: &Histogram<u64>) -> Vec<Point> {
    if latency.is_empty() {
        return Vec::new();
    }
    // With n operations nothing is known past the one that is the n-th part of all.
    let told = (latency.len() as f64).log10();
    let steps = (told * f64::from(POINTS_PER_NINE)).floor() as u32;
    let at = |nines: f64| latency.value_at_quantile(1.0 - 10f64.powf(-nines)) as f64 / 1e3;
    let nines = (0..=steps).map(|step| f64::from(step) / f64::from(POINTS_PER_NINE));
    let slowest = Point { nines: f64::INFINITY, us: latency.max() as f64 / 1e3 };
    nines.map(|nines| Point { nines, us: at(nines) }).chain([slowest]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_tells_no_more_than_there_was_to_see() {
        let mut latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
        assert_eq!(curve(&latency), []);
        (1..=1000).for_each(|micros| latency.saturating_record(micros * 1000));
        let points = curve(&latency);
        assert_eq!(points.len() as u32, 3 * POINTS_PER_NINE + 2);
        assert!(points.is_sorted_by(|one, next| one.us <= next.us && one.nines < next.nines));
        let at = |nines: f64| points.iter().find(|point| point.nines == nines).expect("a whole nine").us;
        assert!((at(1.0) / 900.0 - 1.0).abs() < 0.01 && (at(2.0) / 990.0 - 1.0).abs() < 0.01);
        assert!((points.last().expect("a last").us / 1000.0 - 1.0).abs() < 0.01);
    }
}
