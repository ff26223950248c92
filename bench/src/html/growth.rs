//! Growth: how what a store costs grows with its logs.

use crate::metrics::Metric;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::scenario::ten_thousand::CASES;
use maud::{Markup, html};
use strandline_chart::{Drawing, Line, Scale};

/// What is drawn, and what it says above it.
const CURVES: [(Metric, &str); 5] = [
    (Metric::P50, "append to any log, p50 in microseconds, by logs"),
    (Metric::Rss, "resident MiB, by logs"),
    (Metric::OpenClean, "opening after a close, in milliseconds, by logs"),
    (Metric::Open, "opening after kill -9, in milliseconds, by logs, at most 1,000 of them dirty"),
    (Metric::Close, "closing, in milliseconds, by logs"),
];

/// Draws the curves; nothing where the stores were not measured.
pub fn section(report: &Report) -> Markup {
    let curves: Vec<Markup> = CURVES.iter().filter_map(|(metric, caption)| curve(report, *metric, caption)).collect();
    html! {
        @if !curves.is_empty() {
            section id="growth" {
                h2 { "Growth with the number of logs" }
                div.charts { @for curve in curves { (curve) } }
            }
        }
    }
}

fn curve(report: &Report, metric: Metric, caption: &str) -> Option<Markup> {
    let figures = points(report, metric);
    if figures.len() < 2 {
        return None;
    }
    let sideways = Scale::logarithmic(figures.iter().map(|(logs, _)| *logs));
    let up = Scale::logarithmic(figures.iter().map(|(_, figure)| *figure));
    let points = figures.iter().map(|(logs, figure)| Some((sideways.place(*logs), up.place(*figure)))).collect();
    let line = Line { class: "store", name: "strandline", points, marked: true };
    let across = sideways.marks();
    Some(Drawing { class: "growth", caption, across, up, turns: Vec::new(), lines: vec![line] }.draw())
}

/// Logs and figure of each store, the smallest first; of several cases of one store the first.
fn points(report: &Report, metric: Metric) -> Vec<(f64, f64)> {
    let of_case = |name: &str| {
        let mut rows = report.results.iter().filter(|row| row.scenario == Scenario::TenThousand.name());
        rows.find(|row| row.case == name && row.metric == metric).map(|row| row.value)
    };
    let mut points: Vec<(f64, f64)> =
        CASES.iter().filter_map(|case| Some((case.logs as f64, of_case(case.name)?))).collect();
    points.dedup_by_key(|(logs, _)| *logs);
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_store_of_each_size_is_a_point_and_a_run_without_them_draws_nothing() {
        let mut report = example();
        assert_eq!(section(&report).into_string(), "");
        let template = report.results[0].clone();
        for (place, case) in CASES.iter().enumerate() {
            let mut row = template.clone();
            (row.scenario, row.case) = (Scenario::TenThousand.name(), case.name.to_owned());
            (row.metric, row.value) = (Metric::Open, 10.0 + place as f64);
            report.results.push(row);
        }
        let expected = [(1.0, 10.0), (10.0, 11.0), (100.0, 12.0), (1_000.0, 13.0), (10_000.0, 14.0)];
        assert_eq!(points(&report, Metric::Open), expected);
        let drawn = section(&report).into_string();
        assert_eq!((drawn.matches("<path").count(), drawn.matches("class=\"growth\"").count()), (1, 1));
    }
}
