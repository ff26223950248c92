//! A chart: lines in a frame with two axes, as inline SVG whose colours come from the page.

use crate::{Mark, Scale};
use maud::{Markup, html};
use std::fmt::Write;

/// How wide a chart is, in pixels.
pub const WIDTH: f64 = 560.0;
/// How high it is.
pub const HEIGHT: f64 = 260.0;

const LEFT: f64 = 46.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 24.0;

/// One line of a chart. `class` is its colour, and its name in the legend.
#[derive(Debug)]
pub struct Line {
    /// What it shows: `store` or `ceiling`.
    pub class: &'static str,
    /// Its name in the legend.
    pub name: &'static str,
    /// Points, from 0 to 1 along both axes. A gap where nothing is known.
    pub points: Vec<Option<(f64, f64)>>,
    /// Whether its last point is marked.
    pub marked: bool,
}

/// A chart.
#[derive(Debug)]
pub struct Drawing<'a> {
    /// What kind it is.
    pub class: &'static str,
    /// What it shows.
    pub caption: &'a str,
    /// Marks along the lower edge.
    pub across: Vec<Mark>,
    /// The scale of the left edge.
    pub up: Scale,
    /// Where one round ends and the next begins, from 0 to 1.
    pub turns: Vec<f64>,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Drawing<'_> {
    /// Draws it, with its caption, for a page.
    #[must_use]
    pub fn draw(&self) -> Markup {
        html! {
            figure {
                figcaption { (self.caption) }
                svg class=(self.class) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(self.caption) {
                    (self.inside())
                }
            }
        }
    }

    /// Draws it without its caption, for an image that holds several.
    #[must_use]
    pub fn inside(&self) -> Markup {
        html! {
            @for mark in self.up.marks() { (self.upward(&mark)) }
            @for mark in &self.across { (self.across(mark)) }
            @for turn in &self.turns { (vertical("turn", x(*turn))) }
            @for line in &self.lines { (line.draw()) }
            (self.legend())
        }
    }

    fn upward(&self, mark: &Mark) -> Markup {
        let height = y(mark.place);
        html! {
            line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(height) y2=(height) {}
            text x=(LEFT - 6.0) y=(rounded(height + 4.0)) text-anchor="end" { (mark.text) }
        }
    }

    fn across(&self, mark: &Mark) -> Markup {
        html! {
            (vertical("grid", x(mark.place)))
            text x=(x(mark.place)) y=(HEIGHT - 8.0) text-anchor="middle" { (mark.text) }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            @for (at, line) in self.lines.iter().enumerate() {
                @let left = LEFT + 110.0 * at as f64;
                line class=(line.class) x1=(left) x2=(left + 24.0) y1="10" y2="10" {}
                text class=(line.class) x=(left + 30.0) y="14" { (line.name) }
            }
        }
    }
}

impl Line {
    fn draw(&self) -> Markup {
        html! {
            path class=(self.class) d=(self.path()) {}
            @if let (true, Some((across, up))) = (self.marked, self.points.iter().flatten().next_back()) {
                circle class=(self.class) cx=(x(*across)) cy=(y(*up)) r="3" {}
            }
        }
    }

    /// Moves to the first point after a gap, and draws to each other.
    fn path(&self) -> String {
        let (mut path, mut drawing) = (String::new(), false);
        for (at, point) in self.points.iter().enumerate() {
            let Some((across, up)) = point else {
                drawing = false;
                continue;
            };
            // A point between two gaps would not be seen: it becomes a short stroke.
            let alone = !drawing && self.points.get(at + 1).is_none_or(Option::is_none);
            let _ = write!(path, "{}{} {}", if drawing { 'L' } else { 'M' }, x(*across), y(*up));
            path += if alone { "h2" } else { "" };
            drawing = true;
        }
        path
    }
}

fn vertical(class: &str, at: f64) -> Markup {
    html! { line class=(class) x1=(at) x2=(at) y1=(TOP) y2=(HEIGHT - BOTTOM) {} }
}

fn x(place: f64) -> f64 {
    rounded(LEFT + place * (WIDTH - LEFT - RIGHT))
}

fn y(place: f64) -> f64 {
    rounded(HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM))
}

/// A tenth of a pixel is enough, and keeps the page small.
fn rounded(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_breaks_the_line_and_a_lone_point_is_seen() {
        let points = vec![Some((0.0, 0.0)), Some((0.5, 1.0)), None, Some((1.0, 0.0))];
        let line = Line { class: "store", name: "store", points, marked: true };
        assert_eq!(line.path(), "M46 236L296 22M546 236h2");
        assert!(line.draw().into_string().contains("<circle"));
    }
}
