//! Slope: whether a measure grows over time, told apart from noise. Pure.
//!
//! The rule. Samples are taken each second. Three kinds of stretches are judged: a whole part, each process, and each time that the store was
//! open. Of each the first 20 s are left out; of a whole part the first 20 s of every process; and the first third of a part everywhere (20 s at
//! least, 90 s at most), in which the store fills. What is left is put into bins of 5 s, each with the median of its times and figures. The slope is the
//! median of the slopes of all pairs of bins (Theil and Sen). Its interval is that of Sen at 99 %: the slopes at the ranks (N -+ 2.576 s) / 2
//! of the N pairs, where s squared is n (n - 1) (2 n + 5) / 18 for n bins, made larger by (1 + r) / (1 - r) for what a bin has of the one
//! before it, r being the correlation of neighbours among what the line leaves (0 at least, 0.9 at most).
//!
//! A measure grows when the lower end of the interval is above 0 and the slope, over the time that was looked at, comes to more than its floor
//! ([`Measure::floor`]), which is what one step of it more or less may be. Fewer than 8 bins are not judged. A measure that shrinks does not
//! grow.

use super::sample::Sample;
use serde::Serialize;

/// Seconds of a stretch that are left out.
pub const WARM_UP_S: f64 = 20.0;

/// Seconds of a bin.
const BIN_S: f64 = 5.0;

/// Fewer bins are not judged.
const BINS_MIN: usize = 8;

/// The quantile of 99 %, both sides.
const QUANTILE: f64 = 2.576;

/// The largest correlation of neighbours that is made up for.
const CORRELATION_MAX: f64 = 0.9;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Memory that no file stands behind.
    Anonymous,
    /// Resident memory.
    Resident,
    /// Open descriptors.
    Descriptors,
    /// Threads.
    Threads,
    /// Bytes in the store's directory.
    Bytes,
    /// Files and directories in it.
    Files,
}

/// All of them.
pub const MEASURES: [Measure; 6] =
    [Measure::Anonymous, Measure::Resident, Measure::Descriptors, Measure::Threads, Measure::Bytes, Measure::Files];

impl Measure {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Anonymous => "anonymous memory, KiB",
            Measure::Resident => "resident memory, KiB",
            Measure::Descriptors => "descriptors",
            Measure::Threads => "threads",
            Measure::Bytes => "disk, KiB",
            Measure::Files => "files and directories",
        }
    }

    /// What a sample says of it.
    pub fn of(self, sample: &Sample) -> f64 {
        match self {
            Measure::Anonymous => sample.anonymous as f64 / 1024.0,
            Measure::Resident => sample.resident as f64 / 1024.0,
            Measure::Descriptors => sample.descriptors as f64,
            Measure::Threads => sample.threads as f64,
            Measure::Bytes => sample.bytes as f64 / 1024.0,
            Measure::Files => sample.files as f64,
        }
    }

    /// How much it may come to more over the time that was looked at, where it stands at `level`.
    pub fn floor(self, level: f64) -> f64 {
        let (least, share) = match self {
            // Buffers that are used again become as large as the largest batch that each of them held, which takes minutes.
            Measure::Anonymous | Measure::Resident => (2_048.0, 0.05),
            Measure::Threads => (3.0, 0.03),
            // A segment is a descriptor while its file is open, and two entries of the directory: their number swings with the load.
            Measure::Descriptors => (3.0, 0.15),
            Measure::Bytes => (512.0, 0.15),
            Measure::Files => (4.0, 0.15),
        };
        f64::max(least, share * level)
    }
}

/// A line through a measure over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slope {
    /// The median of the measure.
    pub level: f64,
    /// How much more each second.
    pub per_s: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of it.
    pub high: f64,
    /// Seconds from the first bin to the last.
    pub span_s: f64,
    /// How many bins there are.
    pub bins: usize,
}

impl Slope {
    /// Of points, which are a time in seconds and a figure each, in the order of time. `None` where there are too few.
    pub fn through(points: &[(f64, f64)]) -> Option<Slope> {
        let bins = bins(points);
        let (Some(first), Some(last)) = (bins.first(), bins.last()) else { return None };
        if bins.len() < BINS_MIN {
            return None;
        }
        let pairs = bins.iter().enumerate().flat_map(|(at, one)| bins[at + 1..].iter().map(move |other| (one, other)));
        let mut slopes: Vec<f64> = pairs.map(|(one, other)| (other.1 - one.1) / (other.0 - one.0)).collect();
        slopes.sort_by(f64::total_cmp);
        let per_s = median(&mut slopes);
        let count = bins.len() as f64;
        let spread = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt() * widening(&bins, per_s).sqrt();
        let rank = |side: f64| {
            let rank = (slopes.len() as f64 + side * QUANTILE * spread) / 2.0;
            slopes[(rank.round().max(0.0) as usize).min(slopes.len() - 1)]
        };
        let level = median(&mut bins.iter().map(|(_, figure)| *figure).collect::<Vec<_>>());
        let (low, high, span_s) = (rank(-1.0), rank(1.0), last.0 - first.0);
        Some(Slope { level, per_s, low, high, span_s, bins: bins.len() })
    }

    /// How much it comes to over the time that was looked at.
    pub fn growth(&self) -> f64 {
        self.per_s * self.span_s
    }

    /// Whether it grows.
    pub fn grows(&self, measure: Measure) -> bool {
        self.low > 0.0 && self.growth() > measure.floor(self.level)
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        length if length % 2 == 1 => figures[length / 2],
        length => (figures[length / 2 - 1] + figures[length / 2]) / 2.0,
    }
}

/// The bins of points that stand in the order of time: the median of the times and of the figures of each.
pub fn bins(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let bin = |point: &(f64, f64)| (point.0 / BIN_S).floor();
    points
        .chunk_by(|one, other| bin(one) == bin(other))
        .map(|points| {
            let (mut times, mut figures): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
            (median(&mut times), median(&mut figures))
        })
        .collect()
}

/// By how much the variance is larger than that of bins that know nothing of each other.
fn widening(bins: &[(f64, f64)], per_s: f64) -> f64 {
    let mut left: Vec<f64> = bins.iter().map(|(time, figure)| figure - per_s * time).collect();
    let middle = median(&mut left.clone());
    left.iter_mut().for_each(|left| *left -= middle);
    let all: f64 = left.iter().map(|left| left * left).sum();
    let neighbours: f64 = left.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = if all > 0.0 { (neighbours / all).clamp(0.0, CORRELATION_MAX) } else { 0.0 };
    (1.0 + correlation) / (1.0 - correlation)
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stretch {
    /// A whole part.
    Whole,
    /// A process, by its number.
    Process(u64),
    /// From an opening of the store, by its number, to the next one.
    Opening(u64),
}

/// What was found of one measure in one stretch.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Of what.
    pub measure: Measure,
    /// When.
    pub stretch: Stretch,
    /// The line.
    pub slope: Slope,
    /// Whether it grows.
    pub grows: bool,
}

/// Judges the samples of a part, measure by measure.
pub fn judge(samples: &[Sample]) -> Vec<Judged> {
    let stretches = stretches(samples);
    let judged = MEASURES.into_iter().flat_map(|measure| {
        stretches.iter().filter_map(move |(stretch, samples)| {
            let points: Vec<(f64, f64)> = samples.iter().map(|sample| (sample.at_s, measure.of(sample))).collect();
            let slope = Slope::through(&points)?;
            Some(Judged { measure, stretch: *stretch, slope, grows: slope.grows(measure) })
        })
    });
    judged.collect()
}

/// The samples of each stretch, without those that are left out.
fn stretches(samples: &[Sample]) -> Vec<(Stretch, Vec<Sample>)> {
    let of = |is_of: &dyn Fn(&Sample) -> bool| samples.iter().copied().filter(is_of).collect::<Vec<_>>();
    let from = (samples.last().map_or(0.0, |sample| sample.at_s) / 3.0).clamp(WARM_UP_S, 90.0);
    let whole = of(&|sample| sample.age_s >= WARM_UP_S && sample.at_s >= from);
    let open = of(&|sample| sample.open_s >= WARM_UP_S && sample.at_s >= from);
    let lives = whole.chunk_by(|one, other| one.life == other.life);
    let openings = open.chunk_by(|one, other| one.opening == other.opening);
    let named = |stretch: fn(&Sample) -> Stretch| move |samples: &[Sample]| (stretch(&samples[0]), samples.to_vec());
    let lives = lives.map(named(|sample| Stretch::Process(sample.life)));
    let openings = openings.map(named(|sample| Stretch::Opening(sample.opening)));
    [(Stretch::Whole, whole.clone())].into_iter().chain(lives).chain(openings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A sample each second, of a figure that `figure` gives for the second and a number from 0 to 1.
    fn points(seconds: u64, seed: u64, figure: impl Fn(f64, f64) -> f64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed, 1);
        let chance = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20);
        (0..seconds).map(|at| (at as f64, figure(at as f64, chance(&mut random)))).collect()
    }

    fn grows(measure: Measure, points: &[(f64, f64)]) -> bool {
        Slope::through(points).expect("enough").grows(measure)
    }

    #[test]
    fn a_leak_of_a_known_size_grows_and_its_slope_is_found() {
        for seed in 0..50 {
            // 8 KiB a second under a noise of 4 MiB, and a descriptor in 30 s under a noise of 10.
            let memory = points(600, seed, |at, chance| 20_000.0 + 8.0 * at + 4_096.0 * chance);
            let slope = Slope::through(&memory).expect("enough");
            assert!(slope.low < 8.0 && 8.0 < slope.high && (slope.per_s - 8.0).abs() < 1.0, "{slope:?}");
            assert!(slope.grows(Measure::Anonymous));
            let descriptors = points(600, seed, |at, chance| (60.0 + at / 30.0 + 10.0 * chance).floor());
            assert!(grows(Measure::Descriptors, &descriptors));
            // What the store throws away and takes again, and a file of 64 KiB that stays in each 10 s.
            let disk = points(600, seed, |at, chance| 9_000.0 + 6.4 * at + 500.0 * (at % 37.0) / 37.0 + 300.0 * chance);
            assert!(grows(Measure::Bytes, &disk));
        }
    }

    #[test]
    fn noise_does_not_grow() {
        for seed in 0..200 {
            let noise = points(400, seed, |_, chance| 20_000.0 + 8_000.0 * chance);
            assert!(!grows(Measure::Anonymous, &noise), "seed {seed}: {:?}", Slope::through(&noise));
            let saw = points(400, seed, |at, chance| 9_000.0 + 2_000.0 * ((at + 60.0 * chance) % 61.0) / 61.0);
            assert!(!grows(Measure::Bytes, &saw), "seed {seed}: {:?}", Slope::through(&saw));
        }
    }

    #[test]
    fn noise_that_wanders_is_rarely_taken_for_growth() {
        let wrong = (0..200).filter(|seed| {
            let mut at = 0.0;
            let wander: Vec<(f64, f64)> = points(400, *seed, |_, chance| chance - 0.5)
                .into_iter()
                .map(|(time, step)| {
                    at = 0.95 * at + step * 2_000.0;
                    (time, 20_000.0 + at)
                })
                .collect();
            grows(Measure::Anonymous, &wander)
        });
        assert!(wrong.count() <= 8, "of 200");
    }

    #[test]
    fn what_stands_still_shrinks_or_comes_to_less_than_a_step_does_not_grow() {
        assert!(!grows(Measure::Threads, &points(300, 1, |_, _| 17.0)));
        assert!(!grows(Measure::Anonymous, &points(300, 1, |at, _| 50_000.0 - 9.0 * at)));
        assert!(!grows(Measure::Anonymous, &points(300, 1, |at, _| 20_000.0 + at)), "300 KiB in all");
        assert!(grows(Measure::Anonymous, &points(3_600, 1, |at, _| 20_000.0 + at)), "3,600 KiB in all");
        assert_eq!(Slope::through(&points(34, 1, |_, _| 1.0)), None, "too few bins");
        assert_eq!(Slope::through(&[]), None);
    }

    #[test]
    fn each_stretch_is_judged_by_what_is_left_when_it_is_warm() {
        let sample = |at: u64| {
            let (life, age_s, open_s) = (at / 200, (at % 200) as f64, (at % 100) as f64);
            // Memory grows for 20 s in each process and then not; the disk grows from process to process; descriptors only in the second one;
            // threads while the store is open for the third time.
            let anonymous = (10 << 20) + ((age_s.min(20.0) as u64) << 20);
            let (bytes, descriptors) = ((20 << 20) + (life << 20), if life == 1 { 50 + at % 200 } else { 100 });
            let threads = if at / 100 == 2 { at % 100 } else { 50 };
            let (at_s, opening) = (at as f64, at / 100);
            Sample { at_s, life, age_s, opening, open_s, anonymous, bytes, descriptors, threads, ..Sample::default() }
        };
        let judged = judge(&(0..1_000).map(sample).collect::<Vec<_>>());
        let grown = judged.iter().filter(|judged| judged.grows).map(|judged| (judged.measure, judged.stretch));
        assert_eq!(
            grown.collect::<Vec<_>>(),
            [
                (Measure::Descriptors, Stretch::Process(1)),
                (Measure::Descriptors, Stretch::Opening(2)),
                (Measure::Descriptors, Stretch::Opening(3)),
                (Measure::Threads, Stretch::Opening(2)),
                (Measure::Bytes, Stretch::Whole),
            ]
        );
        let whole = judged.iter().find(|judged| judged.stretch == Stretch::Whole).expect("the whole part");
        assert!((890.0..=910.0).contains(&whole.slope.span_s), "{whole:?}");
    }
}
