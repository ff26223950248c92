//! The percentile curve: latency over nines, so that the slowest one in a hundred has as much room as the other 99.

use crate::trace::{Chart, Point};
use maud::Markup;
use strandline_chart::{Drawing, Line, Mark, Scale};

/// The axis ends here, at 99.999 percent, with the slowest of all.
const NINES_MAX: f64 = 5.0;
/// Percentiles in between stop here, so that the slowest stands apart.
const NINES_TOLD: f64 = 4.5;

/// Draws the latencies of both sides. `None` where there are none.
pub fn percentiles(chart: &Chart) -> Option<Markup> {
    let (store, ceiling) = (told(&chart.store.curve), told(&chart.ceiling.curve));
    if store.is_empty() {
        return None;
    }
    let up = Scale::logarithmic(store.iter().chain(&ceiling).map(|point| point.us));
    let line = |class, name, curve: &[Point]| Line {
        class,
        name,
        points: curve.iter().map(|point| Some((place(point.nines), up.place(point.us)))).collect(),
        marked: true,
    };
    let mut lines = vec![line("store", "strandline", &store)];
    if !ceiling.is_empty() {
        lines.push(line("ceiling", "ceiling", &ceiling));
    }
    let marks = [(50.0, "50 %"), (90.0, "90 %"), (99.0, "99 %"), (99.9, "99.9 %"), (99.99, "99.99 %")];
    let mut across: Vec<Mark> = marks.map(|(percent, text)| mark(-(1.0f64 - percent / 100.0).log10(), text)).into();
    across.push(mark(NINES_MAX, "max"));
    let caption = "latency in microseconds by percentile, all rounds";
    Some(Drawing { class: "percentiles", caption, across, up, turns: Vec::new(), lines }.draw())
}

/// The part of a curve that the axis has room for, and its end.
fn told(curve: &[Point]) -> Vec<Point> {
    curve.iter().copied().filter(|point| point.nines <= NINES_TOLD || point.nines.is_infinite()).collect()
}

fn mark(nines: f64, text: &str) -> Mark {
    Mark { place: place(nines), text: text.to_owned() }
}

fn place(nines: f64) -> f64 {
    nines.min(NINES_MAX) / NINES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn every_percentile_of_the_axis_is_named_and_both_sides_are_drawn() {
        let drawn = percentiles(&example().charts[0]).expect("a curve").into_string();
        for text in ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "max", "strandline", "ceiling"] {
            assert!(drawn.contains(&format!(">{text}<")), "{text}");
        }
        assert_eq!(drawn.matches("<path").count(), 2);
    }
}
