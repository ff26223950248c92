//! Plot: a bar an engine for each workload, records per second, and a dot, the 99th percentile, as an image that shows itself in light and dark
//! pages.

use crate::report::Report;
use crate::rounds::Row;
use crate::workload::WORKLOADS;
use maud::{Markup, PreEscaped, html};
use strandline_chart::Scale;

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 12.0;
const NAMES: f64 = 190.0;
const BARS: f64 = 200.0;
/// Behind each bar stands its figure.
const FIGURE: f64 = 76.0;
const ROW: f64 = 20.0;
const CAPTION: f64 = 30.0;
const AXIS: f64 = 30.0;
const HEAD: f64 = 38.0;

/// Plain colours: not every viewer of images knows variables, or that a page may be dark.
const STYLE: &str = "
.paper { fill: #fdfdfb; }
text { fill: #68737d; font: 11px system-ui, sans-serif; }
text.caption { fill: #1d2329; font-size: 12.5px; }
.grid { stroke: #d9dee2; stroke-width: 1; }
rect.ours, circle.ours { fill: #0b63b5; }
rect.peer, circle.peer { fill: #b8600b; }
rect.struck, circle.struck { fill: #d9dee2; }
text.ours { fill: #0b63b5; font-weight: 600; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #14181c; }
  text { fill: #98a3ad; }
  text.caption { fill: #e3e7ea; }
  .grid { stroke: #333b42; }
  rect.ours, circle.ours { fill: #6cb2f5; }
  rect.peer, circle.peer { fill: #f0a04b; }
  rect.struck, circle.struck { fill: #333b42; }
  text.ours { fill: #6cb2f5; }
}
";

/// Draws a run.
pub fn draw(report: &Report) -> String {
    let title = format!("Durable appends, {} cores, medians of {} rounds", report.host.cores, report.rounds);
    let struck = Report::struck(report.syncs.as_deref());
    let blocks: Vec<(&str, Vec<&Row>)> = WORKLOADS.iter().map(|workload| block(report, workload.name)).collect();
    let blocks: Vec<_> = blocks.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
    let whole = HEAD + MARGIN + blocks.iter().map(|(_, rows)| height(rows)).sum::<f64>();
    let tops = blocks.iter().scan(HEAD, |top, (_, rows)| {
        let this = *top;
        *top += height(rows);
        Some(this)
    });
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {whole}")) width=(WIDTH) height=(whole)
            role="img" aria-label=(title) {
            style { (PreEscaped(STYLE)) }
            rect.paper width=(WIDTH) height=(whole) {}
            text.caption x=(MARGIN) y=(MARGIN + 10.0) { (title) }
            text x=(MARGIN) y=(MARGIN + 24.0) { (report.host.versions()) }
            @for ((name, rows), top) in blocks.iter().zip(tops) {
                g transform=(format!("translate({MARGIN} {top})")) { (drawn(name, rows, &struck)) }
            }
        }
    };
    markup.into_string()
}

fn block<'a>(report: &'a Report, name: &'static str) -> (&'static str, Vec<&'a Row>) {
    let mut rows: Vec<&Row> = report.rows.iter().filter(|row| row.workload == name).collect();
    rows.sort_by(|a, b| b.median.records_per_second.total_cmp(&a.median.records_per_second));
    (name, rows)
}

fn height(rows: &[&Row]) -> f64 {
    CAPTION + AXIS + ROW * rows.len() as f64
}

fn drawn(name: &str, rows: &[&Row], struck: &[&str]) -> Markup {
    let rate = Scale::from_zero(rows.iter().map(|row| row.median.records_per_second));
    let p99 = Scale::logarithmic(rows.iter().map(|row| row.median.p99_us / 1e3));
    let bottom = CAPTION + ROW * rows.len() as f64;
    let (left, right) = (NAMES, NAMES + BARS + FIGURE);
    html! {
        text.caption x="0" y="20" { (name) }
        text x=(left) y="20" { "records/s" }
        text x=(right) y="20" { "p99, ms (logarithmic)" }
        (axis(&rate, left, bottom)) (axis(&p99, right, bottom))
        @for (place, row) in rows.iter().enumerate() {
            @let top = CAPTION + ROW * place as f64;
            @let class = class(row, struck);
            text class=(class) x="0" y=(top + 13.0) { (row.engine) ", " (row.producers) }
            (bar(class, left, top, rate.place(row.median.records_per_second), &short(row.median.records_per_second)))
            (dot(class, right, top, p99.place(row.median.p99_us / 1e3), &format!("{:.2}", row.median.p99_us / 1e3)))
        }
    }
}

fn class(row: &Row, struck: &[&str]) -> &'static str {
    match (row.is_ours, struck.contains(&row.engine)) {
        (_, true) => "struck",
        (true, _) => "ours",
        _ => "peer",
    }
}

fn axis(scale: &Scale, left: f64, bottom: f64) -> Markup {
    html! {
        @for mark in scale.marks() {
            @let at = rounded(left + mark.place * BARS);
            line.grid x1=(at) x2=(at) y1=(CAPTION - 2.0) y2=(bottom) {}
            text x=(at) y=(bottom + 14.0) text-anchor="middle" { (mark.text) }
        }
    }
}

fn bar(class: &str, left: f64, top: f64, part: f64, figure: &str) -> Markup {
    let width = rounded((part * BARS).max(1.0));
    html! {
        rect class=(class) x=(left) y=(top + 3.0) width=(width) height=(ROW - 6.0) {}
        text x=(rounded(left + width + 5.0)) y=(top + 13.0) { (figure) }
    }
}

/// A bar would begin nowhere on a logarithmic axis.
fn dot(class: &str, left: f64, top: f64, part: f64, figure: &str) -> Markup {
    let at = rounded(left + part * BARS);
    html! {
        circle class=(class) cx=(at) cy=(top + ROW / 2.0 - 1.0) r="4.5" {}
        text x=(rounded(at + 9.0)) y=(top + 13.0) { (figure) }
    }
}

fn short(rate: f64) -> String {
    if rate >= 10_000.0 { format!("{:.0}k", rate / 1e3) } else { format!("{:.1}k", rate / 1e3) }
}

fn rounded(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_its_bars_and_one_that_is_struck_is_seen_to_be() {
        let image = draw(&crate::report::tests::example());
        assert!(image.starts_with("<svg xmlns="));
        let count =
            |class: &str| ["rect", "circle"].map(|mark| image.matches(&format!("<{mark} class=\"{class}\"")).count());
        assert_eq!([count("ours"), count("peer"), count("struck")], [[1, 1]; 3]);
        assert!(image.contains("strandline, 64 threads") && image.contains("1500k"));
    }
}
