//! The table that a run prints.

use crate::report::{Report, Row};
use std::fmt::Write;

const HEADINGS: [&str; 6] = ["metric", "strandline", "ceiling", "ratio", "target", ""];

/// Renders a report: a block per case, a line per metric.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    for case in report.cases() {
        let lines: Vec<[String; 6]> =
            std::iter::once(HEADINGS.map(String::from)).chain(case.iter().map(cells)).collect();
        let _ = writeln!(text, "\n{}, {}", case[0].scenario, case[0].case);
        for line in &lines {
            let _ = writeln!(text, "{}", aligned(line, &widths(&lines)).trim_end());
        }
    }
    text
}

fn cells(row: &Row) -> [String; 6] {
    let ceiling = row.ceiling.map_or_else(|| "-".into(), figure);
    let ratio = row.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
    let target = row.target.map_or_else(String::new, |target| target.to_string());
    let verdict = match row.met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    };
    [row.metric.to_string(), figure(row.value), ceiling, ratio, target, verdict.into()]
}

/// Three significant digits where there is a fraction, and whole numbers from 100 on, in groups of three.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn widths(lines: &[[String; 6]]) -> [usize; 6] {
    std::array::from_fn(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0))
}

/// Names to the left, figures to the right.
fn aligned(line: &[String; 6], widths: &[usize; 6]) -> String {
    let mut text = String::new();
    for (column, (cell, &width)) in line.iter().zip(widths).enumerate() {
        let _ = match column {
            1..=3 => write!(text, "  {cell:>width$}"),
            _ => write!(text, "  {cell:<width$}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_each_figure_beside_its_ceiling_and_its_target() {
        let expected = "
append-latency, 1 KiB
  metric   strandline  ceiling  ratio  target
  p50_us          120      104   1.15  <= 1.2 x  met
  p99_us          400      200   2.00  <= 1.3 x  MISSED
  rss_mib        12.5        -      -
";
        assert_eq!(render(&crate::report::tests::example()), expected);
    }

    #[test]
    fn figures_keep_the_digits_that_matter() {
        let shown = [0.123, 9.994, 10.04, 123.4, 1234.0, 1_234_567.0].map(figure);
        assert_eq!(shown, ["0.12", "9.99", "10.0", "123", "1,234", "1,234,567"]);
    }
}
