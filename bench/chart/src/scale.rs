//! A scale: from figures to places in a chart, and the marks along an axis.

/// A range of figures along an axis of a chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

/// A mark on an axis: where, in parts of the axis from 0 to 1, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Where it stands.
    pub place: f64,
    /// What it says.
    pub text: String,
}

impl Scale {
    /// From `low` to `high`, evenly.
    #[must_use]
    pub fn linear(low: f64, high: f64) -> Scale {
        Scale { low, high: high.max(low + 1e-9), logarithmic: false }
    }

    /// By powers of ten around all of `figures`, which are positive.
    #[must_use]
    pub fn logarithmic(figures: impl Iterator<Item = f64>) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for figure in figures.filter(|figure| figure.is_finite() && *figure > 0.0) {
            (low, high) = (low.min(figure), high.max(figure));
        }
        // Half a step of room: a flat line is not drawn on the edge.
        let (low, high) = if low <= high { (low / 1.3, high * 1.3) } else { (1.0, 10.0) };
        Scale { low, high, logarithmic: true }
    }

    /// From 0 to a round figure above all of `figures`.
    #[must_use]
    pub fn from_zero(figures: impl Iterator<Item = f64>) -> Scale {
        let highest = figures.filter(|figure| figure.is_finite()).fold(0.0, f64::max);
        Scale::linear(0.0, if highest > 0.0 { highest * 1.05 } else { 1.0 })
    }

    /// Where a figure stands, from 0 to 1; what lies outside stands on the edge.
    #[must_use]
    pub fn place(&self, figure: f64) -> f64 {
        let along = |figure: f64| if self.logarithmic { figure.max(1e-9).log10() } else { figure };
        let (low, high) = (along(self.low), along(self.high));
        ((along(figure) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Marks at round figures.
    #[must_use]
    pub fn marks(&self) -> Vec<Mark> {
        let figures = if self.logarithmic { self.decades() } else { self.steps() };
        figures.into_iter().map(|figure| Mark { place: self.place(figure), text: short(figure) }).collect()
    }

    /// 1, 2, 5 and 10 of each power of ten; only the powers where those would be too many.
    fn decades(&self) -> Vec<f64> {
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let few = self.high / self.low < 300.0;
        let of_power = |power: i32| {
            let leading: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
            leading.iter().map(move |digit| digit * 10f64.powi(power))
        };
        powers.flat_map(of_power).filter(|figure| (self.low..=self.high).contains(figure)).collect()
    }

    /// About four even steps of 1, 2 or 5 times a power of ten.
    fn steps(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..=(self.high / step).floor() as i64).map(|at| at as f64 * step).collect()
    }
}

/// A round figure, shortly: 20, 0.5, 2k, 1.5M.
fn short(figure: f64) -> String {
    let (scaled, unit) = match figure.abs() {
        size if size >= 1e6 => (figure / 1e6, "M"),
        size if size >= 1e3 => (figure / 1e3, "k"),
        _ => (figure, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: Scale) -> Vec<String> {
        scale.marks().into_iter().map(|mark| mark.text).collect()
    }

    #[test]
    fn marks_stand_at_round_figures() {
        assert_eq!(texts(Scale::logarithmic([90.0, 1500.0].into_iter())), ["100", "200", "500", "1k"]);
        assert_eq!(texts(Scale::logarithmic([3.0, 40_000.0].into_iter())), ["10", "100", "1k", "10k"]);
        assert_eq!(texts(Scale::linear(0.0, 3.2)), ["0", "1", "2", "3"]);
        assert_eq!(texts(Scale::from_zero([7000.0, f64::NAN].into_iter())), ["0", "2k", "4k", "6k"]);
    }

    #[test]
    fn every_figure_has_a_place_inside() {
        let scale = Scale::logarithmic([10.0, 1000.0].into_iter());
        assert!((scale.place(100.0) - 0.5).abs() < 1e-9);
        for figure in [-1.0, 0.0, 1e12, f64::INFINITY] {
            assert!((0.0..=1.0).contains(&scale.place(figure)), "{figure}");
        }
        for nothing in [Scale::logarithmic(std::iter::empty()), Scale::from_zero(std::iter::empty())] {
            assert!(!nothing.marks().is_empty() && nothing.place(1.0).is_finite());
        }
    }
}
