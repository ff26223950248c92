//! A window: a short stretch of one engine, and what it comes to.

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Latencies are kept in nanoseconds, from 1 ns to 60 s, to three significant digits.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// What was counted in a window.
#[derive(Debug)]
pub struct Window {
    latency: Histogram<u64>,
    elapsed: Duration,
    cpu: Duration,
}

/// What a window comes to, or the medians of several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Records per second of wall time.
    pub records_per_second: f64,
    /// Half of all appends took at most this long.
    pub p50_us: f64,
    /// 99 of 100 did.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// CPU time of the engine's process, its producers included, per record.
    pub cpu_us_per_record: f64,
}

impl Window {
    /// An empty window. Made before the clock starts: it allocates.
    pub fn new() -> Window {
        let latency = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("bounds that the library allows");
        Window { latency, elapsed: Duration::ZERO, cpu: Duration::ZERO }
    }

    /// Does `work` with the clocks running.
    ///
    /// # Errors
    /// What `work` answered.
    pub fn timed<E>(&mut self, work: impl FnOnce(&mut Window) -> Result<(), E>) -> Result<(), E> {
        let (started, cpu) = (Instant::now(), cpu_of_process());
        let result = work(self);
        self.elapsed += started.elapsed();
        self.cpu += cpu_of_process().saturating_sub(cpu);
        result
    }

    /// One append took this long.
    pub fn took(&mut self, latency: Duration) {
        self.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes over what another thread counted.
    pub fn absorb(&mut self, other: &Window) {
        self.latency.add(&other.latency).expect("all windows have the same bounds");
    }

    /// Records appended.
    pub fn records(&self) -> u64 {
        self.latency.len()
    }

    /// What it comes to.
    pub fn figures(&self) -> Figures {
        let records = self.records() as f64;
        let quantile = |quantile| self.latency.value_at_quantile(quantile) as f64 / 1e3;
        Figures {
            records_per_second: records / self.elapsed.as_secs_f64().max(1e-9),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            max_us: self.latency.max() as f64 / 1e3,
            cpu_us_per_record: self.cpu.as_secs_f64() * 1e6 / records.max(1.0),
        }
    }
}

impl Figures {
    /// The median of each figure. `None` of no rounds.
    pub fn medians(rounds: &[Figures]) -> Option<Figures> {
        let of = |figure: fn(&Figures) -> f64| median(rounds.iter().map(figure));
        Some(Figures {
            records_per_second: of(|round| round.records_per_second)?,
            p50_us: of(|round| round.p50_us)?,
            p99_us: of(|round| round.p99_us)?,
            max_us: of(|round| round.max_us)?,
            cpu_us_per_record: of(|round| round.cpu_us_per_record)?,
        })
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

fn cpu_of_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_one_in_the_middle_of_each_figure() {
        let figures = |rate, p99_us| Figures {
            records_per_second: rate,
            p50_us: 1.0,
            p99_us,
            max_us: 9.0,
            cpu_us_per_record: 2.0,
        };
        let medians = Figures::medians(&[figures(5.0, 30.0), figures(7.0, 10.0), figures(6.0, 90.0)]);
        assert_eq!(medians, Some(figures(6.0, 30.0)));
        assert_eq!(Figures::medians(&[figures(5.0, 30.0), figures(7.0, 10.0)]), Some(figures(6.0, 20.0)));
        assert_eq!(Figures::medians(&[]), None);
    }

    #[test]
    fn windows_of_threads_add_up() {
        let (mut all, mut one) = (Window::new(), Window::new());
        one.took(Duration::from_micros(100));
        all.took(Duration::from_micros(300));
        all.absorb(&one);
        assert_eq!(all.records(), 2);
        assert!((all.figures().p50_us - 100.0).abs() < 1.0 && (all.figures().max_us - 300.0).abs() < 1.0);
    }
}
