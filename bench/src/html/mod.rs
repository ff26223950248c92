//! The page: the report for people. One file with everything in it: no script, nothing loaded from anywhere.

mod growth;
mod latency;
mod series;

use crate::host::Host;
use crate::report::{Report, Row};
use crate::table::figure;
use crate::trace::Chart;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// Renders a report.
pub fn page(report: &Report) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Strandline: " (report.host.date) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Strandline" }
                    p { "What the store did, beside what a bare ring did on the same disk in the same run." }
                    p.facts { (report.host.date) ", commit " code { (report.commit) } }
                }
                main { (summary(report)) (cases(report)) (growth::section(report)) (host(&report.host)) }
            }
        }
    };
    markup.into_string()
}

fn summary(report: &Report) -> Markup {
    let (aimed, missed): (usize, Vec<&Row>) = (report.aimed(), report.missed().collect());
    html! {
        section id="summary" {
            h2 { "Summary" }
            p.verdict { (aimed - missed.len()) " of " (aimed) " targets met" }
            @for warning in report.host.warnings() { p.warning { (warning) } }
            @if !missed.is_empty() {
                h3 { "Missed" }
                ul { @for row in missed { li {
                    a href={ "#" (anchor(row.scenario, &row.case)) } { (row.scenario) ", " (row.case) }
                    ": " (row.metric.name()) " " (figure(row.value))
                    @if let Some(ratio) = row.ratio { " (" (format!("{ratio:.2}")) " x)" }
                    @if let Some(target) = row.target { ", wanted " (target.to_string()) }
                } } }
            }
        }
    }
}

/// A block per case: its figures, and its charts where it has any.
fn cases(report: &Report) -> Markup {
    html! {
        @for rows in report.cases() {
            @let (scenario, case) = (rows[0].scenario, rows[0].case.as_str());
            section id=(anchor(scenario, case)) {
                h2 { (scenario) ", " (case) }
                (table(rows))
                @if let Some(chart) = report.chart(scenario, case) { (charts(chart)) }
            }
        }
    }
}

fn table(rows: &[Row]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "metric" } th.number { "strandline" } th.number { "ceiling" } th.number { "ratio" }
                th { "target" } th { "met" }
            } }
            tbody { @for row in rows { tr {
                td { (row.metric.name()) }
                td.number { (figure(row.value)) }
                td.number { @if let Some(ceiling) = row.ceiling { (figure(ceiling)) } }
                td.number { @if let Some(ratio) = row.ratio { (format!("{ratio:.2}")) } }
                td { @if let Some(target) = row.target { (target.to_string()) } }
                @match row.met {
                    Some(true) => { td.met { "met" } }
                    Some(false) => { td.missed { "missed" } }
                    None => { td {} }
                }
            } } }
        } }
    }
}

fn charts(chart: &Chart) -> Markup {
    html! {
        div.charts {
            @if let Some(drawn) = latency::percentiles(chart) { (drawn) }
            @if let Some(drawn) = series::p99(chart) { (drawn) }
            @if let Some(drawn) = series::throughput(chart) { (drawn) }
        }
    }
}

fn host(host: &Host) -> Markup {
    let capabilities = serde_json::to_string_pretty(&host.capabilities).unwrap_or_default();
    html! {
        section id="host" {
            h2 { "Host" }
            dl { @for (name, value) in host.facts() { dt { (name) } dd { (value) } } }
            h3 { "What the store found when it opened" }
            pre { (capabilities) }
        }
    }
}

/// The name of a case's block in the page: letters, digits and dashes.
fn anchor(scenario: &str, case: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    format!("{scenario}-{case}").chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    /// What HTML closes by itself.
    const VOID: [&str; 1] = ["meta"];

    /// The elements of a page in order, after checking that each is closed where it must be.
    fn elements(page: &str) -> Vec<&str> {
        let (mut open, mut seen, mut rest) = (Vec::new(), Vec::new(), page);
        while let Some(at) = rest.find(['<', '>']) {
            assert!(rest[at..].starts_with('<'), "a stray > before {:.60}", &rest[at..]);
            let end = at + rest[at..].find('>').expect("a tag ends");
            let tag = &rest[at + 1..end];
            assert!(!tag.contains('<'), "a stray < in {tag}");
            assert!(tag.matches('"').count().is_multiple_of(2), "an open quote in {tag}");
            let name = tag.split([' ', '/']).find(|word| !word.is_empty()).expect("a name");
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "closed out of turn");
            } else if name != "!DOCTYPE" {
                seen.push(name);
                if !VOID.contains(&name) {
                    open.push(name);
                }
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "never closed: {open:?}");
        seen
    }

    #[test]
    fn a_page_is_well_formed_and_shows_every_row_and_a_curve_per_case() {
        let report = example();
        let page = page(&report);
        let seen = elements(&page);
        let count = |name: &str| seen.iter().filter(|element| **element == name).count();
        assert_eq!(count("tbody"), report.charts.len());
        assert_eq!(count("tr"), report.results.len() + report.charts.len());
        assert_eq!(page.matches("class=\"percentiles\"").count(), report.charts.len());
        assert_eq!(count("svg"), 3 * report.charts.len());
        assert!(page.contains("1 of 2 targets met") && page.contains("wanted &lt;= "));
    }

    #[test]
    fn a_page_loads_nothing_and_runs_nothing() {
        let page = page(&example());
        let seen = elements(&page);
        for name in ["script", "link", "img", "iframe", "object", "use", "image"] {
            assert!(!seen.contains(&name), "{name}");
        }
        for text in ["http", "url(", "@import", "src="] {
            assert!(!page.contains(text), "{text}");
        }
    }

    #[test]
    fn what_comes_from_outside_is_text() {
        let evil = "</pre><script>\"&'";
        let mut report = example();
        report.commit = evil.into();
        report.host.cpu = evil.into();
        report.host.mount_options = vec![evil.into()];
        report.host.capabilities = serde_json::json!({ "reason": evil });
        report.results[0].case = evil.into();
        let page = page(&report);
        assert!(!elements(&page).contains(&"script"));
        assert!(page.matches("&lt;/pre&gt;&lt;script&gt;").count() >= 5);
    }
}
