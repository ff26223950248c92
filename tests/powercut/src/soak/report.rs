//! Report: what a run came to, as a table, as lines of the record, and as a verdict.

use super::course::{Course, Kept};
use super::leak::Leak;
use super::slope::{Judged, MEASURES, Measure, Stretch, judge};
use std::collections::BTreeSet;
use std::fmt;
use strandline_tests::record::{Host, Run};
use strandline_tests::tiers::Tally;

/// As the tier is called in the record.
pub const TIER: &str = "t10";

/// Of a run.
#[derive(Debug)]
pub struct Report {
    kept: Kept,
    judged: Vec<Vec<Judged>>,
}

impl Report {
    /// Judges it.
    pub fn new(kept: Kept) -> Report {
        let judged = kept.courses.iter().map(|course| judge(&course.samples)).collect();
        Report { kept, judged }
    }

    /// What it is made of.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// As lines of the record, one for each part.
    pub fn runs(&self) -> Vec<Run> {
        let of = |(course, judged): (&Course, &Vec<Judged>)| {
            let Kept { seed, kernel, commit, date, .. } = &self.kept;
            let host = Host { kernel: kernel.clone(), file_system: course.on.clone(), commit: commit.clone() };
            let faults = course.faults.values().sum::<u64>();
            Run {
                date: date.clone(),
                runs: course.ends.len() as u64,
                tally: Tally { crashes: course.crashes, dropped: 0, faults },
                seconds: course.took_s,
                violations: (course.broken.len() + judged.iter().filter(|judged| judged.grows).count()) as u64,
                ..Run::ended(TIER, (*seed, seed + 1), host)
            }
        };
        self.kept.courses.iter().zip(&self.judged).map(of).collect()
    }

    /// Measures that grow, in any part.
    fn grown(&self) -> BTreeSet<Measure> {
        self.judged.iter().flatten().filter(|judged| judged.grows).map(|judged| judged.measure).collect()
    }

    /// Whether it came out as it should: nothing grows, no promise was broken, and there was enough to judge.
    ///
    /// # Errors
    /// Why not.
    pub fn verdict(&self) -> Result<(), String> {
        let broken: Vec<String> =
            self.kept.courses.iter().flat_map(|course| &course.broken).map(ToString::to_string).collect();
        let grown: Vec<&str> = self.grown().into_iter().map(Measure::name).collect();
        let is_judged = |judged: &Vec<Judged>| MEASURES.iter().all(|measure| has_whole(judged, *measure));
        match () {
            () if !broken.is_empty() => Err(format!("promises were broken:\n  {}", broken.join("\n  "))),
            () if !grown.is_empty() => Err(format!("this grows: {}", grown.join("; "))),
            () if self.judged.is_empty() || !self.judged.iter().all(is_judged) => {
                Err("there are too few samples to judge: run it longer".to_owned())
            }
            () => Ok(()),
        }
    }

    /// Whether a leak was noticed, and as nothing else.
    ///
    /// # Errors
    /// Why not.
    pub fn notices(&self, leak: Leak) -> Result<(), String> {
        let (must, may): (&[Measure], &[Measure]) = match leak {
            Leak::Memory => (&[Measure::Anonymous], &[Measure::Resident]),
            Leak::Descriptor => (&[Measure::Descriptors], &[]),
            Leak::Disk => (&[Measure::Bytes, Measure::Files], &[]),
        };
        let grown = self.grown();
        let broken: usize = self.kept.courses.iter().map(|course| course.broken.len()).sum();
        let other: Vec<&Measure> = grown.iter().filter(|grown| !must.contains(grown) && !may.contains(grown)).collect();
        match () {
            () if broken > 0 => self.verdict(),
            () if !must.iter().all(|must| grown.contains(must)) => {
                Err(format!("the leak of {leak:?} was not noticed; what grows: {grown:?}"))
            }
            () if !other.is_empty() => {
                Err(format!("the leak of {leak:?} was noticed, and this grows as well: {other:?}"))
            }
            () => Ok(()),
        }
    }
}

fn has_whole(judged: &[Judged], measure: Measure) -> bool {
    judged.iter().any(|judged| judged.measure == measure && judged.stretch == Stretch::Whole)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kept { seed, kernel, commit, date, .. } = &self.kept;
        for (course, judged) in self.kept.courses.iter().zip(&self.judged) {
            writeln!(f, "on {}, {:.1} min, {} processes", course.on, course.took_s / 60.0, course.ends.len())?;
            table(f, judged)?;
            let faults: Vec<String> = course.faults.iter().map(|(what, times)| format!("{what} {times}")).collect();
            writeln!(f, "what happened: {}; operations that went wrong: {}", faults.join(", "), course.struck)?;
            writeln!(f, "{:?}", course.counted)?;
            let Course { checked, refused, refusals, .. } = course;
            writeln!(f, "acknowledged batches looked for: {checked}; calls refused while something failed: {refused}")?;
            refusals.iter().try_for_each(|refusal| writeln!(f, "  {refusal}"))?;
            course.broken.iter().try_for_each(|broken| writeln!(f, "broken: {broken}"))?;
        }
        writeln!(f, "soak, seed {seed}, kernel {kernel}, commit {commit}, {date}")
    }
}

/// The whole part, and of the processes and the openings the one that grows most, measured by what it may; and all that grow.
fn table(f: &mut fmt::Formatter<'_>, judged: &[Judged]) -> fmt::Result {
    writeln!(f, "| measure | of | level | slope an hour | 99 % interval | comes to | may come to | grows |")?;
    writeln!(f, "|---|---|---|---|---|---|---|---|")?;
    for measure in MEASURES {
        for kind in 0..3 {
            let of = judged.iter().filter(|judged| judged.measure == measure && place(judged.stretch) == kind);
            let of: Vec<&Judged> = of.collect();
            let share = |judged: &Judged| judged.slope.growth() / measure.floor(judged.slope.level);
            let worst = of.iter().copied().max_by(|one, other| share(one).total_cmp(&share(other)));
            let grown = of.iter().copied().filter(|judged| judged.grows);
            for judged in worst.filter(|worst| !worst.grows).into_iter().chain(grown) {
                line(f, judged, of.len())?;
            }
        }
    }
    Ok(())
}

fn place(stretch: Stretch) -> u8 {
    match stretch {
        Stretch::Whole => 0,
        Stretch::Process(_) => 1,
        Stretch::Opening(_) => 2,
    }
}

fn line(f: &mut fmt::Formatter<'_>, judged: &Judged, count: usize) -> fmt::Result {
    let Judged { measure, stretch, slope, grows } = judged;
    let name = measure.name();
    let of = match stretch {
        Stretch::Whole => "the whole part".to_owned(),
        Stretch::Process(life) => format!("process {life}, the steepest of {count}"),
        Stretch::Opening(opening) => format!("opening {opening}, the steepest of {count}"),
    };
    let hourly = |per_s: f64| per_s * 3_600.0;
    let (level, per_hour, low, high) = (slope.level, hourly(slope.per_s), hourly(slope.low), hourly(slope.high));
    let (growth, floor) = (slope.growth(), measure.floor(slope.level));
    let grows = if *grows { "yes" } else { "no" };
    writeln!(
        f,
        "| {name} | {of} | {level:.0} | {per_hour:+.0} | {low:+.0} to {high:+.0} | {growth:+.1} | {floor:.0} | {grows} |"
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::*;
    use strandline_tests::tiers::promise::{Broken, Promise};

    /// A part of 100 s in one process, that leaks.
    fn of(leak: Option<Leak>, broken: bool) -> Report {
        let sample = |at: u64| {
            let by = |of: Leak| if leak == Some(of) { at } else { 0 };
            Sample {
                at_s: at as f64,
                age_s: at as f64,
                open_s: at as f64,
                life: 1,
                opening: 1,
                anonymous: (10 << 20) + (by(Leak::Memory) << 16),
                resident: (20 << 20) + (by(Leak::Memory) << 16),
                descriptors: 40 + by(Leak::Descriptor),
                threads: 20,
                bytes: (9 << 20) + (by(Leak::Disk) << 16),
                files: 90 + by(Leak::Disk),
            }
        };
        let broken = if broken { vec![Broken::new(Promise::Kept, "x")] } else { Vec::new() };
        let course =
            Course { samples: (0..100).map(sample).collect(), broken, on: "ext4".to_owned(), ..Course::default() };
        Report::new(Kept { courses: vec![course], ..Kept::default() })
    }

    #[test]
    fn what_stands_still_passes_and_what_grows_or_breaks_a_promise_does_not() {
        assert_eq!(of(None, false).verdict(), Ok(()));
        assert!(of(None, true).verdict().is_err());
        assert_eq!(of(None, false).runs()[0].violations, 0);
        assert_eq!(of(None, true).runs()[0].violations, 1);
        assert!(Report::new(Kept::default()).verdict().is_err(), "nothing was judged");
        let short = Kept { courses: vec![Course::default()], ..Kept::default() };
        assert!(Report::new(short).verdict().is_err(), "nothing was judged");
    }

    #[test]
    fn each_leak_fails_the_run_and_is_noticed_as_what_it_is() {
        for leak in [Leak::Memory, Leak::Descriptor, Leak::Disk] {
            let report = of(Some(leak), false);
            assert!(report.verdict().is_err());
            assert_eq!(report.notices(leak), Ok(()));
            let other = if leak == Leak::Disk { Leak::Memory } else { Leak::Disk };
            assert!(report.notices(other).is_err());
            assert!(of(None, false).notices(leak).is_err());
            assert!(of(Some(leak), true).notices(leak).is_err(), "a broken promise is no leak");
        }
    }
}
