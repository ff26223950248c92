//! The course of a case: slice by slice over all rounds of both sides, so that a stall is seen.

use crate::series::{SLICE, Slice};
use crate::trace::{Chart, Trace};
use maud::Markup;
use strandline_chart::{Drawing, Line, Scale};

/// Draws the p99 of each slice. `None` where there are no latencies.
pub fn p99(chart: &Chart) -> Option<Markup> {
    let figures = |trace: &Trace| all(trace).filter_map(|slice| slice.p99_us).collect::<Vec<_>>();
    let (store, ceiling) = (figures(&chart.store), figures(&chart.ceiling));
    if store.is_empty() {
        return None;
    }
    let up = Scale::logarithmic(store.into_iter().chain(ceiling));
    let caption = format!("p99 in microseconds of each {} ms, over the rounds", SLICE.as_millis());
    Some(course(chart, "p99", &caption, up, |slice| slice.p99_us))
}

/// Draws the records per second of each slice. `None` where there were none.
pub fn throughput(chart: &Chart) -> Option<Markup> {
    all(&chart.store).find(|slice| slice.per_second > 0.0)?;
    let up = Scale::from_zero(all(&chart.store).chain(all(&chart.ceiling)).map(|slice| slice.per_second));
    let caption = format!("records per second in each {} ms, over the rounds", SLICE.as_millis());
    Some(course(chart, "throughput", &caption, up, |slice| Some(slice.per_second)))
}

fn all(trace: &Trace) -> impl Iterator<Item = &Slice> {
    trace.rounds.iter().flatten()
}

/// Both sides, one behind the other in time but drawn over each other, round upon round.
fn course(
    chart: &Chart,
    class: &'static str,
    caption: &str,
    up: Scale,
    figure: impl Fn(&Slice) -> Option<f64>,
) -> Markup {
    let widths = widths(chart);
    let total = widths.iter().sum::<usize>().max(1) as f64;
    let line = |class, name, trace: &Trace| Line {
        class,
        name,
        points: points(trace, &widths, |at, slice| figure(slice).map(|figure| (at / total, up.place(figure)))),
        marked: false,
    };
    let mut lines = vec![line("store", "strandline", &chart.store)];
    if all(&chart.ceiling).next().is_some() {
        lines.push(line("ceiling", "ceiling", &chart.ceiling));
    }
    let ends = widths.iter().scan(0, |end, width| {
        *end += width;
        Some(*end as f64 / total)
    });
    let turns = ends.take(widths.len().saturating_sub(1)).collect();
    let seconds = Scale::linear(0.0, total * SLICE.as_secs_f64());
    let mut across = seconds.marks();
    across.iter_mut().for_each(|mark| mark.text += " s");
    Drawing { class, caption, across, up, turns, lines }.draw()
}

/// How many slices wide each round is: as many as its longer side has.
fn widths(chart: &Chart) -> Vec<usize> {
    let length = |trace: &Trace, round: usize| trace.rounds.get(round).map_or(0, Vec::len);
    let rounds = chart.store.rounds.len().max(chart.ceiling.rounds.len());
    (0..rounds).map(|round| length(&chart.store, round).max(length(&chart.ceiling, round))).collect()
}

/// A point in the middle of each slice, and a gap between rounds.
fn points(
    trace: &Trace,
    widths: &[usize],
    place: impl Fn(f64, &Slice) -> Option<(f64, f64)>,
) -> Vec<Option<(f64, f64)>> {
    let (mut points, mut start) = (Vec::new(), 0);
    for (round, width) in trace.rounds.iter().zip(widths) {
        points.extend(round.iter().enumerate().map(|(at, slice)| place((start + at) as f64 + 0.5, slice)));
        points.push(None);
        start += width;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_stall_is_a_gap_in_latency_and_zero_in_throughput() {
        let mut chart = example().charts[0].clone();
        let slice = |per_second: f64| Slice { per_second, p99_us: (per_second > 0.0).then_some(200.0) };
        chart.store.rounds = vec![vec![slice(9.0), slice(0.0), slice(9.0)], vec![slice(9.0)]];
        chart.ceiling.rounds = vec![vec![slice(9.0)], vec![slice(9.0), slice(9.0)]];
        assert_eq!(widths(&chart), [3, 2]);
        let latency = points(&chart.store, &[3, 2], |at, slice| slice.p99_us.map(|us| (at, us)));
        assert_eq!(latency, [Some((0.5, 200.0)), None, Some((2.5, 200.0)), None, Some((3.5, 200.0)), None]);
        let rate = points(&chart.store, &[3, 2], |at, slice| Some((at, slice.per_second)));
        assert_eq!(rate[1], Some((1.5, 0.0)));
        assert!(p99(&chart).is_some() && throughput(&chart).is_some());
    }

    #[test]
    fn a_case_without_latencies_has_no_course() {
        let mut chart = example().charts[0].clone();
        chart.store.rounds = vec![vec![Slice { per_second: 0.0, p99_us: None }]];
        assert!(p99(&chart).is_none() && throughput(&chart).is_none());
    }
}
