//! Plot: memory, descriptors and disk over the time of a run, as an image that shows itself in light and dark pages.

use super::course::Kept;
use super::sample::Sample;
use super::slope::{Measure, bins};
use maud::{Markup, PreEscaped, html};
use strandline_chart::{Drawing, HEIGHT, Line, Mark, Scale, WIDTH};

/// Above each chart stands its caption.
const CAPTION: f64 = 26.0;

/// Around all of it.
const MARGIN: f64 = 12.0;

/// Seconds without a sample behind which a line begins anew.
const GAP_S: f64 = 15.0;

const MIB: f64 = 1024.0;

/// Plain colours: not every viewer of images knows variables, or that a page may be dark.
const STYLE: &str = "
.paper { fill: #fdfdfb; }
text { fill: #68737d; font: 11px system-ui, sans-serif; }
text.caption { fill: #1d2329; font-size: 12.5px; }
.grid { stroke: #d9dee2; stroke-width: 1; }
.turn { stroke: #98a3ad; stroke-width: 1; stroke-dasharray: 2 3; }
path { fill: none; stroke-width: 1.4; stroke-linejoin: round; }
.store { stroke: #0b63b5; }
.ceiling { stroke: #b8600b; }
text.store { fill: #0b63b5; stroke: none; }
text.ceiling { fill: #b8600b; stroke: none; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #14181c; }
  text { fill: #98a3ad; }
  text.caption { fill: #e3e7ea; }
  .grid { stroke: #333b42; }
  .turn { stroke: #5b6670; }
  .store { stroke: #6cb2f5; }
  .ceiling { stroke: #f0a04b; }
  text.store { fill: #6cb2f5; }
  text.ceiling { fill: #f0a04b; }
}
";

/// A line: its colour, its name, what it measures, and by what that is divided.
type Curve = (&'static str, &'static str, Measure, f64);

const CHARTS: [(&str, &[Curve]); 3] = [
    (
        "memory of the store's process, MiB",
        &[("store", "resident", Measure::Resident, MIB), ("ceiling", "anonymous", Measure::Anonymous, MIB)],
    ),
    (
        "descriptors and threads of the store's process",
        &[("store", "descriptors", Measure::Descriptors, 1.0), ("ceiling", "threads", Measure::Threads, 1.0)],
    ),
    ("the store's directory, MiB", &[("store", "disk", Measure::Bytes, MIB)]),
];

/// Draws a run.
pub fn draw(kept: &Kept) -> String {
    let parts: Vec<String> =
        kept.courses.iter().map(|course| format!("{:.0} min on {}", course.took_s / 60.0, course.on)).collect();
    let title = format!("Soak, seed {}, commit {}: {}", kept.seed, kept.commit, parts.join(", then "));
    let (width, each) = (WIDTH + 2.0 * MARGIN, HEIGHT + CAPTION);
    let height = CAPTION + each * CHARTS.len() as f64 + 2.0 * MARGIN;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height)
            role="img" aria-label=(title) {
            style { (PreEscaped(STYLE)) }
            rect.paper width=(width) height=(height) {}
            text.caption x=(MARGIN) y=(MARGIN + 10.0) { (title) }
            @for (place, (caption, curves)) in CHARTS.iter().enumerate() {
                @let top = MARGIN + CAPTION + each * place as f64;
                text.caption x=(MARGIN) y=(top + 12.0) { (caption) }
                g transform=(format!("translate({MARGIN} {})", top + CAPTION - 6.0)) { (chart(kept, caption, curves)) }
            }
        }
    };
    markup.into_string()
}

fn chart(kept: &Kept, caption: &str, curves: &[Curve]) -> Markup {
    let total = kept.courses.iter().map(|course| course.took_s).sum::<f64>().max(1.0);
    let courses: Vec<Vec<Vec<(f64, f64)>>> = curves.iter().map(|curve| points(kept, *curve)).collect();
    let up = Scale::from_zero(courses.iter().flatten().flatten().map(|(_, figure)| *figure));
    let lines = curves.iter().zip(&courses).map(|((class, name, ..), parts)| Line {
        class,
        name,
        points: broken_at_gaps(parts).map(|point| point.map(|(at, figure)| (at / total, up.place(figure)))).collect(),
        marked: false,
    });
    let lines = lines.collect();
    let minutes = Scale::linear(0.0, total / 60.0);
    let across = minutes.marks().into_iter().map(|mark| Mark { text: mark.text + " min", ..mark }).collect();
    let turns = ends(kept).map(|end| end / total).collect();
    Drawing { class: "soak", caption, across, up, turns, lines }.inside()
}

/// When each part began, and it.
fn begun(kept: &Kept) -> impl Iterator<Item = (f64, &super::course::Course)> {
    kept.courses.iter().scan(0.0, |begun, course| {
        let this = *begun;
        *begun += course.took_s;
        Some((this, course))
    })
}

/// When processes ended.
fn ends(kept: &Kept) -> impl Iterator<Item = f64> {
    begun(kept).flat_map(|(begun, course)| course.ends.iter().map(move |end| begun + end))
}

/// The bins of each part, which are what was judged.
fn points(kept: &Kept, (_, _, measure, unit): Curve) -> Vec<Vec<(f64, f64)>> {
    let parts = begun(kept).map(|(begun, course)| {
        let point = |sample: &Sample| (begun + sample.at_s, measure.of(sample) / unit);
        bins(&course.samples.iter().map(point).collect::<Vec<_>>())
    });
    parts.collect()
}

fn broken_at_gaps(parts: &[Vec<(f64, f64)>]) -> impl Iterator<Item = Option<(f64, f64)>> {
    let of_part = |part: &Vec<(f64, f64)>| {
        let mut points = Vec::new();
        for (place, point) in part.iter().enumerate() {
            let before = place.checked_sub(1).and_then(|before| part.get(before));
            if before.is_some_and(|before| point.0 - before.0 > GAP_S) {
                points.push(None);
            }
            points.push(Some(*point));
        }
        points.push(None);
        points
    };
    parts.iter().flat_map(of_part)
}

#[cfg(test)]
mod tests {
    use super::super::course::Course;
    use super::*;

    #[test]
    fn a_run_of_two_parts_becomes_an_image_with_its_lines_and_the_ends_of_its_processes() {
        let sample = |at: u64| Sample {
            at_s: at as f64,
            age_s: at as f64,
            resident: 20 << 20,
            anonymous: 9 << 20,
            descriptors: 40,
            threads: 20,
            bytes: 9 << 20,
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..60).chain(90..120).map(sample).collect();
        let course = |on: &str| Course {
            on: on.to_owned(),
            took_s: 120.0,
            samples: samples.clone(),
            ends: vec![60.0, 120.0],
            ..Course::default()
        };
        let kept = Kept { courses: vec![course("ext4"), course("fuse")], commit: "<&".to_owned(), ..Kept::default() };
        let image = draw(&kept);
        assert!(image.starts_with("<svg xmlns") && image.contains("prefers-color-scheme: dark"));
        assert!(image.contains("2 min on ext4, then 2 min on fuse") && image.contains("&lt;&amp;"));
        let paths: Vec<&str> = image.split("<path").skip(1).collect();
        assert_eq!(paths.len(), 5);
        // Two parts, each with a gap.
        assert!(
            paths.iter().all(|path| path.split("</path>").next().is_some_and(|path| path.matches('M').count() == 4))
        );
        assert_eq!(image.matches("class=\"turn\"").count(), 3 * 4);
        assert!(!image.contains("NaN") && !image.contains("<script"));
    }
}
