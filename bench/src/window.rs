//! A window: a short stretch of one side (the store or its ceiling), and what it comes to. Rounds: all windows of a case.

use crate::metrics::{Measurement, Metric};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Latencies are kept in nanoseconds, from 1 ns to 60 s, to three significant digits.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Figures by metric.
pub type Figures = BTreeMap<Metric, f64>;

/// What was counted in a window.
#[derive(Clone, Debug)]
pub struct Window {
    latency: Histogram<u64>,
    elapsed: Duration,
    cpu: Duration,
    /// Records moved.
    pub records: u64,
    /// Payload bytes moved.
    pub bytes: u64,
    /// Commits made durable.
    pub commits: u64,
    /// Calls of `io_uring_enter` for them.
    pub enters: u64,
}

impl Window {
    /// An empty window. Made before the clock starts: it allocates.
    pub fn new() -> Window {
        let latency = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("bounds that the library allows");
        let (elapsed, cpu) = (Duration::ZERO, Duration::ZERO);
        Window { latency, elapsed, cpu, records: 0, bytes: 0, commits: 0, enters: 0 }
    }

    /// Does `work` with the clocks running. Several stretches add up.
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

    /// One operation took this long.
    pub fn took(&mut self, latency: Duration) {
        self.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes over what another thread counted. Its clocks are not added: the threads ran side by side.
    pub fn absorb(&mut self, other: &Window) {
        self.latency.add(&other.latency).expect("all windows have the same bounds");
        self.records += other.records;
        self.bytes += other.bytes;
    }

    /// What it comes to.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::new();
        let quantile = |quantile| self.latency.value_at_quantile(quantile) as f64 / 1e3;
        if !self.latency.is_empty() {
            figures.insert(Metric::P50, quantile(0.5));
            figures.insert(Metric::P99, quantile(0.99));
            figures.insert(Metric::P999, quantile(0.999));
            figures.insert(Metric::Max, self.latency.max() as f64 / 1e3);
        }
        if self.records > 0 {
            let seconds = self.elapsed.as_secs_f64();
            figures.insert(Metric::RecordsPerSecond, self.records as f64 / seconds);
            figures.insert(Metric::MibPerSecond, mib(self.bytes) / seconds);
            figures.insert(Metric::CpuPerRecord, self.cpu.as_secs_f64() * 1e6 / self.records as f64);
        }
        if self.commits > 0 {
            figures.insert(Metric::SyscallsPerCommit, self.enters as f64 / self.commits as f64);
        }
        figures
    }
}

/// Bytes as MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// CPU time of all threads of this process, those that the kernel runs for its rings included.
fn cpu_of_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The rounds of one case: store and ceiling in turn.
#[derive(Debug, Default)]
pub struct Rounds {
    store: Vec<Figures>,
    ceiling: Vec<Figures>,
}

impl Rounds {
    /// Adds a round.
    pub fn add(&mut self, store: Figures, ceiling: Figures) {
        self.store.push(store);
        self.ceiling.push(ceiling);
    }

    /// A measurement for each metric that the store has a figure for, in the order of [`Metric::ALL`].
    pub fn measurements(&self, scenario: &'static str, case: &str) -> Vec<Measurement> {
        let figure = |rounds: &[Figures], metric: Metric| {
            metric.summary().of(rounds.iter().filter_map(|figures| figures.get(&metric).copied()))
        };
        let measurement = |metric| {
            let (value, ceiling) = (figure(&self.store, metric)?, figure(&self.ceiling, metric));
            Some(Measurement { scenario, case: case.to_owned(), metric, value, ceiling })
        };
        Metric::ALL.into_iter().filter_map(measurement).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_tells_its_percentiles_to_three_digits() {
        let mut window = Window::new();
        for micros in 1..=1000 {
            window.took(Duration::from_micros(micros));
        }
        let figures = window.figures();
        for (metric, expected) in [(Metric::P50, 500.0), (Metric::P99, 990.0), (Metric::Max, 1000.0)] {
            assert!((figures[&metric] / expected - 1.0).abs() < 0.001, "{metric}: {}", figures[&metric]);
        }
        assert!(!figures.contains_key(&Metric::SyscallsPerCommit), "nothing was committed");
    }

    #[test]
    fn stretches_and_threads_add_up() {
        let mut window = Window::new();
        let mut helper = Window::new();
        helper.took(Duration::from_micros(7));
        (helper.records, helper.bytes) = (1, 1 << 20);
        for _ in 0..2 {
            let slept = window.timed(|window| {
                std::thread::sleep(Duration::from_millis(5));
                window.absorb(&helper);
                Ok::<(), std::convert::Infallible>(())
            });
            slept.expect("cannot fail");
        }
        let figures = window.figures();
        assert_eq!(window.records, 2);
        assert!(figures[&Metric::MibPerSecond] <= 2.0 / 0.01 && figures[&Metric::MibPerSecond] > 1.0);
    }

    #[test]
    fn a_case_is_the_medians_of_its_rounds_and_the_worst_of_its_worst() {
        let figures = |p99, max| Figures::from([(Metric::P99, p99), (Metric::Max, max)]);
        let mut rounds = Rounds::default();
        rounds.add(figures(3.0, 90.0), figures(1.0, 10.0));
        rounds.add(figures(30.0, 40.0), figures(2.0, 20.0));
        rounds.add(figures(4.0, 50.0), figures(9.0, 30.0));
        let measured = rounds.measurements("read-cold", "1 reader");
        let told: Vec<_> = measured.iter().map(|m| (m.metric, m.value, m.ceiling)).collect();
        assert_eq!(told, [(Metric::P99, 4.0, Some(2.0)), (Metric::Max, 90.0, Some(30.0))]);
    }
}
