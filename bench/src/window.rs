//! A window: a short stretch of one side (the store or its ceiling), and what it comes to.

use crate::metrics::Metric;
use crate::series::{Series, Slice};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Latencies are kept in nanoseconds, from 1 ns to 60 s, to three significant digits.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Figures by metric.
pub type Figures = BTreeMap<Metric, f64>;

/// A histogram of latencies in nanoseconds, as every window has one.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("bounds that the library allows")
}

/// What was counted in a window.
#[derive(Clone, Debug)]
pub struct Window {
    latency: Histogram<u64>,
    series: Series,
    resumed: Instant,
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
        let (latency, series) = (latencies(), Series::new(LATENCY_NS_MAX));
        let (resumed, elapsed, cpu) = (Instant::now(), Duration::ZERO, Duration::ZERO);
        Window { latency, series, resumed, elapsed, cpu, records: 0, bytes: 0, commits: 0, enters: 0 }
    }

    /// A window for another thread that works in the next stretch of this one, whose time goes on from here.
    pub fn helper(&self) -> Window {
        Window { elapsed: self.elapsed, ..Window::new() }
    }

    /// Does `work` with the clocks running. Several stretches add up.
    ///
    /// # Errors
    /// What `work` answered.
    pub fn timed<E>(&mut self, work: impl FnOnce(&mut Window) -> Result<(), E>) -> Result<(), E> {
        let (started, cpu) = (Instant::now(), cpu_of_process());
        self.resumed = started;
        let result = work(self);
        self.elapsed += started.elapsed();
        self.cpu += cpu_of_process().saturating_sub(cpu);
        result
    }

    /// One operation has just ended and took this long.
    pub fn took(&mut self, latency: Duration) {
        self.took_until(Instant::now(), latency);
    }

    /// One operation ended at `end` and took this long: for whoever has looked at the clock already.
    pub fn took_until(&mut self, end: Instant, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record(latency_ns);
        self.series.took(self.elapsed + end.saturating_duration_since(self.resumed), latency_ns);
    }

    /// Takes over what another thread counted. Its clocks are not added: the threads ran side by side.
    pub fn absorb(&mut self, other: &Window) {
        self.latency.add(&other.latency).expect("all windows have the same bounds");
        self.series.absorb(&other.series);
        self.records += other.records;
        self.bytes += other.bytes;
    }

    /// Forgets the CPU time: the process did more meanwhile than this window tells of.
    pub fn without_cpu(mut self) -> Window {
        self.cpu = Duration::ZERO;
        self
    }

    /// Its latencies.
    pub fn latency(&self) -> &Histogram<u64> {
        &self.latency
    }

    /// Its course, in records: an operation of one side may move as many as many operations of the other.
    pub fn slices(&self) -> Vec<Slice> {
        let records_per_operation = self.records as f64 / self.latency.len().max(1) as f64;
        let in_records = |slice: Slice| Slice { per_second: slice.per_second * records_per_operation, ..slice };
        self.series.slices(self.elapsed).into_iter().map(in_records).collect()
    }

    /// The share of one core that the whole process used.
    pub fn cores(&self) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
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
        }
        if self.records > 0 && !self.cpu.is_zero() {
            figures.insert(Metric::CpuPerRecord, self.cpu.as_secs_f64() * 1e6 / self.records as f64);
        }
        if self.commits > 0 && self.enters > 0 {
            figures.insert(Metric::SyscallsPerCommit, self.enters as f64 / self.commits as f64);
        }
        if self.commits > 0 {
            figures.insert(Metric::RecordsPerCommit, self.records as f64 / self.commits as f64);
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
    fn a_course_is_told_in_records() {
        let mut window = Window::new();
        window.took(Duration::from_micros(7));
        window.took(Duration::from_micros(7));
        (window.records, window.elapsed) = (20, Duration::from_millis(50));
        let slices = window.slices();
        assert_eq!((slices.len(), slices[0].per_second.round()), (1, 400.0));
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
}
