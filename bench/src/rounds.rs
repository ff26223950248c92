//! Rounds: all windows of a case, store and ceiling in turn, and the figures and the chart that they become.

use crate::metrics::{Measurement, Metric};
use crate::trace::{self, Chart, Trace};
use crate::window::{Figures, Window, latencies};
use hdrhistogram::Histogram;

/// What a case came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// A figure a metric.
    pub measurements: Vec<Measurement>,
    /// What is drawn of it.
    pub chart: Chart,
}

/// The rounds of one case: store and ceiling in turn.
#[derive(Debug, Default)]
pub struct Rounds {
    store: Side,
    ceiling: Side,
}

/// All rounds of one side.
#[derive(Debug, Default)]
struct Side {
    figures: Vec<Figures>,
    latency: Option<Histogram<u64>>,
    trace: Trace,
}

impl Rounds {
    /// Adds what the store did in a round, with figures that only the scenario knows.
    pub fn store(&mut self, window: &Window, further: Figures) {
        self.store.add(window, further);
    }

    /// Adds what the ceiling did in a round, with figures that only the scenario knows.
    pub fn ceiling(&mut self, window: &Window, further: Figures) {
        self.ceiling.add(window, further);
    }

    /// A measurement for each metric that the store has a figure for, in the order of [`Metric::ALL`], and the chart.
    pub fn outcome(self, scenario: &'static str, case: &str) -> Outcome {
        let measurement = |metric| {
            let (value, ceiling) = (self.store.figure(metric)?, self.ceiling.figure(metric));
            Some(Measurement { scenario, case: case.to_owned(), metric, value, ceiling })
        };
        let measurements = Metric::ALL.into_iter().filter_map(measurement).collect();
        let (store, ceiling) = (self.store.traced(), self.ceiling.traced());
        Outcome { measurements, chart: Chart { scenario, case: case.to_owned(), store, ceiling } }
    }
}

impl Side {
    fn add(&mut self, window: &Window, further: Figures) {
        let mut figures = window.figures();
        figures.extend(further);
        self.figures.push(figures);
        let latency = self.latency.get_or_insert_with(latencies);
        latency.add(window.latency()).expect("all windows have the same bounds");
        self.trace.rounds.push(window.slices());
    }

    fn figure(&self, metric: Metric) -> Option<f64> {
        metric.summary().of(self.figures.iter().filter_map(|figures| figures.get(&metric).copied()))
    }

    fn traced(self) -> Trace {
        Trace { curve: self.latency.as_ref().map(trace::curve).unwrap_or_default(), ..self.trace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_case_is_the_medians_of_its_rounds_and_the_worst_of_its_worst() {
        let figures = |p99, max| Figures::from([(Metric::P99, p99), (Metric::Max, max)]);
        let mut rounds = Rounds::default();
        for (store, ceiling) in [((3.0, 90.0), (1.0, 10.0)), ((30.0, 40.0), (2.0, 20.0)), ((4.0, 50.0), (9.0, 30.0))] {
            rounds.store(&Window::new(), figures(store.0, store.1));
            rounds.ceiling(&Window::new(), figures(ceiling.0, ceiling.1));
        }
        let measured = rounds.outcome("read-cold", "1 reader").measurements;
        let told: Vec<_> = measured.iter().map(|m| (m.metric, m.value, m.ceiling)).collect();
        assert_eq!(told, [(Metric::P99, 4.0, Some(2.0)), (Metric::Max, 90.0, Some(30.0))]);
    }

    #[test]
    fn a_chart_has_the_latencies_of_all_rounds_and_the_course_of_each() {
        let mut rounds = Rounds::default();
        for micros in [10, 20] {
            let mut window = Window::new();
            let done: Result<(), ()> = window.timed(|window| {
                window.took(Duration::from_micros(micros));
                Ok(())
            });
            done.expect("cannot fail");
            rounds.store(&window, Figures::new());
        }
        let chart = rounds.outcome("read-cold", "1 reader").chart;
        assert_eq!(chart.store.rounds.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        let us: Vec<f64> = chart.store.curve.iter().map(|point| point.us.round()).collect();
        assert_eq!((us.first(), us.last()), (Some(&10.0), Some(&20.0)));
        assert_eq!(chart.ceiling, Trace::default());
    }
}
