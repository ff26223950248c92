//! The report: what was measured, beside its ceiling and its target.

use crate::host::Host;
use crate::metrics::{Measurement, Metric};
use crate::rounds::Outcome;
use crate::targets::{Target, Targets};
use crate::trace::Chart;
use serde::Serialize;

/// A measurement, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The scenario.
    pub scenario: &'static str,
    /// The case.
    pub case: String,
    /// What was measured.
    pub metric: Metric,
    /// What the store did.
    pub value: f64,
    /// What the bare ring did in the same run.
    pub ceiling: Option<f64>,
    /// value / ceiling.
    pub ratio: Option<f64>,
    /// What was asked for.
    pub target: Option<Target>,
    /// Whether it was met; absent without a target.
    pub met: Option<bool>,
}

impl Row {
    fn judge(measurement: Measurement, targets: &Targets) -> Row {
        let Measurement { scenario, case, metric, value, ceiling } = measurement;
        let ratio = ceiling.filter(|&ceiling| ceiling != 0.0).map(|ceiling| value / ceiling);
        let target = targets.of(scenario, &case, metric);
        let met = target.map(|target| target.met(value, ratio));
        Row { scenario, case, metric, value, ceiling, ratio, target, met }
    }
}

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub host: Host,
    /// The git commit of the sources, with `-dirty` when they had changes.
    pub commit: String,
    /// A row a metric.
    pub results: Vec<Row>,
    /// What the page draws. Scripts read figures.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

impl Report {
    /// Holds what was measured against the targets.
    pub fn new(host: Host, commit: String, outcomes: Vec<Outcome>, targets: &Targets) -> Report {
        let (mut results, mut charts) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            results.extend(outcome.measurements.into_iter().map(|measurement| Row::judge(measurement, targets)));
            charts.push(outcome.chart);
        }
        Report { host, commit, results, charts }
    }

    /// The rows of each case together.
    pub fn cases(&self) -> impl Iterator<Item = &[Row]> {
        self.results.chunk_by(|a, b| (a.scenario, &a.case) == (b.scenario, &b.case))
    }

    /// What is drawn of a case.
    pub fn chart(&self, scenario: &str, case: &str) -> Option<&Chart> {
        self.charts.iter().find(|chart| chart.scenario == scenario && chart.case == case)
    }

    /// Rows whose target was missed.
    pub fn missed(&self) -> impl Iterator<Item = &Row> {
        self.results.iter().filter(|row| row.met == Some(false))
    }

    /// Rows that have a target.
    pub fn aimed(&self) -> usize {
        self.results.iter().filter(|row| row.target.is_some()).count()
    }

    /// As JSON, for `--json`.
    ///
    /// # Errors
    /// A figure that JSON cannot carry.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::series::Slice;
    use crate::trace::{Point, Trace};

    /// One row met, one missed, one without ceiling and target; a chart.
    pub(crate) fn example() -> Report {
        let measured = |metric, value, ceiling| Measurement {
            scenario: "append-latency",
            case: "1 KiB".into(),
            metric,
            value,
            ceiling,
        };
        let targets = Targets::load(&Scenario::ALL.map(Scenario::name)).expect("bench/targets.toml");
        let measurements = vec![
            measured(Metric::P50, 120.04, Some(104.0)),
            measured(Metric::P99, 400.0, Some(200.0)),
            measured(Metric::Rss, 12.5, None),
        ];
        let side = |us: f64| Trace {
            curve: [0.0, 1.0, 2.0, f64::INFINITY].map(|nines| Point { nines, us: us * (1.0 + nines.min(3.0)) }).into(),
            rounds: vec![vec![Slice { per_second: 1e6 / us, p99_us: Some(3.0 * us) }; 4]; 2],
        };
        let chart =
            Chart { scenario: "append-latency", case: "1 KiB".into(), store: side(120.0), ceiling: side(104.0) };
        Report::new(Host::default(), "abc".into(), vec![Outcome { measurements, chart }], &targets)
    }

    #[test]
    fn a_row_is_judged_by_its_ratio() {
        let report = example();
        assert_eq!(report.results[0].met, Some(true));
        assert_eq!(report.results[1].ratio, Some(2.0));
        assert_eq!(report.missed().map(|row| row.metric).collect::<Vec<_>>(), [Metric::P99]);
        assert_eq!(report.aimed(), 2);
    }

    #[test]
    fn the_json_has_the_shape_that_scripts_read() {
        let json: serde_json::Value = serde_json::from_str(&example().to_json().expect("json")).expect("json");
        let keys = |value: &serde_json::Value| {
            value.as_object().expect("an object").keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(keys(&json), ["host", "commit", "results"].map(String::from).into());
        let row = &json["results"][1];
        let fields = ["scenario", "case", "metric", "value", "ceiling", "ratio", "target", "met"];
        assert_eq!(keys(row), fields.map(String::from).into());
        assert_eq!(row["metric"], "p99_us");
        assert_eq!(row["target"]["ratio_max"], 1.3);
        assert_eq!(row["met"], false);
        assert!(json["results"][2]["ceiling"].is_null() && json["results"][2]["met"].is_null());
    }
}
